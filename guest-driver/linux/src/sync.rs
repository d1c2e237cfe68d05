//! Locks, wait queues and work for later.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;

use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{self, LockRank, RawLock, WaitOutcome, WaitQueue};

use crate::ffi;
use crate::results::{check, created};

/// A kernel mutex.
pub(crate) struct Lock(NonNull<ffi::OsLock>);

// SAFETY: the functions below may be called from any thread.
unsafe impl Send for Lock {}
// SAFETY: as above.
unsafe impl Sync for Lock {}

impl Lock {
    /// Makes a lock, which the kernel's own checks tell from those of other ranks.
    pub(crate) fn new(rank: LockRank) -> Result<Lock> {
        // SAFETY: `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_lock_new(out, class(rank)) }).map(Lock)
    }
}

/// `enum os_lock_rank`.
fn class(rank: LockRank) -> u32 {
    match rank {
        LockRank::Process => 0,
        LockRank::ProcessState => 1,
        LockRank::Client => 2,
        LockRank::AddressSpace => 3,
        LockRank::Scheduler => 4,
        LockRank::InterruptRing => 5,
        LockRank::Processes => 6,
        LockRank::Events => 7,
        LockRank::Exceptions => 8,
        LockRank::PendingFault => 9,
        LockRank::SmiClients => 10,
        LockRank::SmiFifo => 11,
        LockRank::Vram => 12,
        LockRank::Gart => 13,
        LockRank::Invalidation => 14,
        LockRank::Object => 15,
        LockRank::RateLimit => 16,
        LockRank::Nodes => 17,
        LockRank::Trace => 18,
    }
}

impl RawLock for Lock {
    fn lock(&self) {
        // SAFETY: the lock lives as long as self.
        unsafe { ffi::os_lock_acquire(self.0.as_ptr()) }
    }

    unsafe fn unlock(&self) {
        // SAFETY: as above; the caller holds it.
        unsafe { ffi::os_lock_release(self.0.as_ptr()) }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: made by os_lock_new and dropped once.
        unsafe { ffi::os_lock_free(self.0.as_ptr()) }
    }
}

/// A kernel wait queue with a generation counter.
pub(crate) struct Queue(NonNull<ffi::OsWaitQueue>);

// SAFETY: the functions below may be called from any thread.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    /// Makes a wait queue.
    pub(crate) fn new() -> Result<Queue> {
        // SAFETY: `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_wait_queue_new(out) }).map(Queue)
    }
}

impl WaitQueue for Queue {
    fn ticket(&self) -> u64 {
        // SAFETY: the queue lives as long as self.
        unsafe { ffi::os_wait_queue_ticket(self.0.as_ptr()) }
    }

    fn wait(&self, ticket: u64, timeout_ns: Option<u64>) -> WaitOutcome {
        // SAFETY: the queue lives as long as self.
        let result =
            unsafe { ffi::os_wait_queue_wait(self.0.as_ptr(), ticket, timeout_ns.unwrap_or(u64::MAX)) };
        match check(result) {
            Ok(()) => WaitOutcome::Woken,
            Err(Errno::ETIME) => WaitOutcome::TimedOut,
            Err(_) => WaitOutcome::Interrupted,
        }
    }

    fn wake_all(&self) {
        // SAFETY: the queue lives as long as self.
        unsafe { ffi::os_wait_queue_wake_all(self.0.as_ptr()) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by os_wait_queue_new and dropped once; no thread sleeps on a queue without a reference
        // to it.
        unsafe { ffi::os_wait_queue_free(self.0.as_ptr()) }
    }
}

/// A kernel work item.
pub(crate) struct WorkItem(NonNull<ffi::OsWork>);

// SAFETY: the functions below may be called from any thread.
unsafe impl Send for WorkItem {}
// SAFETY: as above.
unsafe impl Sync for WorkItem {}

impl WorkItem {
    /// Makes a work item of a device.
    pub(crate) fn new(dev: *mut ffi::OsDevice, work: Arc<dyn os::Work>) -> Result<WorkItem> {
        let work: *mut Arc<dyn os::Work> = Box::into_raw(Box::new(work));
        // SAFETY: `dev` is valid during the call, and `out` a valid place for the result; the work is taken over in every case
        // and comes back through belfry_work_drop.
        created(|out| unsafe { ffi::os_work_new(dev, work.cast(), out) }).map(WorkItem)
    }
}

impl os::WorkItem for WorkItem {
    fn queue(&self) {
        // SAFETY: the item lives as long as self.
        unsafe { ffi::os_work_queue(self.0.as_ptr()) }
    }
}

impl Drop for WorkItem {
    fn drop(&mut self) {
        // SAFETY: made by os_work_new and dropped once.
        unsafe { ffi::os_work_release(self.0.as_ptr()) }
    }
}
