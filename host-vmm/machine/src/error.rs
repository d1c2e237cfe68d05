//! Errors of machines and of their kernels.

use std::io;
use std::path::PathBuf;

use belfry_virtio::DiskError;

use crate::snapshot::SnapshotError;

/// Reason why a kernel cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The file cannot be read.
    #[error("cannot read the kernel {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no kernel.
    #[error("{path} is not a kernel this machine can start: {why}")]
    NotAKernel {
        /// The file.
        path: PathBuf,
        /// Mistake in the file.
        why: String,
    },
    /// The kernel does not fit the memory.
    #[error(
        "the kernel needs {size} bytes from {at:#x} on, and the guest's memory below 4 GiB ends at {end:#x}; \
         give it more memory"
    )]
    NoRoom {
        /// First address of the kernel.
        at: u64,
        /// Bytes it needs there.
        size: u64,
        /// First address after the memory.
        end: u64,
    },
    /// The command line is longer than the kernel takes.
    #[error("the kernel's command line has {length} bytes, and the kernel takes {limit}")]
    CommandLineTooLong {
        /// Bytes it has.
        length: usize,
        /// Bytes it may have.
        limit: u32,
    },
    /// The command line would end early.
    #[error("the kernel's command line has a zero byte in it")]
    CommandLineZero,
    /// The initramfs cannot be read.
    #[error("cannot read the initramfs {path}: {source}")]
    ReadInitramfs {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The initramfs does not fit the memory.
    #[error(
        "the initramfs does not fit: beside the kernel, the guest's memory has room for {room} bytes of it; \
         give the guest more memory"
    )]
    InitramfsTooLarge {
        /// Bytes there is room for.
        room: u64,
    },
    /// There is less guest memory than the tables need.
    #[error("the guest's memory has no room for page tables")]
    NoMemory,
}

/// Reason for having no machine.
#[derive(Debug, thiserror::Error)]
pub enum KvmError {
    /// KVM cannot be used.
    #[error("/dev/kvm cannot be used: {why}; {fix}")]
    NoKvm {
        /// KVM's error, in words.
        why: String,
        /// A way to mend it.
        fix: &'static str,
    },
    /// A configuration out of range.
    #[error("the machine cannot be made so: {0}")]
    Config(String),
    /// There are not enough huge pages.
    #[error(
        "cannot get {pages} huge pages for the guest's memory: {source}; reserve them (echo {pages} > \
         /proc/sys/vm/nr_hugepages, or more where others use some), or do without"
    )]
    HugePages {
        /// Number of pages of 2 MiB.
        pages: u64,
        /// Why.
        source: io::Error,
    },
    /// A step of making it failed.
    #[error("cannot {what}: {source}")]
    Setup {
        /// Step that failed.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The device.
    #[error(transparent)]
    Device(#[from] belfry_device::Error),
    /// The machine cannot be saved, or not be resumed.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A folder of the host.
    #[error("cannot share {path}: {source}")]
    Share {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The guest did not end well.
    #[error("the guest did not end by itself: {0}")]
    Ended(String),
    /// The machine's own thread.
    #[error("the machine's thread panicked; this is a bug in belfry")]
    Panicked,
}
