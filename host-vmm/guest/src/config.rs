//! What a guest is booted with.

use std::sync::Arc;
use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_image::Qemu;
use belfry_machine::DiskConfig;

use super::qemu::Accelerator;
use super::share::Share;
use super::terminal::Terminal;

/// What every guest's kernel is told.
///
/// A kernel that has oopsed ends at once, with its reason on the console; the self-tests of ciphers nobody uses here would
/// take a fifth of the boot. The kernel's test of its timer counts ticks of the host's time in turns of its own, and gives
/// the timer up where the host has other things to do; the timer of either machine works.
const KERNEL_COMMAND_LINE: &str =
    "console=ttyS0 quiet panic=-1 oops=panic cryptomgr.notests 8250.nr_uarts=1 no_timer_check";

/// What a guest is booted with.
#[derive(Debug, Clone)]
pub struct GuestConfig {
    /// What boots it.
    pub machine: MachineConfig,
    /// The GPU, or none at all.
    pub gpu: Option<GpuConfig>,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Bytes of guest memory.
    pub memory: u64,
    /// Disks, in the order the guest finds them.
    pub disks: Vec<DiskConfig>,
    /// A disk with a root file system, behind the other disks; programs are in it once [`Guest::enter_root`] was called.
    ///
    /// [`Guest::enter_root`]: crate::Guest::enter_root
    pub root: Option<DiskConfig>,
    /// A disk with a system of its own, behind all others, to which writes go; its root file system is entered by
    /// [`Guest::enter_system`]. QEMU alone has one.
    ///
    /// [`Guest::enter_system`]: crate::Guest::enter_system
    pub system: Option<DiskConfig>,
    /// Folders of the host, mounted by [`Guest::enter_root`].
    ///
    /// [`Guest::enter_root`]: crate::Guest::enter_root
    pub shares: Vec<Share>,
    /// A network card behind which the host's network is, set up by [`Guest::enter_root`].
    ///
    /// [`Guest::enter_root`]: crate::Guest::enter_root
    pub network: bool,
    /// Shows what the guest writes to its first serial port, and takes the keys of [`Guest::spawn_on_terminal`].
    ///
    /// [`Guest::spawn_on_terminal`]: crate::Guest::spawn_on_terminal
    pub terminal: Option<Arc<Terminal>>,
    /// What its kernel is told beside that, behind it.
    pub append: Vec<String>,
    /// How long the boot may take.
    pub boot_timeout: Duration,
}

impl GuestConfig {
    /// Every disk whose writes are forgotten, in the order the guest finds them.
    pub(super) fn all_disks(&self) -> impl Iterator<Item = &DiskConfig> {
        self.disks.iter().chain(&self.root)
    }

    /// The serial number of the disk that is to be the root: either machine numbers its disks so.
    pub(super) fn root_serial(&self) -> Option<String> {
        self.root.as_ref().map(|_| format!("belfry-{}", self.disks.len()))
    }

    /// The serial number of the disk with a system, which is behind the others.
    pub(super) fn system_serial(&self) -> Option<String> {
        self.system.as_ref().map(|_| format!("belfry-{}", self.all_disks().count()))
    }

    /// The whole command line of the guest's kernel.
    pub(super) fn command_line(&self) -> String {
        let append = self.append.iter().map(String::as_str);
        std::iter::once(KERNEL_COMMAND_LINE).chain(append).collect::<Vec<_>>().join(" ")
    }
}

/// What boots a guest, with the choices only that has.
#[derive(Debug, Clone)]
pub enum MachineConfig {
    /// QEMU, with the GPU over vfio-user.
    Qemu(QemuConfig),
    /// Belfry's own machine.
    Kvm(KvmConfig),
}

/// How QEMU is used.
#[derive(Debug, Clone)]
pub struct QemuConfig {
    /// The QEMU to run; found or fetched where none is given.
    pub program: Option<Qemu>,
    /// How guest code runs.
    pub accelerator: Accelerator,
    /// How doorbells travel.
    pub doorbell: belfry_vfio_user::DoorbellMode,
}

/// How Belfry's own machine is used.
#[derive(Debug, Clone, Default)]
pub struct KvmConfig {
    /// How doorbells travel.
    pub doorbell: belfry_machine::DoorbellMode,
    /// What pages the guest's memory is made of.
    pub huge_pages: belfry_machine::HugePages,
}

impl Default for QemuConfig {
    fn default() -> Self {
        Self {
            program: None,
            accelerator: Accelerator::Tcg,
            doorbell: belfry_vfio_user::DoorbellMode::default(),
        }
    }
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self::Qemu(QemuConfig::default())
    }
}

impl Default for GuestConfig {
    fn default() -> Self {
        Self {
            machine: MachineConfig::default(),
            gpu: Some(GpuConfig::default()),
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get().min(2) as u32),
            memory: 1 << 30,
            disks: Vec::new(),
            root: None,
            system: None,
            shares: Vec::new(),
            network: false,
            terminal: None,
            append: Vec::new(),
            boot_timeout: Duration::from_secs(180),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_the_last_disk() {
        let disks = ["a", "b"].map(DiskConfig::new).to_vec();
        let config = GuestConfig { disks, ..GuestConfig::default() };
        assert_eq!((config.all_disks().count(), config.root_serial()), (2, None));
        let config = GuestConfig { root: Some(DiskConfig::new("root")), ..config };
        assert_eq!(config.all_disks().last(), config.root.as_ref());
        assert_eq!(config.root_serial().as_deref(), Some("belfry-2"));
        assert_eq!(config.system_serial(), None);
        let config = GuestConfig { system: Some(DiskConfig::new("system")), ..config };
        assert_eq!((config.all_disks().count(), config.system_serial().as_deref()), (3, Some("belfry-3")));
    }
}
