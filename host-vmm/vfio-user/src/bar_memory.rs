//! Memory behind a BAR that the client may map: another file for each client, always at one address in this process.
#![expect(unsafe_code, reason = "replaces the file behind a map")]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;

use rustix::fs::{MemfdFlags, SealFlags};
use vm_memory::MmapRegion;

use super::error::SetupError;

/// Address range of a BAR's memory.
#[derive(Debug)]
pub(super) struct BarMemory {
    what: &'static str,
    address: usize,
    size: u64,
}

impl BarMemory {
    /// Reserves an address range for `size` bytes without any memory in it, and returns the region that keeps the
    /// range.
    pub(super) fn new(what: &'static str, size: u64) -> Result<(Self, MmapRegion), SetupError> {
        let failed = |source| SetupError::Memory { what, size, source };
        let length = usize::try_from(size).map_err(io::Error::other).map_err(failed)?;
        let region = MmapRegion::new(length).map_err(io::Error::other).map_err(failed)?;
        Ok((Self { what, address: region.as_ptr().expose_provenance(), size }, region))
    }

    /// Puts zeroed memory into the range, of which no earlier client has a descriptor; returns its descriptor.
    ///
    /// Accesses during the change reach the old memory or the new one.
    ///
    /// # Safety
    ///
    /// The region of [`Self::new`] must still exist.
    pub(super) unsafe fn renew(&self) -> Result<OwnedFd, SetupError> {
        let make = || -> io::Result<OwnedFd> {
            let fd = rustix::fs::memfd_create(self.what, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            rustix::fs::ftruncate(&fd, self.size)?;
            // A client that could shrink the file could take the memory away from the device.
            rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
            // SAFETY: the range is that of the region, as the caller guarantees, and the device that has the region
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
