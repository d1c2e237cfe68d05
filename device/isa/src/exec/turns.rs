//! Waves of a workgroup that take turns in one call.

use std::sync::Arc;

use super::di::{Flow, Machine};
use super::dispatch::{end, enter, is_fetch_fault, key_of, run_to_flow};
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

/// How the turn of a wave has ended, or else what it has stopped with, if it has not left the region.
#[inline(always)]
fn run_turn(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Arc<Region>,
    limit: u64,
) -> Result<TurnEnd, Option<Stop>> {
    let (flow, at) = run_to_flow(wave, machine, region, limit);
    match flow {
        Flow::BARRIER => {
            wave.pc = region.pc_of(at + 1);
            Ok(TurnEnd::Barrier)
        }
        Flow::END_PROGRAM => {
            wave.pc = region.pc_of(at + 1);
            Ok(TurnEnd::Ended)
        }
        flow if flow.is_jump() => {
            wave.pc = region.pc_of(flow.index());
            Ok(TurnEnd::Over)
        }
        flow => match end(wave, machine, region, at, flow) {
            Some(Stop::Budget | Stop::Turn) => Ok(TurnEnd::Over),
            stop => Err(stop),
        },
    }
}
