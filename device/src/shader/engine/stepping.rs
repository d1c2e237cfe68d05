//! Single workgroups that run while the device is halted, on the thread of the tool that inspects it.

use std::sync::{Arc, PoisonError};

use belfry_isa::exec::Lds;
use belfry_isa::wave::Wave;

use super::{Dispatch, ShaderEngine, Work};
use crate::shader::workgroup::ByHand;
use crate::stops::{Stops, WaveKey};

/// Part of a workgroup that runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Steps {
    /// The wave, for this many instructions.
    Wave(u32),
    /// All waves of its workgroup, up to a barrier.
    ToBarrier,
}

/// Reason that nothing ran.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum StepError {
    /// There is no such wave.
    NoWave,
    /// Its queue is held, or off the compute units.
    Held,
}

impl ShaderEngine {
    /// Returns the breakpoints and the switch that halts all waves.
    pub(crate) fn stops(&self) -> &Arc<Stops> {
        self.shared.tools.stops()
    }

    /// Runs a part of a workgroup. The device is halted, and the caller keeps the firmware's lock.
    pub(crate) fn step(&self, wave: WaveKey, what: Steps) -> Result<(), StepError> {
        // Turns in progress end first.
        drop(self.hold());
        let (number, workgroup, index) = wave;
        let dispatch: Option<Arc<Dispatch>> = {
            let state = self.shared.lock();
            let mut all = state.queues.iter().flat_map(|active| &active.dispatches);
            all.find(|dispatch| dispatch.number() == number && !dispatch.is_settled()).cloned()
        };
        let dispatch = dispatch.ok_or(StepError::NoWave)?;
        if !dispatch.queue().begin_turn() {
            return Err(StepError::Held);
        }
        let Some(group) = dispatch.take_one(workgroup, index) else {
            dispatch.queue().end_turn();
            return Err(StepError::NoWave);
        };
        let mut worker = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        worker.by_hand = Some(match what {
            Steps::Wave(count) => ByHand::Wave(index, count),
            Steps::ToBarrier => ByHand::ToBarrier,
        });
        let aftermath = worker.take(&self.shared, &dispatch, Work::Resume(group));
        drop(worker);
        aftermath.announce(&dispatch);
        self.shared.end_task(dispatch.queue());
        Ok(())
    }

    /// Calls `change` with a wave that stands between two instructions, and with its workgroup's LDS. Returns false if
    /// there is no such wave. The caller keeps the firmware's lock.
    pub(crate) fn alter(&self, wave: WaveKey, change: &mut dyn FnMut(&mut Wave, &mut Lds)) -> bool {
        let _held = self.hold();
        let (number, workgroup, index) = wave;
        let dispatch: Option<Arc<Dispatch>> = {
            let state = self.shared.lock();
            let mut all = state.queues.iter().flat_map(|active| &active.dispatches);
            all.find(|dispatch| dispatch.number() == number && !dispatch.is_settled()).cloned()
        };
        dispatch.is_some_and(|dispatch| dispatch.alter((workgroup, index), change))
    }

    /// Wakes the workers, so that they look for work again.
    pub(crate) fn look_again(&self) {
        self.shared.announce(self.shared.lock());
    }
}
