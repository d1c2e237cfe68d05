//! Topology: the text files programs learn the machine from (`kfd_topology.c`, `kfd_crat.c`).
//!
//! The processors are node 0, or a node for each memory node that they are at. Those of the GPUs follow in the order in which the GPUs came:
//! one of each, or one for each partition. The tree below `topology` is `generation_id`, `system_properties`, and per node `gpu_id`, `name`, `properties`,
//! `mem_banks/0/properties`, `caches/N/properties`, `io_links/N/properties` and `p2p_links/N/properties` ([`links`]).

mod links;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write;

use belfry_abi::kfd::topology::{
    GPU_PROCESSOR_ID_LOW, HSA_CACHE_TYPE_HSACU, HSA_CAP_DOORBELL_TYPE_2_0, HSA_CAP_DOORBELL_TYPE_SHIFT,
    HSA_CAP_SVMAPI_SUPPORTED, HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED, HSA_CAP_TRAP_DEBUG_SUPPORT,
    HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED, HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED,
    HSA_CAP_WATCH_POINTS_SUPPORTED, HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT, HSA_MEM_HEAP_TYPE_FB_PUBLIC,
    HSA_MEM_HEAP_TYPE_SYSTEM, NUM_GWS,
};

use crate::asic::Cache;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::ip_tree;
use crate::node::{Node, Nodes};
use crate::os::{CpuInfo, Function as _, Numa, Os, PAGE_SIZE};
use crate::proc_files;
use crate::processes::Processes;
use crate::request::WATCHES;
use crate::xcp_tree;
use links::{Link, io_links, p2p_links};

/// A node of a GPU in the topology.
struct Entry<'a, O: Os> {
    device: &'a Device<O>,
    nodes: &'a Nodes,
    node: &'a Node,
}

impl<O: Os> Clone for Entry<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Os> Copy for Entry<'_, O> {}

/// One of the topology's nodes.
enum Place<'a, O: Os> {
    /// The processors at the memory node of this number.
    Processors(u32),
    Gpu(Entry<'a, O>),
}

impl<O: Os> Clone for Place<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Os> Copy for Place<'_, O> {}

/// Devices of a moment with their nodes, and the processors.
struct Machine<O: Os> {
    devices: Vec<(Arc<Device<O>>, Arc<Nodes>)>,
    cpu: CpuInfo,
    numa: Numa,
}

impl<O: Os> Machine<O> {
    /// Devices and nodes of this moment.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a device.
    fn new(processes: &Processes<O>) -> Result<Self> {
        let devices = processes.devices();
        let os = devices.first().ok_or(Errno::ENODEV)?.hw.os();
        let (cpu, numa) = (os.cpu_info(), os.numa());
        let with_nodes = devices.into_iter().map(|device| {
            let nodes = device.nodes();
            (device, nodes)
        });
        Ok(Self { devices: with_nodes.collect(), cpu, numa })
    }

    /// Nodes of all GPUs.
    fn gpus(&self) -> impl Iterator<Item = Entry<'_, O>> {
        self.devices
            .iter()
            .flat_map(|(device, nodes)| nodes.iter().map(move |node| Entry { device, nodes, node }))
    }

    /// Nodes of all GPUs, with their numbers.
    fn numbered(&self) -> impl Iterator<Item = (u32, Entry<'_, O>)> {
        (self.numa.nodes..).zip(self.gpus())
    }

    /// Number of nodes.
    fn count(&self) -> u32 {
        self.numa.nodes + self.devices.iter().map(|(_, nodes)| nodes.count()).sum::<u32>()
    }

    /// The node with this number in a path, and the number.
    fn place(&self, number: &str) -> Result<(Place<'_, O>, u32)> {
        let number: u32 = number.parse().map_err(|_| Errno::ENOENT)?;
        let place = match number.checked_sub(self.numa.nodes) {
            None => Place::Processors(number),
            Some(number) => Place::Gpu(self.gpus().nth(number as usize).ok_or(Errno::ENOENT)?),
        };
        Ok((place, number))
    }
}

/// Lines of `key value`.
struct Lines(String);

impl Lines {
    fn new() -> Self {
        Self(String::new())
    }

    fn line(&mut self, key: &str, value: impl core::fmt::Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{key} {value}");
        self
    }
}

