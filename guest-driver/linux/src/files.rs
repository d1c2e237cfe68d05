//! The render node: open files, mappable buffer objects, and memory that processes share; and descriptors that give
//! events.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;

use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{Backing, DmaBuf, DrmFile, Gem, SmiClient, SmiFile};

use crate::ffi;
use crate::results::created;

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

impl Object {
    /// Makes a DMA-buf of it.
    pub(crate) fn share(&self) -> Result<Dmabuf> {
        // SAFETY: the object lives as long as self and `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_dmabuf_export(self.0.as_ptr(), out) }).map(Dmabuf)
    }
}

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

/// A reference to a DMA-buf of a device that the driver is bound to.
pub(crate) struct Dmabuf(NonNull<ffi::OsDmabuf>);

// SAFETY: os_dmabuf_* may be called from any thread.
unsafe impl Send for Dmabuf {}
// SAFETY: as above.
unsafe impl Sync for Dmabuf {}

impl Dmabuf {
    /// Takes a reference to the DMA-buf of descriptor `fd` of the calling process.
    pub(crate) fn get(fd: i32) -> Result<Dmabuf> {
        // SAFETY: `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_dmabuf_get(fd, out) }).map(Dmabuf)
    }

    /// Makes a descriptor in the calling process.
    pub(crate) fn descriptor(&self, flags: u32) -> Result<i32> {
        // SAFETY: the DMA-buf lives as long as self.
        match unsafe { ffi::os_dmabuf_fd(self.0.as_ptr(), flags) } {
            fd if fd >= 0 => Ok(fd),
            error => Err(Errno::from_raw(error.saturating_neg())),
        }
    }
}

impl DmaBuf for Dmabuf {
    fn backing(&self) -> Arc<dyn Backing> {
        // SAFETY: the DMA-buf lives as long as self, and holds the GEM object, which has the value that `create_gem`
        // gave it.
        unsafe { &*ffi::os_dmabuf_backing(self.0.as_ptr()).cast::<Arc<dyn Backing>>() }.clone()
    }
}

impl Drop for Dmabuf {
    fn drop(&mut self) {
        // SAFETY: made by a function above and dropped once.
        unsafe { ffi::os_dmabuf_release(self.0.as_ptr()) }
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
