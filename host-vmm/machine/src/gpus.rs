//! The GPUs of a machine that has at least one, and their counters together.

use std::collections::BTreeMap;

use belfry_device::memory::{Links, MAX_PEERS};
use belfry_device::{Gpu, GpuConfig, Stats};

/// Most GPUs of a machine: as many as reach each other.
pub const MAX_GPUS: usize = MAX_PEERS;

/// Configurations of the GPUs. Tools that look at one GPU take the first one.
#[derive(Clone, Debug, Default)]
pub struct Gpus {
    /// The first one.
    pub first: GpuConfig,
    /// The others, in the order in which the guest finds them.
    pub others: Vec<GpuConfig>,
    /// Links between them.
    pub links: Links,
    /// Places of them on the board.
    pub board: Board,
}

/// Places of GPUs, by their numbers, on a board: switches and memory nodes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Board {
    /// GPUs below each switch. Any other one has a root port of its own.
    pub switches: Vec<Vec<usize>>,
    /// Memory node of each GPU; 0 for those behind the last one.
    pub at_node: Vec<u32>,
    /// Memory nodes, at least 1.
    pub numa_nodes: u32,
    /// Distance between any two of them.
    pub numa_distance: u32,
}

impl Default for Board {
    /// One memory node, and no switch.
    fn default() -> Self {
        Self { switches: Vec::new(), at_node: Vec::new(), numa_nodes: 1, numa_distance: 10 }
    }
}

impl Board {
    /// Returns the memory node of a GPU.
    #[must_use]
    pub fn numa_node(&self, gpu: usize) -> u32 {
        self.at_node.get(gpu).copied().unwrap_or(0)
    }
}

impl Gpus {
    /// Returns all of them.
    #[must_use]
    pub fn all(&self) -> Vec<GpuConfig> {
        std::iter::once(&self.first).chain(&self.others).cloned().collect()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        1 + self.others.len()
    }
}

impl From<GpuConfig> for Gpus {
    fn from(first: GpuConfig) -> Self {
        Self { first, ..Self::default() }
    }
}

/// Returns the counters of all GPUs of a machine together, and their registers without behaviour, as [`Gpu::unmodelled`] lists them.
pub fn totals<'a>(gpus: impl IntoIterator<Item = &'a Gpu>) -> (Stats, Vec<(String, u64, u64)>) {
    let mut uses = BTreeMap::<String, (u64, u64)>::new();
    let mut stats = Stats::default();
    for gpu in gpus {
        stats = stats.plus(gpu.stats());
        for (name, reads, writes) in gpu.unmodelled() {
            let sum = uses.entry(name).or_default();
            *sum = (sum.0 + reads, sum.1 + writes);
        }
    }
    let mut ranked: Vec<_> = uses.into_iter().map(|(name, (reads, writes))| (name, reads, writes)).collect();
    ranked.sort_by_key(|(_, reads, writes)| std::cmp::Reverse(reads + writes));
    (stats, ranked)
}
