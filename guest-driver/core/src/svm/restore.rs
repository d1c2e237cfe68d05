//! Changes of the program's memory, and what makes the GPU follow them (`svm_range_cpu_invalidate_pagetables`,
//! `svm_range_evict`, `svm_range_restore_work` of `kfd_svm.c`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::smi::QueueEvictionTrigger;

use super::mapped::Part;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::{Change, Os, PAGE_SIZE, Work, WorkItem as _};
use crate::process::{Phase, Process, State};

/// How long queues rest before their memory is mapped anew (`AMDGPU_SVM_RANGE_RESTORE_DELAY_MS`).
const RESTORE_DELAY_US: u64 = 1000;

/// Maps memory anew, away from whoever changed it.
pub(crate) struct RestoreWork<O: Os> {
    pub(crate) device: Arc<Device<O>>,
    pub(crate) pasid: u16,
}

impl<O: Os> Work for RestoreWork<O> {
    fn run(&self) {
        let os = self.device.hw.os();
        os.sleep_us(RESTORE_DELAY_US);
        if let Some(process) = self.device.process(self.pasid)
            && !process.svm_restore()
        {
            process.svm_work.queue();
        }
    }
}

impl<O: Os> Process<O> {
    /// The program's memory changes, or has changed.
    pub(super) fn svm_changed(self: &Arc<Self>, change: &Change) {
        // Pages that change in part change; they are gone when all of them is.
        let range = if change.unmapped {
            change.start.saturating_add(PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE
                ..change.end / PAGE_SIZE * PAGE_SIZE
        } else {
            change.start / PAGE_SIZE * PAGE_SIZE..change.end
        };
        if range.is_empty() {
            return;
        }
        let range = &range;
        if !change.unmapped {
            let mut state = self.state.lock();
            if state.phase != Phase::Dead && !state.svm.mapped.spoil(range).is_empty() {
                self.svm_quiesce(&mut state);
                drop(state);
                self.svm_work.queue();
            }
            return;
        }
        let (gone, rest) = {
            let mut state = self.state.lock();
            if state.phase == Phase::Dead {
                return;
            }
            let gone = self.svm_cut(&mut state, range);
            (gone, state.svm.mapped.spoil(range))
        };
        drop(gone);
        // What is left of the pins is pinned by itself: the same pages, so that queues need not stop.
        let failed = rest.iter().any(|part| self.svm_map_again(part).is_err());
        if failed {
            let mut state = self.state.lock();
            if state.phase != Phase::Dead && !state.svm.mapped.stale().is_empty() {
                self.svm_quiesce(&mut state);
                drop(state);
                self.svm_work.queue();
            }
        }
    }

    /// Takes a range from the GPU and from the ranges; returns what the caller drops without the lock.
    fn svm_cut(&self, state: &mut State<O>, range: &Range<u64>) -> Vec<(u64, Part<O>)> {
        let needed = |queue: &crate::queue::Queue<O>| {
            queue.save_area.as_ref().is_some_and(|area| area.start < range.end && range.start < area.end)
        };
        if state.queues.values().any(|queue| needed(queue)) {
            // As amdkfd: who frees a buffer that a queue needs has no queues any more.
            self.evict_queues(state);
        }
        let State { space, svm, .. } = state;
        let mut gone = svm.mapped.take(range);
        if let Some(space) = space {
            let mut tables = space.lock();
            for (start, part) in &gone {
                tables.vm.unmap(*start, part.end - start);
            }
            if !gone.is_empty() && space.flush(&mut tables).is_err() {
                // The device may still use the pages: they are left to it, and so are their addresses.
                core::mem::forget(core::mem::take(&mut gone));
            } else {
                tables.release_shared(range);
            }
        }
        let bytes = svm.ranges.remove(range);
        svm.charged -= bytes;
        self.device.uncharge_gtt(bytes);
        if let Some(task) = state.task {
            for (start, part) in &gone {
                self.device.smi_unmap(self.pasid, &task, *start..part.end);
            }
        }
        gone
    }

    /// Maps a range anew as far as the program still has it; the rest goes.
    fn svm_map_again(self: &Arc<Self>, range: &Range<u64>) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let area = self.device.hw.os().user_area(self.key(), at)?;
            let end = area.map_or(at + PAGE_SIZE, |area| area.end).min(range.end);
            let part = at..end;
            match area {
                Some(area) => self.svm_map_area(&part, area.writable)?,
                None => {
                    let gone = {
                        let mut state = self.state.lock();
                        if state.phase == Phase::Dead {
                            return Err(Errno::ESRCH);
                        }
                        self.svm_cut(&mut state, &part)
                    };
                    drop(gone);
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Maps everything stale anew and lets the queues go on; returns whether there is nothing left to do.
    fn svm_restore(self: &Arc<Self>) -> bool {
        let stale = {
            let state = self.state.lock();
            if state.phase == Phase::Dead {
                return true;
            }
            state.svm.mapped.stale()
        };
        for part in &stale {
            match self.svm_map_again(part) {
                Ok(()) => {}
                // The address space is going away, and the process with it.
                Err(Errno::ESRCH) => return true,
                Err(_) => return false,
            }
        }
        let mut state = self.state.lock();
        if !state.svm.mapped.stale().is_empty() {
            return false;
        }
        self.svm_resume(&mut state);
        true
    }

    /// Takes the queues off the scheduler until [`Process::svm_resume`] (`kgd2kfd_quiesce_mm`).
    fn svm_quiesce(&self, state: &mut State<O>) {
        if state.svm.quiesced || state.phase != Phase::Alive {
            return;
        }
        state.svm.quiesced = true;
        self.suspend_all(state);
        if let Some(task) = state.task {
            self.device.smi_eviction(self.pasid, &task, QueueEvictionTrigger::Svm);
        }
    }

    /// Hands the queues back (`kgd2kfd_resume_mm`).
    fn svm_resume(&self, state: &mut State<O>) {
        if !core::mem::take(&mut state.svm.quiesced) || state.phase != Phase::Alive {
            return;
        }
        self.resume_all(state);
        if let Some(task) = state.task {
            self.device.smi_restore(self.pasid, &task);
        }
    }
}
