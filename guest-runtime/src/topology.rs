//! Agents: the nodes of the system, as sysfs describes them.
//!
//! KFD publishes one directory per node below `/sys/devices/virtual/kfd/kfd/topology/nodes`, with `key value`
//! lines. Unknown keys are ignored, missing ones are zero, as libhsakmt does.

use std::collections::HashMap;
use std::io;

use crate::transport::Transport;

/// Why the topology could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file or directory could not be read.
    #[error("cannot read the topology file `{path}`: {error}")]
    Read {
        /// Path below the topology directory.
        path: String,
        /// Error of the read.
        error: io::Error,
    },
    /// A file whose content is not as expected.
    #[error("the topology file `{path}` is malformed: {text:?}")]
    Malformed {
        /// Path below the topology directory.
        path: String,
        /// The offending text.
        text: String,
    },
}

/// `key value` lines of one file.
type Properties = HashMap<String, u64>;

/// One node: a processor package or a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agent {
    /// Number of the node.
    pub node: u32,
    /// KFD's id of the GPU; 0 for processors.
    pub gpu_id: u32,
    /// Name of the node, for example `navi31`; processors have none.
    pub name: String,
    /// Processor cores; 0 for GPUs.
    pub cpu_cores: u32,
    /// SIMDs.
    pub simds: u32,
    /// SIMDs of one compute unit.
    pub simds_per_cu: u32,
    /// Waves that fit on one SIMD.
    pub max_waves_per_simd: u32,
    /// Shader arrays.
    pub arrays: u32,
    /// Shader arrays of one shader engine.
    pub arrays_per_engine: u32,
    /// Waves of one compute unit that may own scratch memory.
    pub max_scratch_waves_per_cu: u32,
    /// Lanes of a wave.
    pub wavefront_size: u32,
    /// Kilobytes of LDS of one workgroup.
    pub lds_kib: u32,
    /// `major * 10000 + minor * 100 + step`.
    pub gfx_version: u32,
    /// PCI vendor.
    pub vendor_id: u32,
    /// PCI device.
    pub device_id: u32,
    /// PCI bus, device and function.
    pub location_id: u32,
    /// Minor number of the render node.
    pub render_minor: u32,
    /// Compute queues the hardware holds at once.
    pub cp_queues: u32,
    /// SDMA engines that programs can have queues of.
    pub sdma_engines: u32,
    /// Bytes of the context save area; 0 if the kernel does not say.
    pub cwsr_size: u32,
    /// Bytes of its control stack; 0 if the kernel does not say.
    pub ctl_stack_size: u32,
    /// Highest engine clock in MHz.
    pub max_clock_mhz: u32,
    /// Firmware version.
    pub firmware: u32,
    /// Accelerator dies.
    pub xccs: u32,
    /// Capability bits (`HSA_CAP_*`).
    pub capability: u32,
    /// Unique id of the device, 0 if it has none.
    pub unique_id: u64,
    /// Bytes of memory, all banks together.
    pub memory: u64,
    /// Caches as (level, KiB), one for each distinct pair, in order.
    pub caches: Vec<(u32, u32)>,
    /// Nodes it has a link to.
    pub links: Vec<u32>,
}

impl Agent {
    /// True for GPUs.
    pub fn is_gpu(&self) -> bool {
        self.simds > 0 && self.gpu_id != 0
    }

    /// Compute units.
    pub fn compute_units(&self) -> u32 {
        self.simds / self.simds_per_cu.max(1)
    }

    /// Shader engines.
    pub fn shader_engines(&self) -> u32 {
        (self.arrays / self.arrays_per_engine.max(1)).max(1)
    }

    /// Name of the instruction set, for example `gfx1100`.
    pub fn gfx_name(&self) -> String {
        let (major, minor, step) =
            (self.gfx_version / 10_000, self.gfx_version / 100 % 100, self.gfx_version % 100);
        format!("gfx{major}{minor:x}{step:x}")
    }

