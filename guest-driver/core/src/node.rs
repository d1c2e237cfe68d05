//! Nodes: what user space sees as one GPU each (`struct kfd_node`, `kfd_device.c`).
//!
//! A GPU whose graphics cores are shared out has a node for each partition, any other one has one. All nodes of a GPU have its
//! memory in common. Each has queues, SDMA engines, a render node and a name (`gpu_id`) of its own, and a process has an address
//! space in each.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64};

use belfry_abi::ih::{IhEntry, node};
use belfry_abi::partition::ComputePartition;
use belfry_abi::regs::gfx9::gc::CP_HYP_XCP_CTL;

use crate::asic::{Asic, VMIDS};
use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::hw::{Hw, log};
use crate::os::{DeviceInfo, Os};
use crate::sdma::SdmaQueues;

/// Graphics cores of a die, which is what the interrupts of SDMA engines tell.
const XCCS_PER_DIE: u32 = 2;

/// One node.
pub(crate) struct Node {
    /// Its number among those of the GPU.
    pub(crate) number: u32,
    /// Name that user space has for it.
    pub(crate) gpu_id: u16,
    /// First of its graphics cores; [`Config::xccs`] says how many there are.
    pub(crate) first_xcc: u32,
    /// Part of the GPU that it has. The blocks of the discovery table are in the GPU's own alone.
    pub(crate) config: Config,
    /// Its SDMA queues, by the numbers that engines have within the node.
    pub(crate) sdma: SdmaQueues,
    /// Compute queues made so far.
    pub(crate) queues_made: AtomicU32,
    /// Bytes of VRAM behind buffer objects that were made for it, where it has a part of VRAM.
    pub(crate) vram_used: Arc<AtomicU64>,
    /// VMIDs that its processes may have, one bit each.
    pub(crate) vmids: u32,
    /// Sources of interrupts that are its own, one bit for each number of `IhEntry::node`.
    sources: u32,
}

/// All nodes of a GPU.
pub(crate) struct Nodes {
    list: Vec<Node>,
    mode: ComputePartition,
}

/// CRC-16 (polynomial 0x8005, reflected).
fn crc(words: &[u32]) -> u16 {
    let mut crc = 0u16;
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        crc ^= u16::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ 0xa001 } else { crc >> 1 };
        }
    }
    crc
}

/// The name of a node: of what identifies the function and, of partitions, of their graphics cores
/// (`kfd_generate_gpu_id`); stable over reloads, never 0, and no other node's of the machine.
fn gpu_id(info: &DeviceInfo, config: &Config, cores: Option<(u32, u32)>, taken: impl Fn(u16) -> bool) -> u16 {
    let words = [
        u32::from(info.vendor_id) | u32::from(info.device_id) << 16,
        u32::from(info.subsystem_vendor_id) | u32::from(info.subsystem_id) << 16,
        info.domain,
        info.location_id,
        (config.vram_size >> 20) as u32,
        cores.map_or(0, |(first, count)| first | count << 16),
    ];
    let mut id = crc(&words[..if cores.is_some() { 6 } else { 5 }]).max(1);
    while taken(id) {
        id = id.wrapping_add(1).max(1);
    }
    id
}

/// Part of a GPU that the graphics cores from `first` on have.
fn part(config: &Config, first: u32, count: u32) -> Config {
    let nodes = config.xccs.max(1) / count.max(1);
    let arrays = config.shader_engines * config.arrays_per_engine;
    let cores = (first * arrays) as usize..((first + count) * arrays) as usize;
    let cu_bitmap = config.cu_bitmap.get(cores).map(<[u32]>::to_vec).unwrap_or_default();
    Config {
        xccs: count,
        cus: cu_bitmap.iter().map(|bitmap| bitmap.count_ones()).sum(),
        cu_bitmap,
        sdma_engines: config.sdma_engines / nodes.max(1),
        ..whole(config)
    }
}

/// All of a GPU.
fn whole(config: &Config) -> Config {
    Config { blocks: Vec::new(), ..config.clone() }
}

/// VMIDs of a node: all that processes have. Where each graphics core is a partition, two share a die, whose interrupts only the
/// VMID tells apart: one has the first half, the other one the second (`kgd2kfd_device_init`).
fn vmids(asic: &Asic, mode: ComputePartition, number: u32) -> u32 {
    let all = |first: u32, count: u32| (u32::MAX << first) & (((1u64 << (first + count)) - 1) as u32);
    let count = VMIDS - asic.first_kfd_vmid;
    if mode != ComputePartition::Cpx {
        return all(asic.first_kfd_vmid, count);
    }
    let half = count / 2;
    all(if number.is_multiple_of(2) { VMIDS - 2 * half } else { VMIDS - half }, half)
}