/// The rest of a path that is not the topology's, but leads to another tree: what the discovery table says, or what partitions
/// have.
fn other_tree<'a>(path: &'a str, root: &str) -> Option<&'a str> {
    path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn caches<O: Os>(device: &Device<O>, node: &Node) -> Vec<Cache> {
    (device.hw.asic().caches)(&node.config, device.hw.asic())
}

/// Reads a file of a device's own trees: what its discovery table says, or what partitions have; nothing for another path.
pub(crate) fn read_of<O: Os>(device: &Device<O>, path: &str) -> Option<Result<String>> {
    if let Some(rest) = other_tree(path, ip_tree::ROOT) {
        return Some(ip_tree::read(&device.config, rest));
    }
    other_tree(path, xcp_tree::ROOT).map(|rest| xcp_tree::read(device, rest))
}

/// Lists a directory of these trees; nothing for another path.
pub(crate) fn list_of<O: Os>(device: &Device<O>, path: &str) -> Option<Result<Vec<String>>> {
    if let Some(rest) = other_tree(path, ip_tree::ROOT) {
        return Some(ip_tree::list(&device.config, rest));
    }
    other_tree(path, xcp_tree::ROOT).map(|rest| xcp_tree::list(device, rest))
}

/// Reads a file.
pub(crate) fn read<O: Os>(processes: &Processes<O>, path: &str) -> Result<String> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    if let Some(text) = proc_files::read(processes, path) {
        return text;
    }
    let machine = Machine::new(processes)?;
    let text = match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("generation_id"), None, ..) => format!("{}\n", processes.generation()),
        (Some("system_properties"), None, ..) => system_properties(),
        (Some("nodes"), Some(node), Some(file), None, ..) => match machine.place(node)? {
            (Place::Processors(numa_node), _) => cpu_file(&machine, numa_node, file)?,
            (Place::Gpu(entry), number) => gpu_file(&machine, (entry, number), file)?,
        },
        (Some("nodes"), Some(node), Some(list), Some(item), Some("properties"), None) => {
            let item: usize = item.parse().map_err(|_| Errno::ENOENT)?;
            properties_of(&machine, machine.place(node)?, list, item)?
        }
        _ => return Err(Errno::ENOENT),
    };
    Ok(text)
}

/// Lists a directory; directories end in a slash.
pub(crate) fn list<O: Os>(processes: &Processes<O>, path: &str) -> Result<Vec<String>> {
    if let Some(entries) = proc_files::list(processes, path) {
        return entries;
    }
    let machine = Machine::new(processes)?;
    let strings = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect::<Vec<_>>();
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next(), parts.next(), parts.next(), parts.next()) {
        (None, ..) => Ok(strings(&["generation_id", "system_properties", "nodes/"])),
        (Some("nodes"), None, ..) => Ok((0..machine.count()).map(|node| format!("{node}/")).collect()),
        (Some("nodes"), Some(node), None, ..) => machine.place(node).map(|_| {
            let lists = ["mem_banks/", "caches/", "io_links/", "p2p_links/"];
            [strings(&["gpu_id", "name", "properties"]), strings(&lists)].concat()
        }),
        (Some("nodes"), Some(node), Some(list), None, ..) => {
            let count = items(&machine, machine.place(node)?, list)?;
            Ok((0..count).map(|item| format!("{item}/")).collect())
        }
        (Some("nodes"), Some(node), Some(list), Some(item), None) => {
            let item: usize = item.parse().map_err(|_| Errno::ENOENT)?;
            if item < items(&machine, machine.place(node)?, list)? {
                Ok(vec!["properties".to_string()])
            } else {
                Err(Errno::ENOENT)
            }
        }
        _ => Err(Errno::ENOENT),
    }
}

