//! Waves that run step by step on request, while the device is halted.

use belfry_isa::exec::Lds;
use belfry_isa::wave::Wave;

use super::{Outcome, State, Turn, Workgroup};
use crate::shader::failure::WaveFailure;

/// Most rounds of waves' turns that a workgroup gets on its way to its next barrier.
const MOST: u32 = 1 << 20;

/// Part of a workgroup that runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::shader) enum ByHand {
    /// One wave, for this many instructions or until it waits.
    Wave(u32, u32),
    /// All of them, until each has ended or waits at a barrier.
    ToBarrier,
}

impl Workgroup {
    /// Runs the wanted part, with one instruction for each turn of a wave. Breakpoints do not count.
    pub(in crate::shader) fn run_by_hand(&mut self, what: ByHand, turn: &mut Turn<'_>) -> Outcome {
        self.open_barrier();
        let result = match what {
            ByHand::Wave(wave, count) => self.run_wave(wave as usize, count, turn),
            ByHand::ToBarrier => self.run_to_barrier(turn),
        };
        match result {
            Err(failure) => Outcome::Failed(failure),
            Ok(()) if self.states.iter().all(|&state| state == State::Ended) => Outcome::Done,
            Ok(()) => Outcome::Paused { asleep: true },
        }
    }

    fn run_wave(&mut self, wave: usize, count: u32, turn: &mut Turn<'_>) -> Result<(), Box<WaveFailure>> {
        for _ in 0..count {
            if !self.step_by_hand(wave, turn)? {
                break;
            }
        }
        Ok(())
    }

    fn run_to_barrier(&mut self, turn: &mut Turn<'_>) -> Result<(), Box<WaveFailure>> {
        for _ in 0..MOST {
            let mut ran = false;
            for wave in 0..self.count {
                ran |= self.step_by_hand(wave, turn)?;
            }
            if !ran {
                break;
            }
        }
        Ok(())
    }

    /// Runs one instruction of a wave. Returns false if the wave waits.
    fn step_by_hand(&mut self, wave: usize, turn: &mut Turn<'_>) -> Result<bool, Box<WaveFailure>> {
        if wave >= self.count {
            return Ok(false);
        }
        if let State::AtGws(ticket) = self.states[wave] {
            self.at_gws(wave, turn.gws.look(ticket))?;
        }
        if self.states[wave] == State::AtBarrier && self.passes_split_barrier(wave) {
            self.states[wave] = State::Ready;
        }
        if self.states[wave] != State::Ready {
            return Ok(false);
        }
        self.step(wave, turn)?;
        Ok(true)
    }

    /// Returns true if the wave has begun and not ended.
    pub(in crate::shader) fn has_wave(&self, wave: u32) -> bool {
        self.states.get(wave as usize).is_some_and(|&state| state != State::Ended)
    }

    /// Has `change` change a wave that has begun and not ended, or its workgroup's LDS. Returns false if there is no
    /// such wave.
    pub(in crate::shader) fn alter(
        &mut self,
        wave: u32,
        change: &mut dyn FnMut(&mut Wave, &mut Lds),
    ) -> bool {
        let there = self.has_wave(wave);
        if let Some(wave) = self.waves.get_mut(wave as usize).filter(|_| there) {
            change(wave, &mut self.lds);
        }
        there
    }

    /// Lets the waves go on that wait at a barrier, if all of them have come to it.
    fn open_barrier(&mut self) {
        let waits = |state: &State| matches!(state, State::AtBarrier | State::Ended);
        if self.states.iter().all(waits)
            && !self.waves.iter().take(self.count).any(|wave| wave.waits_at_split_barrier())
        {
            for state in self.states.iter_mut().filter(|state| **state == State::AtBarrier) {
                *state = State::Ready;
            }
        }
    }
}
