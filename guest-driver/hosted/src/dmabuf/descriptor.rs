//! Descriptors of shared memory, in whichever process they are.
#![expect(unsafe_code, reason = "system calls about descriptors, and maps")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use belfry_kfd_core::os::PAGE_SIZE;
use belfry_kfd_core::{Errno, Result};

use super::errno;
use super::record::{HEAD, Record, parts_len};
use crate::mapping;
use crate::shared::SEALS;

/// Name of a GPU's file of memory, for `memfd_create`.
pub(crate) const NAME: &std::ffi::CStr = c"belfry-memory";
/// Target of the links in `/proc` to a descriptor of such a file.
pub(crate) const LINK: &str = "/memfd:belfry-memory (deleted)";

/// Identity of a file, by any descriptor or path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

fn stat(fd: RawFd) -> io::Result<libc::stat> {
    // SAFETY: all zeros are a value of the structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is this function's own.
    match unsafe { libc::fstat(fd, &raw mut stat) } {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

impl From<&libc::stat> for Identity {
    fn from(stat: &libc::stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

impl Identity {
    pub(crate) fn of(fd: RawFd) -> io::Result<Self> {
        stat(fd).map(|stat| Self::from(&stat))
    }
}

/// Has a descriptor stay open over `execve`.
pub(super) fn inherit(file: &File) -> io::Result<()> {
    // SAFETY: changes a flag of a descriptor that is the caller's.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns true if a descriptor may be one of a GPU's memory: a file without a name.
fn may_be_memory(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_nlink == 0
}

/// Returns true if a descriptor is one of a GPU's memory.
fn is_memory(file: &OwnedFd) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: asks and changes nothing.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    seals >= 0
        && seals & SEALS == SEALS
        && std::fs::read_link(format!("/proc/thread-self/fd/{fd}")).is_ok_and(|link| link.as_os_str() == LINK)
}

/// Fills a buffer from a place in a file.
fn read_at(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Option<()> {
    let at = libc::off_t::try_from(at).ok()?;
    // SAFETY: the buffer is live and as long as it says.
    let count = unsafe { libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), at) };
    (usize::try_from(count) == Ok(buffer.len())).then_some(())
}

/// A descriptor of shared memory, of this process's GPU or of another one's.
#[derive(Debug)]
pub struct Descriptor {
    /// A copy: the program may close its own at any time.
    file: OwnedFd,
    identity: Identity,
    at: u64,
    record: Record,
}

impl Descriptor {
    /// Reads the record that a descriptor of the calling process refers to. The record is checked: it may
    /// come from any process.
    ///
    /// # Errors
    ///
    /// `EBADF` when there is no such descriptor, `EINVAL` when it is of anything else, `EMFILE`.
    pub fn of(fd: RawFd) -> Result<Self> {
        if !may_be_memory(&stat(fd).map_err(|_| Errno::EBADF)?) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: makes a descriptor and changes none.
        let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return Err(errno(&io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new, and only this function has it.
        let file = unsafe { OwnedFd::from_raw_fd(copy) };
        let found = || {
            if !is_memory(&file) {
                return None;
            }
            let stat = stat(copy).ok()?;
            // SAFETY: asks for the position and does not change it.
            let at = u64::try_from(unsafe { libc::lseek(copy, 0, libc::SEEK_CUR) }).ok()?;
            let mut bytes = vec![0; HEAD];
            read_at(&file, &mut bytes, at)?;
            bytes.resize(HEAD + parts_len(&bytes)?, 0);
            read_at(&file, &mut bytes[HEAD..], at + HEAD as u64)?;
            let record = Record::decode(&bytes, u64::try_from(stat.st_size).ok()?)?;
            Some((Identity::from(&stat), at, record))
        };
        let (identity, at, record) = found().ok_or(Errno::EINVAL)?;
        Ok(Self { file, identity, at, record })
    }

    /// Bytes of the memory.
    pub fn size(&self) -> u64 {
        self.record.size
    }

    /// The GPU whose memory it is.
    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// Place of the record.
    pub(super) fn place(&self) -> u64 {
        self.at
    }

    pub(super) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Flags that the exporter has given with an IPC handle of this memory.
    pub(crate) fn ipc_flags(&self) -> u32 {
        self.record.ipc_flags
    }

    /// Record of the memory.
    pub(super) fn record(&self) -> &Record {
        &self.record
    }

    /// Maps `len` bytes of the memory from `offset` on, shared: at exactly `addr`, or where there is room.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is not aligned or not inside the memory, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// With an address, `addr..addr + len` must be a range the caller reserved: the map there is replaced.
    pub unsafe fn map(&self, addr: Option<usize>, len: usize, prot: i32, offset: u64) -> Result<*mut u8> {
        // SAFETY: the caller's contract.
        unsafe { map(self.file.as_raw_fd(), &self.record, addr, len, prot, offset) }
    }
}

/// Maps a range of shared memory from a descriptor of it; see [`Descriptor::map`].
///
/// # Safety
///
/// As for that.
pub(super) unsafe fn map(
    fd: RawFd,
    record: &Record,
    addr: Option<usize>,
    len: usize,
    prot: i32,
    offset: u64,
) -> Result<*mut u8> {
    let page = PAGE_SIZE as usize;
    let size = len.checked_next_multiple_of(page).filter(|&size| size > 0).ok_or(Errno::EINVAL)?;
    let end = offset.checked_add(size as u64).filter(|&end| end <= record.size);
    let aligned = addr.is_none_or(|addr| addr != 0 && addr.is_multiple_of(page));
    let (Some(end), true) = (end, aligned && offset.is_multiple_of(PAGE_SIZE)) else {
        return Err(Errno::EINVAL);
    };
    let base = match addr {
        Some(addr) => addr,
        None => {
            // SAFETY: a new mapping at a place the kernel chooses.
            unsafe { mapping::zeroed(None, size, libc::PROT_NONE) }.map_err(|error| errno(&error))?
        }
    };
    let mut start = 0;
    for &(at, len) in &record.parts {
        let (from, to) = (start.max(offset), (start + len).min(end));
        if from < to {
            let place = base + (from - offset) as usize;
            let part = (fd, at + (from - start));
            // SAFETY: inside the range that is reserved, by the caller or above.
            let mapped = unsafe { mapping::shared(Some(place), (to - from) as usize, prot, part) };
            if let Err(error) = mapped {
                if addr.is_none() {
                    // SAFETY: the reservation above, and the maps in it.
                    let _ = unsafe { mapping::unmap(base, size) };
                }
                return Err(errno(&error));
            }
        }
        start += len;
    }
    Ok(base as *mut u8)
}
