//! Waves of a workgroup that take turns in one call.

#![expect(unsafe_code, reason = "compiled code goes from wave to wave")]

use std::sync::Arc;

use super::dispatch::{Out, end, enter, go_on_compiled, is_fetch_fault, key_of, run_to_flow};
use super::round::{RoundEnd, Seats};
use crate::exec::code_cache::{Key, Region};
use crate::exec::compiled::Compiled;
use crate::exec::di::{Flow, Machine};
use crate::exec::{Env, Go, NextTurn, Stop, Stopped, TurnEnd, Turns};
use crate::wave::Wave;

/// See [`crate::exec::run_in_turns`].
pub(crate) fn run_in_turns(
    waves: &mut [Wave],
    env: &mut Env<'_>,
    first: Go,
    next: &mut NextTurn<'_>,
) -> Option<Stopped> {
    let epoch = env.code_epoch;
    let (mut machine, code) = enter(env);
    let mut seats = Seats::default();
    // One by one: as a whole it would be put together in memory, and waited for.
    let Go { wave: mut going, mut budget, mut all, mut more } = first;
    // Instructions of the turn at hand in regions that the wave has left.
    let mut elsewhere = 0;
    loop {
        let key = key_of(&waves[going]);
        let region = code.region(key, epoch, machine.apertures, &mut machine.global);
        seats.forget();
        // True if the wave that goes on is known to be in the region.
        let mut is_here = true;
        let distrusts = loop {
            let round = if all { seats.take(waves, region) } else { None };
            let ran = if let Some(compiled) = round {
                run_round(waves, &mut machine, (region, compiled), (&mut seats, budget, more))
            } else {
                let wave = &mut waves[going];
                let key = Key { pc: region.key.pc, ..key_of(wave) };
                if !is_here && (key != region.key || region.index_of(wave.pc).is_none()) {
                    break false;
                }
                if region.names_trapsts && !wave.watched && !wave.is_privileged() {
                    wave.watched = true;
                    break false;
                }
                if wave.is_halted() {
                    let (at, stop) = (going, Stop::Halt);
                    return Some(Stopped { opened: 0, waiting: None, at, stop, executed: elsewhere });
                }
                let before = wave.instructions;
                let out = run_to_flow(wave, &mut machine, region, before.saturating_add(budget));
                Ran { opened: 0, waiting: None, at: going, out, before }
            };
            is_here = false;
            let Ran { opened, waiting, at, out, before } = ran;
            let mut distrusts = false;
            let end = turn_end(&mut waves[at], &mut machine, region, out);
            let executed = waves[at].instructions.wrapping_sub(before);
            let end = match end {
                Ok((end, element)) => {
                    seats.leaves(at, element);
                    end
                }
                // It has left the region.
                Err(None) => {
                    distrusts = core::mem::take(&mut machine.refetch);
                    if waiting.is_none() && executed < budget {
                        elsewhere += executed;
                        (going, budget, all) = (at, budget - executed, false);
                        break distrusts;
                    }
                    seats.leaves(at, None);
                    TurnEnd::Over
                }
                Err(Some(stop)) => {
                    if is_fetch_fault(&stop) {
                        code.distrust();
                    }
                    return Some(Stopped { opened, waiting, at, stop, executed: executed + elsewhere });
                }
            };
            let executed = executed + core::mem::take(&mut elsewhere);
            match next(waves, machine.lds, Turns { opened, waiting, at, end, executed }) {
                Some(go) => (going, budget, all, more) = (go.wave, go.budget, go.all, go.more),
                None => {
                    if distrusts {
                        code.distrust();
                    }
                    return None;
                }
            }
            if distrusts {
                break true;
            }
        };
        if distrusts {
            code.distrust();
        }
    }
}

/// Turns that have been taken; see [`Turns`].
struct Ran {
    opened: u64,
    waiting: Option<u64>,
    at: usize,
    out: Out,
    /// Instruction count of wave `at` before the turn, as if that wave had executed all instructions of it.
    before: u64,
}

/// End of a wave's turn, and the element that the wave goes on at, if it is known. The error is the reason of its
/// stop, or `None` if it has left the region.
type End = Result<(TurnEnd, Option<usize>), Option<Stop>>;

/// Runs waves whose seats have been [taken](Seats::take), from the first one on, until one stops otherwise than at a barrier or before
/// a store to LDS that waits, or the barrier would open once too often.
#[inline(always)]
fn run_round(
    waves: &mut [Wave],
    machine: &mut Machine<'_>,
    (region, compiled): (&Arc<Region>, &Compiled),
    (seats, budget, more): (&mut Seats, u64, u64),
) -> Ran {
    // SAFETY: the seats of these waves have been taken just now.
    let RoundEnd { at, out, limit, generation, several } =
        unsafe { seats.run(machine, (compiled, region), budget, more) };
    let wave = &mut waves[at];
    let is_over = out.0.is_jump() && wave.instructions >= limit;
    let out = match is_over {
        true => out,
        false => go_on_compiled(wave, machine, region, (limit, compiled), out),
    };
    let waiting = several.then(|| seats.bring((at, generation), waves, region));
    let opened = u64::from(generation - 1);
    Ran { opened, waiting, at, out, before: limit.wrapping_sub(budget) }
}

/// Returns the end of the turn of a wave that has come out of the region.
#[inline(always)]
fn turn_end(wave: &mut Wave, machine: &mut Machine<'_>, region: &Arc<Region>, (flow, at): Out) -> End {
    match flow {
        Flow::BARRIER => {
            wave.pc = region.pc_of(at + 1);
            Ok((TurnEnd::Barrier, Some(at + 1)))
        }
        Flow::END_PROGRAM => {
            wave.pc = region.pc_of(at + 1);
            Ok((TurnEnd::Ended, None))
        }
        flow if flow.is_jump() => {
            wave.pc = region.pc_of(flow.index());
            Ok((TurnEnd::Over, None))
        }
        flow => match end(wave, machine, region, at, flow) {
            Some(Stop::Turn) => Ok((TurnEnd::Over, Some(at).filter(|_| !wave.has_partly_done()))),
            Some(Stop::Budget) => Ok((TurnEnd::Over, None)),
            stop => Err(stop),
        },
    }
}
