//! The entry points: what the operating system's side calls.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::errno::{Errno, Result};
use crate::os::{Os, ProcessKey};
use crate::process::Process;

/// What an `mmap` of the KFD node maps, uncached, into the calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MmapTarget {
    /// The process's slice of BAR2: byte offset and length.
    Doorbells {
        /// Byte offset in BAR2.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The page of BAR5 that flushes the host data path.
    MmioRemap {
        /// Byte offset in BAR5.
        offset: u64,
        /// Length in bytes.
        len: u64,
    },
}

/// The driver of one GPU.
pub struct Kfd<O: Os> {
    os: O,
}

impl<O: Os> Kfd<O> {
    /// Brings the device up.
    ///
    /// # Errors
    ///
    /// The errno for the bus's probe; the reason is in the log.
    pub fn probe(os: O) -> Result<Arc<Kfd<O>>> {
        let _ = os;
        Err(Errno::ENODEV)
    }

    /// Returns the operating system below.
    pub fn os(&self) -> &O {
        &self.os
    }

    /// Stops the device: all queues are removed, memory is unpinned and freed. Later calls fail with `ENODEV`.
    ///
    /// Open processes and GEM objects stay valid as objects (the operating system drops them when their files close).
    pub fn remove(&self) {}

    /// Handles an interrupt; called on a thread that may sleep, for every MSI-X vector 0 message.
    pub fn interrupt(&self) {}

    /// Opens the KFD node: the same key shares one process. Balanced by [`Kfd::close`].
    ///
    /// # Errors
    ///
    /// `ENODEV` after `remove`, `ENOMEM`, `ENOSPC` when every PASID or doorbell slice is taken.
    pub fn open(&self, key: ProcessKey) -> Result<Arc<Process<O>>> {
        let _ = key;
        Err(Errno::ENODEV)
    }

    /// Closes one open; the last one of a process tears the process down like [`Kfd::exit`].
    pub fn close(&self, process: &Arc<Process<O>>) {
        let _ = process;
    }

    /// Tears a process down at once, however many opens are left: its address space is going away.
    ///
    /// Its queues are removed, its memory is unpinned and freed. Idempotent; unknown keys are ignored.
    pub fn exit(&self, key: ProcessKey) {
        let _ = key;
    }

    /// Runs the ioctl `command` with the user pointer `arg` on behalf of the process `caller`, which is the calling one.
    ///
    /// # Errors
    ///
    /// The errno of the ioctl; `EBADF` when `caller` is not the opener, `ENOTTY` for numbers outside the table.
    pub fn ioctl(
        &self,
        process: &Arc<Process<O>>,
        caller: ProcessKey,
        command: u32,
        arg: u64,
    ) -> Result<u32> {
        let _ = (process, caller, command, arg);
        Err(Errno::ENOTTY)
    }

    /// Returns what an `mmap` of the KFD node at byte `offset` with `len` bytes maps.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown type, GPU or length, `EBADF` when `caller` is not the opener.
    pub fn mmap(
        &self,
        process: &Arc<Process<O>>,
        caller: ProcessKey,
        offset: u64,
        len: u64,
    ) -> Result<MmapTarget> {
        let _ = (process, caller, offset, len);
        Err(Errno::EINVAL)
    }

    /// Answers `DRM_IOCTL_AMDGPU_INFO`, of which `request` is the 32-byte `struct drm_amdgpu_info`: writes the answer
    /// through the user pointer inside.
    ///
    /// # Errors
    ///
    /// `EINVAL` for queries that are not built, `EFAULT`.
    pub fn amdgpu_info(&self, request: &[u8; 32]) -> Result<()> {
        let _ = request;
        Err(Errno::EINVAL)
    }

    /// Returns the text of a topology file, by its path below `/sys/devices/virtual/kfd/kfd/topology`.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub fn sysfs_read(&self, path: &str) -> Result<String> {
        let _ = path;
        Err(Errno::ENOENT)
    }

    /// Returns the entries of a topology directory, by its path below `/sys/devices/virtual/kfd/kfd/topology` (empty
    /// for the top): names, directories with a trailing slash.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub fn sysfs_list(&self, path: &str) -> Result<Vec<String>> {
        let _ = path;
        Err(Errno::ENOENT)
    }
}
