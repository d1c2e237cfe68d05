//! Context save and restore of a queue's waves.
//!
//! The waves of a suspended queue save themselves one after the other: each is taken into its process's trap handler,
//! which writes its registers to the context save area. The state that belongs to no wave is returned to the caller:
//! the workgroups that have begun, the waves that are left of them, and the workgroups that are still to come. A
//! restored queue gets waves that begin in the same handler. The thread that saves or restores runs them, so that both
//! are over when the call returns.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use belfry_isa::mem::Mmu;

use super::dispatch::{Dispatch, Notice, Owner, Runner};
use super::engine::{Active, FIRST_EPOCH, ShaderEngine};
use super::failure::WaveFailure;
use super::gws::GwsWait;
use super::launch::Launch;
use super::queue::ShaderQueue;
use super::worker::Worker;
use super::workgroup::{Looks, Turn, WAVE_QUANTUM};
use crate::chip::Generation;
use crate::vm::Fault;

/// Reason that waves were not saved or not restored; their queue has to end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ContextError {
    /// The queue has failed before.
    #[error("the queue has stopped")]
    Stopped,
    /// The queue has no context save area.
    #[error("the queue has no context save area")]
    NoArea,
    /// Its process has no trap handler.
    #[error("the process has no trap handler")]
    NoHandler,
    /// The waves' part of the area is too small.
    #[error("{needed} bytes of waves do not fit {size}")]
    WavesTooLarge {
        /// Bytes up to the wave that did not fit.
        needed: u64,
        /// Bytes there are.
        size: u64,
    },
    /// The control stack is too small.
    #[error("{needed} bytes do not fit a control stack of {size}")]
    StackTooLarge {
        /// Bytes to write.
        needed: u64,
        /// Bytes there are.
        size: u64,
    },
    /// The control stack cannot be accessed.
    #[error("the control stack cannot be accessed: {0}")]
    Stack(Fault),
    /// A wave failed in its trap handler, for example because the area is not mapped.
    #[error("in the trap handler: {0}")]
    Wave(WaveFailure),
    /// A wave does not come to the end of its trap handler.
    #[error("a wave does not come out of its trap handler, at {pc:#x}")]
    Stuck {
        /// Address of its next instruction.
        pc: u64,
    },
    /// The saved state is not as the hardware writes it.
    #[error("what was saved is not valid: {0}")]
    Corrupt(&'static str),
    /// The interpreter itself failed.
    #[error("the interpreter failed")]
    Internal,
}

/// A dispatch without its waves' registers.
#[derive(Clone, Debug)]
pub struct SavedDispatch {
    /// [`Owner::packet`] of its owner.
    pub packet: u64,
    /// Initial state of its waves.
    pub launch: Launch,
    /// Workgroups that have not begun: ascending, and apart from each other.
    pub unclaimed: Vec<Range<u64>>,
    /// Workgroups that have begun and not ended, in the order in which they go on.
    pub groups: Vec<SavedGroup>,
}

/// The waves that are left of a workgroup, by ascending number; the first of them has the LDS.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct SavedGroup {
    /// At least one.
    pub waves: Vec<SavedWave>,
}

/// A wave without its registers.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct SavedWave {
    /// Number in the workgroup.
    pub number: u32,
    /// Slot of the scratch memory that it has.
    pub scratch_slot: Option<u32>,
    /// Global wave sync operation that it waits for, beside a barrier of its workgroup.
    pub waits: Option<GwsWait>,
    /// Blocks of vector registers beyond the first one, if it allocates them while it runs.
    pub more_blocks: u8,
}

/// The part of the area that holds the waves: it is filled upwards and emptied downwards.
#[derive(Clone, Copy, Debug)]
pub struct WaveStates {
    /// GPU virtual address of the area.
    pub base: u64,
    /// Offset of the first byte, and the offset after the last byte.
    pub bounds: (u32, u32),
    /// Offset after the last byte in use.
    pub used: u32,
}

impl WaveStates {
    /// Takes room for `bytes` more and returns its address.
    pub(super) fn push(&mut self, bytes: u32) -> Result<u64, ContextError> {
        let (first, end) = self.bounds;
        let at = self.used;
        match at.checked_add(bytes).filter(|&used| used <= end) {
            Some(used) => self.used = used,
            None => {
                let needed = u64::from(at) + u64::from(bytes) - u64::from(first);
                return Err(ContextError::WavesTooLarge {
                    needed,
                    size: u64::from(end.saturating_sub(first)),
                });
            }
        }
        Ok(self.base.wrapping_add(at.into()))
    }

    /// Releases the last `bytes` in use and returns their address.
    pub(super) fn pop(&mut self, bytes: u32) -> Result<u64, ContextError> {
        let below = self.used.checked_sub(bytes).filter(|&below| below >= self.bounds.0);
        self.used = below.ok_or(ContextError::Corrupt("more waves than there is state of"))?;
        Ok(self.base.wrapping_add(self.used.into()))
    }
}

