//! Links between nodes (`kfd_fill_gpu_direct_io_link_to_cpu`, `kfd_fill_gpu_xgmi_link_to_gpu` in `kfd_crat.c`, `kfd_dev_create_p2p_links` in
//! `kfd_topology.c`), in the order of the nodes that they lead to. Numbers are those of Linux 6.12.
//!
//! | nodes | directory | as Linux has it |
//! | --- | --- | --- |
//! | processors and a node of a GPU at the same memory node | `io_links` | always |
//! | processors and a node of a GPU at other memory nodes | `p2p_links` | always (`kfd_create_indirect_link_prop`) |
//! | processors at two memory nodes | `io_links` | always (`kfd_fill_iolink_info_for_cpu`) |
//! | partitions of one GPU | `io_links` | always |
//! | nodes of two GPUs of a hive | `io_links` | always |
//! | nodes of two other GPUs | `p2p_links` | with `CONFIG_HSA_AMD_P2P` and GPUs that reach each other over the bus |

use alloc::vec::Vec;

use belfry_abi::kfd::topology::{
    CRAT_IOLINK_FLAGS_ENABLED, CRAT_IOLINK_FLAGS_NON_COHERENT, CRAT_IOLINK_TYPE_PCIEXPRESS,
    CRAT_IOLINK_TYPE_XGMI,
};

use super::{Entry, Machine, Place};
use crate::os::{Function as _, Os};

/// Type of a link between processors of AMD (`kfd_crat.h`).
const CRAT_IOLINK_TYPE_HYPERTRANSPORT: u32 = 1;

/// Weight of a hop on the bus.
const BUS_WEIGHT: u32 = 20;
/// Weight of a hop of XGMI (`KFD_CRAT_XGMI_WEIGHT`): the GPUs of a hive are one hop from each other.
const XGMI_WEIGHT: u32 = 15;
/// Weight between partitions of a GPU (`KFD_CRAT_INTRA_SOCKET_WEIGHT`), and at each end of a link from a partition to another GPU.
const SOCKET_WEIGHT: u32 = 13;
/// MB/s of the slowest link of PCIe, one lane of the first generation, and of the fastest one that the devices' configuration spaces name:
/// 16 lanes at 16 GT/s.
const BUS_BANDWIDTH: (u32, u32) = (312, 32_000);
/// MB/s of a link of XGMI: 16 lanes at 25 GT/s (`amdgpu_xgmi_get_bandwidth`). There is one between two GPUs.
const XGMI_BANDWIDTH: u32 = 50_000;
/// MB/s between partitions.
const SOCKET_BANDWIDTH: u32 = 819_200;

/// GPUs of a hive whose engines are recommended one by one, and how many engines over XGMI they need.
const GPUS_WITH_ENGINES: u32 = 8;
const ENGINES_OF_HIVE: u32 = 14;
/// The SDMA engine for a link from a GPU to another one (`rec_sdma_eng_map`).
const ENGINES: [[u32; GPUS_WITH_ENGINES as usize]; GPUS_WITH_ENGINES as usize] = [
    [0, 14, 12, 2, 4, 8, 10, 6],
    [14, 0, 2, 10, 8, 4, 6, 12],
    [10, 2, 0, 12, 14, 6, 4, 8],
    [2, 12, 10, 0, 6, 14, 8, 4],
    [4, 8, 14, 6, 0, 10, 12, 2],
    [8, 4, 6, 14, 12, 0, 2, 10],
    [10, 6, 4, 8, 12, 2, 0, 14],
    [6, 12, 8, 4, 2, 10, 14, 0],
];

/// A link, from the node whose list it is in.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Number of the other node.
    pub(super) to: u32,
    /// Its type (`CRAT_IOLINK_TYPE_*`).
    pub(super) kind: u32,
    pub(super) weight: u32,
    /// Its least and its most bandwidth in MB/s.
    pub(super) bandwidth: (u32, u32),
    /// SDMA engines that should use it, one bit each (`kfd_set_recommended_sdma_engines`).
    pub(super) engines: u32,
    /// Its flags (`CRAT_IOLINK_FLAGS_*`).
    pub(super) flags: u32,
}

/// Numbers of so many engines, one bit each.
fn engines(first: u32, count: u32) -> u32 {
    ((1 << count) - 1) << first
}

/// The link of a GPU to the processors, or the way back: what the processors write to VRAM is not coherent.
fn bus<O: Os>(to: u32, gpu: Entry<'_, O>, flags: u32) -> Link {
    Link {
        to,
        kind: CRAT_IOLINK_TYPE_PCIEXPRESS,
        weight: BUS_WEIGHT,
        bandwidth: BUS_BANDWIDTH,
        engines: engines(0, gpu.node.sdma.pcie_engines()),
        flags: CRAT_IOLINK_FLAGS_ENABLED | flags,
    }
}

/// Returns the memory node of a GPU, which is the number of its processors' node.
fn near<O: Os>(machine: &Machine<O>, gpu: Entry<'_, O>) -> u32 {
    let node = gpu.device.hw.function().device_info().numa_node;
    // Linux takes the first node for a bus that is at none.
    if node < machine.numa.nodes { node } else { 0 }
}

/// The link from processors to those at another memory node. Linux says nothing of its bandwidth.
fn processors<O: Os>(machine: &Machine<O>, to: u32) -> Link {
    Link {
        to,
        kind: CRAT_IOLINK_TYPE_HYPERTRANSPORT,
        weight: machine.numa.distance,
        bandwidth: (0, 0),
        engines: 0,
        flags: CRAT_IOLINK_FLAGS_ENABLED,
    }
}

