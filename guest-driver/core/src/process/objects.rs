//! Buffer objects of a process, by their handles, and those that its queues use.

use crate::bo::{Bo, BoKind};
use crate::doorbell::Doorbells;
use crate::errno::{Errno, Result};
use crate::object::{Memory, Object};
use crate::os::{Os, PAGE_SIZE};
use crate::process_device::{ProcessNode, ProcessNodes};
use crate::queue::Queue;

use super::{Phase, State};
use belfry_abi::doorbell::DoorbellIndex;

/// Buffer objects of one process.
const MAX_BOS: usize = 1 << 18;

impl<O: Os> State<O> {
    /// The buffer object behind a handle, which names the node too.
    pub(crate) fn bo_id(&self, nodes: &ProcessNodes<O>, handle: u64) -> Option<u32> {
        let (id, node) = (handle as u32, nodes.named((handle >> 32) as u32).ok()?);
        self.bos.get(&id).filter(|bo| bo.node == node.index).map(|_| id)
    }

    /// Returns whether a queue of a node uses a buffer object.
    pub(crate) fn is_used_on(&self, node: &ProcessNode<O>, id: u32) -> bool {
        let uses = |queue: &Queue<O>| queue.bos.contains(&id) || queue.ring_bo == Some(id);
        self.queues.values().any(|queue| queue.node == node.index && uses(queue))
    }

    fn free_bo_id(&self) -> Option<u32> {
        if self.bos.len() >= MAX_BOS {
            return None;
        }
        match self.bos.last_key_value() {
            None => Some(1),
            Some((&last, _)) if (last as usize) < MAX_BOS => Some(last + 1),
            Some(_) => (1..).find(|id| !self.bos.contains_key(id)),
        }
    }
}

impl<O: Os> State<O> {
    /// Makes the GEM object of `bo` and finds it an id; returns the id and the offset to map it at.
    pub(crate) fn insert_bo(&self, node: &ProcessNode<O>, bo: &mut Bo<O>) -> Result<(u32, u64)> {
        if self.phase == Phase::Dead {
            return Err(Errno::ENODEV);
        }
        let id = self.free_bo_id().ok_or(Errno::ENOMEM)?;
        let memory = match &bo.kind {
            BoKind::Vram(memory) => Memory::Vram(memory.clone()),
            BoKind::System(memory) => Memory::System(memory.clone()),
            _ => return Ok((id, 0)),
        };
        let (acquired, device) = (self.devices.get(node.index).ok_or(Errno::ENODEV)?, &node.device);
        let gem = device.hw.os().gem_create(&acquired.file, Object::of_kfd(device, memory)?)?;
        let offset = crate::os::Gem::mmap_offset(&gem);
        bo.gem = Some(gem);
        Ok((id, offset))
    }
}

impl<O: Os> State<O> {
    /// The doorbells for a node.
    ///
    /// # Errors
    ///
    /// None that can happen: there are some for each.
    pub(crate) fn doorbells_of(&mut self, node: &ProcessNode<O>) -> Result<&mut Doorbells> {
        Ok(&mut self.devices.part_mut(node.index)?.doorbells)
    }

    /// The doorbell of a queue, as MQDs and MES frames count it.
    ///
    /// # Errors
    ///
    /// As [`State::doorbells_of`].
    pub(crate) fn doorbell_of(&self, queue: &Queue<O>) -> Result<DoorbellIndex> {
        Ok(self.devices.part(queue.node)?.doorbells.index(queue.doorbell))
    }

    /// The buffer object that is mapped for a node at exactly this range (`kfd_queue_buffer_get`).
    pub(crate) fn queue_buffer(&self, node: &ProcessNode<O>, address: u64, size: u64) -> Result<u32> {
        let page = address & !(PAGE_SIZE - 1);
        let id = *self.devices.part(node.index)?.mapped.get(&page).ok_or(Errno::EINVAL)?;
        let bo = self.bos.get(&id).ok_or(Errno::EINVAL)?;
        let exact = size < PAGE_SIZE || bo.size == size & !(PAGE_SIZE - 1);
        let memory = !matches!(bo.kind, BoKind::Doorbell(_) | BoKind::MmioRemap(_));
        if exact && memory { Ok(id) } else { Err(Errno::EINVAL) }
    }

    pub(crate) fn use_bos(&mut self, ids: &[u32], used: bool) {
        for id in ids {
            if let Some(bo) = self.bos.get_mut(id) {
                bo.queues = if used { bo.queues + 1 } else { bo.queues.saturating_sub(1) };
            }
        }
    }
}
