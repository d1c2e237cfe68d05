//! Links between nodes (`kfd_fill_gpu_direct_io_link_to_cpu`, `kfd_fill_gpu_xgmi_link_to_gpu` in `kfd_crat.c`, `kfd_dev_create_p2p_links` in
//! `kfd_topology.c`), in the order of the nodes that they lead to.
//!
//! | nodes | directory | as Linux has it |
//! | --- | --- | --- |
//! | processors and a node of a GPU | `io_links` | always |
//! | partitions of one GPU | `io_links` | always |
//! | nodes of two GPUs | `p2p_links` | with `CONFIG_HSA_AMD_P2P` and GPUs that reach each other over the bus |

use alloc::vec::Vec;

use belfry_abi::kfd::topology::{
    CRAT_IOLINK_FLAGS_ENABLED, CRAT_IOLINK_FLAGS_NON_COHERENT, CRAT_IOLINK_TYPE_PCIEXPRESS,
    CRAT_IOLINK_TYPE_XGMI,
};

use super::{Machine, Place};
use crate::os::Os;

/// A link, from the node whose list it is in.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// Number of the other node.
    pub(super) to: u32,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// PCIe, between a GPU and the processors.
    Bus,
    /// PCIe, from a GPU by way of the processors to another one.
    Peer,
    /// Between partitions of a GPU.
    Socket,
}

impl Kind {
    /// Its type (`CRAT_IOLINK_TYPE_*`).
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Bus | Self::Peer => CRAT_IOLINK_TYPE_PCIEXPRESS,
            Self::Socket => CRAT_IOLINK_TYPE_XGMI,
        }
    }

    /// Its weight: 20 for each hop on the bus (`KFD_CRAT_INTRA_SOCKET_WEIGHT` between partitions).
    pub(super) fn weight(self) -> u32 {
        match self {
            Self::Bus => 20,
            Self::Peer => 40,
            Self::Socket => 13,
        }
    }

    /// Its least and its most bandwidth in MB/s.
    pub(super) fn bandwidth(self) -> (u32, u32) {
        match self {
            Self::Bus | Self::Peer => (312, 32_000),
            Self::Socket => (819_200, 819_200),
        }
    }

    /// Its flags (`CRAT_IOLINK_FLAGS_*`).
    pub(super) fn flags(self) -> u32 {
        match self {
            Self::Bus | Self::Socket => CRAT_IOLINK_FLAGS_ENABLED,
            Self::Peer => CRAT_IOLINK_FLAGS_ENABLED | CRAT_IOLINK_FLAGS_NON_COHERENT,
        }
    }
}

/// Links of a node's `io_links`.
pub(super) fn io_links<O: Os>(machine: &Machine<O>, (place, number): (Place<'_, O>, u32)) -> Vec<Link> {
    match place {
        Place::Processors => (1..=machine.count()).map(|to| Link { to, kind: Kind::Bus }).collect(),
        Place::Gpu(from) => {
            let all = (1u32..).zip(machine.gpus());
            let near = all.filter(|(to, other)| other.device.number == from.device.number && *to != number);
            let near = near.map(|(to, _)| Link { to, kind: Kind::Socket });
            core::iter::once(Link { to: 0, kind: Kind::Bus }).chain(near).collect()
        }
    }
}

/// Links of a node's `p2p_links`.
pub(super) fn p2p_links<O: Os>(machine: &Machine<O>, (place, _): (Place<'_, O>, u32)) -> Vec<Link> {
    let Place::Gpu(from) = place else { return Vec::new() };
    let all = (1u32..).zip(machine.gpus());
    let far = all.filter(|(_, other)| other.device.number != from.device.number);
    far.map(|(to, _)| Link { to, kind: Kind::Peer }).collect()
}
