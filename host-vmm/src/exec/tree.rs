//! The files a driver makes under `/sys` and `/dev`, prepared in a directory.
//!
//! The topology comes from the driver core, bound to a device with the configuration that programs get; this module
//! writes the files that the kernel itself makes for a PCI device and for DRM. The directory is made once per
//! configuration, as a whole.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use belfry_kfd_hosted::card::{self, Card, Figures, Source};
use belfry_kfd_hosted::prepared::{
    CARD_FILE, Prepared, PreparedCard, PreparedGpu, SETTINGS_FILE, SHARED_SIZE, card_path, hwmon, shared_file,
};
use belfry_kfd_hosted::{Errno, HostedGpu, HostedMachine};

use super::{ExecError, library, parameters, pci};

/// Directory of the topology in sysfs; `/sys/class/kfd/kfd` is a link to it.
const KFD: &str = "sys/devices/virtual/kfd/kfd";
/// Device numbers of `/dev/kfd`, whose major is any that is free.
const KFD_NUMBER: &str = "235:0";

/// Finds the numbers of PCI buses that this machine does not have: one for each GPU.
pub(super) fn free_places(count: usize) -> Vec<u8> {
    let is_free = |bus: &u8| !signs_of_bus(*bus).iter().any(|path| path.exists());
    let free: Vec<u8> = (0xc3..=0xfe).filter(is_free).take(count).collect();
    // A machine with so many buses gets others in place of its own.
    if free.len() == count { free } else { (0xc3..=0xfe).take(count).collect() }
}

/// Returns the directories that exist if this machine has a bus: its own, and the one of a root bus.
fn signs_of_bus(bus: u8) -> [PathBuf; 2] {
    [format!("/sys/class/pci_bus/0000:{bus:02x}").into(), format!("/sys/devices/pci0000:{bus:02x}").into()]
}

/// Returns the same of the buses of all GPUs.
pub(super) fn signs_of_buses(settings: &Prepared) -> Vec<PathBuf> {
    settings.gpus.iter().flat_map(|gpu| signs_of_bus(bus_of(gpu))).collect()
}

/// Returns the bytes of memory of this machine, in whole megabytes.
pub(super) fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let total = (info.totalram as u64).saturating_mul(info.mem_unit.max(1).into());
    (total & !0xf_ffff).max(256 << 20)
}

/// Returns the PCI address of the GPU on a bus.
fn address(bus: u8) -> String {
    format!("0000:{bus:02x}:00.0")
}

/// Returns the directory of the PCI device, without a slash in front.
fn device(bus: u8) -> String {
    format!("sys/devices/pci0000:{bus:02x}/{}", address(bus))
}

/// Lists the paths that are looked up in the prepared directory instead of this machine.
pub(super) fn paths(settings: &Prepared) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/dev/kfd",
        "/dev/dri",
        "/sys/class/kfd",
        "/sys/class/drm",
        "/sys/devices/virtual/kfd",
        "/sys/module/amdgpu",
        "/sys/bus/pci/drivers/amdgpu",
    ]
    .map(str::to_owned)
    .into();
    paths.extend(settings.gpus.iter().map(|gpu| format!("/sys/devices/pci0000:{:02x}", bus_of(gpu))));
    // Whole lists, so that the GPU is seen in them.
    paths.extend(pci::LISTS.map(|list| format!("/{list}")));
    let minors = settings.render_minors().flat_map(|render| [card_number(render), render]);
    for number in std::iter::once(KFD_NUMBER.to_owned()).chain(minors.map(|minor| format!("226:{minor}"))) {
        paths.push(format!("/sys/dev/char/{number}"));
    }
    let further = settings.gpus.iter().map(|gpu| gpu.render_nodes().saturating_sub(1)).sum();
    paths.extend((0..further).map(|number| format!("/{}", partition_device(number))));
    paths
}

/// Returns the bus of a GPU.
fn bus_of(gpu: &PreparedGpu) -> u8 {
    (gpu.location_id >> 8) as u8
}

/// Returns the number of the node for displays beside a render node, which is also its minor number.
fn card_number(render_minor: u32) -> u32 {
    render_minor.saturating_sub(128)
}

/// Returns the directory of the device that amdgpu makes for a partition of a GPU after the first one, by its number
/// among those of all GPUs, without a slash in front.
fn partition_device(number: u32) -> String {
    format!("sys/devices/platform/amdgpu_xcp_{number}")
}