impl ShaderEngine {
    /// Saves the waves of a suspended queue, which the caller [removes](ShaderEngine::remove) then.
    ///
    /// Dispatches come in the order of their packets, and their waves are in the area in the same order.
    ///
    /// # Errors
    ///
    /// If the process waits for pages, a missing page is reported as the error of the access to it. The waves saved
    /// before it are in the area, up to the offset in `states`, and the next call goes on with the others. After other
    /// errors, waves that cannot be saved are gone.
    pub fn save_context(
        &self,
        queue: &ShaderQueue,
        states: &mut WaveStates,
    ) -> Result<Vec<SavedDispatch>, ContextError> {
        let mut saved = Vec::new();
        for dispatch in self.unsettled(queue) {
            match self.save_dispatch(&dispatch, states)? {
                Some(dispatch) => saved.push(dispatch),
                // Its last waves ended before they came to an instruction at which they could be saved.
                None => {
                    if let Some(announcement) = dispatch.settle(Ok(()), Runner::Worker) {
                        announcement.announce(&**dispatch.owner());
                    }
                }
            }
        }
        Ok(saved)
    }

    /// Returns the bytes of context that the waves of a suspended queue have to save, if none of them ends before that.
    pub fn context_bytes(&self, queue: &ShaderQueue) -> u64 {
        let mut bytes = 0;
        for dispatch in self.unsettled(queue) {
            dispatch.each_workgroup(&mut |workgroup| bytes += workgroup.context_bytes());
        }
        bytes
    }

    /// Returns the dispatches of a queue that have not ended, in the order of their packets.
    fn unsettled(&self, queue: &ShaderQueue) -> Vec<Arc<Dispatch>> {
        let state = self.shared.lock();
        let mine = state.queues.iter().find(|active| std::ptr::eq(Arc::as_ptr(&active.queue), queue));
        let all = mine.into_iter().flat_map(|active| &active.dispatches);
        let mut dispatches: Vec<_> = all.filter(|dispatch| !dispatch.is_settled()).cloned().collect();
        drop(state);
        // Turns change the order on the engine, and restored dispatches are numbered from the last to the first.
        dispatches.sort_by_key(|dispatch| dispatch.owner().packet());
        dispatches
    }

    fn save_dispatch(
        &self,
        dispatch: &Arc<Dispatch>,
        states: &mut WaveStates,
    ) -> Result<Option<SavedDispatch>, ContextError> {
        let waits = dispatch.queue().space().waits().is_some();
        while let Some(mut workgroup) = dispatch.take_first() {
            // One slice for each workgroup, so that a thread that takes memory away does not wait for all of them.
            workgroup.arrive(dispatch.queue().space());
            let group = self.switch(dispatch, waits, |turn| workgroup.save_context(turn, states));
            match group {
                Ok(group) => group.into_iter().for_each(|group| dispatch.put_away(group)),
                Err(error) => {
                    dispatch.put_first(workgroup);
                    return Err(error);
                }
            }
        }
        let groups = dispatch.away();
        let unclaimed = dispatch.unclaimed.parts();
        if groups.is_empty() && unclaimed.is_empty() {
            return Ok(None);
        }
        let (packet, launch) = (dispatch.owner().packet(), dispatch.launch().clone());
        Ok(Some(SavedDispatch { packet, launch, unclaimed, groups }))
    }

    /// Starts a saved dispatch again. Its waves are off the GPU, and get on it as waves of other queues leave.
    ///
    /// `states` shrinks by the bytes of its waves: dispatches and groups are restored in the opposite order of saving.
    ///
    /// # Errors
    ///
    /// Returns an error for state that [`ShaderEngine::save_context`] cannot have given, and for waves that do not come
    /// out of their trap handler. The caller then has to remove the queue.
    pub fn restore_context(
        &self,
        queue: &Arc<ShaderQueue>,
        saved: SavedDispatch,
        owner: Arc<dyn Owner>,
        states: &mut WaveStates,
    ) -> Result<(), ContextError> {
        let SavedDispatch { launch, unclaimed, groups, .. } = saved;
        let total = launch.workgroup_count().ok_or(ContextError::Corrupt("a grid that cannot be counted"))?;
        let left = check_ranges(&unclaimed, total)? + groups.len() as u64;
        if left == 0 || left > total {
            return Err(ContextError::Corrupt("as many workgroups as the grid does not have"));
        }
        let epoch = self.shared.code_epoch.fetch_add(1, Ordering::SeqCst) + 1;
        let number = epoch - FIRST_EPOCH;
        let chance = self.shared.chance(number);
        let dispatch = Dispatch::restored(Arc::clone(queue), launch, total, number, owner, chance, unclaimed);
        let dispatch = Arc::new(dispatch);
        let mut workgroups = Vec::new();
        for group in groups.iter().rev() {
            let seat = self.shared.residency.seat_off(&dispatch, group)?;
            // A workgroup does not stop half-way: if a page is missing, the caller restores the whole queue again
            // later.
            let workgroup = self.switch(&dispatch, false, |turn| {
                super::workgroup::Workgroup::from_context(seat, group, turn, states)
            })?;
            workgroups.push(Box::new(workgroup));
        }
        workgroups.reverse();
        dispatch.put_off(workgroups);
        let mut state = self.shared.lock();
        match state.queues.iter_mut().find(|active| Arc::ptr_eq(&active.queue, queue)) {
            Some(active) => active.dispatches.push_front(dispatch),
            None => state
                .queues
                .push_back(Active { queue: Arc::clone(queue), dispatches: [dispatch].into_iter().collect() }),
        }
        self.shared.announce(state);
        Ok(())
    }