fn items<O: Os>(machine: &Machine<O>, place: (Place<'_, O>, u32), list: &str) -> Result<usize> {
    match (list, place.0) {
        ("mem_banks", _) => Ok(1),
        ("io_links", _) => Ok(io_links(machine, place).len()),
        ("p2p_links", _) => Ok(p2p_links(machine, place).len()),
        ("caches", Place::Gpu(entry)) => Ok(caches(entry.device, entry.node).len()),
        ("caches", Place::Processors(_)) => Ok(0),
        _ => Err(Errno::ENOENT),
    }
}

fn system_properties() -> String {
    let mut lines = Lines::new();
    // Name of the platform as ACPI has it; a machine without one says 0.
    lines.line("platform_oem", 0).line("platform_id", 0).line("platform_rev", 0);
    lines.0
}

fn cpu_file<O: Os>(machine: &Machine<O>, numa_node: u32, file: &str) -> Result<String> {
    let cpu = &machine.cpu;
    match file {
        "gpu_id" => Ok("0\n".to_string()),
        "name" => Ok("\n".to_string()),
        "properties" => {
            let mut lines = Lines::new();
            let place = (Place::Processors(numa_node), numa_node);
            let share = |node| machine.numa.share(cpu.cores.into(), node);
            lines.line("cpu_cores_count", share(numa_node)).line("simd_count", 0).line("mem_banks_count", 1);
            lines.line("caches_count", 0).line("io_links_count", io_links(machine, place).len());
            lines.line("p2p_links_count", p2p_links(machine, place).len());
            lines.line("cpu_core_id_base", (0..numa_node).map(share).sum::<u64>()).line("simd_id_base", 0);
            for key in [
                "max_waves_per_simd",
                "lds_size_in_kb",
                "gds_size_in_kb",
                "num_gws",
                "wave_front_size",
                "array_count",
                "simd_arrays_per_engine",
                "cu_per_simd_array",
                "simd_per_cu",
                "max_slots_scratch_cu",
                "gfx_target_version",
                "vendor_id",
                "device_id",
                "location_id",
                "domain",
                "drm_render_minor",
                "hive_id",
                "num_sdma_engines",
                "num_sdma_xgmi_engines",
                "num_sdma_queues_per_engine",
                "num_cp_queues",
            ] {
                lines.line(key, 0);
            }
            lines.line("max_engine_clk_ccompute", cpu.max_clock_mhz);
            Ok(lines.0)
        }
        _ => Err(Errno::ENOENT),
    }
}

fn gpu_file<O: Os>(machine: &Machine<O>, place: (Entry<'_, O>, u32), file: &str) -> Result<String> {
    match file {
        "gpu_id" => Ok(format!("{}\n", place.0.node.gpu_id)),
        "name" => Ok("ip discovery\n".to_string()),
        "properties" => Ok(gpu_properties(machine, place)),
        _ => Err(Errno::ENOENT),
    }
}

/// Capabilities of the GPU (`kfd_topology_set_capabilities`, and `node_show` for the address watches).
pub(crate) fn capability<O: Os>(device: &Device<O>) -> u32 {
    let svm = if device.hw.os().has_svm() { HSA_CAP_SVMAPI_SUPPORTED } else { 0 };
    let debug = HSA_CAP_TRAP_DEBUG_SUPPORT
        | HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED
        | HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED
        | HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED;
    let watches = HSA_CAP_WATCH_POINTS_SUPPORTED | WATCHES.ilog2() << HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT;
    HSA_CAP_DOORBELL_TYPE_2_0 << HSA_CAP_DOORBELL_TYPE_SHIFT
        | svm
        | debug
        | watches
        | device.hw.asic().capability
}

fn gpu_properties<O: Os>(machine: &Machine<O>, (entry, number): (Entry<'_, O>, u32)) -> String {
    let Entry { device, nodes, node } = entry;
    let config = &node.config;
    let info = device.hw.function().device_info();
    let asic = device.hw.asic();
    let area = (asic.save_area)(config);
    let mut lines = Lines::new();
    lines
        .line("cpu_cores_count", 0)
        .line("simd_count", config.cus * asic.simds_per_cu)
        .line("mem_banks_count", 1);
    lines.line("caches_count", caches(device, node).len());
    let place = (Place::Gpu(entry), number);
    lines.line("io_links_count", io_links(machine, place).len());
    lines.line("p2p_links_count", p2p_links(machine, place).len());
    lines.line("cpu_core_id_base", 0).line("simd_id_base", GPU_PROCESSOR_ID_LOW);
    lines.line("max_waves_per_simd", config.waves_per_simd).line("lds_size_in_kb", config.lds_kib);
    lines.line("gds_size_in_kb", 0).line("num_gws", NUM_GWS).line("wave_front_size", config.wave_size);
    lines.line("array_count", config.xccs.max(1) * config.shader_engines * config.arrays_per_engine);
    lines.line("simd_arrays_per_engine", config.arrays_per_engine);
    lines.line("cu_per_simd_array", config.cus_per_array).line("simd_per_cu", asic.simds_per_cu);
    lines.line("max_slots_scratch_cu", config.scratch_slots_per_cu);
    lines.line("gfx_target_version", asic.gfx_target_version);
    lines.line("vendor_id", info.vendor_id).line("device_id", info.device_id);
    lines.line("location_id", nodes.location_id(node, &info)).line("domain", info.domain);
    // Partitions are a hive, which has its name from the function (`kgd2kfd_device_init`).
    let hive = match device.hw.hive() {
        Some(hive) => hive.name(),
        None if nodes.count() > 1 => info.location_id.into(),
        None => 0,
    };
    lines.line("drm_render_minor", info.minor_of(node.number)).line("hive_id", hive);
    lines
        .line("num_sdma_engines", node.sdma.pcie_engines())
        .line("num_sdma_xgmi_engines", node.sdma.engines() - node.sdma.pcie_engines())
        .line("num_sdma_queues_per_engine", asic.sdma.queues_per_engine());
    lines
        .line("num_cp_queues", asic.cp_queues)
        .line("cwsr_size", area.cwsr_size)
        .line("ctl_stack_size", area.ctl_stack_size);
    lines.line("max_engine_clk_fcompute", asic.product.max_engine_clock).line("local_mem_size", 0);
    lines.line("fw_version", asic.product.fw_version).line("capability", capability(device));
    lines
        .line("capability2", 0)
        .line("debug_prop", asic.product.debug_prop)
        .line("sdma_fw_version", asic.product.sdma_fw_version);
    lines.line("unique_id", nodes.unique_id(node)).line("num_xcc", config.xccs);
    lines.line("max_engine_clk_ccompute", machine.cpu.max_clock_mhz);
    lines.0
}

fn properties_of<O: Os>(
    machine: &Machine<O>,
    place: (Place<'_, O>, u32),
    list: &str,
    item: usize,
) -> Result<String> {
    if item >= items(machine, place, list)? {
        return Err(Errno::ENOENT);
    }
    let mut lines = Lines::new();
    match (list, place.0) {
        ("mem_banks", Place::Gpu(Entry { device, nodes, .. })) => {
            let size = device.vram_of_node(nodes);
            lines.line("heap_type", HSA_MEM_HEAP_TYPE_FB_PUBLIC).line("size_in_bytes", size);
            let product = &device.hw.asic().product;
            lines.line("flags", 0).line("width", product.memory_width);
            lines.line("mem_clk_max", product.max_memory_clock);
        }
        ("mem_banks", Place::Processors(numa_node)) => {
            let share = machine.numa.share(machine.cpu.memory_bytes / PAGE_SIZE, numa_node) * PAGE_SIZE;
            lines.line("heap_type", HSA_MEM_HEAP_TYPE_SYSTEM).line("size_in_bytes", share);
            lines.line("flags", 0).line("width", 0).line("mem_clk_max", 0);
        }
        ("io_links" | "p2p_links", _) => {
            let all = if list == "io_links" { io_links(machine, place) } else { p2p_links(machine, place) };
            let Link { to, kind, weight, bandwidth, engines, flags } = *all.get(item).ok_or(Errno::ENOENT)?;
            let (min_bandwidth, max_bandwidth) = bandwidth;
            lines.line("type", kind).line("version_major", 0).line("version_minor", 0);
            lines.line("node_from", place.1).line("node_to", to).line("weight", weight);
            lines.line("min_latency", 0).line("max_latency", 0);
            lines.line("min_bandwidth", min_bandwidth).line("max_bandwidth", max_bandwidth);
            lines.line("recommended_transfer_size", 0).line("recommended_sdma_engine_id_mask", engines);
            lines.line("flags", flags);
        }
        ("caches", Place::Gpu(Entry { device, node, .. })) => {
            let caches = caches(device, node);
            let cache = caches.get(item).ok_or(Errno::ENOENT)?;
            lines
                .line("processor_id_low", GPU_PROCESSOR_ID_LOW + cache.first_simd)
                .line("level", cache.level);
            lines.line("size", cache.kib).line("cache_line_size", 128).line("cache_lines_per_tag", 1);
            lines.line("association", 16).line("latency", 0).line("type", cache.kind | HSA_CACHE_TYPE_HSACU);
            let map: Vec<&str> = (0..cache.simds.min(256)).map(|_| "1").collect();
            lines.line("sibling_map", map.join(","));
        }
        _ => return Err(Errno::ENOENT),
    }
    Ok(lines.0)
}