/// Makes the directory for a configuration, unless it is there; returns its path.
pub(super) fn publish(directory: &Path, settings: &Prepared) -> Result<PathBuf, ExecError> {
    let text = serde_json::to_vec(settings)?;
    // Directory and settings are the user's own, so that a collision gains no attacker anything. A cryptographic
    // digest asks the processor for its features, which takes 10 us each time under a hypervisor that traps the
    // question.
    let mut hash = DefaultHasher::new();
    library::identity().hash(&mut hash);
    text.hash(&mut hash);
    // The topology contains the number of processors.
    belfry_device::processors().hash(&mut hash);
    pci::hash(&mut hash);
    let path = directory.join(format!("tree-{:016x}", hash.finish()));
    if path.join(SETTINGS_FILE).exists() {
        return Ok(path);
    }
    let place = tempfile::Builder::new().prefix("making-").tempdir_in(directory);
    let place = place.map_err(ExecError::io("create in", directory))?;
    let tree = Tree { root: place.path(), settings };
    tree.write_all()?;
    tree.file(SETTINGS_FILE, &text)?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))
        .map_err(ExecError::io("change the mode of", place.path()))?;
    let made = place.keep();
    if let Err(source) = fs::rename(&made, &path) {
        // Another process was faster: then its directory is as good.
        let _ = fs::remove_dir_all(&made);
        if !path.join(SETTINGS_FILE).exists() {
            return Err(ExecError::Io { action: "rename to", path, source });
        }
    }
    Ok(path)
}

/// Returns the PCI core's files of the link, from the registers of the function's PCI Express capability; none
/// without that capability.
fn link_files(config: &[u8; 256]) -> Vec<(&'static str, String)> {
    const EXPRESS: u8 = 0x10;
    const LINK_CAPABILITIES: usize = 0x0c;
    const LINK_STATUS: usize = 0x12;
    let word = |at: usize| u16::from_le_bytes([config[at], config[at + 1]]);
    // A list in 256 bytes has no more members than that.
    let mut at = usize::from(config[0x34] & 0xfc);
    for _ in 0..48 {
        if at < 0x40 || at + LINK_STATUS + 2 > config.len() {
            return Vec::new();
        }
        if config[at] == EXPRESS {
            let speed = |word: u16| match word & 0xf {
                speed @ 1..=6 => format!("{} PCIe\n", LINK_SPEEDS[usize::from(speed) - 1]),
                _ => "Unknown\n".to_owned(),
            };
            let width = |word: u16| format!("{}\n", word >> 4 & 0x3f);
            let (most, now) = (word(at + LINK_CAPABILITIES), word(at + LINK_STATUS));
            return vec![
                ("max_link_speed", speed(most)),
                ("max_link_width", width(most)),
                ("current_link_speed", speed(now)),
                ("current_link_width", width(now)),
            ];
        }
        at = usize::from(config[at + 1] & 0xfc);
    }
    Vec::new()
}

/// Returns start, end and flags of each BAR of a GPU, at addresses that a firmware might have chosen.
fn resources(number: usize, gpu: &PreparedGpu) -> String {
    const PREFETCHABLE: u64 = 0x14_220c;
    const MEMORY: u64 = 0x4_0200;
    // Room for the largest VRAM that a chip can have.
    let number = number as u64;
    let bars = [
        (0xa0_0000_0000 + (number << 40), gpu.vram, PREFETCHABLE),
        (0, 0, 0),
        (0xb0_0000_0000 + (number << 40), belfry_abi::pci::DOORBELL_BAR_SIZE, PREFETCHABLE),
        (0, 0, 0),
        (0, 0, 0),
        (0xf000_0000 + (number << 20), 1 << 20, MEMORY),
    ];
    let mut text = String::new();
    for (start, size, flags) in bars.into_iter().chain([(0, 0, 0); 7]) {
        let end: u64 = if size == 0 { 0 } else { start + size - 1 };
        let _ = writeln!(text, "{start:#018x} {end:#018x} {flags:#018x}");
    }
    text
}

/// Speeds of a link by their numbers (`PCI_EXP_LNKSTA_CLS`), as Linux prints them.
const LINK_SPEEDS: [&str; 6] = ["2.5 GT/s", "5.0 GT/s", "8.0 GT/s", "16.0 GT/s", "32.0 GT/s", "64.0 GT/s"];