    /// Takes off again the dispatches of a suspended queue that [`ShaderEngine::restore_context`] has put on, for a
    /// caller that cannot restore others of the queue now. None of them has gone on, so all of them can be restored
    /// from the same area later.
    pub fn take_back(&self, queue: &ShaderQueue) {
        self.remove_dispatches(queue);
        queue.gws().forget_waves();
    }

    /// Returns the number of waves that the GPU holds.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.shared.residency.capacity()
    }

    /// Runs waves of a dispatch on the calling thread, which holds no slice. [`Turn`] describes `gives_up`.
    fn switch<R>(
        &self,
        dispatch: &Arc<Dispatch>,
        gives_up: bool,
        run: impl FnOnce(&mut SwitchTurn<'_, '_>) -> Result<R, ContextError>,
    ) -> Result<R, ContextError> {
        let mut worker = self.submitter.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notices = Vec::new();
        // As with other turns: a defect in an instruction's semantics costs the guest its queue.
        let switch = AssertUnwindSafe(|| worker.switch((dispatch, gives_up), &mut notices, run));
        let outcome = catch_unwind(switch).unwrap_or(Err(ContextError::Internal));
        drop(worker);
        notices.into_iter().for_each(|notice| dispatch.owner().notice(notice));
        outcome
    }
}

/// A turn of one dispatch in which waves are saved or restored.
pub(super) struct SwitchTurn<'a, 'b> {
    pub(super) chip: &'static Generation,
    pub(super) dispatch: &'a Dispatch,
    pub(super) turn: Turn<'b>,
}

impl Worker {
    fn switch<R>(
        &mut self,
        (dispatch, gives_up): (&Arc<Dispatch>, bool),
        notices: &mut Vec<Notice>,
        run: impl FnOnce(&mut SwitchTurn<'_, '_>) -> R,
    ) -> R {
        let queue = Arc::clone(dispatch.queue());
        let space = Arc::clone(queue.space());
        let mut context = self.context(space.context());
        let shared = Arc::clone(&self.shared);
        let clock = || shared.clock.ticks();
        context.tlb.set_watches(None);
        let slice = space.enter();
        let mut budget = u64::MAX;
        let turn = Turn {
            mmu: &*space,
            tlb: &mut context.tlb,
            code: &mut context.code,
            apertures: queue.apertures(),
            gws: queue.gws(),
            clock: &clock,
            code_epoch: dispatch.code_epoch(),
            dispatch: dispatch.number(),
            // Accesses of the trap handler are not the program's.
            looks: Looks { trace: shared.sink(), ..Looks::default() },
            // The handler cannot wait for pages.
            waits: None,
            gives_up,
            chance: None,
            budget: &mut budget,
            quantum: WAVE_QUANTUM,
            stats: &mut self.stats,
            notices,
            stopping: &|| false,
        };
        let outcome = run(&mut SwitchTurn { chip: shared.chip, dispatch, turn });
        drop(slice);
        self.keep(context);
        shared.counters.add(self.number, &mut self.stats);
        outcome
    }
}

/// Counts the workgroups in the ranges, and checks that they are of a grid of `total`.
fn check_ranges(ranges: &[Range<u64>], total: u64) -> Result<u64, ContextError> {
    let mut end = 0;
    let mut count = 0;
    for range in ranges {
        if range.is_empty() || range.start < end || range.end > total {
            return Err(ContextError::Corrupt("workgroups that are not of the grid"));
        }
        end = range.end;
        count += range.end - range.start;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_another_grid_are_refused() {
        assert_eq!(check_ranges(&[0..3, 5..9], 9).ok(), Some(7));
        assert_eq!(check_ranges(&[], 9).ok(), Some(0));
        for ranges in [[0..3, 2..9], [0..1, 5..10], [0..1, 4..4], [5..9, 0..3]] {
            assert!(check_ranges(&ranges, 9).is_err(), "{ranges:?}");
        }
    }

    #[test]
    fn states_are_taken_in_the_opposite_order_of_filling() {
        let mut states = WaveStates { base: 0x10_0000, bounds: (0x1000, 0x2000), used: 0x1000 };
        assert_eq!(states.push(0x800), Ok(0x10_1000));
        assert_eq!(states.push(0x400), Ok(0x10_1800));
        assert_eq!(states.push(0x800), Err(ContextError::WavesTooLarge { needed: 0x1400, size: 0x1000 }));
        assert_eq!(states.pop(0x400), Ok(0x10_1800));
        assert_eq!(states.pop(0x800), Ok(0x10_1000));
        assert!(states.pop(1).is_err());
    }
}
