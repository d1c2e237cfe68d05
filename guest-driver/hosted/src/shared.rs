//! Memory several mappings share.
#![expect(unsafe_code, reason = "maps memory")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::ptr::NonNull;

use vm_memory::MmapRegion;

use crate::error::Error;
use crate::mapping;

/// Shared memory without a name or a descriptor, mapped whole.
///
/// Other mappings of the same pages are made from this one ([`Shared::duplicate`]): a program that closes every
/// descriptor it did not open takes nothing away. Forked children do not inherit it, and core dumps leave it out.
#[derive(Debug)]
pub(crate) struct Shared {
    base: NonNull<u8>,
    size: usize,
    /// Offset of this memory in its file.
    file_offset: u64,
}

// SAFETY: the mapping belongs to the value and is plain memory; its users decide how to synchronise.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes `size` bytes of zeroed memory; pages exist once touched. `name` is what `/proc/self/maps` shows.
    pub(crate) fn new(name: &std::ffi::CStr, size: usize) -> Result<Self, Error> {
        Self::part(&memory_file(name, size as u64)?, 0, size)
    }

    /// Maps a part of a file of memory.
    pub(crate) fn part(file: &File, file_offset: u64, size: usize) -> Result<Self, Error> {
        // SAFETY: a new mapping at a place the kernel chooses.
        let base = unsafe {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            mapping::shared(None, size, prot, (file.as_raw_fd(), file_offset))
        };
        let failed = |source| Error::System { what: "mmap", source };
        let base = base.map_err(failed)?;
        mapping::keep_private(base, size);
        let base =
            NonNull::new(base as *mut u8).ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?;
        Ok(Self { base, size, file_offset })
    }

    /// Offset in its file of a byte of this memory.
    pub(crate) fn in_file(&self, offset: u64) -> u64 {
        self.file_offset + offset
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

    /// A region over the mapping for the device; the caller keeps `self` for as long.
    pub(crate) fn region(&self) -> Result<MmapRegion, Error> {
        raw_region(self.address(), self.size)
    }

    /// Maps a page-aligned range of the same pages once more: at `at`, replacing the map there, or where there is room.
    ///
    /// # Safety
    ///
    /// The caller may replace what is mapped at `at`.
    pub(crate) unsafe fn duplicate(
        &self,
        range: (u64, usize),
        at: Option<usize>,
        prot: i32,
    ) -> io::Result<*mut u8> {
        let (offset, len) = range;
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size as u64) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let from = self.base.as_ptr() as usize + offset as usize;
        // SAFETY: the source is a shared mapping and in range; the target is the caller's to replace.
        let copy = unsafe { mapping::again(from, len, at) }?;
        if prot != libc::PROT_READ | libc::PROT_WRITE {
            // SAFETY: the mapping was made just now.
            unsafe { mapping::protect(copy, len, prot) }?;
        }
        Ok(copy as *mut u8)
    }

    /// Gives a range's pages back; it reads as zeros afterwards.
    pub(crate) fn punch(&self, offset: usize, len: usize) {
        // SAFETY: callers name ranges inside the mapping.
        let at = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: inside the mapping; a caller that frees memory or has it filled uses it no more.
        if !unsafe { mapping::punch(at as usize, len) } {
            // SAFETY: as above.
            unsafe { at.write_bytes(0, len) };
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own.
        let _ = unsafe { mapping::unmap(self.base.as_ptr() as usize, self.size) };
    }
}

/// Makes a file of `size` bytes of zeroed memory, which keeps its size.
pub(crate) fn memory_file(name: &std::ffi::CStr, size: u64) -> Result<File, Error> {
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(Error::last_os("memfd_create"));
    }
    // SAFETY: the descriptor is new, and only this function has it.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(size).map_err(|source| Error::System { what: "ftruncate", source })?;
    // SAFETY: changes what may be done with the file, which is this function's own.
    if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) } != 0 {
        return Err(Error::last_os("F_ADD_SEALS"));
    }
    Ok(file)
}

/// Seals of a file of memory: no page that was in it goes away.
pub(crate) const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// A region over memory that is mapped already and that the region does not own.
pub(crate) fn raw_region(address: u64, size: usize) -> Result<MmapRegion, Error> {
    let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
    // SAFETY: callers name memory that stays mapped while the region is in use: own mappings live as long as the
    // device, pinned memory is taken out of the device's map before it goes.
    unsafe { MmapRegion::build_raw(address as *mut u8, size, libc::PROT_READ | libc::PROT_WRITE, flags) }
        .map_err(|error| Error::System { what: "memory region", source: io::Error::other(error.to_string()) })
}
