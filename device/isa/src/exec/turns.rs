//! Waves of a workgroup that take turns in one call.

use std::sync::Arc;

use super::di::{Flow, Machine};
use super::dispatch::{begin, end, enter, flow_of, is_fetch_fault, key_of, outside, run_either};
use super::{Env, NextTurn, Stop, TurnEnd};
use crate::code_cache::{Key, Region};
use crate::wave::Wave;

/// See [`super::run_in_turns`].
pub(super) fn run_in_turns(
    waves: &mut [Wave],
    env: &mut Env<'_>,
    (mut at, budget): (usize, u64),
    next: &mut NextTurn<'_>,
) -> Option<(usize, Stop)> {
    let epoch = env.code_epoch;
    let (mut machine, code) = enter(env);
    let mut limit = waves[at].instructions.saturating_add(budget);
    loop {
        let key = key_of(&waves[at]);
        let region = code.region(key, epoch, machine.apertures, &mut machine.global);
        let distrusts = loop {
            let wave = &mut waves[at];
            if region.names_trapsts && !wave.watched && !wave.is_privileged() {
                wave.watched = true;
                break false;
            }
            if wave.is_halted() {
                return Some((at, Stop::Halt));
            }
            let mut distrusts = false;
            let end = match run_turn(wave, &mut machine, region, limit) {
                Ok(end) => end,
                // It has left the region.
                Err(None) => {
                    distrusts = core::mem::take(&mut machine.refetch);
                    if wave.instructions < limit {
                        break distrusts;
                    }
                    TurnEnd::Over
                }
                Err(Some(stop)) => {
                    if is_fetch_fault(&stop) {
                        code.distrust();
                    }
                    return Some((at, stop));
                }
            };
            let Some((wave, budget)) = next(waves, machine.lds, at, end) else {
                if distrusts {
                    code.distrust();
                }
                return None;
            };
            at = wave;
            let wave = &waves[at];
            limit = wave.instructions.saturating_add(budget);
            let key = Key { pc: region.key.pc, ..key_of(wave) };
            if distrusts || key != region.key || region.index_of(wave.pc).is_none() {
                break distrusts;
            }
        };
        if distrusts {
            code.distrust();
        }
    }
}

/// As [`run_either`] for waves that take turns: how the turn has ended, or else what the wave has stopped with. What is frequent comes
/// without a [`Stop`], which would be put together in memory and taken apart again.
#[inline(always)]
fn run_turn(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Arc<Region>,
    limit: u64,
) -> Result<TurnEnd, Option<Stop>> {
    let Some(code) = region.machine_code() else {
        return sorted(run_either(wave, machine, region, limit));
    };
    let index = begin(wave, machine, region)?;
    match flow_of(wave, machine, region, (limit, code), (Flow::to(index as u32), index)) {
        Some((Flow::BARRIER, at)) => {
            wave.pc = region.pc_of(at + 1);
            Ok(TurnEnd::Barrier)
        }
        Some((flow, _)) if flow.is_jump() => {
            wave.pc = region.pc_of(flow.index());
            Ok(TurnEnd::Over)
        }
        Some((flow, at)) => sorted(end(wave, machine, region, at, flow)),
        None => Err(Some(outside(region))),
    }
}

#[inline(never)]
fn sorted(stop: Option<Stop>) -> Result<TurnEnd, Option<Stop>> {
    match stop {
        Some(Stop::Barrier) => Ok(TurnEnd::Barrier),
        Some(Stop::Budget | Stop::Turn) => Ok(TurnEnd::Over),
        Some(Stop::EndProgram) => Ok(TurnEnd::Ended),
        other => Err(other),
    }
}
