//! Memory several mappings share: a memfd and this process's own mapping of all of it.
#![expect(unsafe_code, reason = "mapping memory")]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use vm_memory::MmapRegion;

use crate::error::Error;

/// A memfd, mapped whole.
#[derive(Debug)]
pub(crate) struct Shared {
    file: Arc<File>,
    base: NonNull<u8>,
    size: usize,
}

// SAFETY: the mapping belongs to the value and is plain memory; whoever touches it decides how to synchronise.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes `size` bytes of zeroed memory; pages exist once touched.
    pub(crate) fn new(name: &std::ffi::CStr, size: usize) -> Result<Self, Error> {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os("memfd_create"));
        }
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(size as u64).map_err(|source| Error::System { what: "ftruncate", source })?;
        // SAFETY: a new mapping at a place the kernel chooses.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd,
                0,
            )
        };
        let base = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED);
        let base = base.ok_or_else(|| Error::last_os("mmap"))?;
        Ok(Self { file: Arc::new(file), base, size })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    pub(crate) fn fd(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// A region over the mapping for the device; the caller keeps `self` for as long.
    pub(crate) fn region(&self) -> Result<MmapRegion, Error> {
        raw_region(self.address(), self.size)
    }

    /// Gives a range's pages back; it reads as zeros afterwards.
    pub(crate) fn punch(&self, offset: usize, len: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: a plain system call on an own descriptor.
        let result = unsafe { libc::fallocate(self.fd(), mode, offset as libc::off_t, len as libc::off_t) };
        if result != 0 {
            // SAFETY: inside the mapping; nobody else uses memory that is being freed.
            unsafe { self.base.add(offset).write_bytes(0, len) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size) };
    }
}

/// A region over memory that is mapped already and that the region does not own.
pub(crate) fn raw_region(address: u64, size: usize) -> Result<MmapRegion, Error> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: callers name memory that stays mapped while the region is in use: own mappings live as long as the
    // device, pinned memory is taken out of the device's map before it goes.
    unsafe { MmapRegion::build_raw(address as *mut u8, size, libc::PROT_READ | libc::PROT_WRITE, flags) }
        .map_err(|error| Error::System {
            what: "memory region",
            source: std::io::Error::other(error.to_string()),
        })
}
