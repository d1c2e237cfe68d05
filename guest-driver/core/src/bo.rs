//! Buffer objects of KFD, with their places in page tables (`amdgpu_amdkfd_gpuvm.c`).

mod imported;
mod map;
mod show;

use alloc::sync::Arc;

use crate::asic::PageRights;
use crate::hw::Hw;
use crate::object::{SystemMemory, UserMemory};
use crate::os::{AllocFlags, Os, SystemPages, UserPin};
use crate::process_device::{NodeBits, ProcessNode};
use crate::space::SpaceState;
use crate::vram::VramMemory;

pub(crate) use imported::Imported;

/// Memory of a buffer object, or other things that can be mapped.
pub(crate) enum BoKind<O: Os> {
    Vram(Arc<VramMemory<O>>),
    System(Arc<SystemMemory<O>>),
    User(Arc<UserMemory<O>>),
    /// Memory of a DMA-buf.
    Imported(Arc<Imported<O>>),
    /// The process's doorbells, at this address on the bus.
    Doorbell(u64),
    /// The flush page, at this address on the bus.
    MmioRemap(u64),
}

/// A buffer object.
pub(crate) struct Bo<O: Os> {
    /// The process's number of the node it was made for, which its handle names.
    pub(crate) node: u32,
    pub(crate) kind: BoKind<O>,
    pub(crate) va: u64,
    /// Bytes, a multiple of the page size.
    pub(crate) size: u64,
    pub(crate) flags: AllocFlags,
    /// Nodes it is mapped for, one bit each. It is in the page tables of each of them.
    pub(crate) mapped_on: NodeBits,
    /// The caller's own memory is gone: the page tables have nothing there until a change brings it back.
    pub(crate) lost: bool,
    /// Queues that use it; it stays mapped meanwhile.
    pub(crate) queues: u32,
    /// Last, so that what can be mapped goes after what was mapped.
    pub(crate) gem: Option<O::Gem>,
}

impl<O: Os> Bo<O> {
    /// A buffer object that is not mapped: its address, and its bytes.
    pub(crate) fn new(
        node: &ProcessNode<O>,
        kind: BoKind<O>,
        (va, size): (u64, u64),
        flags: AllocFlags,
    ) -> Self {
        Self { node: node.index, kind, va, size, flags, mapped_on: 0, lost: false, queues: 0, gem: None }
    }

    /// Returns whether it is in the page tables.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mapped_on != 0
    }

    /// Returns whether a device reaches it, which it was made for or not (`kfd_mem_attach`, where a device reaches the VRAM, doorbells and
    /// flush page of others over the bus, or in a hive their VRAM).
    pub(crate) fn is_reached_by(&self, device: &Hw<O>, made_for: bool) -> bool {
        match &self.kind {
            BoKind::System(_) | BoKind::User(_) => true,
            BoKind::Vram(memory) => device.reaches_vram_of(memory.hw()),
            BoKind::Imported(memory) => memory.vram().is_none_or(|vram| device.reaches_vram_of(vram.hw())),
            BoKind::Doorbell(_) | BoKind::MmioRemap(_) => made_for || device.os().has_peers(),
        }
    }

    fn rights(&self) -> PageRights {
        let coherent = AllocFlags::COHERENT | AllocFlags::UNCACHED | AllocFlags::EXT_COHERENT;
        PageRights {
            readable: true,
            writable: self.flags.contains(AllocFlags::WRITABLE),
            executable: self.flags.contains(AllocFlags::EXECUTABLE),
            system: !matches!(self.kind, BoKind::Vram(_) | BoKind::Imported(_)),
            uncached: self.flags.intersects(coherent),
        }
    }

    /// The bus address of page `page`, if it is in system memory.
    pub(crate) fn bus(&self, page: usize) -> Option<u64> {
        match &self.kind {
            BoKind::User(_) if self.lost => None,
            BoKind::System(memory) if page < memory.pages().count() => Some(memory.pages().bus(page)),
            BoKind::User(memory) if page < memory.pin.count() => Some(memory.pin.bus(page)),
            BoKind::Imported(memory) => memory.bus(page),
            _ => None,
        }
    }

    /// Clears the page tables of a mapped buffer object; the caller flushes.
    pub(crate) fn unmap_from(&self, tables: &mut SpaceState<O>) {
        tables.vm.unmap(self.va, self.size);
    }

    /// Returns a reference that keeps the memory in place while a queue uses it.
    pub(crate) fn hold(&self) -> Option<Hold<O>> {
        match &self.kind {
            BoKind::Vram(memory) => Some(Hold::Vram { _memory: memory.clone() }),
            BoKind::System(memory) => Some(Hold::System { _memory: memory.clone() }),
            BoKind::User(memory) => Some(Hold::User { _memory: memory.clone() }),
            BoKind::Imported(memory) => Some(Hold::Imported { _memory: memory.clone() }),
            _ => None,
        }
    }
}

/// A reference to memory that is only there to keep it.
pub(crate) enum Hold<O: Os> {
    Vram { _memory: Arc<VramMemory<O>> },
    System { _memory: Arc<SystemMemory<O>> },
    User { _memory: Arc<UserMemory<O>> },
    Imported { _memory: Arc<Imported<O>> },
}
