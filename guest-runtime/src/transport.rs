//! Access of the runtime to KFD: one trait, implemented over the real device nodes and over hosted mode.
//!
//! Everything above this module is the same in a guest and in-process; a transport only carries ioctls,
//! maps and sysfs reads.

#![expect(unsafe_code, reason = "the trait hands out maps and passes pointers: its methods are unsafe")]

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::time::Duration;

mod linux;

pub use linux::{LinuxTransport, OpenError};

/// Device file that a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Node {
    /// `/dev/kfd`: compute ioctls, doorbell maps.
    Kfd,
    /// `/dev/dri/renderD*` of the GPU with this id: buffer maps at `mmap_offset`.
    Render(u32),
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kfd => "kfd",
            Self::Render(_) => "render node",
        })
    }
}

/// An operating-system error number (positive, as in `errno.h`).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// The error number the calling thread's last failed libc call left.
    pub fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({self})")
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 524 is the kernel's own ENOTSUPP, which libc has no text for; KFD returns it for queue types.
        match self.0 {
            524 => f.write_str("operation not supported by the driver (os error 524)"),
            errno => io::Error::from_raw_os_error(errno).fmt(f),
        }
    }
}

impl std::error::Error for Errno {}

bitflags::bitflags! {
    /// Access a map is made with (`PROT_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Protection: i32 {
        /// Loads.
        const READ = libc::PROT_READ;
        /// Stores.
        const WRITE = libc::PROT_WRITE;
    }
}

/// A way to one KFD process: `/dev/kfd` and the GPUs' render nodes, or a hosted driver in this process.
///
/// GPU virtual addresses equal CPU virtual addresses: the GPU sees a map at the address at which it is placed.
///
/// # Safety
///
/// An implementation must carry out each request exactly: a successful [`mmap`](Self::mmap) at an address maps `len`
/// bytes there (and at no other address) with the access asked for, readable and writable memory stays mapped until
/// [`munmap`](Self::munmap), and [`ioctl`](Self::ioctl) touches only `arg` and the memory it names.
pub unsafe trait Transport: Send + Sync {
    /// Issues one ioctl; `arg` points at the request's argument struct. Returns the (non-negative) result.
    ///
    /// # Errors
    ///
    /// The errno with which the driver refuses the request.
    ///
    /// # Safety
    ///
    /// `arg` must point at memory valid for reads and writes of the size encoded in `request`, and pointers inside that
    /// struct must be valid for the request's accesses.
    unsafe fn ioctl(&self, node: Node, request: u32, arg: *mut c_void) -> Result<i32, Errno>;

    /// Maps `len` bytes of the node at `offset`, shared; at exactly `addr` (`MAP_FIXED`) when one is given.
    ///
    /// # Errors
    ///
    /// The errno of the driver, or of a system without room; nothing is mapped then.
    ///
    /// # Safety
    ///
    /// With an address, `addr..addr + len` must be a range the caller reserved: the map there is replaced.
    unsafe fn mmap(
        &self,
        node: Node,
        addr: Option<usize>,
        len: usize,
        prot: Protection,
        offset: u64,
    ) -> Result<*mut u8, Errno>;

    /// Removes a map made by [`mmap`](Self::mmap).
    ///
    /// # Errors
    ///
    /// The errno of the system, for a range that is none.
    ///
    /// # Safety
    ///
    /// Nothing may use `addr..addr + len` afterwards.
    unsafe fn munmap(&self, addr: *mut u8, len: usize) -> Result<(), Errno>;

    /// The file descriptor number of a GPU's render node, as `AMDKFD_IOC_ACQUIRE_VM` takes it; -1 for one that is not open.
    fn render_fd(&self, gpu_id: u32) -> i32;

    /// Reads one file below `/sys/devices/virtual/kfd/kfd/topology`, for example `nodes/1/properties`.
    ///
    /// # Errors
    ///
    /// A file that is not there, or that cannot be read.
    fn sysfs_read(&self, path: &str) -> io::Result<String>;

    /// Lists the entry names of one directory below `/sys/devices/virtual/kfd/kfd/topology`.
    ///
    /// # Errors
    ///
    /// A directory that is not there, or that cannot be read.
    fn sysfs_list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Told after each doorbell store: a hosted device has no other way to see it at once.
    fn doorbell_written(&self, _addr: *mut u64) {}

    /// Pauses the calling thread, which polls memory that the GPU writes: a hosted device may work on that thread
    /// alone.
    fn pause(&self, pause: Duration) {
        std::thread::sleep(pause);
    }
}
