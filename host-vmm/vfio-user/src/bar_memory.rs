//! Memory behind a BAR that the client may map: a file for each client, always at the same place here.
#![expect(unsafe_code, reason = "replaces the file behind a map")]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;

use rustix::fs::{MemfdFlags, SealFlags};
use vm_memory::MmapRegion;

use super::SetupError;

/// Where the memory of a BAR is mapped.
#[derive(Debug)]
pub(super) struct BarMemory {
    what: &'static str,
    address: usize,
    size: u64,
}

impl BarMemory {
    /// A place for `size` bytes without any memory behind it, and the region that keeps the place.
    pub(super) fn new(what: &'static str, size: u64) -> Result<(Self, MmapRegion), SetupError> {
        let failed = |source| SetupError::Memory { what, size, source };
        let length = usize::try_from(size).map_err(io::Error::other).map_err(failed)?;
        let region = MmapRegion::new(length).map_err(io::Error::other).map_err(failed)?;
        Ok((Self { what, address: region.as_ptr().expose_provenance(), size }, region))
    }

    /// Puts zeroed memory there that no earlier client has a descriptor of, and answers the one to it.
    ///
    /// Accesses meanwhile reach the memory before or the one after.
    ///
    /// # Safety
    ///
    /// The region of [`Self::new`] has to be there still.
    pub(super) unsafe fn renew(&self) -> Result<OwnedFd, SetupError> {
        let make = || -> io::Result<OwnedFd> {
            let fd = rustix::fs::memfd_create(self.what, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            rustix::fs::ftruncate(&fd, self.size)?;
            // A client that could shrink the file could take the memory from under the device.
            rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
            // SAFETY: the range is that of the region, which the caller vouches for, and the device that has the region
            // expects memory that others change at any time. `new` has checked that the size fits.
            let address = unsafe {
                libc::mmap(
                    ptr::with_exposed_provenance_mut(self.address),
                    self.size as usize,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    fd.as_raw_fd(),
                    0,
                )
            };
            if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(fd) }
        };
        make().map_err(|source| SetupError::Memory { what: self.what, size: self.size, source })
    }
}
