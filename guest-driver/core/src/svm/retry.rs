//! Faults that waves retry until the page is there (XNACK; `svm_range_restore_pages` of `kfd_svm.c`, `kfd_process_xnack_mode`).
//!
//! The mode is the process's, and off until it asks for it. While it is on, memory of ranges is mapped when a wave wants it, unless
//! they say otherwise, and so is memory that no range was made for. What cannot be mapped gets an entry at which no wave waits: the
//! fault is then one as without retries.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::event::{MemoryExceptionData, MemoryExceptionFailure};
use belfry_abi::kfd::svm::{KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED, KFD_IOCTL_SVM_OP_SET_ATTR, SvmArgs};

use crate::errno::{Errno, Result};
use crate::os::{Os, PAGE_SIZE};
use crate::process::{Phase, Process, State};
use crate::process_device::ProcessNode;
use crate::ranges::{Access, Wanted};

/// Most that is mapped for one fault, as a power of two of pages.
const GRANULARITY: u32 = 9;
/// End of the addresses that a program has.
const USER_END: u64 = 1 << 47;

/// SET_XNACK_MODE: sets the mode, or asks for it by a negative number; the number that is answered. The checks are in
/// Linux's order (`kfd_ioctl_set_xnack_mode`): queues are in the way of the mode that the process has already, too.
///
/// # Errors
///
/// `EBUSY` while there are queues, `EPERM` where a device is of a chip whose waves do not wait.
pub(crate) fn set_xnack_mode<O: Os>(process: &Process<O>, mode: i32) -> Result<i32> {
    let mut state = process.state.lock();
    if mode < 0 {
        return Ok(state.xnack.into());
    }
    if !state.queues.is_empty() {
        return Err(Errno::EBUSY);
    }
    let on = mode > 0;
    if on && process.nodes.devices().any(|node| node.device.hw.asic().retry.is_none()) {
        return Err(Errno::EPERM);
    }
    state.xnack = on;
    let anywhere = if on { process.nodes.iter().fold(0, |all, node| all | node.bit()) } else { 0 };
    state.svm.ranges.set_default_access(Access { anywhere, in_place: 0 });
    Ok(mode)
}

/// Returns whether waves may wait for the pages of a range: it need not be mapped before.
pub(super) fn may_wait<O: Os>(process: &Process<O>, range: &Range<u64>) -> bool {
    waits(&process.state.borrow(), range)
}

/// Returns true if waves of a process may wait for the pages of a range.
pub(super) fn waits<O: Os>(state: &State<O>, range: &Range<u64>) -> bool {
    state.xnack
        && !state.svm.ranges.touching(range).any(|(_, one)| {
            one.attributes.access.in_place != 0
                || one.attributes.flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED != 0
        })
}

/// Maps the pages that waves wait for.
pub(crate) fn give_pages<O: Os>(process: &Arc<Process<O>>) {
    let wanted: Vec<Wanted> = core::mem::take(&mut *process.retries.lock());
    for &Wanted { va, told, node } in &wanted {
        let node = process.nodes.get(node);
        match give_page(process, node, va) {
            Ok(()) | Err(Errno::ESRCH) => {}
            // It does not come to rest, or there is no room now: the wave goes on waiting, and the device tells again.
            Err(Errno::EAGAIN | Errno::ENOMEM) => {}
            Err(_) => refuse_page(process, node, va),
        }
        node.device.retried(told);
    }
}

/// Maps what is around a page.
fn give_page<O: Os>(process: &Arc<Process<O>>, node: &ProcessNode<O>, va: u64) -> Result<()> {
    let page = va..va + PAGE_SIZE;
    let known = {
        let state = process.state.borrow();
        if state.phase == Phase::Dead {
            // Its queues are on their way off the device, for which their waves must not wait.
            return Err(Errno::EPERM);
        }
        state.svm.ranges.touching(&page).next().map(|(start, one)| (start..one.end, one.attributes))
    };
    if let Some((range, attributes)) = known {
        if !attributes.access.of_any(node.bit()) {
            return Err(Errno::EPERM);
        }
        let around = around(va, attributes.granularity);
        let part = around.start.max(range.start)..around.end.min(range.end);
        // The program may have less of it.
        return super::map_range(process, &part).or_else(|_| super::map_range(process, &page));
    }
    // Memory of the program that nothing was said of (`svm_range_create_unregistered_range`).
    let area = process.os().user_area(process.key(), va)?.ok_or(Errno::EFAULT)?;
    let whole = va..around(va, GRANULARITY).end.min(area.end.max(page.end));
    add_range(process, &whole).or_else(|_| add_range(process, &page))?;
    super::map_range(process, &page)
}

/// Makes a range of which nothing is said.
fn add_range<O: Os>(process: &Arc<Process<O>>, range: &Range<u64>) -> Result<()> {
    let args = SvmArgs {
        start_addr: range.start,
        size: range.end - range.start,
        op: KFD_IOCTL_SVM_OP_SET_ATTR,
        ..SvmArgs::default()
    };
    super::change(process, &args, &mut [])
}

/// Has no wave wait for a page.
fn refuse_page<O: Os>(process: &Process<O>, node: &ProcessNode<O>, va: u64) {
    let refused = node.device.hw.asic().retry.map(|retry| retry.refused).filter(|_| va < USER_END);
    let result = refused.ok_or(Errno::EFAULT).and_then(|entry| {
        let state = process.state.borrow();
        let space = state.devices.space(node.index).ok_or(Errno::ESRCH)?;
        let mut tables = space.lock();
        tables.vm.map_small(va, 0, PAGE_SIZE, entry)?;
        space.flush(&mut tables)
    });
    if let Err(error) = result
        && error != Errno::ESRCH
    {
        let failure = MemoryExceptionFailure { not_present: 1, read_only: 0, no_execute: 0, imprecise: 0 };
        let gpu_id = u32::from(node.gpu_id);
        process.memory_fault(node, MemoryExceptionData { failure, va, gpu_id, error_type: 0 });
    }
}

/// So many pages, as a power of two, around an address.
fn around(va: u64, granularity: u32) -> Range<u64> {
    let bytes = PAGE_SIZE << granularity.min(GRANULARITY);
    let start = va & !(bytes - 1);
    start..start.saturating_add(bytes)
}
