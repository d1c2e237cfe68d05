//! The part of VRAM that each of several nodes may have.

use core::sync::atomic::Ordering;

use super::Device;
use crate::errno::Result;
use crate::node::{Node, Nodes};
use crate::os::{Os, PAGE_SIZE};
use crate::vram::{VramCharge, VramMemory};

impl<O: Os> Device<O> {
    /// Allocates VRAM for a buffer object, in the place of programs' pages if need be. The caller holds no lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn vram_alloc(&self, len: u64, contiguous: bool) -> Result<VramMemory<O>> {
        self.vram.allocate(len, contiguous).or_else(|_| {
            self.users.make_room(self, len);
            self.vram.allocate(len, contiguous)
        })
    }

    /// VRAM of a node. All of it is shared, and each of several nodes may have its part (`amdgpu_amdkfd_xcp_memory_size`).
    ///
    /// Of an APU it is the system's memory that the GPU may have (`ttm_tt_pages_limit`).
    pub(crate) fn vram_of_node(&self, nodes: &Nodes) -> u64 {
        if self.hw.asic().integrated {
            return self.gtt_limit;
        }
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
        if self.hw.asic().integrated {
            return self.gtt_limit.saturating_sub(self.memory_used().1) / PAGE_SIZE * PAGE_SIZE;
        }
        let free = self.vram.free_bytes();
        if nodes.count() == 1 {
            return free;
        }
        let rest = self.vram_of_node(nodes).saturating_sub(node.vram_used.load(Ordering::Relaxed));
        rest.min(free)
    }
}
