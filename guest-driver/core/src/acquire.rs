//! ACQUIRE_VM: a node gets the address space of a file of the render node, and what a process leaves in it
//! (`kfd_process_device_init_vm`).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::smi::EventKind;

use crate::bo::Bo;
use crate::debug;
use crate::errno::{Errno, Result};
use crate::os::{DrmFile as _, Os};
use crate::process::{Phase, Process, State};
use crate::process_device::{Acquired, NodeBits, ProcessDevices, ProcessNode};
use crate::processes::Processes;
use crate::ranges::Svm;
use crate::space::Space;
use crate::svm;

/// ACQUIRE_VM of a node.
///
/// A file is for one node.
///
/// # Errors
///
/// `EINVAL` for a file that is not this device's render node and for one that another process or another node has acquired,
/// `EBUSY` when the node was given another one before, `ENOMEM`.
pub(crate) fn acquire_vm<O: Os>(
    processes: &Processes<O>,
    process: &Arc<Process<O>>,
    node: &ProcessNode<O>,
    fd: i32,
) -> Result<()> {
    let device = &node.device;
    // Declared before the guard: the file is given back without the lock.
    let file = device.hw.os().drm_acquire(fd)?;
    let mut state = process.state.lock();
    if state.phase == Phase::Dead {
        return Err(Errno::ENODEV);
    }
    if let Some(acquired) = state.devices.get(node.index) {
        return if acquired.file.id() == file.id() { Ok(()) } else { Err(Errno::EBUSY) };
    }
    if state.devices.of_file(file.id()).is_some() {
        return Err(Errno::EINVAL);
    }
    let is_first = state.devices.has_no_space();
    let is_new = process.nodes.of(device).all(|sibling| !state.devices.has_space(sibling));
    let client = processes.client(file.id()).filter(|client| node.is_of(client.device()));
    let space = client.ok_or(Errno::EINVAL)?.space().clone();
    take_space(process, &mut state, node, &space)?;
    state.devices.put(node, Acquired { space, file });
    debug::debug_acquired(node, &mut state)?;
    let task = *state.task.get_or_insert_with(|| device.hw.os().task());
    let known = if is_first { Vec::new() } else { state.svm.ranges_of(node) };
    drop(state);
    if is_new {
        device.smi.process(EventKind::ProcessStart, &task);
    }
    // What cannot be mapped now stays as it is: faults of the node say so.
    for range in known {
        let _ = svm::map_range(process, &range);
    }
    Ok(())
}

/// Makes an address space the process's, whose shared virtual memory keeps its addresses there too.
fn take_space<O: Os>(
    process: &Process<O>,
    state: &mut State<O>,
    node: &ProcessNode<O>,
    space: &Arc<Space<O>>,
) -> Result<()> {
    let device = &node.device;
    let context = match state.devices.context(device.number) {
        None => Some(device.gart.allocate(1)?),
        Some(_) => None,
    };
    device.flush_gart()?;
    space.acquire(process.pasid)?;
    let known: Vec<Range<u64>> = state.svm.ranges.iter().map(|(start, one)| start..one.end).collect();
    let mut tables = space.lock();
    if let Some(Err(error)) = known.iter().map(|range| tables.share(range)).find(Result::is_err) {
        // Something of the file's is at an address that is taken.
        tables.release_shared(&(0..u64::MAX));
        drop(tables);
        space.abandon(process.pasid);
        return Err(error);
    }
    drop(tables);
    if let Some(context) = context {
        state.devices.set_context(device.number, context);
    }
    Ok(())
}

/// Unmaps the process's memory from its address spaces, which the files of the render node may go on to use; returns
/// whether the device has forgotten it.
pub(crate) fn leave_spaces<O: Os>(
    process: &Process<O>,
    devices: &ProcessDevices<O>,
    bos: &BTreeMap<u32, Bo<O>>,
    svm: &Svm<O>,
) -> bool {
    // All of them, also after one of which the device does not answer.
    devices.each().fold(true, |all, (space, nodes)| leave_space(process, space, nodes, bos, svm) && all)
}

fn leave_space<O: Os>(
    process: &Process<O>,
    space: &Space<O>,
    nodes: NodeBits,
    bos: &BTreeMap<u32, Bo<O>>,
    svm: &Svm<O>,
) -> bool {
    let flushed = {
        let mut state = space.lock();
        for bo in bos.values().filter(|bo| bo.mapped_on & nodes != 0) {
            bo.unmap_from(&mut state);
        }
        svm.mapped.unmap_from(&mut state.vm);
        let flushed = space.flush(&mut state).is_ok();
        // Of a device that does not answer, the range stays taken.
        for bo in bos.values().filter(|bo| bo.mapped_on & nodes != 0 && flushed) {
            Space::release(&mut state, bo.va);
        }
        if flushed {
            state.release_shared(&(0..u64::MAX));
        }
        flushed
    };
    if flushed {
        space.abandon(process.pasid);
    }
    flushed
}
