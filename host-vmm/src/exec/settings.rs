//! The settings of a program's devices and of their files.

use belfry_device::GpuConfig;
use belfry_kfd_hosted::prepared::{MAX_GPUS, Prepared, PreparedGpu};
use belfry_machine::Board;

use super::{ExecError, ExecOptions, tree};

/// Buses of the GPUs.
struct Buses {
    root: u8,
    /// Bus of each GPU, and the bridges above it.
    gpus: Vec<(u8, Vec<u32>)>,
}

impl Buses {
    /// Finds buses for that many GPUs, each behind a root port of its own, or behind that of its switch, which is in the slot of the
    /// switch's first GPU. Buses behind a bridge follow its own, as firmware numbers them.
    fn of(board: &Board, count: usize) -> Self {
        let (root, free) = tree::free_buses(count + 2 * board.switches.len());
        let mut free = free.into_iter();
        let mut next = || free.next().unwrap_or_default();
        let at = |bus: u8, device: usize| u32::from(bus) << 8 | (device as u32) << 3;
        let mut gpus = vec![(0, Vec::new()); count];
        for number in 0..count {
            let slot = at(root, number + 1);
            match board.switches.iter().find(|members| members.contains(&number)) {
                None => gpus[number] = (next(), vec![slot]),
                Some(members) if members.first() == Some(&number) => {
                    let (outer, inner) = (next(), next());
                    for (port, &member) in members.iter().enumerate().filter(|(_, member)| **member < count) {
                        gpus[member] = (next(), vec![slot, at(outer, 0), at(inner, port)]);
                    }
                }
                // It has its place with the first one of its switch.
                Some(_) => {}
            }
        }
        Self { root, gpus }
    }
}

