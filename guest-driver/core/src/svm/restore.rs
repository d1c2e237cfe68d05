//! Changes of the program's memory, and what makes the GPU follow them (`svm_range_cpu_invalidate_pagetables`,
//! `svm_range_evict`, `svm_range_restore_work` of `kfd_svm.c`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::smi::QueueEvictionTrigger;

use crate::errno::{Errno, Result};
use crate::os::{Change, LogLevel, Os, PAGE_SIZE, WorkItem as _};
use crate::process::{Locked, Phase, Process, State};
use crate::process_device::NodeBits;
use crate::queue_manager;
use crate::ranges::Part;
use crate::svm::retry;

/// Time that queues rest before their memory is mapped anew (`AMDGPU_SVM_RANGE_RESTORE_DELAY_MS`).
pub(crate) const RESTORE_DELAY_US: u64 = 1000;

/// Mappings that fail, one after the other, before that is said: they take a second or more.
const TOLD_FAILURES: u32 = 1000;

/// Maps everything stale anew and lets the queues go on; what is left to do is done later.
pub(crate) fn restore<O: Os>(process: &Arc<Process<O>>) {
    if !restore_now(process) {
        process.svm_work.queue();
    }
}

/// The program's memory changes, or has changed.
pub(super) fn changed<O: Os>(process: &Arc<Process<O>>, change: &Change) {
    // Pages that change in part change; they are gone when all of them is.
    let range = if change.unmapped {
        change.start.saturating_add(PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE..change.end / PAGE_SIZE * PAGE_SIZE
    } else {
        change.start / PAGE_SIZE * PAGE_SIZE..change.end
    };
    if range.is_empty() {
        return;
    }
    let rest = {
        let mut state = process.state.lock();
        if state.phase == Phase::Dead {
            return;
        }
        state.svm.changes = state.svm.changes.wrapping_add(1);
        match (change.unmapped, change.held) {
            (false, held) => {
                let stale = state.svm.mapped.spoil(&range, held);
                if stale.is_empty() {
                    return;
                }
                // Waves that may wait for these pages do so by themselves, and their queues go on.
                let wait = stale.iter().all(|part| retry::waits(&state, part));
                if !wait {
                    quiesce(process, &mut state);
                }
                if wait || held {
                    block(process, &mut state, &stale);
                }
                drop(state);
                return process.svm_work.queue();
            }
            (true, true) => {
                let mut gone = cut(process, &mut state, &range, true);
                if gone.is_empty() {
                    return;
                }
                state.svm.gone.append(&mut gone);
                drop(state);
                return process.svm_work.queue();
            }
            (true, false) => {
                let gone = cut(process, &mut state, &range, false);
                let rest = state.svm.mapped.spoil(&range, false);
                drop(state);
                drop(gone);
                rest
            }
        }
    };
    // What is left of the mirrors is mirrored by itself: the same pages, so that queues need not stop.
    let failed = rest.iter().any(|part| map_again(process, part).is_err());
    if failed {
        let mut state = process.state.lock();
        if state.phase != Phase::Dead && !state.svm.mapped.stale().is_empty() {
            quiesce(process, &mut state);
            drop(state);
            process.svm_work.queue();
        }
    }
}

/// Takes pages from the GPU until they are mapped anew: waves wait for them, or no queue of the process runs, but a file
/// of the render node may have work in the same address space.
fn block<O: Os>(process: &Process<O>, state: &mut State<O>, parts: &[Range<u64>]) {
    for (space, node) in state.devices.each() {
        let mut tables = space.lock();
        for part in parts {
            tables.vm.block(part.start, part.end - part.start);
        }
        let flushed = space.flush(&mut tables);
        drop(tables);
        recover(process, node, flushed);
    }
}

/// Recovers the device of a node that does not answer.
fn recover<O: Os>(process: &Process<O>, node: NodeBits, flushed: Result<()>) {
    if let (Err(error), Some(node)) = (flushed, process.nodes.among(node).next()) {
        node.recover_after(error);
    }
}

/// Takes a range from the GPU and from the ranges; returns what the caller drops without the lock.
///
/// A device that does not answer is reset if the pages go at once (`held`), else the pages are left to it.
fn cut<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    range: &Range<u64>,
    held: bool,
) -> Vec<(u64, Part<O>)> {
    let needed = |queue: &crate::queue::Queue<O>| {
        queue.save_area.as_ref().is_some_and(|area| area.start < range.end && range.start < area.end)
    };
    if state.queues.values().any(|queue| needed(queue)) {
        // As amdkfd: who frees a buffer that a queue needs has no queues any more.
        queue_manager::evict_queues(process, state, NodeBits::MAX);
    }
    let State { devices, svm, .. } = &mut **state;
    let mut gone = svm.mapped.take(range);
    let mut flushed = Ok(());
    for (space, node) in devices.each() {
        let mut tables = space.lock();
        for (start, part) in &gone {
            tables.vm.unmap(*start, part.end - start);
        }
        let here = if gone.is_empty() { Ok(()) } else { space.flush(&mut tables) };
        if here.is_ok() || held {
            tables.release_shared(range);
        }
        drop(tables);
        if held {
            recover(process, node, here);
        }
        flushed = flushed.and(here);
    }
    if flushed.is_err() && !held {
        // The device may still use the pages: they are left to it, and so are their addresses.
        core::mem::forget(core::mem::take(&mut gone));
    }
    let bytes = svm.ranges.remove(range);
    svm.charged -= bytes;
    process.system().uncharge(bytes);
    if let Some(task) = state.task {
        for (node, (start, part)) in
            process.nodes.devices().flat_map(|node| gone.iter().map(move |part| (node, part)))
        {
            node.device.smi.unmap(&node.siblings, process.pasid, &task, *start..part.end);
        }
    }
    gone.append(&mut state.svm.watched.take(range));
    gone
}

