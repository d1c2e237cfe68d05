//! Queues that a debugger stops and lets go on (`suspend_queues`, `resume_queues`).

use alloc::vec::Vec;

use belfry_abi::kfd::debug::{
    ExceptionCode, KFD_DBG_QUEUE_ERROR_MASK, KFD_DBG_QUEUE_INVALID_MASK, QueueSnapshotEntry,
};
use zerocopy::IntoBytes;

use crate::errno::Errno;
use crate::os::{Os, WaitQueue};
use crate::process::{Locked, Process, State};
use crate::queue_manager;

/// Bytes of a save area's header that say what is saved (`struct mqd_user_context_save_area_header`).
const WAVE_STATE_BYTES: usize = 16;

/// Suspends queues: their waves are saved, and the headers of their context save areas say where. `ids` keeps the numbers
/// of those that are suspended afterwards and marks the others. Returns how many are.
pub(crate) fn suspend_debugged<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    ids: &mut [u32],
    forget: u64,
) -> u32 {
    let mut suspended = Vec::new();
    for slot in ids.iter_mut() {
        let id = *slot;
        *slot |= KFD_DBG_QUEUE_INVALID_MASK;
        let is_new = process
            .debug
            .exceptions
            .lock()
            .queues
            .get(&id)
            .is_none_or(|queue| queue.status & ExceptionCode::QUEUE_NEW.mask() != 0);
        let Some(queue) = state.queues.get_mut(&id) else { continue };
        if queue.suspended {
            *slot = id;
            suspended.push(id);
            continue;
        }
        if is_new || queue.being_destroyed {
            continue;
        }
        queue.suspended = true;
        let node = process.nodes.get(queue.node);
        match queue_manager::suspend_queue(process, state, id) {
            Ok(()) => {
                *slot = id;
                suspended.push(id);
            }
            Err(error) => {
                *slot |= KFD_DBG_QUEUE_ERROR_MASK;
                node.recover_after(error);
                break;
            }
        }
    }
    let mut exceptions = process.debug.exceptions.lock();
    for id in &suspended {
        if let Some(queue) = exceptions.queues.get_mut(id) {
            queue.status &= !forget;
        }
    }
    drop(exceptions);
    for &id in &suspended {
        write_wave_state(process, state, id);
    }
    suspended.len() as u32
}

/// Writes where a queue's waves are to the header of its context save area, as far as there is one.
fn write_wave_state<O: Os>(process: &Process<O>, state: &State<O>, id: u32) {
    let Some(area) = state.queues.get(&id).map(|queue| queue.user.save_area) else { return };
    if let Ok(states) = queue_manager::wave_state_of(process, state, id) {
        for (number, header) in (0u64..).zip(&states.headers) {
            let at = area.wrapping_add(number * u64::from(states.distance));
            // A program that has unmapped its area has no state that a debugger could look at.
            let _ = process.os().write_user(process.key(), at, &header.as_bytes()[..WAVE_STATE_BYTES]);
        }
    }
}

/// Lets queues go on: those of `ids`, which keeps the numbers of those that do and marks the others, or all. Returns how
/// many do.
pub(crate) fn resume_debugged<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    ids: Option<&mut [u32]>,
) -> u32 {
    let mut all: Vec<u32>;
    let ids = match ids {
        Some(ids) => ids,
        None => {
            all = state.queues.keys().copied().collect();
            all.as_mut_slice()
        }
    };
    let mut resumed = 0;
    for slot in ids {
        let id = *slot;
        *slot |= KFD_DBG_QUEUE_INVALID_MASK;
        let Some(queue) = state.queues.get_mut(&id) else { continue };
        queue.suspended = false;
        let node = process.nodes.get(queue.node);
        // It may stay off the scheduler for another reason, and be lost in a reset.
        match queue_manager::resume_queue(process, state, id) {
            Ok(()) | Err(Errno::EIO) => {
                *slot = id;
                resumed += 1;
            }
            Err(error) => {
                *slot |= KFD_DBG_QUEUE_ERROR_MASK;
                node.recover_after(error);
                break;
            }
        }
    }
    process.debug.wake.wake_all();
    resumed
}

/// Entries about queues, as a debugger is told of them; exceptions in `forget` are forgotten (`set_queue_snapshot_entry`).
pub(crate) fn queue_snapshot<O: Os>(
    process: &Process<O>,
    state: &State<O>,
    most: usize,
    forget: u64,
) -> Vec<QueueSnapshotEntry> {
    let mut exceptions = process.debug.exceptions.lock();
    let entries = state.queues.iter().take(most).map(|(&id, queue)| {
        let status = exceptions.queues.get_mut(&id).map_or(0, |queue| {
            let status = queue.status;
            queue.status &= !forget;
            status
        });
        QueueSnapshotEntry {
            exception_status: status,
            ring_base_address: queue.ring_base,
            write_pointer_address: queue.user.write_pointer,
            read_pointer_address: queue.user.read_pointer,
            ctx_save_restore_address: queue.user.save_area,
            queue_id: id,
            gpu_id: u32::from(process.nodes.get(queue.node).gpu_id),
            ring_size: queue.ring_size,
            queue_type: queue.user.queue_type,
            ctx_save_restore_area_size: queue.user.save_area_size,
            reserved: 0,
        }
    });
    entries.collect()
}