/// A directory in the making.
struct Tree<'a> {
    root: &'a Path,
    settings: &'a Prepared,
}

impl Tree<'_> {
    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> Result<(), ExecError> {
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(ExecError::io("create", parent))?;
        }
        fs::write(&path, content).map_err(ExecError::io("write", &path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444))
            .map_err(ExecError::io("change the mode of", &path))
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<(), ExecError> {
        let path = self.root.join(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .map_err(ExecError::io("change the mode of", &path))
    }

    /// Makes a link from one path of the directory to another, relative as sysfs has them.
    fn link(&self, from: &str, to: &str) -> Result<(), ExecError> {
        let path = self.root.join(from);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(ExecError::io("create", parent))?;
        }
        // A link between two places of sysfs stays within sysfs.
        let (from, to) = match (from.strip_prefix("sys/"), to.strip_prefix("sys/")) {
            (Some(from), Some(to)) => (from, to),
            _ => (from, to),
        };
        let up = "../".repeat(from.matches('/').count());
        symlink(format!("{up}{to}"), &path).map_err(ExecError::io("link", &path))
    }

    fn write_all(&self) -> Result<(), ExecError> {
        let machine = HostedMachine::placed(self.settings.configs(false))?;
        self.topology(machine.first(), "", &format!("{KFD}/topology"))?;
        self.kfd()?;
        let (mut cards, mut partitions) = (Vec::new(), 0);
        for (number, (gpu, hosted)) in self.settings.gpus.iter().zip(machine.gpus()).enumerate() {
            let device = device(bus_of(gpu));
            self.topology(hosted, "ip_discovery", &format!("{device}/ip_discovery"))?;
            // Chips whose cores cannot be partitioned have no such file.
            if hosted.sysfs_list("compute_partition_config").is_ok() {
                let place = format!("{device}/compute_partition_config");
                self.topology(hosted, "compute_partition_config", &place)?;
            }
            self.pci((number, gpu), hosted)?;
            let card =
                hosted.card().map_err(|errno| ExecError::Gpu(belfry_kfd_hosted::Error::Open(errno)))?;
            cards.push(self.card((number, gpu), card)?);
            self.drm(gpu, &mut partitions)?;
        }
        self.file(CARD_FILE, serde_json::to_vec(&cards)?)?;
        self.file("sys/class/drm/version", "drm 1.1.0 20060810\n")?;
        self.pci_lists()
    }

    /// Writes a tree of a GPU's driver, the topology or the discovery table: its directory `path` at `place`.
    fn topology(&self, gpu: &HostedGpu, path: &str, place: &str) -> Result<(), ExecError> {
        let directory = self.root.join(place);
        fs::create_dir_all(&directory).map_err(ExecError::io("create", &directory))?;
        let errno = |errno: Errno| std::io::Error::from_raw_os_error(errno.raw());
        let names = gpu.sysfs_list(path).map_err(errno).map_err(ExecError::io("list", path))?;
        for name in names.iter().map(|name| name.trim_end_matches('/').to_owned()) {
            if let Some((name, target)) = name.split_once('>') {
                let link = directory.join(name);
                symlink(target, &link).map_err(ExecError::io("link", &link))?;
                continue;
            }
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let place = format!("{place}/{name}");
            match gpu.sysfs_read(&below) {
                Ok(content) => self.file(&place, content)?,
                Err(_) => self.topology(gpu, &below, &place)?,
            }
        }
        Ok(())
    }

    fn kfd(&self) -> Result<(), ExecError> {
        self.file("dev/kfd", "")?;
        self.file(&format!("{KFD}/dev"), format!("{KFD_NUMBER}\n"))?;
        self.file(&format!("{KFD}/uevent"), "MAJOR=235\nMINOR=0\nDEVNAME=kfd\nDEVMODE=0666\n")?;
        self.link(&format!("{KFD}/subsystem"), "sys/class/kfd")?;
        self.link("sys/class/kfd/kfd", KFD)?;
        self.link(&format!("sys/dev/char/{KFD_NUMBER}"), KFD)?;
        self.file("sys/module/amdgpu/initstate", "live\n")?;
        self.file("sys/module/amdgpu/refcnt", "1\n")?;
        for (name, content, mode) in parameters::all() {
            let place = format!("sys/module/amdgpu/parameters/{name}");
            self.file(&place, content)?;
            self.set_mode(&place, mode)?;
        }
        Ok(())
    }

    /// Writes the files that the PCI core makes for a GPU.
    fn pci(&self, (number, gpu): (usize, &PreparedGpu), hosted: &HostedGpu) -> Result<(), ExecError> {
        let (device, address) = (device(bus_of(gpu)), address(bus_of(gpu)));
        let mut config = [0u8; 256];
        for (index, dword) in config.chunks_exact_mut(4).enumerate() {
            hosted.device().config_read(index * 4, dword);
        }
        let word = |at: usize| u16::from_le_bytes([config[at], config[at + 1]]);
        let (vendor, id, class, revision) =
            (word(0), word(2), u32::from(word(10)) << 8 | u32::from(config[9]), config[8]);
        let (sub_vendor, sub_device) = (word(0x2c), word(0x2e));
        let near = pci::near();
        for (name, content) in [
            ("vendor", format!("{vendor:#06x}\n")),
            ("device", format!("{id:#06x}\n")),
            ("class", format!("{class:#08x}\n")),
            ("revision", format!("{revision:#04x}\n")),
            ("subsystem_vendor", format!("{sub_vendor:#06x}\n")),
            ("subsystem_device", format!("{sub_device:#06x}\n")),
            ("numa_node", near.node),
            ("enable", "1\n".into()),
            ("power_state", "D0\n".into()),
            ("resource", resources(number, gpu)),
            ("local_cpus", near.mask),
            ("local_cpulist", near.list),
            (
                "modalias",
                format!(
                    "pci:v{vendor:08X}d{id:08X}sv{sub_vendor:08X}sd{sub_device:08X}bc{:02X}sc{:02X}i{:02X}\n",
                    class >> 16,
                    class >> 8 & 0xff,
                    class & 0xff
                ),
            ),
            (
                "uevent",
                format!(
                    "DRIVER=amdgpu\nPCI_CLASS={class:X}\nPCI_ID={vendor:04X}:{id:04X}\n\
                     PCI_SUBSYS_ID={sub_vendor:04X}:{sub_device:04X}\nPCI_SLOT_NAME={address}\n"
                ),
            ),
        ] {
            self.file(&format!("{device}/{name}"), content)?;
        }
        for (name, content) in link_files(&config) {
            self.file(&format!("{device}/{name}"), content)?;
        }
        self.file(&format!("{device}/config"), config)?;
        self.link(&format!("{device}/driver"), "sys/bus/pci/drivers/amdgpu")?;
        self.link(&format!("{device}/subsystem"), "sys/bus/pci")?;
        self.link(&format!("sys/bus/pci/drivers/amdgpu/{address}"), &device)?;
        self.link(&format!("sys/bus/pci/devices/{address}"), &device)?;
        self.pci_bus(bus_of(gpu))
    }

    /// Writes a GPU's bus.
    fn pci_bus(&self, number: u8) -> Result<(), ExecError> {
        let name = format!("0000:{number:02x}");
        let bus = format!("sys/devices/pci{name}/pci_bus/{name}");
        let near = pci::near();
        self.file(&format!("{bus}/uevent"), "")?;
        self.file(&format!("{bus}/cpuaffinity"), near.mask)?;
        self.file(&format!("{bus}/cpulistaffinity"), near.list)?;
        self.link(&format!("{bus}/subsystem"), "sys/class/pci_bus")?;
        self.link(&format!("sys/class/pci_bus/{name}"), &bus)
    }

    /// Writes the driver's links, and those to the machine's devices and buses beside the GPUs'.
    fn pci_lists(&self) -> Result<(), ExecError> {
        self.file("sys/bus/pci/drivers/amdgpu/uevent", "")?;
        self.link("sys/bus/pci/drivers/amdgpu/module", "sys/module/amdgpu")?;
        self.link("sys/module/amdgpu/drivers/pci:amdgpu", "sys/bus/pci/drivers/amdgpu")?;
        for pci::Link { place, target } in pci::machine() {
            let place = self.root.join(place);
            let target = match pci::root_of(&target) {
                // The link is as on the machine, by way of a link that leads there.
                Some(root) => {
                    let at = self.root.join("sys/devices").join(root);
                    if !at.is_symlink() {
                        symlink(Path::new("/sys/devices").join(root), &at)
                            .map_err(ExecError::io("link", &at))?;
                    }
                    target
                }
                None => pci::whole(&target),
            };
            symlink(target, &place).map_err(ExecError::io("link", &place))?;
        }
        Ok(())
    }

    /// Writes the driver's own files of a PCI device. Files that change are made when a program opens them, and are
    /// empty here.
    fn card(&self, (number, gpu): (usize, &PreparedGpu), card: Card) -> Result<PreparedCard, ExecError> {
        let device = device(bus_of(gpu));
        for file in card::FILES.iter().filter(|file| file.is_of(&card)) {
            let place = format!("{device}/{}", card_path(number, file.path));
            let content =
                if file.source == Source::Card { file.show(&card, &Figures::default()) } else { Vec::new() };
            self.file(&place, content)?;
            self.set_mode(&place, file.mode())?;
        }
        self.link(&format!("{device}/{}/device", hwmon(number)), &device)?;
        self.file(&shared_file(number), vec![0; SHARED_SIZE])?;
        self.set_mode(&shared_file(number), 0o644)?;
        Ok(PreparedCard { card, device })
    }

    /// Writes the files that DRM makes for a GPU; `partitions` counts the devices of partitions.
    fn drm(&self, gpu: &PreparedGpu, partitions: &mut u32) -> Result<(), ExecError> {
        self.drm_nodes(&device(bus_of(gpu)), gpu.render_minor)?;
        for number in 1..gpu.render_nodes() {
            let device = partition_device(*partitions);
            *partitions += 1;
            self.platform_device(&device)?;
            self.drm_nodes(&device, gpu.render_minor + number)?;
        }
        Ok(())
    }

    /// Writes a partition's nodes, below the device that DRM has them from.
    fn drm_nodes(&self, device: &str, render: u32) -> Result<(), ExecError> {
        let card = card_number(render);
        for (name, minor) in [(format!("card{card}"), card), (format!("renderD{render}"), render)] {
            let place = format!("{device}/drm/{name}");
            self.file(&format!("dev/dri/{name}"), "")?;
            self.file(&format!("{place}/dev"), format!("226:{minor}\n"))?;
            let uevent = format!("MAJOR=226\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n");
            self.file(&format!("{place}/uevent"), uevent)?;
            self.link(&format!("{place}/device"), device)?;
            self.link(&format!("{place}/subsystem"), "sys/class/drm")?;
            self.link(&format!("sys/class/drm/{name}"), &place)?;
            self.link(&format!("sys/dev/char/226:{minor}"), &place)?;
        }
        Ok(())
    }

    /// Writes the platform device that amdgpu makes for a partition after the first one (`amdgpu_xcp_drm_dev_alloc`).
    fn platform_device(&self, device: &str) -> Result<(), ExecError> {
        self.link(&format!("{device}/subsystem"), "sys/bus/platform")?;
        let name = device.rsplit('/').next().unwrap_or(device);
        self.file(&format!("{device}/uevent"), format!("MODALIAS=platform:{name}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_told_by_the_capability_that_the_list_leads_to() {
        let mut config = [0u8; 256];
        assert_eq!(link_files(&config), []);
        config[0x34] = 0x80;
        (config[0x80], config[0x81]) = (0x01, 0x40);
        config[0x40] = 0x10;
        config[0x4c..0x4e].copy_from_slice(&(5u16 | 16 << 4).to_le_bytes());
        config[0x52..0x54].copy_from_slice(&(4u16 | 8 << 4).to_le_bytes());
        let files = link_files(&config);
        let text: Vec<_> = files.iter().map(|(name, content)| format!("{name} {content}")).collect();
        assert_eq!(
            text.concat(),
            "max_link_speed 32.0 GT/s PCIe\nmax_link_width 16\n\
             current_link_speed 16.0 GT/s PCIe\ncurrent_link_width 8\n"
        );
        // One list goes in a circle, and one leads out of the space.
        (config[0x80], config[0x81]) = (0x01, 0x80);
        assert_eq!(link_files(&config), []);
        (config[0x34], config[0xfc]) = (0xfc, 0x10);
        assert_eq!(link_files(&config), []);
    }
}
