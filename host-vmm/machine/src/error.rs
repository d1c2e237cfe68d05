//! Errors of machines and of their kernels.

use std::io;
use std::path::PathBuf;

use belfry_device::SnapshotError as DeviceError;
use belfry_snapshot::FileError;
use belfry_virtio::DiskError;
use belfry_virtio::saved::StateError;

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

/// Reason why a machine cannot be saved, or none can be made of a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The machine has a part whose state is outside of it.
    #[error("the machine cannot be saved, as it has {0}; a machine without can")]
    Refused(&'static str),
    /// A device of the machine has been in the middle of a request for too long.
    #[error(
        "the machine cannot be saved: its guest channel was in the middle of a request for {0:?}; the run goes on"
    )]
    Busy(std::time::Duration),
    /// The machine has ended.
    #[error("the machine cannot be saved: it has ended")]
    Ended,
    /// The file cannot be written.
    #[error("cannot write the snapshot {path}: {source}; the run goes on without it")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// KVM does not return the state of a processor or a controller.
    #[error("cannot save {what}: {source}")]
    Kvm {
        /// Name of the part.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The device cannot be saved.
    #[error("the GPU cannot be saved: {0}")]
    Device(#[source] DeviceError),
    /// The file is no usable snapshot.
    #[error("{path} cannot be resumed: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: FileError,
    },
    /// Its memory cannot be mapped.
    #[error("the memory of {path} cannot be mapped: {source}")]
    Map {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The snapshot's values are those of no machine.
    #[error("{path} cannot be resumed: {source}")]
    State {
        /// The file.
        path: PathBuf,
        /// Why.
        source: StateError,
    },
    /// The snapshot's values are those of no device.
    #[error("{path} cannot be resumed: {source}")]
    Gpu {
        /// The file.
        path: PathBuf,
        /// Why.
        source: DeviceError,
    },
    /// The snapshot is of a machine with processors that this host does not have.
    #[error(
        "the snapshot is of a host whose processors differ in CPUID leaf {leaf:#x}: resume it on the host that wrote it"
    )]
    Processor {
        /// The first leaf that differs.
        leaf: u32,
    },
    /// The configuration has a part that no resumed machine can have.
    #[error("a machine that is resumed has no {0}")]
    NotResumed(&'static str),
    /// The snapshot has other devices than the machine that is to go on.
    #[error("the snapshot is of a machine with other devices: {0}")]
    Devices(&'static str),
    /// The saved state of a device is that of no such device.
    #[error("a device of the snapshot cannot be resumed: {0}")]
    Virtio(#[from] StateError),
}