    fn from_properties(node: u32, gpu_id: u32, name: String, properties: &Properties) -> Self {
        let long = |key: &str| properties.get(key).copied().unwrap_or(0);
        let get = |key: &str| u32::try_from(long(key)).unwrap_or(u32::MAX);
        Self {
            node,
            gpu_id,
            name,
            cpu_cores: get("cpu_cores_count"),
            simds: get("simd_count"),
            simds_per_cu: get("simd_per_cu"),
            max_waves_per_simd: get("max_waves_per_simd"),
            arrays: get("array_count"),
            arrays_per_engine: get("simd_arrays_per_engine"),
            max_scratch_waves_per_cu: get("max_slots_scratch_cu"),
            wavefront_size: get("wave_front_size"),
            lds_kib: get("lds_size_in_kb"),
            gfx_version: get("gfx_target_version"),
            vendor_id: get("vendor_id"),
            device_id: get("device_id"),
            location_id: get("location_id"),
            render_minor: get("drm_render_minor"),
            cp_queues: get("num_cp_queues"),
            sdma_engines: get("num_sdma_engines"),
            cwsr_size: get("cwsr_size"),
            ctl_stack_size: get("ctl_stack_size"),
            max_clock_mhz: get("max_engine_clk_fcompute"),
            firmware: get("fw_version"),
            xccs: get("num_xcc"),
            capability: get("capability"),
            unique_id: long("unique_id"),
            memory: 0,
            caches: Vec::new(),
            links: Vec::new(),
        }
    }
}

/// Reads every node.
pub(crate) fn read(transport: &dyn Transport) -> Result<Vec<Agent>, TopologyError> {
    let mut agents = Vec::new();
    for node in numbers(transport, "nodes")? {
        let text = file(transport, &format!("nodes/{node}/gpu_id"))?;
        let gpu_id = text
            .trim()
            .parse()
            .map_err(|_| TopologyError::Malformed { path: format!("nodes/{node}/gpu_id"), text })?;
        let name = file(transport, &format!("nodes/{node}/name")).unwrap_or_default().trim().to_owned();
        let properties = properties(transport, &format!("nodes/{node}/properties"))?;
        let mut agent = Agent::from_properties(node, gpu_id, name, &properties);
        // Banks, caches and links are information only: a kernel without them still runs kernels.
        let sub = |kind: &str| -> Vec<Properties> {
            let folder = format!("nodes/{node}/{kind}");
            let indices = numbers(transport, &folder).unwrap_or_default();
            indices
                .iter()
                .filter_map(|i| self::properties(transport, &format!("{folder}/{i}/properties")).ok())
                .collect()
        };
        let get = |properties: &Properties, key: &str| properties.get(key).copied().unwrap_or(0);
        agent.memory = sub("mem_banks").iter().map(|bank| get(bank, "size_in_bytes")).sum();
        agent.links = sub("io_links").iter().map(|link| get(link, "node_to") as u32).collect();
        agent.caches = sub("caches")
            .iter()
            .map(|cache| (get(cache, "level") as u32, get(cache, "size") as u32))
            .collect();
        agent.caches.sort_unstable();
        agent.caches.dedup();
        agents.push(agent);
    }
    Ok(agents)
}

fn file(transport: &dyn Transport, path: &str) -> Result<String, TopologyError> {
    transport.sysfs_read(path).map_err(|error| TopologyError::Read { path: path.to_owned(), error })
}

fn properties(transport: &dyn Transport, path: &str) -> Result<Properties, TopologyError> {
    Ok(parse_properties(&file(transport, path)?))
}

fn parse_properties(text: &str) -> Properties {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.trim().split_once(' ')?;
            Some((key.to_owned(), value.trim().parse().ok()?))
        })
        .collect()
}

/// The entries of a directory that are numbers, in order.
fn numbers(transport: &dyn Transport, path: &str) -> Result<Vec<u32>, TopologyError> {
    let names =
        transport.sysfs_list(path).map_err(|error| TopologyError::Read { path: path.to_owned(), error })?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_ignore_unknown_and_broken_lines() {
        let parsed = parse_properties("simd_count 16\nnonsense\nname navi\nunique_id 18446744073709551615\n");
        assert_eq!(parsed["simd_count"], 16);
        assert_eq!(parsed["unique_id"], u64::MAX);
        assert_eq!(parsed.len(), 2);
    }

    #[test]
    fn gfx_names_follow_llvm() {
        for (version, name) in
            [(110_000, "gfx1100"), (90_010, "gfx90a"), (90_402, "gfx942"), (120_001, "gfx1201")]
        {
            let agent = Agent { gfx_version: version, ..Agent::default() };
            assert_eq!(agent.gfx_name(), name);
        }
    }

    #[test]
    fn counts_never_divide_by_zero() {
        let agent = Agent::default();
        assert_eq!((agent.compute_units(), agent.shader_engines()), (0, 1));
    }
}
