//! A PM4 queue with its work in progress, as plain values.

use std::collections::VecDeque;
use std::sync::Arc;

use belfry_abi::pm4::ReleaseMem;
use serde::{Deserialize, Serialize};

use super::dispatch::Pm4Dispatch;
use super::registers::ComputeRegisters;
use super::{MAX_STARTED, Pm4Config, Pm4Queue, Started};
use crate::cp::CpEnv;
use crate::cp::MAX_SCRATCH_SLOTS;
use crate::cp::context::{Context, Leaving};
use crate::cp::indirect::Execution;
use crate::cp::state::{QueueState, SavedFailure};
use crate::save::{Broken, check, count, counter};
use crate::shader::{self, Gws, Owner, Restoring, SavedScratch, ScratchPool, ShaderQueue};
use crate::vm::{SpaceList, Spaces};

/// Work that a packet has started.
#[derive(Clone, Debug, Deserialize, Serialize)]
enum SavedStarted {
    Dispatch { number: u64, registers: ComputeRegisters, done: bool },
    Release([u32; 7]),
}

/// A PM4 queue between two packets.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedPm4 {
    config: Pm4Config,
    /// Number of its address space.
    space: u32,
    registers: ComputeRegisters,
    allowed_cus: [u32; 8],
    read_index: u64,
    reported: Option<u64>,
    buffers: Execution,
    started: Vec<SavedStarted>,
    dispatches: u64,
    invocations: u64,
    scratch: Option<SavedScratch>,
    hdp_flush: u32,
    turns_in_buffers: u32,
    returning: Option<Context>,
    leaving: Option<Leaving>,
    stopped: bool,
    failure: Option<SavedFailure>,
    shader: shader::SavedQueue,
}

impl SavedPm4 {
    /// Returns the number of waves in progress.
    pub(crate) fn waves(&self) -> usize {
        self.shader.waves()
    }
}

impl Pm4Queue {
    fn running(&self) -> impl Iterator<Item = &Arc<Pm4Dispatch>> {
        self.started.iter().filter_map(|started| match started {
            Started::Dispatch(dispatch) => Some(dispatch),
            Started::Release(_) => None,
        })
    }

    /// Saves the queue and its dispatches while the engine is [held](shader::ShaderEngine::hold). The scheduler that
    /// made the queue saves the global wave sync.
    pub(crate) fn save(&self, spaces: &mut SpaceList) -> SavedPm4 {
        let packet = |owner: &Arc<dyn Owner>| {
            let owns =
                |dispatch: &&Arc<Pm4Dispatch>| std::ptr::addr_eq(Arc::as_ptr(dispatch), Arc::as_ptr(owner));
            self.running().find(owns).map(|dispatch| dispatch.number())
        };
        let started = self.started.iter().map(|started| match started {
            Started::Dispatch(dispatch) => SavedStarted::Dispatch {
                number: dispatch.number(),
                registers: dispatch.registers().clone(),
                done: dispatch.is_done(),
            },
            Started::Release(packet) => SavedStarted::Release(zerocopy::transmute!(*packet)),
        });
        SavedPm4 {
            config: self.config,
            space: spaces.number(self.state.shader.space()),
            registers: self.registers.clone(),
            allowed_cus: self.allowed_cus,
            read_index: self.read_index,
            reported: self.reported,
            buffers: self.buffers.clone(),
            started: started.collect(),
            dispatches: self.dispatches,
            invocations: self.invocations,
            scratch: self.scratch.as_ref().map(|pool| pool.save()),
            hdp_flush: self.hdp_flush,
            turns_in_buffers: self.turns_in_buffers,
            returning: self.returning,
            leaving: self.leaving,
            stopped: self.stopped,
            failure: self.state.save_failure(),
            shader: self.shader.save_queue(&self.state.shader, packet),
        }
    }

    /// Makes a queue in the state of a saved one. It is suspended.
    pub(crate) fn restored(
        saved: &SavedPm4,
        spaces: &Spaces,
        gws: Arc<Gws>,
        env: &CpEnv,
        restoring: &mut Restoring,
    ) -> Result<Self, Broken> {
        let config = saved.config;
        let dwords = config.ring_dwords;
        check("dwords of a ring", dwords, dwords.is_power_of_two() && dwords <= 1 << 32)?;
        count("dispatches and fences in flight", saved.started.len(), saved.started.len() <= MAX_STARTED)?;
        saved.buffers.check()?;
        saved.leaving.as_ref().map_or(Ok(()), Leaving::check)?;
        let space = spaces.get(saved.space)?;
        let queue = ShaderQueue::restored(space, config.apertures, gws, saved.shader.is_stopped());
        let state = Arc::new(QueueState::new(Arc::clone(&queue), config.identity, env));
        state.restore_failure(saved.failure.as_ref());
        let started: VecDeque<_> = saved
            .started
            .iter()
            .map(|started| match started {
                SavedStarted::Dispatch { number, registers, done } => {
                    Started::Dispatch(Arc::new(Pm4Dispatch::new(&state, *number, registers.clone(), *done)))
                }
                SavedStarted::Release(packet) => {
                    let packet: ReleaseMem = zerocopy::transmute!(*packet);
                    Started::Release(packet)
                }
            })
            .collect();
        let scratch = saved.scratch.as_ref().map(|pool| ScratchPool::restored(pool, MAX_SCRATCH_SLOTS));
        let scratch = scratch.transpose()?.map(Arc::new);
        let restored = Self {
            config,
            state,
            shader: Arc::clone(&env.shader),
            kernel: config.reach(env),
            registers: saved.registers.clone(),
            allowed_cus: saved.allowed_cus,
            read_index: saved.read_index,
            reported: saved.reported,
            buffers: saved.buffers.clone(),
            started,
            dispatches: counter("dispatches of a queue", saved.dispatches)?,
            invocations: saved.invocations,
            scratch,
            hdp_flush: saved.hdp_flush,
            turns_in_buffers: saved.turns_in_buffers,
            returning: saved.returning,
            leaving: saved.leaving,
            stopped: saved.stopped,
            met: Default::default(),
        };
        let owner = |packet| -> Option<Arc<dyn Owner>> {
            let is_it = |dispatch: &&Arc<Pm4Dispatch>| dispatch.number() == packet && !dispatch.is_done();
            restored.running().find(is_it).map(|dispatch| Arc::clone(dispatch) as Arc<dyn Owner>)
        };
        env.shader.restore_queue(&saved.shader, (&queue, restored.scratch.as_ref()), owner, restoring)?;
        Ok(restored)
    }
}