impl ExecOptions {
    /// Returns the settings of the devices and of their files.
    pub(super) fn settings(&self) -> Result<Prepared, ExecError> {
        let (first, count) = (&self.gpus.first, self.gpus.count());
        if count > MAX_GPUS {
            return Err(belfry_kfd_hosted::Error::TooManyGpus(count).into());
        }
        let mut render_minor = 128;
        let mut gpus = Vec::new();
        let board = &self.gpus.board;
        let places = Buses::of(board, count);
        let all = GpuConfig::of_machine(self.gpus.links, self.gpus.all());
        for (number, gpu) in all.iter().enumerate() {
            let Some((bus, bridges)) = places.gpus.get(number).cloned() else { break };
            let prepared = PreparedGpu {
                chip: gpu.chip,
                xccs: gpu.xccs,
                partition: gpu.partition,
                cus: gpu.cus,
                vram: gpu.vram_size,
                location_id: u32::from(bus) << 8,
                render_minor,
                hive: gpu.hive,
                numa_node: board.numa_node(number),
                bridges,
            };
            render_minor += prepared.render_nodes();
            gpus.push(prepared);
        }
        let mut prepared = Prepared {
            gpus,
            workers: first.workers,
            deterministic: first.deterministic,
            tier: first.tier,
            matrices: first.matrices,
            counts_code: first.counts_code,
            code_folder: self.code_folder.clone(),
            system_memory: tree::machine_memory(),
            domain: 0,
            root_bus: places.root,
            links: self.gpus.links,
            numa_nodes: board.numa_nodes,
            numa_distance: board.numa_distance,
            paths: Vec::new(),
        };
        prepared.paths = tree::paths(&prepared);
        Ok(prepared)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use belfry_kfd_hosted::Links;
    use belfry_kfd_hosted::prepared::{CARD_FILE, PreparedCard, Wait};
    use belfry_machine::Gpus;

    use super::*;

    fn options(gpus: usize) -> ExecOptions {
        let gpu = GpuConfig { cus: 4, vram_size: 64 << 20, workers: 1, ..GpuConfig::default() };
        ExecOptions {
            gpus: Gpus { first: gpu.clone(), others: vec![gpu; gpus - 1], ..Gpus::default() },
            code_folder: None,
            root: None,
            namespace: false,
            trace: None,
            record: None,
            sanitize: None,
            profile: None,
            inspect: None,
            debuggable: false,
            wait: Wait::Auto,
            program: Vec::new(),
            asked: None,
        }
    }

    #[test]
    fn tree_of_two_gpus_has_two_functions_with_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let settings = options(2).settings().unwrap();
        let tree = tree::publish(folder.path(), &settings).unwrap();
        let read = |path: &str| {
            fs::read_to_string(tree.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        for name in ["renderD128", "renderD129", "card0", "card1"] {
            assert!(tree.join("dev/dri").join(name).exists(), "{name}");
        }
        let cards: Vec<PreparedCard> = serde_json::from_str(&read(CARD_FILE)).unwrap();
        let mut found = Vec::new();
        for (number, PreparedCard { device, .. }) in cards.iter().enumerate() {
            let node = number + 1;
            let properties = read(&format!("sys/class/kfd/kfd/topology/nodes/{node}/properties"));
            let location = settings.gpus[number].location_id;
            assert!(properties.contains(&format!("location_id {location}\n")), "{properties}");
            assert!(properties.contains(&format!("drm_render_minor {}\n", 128 + number)), "{properties}");
            assert!(properties.contains("p2p_links_count 1\n"), "{properties}");
            assert!(tree.join(device).join(format!("hwmon/hwmon{number}/temp1_input")).exists());
            assert_eq!(
                read(&format!("sys/class/drm/card{number}/device/uevent")),
                read(&format!("{device}/uevent"))
            );
            found.push((device.clone(), read(&format!("{device}/resource"))));
        }
        assert_eq!(found.len(), 2);
        assert!(found[0].0 != found[1].0 && found[0].1 != found[1].1, "{found:?}");
        assert_eq!(settings.paths.iter().filter(|path| path.contains("/sys/devices/pci")).count(), 1);
        // Each is behind a bridge of its own, and its bus leads there.
        for (number, (device, _)) in found.iter().enumerate() {
            let (bridge, name) = device.rsplit_once('/').unwrap();
            assert_eq!(read(&format!("{bridge}/class")), "0x060400\n");
            assert_eq!(read(&format!("{bridge}/max_link_width")), read(&format!("{device}/max_link_width")));
            let by_bus = tree.join(format!("sys/class/pci_bus/{}/../../{name}", &name[..7]));
            let whole = |path: &std::path::Path| fs::canonicalize(path).unwrap();
            assert_eq!(whole(&by_bus), whole(&tree.join(device)), "{number}");
            assert_eq!(read(&format!("{device}/numa_node")), "0\n");
        }
    }

    #[test]
    fn tree_of_a_board_has_its_switches_and_memory_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(3);
        let switches = vec![vec![0, 2]];
        options.gpus.board = Board { switches, at_node: vec![0, 1, 0], numa_nodes: 2, numa_distance: 32 };
        let settings = options.settings().unwrap();
        let tree = tree::publish(folder.path(), &settings).unwrap();
        let read = |path: &str| {
            fs::read_to_string(tree.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let cards: Vec<PreparedCard> = serde_json::from_str(&read(CARD_FILE)).unwrap();
        let parts: Vec<Vec<&str>> = cards.iter().map(|card| card.device.split('/').collect()).collect();
        // The root bus, then one port, or the switch's three.
        assert_eq!([parts[0].len(), parts[1].len(), parts[2].len()], [7, 5, 7]);
        assert_eq!(parts[0][..5], parts[2][..5]);
        assert!(parts[0][5] != parts[2][5] && parts[1][3] != parts[0][3]);
        let port = parts[0][..4].join("/");
        let last = |gpu: usize| settings.gpus[gpu].location_id >> 8;
        for (bridge, ids, behind) in [
            (port.clone(), "0x1022", last(0).max(last(2))),
            (parts[0][..5].join("/"), "0x15b3", last(0).max(last(2))),
            (parts[2][..6].join("/"), "0x15b3", last(2)),
        ] {
            assert_eq!(read(&format!("{bridge}/class")), "0x060400\n");
            assert_eq!(read(&format!("{bridge}/vendor")), format!("{ids}\n"));
            let first: u32 = read(&format!("{bridge}/secondary_bus_number")).trim().parse().unwrap();
            let most: u32 = read(&format!("{bridge}/subordinate_bus_number")).trim().parse().unwrap();
            assert!((first..=most).contains(&behind), "{bridge}: {first} to {most} without {behind}");
            assert!(tree.join(format!("sys/class/pci_bus/0000:{first:02x}")).exists(), "{bridge}");
        }
        for (card, node) in cards.iter().zip([0, 1, 0]) {
            assert_eq!(read(&format!("{}/numa_node", card.device)), format!("{node}\n"));
        }
        assert_eq!(read("sys/devices/system/node/online"), "0-1\n");
        assert_eq!(read("sys/devices/system/node/node1/distance"), "32 10\n");
        assert!(settings.paths.iter().any(|path| path == "/sys/devices/system/node"));
        let nodes = tree.join("sys/class/kfd/kfd/topology/nodes");
        assert_eq!(fs::read_dir(nodes).unwrap().count(), 5);
    }

    #[test]
    fn tree_of_different_chips_has_each_with_its_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(2);
        let chip = &belfry_device::chip::gfx942::MODEL;
        options.gpus.others[0] = GpuConfig { chip, vram_size: 128 << 20, ..options.gpus.first.clone() };
        let settings = options.settings().unwrap();
        let tree = tree::publish(folder.path(), &settings).unwrap();
        for (card, id, version, vram) in
            [(0, "0x744c", 110_000, 64u64 << 20), (1, "0x74a1", 90_402, 128 << 20)]
        {
            let read = |path: &str| fs::read_to_string(tree.join(path)).unwrap();
            assert_eq!(read(&format!("sys/class/drm/card{card}/device/device")), format!("{id}\n"));
            let node = format!("sys/class/kfd/kfd/topology/nodes/{}", card + 1);
            assert!(read(&format!("{node}/properties")).contains(&format!("gfx_target_version {version}\n")));
            let bank = read(&format!("{node}/mem_banks/0/properties"));
            let size = bank.lines().find_map(|line| line.strip_prefix("size_in_bytes ")).unwrap();
            // The driver keeps some of it.
            assert!((vram * 3 / 4..=vram).contains(&size.parse().unwrap()), "{bank}");
        }
        let names = settings
            .configs(false)
            .into_iter()
            .map(|config| (config.gpu.chip.name, config.gpu.vram_size >> 20));
        assert_eq!(names.collect::<Vec<_>>(), [("gfx1100", 64), ("gfx942", 128)]);
    }

    #[test]
    fn tree_of_a_hive_names_it_and_its_cards() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(3);
        let chip = &belfry_device::chip::gfx942::MODEL;
        let gpu = GpuConfig { chip, xccs: 1, ..options.gpus.first.clone() };
        options.gpus = Gpus { first: gpu.clone(), others: vec![gpu; 2], ..Gpus::default() };
        let settings = options.settings().unwrap();
        let tree = tree::publish(folder.path(), &settings).unwrap();
        let read = |path: String| {
            fs::read_to_string(tree.join(&path)).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        for card in 0..3 {
            let device = format!("sys/class/drm/card{card}/device");
            assert_eq!(read(format!("{device}/xgmi_hive_info/xgmi_hive_id")), "16\n");
            assert_eq!(read(format!("{device}/xgmi_device_id")), format!("{}\n", 16 + card));
            for node in 1..4 {
                let there = read(format!("{device}/xgmi_hive_info/node{node}/xgmi_physical_id"));
                assert_eq!(there, format!("{}\n", node - 1));
            }
            let hops = (0..3).map(|other| if other == card { "00 " } else { "01 " }).collect::<String>();
            assert_eq!(read(format!("{device}/xgmi_num_hops")), hops + "\n");
            let properties = read(format!("sys/class/kfd/kfd/topology/nodes/{}/properties", card + 1));
            assert!(properties.contains("hive_id 16\n") && properties.contains("p2p_links_count 0\n"));
        }
        // The bus alone makes no hive.
        options.gpus.links = Links::Pcie;
        let tree = tree::publish(folder.path(), &options.settings().unwrap()).unwrap();
        assert!(!tree.join("sys/class/drm/card0/device/xgmi_device_id").exists());
    }

    #[test]
    fn more_gpus_than_reach_each_other_are_refused() {
        assert!(options(MAX_GPUS + 1).settings().unwrap_err().to_string().contains("9 GPUs"));
    }
}
