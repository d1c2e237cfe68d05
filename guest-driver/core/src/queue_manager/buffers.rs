//! Memory of its process that a queue uses (`kfd_queue_acquire_buffers`).

use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::queue::CreateQueueArgs;

use super::{EOP_BUFFER_SIZE, Engine};
use crate::errno::{Errno, Result};
use crate::os::{Os, PAGE_SIZE};
use crate::process::State;
use crate::process_device::ProcessNode;

/// Memory of its process that a queue uses.
pub(super) struct QueueBuffers {
    /// Buffer objects: the ring, and the others.
    pub(super) ring: Option<u32>,
    pub(super) bos: Vec<u32>,
    /// The context save area, where that is shared virtual memory.
    pub(super) save_area: Option<Range<u64>>,
}

/// Checks that every buffer of the queue is a mapped buffer object of just that range (`kfd_queue_acquire_buffers`).
pub(super) fn queue_buffers<O: Os>(
    state: &State<O>,
    node: &ProcessNode<O>,
    args: &CreateQueueArgs,
    engine: Engine,
) -> Result<QueueBuffers> {
    let mut bos = Vec::new();
    bos.try_reserve_exact(4).map_err(|_| Errno::ENOMEM)?;
    bos.push(state.queue_buffer(node, args.write_pointer_address, PAGE_SIZE)?);
    bos.push(state.queue_buffer(node, args.read_pointer_address, PAGE_SIZE)?);
    if !args.write_pointer_address.is_multiple_of(8) || !args.read_pointer_address.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    // UPDATE_QUEUE may take a queue's ring away; a queue begins with one (`kfd_queue_acquire_buffers`).
    let ring = ring_buffer(state, node, args.ring_base_address, args.ring_size)?;
    if ring.is_none() {
        return Err(Errno::EINVAL);
    }
    // Only compute queues have an end-of-pipe buffer and a context save area.
    if engine != Engine::Compute {
        return Ok(QueueBuffers { ring, bos, save_area: None });
    }
    if args.eop_buffer_address != 0 {
        if args.eop_buffer_size < EOP_BUFFER_SIZE || !args.eop_buffer_size.is_power_of_two() {
            return Err(Errno::EINVAL);
        }
        if !args.eop_buffer_address.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        bos.push(state.queue_buffer(node, args.eop_buffer_address, args.eop_buffer_size)?);
    }
    let area = (node.device.hw.asic().save_area)(&node.config);
    if args.ctl_stack_size != area.ctl_stack_size || args.ctx_save_restore_size < area.cwsr_size {
        return Err(Errno::EINVAL);
    }
    if !args.ctx_save_restore_address.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    let (va, size) = (args.ctx_save_restore_address, area.total(args.ctx_save_restore_size));
    let save_area = match state.queue_buffer(node, va, size) {
        Ok(id) => {
            bos.push(id);
            None
        }
        Err(_) if state.svm.serves_queues(node, va, size) => Some(va..va + size),
        Err(error) => return Err(error),
    };
    Ok(QueueBuffers { ring, bos, save_area })
}

pub(super) fn ring_buffer<O: Os>(
    state: &State<O>,
    node: &ProcessNode<O>,
    base: u64,
    size: u32,
) -> Result<Option<u32>> {
    if base == 0 {
        return Ok(None);
    }
    if !base.is_multiple_of(256) || base & (PAGE_SIZE - 1) != 0 {
        return Err(Errno::EINVAL);
    }
    state.queue_buffer(node, base, u64::from(size)).map(Some)
}
