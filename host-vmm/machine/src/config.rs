//! The configuration of a machine: its choices, and their ranges.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use belfry_device::GpuConfig;
use belfry_device::memory::Links;
use belfry_virtio::DiskConfig;

use crate::error::KvmError;
use crate::gpus::MAX_GPUS;

/// Range of guest RAM in bytes; the least has room for the tables and a small kernel.
const RAM: (u64, u64) = (4 << 20, 256 << 30);
const CPUS: u8 = 64;
/// Largest number of disks, shared folders and network cards together: the device numbers that are left.
const DEVICES: usize = 28;
/// The longest name of a shared folder, in bytes.
const TAG: usize = 255;

/// Ways of the guest's doorbells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DoorbellMode {
    /// Every write leaves the guest: exact and counted, deterministic.
    Trapped,
    /// A write of a process makes KVM wake the device, which reads the queue's write pointer; exact and counted.
    Ioeventfd,
    /// Pages of processes that ring, or have work, are memory: a ring costs a store.
    #[default]
    Adaptive,
}

/// Kind of pages that the guest's RAM is made of.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum HugePages {
    /// The pages that the host chooses by itself.
    #[default]
    Off,
    /// Huge pages if the host can make some.
    Transparent,
    /// Huge pages of 2 MiB only, from the pool that the host has reserved.
    Reserved,
}

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: u64 = 2 << 20;

/// A first file system, unpacked by the kernel.
#[derive(Clone, Debug)]
pub enum Initramfs {
    /// A file.
    File(PathBuf),
    /// Its contents.
    Bytes(Vec<u8>),
}

/// A folder of the host that the guest can mount, over 9P.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SharedFolder {
    /// Name by which the guest mounts it.
    pub tag: String,
    /// The folder.
    pub path: PathBuf,
    /// True if the guest cannot change anything in it.
    pub read_only: bool,
}

/// Configuration of a machine.
#[derive(Debug)]
pub struct Config {
    /// The kernel: a bzImage, Linux's `vmlinux`, or another 64-bit ELF executable with fixed addresses.
    pub kernel: PathBuf,
    /// The first file system.
    pub initramfs: Option<Initramfs>,
    /// Command line of the kernel.
    pub command_line: String,
    /// Bytes of RAM, whole pages, from 4 MiB.
    pub memory: u64,
    /// Kind of its pages.
    pub huge_pages: HugePages,
    /// vCPUs; all but the first wait to be started by the guest.
    pub cpus: u8,
    /// The GPUs, none to [`MAX_GPUS`](crate::MAX_GPUS). Their numbers are chosen by the machine.
    pub gpus: Vec<GpuConfig>,
    /// Links between them. The guest's driver is told of [`Links::None`] by its own parameter (`pcie_p2p`).
    pub links: Links,
    /// Way of doorbells.
    pub doorbells: DoorbellMode,
    /// Input of the serial port. A terminal is raw while the machine runs, and Ctrl-A x ends the machine.
    pub input: Option<File>,
    /// Disks, in the order the guest finds them.
    pub disks: Vec<DiskConfig>,
    /// Folders of the host; their devices follow the disks. The first of them raises the limit of files that this
    /// process may have open.
    pub shares: Vec<SharedFolder>,
    /// The network of a card: a stream of Ethernet frames, each after its length in 4 bytes, big-endian.
    pub network: Option<UnixStream>,
    /// The host's end of the guest channel: the machine gets a virtio-console whose port [`belfry_channel::PORT`] is this
    /// stream.
    pub channel: Option<UnixStream>,
    /// SIGINT, SIGTERM, SIGHUP and SIGQUIT end the machine while it runs, instead of the process: [`interrupted`].
    ///
    /// [`interrupted`]: super::interrupted
    pub catch_signals: bool,
    /// True if the vCPUs' time stamp counters count as this host's do, from the same moment on.
    pub host_clock: bool,
}

impl Config {
    /// Makes the configuration of a machine with one vCPU, 512 MiB and no device.
    pub fn new(kernel: impl Into<PathBuf>) -> Self {
        Self {
            kernel: kernel.into(),
            initramfs: None,
            command_line: String::new(),
            memory: 512 << 20,
            huge_pages: HugePages::default(),
            cpus: 1,
            gpus: Vec::new(),
            links: Links::default(),
            doorbells: DoorbellMode::default(),
            input: None,
            disks: Vec::new(),
            shares: Vec::new(),
            network: None,
            channel: None,
            catch_signals: false,
            host_clock: false,
        }
    }

    /// Refuses a configuration that no machine can have.
    pub(super) fn check(&self) -> Result<(), KvmError> {
        if self.memory < RAM.0 || self.memory > RAM.1 || !self.memory.is_multiple_of(4096) {
            let text = format!("{} bytes of memory: must be whole pages from 4 MiB to 256 GiB", self.memory);
            return Err(KvmError::Config(text));
        }
        if self.huge_pages == HugePages::Reserved && !self.memory.is_multiple_of(HUGE_PAGE) {
            let text = format!("{} bytes of memory: not a multiple of 2 MiB, a huge page", self.memory);
            return Err(KvmError::Config(text));
        }
        if self.cpus == 0 || self.cpus > CPUS {
            return Err(KvmError::Config(format!("{} vCPUs: must be 1 to {CPUS}", self.cpus)));
        }
        let (disks, shares, cards) =
            (self.disks.len(), self.shares.len(), usize::from(self.network.is_some()));
        if self.gpus.len() > MAX_GPUS {
            return Err(KvmError::Config(format!("{} GPUs: must be {MAX_GPUS} at most", self.gpus.len())));
        }
        let devices = DEVICES - self.gpus.len().saturating_sub(1);
        if disks + shares + cards > devices {
            return Err(KvmError::Config(format!(
                "{disks} disks, {shares} shared folders and {cards} network cards: must be no more than {devices} together"
            )));
        }
        if let Some(share) = self.shares.iter().find(|share| share.tag.is_empty() || share.tag.len() > TAG) {
            return Err(KvmError::Config(format!("a shared folder called {:?}", share.tag)));
        }
        let is_recorded = self.gpus.iter().any(|gpu| gpu.record.is_some());
        if is_recorded && self.gpus.len() > 1 {
            let text =
                format!("a record of one of {} GPUs: a record has no stores of other GPUs", self.gpus.len());
            return Err(KvmError::Config(text));
        }
        if self.doorbells != DoorbellMode::Trapped && is_recorded {
            return Err(KvmError::Config(format!(
                "doorbells by {:?} of a GPU that is recorded: must be Trapped, so that each is a call",
                self.doorbells
            )));
        }
        Ok(())
    }
}