/// The link between a GPU and processors at another memory node than its own, in one direction.
fn far<O: Os>(machine: &Machine<O>, (to, gpu): (u32, Entry<'_, O>), flags: u32) -> Link {
    let weight = BUS_WEIGHT + machine.numa.distance;
    Link { weight, bandwidth: (0, 0), engines: 0, ..bus(to, gpu, flags) }
}

/// The link from a GPU by way of the processors to another one (`kfd_add_peer_prop`).
fn peer<O: Os>(machine: &Machine<O>, (to, from): (u32, Entry<'_, O>), other: Entry<'_, O>) -> Link {
    let direct = Link { weight: 2 * BUS_WEIGHT, engines: 0, ..bus(to, from, CRAT_IOLINK_FLAGS_NON_COHERENT) };
    if near(machine, from) == near(machine, other) {
        return direct;
    }
    Link { weight: direct.weight + machine.numa.distance, bandwidth: (0, 0), ..direct }
}

/// A link of XGMI: between partitions of a GPU, or between GPUs of a hive.
fn xgmi<O: Os>(to: u32, from: Entry<'_, O>, other: Entry<'_, O>) -> Link {
    let is_socket = from.device.number == other.device.number;
    let partitioned = from.nodes.count() > 1 || other.nodes.count() > 1;
    let (weight, bandwidth) = match (is_socket, partitioned) {
        (true, _) => (SOCKET_WEIGHT, SOCKET_BANDWIDTH),
        (false, false) => (XGMI_WEIGHT, XGMI_BANDWIDTH),
        // Linux says nothing of their bandwidth.
        (false, true) => (2 * SOCKET_WEIGHT + XGMI_WEIGHT, 0),
    };
    Link {
        to,
        kind: CRAT_IOLINK_TYPE_XGMI,
        weight,
        bandwidth: (bandwidth, bandwidth),
        engines: xgmi_engines(from, other),
        flags: CRAT_IOLINK_FLAGS_ENABLED,
    }
}

/// Engines for a link of XGMI: one in a hive of eight whole GPUs, otherwise all engines over XGMI, or all that there are.
fn xgmi_engines<O: Os>(from: Entry<'_, O>, other: Entry<'_, O>) -> u32 {
    let sdma = &from.node.sdma;
    let (near, far) = (sdma.pcie_engines(), sdma.engines() - sdma.pcie_engines());
    let hives = [from, other].map(|gpu| gpu.device.config.hive);
    if let [Some(own), Some(there)] = hives
        && own.id == there.id
        && own.nodes == GPUS_WITH_ENGINES
        && from.nodes.count() == 1
        && far >= ENGINES_OF_HIVE
        && let Some(&engine) = ENGINES.get(own.node as usize).and_then(|row| row.get(there.node as usize))
    {
        return 1 << engine;
    }
    if far == 0 { engines(0, near) } else { engines(near, far) }
}

/// The link from a node of a GPU to that of another one or another partition, and whether it is in `p2p_links`.
fn between<O: Os>(
    machine: &Machine<O>,
    (to, from): (u32, Entry<'_, O>),
    other: Entry<'_, O>,
) -> Option<(Link, bool)> {
    let (own, there) = (&from.device.hw, &other.device.hw);
    if from.device.number == other.device.number || own.shares_hive(there) {
        return Some((xgmi(to, from, other), false));
    }
    own.os().has_peers().then(|| (peer(machine, (to, from), other), true))
}

/// The links from a node of a GPU to others that are, or are not, in `p2p_links`.
fn among_gpus<O: Os>(
    machine: &Machine<O>,
    (from, number): (Entry<'_, O>, u32),
    over_bus: bool,
) -> impl Iterator<Item = Link> {
    let others = machine.numbered().filter(move |(to, _)| *to != number);
    others
        .filter_map(move |(to, other)| between(machine, (to, from), other))
        .filter_map(move |(link, is_over_bus)| (is_over_bus == over_bus).then_some(link))
}

/// Links of a node's `io_links`.
pub(super) fn io_links<O: Os>(machine: &Machine<O>, (place, number): (Place<'_, O>, u32)) -> Vec<Link> {
    match place {
        Place::Processors(node) => {
            let others = (0..machine.numa.nodes).filter(|&other| other != node);
            let gpus = machine.numbered().filter(|(_, gpu)| near(machine, *gpu) == node);
            let down = gpus.map(|(to, gpu)| bus(to, gpu, CRAT_IOLINK_FLAGS_NON_COHERENT));
            others.map(|to| processors(machine, to)).chain(down).collect()
        }
        Place::Gpu(from) => {
            let up = bus(near(machine, from), from, 0);
            core::iter::once(up).chain(among_gpus(machine, (from, number), false)).collect()
        }
    }
}

/// Links of a node's `p2p_links`.
pub(super) fn p2p_links<O: Os>(machine: &Machine<O>, (place, number): (Place<'_, O>, u32)) -> Vec<Link> {
    match place {
        Place::Processors(node) => {
            let gpus = machine.numbered().filter(|(_, gpu)| near(machine, *gpu) != node);
            gpus.map(|of| far(machine, of, CRAT_IOLINK_FLAGS_NON_COHERENT)).collect()
        }
        Place::Gpu(from) => {
            let own = near(machine, from);
            let others = (0..machine.numa.nodes).filter(|&to| to != own);
            let up = others.map(|to| far(machine, (to, from), 0));
            up.chain(among_gpus(machine, (from, number), true)).collect()
        }
    }
}