/// Sources of the interrupts of graphics cores, and of their SDMA engines (`kfd_setup_interrupt_bitmap`).
fn sources(first: u32, count: u32) -> u32 {
    (first..first + count).fold(0, |bits, xcc| {
        bits | 1 << node::of_xcc(xcc as u8) | 1 << node::of_die((xcc / XCCS_PER_DIE) as u8)
    })
}

impl Nodes {
    /// The nodes of a GPU that is shared out like this; `others` are the names of all nodes of other GPUs.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a mode that as many graphics cores cannot have.
    #[inline(never)]
    pub(crate) fn new(
        asic: &Asic,
        info: &DeviceInfo,
        config: &Config,
        mode: ComputePartition,
        others: &[u16],
    ) -> Result<Arc<Self>> {
        let xccs = config.xccs.max(1);
        let partitions = mode.partitions(xccs).ok_or(Errno::EINVAL)?;
        let count = xccs / partitions;
        let mut list: Vec<Node> = Vec::new();
        for number in 0..partitions {
            let first_xcc = number * count;
            let cores = (partitions > 1).then_some((first_xcc, count));
            let taken = |id| others.contains(&id) || list.iter().any(|other| other.gpu_id == id);
            let gpu_id = gpu_id(info, config, cores, taken);
            let config = if cores.is_some() { part(config, first_xcc, count) } else { whole(config) };
            list.push(Node {
                number,
                gpu_id,
                first_xcc,
                sdma: SdmaQueues::new(config.sdma_engines, &asic.sdma),
                queues_made: AtomicU32::new(0),
                vram_used: Arc::default(),
                vmids: vmids(asic, mode, number),
                sources: sources(first_xcc, count),
                config,
            });
        }
        Ok(Arc::new(Self { list, mode }))
    }

    /// Returns the way in which the graphics cores are shared out.
    pub(crate) fn mode(&self) -> ComputePartition {
        self.mode
    }

    /// Place at which user space finds a node: the function, and of several nodes the number in the place of the function's own
    /// (`kfd_topology_add_device`: `pci_dev_id | node_id`).
    pub(crate) fn location_id(&self, node: &Node, info: &DeviceInfo) -> u32 {
        info.location_id | if self.list.len() > 1 { node.number } else { 0 }
    }

    /// Number that tells a node from all others: the card's or, of partitions, that of their first graphics core
    /// (`__amdgpu_xcp_set_unique_id`). That of the first core is the card's.
    pub(crate) fn unique_id(&self, node: &Node) -> u64 {
        u64::from(self.first().gpu_id) | u64::from(node.first_xcc) << 32
    }

    /// Returns the number of nodes, at least one.
    pub(crate) fn count(&self) -> u32 {
        self.list.len() as u32
    }

    /// All of them.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, Node> {
        self.list.iter()
    }

    /// The first one, which there always is; the render node works with it.
    pub(crate) fn first(&self) -> &Node {
        &self.list[0]
    }

    /// The one with a number; the first one for a number that there is not.
    pub(crate) fn get(&self, number: u32) -> &Node {
        self.list.get(number as usize).unwrap_or(&self.list[0])
    }

    /// The one whose interrupt an entry is (`kfd_irq_is_from_node`); the first one where no other one's is it.
    pub(crate) fn raised(&self, entry: &IhEntry) -> &Node {
        let has = |bits: u32, at: u8| 1u32.checked_shl(at.into()).is_some_and(|bit| bits & bit != 0);
        let is_source = |node: &&Node| has(node.sources, entry.node()) && has(node.vmids, entry.vmid());
        self.list.iter().find(is_source).unwrap_or(&self.list[0])
    }
}

/// Reads from their registers how the graphics cores are shared out.
///
/// Registers that do not agree are as if none was set: one partition.
pub(crate) fn mode_of<O: Os>(hw: &Hw<O>) -> ComputePartition {
    let xccs = hw.xccs().count() as u32;
    if !hw.asic().partitions {
        return ComputePartition::Spx;
    }
    let in_each = hw.read::<CP_HYP_XCP_CTL>().num_xcc_in_xcp();
    let agrees = |xcc: u32| {
        let place = hw.instance(xcc as usize).read::<CP_HYP_XCP_CTL>();
        place.num_xcc_in_xcp() == in_each && Some(place.virtual_xcc_id()) == xcc.checked_rem(in_each)
    };
    let mode = ComputePartition::of(xccs, in_each).filter(|_| (0..xccs).all(agrees));
    mode.unwrap_or_else(|| {
        log!(hw, Warn, "the graphics cores do not say together how they are partitioned: it will be SPX");
        ComputePartition::Spx
    })
}

#[cfg(test)]
mod tests;
