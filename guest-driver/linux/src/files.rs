//! The render node: open files and mappable buffer objects; and descriptors that give events.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;

use belfry_kfd_core::errno::Result;
use belfry_kfd_core::os::{Backing, DrmFile, Gem, SmiClient, SmiFile};

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

/// The core's reference to a descriptor that gives events.
pub(crate) struct Smi(NonNull<ffi::OsSmi>);

// SAFETY: os_smi_* may be called from any thread.
unsafe impl Send for Smi {}
// SAFETY: as above.
unsafe impl Sync for Smi {}

impl Smi {
    /// Makes a descriptor of the calling process.
    pub(crate) fn open(client: Arc<dyn SmiClient>) -> Result<(Smi, i32)> {
        let client: *mut Arc<dyn SmiClient> = Box::into_raw(Box::new(client));
        let mut fd = -1;
        // SAFETY: `out` and `fd` are valid places for the results; the client is taken over in every case and comes back
        // through belfry_smi_drop.
        let smi = created(|out| unsafe { ffi::os_smi_open(client.cast(), out, &mut fd) })?;
        Ok((Smi(smi), fd))
    }
}

impl SmiFile for Smi {
    // The kernel calls the core while the program does.
    fn sync(&self) {}

    fn wake(&self) {
        // SAFETY: the object lives as long as self.
        unsafe { ffi::os_smi_wake(self.0.as_ptr()) }
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        // SAFETY: made by os_smi_open and dropped once.
        unsafe { ffi::os_smi_release(self.0.as_ptr()) }
    }
}
