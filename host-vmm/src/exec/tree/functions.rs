//! The files that the PCI core makes: GPUs, the bridges above them, and buses.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use belfry_kfd_hosted::prepared::PreparedGpu;
use belfry_kfd_hosted::{HostedGpu, HostedMachine};

use super::{ExecError, Tree, address, below, bus_at, bus_of, device, pci, root};

/// Number of the PCI Express capability, and places of registers in it.
const EXPRESS: u8 = 0x10;
const LINK_CAPABILITIES: usize = 0x0c;
const LINK_STATUS: usize = 0x12;

/// Returns the PCI core's files of the link, from the registers of the function's PCI Express capability; none
/// without that capability.
fn link_files(config: &[u8; 256]) -> Vec<(&'static str, String)> {
    let Some([most, now]) = link(config) else { return Vec::new() };
    let speed = |word: u16| match word & 0xf {
        speed @ 1..=6 => format!("{} PCIe\n", LINK_SPEEDS[usize::from(speed) - 1]),
        _ => "Unknown\n".to_owned(),
    };
    let width = |word: u16| format!("{}\n", word >> 4 & 0x3f);
    vec![
        ("max_link_speed", speed(most)),
        ("max_link_width", width(most)),
        ("current_link_speed", speed(now)),
        ("current_link_width", width(now)),
    ]
}

/// Returns the low halves of the link's capabilities and its status, if there is the capability.
fn link(config: &[u8; 256]) -> Option<[u16; 2]> {
    let word = |at: usize| u16::from_le_bytes([config[at], config[at + 1]]);
    // A list in 256 bytes has no more members than that.
    let mut at = usize::from(config[0x34] & 0xfc);
    for _ in 0..48 {
        if at < 0x40 || at + LINK_STATUS + 2 > config.len() {
            return None;
        }
        if config[at] == EXPRESS {
            return Some([word(at + LINK_CAPABILITIES), word(at + LINK_STATUS)]);
        }
        at = usize::from(config[at + 1] & 0xfc);
    }
    None
}

/// A bridge, or a port of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bridge {
    /// Buses above and below it, and the last one that is behind it.
    buses: [u8; 3],
    /// Its port type in the PCI Express capability (`PCI_EXP_TYPE_*`).
    port: u8,
}

/// Types of the ports above a GPU, from the root bus on.
const PORTS: [u8; 3] = [ROOT_PORT, 5, 6];
const ROOT_PORT: u8 = 4;

impl Bridge {
    /// Returns the identifiers of vendor and device: those above an MI300X (RCCL `topo_8p_940.xml`).
    fn ids(&self) -> (u16, u16) {
        if self.port == ROOT_PORT { (0x1022, 0x1500) } else { (0x15b3, 0x1979) }
    }
}

/// Returns the configuration space of a bridge, whose link is that of the function behind it.
fn bridge_config(bridge: &Bridge, gpu: &[u8; 256]) -> [u8; 256] {
    const CAPABILITY: usize = 0x40;
    let mut config = [0; 256];
    // Memory and bus master; a list of capabilities; class and header of a bridge.
    config[4..16].copy_from_slice(&[6, 0, 0x10, 0, 0, 0, 4, 6, 0, 0, 1, 0]);
    let (vendor, device) = bridge.ids();
    config[..2].copy_from_slice(&vendor.to_le_bytes());
    config[2..4].copy_from_slice(&device.to_le_bytes());
    config[0x18..0x1b].copy_from_slice(&bridge.buses);
    config[0x34] = CAPABILITY as u8;
    // Version 2.
    config[CAPABILITY..CAPABILITY + 4].copy_from_slice(&[EXPRESS, 0, bridge.port << 4 | 2, 0]);
    for (at, word) in [LINK_CAPABILITIES, LINK_STATUS].into_iter().zip(link(gpu).unwrap_or_default()) {
        config[CAPABILITY + at..CAPABILITY + at + 2].copy_from_slice(&word.to_le_bytes());
    }
    config
}

/// Returns the configuration space of a GPU.
fn config_of(gpu: &HostedGpu) -> [u8; 256] {
    let mut config = [0u8; 256];
    for (index, dword) in config.chunks_exact_mut(4).enumerate() {
        gpu.device().config_read(index * 4, dword);
    }
    config
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
    lines(&bars)
}

/// Returns the lines of a function's resources: start, bytes and flags of the first ones.
fn lines(resources: &[(u64, u64, u64)]) -> String {
    let mut text = String::new();
    for (start, size, flags) in resources.iter().copied().chain([(0, 0, 0); 13]).take(13) {
        let end: u64 = if size == 0 { 0 } else { start + size - 1 };
        let _ = writeln!(text, "{start:#018x} {end:#018x} {flags:#018x}");
    }
    text
}

/// Speeds of a link by their numbers (`PCI_EXP_LNKSTA_CLS`), as Linux prints them.
const LINK_SPEEDS: [&str; 6] = ["2.5 GT/s", "5.0 GT/s", "8.0 GT/s", "16.0 GT/s", "32.0 GT/s", "64.0 GT/s"];

