//! Belfry's own machine, on /dev/kvm: memory, vCPUs, a serial port, and a PCI bus with the GPU.
//!
//! | part | file |
//! | --- | --- |
//! | /dev/kvm | `host.rs` |
//! | guest RAM, device memory as slots | `memory.rs` |
//! | kernels, their command line, their entry | `boot/` |
//! | vCPU threads, and their CPUID | `vcpu.rs`, `cpuid.rs` |
//! | ports | `board.rs`, `console.rs`, `cmos.rs`, `power.rs` |
//! | tables of the firmware for the guest | `acpi/` |
//! | the root bus | `pci/` |
//! | the GPU as a function on it | `gpu.rs`, `gpu_messages.rs` |
//! | the guest channel, disks, shared folders, the network card | `virtio/` |
//! | doorbells, trapped, waking or as memory | `doorbells/` |
//! | messages to the processors | `interrupts.rs` |
//! | the configuration of a machine | `config.rs` |
//! | a machine that stands still, is saved and resumed | `gate.rs`, `snapshot/` |
//! | putting it together, and its end | `machine.rs`, `main_loop.rs`, `running.rs` |
//! | the host's keys and signals | `input.rs`, `terminal.rs`, `signals.rs` |
//! | the bare-metal guest | `bare_metal.rs`, `measure.rs` |
//! | the speed of a guest's kernel under KVM here | `probe.rs` |

mod acpi;
pub mod bare_metal;
mod board;
mod boot;
mod cmos;
mod config;
mod console;
mod cpuid;
mod doorbells;
mod gate;
mod gpu;
mod gpu_messages;
mod host;
mod input;
mod interrupts;
mod machine;
mod main_loop;
pub mod measure;
mod memory;
mod pci;
mod power;
pub mod probe;
mod running;
pub mod signals;
pub mod snapshot;
pub mod terminal;
#[cfg(test)]
mod tests;
mod vcpu;
mod virtio;

use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use belfry_device::lock::{Mutex, rank};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

pub use config::{Config, DoorbellMode, HugePages, Initramfs, SharedFolder};
pub use machine::{Machine, Outcome};
pub use running::{Handle, Running};
pub use signals::interrupted;
pub use virtio::{DiskConfig, DiskConfigError, DiskError, DiskFormat};

/// End of a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// The guest wrote a status to the debug-exit port.
    Exit(u8),
    /// The guest asked for a reset.
    Reset,
    /// The guest switched itself off.
    PowerOff,
    /// A vCPU cannot go on.
    Crash(String),
    /// The time limit has passed.
    Timeout(Duration),
    /// Its [`Handle`] was used.
    Stopped,
    /// This process was sent a signal.
    Signal(i32),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "status {status}"),
            Self::PowerOff => f.write_str("it switched itself off"),
            Self::Stopped => f.write_str("it was stopped"),
            Self::Signal(number) => write!(f, "signal {number} ended it"),
            Self::Reset => f.write_str("it asked for a reset"),
            Self::Crash(what) => f.write_str(what),
            Self::Timeout(limit) => write!(f, "it was stopped after {limit:?}"),
        }
    }
}

/// The first reason to end, and the event that signals it.
#[derive(Debug)]
struct Ending {
    reason: Mutex<Option<End>, rank::Ending>,
    event: EventFd,
}

impl Ending {
    fn new() -> io::Result<Self> {
        Ok(Self { reason: Mutex::new(None), event: EventFd::new(EFD_NONBLOCK)? })
    }

    fn end(&self, end: End) {
        let mut reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if reason.is_none() {
            *reason = Some(end);
            // If the counter is full, it has been signalled.
            let _ = self.event.write(1);
        }
    }

    fn reason(&self) -> Option<End> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

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
    Snapshot(#[from] snapshot::SnapshotError),
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
