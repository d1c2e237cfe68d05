//! Waves of a workgroup that take turns at its barriers, in one call of the engine.
//!
//! Cheap and frequent events are decided between two waves: a barrier, an end, a turn that is over. Every other stop of
//! a wave ends the call, and [`Workgroup::stopped`] handles it.

use belfry_isa::exec::{self, Env, Go, Lds, Stopped, TurnEnd, Turns};
use belfry_isa::wave::Wave;

use super::{Outcome, SWITCH_COST, State, Turn, Workgroup};
use crate::shader::failure::WaveFailure;

/// Answer that the next wave needs the loop that knows every state.
struct Unusual;

impl Workgroup {
    /// Returns true if its waves may take turns in one call of the engine. They may not while they are traced,
    /// debugged, checked or profiled, or while a deterministic schedule chooses the next wave.
    #[inline(always)]
    pub(super) fn takes_plain_turns(&self, turn: &Turn<'_>) -> bool {
        let counted = self.check.is_some() || self.profile.is_some();
        self.count > 1 && !turn.looks.are_any() && !counted && turn.chance.is_none()
    }

    /// Returns true if a wave that waits at a split barrier goes on.
    pub(super) fn passes_split_barrier(&mut self, wave: usize) -> bool {
        passes_split_barrier(&mut self.waves[wave], &self.lds)
    }

    /// Runs the waves in turn, from the next one on. Returns the end of the workgroup's own turn; `None` if a wave is
    /// in a state, or has stopped for a reason, that [`Workgroup::run_on`] has to handle.
    pub(super) fn run_in_turns(&mut self, turn: &mut Turn<'_>) -> Result<Option<Outcome>, Box<WaveFailure>> {
        let Self { waves, states, count, next, lds, .. } = self;
        let waves = &mut waves[..*count];
        for wave in waves.iter_mut() {
            wave.take_turns(true);
        }
        let first = match choose((states, next), waves, lds) {
            Ok(Some(first)) => first,
            Ok(None) => return Ok(Some(Outcome::Done)),
            Err(Unusual) => return Ok(None),
        };
        if let Some(outcome) = over(turn.stopping, *turn.budget) {
            *next = first;
            return Ok(Some(outcome));
        }
        let all = first == 0 && all_go_on(states);
        let first = Go { wave: first, budget: turn.quantum.min(*turn.budget), all, more: u64::MAX };
        let mut outcome = None;
        let mut env = Env {
            mmu: turn.mmu,
            tlb: &mut *turn.tlb,
            code: &mut *turn.code,
            lds,
            apertures: turn.apertures,
            clock: turn.clock,
            code_epoch: turn.code_epoch,
        };
        let stopped = exec::run_in_turns(waves, &mut env, first, &mut |waves, lds, turns| {
            let Turns { opened, waiting, at, end, executed } = turns;
            turn.stats.wave_instructions += executed;
            *turn.budget = turn.budget.saturating_sub(executed + switches(waves.len(), opened, waiting));
            come(states, next, at, waiting);
            match end {
                TurnEnd::Barrier => states[at] = State::AtBarrier,
                TurnEnd::Over => {}
                TurnEnd::Ended => {
                    states[at] = State::Ended;
                    lds.barriers.leave();
                    turn.stats.waves += 1;
                }
            }
            let chosen = match choose((states, next), waves, lds) {
                Ok(Some(chosen)) => chosen,
                Ok(None) => {
                    outcome = Some(Outcome::Done);
                    return None;
                }
                Err(Unusual) => return None,
            };
            outcome = over(turn.stopping, *turn.budget);
            if outcome.is_some() {
                *next = chosen;
                return None;
            }
            let all = chosen == 0 && all_go_on(states);
            Some(Go { wave: chosen, budget: turn.quantum.min(*turn.budget), all, more: u64::MAX })
        });
        if let Some(Stopped { opened, waiting, at, stop, executed }) = stopped {
            come(states, next, at, waiting);
            *turn.budget = turn.budget.saturating_sub(switches(*count, opened, waiting) - SWITCH_COST);
            self.stopped(at, stop, executed, turn)?;
        }
        Ok(outcome)
    }
}

/// Returns true if every wave goes on.
fn all_go_on(states: &[State]) -> bool {
    states.iter().all(|state| *state == State::Ready)
}

/// Returns the cost of the changes of the wave, the last one included.
fn switches(waves: usize, opened: u64, waiting: Option<u64>) -> u64 {
    let came = waiting.map_or(0, u64::count_ones);
    SWITCH_COST * (opened * waves as u64 + u64::from(came) + 1)
}

/// Takes over the states of the waves that have had their turns, some of which are at the barrier.
fn come(states: &mut [State], next: &mut usize, at: usize, waiting: Option<u64>) {
    let Some(waiting) = waiting else { return };
    for (wave, state) in states.iter_mut().enumerate() {
        *state = if waiting >> (wave % 64) & 1 == 0 { State::Ready } else { State::AtBarrier };
    }
    *next = behind(at, states.len());
}

/// Returns the end of a workgroup's turn if its queue is to stop, or its budget is used up.
fn over(stopping: &dyn Fn() -> bool, budget: u64) -> Option<Outcome> {
    if stopping() {
        return Some(Outcome::Stopped);
    }
    (budget == 0).then_some(Outcome::Paused { asleep: false })
}

/// Chooses the wave whose turn it is, and opens the barrier if none can go on otherwise; `None` if all have ended.
#[inline(always)]
fn choose(
    (states, next): (&mut [State], &mut usize),
    waves: &mut [Wave],
    lds: &Lds,
) -> Result<Option<usize>, Unusual> {
    loop {
        for _ in 0..states.len() {
            let at = *next;
            let state = states[at];
            // One comparison after the other: waves take turns in being at a barrier, so the processor could not
            // foretell a jump through a table.
            let goes_on = if state == State::Ready {
                if waves[at].steps() {
                    return Err(Unusual);
                }
                true
            } else if state == State::AtBarrier {
                passes_split_barrier(&mut waves[at], lds)
            } else if state == State::Ended {
                false
            } else {
                return Err(Unusual);
            };
            *next = behind(at, states.len());
            if goes_on {
                states[at] = State::Ready;
                return Ok(Some(at));
            }
        }
        if !open_barrier(states, waves) {
            let ended = states.iter().all(|&state| state == State::Ended);
            return if ended { Ok(None) } else { Err(Unusual) };
        }
        // If all go on, they can do so in one round.
        if all_go_on(states) {
            *next = 0;
        }
    }
}

/// Returns the wave after `at`, or the first one after the last. Every turn calls this, and a division would take as
/// long as all the rest.
#[inline(always)]
fn behind(at: usize, count: usize) -> usize {
    if at + 1 < count { at + 1 } else { 0 }
}

/// Lets the waves at the barrier go on; the caller has found every wave there that has not ended. Returns false if
/// there are none.
pub(super) fn open_barrier(states: &mut [State], waves: &[Wave]) -> bool {
    let mut opens = false;
    for (state, wave) in states.iter_mut().zip(waves) {
        if *state == State::AtBarrier && !wave.waits_at_split_barrier() {
            *state = State::Ready;
            opens = true;
        }
    }
    opens
}

/// Returns true if a wave that waits at a split barrier goes on.
fn passes_split_barrier(wave: &mut Wave, lds: &Lds) -> bool {
    let passes = wave.waits_at_split_barrier() && lds.barriers.lets_pass(wave);
    if passes {
        wave.pass_split_barrier();
    }
    passes
}
