//! Functions that the C files call for the render node: open files, their ioctls and handles.
//!
//! A `struct belfry_client *` is an `Arc<Client>` turned raw.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;

use belfry_kfd_core::drm::{Client, Fence};
use belfry_kfd_core::errno::Result;
use belfry_kfd_core::os::{
    Awaited, Backing, ProcessKey, RenderFile, SyncExport, SyncPoint, SyncTarget, Work,
};

use crate::entry::{Gpu, status};
use crate::fence::{Await, Target, fence_new, raw};
use crate::ffi::{self, OsRenderFile};
use crate::os::LinuxOs;
use crate::results::{check, created};

/// `struct belfry_client`.
pub(crate) type RenderClient = Client<LinuxOs>;

/// The open file of an ioctl, valid as long as that runs.
struct Caller(*mut OsRenderFile);

/// A reference to the object of a handle.
struct Found(core::ptr::NonNull<ffi::OsGem>);

impl Drop for Found {
    fn drop(&mut self) {
        // SAFETY: made by os_handle_lookup and dropped once.
        unsafe { ffi::os_handle_put(self.0.as_ptr()) }
    }
}

impl Caller {
    fn find(&self, handle: u32) -> Result<Found> {
        // SAFETY: the file is valid during the ioctl, and `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_handle_lookup(self.0, handle, out) }).map(Found)
    }
}

impl RenderFile for Caller {
    fn handle_create(&self, backing: Arc<dyn Backing>) -> Result<u32> {
        let size = backing.size();
        let backing: *mut Arc<dyn Backing> = Box::into_raw(Box::new(backing));
        let mut handle = 0;
        // SAFETY: the file is valid during the ioctl; the backing is taken over in every case and comes back through
        // belfry_backing_drop.
        check(unsafe { ffi::os_handle_create(self.0, backing.cast(), size, &mut handle) })?;
        Ok(handle)
    }

    fn lookup(&self, handle: u32) -> Result<Arc<dyn Backing>> {
        let found = self.find(handle)?;
        // SAFETY: every object was made with a backing, which lives as long as the object, which is held.
        Ok(unsafe { &*ffi::os_gem_backing(found.0.as_ptr()).cast::<Arc<dyn Backing>>() }.clone())
    }

    fn mmap_offset(&self, handle: u32) -> Result<u64> {
        let found = self.find(handle)?;
        // SAFETY: the object is held.
        Ok(unsafe { ffi::os_gem_mmap_offset(found.0.as_ptr()) })
    }

    fn caller(&self) -> ProcessKey {
        ProcessKey(ffi::os_caller())
    }

    fn fence_new(&self) -> Result<Arc<Fence>> {
        fence_new()
    }

    fn sync_await(&self, at: SyncPoint, kick: Arc<dyn Work>) -> Result<Awaited> {
        // SAFETY: the file is valid during the ioctl.
        unsafe { Await::new(self.0, at, kick) }.map(|wait| Awaited::Elsewhere(Arc::new(wait)))
    }

    fn sync_target(&self, at: SyncPoint) -> Result<Box<dyn SyncTarget>> {
        // SAFETY: the file is valid during the ioctl.
        let target = unsafe { Target::new(self.0, at) }?;
        Ok(Box::new(target))
    }

    fn sync_export(&self, fence: Option<&Arc<Fence>>, to: SyncExport) -> Result<u32> {
        let to = match to {
            SyncExport::Syncobj => 0,
            SyncExport::SyncobjFd => 1,
            SyncExport::SyncFileFd => 2,
        };
        let fence = fence.map_or(Ok(core::ptr::null_mut()), |fence| raw(fence))?;
        let mut out = 0;
        // SAFETY: the file is valid during the ioctl, the fence is one of the core's or none, and `out` takes the result.
        check(unsafe { ffi::os_sync_export(self.0, fence, to, &mut out) })?;
        Ok(out)
    }
}

/// Opens the render node of a partition.
///
/// # Safety
///
/// `gpu` and `client` are valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_drm_open(
    gpu: *const Gpu,
    id: u64,
    partition: u32,
    client: *mut *const RenderClient,
) -> i32 {
    // SAFETY: as promised by the caller.
    let opened = unsafe { &*gpu }.drm_open(id, partition);
    status(opened.map(|opened| {
        // SAFETY: as promised by the caller.
        unsafe { client.write(Arc::into_raw(opened)) }
    }))
}

/// Ends the work of a file.
///
/// # Safety
///
/// `client` is valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_drm_stop(client: *const RenderClient) {
    // SAFETY: as promised by the caller.
    unsafe { &*client }.stop();
}

/// Closes a file of the render node.
///
/// # Safety
///
/// `gpu` is valid and `client` is the caller's reference from [`belfry_drm_open`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_drm_close(gpu: *const Gpu, client: *const RenderClient) {
    // SAFETY: as promised by the caller.
    let (gpu, client) = unsafe { (&*gpu, Arc::from_raw(client)) };
    gpu.kfd().drm_close(&client);
}

/// Runs an ioctl of the driver.
///
/// # Safety
///
/// `gpu`, `client` and `file` are valid, and `data` is valid for `len` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_drm_ioctl(
    gpu: *const Gpu,
    client: *const RenderClient,
    file: *mut OsRenderFile,
    number: u32,
    data: *mut u8,
    len: usize,
) -> i32 {
    // SAFETY: as promised by the caller; the reference stays the caller's.
    let (gpu, client, data) = unsafe {
        (&*gpu, ManuallyDrop::new(Arc::from_raw(client)), core::slice::from_raw_parts_mut(data, len))
    };
    status(gpu.kfd().drm_ioctl(&client, &Caller(file), number, data))
}

/// A handle of this memory is made.
///
/// # Safety
///
/// `client` is valid, and `backing` was passed to `os_gem_create` or `os_handle_create` and not dropped.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_drm_handle_opened(
    client: *const RenderClient,
    backing: *const Arc<dyn Backing>,
) {
    // SAFETY: as promised by the caller.
    let (client, backing) = unsafe { (&*client, &*backing) };
    client.handle_opened(backing);
}

/// A handle of this memory is given back.
///
/// # Safety
///
/// As [`belfry_drm_handle_opened`].
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn belfry_drm_handle_closed(
    client: *const RenderClient,
    backing: *const Arc<dyn Backing>,
) {
    // SAFETY: as promised by the caller.
    let (client, backing) = unsafe { (&*client, &*backing) };
    client.handle_closed(backing);
}