impl Tree<'_> {
    /// Writes the files that the PCI core makes for a GPU.
    pub(super) fn pci(
        &self,
        (number, gpu): (usize, &PreparedGpu),
        hosted: &HostedGpu,
    ) -> Result<(), ExecError> {
        let (device, address) = (device(self.settings, number), address(gpu.location_id));
        let config = config_of(hosted);
        let word = |at: usize| u16::from_le_bytes([config[at], config[at + 1]]);
        let (vendor, id, class, revision) =
            (word(0), word(2), u32::from(word(10)) << 8 | u32::from(config[9]), config[8]);
        let (sub_vendor, sub_device) = (word(0x2c), word(0x2e));
        let near = pci::near(self.settings.numa(), gpu.numa_node);
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
        self.link(&format!("sys/bus/pci/devices/{address}"), &device)
    }

    /// Writes the bridges between the root bus and the GPUs: the link of each is that of the first GPU behind it.
    pub(super) fn bridges(&self, machine: &HostedMachine) -> Result<(), ExecError> {
        let gpus = &self.settings.gpus;
        let mut written = Vec::new();
        for (gpu, hosted) in gpus.iter().zip(machine.gpus()) {
            for depth in 1..=gpu.bridges.len() {
                let chain = &gpu.bridges[..depth];
                if written.contains(&chain) {
                    continue;
                }
                written.push(chain);
                let behind = gpus.iter().filter(|other| other.bridges.starts_with(chain));
                let buses = behind.flat_map(|other| {
                    let below = other.bridges[depth..].iter().map(|&bridge| bus_at(bridge));
                    below.chain([bus_of(other)])
                });
                let secondary = gpu.bridges.get(depth).map_or_else(|| bus_of(gpu), |&next| bus_at(next));
                let bridge = Bridge {
                    buses: [bus_at(chain[depth - 1]), secondary, buses.max().unwrap_or(secondary)],
                    port: PORTS.get(depth - 1).copied().unwrap_or(ROOT_PORT),
                };
                self.bridge((chain, gpu.numa_node), &bridge, &config_of(hosted))?;
            }
        }
        Ok(())
    }

    /// Writes the last one of bridges from the root bus on, and the bus behind it.
    fn bridge(
        &self,
        (chain, numa_node): (&[u32], u32),
        bridge: &Bridge,
        gpu: &[u8; 256],
    ) -> Result<(), ExecError> {
        let (place, address) =
            (below(self.settings, chain), chain.last().map_or_else(String::new, |&at| address(at)));
        let config = bridge_config(bridge, gpu);
        let ((vendor, device), [_, bus, last]) = (bridge.ids(), bridge.buses);
        let near = pci::near(self.settings.numa(), numa_node);
        for (name, content) in [
            ("vendor", format!("{vendor:#06x}\n")),
            ("device", format!("{device:#06x}\n")),
            ("class", "0x060400\n".into()),
            ("revision", "0x00\n".into()),
            ("subsystem_vendor", "0x0000\n".into()),
            ("subsystem_device", "0x0000\n".into()),
            ("numa_node", near.node),
            ("enable", "1\n".into()),
            ("power_state", "D0\n".into()),
            ("resource", lines(&[])),
            ("local_cpus", near.mask),
            ("local_cpulist", near.list),
            ("secondary_bus_number", format!("{bus}\n")),
            ("subordinate_bus_number", format!("{last}\n")),
            ("modalias", format!("pci:v{vendor:08X}d{device:08X}sv00000000sd00000000bc06sc04i00\n")),
            (
                "uevent",
                format!(
                    "PCI_CLASS=60400\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SUBSYS_ID=0000:0000\n\
                     PCI_SLOT_NAME={address}\n"
                ),
            ),
        ] {
            self.file(&format!("{place}/{name}"), content)?;
        }
        for (name, content) in link_files(&config) {
            self.file(&format!("{place}/{name}"), content)?;
        }
        self.file(&format!("{place}/config"), config)?;
        self.link(&format!("{place}/subsystem"), "sys/bus/pci")?;
        self.link(&format!("sys/bus/pci/devices/{address}"), &place)?;
        self.pci_bus((bus, numa_node), &place)
    }

    /// Writes the root bus, and the processors' NUMA node where this machine has none.
    pub(super) fn root_bus(&self) -> Result<(), ExecError> {
        for (place, content) in pci::own_node_files(self.settings.numa()) {
            self.file(&place, content)?;
        }
        self.pci_bus((self.settings.root_bus, 0), &root(self.settings))
    }

    /// Writes a bus, which is below a bridge or is the root.
    fn pci_bus(&self, (number, numa_node): (u8, u32), place: &str) -> Result<(), ExecError> {
        let name = format!("0000:{number:02x}");
        let bus = format!("{place}/pci_bus/{name}");
        let near = pci::near(self.settings.numa(), numa_node);
        self.file(&format!("{bus}/uevent"), "")?;
        self.file(&format!("{bus}/cpuaffinity"), near.mask)?;
        self.file(&format!("{bus}/cpulistaffinity"), near.list)?;
        self.link(&format!("{bus}/subsystem"), "sys/class/pci_bus")?;
        self.link(&format!("sys/class/pci_bus/{name}"), &bus)
    }

    /// Writes the driver's links, and those to the machine's devices and buses beside the GPUs'.
    pub(super) fn pci_lists(&self) -> Result<(), ExecError> {
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
        let bridge = Bridge { buses: [0xc2, 0xc3, 0xc3], port: ROOT_PORT };
        let bridge = bridge_config(&bridge, &config);
        assert_eq!((link_files(&bridge), &bridge[0x18..0x1b]), (files, &[0xc2, 0xc3, 0xc3][..]));
        // One list goes in a circle, and one leads out of the space.
        (config[0x80], config[0x81]) = (0x01, 0x80);
        assert_eq!(link_files(&config), []);
        (config[0x34], config[0xfc]) = (0xfc, 0x10);
        assert_eq!(link_files(&config), []);
    }
}
