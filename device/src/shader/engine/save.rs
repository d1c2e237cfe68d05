//! The engine between turns, as plain values.
//!
//! While the engine is [held](ShaderEngine::hold), every workgroup that has begun is paused, with its waves between two
//! instructions, and all announcements of past turns have been made.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use belfry_lock::rank;
use serde::{Deserialize, Serialize};

use super::{Active, FIRST_EPOCH, ShaderEngine, State};
use crate::save::{Broken, check, counter};
use crate::shader::dispatch::{Owner, Restored, SavedDispatch};
use crate::shader::queue::ShaderQueue;
use crate::shader::scratch::ScratchPool;
use crate::shader::stats::Statistics;

/// State of the engine that belongs to no queue.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedShader {
    /// Turns that the first dispatch of a deterministic schedule has had.
    turns: u32,
    code_epoch: u64,
    /// Processor that the next workgroup is tried on first.
    next_processor: u32,
    statistics: Statistics,
}

/// A queue's dispatches.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedQueue {
    /// True if a wave has failed: nothing of the queue runs any more.
    stopped: bool,
    /// Position of the queue among the queues of the engine, and its dispatches, in the order of their turns.
    active: Option<(u32, Vec<SavedDispatch>)>,
}

impl SavedQueue {
    /// Returns the number of waves in progress.
    pub(crate) fn waves(&self) -> usize {
        self.active.iter().flat_map(|(_, dispatches)| dispatches).map(SavedDispatch::waves).sum()
    }

    /// Returns true if nothing of the queue runs any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }
}

/// Queues that are being restored, until the engine takes them all over.
#[derive(Debug, Default)]
pub(crate) struct Restoring(Vec<(u32, Active)>);

/// Guard: nothing runs on the engine while it lives.
pub(crate) struct Held<'a> {
    engine: &'a ShaderEngine,
    /// True if the engine was held before.
    was_held: bool,
    /// Queues that ran until the engine was held.
    suspended: Vec<Arc<ShaderQueue>>,
}

impl ShaderEngine {
    /// Stops all turns as soon as their waves are between two instructions, and returns when none is in progress. No
    /// thread may submit meanwhile.
    ///
    /// Turns of a deterministic schedule end where they would have ended anyway, so that the schedule stays unchanged.
    pub(crate) fn hold(&self) -> Held<'_> {
        belfry_lock::about_to_wait::<rank::ShaderQueueTurns>();
        let mut state = self.shared.lock();
        let was_held = std::mem::replace(&mut state.held, true);
        let suspended = match self.shared.deterministic {
            Some(_) => Vec::new(),
            None => state
                .queues
                .iter()
                .filter(|active| active.queue.begin_suspension())
                .map(|active| Arc::clone(&active.queue))
                .collect(),
        };
        while state.in_hand != 0 {
            state = self.shared.quiet.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Held { engine: self, was_held, suspended }
    }

    /// Lets a restored engine run.
    pub(crate) fn release(&self) {
        let mut state = self.shared.lock();
        state.held = false;
        self.shared.announce(state);
    }

    /// Saves the state that belongs to no queue.
    pub(crate) fn save(&self) -> SavedShader {
        SavedShader {
            turns: self.shared.lock().turns,
            code_epoch: self.shared.code_epoch.load(Ordering::SeqCst),
            next_processor: self.shared.residency.next(),
            statistics: self.statistics(),
        }
    }

    /// Saves a queue's dispatches. `packet` gives the index of a dispatch's packet.
    pub(crate) fn save_queue(
        &self,
        queue: &Arc<ShaderQueue>,
        packet: impl Fn(&Arc<dyn Owner>) -> Option<u64>,
    ) -> SavedQueue {
        let state = self.shared.lock();
        let found = (0..).zip(&state.queues).find(|(_, active)| Arc::ptr_eq(&active.queue, queue));
        let active = found.map(|(position, active)| {
            // A dispatch that has been settled is forgotten by the next worker that finds it.
            let unsettled = active.dispatches.iter().filter(|dispatch| !dispatch.is_settled());
            let saved = unsettled.filter_map(|dispatch| Some(dispatch.save(packet(dispatch.owner())?)));
            (position, saved.collect())
        });
        SavedQueue { stopped: queue.is_stopping(), active }
    }

    /// Gives a restored queue its dispatches, which run when the engine has [taken over](Self::restore) all queues and the
    /// queue is resumed. `owner` gives the owner of the dispatch of a packet.
    pub(crate) fn restore_queue(
        &self,
        saved: &SavedQueue,
        (queue, scratch): (&Arc<ShaderQueue>, Option<&Arc<ScratchPool>>),
        owner: impl Fn(u64) -> Option<Arc<dyn Owner>>,
        restoring: &mut Restoring,
    ) -> Result<(), Broken> {
        let Some((position, dispatches)) = &saved.active else { return Ok(()) };
        let with = Restored {
            chip: self.shared.chip,
            residency: &self.shared.residency,
            queue,
            scratch,
            deterministic: self.shared.deterministic.is_some(),
        };
        let restore = |dispatch: &SavedDispatch| {
            let packet = dispatch.packet();
            let none = Broken { field: "packet of a dispatch", value: packet };
            dispatch.restore(&with, owner(packet).ok_or(none)?)
        };
        let dispatches = dispatches.iter().map(restore).collect::<Result<VecDeque<_>, _>>()?;
        restoring.0.push((*position, Active { queue: Arc::clone(queue), dispatches }));
        Ok(())
    }

    /// Takes over the queues of another engine. This engine stays held.
    pub(crate) fn restore(&self, saved: &SavedShader, mut restoring: Restoring) -> Result<(), Broken> {
        restoring.0.sort_by_key(|(position, _)| *position);
        let distinct = restoring.0.is_sorted_by(|(one, _), (next, _)| one < next);
        check("queues with the same turn", u64::from(!distinct), distinct)?;
        let epoch = counter("number of the next dispatch", saved.code_epoch)?;
        check("number of the next dispatch", epoch, epoch >= FIRST_EPOCH - 1)?;
        self.shared.residency.set_next(saved.next_processor)?;
        self.shared.code_epoch.store(epoch, Ordering::SeqCst);
        self.shared.counters.restore(saved.statistics);
        let mut state = self.shared.lock();
        let State { queues, turns, held, .. } = &mut *state;
        *queues = restoring.0.into_iter().map(|(_, active)| active).collect();
        *turns = saved.turns;
        *held = true;
        Ok(())
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for queue in &self.suspended {
            queue.end_suspension();
        }
        let mut state = self.engine.shared.lock();
        state.held = self.was_held;
        self.engine.shared.announce(state);
    }
}