/// Maps a range anew as far as the program still has it; the rest goes.
fn map_again<O: Os>(process: &Arc<Process<O>>, range: &Range<u64>) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let end = super::map_area(process, &(at..range.end))?;
        if end.is_none() {
            let part = at..at + PAGE_SIZE;
            let gone = {
                let mut state = process.state.lock();
                if state.phase == Phase::Dead {
                    return Err(Errno::ESRCH);
                }
                cut(process, &mut state, &part, false)
            };
            drop(gone);
        }
        at = end.unwrap_or(at + PAGE_SIZE);
    }
    Ok(())
}

/// Maps everything stale anew and lets the queues go on; returns whether there is nothing left to do.
fn restore_now<O: Os>(process: &Arc<Process<O>>) -> bool {
    let (stale, gone, changes) = {
        let mut state = process.state.lock();
        if state.phase == Phase::Dead {
            return true;
        }
        (state.svm.mapped.stale(), core::mem::take(&mut state.svm.gone), state.svm.changes)
    };
    drop(gone);
    for part in &stale {
        match map_again(process, part) {
            Ok(()) => {}
            // The address space is going away, and the process with it.
            Err(Errno::ESRCH) => return true,
            Err(error) => {
                waits_for(process, part, error);
                return false;
            }
        }
    }
    // What went with the address space is not stale any more, and queues that used it must not go on.
    if process.os().user_area(process.key(), 0) == Err(Errno::ESRCH) {
        return true;
    }
    let mut state = process.state.lock();
    if !state.svm.mapped.stale().is_empty() || state.svm.changes != changes {
        return false;
    }
    state.svm.failures = 0;
    resume(process, &mut state);
    true
}

/// Notes that memory could not be mapped anew; says so when that has been tried for a while, as the queues wait for it.
fn waits_for<O: Os>(process: &Process<O>, part: &Range<u64>, error: Errno) {
    let failures = {
        let mut state = process.state.lock();
        state.svm.failures = state.svm.failures.saturating_add(1);
        state.svm.failures
    };
    if failures == TOLD_FAILURES {
        let line = format_args!(
            "pasid {}: queues wait for shared memory at {:#x} to {:#x}, which cannot be mapped anew: {error}",
            process.pasid, part.start, part.end
        );
        let device = &process.nodes.first().device;
        device.limits.user_memory.log(&device.hw, LogLevel::Warn, line);
    }
}

/// Takes the queues off the scheduler until [`resume`] (`kgd2kfd_quiesce_mm`).
fn quiesce<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    if state.svm.quiesced || state.phase == Phase::Dead || state.devices.running() == 0 {
        return;
    }
    state.svm.quiesced = true;
    queue_manager::suspend_all(process, state);
    if let Some(task) = state.task {
        for node in process.nodes.devices() {
            node.device.smi.eviction(&node.siblings, process.pasid, &task, QueueEvictionTrigger::Svm);
        }
    }
}

/// Hands the queues back (`kgd2kfd_resume_mm`).
fn resume<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    let running = state.phase == Phase::Alive && state.devices.running() != 0;
    if !core::mem::take(&mut state.svm.quiesced) || !running {
        return;
    }
    queue_manager::resume_all(process, state);
    if let Some(task) = state.task {
        for node in process.nodes.devices() {
            node.device.smi.restore(&node.siblings, process.pasid, &task);
        }
    }
}
