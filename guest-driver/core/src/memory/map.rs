//! Buffer objects in page tables: those of each node that they are mapped for.

use belfry_abi::kfd::aperture::GPUVM_LIMIT;

use crate::errno::{Errno, Result};
use crate::os::{DriverEvent, Os, PAGE_SIZE};
use crate::process::{Process, State};
use crate::process_device::ProcessNode;
use crate::space::Space;

/// MAP_MEMORY_TO_GPU for a node: idempotent; page tables are written and TLBs flushed on return.
///
/// # Errors
///
/// `EINVAL` for a range that is not aligned, outside the address space or taken, and for what the node does not
/// reach of another device (`kfd_mem_attach`); `ENODEV` for a node that has not acquired an address space; `ENOMEM`, also for a bad
/// handle.
pub(crate) fn map_memory<O: Os>(process: &Process<O>, node: &ProcessNode<O>, handle: u64) -> Result<()> {
    let mut state = process.state.lock();
    if !state.devices.has_space(node) {
        return Err(Errno::ENODEV);
    }
    let id = state.bo_id(&process.nodes, handle).ok_or(Errno::ENOMEM)?;
    let State { devices, bos, .. } = &mut *state;
    let (Some(space), Some(bo)) = (devices.space(node.index), bos.get_mut(&id)) else {
        return Err(Errno::ENOMEM);
    };
    if bo.mapped_on & node.bit() != 0 {
        return Ok(());
    }
    if !bo.is_reached_by(&node.device.hw, node.is_of(&process.nodes.get(bo.node).device)) {
        return Err(Errno::EINVAL);
    }
    let (va, size) = (bo.va, bo.size);
    let in_space = va != 0
        && va.is_multiple_of(PAGE_SIZE)
        && va.checked_add(size).is_some_and(|end| end <= GPUVM_LIMIT + 1);
    if !in_space {
        return Err(Errno::EINVAL);
    }
    let mut result = Ok(());
    // Nodes that have a space in common have what is mapped there, too.
    if bo.mapped_on & devices.nodes_of(space) == 0 {
        let mut tables = space.lock();
        Space::claim(&mut tables, va, size)?;
        let written = bo.map_into(&mut tables.vm);
        if written.is_err() {
            tables.vm.unmap(va, size);
            Space::release(&mut tables, va);
        }
        result = space.flush(&mut tables);
        written.map_err(|error| result.err().unwrap_or(error))?;
    }
    bo.mapped_on |= node.bit();
    devices.part_mut(node.index)?.mapped.insert(va, id);
    node.device.trace(process.pasid, DriverEvent::Mapped { address: va, size });
    result
}

/// UNMAP_MEMORY_FROM_GPU for a node: idempotent. What is mapped for others stays in their page tables.
///
/// # Errors
///
/// `EINVAL` for a bad handle, `EBUSY` while a queue uses it, `ETIME` when the device does not answer.
pub(crate) fn unmap_memory<O: Os>(process: &Process<O>, node: &ProcessNode<O>, handle: u64) -> Result<()> {
    let mut state = process.state.lock();
    let id = state.bo_id(&process.nodes, handle).ok_or(Errno::EINVAL)?;
    let used = state.is_used_on(node, id);
    let State { devices, bos, .. } = &mut *state;
    let Some(bo) = bos.get_mut(&id).filter(|_| !devices.has_no_space()) else { return Err(Errno::EINVAL) };
    if bo.mapped_on & node.bit() == 0 {
        return Ok(());
    }
    if used {
        return Err(Errno::EBUSY);
    }
    let space = devices.space(node.index).ok_or(Errno::EINVAL)?;
    if bo.mapped_on & devices.nodes_of(space) == node.bit() {
        node.device.hw.os().memory_unmapped(bo.va, bo.size);
        let mut tables = space.lock();
        bo.unmap_from(&mut tables);
        // While the device may have a translation left, the memory counts as mapped and cannot be freed.
        space.flush(&mut tables)?;
        Space::release(&mut tables, bo.va);
    }
    bo.mapped_on &= !node.bit();
    devices.part_mut(node.index)?.mapped.remove(&bo.va);
    let (address, size) = (bo.va, bo.size);
    node.device.trace(process.pasid, DriverEvent::Unmapped { address, size });
    Ok(())
}
