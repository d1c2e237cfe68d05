//! The render node: open files and mappable buffer objects.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;

use belfry_kfd_core::errno::Result;
use belfry_kfd_core::os::{Backing, DrmFile, Gem};

use crate::ffi;
use crate::os::created;

/// A reference to an open file of the render node.
pub(crate) struct File(NonNull<ffi::OsDrmFile>);

// SAFETY: os_drm_* may be called from any thread.
unsafe impl Send for File {}
// SAFETY: as above.
unsafe impl Sync for File {}

impl File {
    /// Takes a reference to descriptor `fd` of the calling process.
    pub(crate) fn acquire(dev: *mut ffi::OsDevice, fd: i32) -> Result<File> {
        // SAFETY: `dev` lives as long as the core and `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_drm_acquire(dev, fd, out) }).map(File)
    }

    /// Makes a buffer object this file may map.
    pub(crate) fn create_gem(&self, backing: Arc<dyn Backing>) -> Result<Object> {
        let size = backing.size();
        let backing: *mut Arc<dyn Backing> = Box::into_raw(Box::new(backing));
        // SAFETY: the file lives as long as self; the backing is taken over in every case and comes back through
        // belfry_backing_drop.
        created(|out| unsafe { ffi::os_gem_create(self.0.as_ptr(), backing.cast(), size, out) }).map(Object)
    }
}

impl DrmFile for File {
    fn id(&self) -> u64 {
        // SAFETY: the file lives as long as self.
        unsafe { ffi::os_drm_id(self.0.as_ptr()) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: made by os_drm_acquire and dropped once.
        unsafe { ffi::os_drm_release(self.0.as_ptr()) }
    }
}

/// The core's reference to a GEM object.
pub(crate) struct Object(NonNull<ffi::OsGem>);

// SAFETY: os_gem_* may be called from any thread.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Gem for Object {
    fn mmap_offset(&self) -> u64 {
        // SAFETY: the object lives as long as self.
        unsafe { ffi::os_gem_mmap_offset(self.0.as_ptr()) }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: made by os_gem_create and dropped once.
        unsafe { ffi::os_gem_release(self.0.as_ptr()) }
    }
}
