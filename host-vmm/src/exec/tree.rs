//! The files a driver makes under `/sys` and `/dev`, prepared in a directory.
//!
//! The topology comes from the driver core, bound to a device with the configuration that programs get; this module
//! writes the files that the kernel itself makes for a PCI device and for DRM. The directory is made once per
//! configuration, as a whole.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use belfry_kfd_hosted::card::{self, Card, Figures, Source};
use belfry_kfd_hosted::prepared::{
    CARD_FILE, Prepared, PreparedCard, PreparedGpu, SETTINGS_FILE, SHARED_FILE, SHARED_SIZE, card_path, hwmon,
};
use belfry_kfd_hosted::{Errno, HostedGpu, HostedMachine};

use super::{ExecError, library, parameters, pci};

mod functions;

/// Directory of the topology in sysfs; `/sys/class/kfd/kfd` is a link to it.
const KFD: &str = "sys/devices/virtual/kfd/kfd";
/// Device numbers of `/dev/kfd`, whose major is any that is free.
const KFD_NUMBER: &str = "235:0";

/// Finds the numbers of PCI buses that this machine does not have: a root bus, and so many behind it.
pub(super) fn free_buses(behind: usize) -> (u8, Vec<u8>) {
    const ALL: std::ops::RangeInclusive<u8> = 0xc2..=0xfe;
    let is_free = |bus: &u8| !signs_of_bus(*bus).iter().any(|path| path.exists());
    let mut free: Vec<u8> = ALL.filter(is_free).take(1 + behind).collect();
    if free.len() <= behind {
        // A machine with so many buses gets others in place of its own.
        free = ALL.take(1 + behind).collect();
    }
    (free.remove(0), free)
}

/// Returns the directories that exist if this machine has a bus: its own, and the one of a root bus.
fn signs_of_bus(bus: u8) -> [PathBuf; 2] {
    [format!("/sys/class/pci_bus/0000:{bus:02x}").into(), format!("/sys/devices/pci0000:{bus:02x}").into()]
}

/// Returns the same of the buses of all GPUs.
pub(super) fn signs_of_buses(settings: &Prepared) -> Vec<PathBuf> {
    let bridges = settings.gpus.iter().flat_map(|gpu| gpu.bridges.iter().map(|&at| bus_at(at)));
    let mut buses: Vec<u8> =
        std::iter::once(settings.root_bus).chain(bridges).chain(settings.gpus.iter().map(bus_of)).collect();
    buses.sort_unstable();
    buses.dedup();
    buses.into_iter().flat_map(signs_of_bus).collect()
}

/// Returns the bytes of memory of this machine, in whole megabytes.
pub(super) fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let total = (info.totalram as u64).saturating_mul(info.mem_unit.max(1).into());
    (total & !0xf_ffff).max(256 << 20)
}

/// Returns the PCI address of the function at a location.
fn address(location: u32) -> String {
    format!("0000:{:02x}:{:02x}.{}", bus_at(location), location >> 3 & 0x1f, location & 7)
}

/// Returns the bus of a location.
fn bus_at(location: u32) -> u8 {
    (location >> 8) as u8
}

/// Returns the directory of the root bus, without a slash in front.
fn root(settings: &Prepared) -> String {
    format!("sys/devices/pci0000:{:02x}", settings.root_bus)
}

/// Returns the directory of the last one of bridges from the root bus on.
fn below(settings: &Prepared, bridges: &[u32]) -> String {
    bridges.iter().fold(root(settings), |above, &bridge| format!("{above}/{}", address(bridge)))
}

/// Returns the directory of a GPU's PCI device.
fn device(settings: &Prepared, number: usize) -> String {
    let Some(gpu) = settings.gpus.get(number) else { return root(settings) };
    format!("{}/{}", below(settings, &gpu.bridges), address(gpu.location_id))
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
    paths.push(format!("/{}", root(settings)));
    paths.extend(pci::own_nodes(settings.numa()).map(|place| format!("/{place}")));
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
    bus_at(gpu.location_id)
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
            let device = device(self.settings, number);
            self.topology(hosted, "ip_discovery", &format!("{device}/ip_discovery"))?;
            // Chips whose cores cannot be partitioned have no such file.
            if hosted.sysfs_list("compute_partition_config").is_ok() {
                let place = format!("{device}/compute_partition_config");
                self.topology(hosted, "compute_partition_config", &place)?;
            }
            self.pci((number, gpu), hosted)?;
            let card =
                hosted.card().map_err(|errno| ExecError::Gpu(belfry_kfd_hosted::Error::Open(errno)))?;
            cards.push(self.card(number, card)?);
            self.drm((number, gpu), &mut partitions)?;
        }
        self.hive(&cards)?;
        self.file(CARD_FILE, serde_json::to_vec(&cards)?)?;
        self.file(SHARED_FILE, vec![0; SHARED_SIZE])?;
        self.set_mode(SHARED_FILE, 0o644)?;
        self.file("sys/class/drm/version", "drm 1.1.0 20060810\n")?;
        self.bridges(&machine)?;
        self.root_bus()?;
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

    /// Writes the driver's own files of a PCI device. Files that change are made when a program opens them, and are
    /// empty here.
    fn card(&self, number: usize, card: Card) -> Result<PreparedCard, ExecError> {
        let device = device(self.settings, number);
        for file in card::FILES.iter().filter(|file| file.is_of(&card)) {
            let place = format!("{device}/{}", card_path(number, file.path));
            let content =
                if file.source == Source::Card { file.show(&card, &Figures::default()) } else { Vec::new() };
            self.file(&place, content)?;
            self.set_mode(&place, file.mode())?;
        }
        self.link(&format!("{device}/{}/device", hwmon(number)), &device)?;
        Ok(PreparedCard { card, device })
    }

    /// Writes the directory of each hive, which its first card has and the others lead to (`amdgpu_xgmi_sysfs_add_dev_info`).
    fn hive(&self, cards: &[PreparedCard]) -> Result<(), ExecError> {
        let mut left: Vec<_> = cards.iter().filter(|card| card.card.hive_nodes > 0).collect();
        while let Some(hive) = left.first().map(|first| first.card.hive) {
            let (of_hive, others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|card| card.card.hive == hive);
            self.hive_of(&of_hive)?;
            left = others;
        }
        Ok(())
    }

    fn hive_of(&self, cards: &[&PreparedCard]) -> Result<(), ExecError> {
        let Some(first) = cards.first() else { return Ok(()) };
        let hive = format!("{}/xgmi_hive_info", first.device);
        self.file(&format!("{hive}/xgmi_hive_id"), format!("{}\n", first.card.hive_name()))?;
        for (number, card) in (1..).zip(cards) {
            self.link(&format!("{hive}/node{number}"), &card.device)?;
            if number > 1 {
                self.link(&format!("{}/xgmi_hive_info", card.device), &hive)?;
            }
        }
        Ok(())
    }

    /// Writes the files that DRM makes for a GPU; `partitions` counts the devices of partitions.
    fn drm(&self, (number, gpu): (usize, &PreparedGpu), partitions: &mut u32) -> Result<(), ExecError> {
        self.drm_nodes(&device(self.settings, number), gpu.render_minor)?;
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
