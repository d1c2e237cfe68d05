//! The configuration of a guest's boot.

use std::sync::Arc;
use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_device::memory::Links;
use belfry_image::Qemu;
use belfry_image::tools::Uefi;
use belfry_machine::DiskConfig;

use super::share::Share;
use super::terminal::Terminal;

/// Kernel arguments of every guest.
///
/// A kernel that has oopsed ends at once, with its reason on the console. The self-tests of ciphers, which no guest
/// needs, would take a fifth of the boot. The kernel's test of its timer counts ticks of the host's time in turns of
/// its own, and gives the timer up if the host is busy; the timer of either machine works.
const KERNEL_COMMAND_LINE: &str =
    "console=ttyS0 quiet panic=-1 oops=panic cryptomgr.notests 8250.nr_uarts=1 no_timer_check";

/// Parameter of the driver without which each GPU reaches the memory of all others over the bus.
const NO_PEERS: &str = "amdgpu.pcie_p2p=0";

/// Configuration of a guest's boot.
#[derive(Debug, Clone)]
pub struct GuestConfig {
    /// Machine that boots it.
    pub machine: MachineConfig,
    /// The GPUs, or none at all.
    pub gpus: Vec<GpuConfig>,
    /// Links between them.
    pub links: Links,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Bytes of guest memory.
    pub memory: u64,
    /// Disks, in the order in which the guest finds them.
    pub disks: Vec<DiskConfig>,
    /// A disk with a root file system, after the other disks; programs run in it once [`Guest::enter_root`] was
    /// called.
    ///
    /// [`Guest::enter_root`]: crate::Guest::enter_root
    pub root: Option<DiskConfig>,
    /// A disk with a system of its own, after all others; the guest can write to it. [`Guest::enter_system`] enters
    /// its root file system. Only QEMU has such a disk.
    ///
    /// [`Guest::enter_system`]: crate::Guest::enter_system
    pub system: Option<DiskConfig>,
    /// Folders of the host, mounted by [`Guest::enter_root`].
    ///
    /// [`Guest::enter_root`]: crate::Guest::enter_root
    pub shares: Vec<Share>,
    /// A network card that is connected to the host's network, set up by [`Guest::enter_root`].
    ///
    /// [`Guest::enter_root`]: crate::Guest::enter_root
    pub network: bool,
    /// Shows the guest's output on its first serial port, and takes the keys of [`Guest::spawn_on_terminal`].
    ///
    /// [`Guest::spawn_on_terminal`]: crate::Guest::spawn_on_terminal
    pub terminal: Option<Arc<Terminal>>,
    /// Further kernel arguments, after the usual ones.
    pub append: Vec<String>,
    /// Time limit of the boot.
    pub boot_timeout: Duration,
}

impl GuestConfig {
    /// Lists every disk whose writes are forgotten, in the order in which the guest finds them.
    pub(super) fn all_disks(&self) -> impl Iterator<Item = &DiskConfig> {
        self.disks.iter().chain(&self.root)
    }

    /// Returns the serial number of the root disk: either machine numbers its disks so.
    pub(super) fn root_serial(&self) -> Option<String> {
        self.root.as_ref().map(|_| format!("belfry-{}", self.disks.len()))
    }

    /// Returns the serial number of the disk with a system, which comes after the others.
    pub(super) fn system_serial(&self) -> Option<String> {
        self.system.as_ref().map(|_| format!("belfry-{}", self.all_disks().count()))
    }

    /// Returns the whole command line of the guest's kernel.
    pub(super) fn command_line(&self) -> String {
        let append = self.append.iter().map(String::as_str);
        let links = (self.links == Links::None).then_some(NO_PEERS);
        std::iter::once(KERNEL_COMMAND_LINE).chain(links).chain(append).collect::<Vec<_>>().join(" ")
    }
}

/// Machine that boots a guest, with its own choices.
#[derive(Debug, Clone)]
pub enum MachineConfig {
    /// QEMU, with the GPU over vfio-user.
    Qemu(QemuConfig),
    /// Belfry's own machine.
    Kvm(KvmConfig),
}

/// Choices for QEMU.
#[derive(Debug, Clone)]
pub struct QemuConfig {
    /// The QEMU to run; `None`: one that is found or fetched.
    pub program: Option<Qemu>,
    /// Way in which guest code runs.
    pub accelerator: Accelerator,
    /// Way of doorbells.
    pub doorbell: belfry_vfio_user::DoorbellMode,
}

/// Choices for Belfry's own machine.
#[derive(Debug, Clone, Default)]
pub struct KvmConfig {
    /// Way of doorbells.
    pub doorbell: belfry_machine::DoorbellMode,
    /// Kind of pages of the guest's memory.
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
            gpus: vec![GpuConfig::default()],
            links: Links::default(),
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

/// Configuration of the boot of a user's own system ([`crate::System`]).
#[derive(Debug)]
pub struct SystemConfig {
    /// The disk with the system; the guest's writes to it are forgotten.
    pub disk: DiskConfig,
    /// The UEFI firmware; `None`: QEMU's BIOS.
    pub uefi: Option<Uefi>,
    /// Further disks.
    pub disks: Vec<DiskConfig>,
    /// The GPUs.
    pub gpus: Vec<GpuConfig>,
    /// Links between them; the system's driver has to be told of [`Links::None`] (`pcie_p2p`).
    pub links: Links,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Bytes of guest memory.
    pub memory: u64,
    /// A network card that is connected to the host's network.
    pub network: bool,
    /// The port of this machine that leads to the guest's ssh.
    pub ssh: Option<u16>,
    /// Credentials for a guest with systemd: name, and a text of one line.
    pub credentials: Vec<(String, String)>,
    /// Shows the guest's output on its first serial port, and takes the keys of [`System::type_keys`](crate::System::type_keys).
    pub terminal: Option<Arc<Terminal>>,
    /// Choices for QEMU.
    pub qemu: QemuConfig,
}

/// Ways of running guest code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// Hardware virtualisation.
    Kvm,
    /// QEMU's translator, on any machine.
    Tcg,
}

impl std::fmt::Display for Accelerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_is_told_that_there_are_no_links() {
        let said = |links| {
            GuestConfig { links, append: vec!["x=1".into()], ..GuestConfig::default() }.command_line()
        };
        assert!(said(Links::None).ends_with(" amdgpu.pcie_p2p=0 x=1"), "{}", said(Links::None));
        assert!(!said(Links::Pcie).contains("pcie_p2p") && !said(Links::Xgmi).contains("pcie_p2p"));
    }

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
