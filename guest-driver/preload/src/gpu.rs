//! The GPUs of this process, once there are some: forgotten in forked children, gone with the process.
#![expect(
    unsafe_code,
    reason = "keeps the GPU behind a pointer that a forked child can drop without touching it"
)]

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Instant;

use belfry_kfd_hosted::{HostedMachine, HostedProcess};

use crate::companion;
use crate::real::raw;

/// The GPUs, their driver, and this process as its user.
pub(crate) struct Gpu {
    pub(crate) machine: HostedMachine,
    pub(crate) process: HostedProcess,
    /// The process it is in: a child of `vfork` sees it as well.
    pub(crate) pid: i32,
    pub(crate) started: Instant,
    /// Milliseconds it took to start.
    pub(crate) start_ms: f64,
}

/// The GPU, never freed: its threads may run until the process has ended.
static GPU: AtomicPtr<Gpu> = AtomicPtr::new(std::ptr::null_mut());
/// The GPU, if this process has one already. Takes no lock.
pub(crate) fn running() -> Option<&'static Gpu> {
    // SAFETY: the stored pointer came from a leaked box.
    unsafe { GPU.load(Ordering::Acquire).as_ref() }
}

/// The GPU, if this process has one; `None` in a child of `vfork`, which has this process's memory and descriptors of
/// its own.
pub(crate) fn own() -> Option<&'static Gpu> {
    running().filter(|gpu| gpu.pid == companion::process())
}

/// Returns true if this is a child of `vfork`, with the memory of a process that has a GPU.
pub(crate) fn is_borrowed() -> bool {
    running().is_some_and(|gpu| gpu.pid != raw::getpid())
}

/// Makes it this process's.
pub(crate) fn is_there(gpu: Gpu) -> &'static Gpu {
    let gpu = Box::leak(Box::new(gpu));
    GPU.store(gpu, Ordering::Release);
    gpu
}

/// Set before the GPU is started: from then on a forked child has something to forget.
static USED: AtomicBool = AtomicBool::new(false);

/// Notes that a forked child will have something to forget.
pub(crate) fn is_to_forget() {
    USED.store(true, Ordering::SeqCst);
}

/// Returns true, once, if this process was forked from one that had something to forget.
pub(crate) fn has_to_forget() -> bool {
    USED.swap(false, Ordering::SeqCst)
}

/// In a forked child there is none.
pub(crate) fn forget() {
    GPU.store(std::ptr::null_mut(), Ordering::Release);
}
