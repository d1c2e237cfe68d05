//! Faults that waves retry until the page is there (XNACK; `svm_range_restore_pages` of `kfd_svm.c`, `kfd_process_xnack_mode`).
//!
//! The mode is the process's, and off until it asks for it. While it is on, memory of ranges is mapped when a wave wants it, unless
//! they say otherwise, and so is memory that no range was made for. What cannot be mapped gets an entry at which nobody waits: the
//! fault is then one as without retries.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::event::{MemoryExceptionData, MemoryExceptionFailure};
use belfry_abi::kfd::svm::{KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED, KFD_IOCTL_SVM_OP_SET_ATTR, SvmArgs};

use super::attributes::Access;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::node::Node;
use crate::os::{Os, PAGE_SIZE, Work, WorkItem as _};
use crate::process::{Phase, Process};

/// Pages that are wanted and not looked at yet: the device tells again of those that are too many.
const WANTED: usize = 256;
/// Most that is mapped for one fault, as a power of two of pages.
const GRANULARITY: u32 = 9;
/// End of the addresses that a program has.
const USER_END: u64 = 1 << 47;

/// A page that a wave waits for, and the entry of the filter that told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    va: u64,
    told: u32,
    /// Number of the node that it waits on.
    node: u32,
}

/// Gives pages to the waves of a process, away from the interrupt thread. It borrows the process's state: who has it may be waiting for
/// the device to take off a queue, and that for a page.
pub(crate) struct RetryWork<O: Os> {
    pub(crate) device: Arc<Device<O>>,
    pub(crate) pasid: u16,
}

impl<O: Os> Work for RetryWork<O> {
    fn run(&self) {
        if let Some(process) = self.device.process(self.pasid) {
            process.svm_give_pages();
        }
    }
}

impl<O: Os> Process<O> {
    /// SET_XNACK_MODE: sets the mode, or asks for it by a negative number; the number that is answered. The checks are in
    /// Linux's order (`kfd_ioctl_set_xnack_mode`): queues are in the way of the mode that the process has already, too.
    ///
    /// # Errors
    ///
    /// `EBUSY` while there are queues, `EPERM` on chips whose waves do not wait.
    pub(crate) fn set_xnack_mode(&self, mode: i32) -> Result<i32> {
        let mut state = self.state.lock();
        if mode < 0 {
            return Ok(state.xnack.into());
        }
        if !state.queues.is_empty() {
            return Err(Errno::EBUSY);
        }
        let on = mode > 0;
        if on && self.device.hw.asic().retry.is_none() {
            return Err(Errno::EPERM);
        }
        state.xnack = on;
        let anywhere = if on { self.nodes.iter().fold(0, |all, node| all | node.bit()) } else { 0 };
        state.svm.ranges.set_default_access(Access { anywhere, in_place: 0 });
        Ok(mode)
    }

    /// Whether waves may wait for the pages of a range: it need not be mapped before.
    pub(super) fn svm_may_wait(&self, range: &Range<u64>) -> bool {
        let state = self.state.borrow();
        state.xnack
            && !state.svm.ranges.touching(range).any(|(_, one)| {
                one.attributes.access.in_place != 0
                    || one.attributes.flags & KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED != 0
            })
    }

    /// A wave waits for a page, of which the filter told by this entry. Whether the page is going to be looked at, after which the
    /// entry is given back.
    pub(crate) fn page_wanted(&self, node: &Node, va: u64, told: u32) -> bool {
        let mut wanted = self.retries.lock();
        let room = wanted.len() < WANTED && wanted.try_reserve(1).is_ok();
        if room {
            wanted.push(Wanted { va, told, node: node.number });
        }
        drop(wanted);
        self.retry_work.queue();
        room
    }

    /// Maps the pages that waves wait for.
    fn svm_give_pages(self: &Arc<Self>) {
        let wanted: Vec<Wanted> = core::mem::take(&mut *self.retries.lock());
        for &Wanted { va, told, node } in &wanted {
            let node = self.nodes.get(node);
            match self.svm_give_page(node, va) {
                Ok(()) | Err(Errno::ESRCH) => {}
                // It does not come to rest, or there is no room now: the wave goes on waiting, and the device tells again.
                Err(Errno::EAGAIN | Errno::ENOMEM) => {}
                Err(_) => self.svm_refuse_page(node, va),
            }
            self.device.retried(told);
        }
    }

    /// Maps what is around a page.
    fn svm_give_page(self: &Arc<Self>, node: &Node, va: u64) -> Result<()> {
        let page = va..va + PAGE_SIZE;
        let known = {
            let state = self.state.borrow();
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
            return self.svm_map_range(&part).or_else(|_| self.svm_map_range(&page));
        }
        // Memory of the program that nothing was said of (`svm_range_create_unregistered_range`).
        let area = self.device.hw.os().user_area(self.key(), va)?.ok_or(Errno::EFAULT)?;
        let whole = va..around(va, GRANULARITY).end.min(area.end.max(page.end));
        self.svm_add_range(&whole).or_else(|_| self.svm_add_range(&page))?;
        self.svm_map_range(&page)
    }

    /// Makes a range of which nothing is said.
    fn svm_add_range(self: &Arc<Self>, range: &Range<u64>) -> Result<()> {
        let args = SvmArgs {
            start_addr: range.start,
            size: range.end - range.start,
            op: KFD_IOCTL_SVM_OP_SET_ATTR,
            ..SvmArgs::default()
        };
        self.svm(&args, &mut [])
    }

    /// Nobody is to wait for a page.
    fn svm_refuse_page(&self, node: &Node, va: u64) {
        let refused = self.device.hw.asic().retry.map(|retry| retry.refused).filter(|_| va < USER_END);
        let result = refused.ok_or(Errno::EFAULT).and_then(|entry| {
            let state = self.state.borrow();
            let space = state.spaces.of(node.number).ok_or(Errno::ESRCH)?;
            let mut tables = space.lock();
            tables.vm.map_small(va, 0, PAGE_SIZE, entry)?;
            space.flush(&mut tables)
        });
        if let Err(error) = result
            && error != Errno::ESRCH
        {
            let failure =
                MemoryExceptionFailure { not_present: 1, read_only: 0, no_execute: 0, imprecise: 0 };
            let gpu_id = u32::from(node.gpu_id);
            self.memory_fault(MemoryExceptionData { failure, va, gpu_id, error_type: 0 });
        }
    }
}

/// Gives the retry filter its entries back: no one will look at these pages.
impl<O: Os> Drop for Process<O> {
    fn drop(&mut self) {
        for wanted in core::mem::take(&mut *self.retries.lock()) {
            self.device.retried(wanted.told);
        }
    }
}

/// So many pages, as a power of two, around an address.
fn around(va: u64, granularity: u32) -> Range<u64> {
    let bytes = PAGE_SIZE << granularity.min(GRANULARITY);
    let start = va & !(bytes - 1);
    start..start.saturating_add(bytes)
}
