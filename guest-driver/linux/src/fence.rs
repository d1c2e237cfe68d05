//! The end of work as the kernel's fences, and syncobjs.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::ptr::NonNull;

use belfry_kfd_core::drm::Fence;
use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{ForeignFence, SharedFence, SyncPoint, SyncTarget, Work};

use crate::ffi::{self, OsRenderFile};
use crate::results::created;

/// A reference to a fence of the kernel's, which this signals.
struct KernelFence(NonNull<ffi::OsFence>);

// SAFETY: the functions of fences may be called from any thread.
unsafe impl Send for KernelFence {}
// SAFETY: as above.
unsafe impl Sync for KernelFence {}

impl SharedFence for KernelFence {
    fn signaled(&self, outcome: Result<()>) {
        let error = outcome.map_or_else(|error| -error.raw(), |()| 0);
        // SAFETY: the fence lives as long as self.
        unsafe { ffi::os_fence_signal(self.0.as_ptr(), error) }
    }
}

impl Drop for KernelFence {
    fn drop(&mut self) {
        // SAFETY: made by os_fence_new and dropped once.
        unsafe { ffi::os_fence_put(self.0.as_ptr()) }
    }
}

/// The end of new work.
pub(crate) fn fence_new() -> Result<Arc<Fence>> {
    // SAFETY: `out` is a valid place for the result.
    let fence = created(|out| unsafe { ffi::os_fence_new(out) }).map(KernelFence)?;
    Ok(Arc::new(Fence::new(Some(Arc::new(fence)))))
}

/// The kernel's side of work, valid as long as the core's.
pub(crate) fn raw(fence: &Fence) -> Result<*mut ffi::OsFence> {
    let any: &dyn Any = &**fence.shared().ok_or(Errno::EINVAL)?;
    any.downcast_ref::<KernelFence>().map(|fence| fence.0.as_ptr()).ok_or(Errno::EINVAL)
}

/// A wait for work that may be another driver's.
pub(crate) struct Await(NonNull<ffi::OsAwait>);

// SAFETY: the functions of waits may be called from any thread.
unsafe impl Send for Await {}
// SAFETY: as above.
unsafe impl Sync for Await {}

impl Await {
    /// Begins to wait for the work in a syncobj; `kick` runs when it is over.
    ///
    /// # Safety
    ///
    /// The file is valid during the call.
    pub(crate) unsafe fn new(file: *mut OsRenderFile, at: SyncPoint, kick: Arc<dyn Work>) -> Result<Self> {
        let kick: *mut Arc<dyn Work> = Box::into_raw(Box::new(kick));
        let SyncPoint { handle, point, flags } = at;
        // SAFETY: the file is the caller's promise, and `out` a valid place for the result; the kick is taken over in every
        // case and comes back through belfry_kick_drop.
        created(|out| unsafe { ffi::os_sync_await(file, handle, point, flags, kick.cast(), out) }).map(Self)
    }
}

impl ForeignFence for Await {
    fn is_over(&self) -> bool {
        // SAFETY: the wait lives as long as self.
        unsafe { ffi::os_await_is_over(self.0.as_ptr()) }
    }
}

impl Drop for Await {
    fn drop(&mut self) {
        // SAFETY: made by os_sync_await and dropped once.
        unsafe { ffi::os_await_put(self.0.as_ptr()) }
    }
}

/// A syncobj that gets work.
pub(crate) struct Target(NonNull<ffi::OsSyncTarget>);

impl Target {
    /// The syncobj of a handle.
    ///
    /// # Safety
    ///
    /// The file is valid during the call.
    pub(crate) unsafe fn new(file: *mut OsRenderFile, at: SyncPoint) -> Result<Self> {
        // SAFETY: the file is the caller's promise, and `out` a valid place for the result.
        created(|out| unsafe { ffi::os_sync_target(file, at.handle, at.point, out) }).map(Self)
    }
}

impl SyncTarget for Target {
    fn put(self: Box<Self>, fence: &Arc<Fence>) {
        if let Ok(fence) = raw(fence) {
            // SAFETY: both live during the call.
            unsafe { ffi::os_sync_target_put(self.0.as_ptr(), fence) }
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // SAFETY: made by os_sync_target and dropped once.
        unsafe { ffi::os_sync_target_release(self.0.as_ptr()) }
    }
}

/// Work that was waited for is over. Called with any lock of the kernel's, and with interrupts off.
///
/// # Safety
///
/// `kick` was passed to `os_sync_await` and not dropped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_kick(kick: *const Arc<dyn Work>) {
    // SAFETY: as promised by the caller.
    unsafe { &*kick }.run();
}

/// Drops a kick; no wait for it is left.
///
/// # Safety
///
/// `kick` was passed to `os_sync_await`, and this is called once.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_kick_drop(kick: *mut Arc<dyn Work>) {
    // SAFETY: it came from Box::into_raw.
    drop(unsafe { Box::from_raw(kick) });
}
