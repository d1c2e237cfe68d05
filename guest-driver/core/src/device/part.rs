//! The part of VRAM that each of several nodes may have.

use core::sync::atomic::Ordering;

use super::Device;
use crate::errno::Result;
use crate::node::{Node, Nodes};
use crate::os::{Os, PAGE_SIZE};
use crate::vram::VramCharge;

impl<O: Os> Device<O> {
    /// VRAM of a node. All of it is shared, and each of several nodes may have its part (`amdgpu_amdkfd_xcp_memory_size`).
    pub(crate) fn vram_of_node(&self, nodes: &Nodes) -> u64 {
        self.vram.size() / u64::from(nodes.count()) / PAGE_SIZE * PAGE_SIZE
    }

    /// Takes bytes from the part of a node, where it has one.
    pub(crate) fn charge_vram(&self, nodes: &Nodes, node: &Node, bytes: u64) -> Result<Option<VramCharge>> {
        let limit = self.vram_of_node(nodes);
        let charge = (nodes.count() > 1).then(|| VramCharge::new(&node.vram_used, bytes, limit));
        charge.transpose()
    }

    /// Bytes of VRAM that buffer objects of a node can have (`amdgpu_amdkfd_get_available_memory`).
    pub(crate) fn available_vram(&self, nodes: &Nodes, node: &Node) -> u64 {
        let free = self.vram.free_bytes();
        if nodes.count() == 1 {
            return free;
        }
        let rest = self.vram_of_node(nodes).saturating_sub(node.vram_used.load(Ordering::Relaxed));
        rest.min(free)
    }
}
