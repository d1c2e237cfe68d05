//! An AQL queue with its work in progress, as plain values.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::scratch::Asked;
use super::{AqlQueue, MAX_IN_FLIGHT, Waiting};
use crate::cp::MAX_SCRATCH_SLOTS;
use crate::cp::context::Leaving;
use crate::cp::state::{InFlight, QueueState, SavedFailure, SavedInFlight};
use crate::cp::{AqlConfig, CpEnv};
use crate::save::{Broken, check, count};
use crate::shader::{self, Gws, Owner, Restoring, SavedScratch, ScratchPool, ShaderQueue};
use crate::vm::{SpaceList, Spaces};

/// An AQL queue between two packets.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedAql {
    config: AqlConfig,
    /// Number of its address space.
    space: u32,
    fetch_index: u64,
    read_index: u64,
    started: Vec<Option<SavedInFlight>>,
    scratch: Option<SavedScratch>,
    asked: Option<Asked>,
    waiting: Waiting,
    leaving: Option<Leaving>,
    failure: Option<SavedFailure>,
    shader: shader::SavedQueue,
}

impl SavedAql {
    /// Returns the number of waves in progress.
    pub(crate) fn waves(&self) -> usize {
        self.shader.waves()
    }
}

impl AqlQueue {
    /// Saves the queue and its dispatches while the engine is [held](shader::ShaderEngine::hold). The scheduler that
    /// made the queue saves the global wave sync.
    pub(crate) fn save(&self, spaces: &mut SpaceList) -> SavedAql {
        let packet = |owner: &Arc<dyn Owner>| {
            let owns =
                |dispatch: &&Arc<InFlight>| std::ptr::addr_eq(Arc::as_ptr(dispatch), Arc::as_ptr(owner));
            self.started.iter().flatten().find(owns).map(|dispatch| dispatch.index())
        };
        // A saved queue does not complete signals that injected faults hold back: they are written now.
        self.complete_late(true);
        SavedAql {
            config: self.config,
            space: spaces.number(self.state.shader.space()),
            fetch_index: self.fetch_index,
            read_index: self.read_index,
            started: self.started.iter().map(|one| one.as_ref().map(|dispatch| dispatch.save())).collect(),
            scratch: self.scratch.as_ref().map(|pool| pool.save()),
            asked: self.asked,
            waiting: self.waiting.clone(),
            leaving: self.leaving,
            failure: self.state.save_failure(),
            shader: self.shader.save_queue(&self.state.shader, packet),
        }
    }

    /// Makes a queue in the state of a saved one. It is suspended.
    pub(crate) fn restored(
        saved: &SavedAql,
        spaces: &Spaces,
        gws: Arc<Gws>,
        env: &CpEnv,
        restoring: &mut Restoring,
    ) -> Result<Self, Broken> {
        let config = saved.config;
        check("packets of a ring", config.ring_packets, config.ring_packets <= 1 << 32)?;
        let started = saved.started.len();
        let between = saved.fetch_index.wrapping_sub(saved.read_index);
        count("packets in flight", started, started <= MAX_IN_FLIGHT && started as u64 == between)?;
        if let Waiting::Pm4(execution) = &saved.waiting {
            execution.check()?;
        }
        saved.leaving.as_ref().map_or(Ok(()), Leaving::check)?;
        let space = spaces.get(saved.space)?;
        let reported = space.waits().is_none().then_some(saved.read_index);
        let queue = ShaderQueue::restored(space, config.apertures, gws, saved.shader.is_stopped());
        let state = Arc::new(QueueState::new(Arc::clone(&queue), config.identity, env));
        state.restore_failure(saved.failure.as_ref());
        let in_flight =
            |saved: &Option<SavedInFlight>| saved.map(|saved| Arc::new(InFlight::restored(&state, saved)));
        let started: VecDeque<_> = saved.started.iter().map(in_flight).collect();
        let scratch = saved.scratch.as_ref().map(|pool| ScratchPool::restored(pool, MAX_SCRATCH_SLOTS));
        let scratch = scratch.transpose()?.map(Arc::new);
        let owner = |packet| -> Option<Arc<dyn Owner>> {
            let found = started.iter().flatten().find(|dispatch| dispatch.is_of(packet))?;
            Some(Arc::clone(found) as Arc<dyn Owner>)
        };
        env.shader.restore_queue(&saved.shader, (&queue, scratch.as_ref()), owner, restoring)?;
        Ok(Self {
            config,
            state,
            shader: Arc::clone(&env.shader),
            fetch_index: saved.fetch_index,
            read_index: saved.read_index,
            reported,
            started,
            scratch,
            asked: saved.asked,
            waiting: saved.waiting.clone(),
            leaving: saved.leaving,
            hangs: false,
            watched: Default::default(),
        })
    }
}
