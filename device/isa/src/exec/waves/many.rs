//! Waves that run one after the other in one storage.

#![expect(unsafe_code, reason = "enters compiled code")]

use core::ptr;
use std::sync::Arc;

use super::dispatch::{go_on_compiled, key_of, run_to_flow, run_with, stop_of};
use super::succession::Succession;
use crate::exec::code_cache::{Key, Region};
use crate::exec::compiled::{Compiled, EntryPoint};
use crate::exec::di::{Flow, Machine};
use crate::exec::{Env, Next, Stop, Touched};
use crate::wave::Wave;

/// See [`crate::exec::run_many`].
pub(crate) fn run_many(wave: &mut Wave, env: &mut Env<'_>, mut budget: u64, next: &mut impl Next) -> Stop {
    let launch = env.code_epoch;
    let mut succession = Succession::NONE;
    loop {
        let mut more = None;
        // Whether the wave has come from another region.
        let mut has_come = false;
        let stop = run_with(wave, env, budget, |wave, machine, region, mut limit| {
            machine.forgets_ended = true;
            succession.forget_stretches();
            let mut entry = Entry::of(wave, region);
            // Whether it has been found out of a wave that has begun as this one does.
            let mut is_known = false;
            // The registers that the last wave in this storage has changed, if its code says so.
            let mut touched: Option<&Touched> = None;
            loop {
                machine.wrote_more = false;
                let follows = match (entry, touched) {
                    (Some(entry), Some(touched)) if is_known => entry.follow(touched),
                    _ => None,
                };
                let ran = match follows.and_then(|follows| Some((follows, next.follow()?))) {
                    Some((follows, following)) if succession.begin(&following, wave, follows, limit) => {
                        machine.succession = &raw mut succession;
                        let ran = run_fresh(wave, machine, region, (limit, entry));
                        machine.succession = ptr::null_mut();
                        next.followed(machine.lds, succession.followed(wave));
                        if machine.wrote_more {
                            // A handler may have found that translations are others now.
                            succession.forget_stretches();
                        }
                        ran
                    }
                    _ => run_fresh(wave, machine, region, (limit, entry)),
                };
                if let Err(stop) = ran {
                    has_come = true;
                    return stop;
                }
                touched = match entry {
                    Some(Entry { code, .. }) if !has_come => code.touched(machine.wrote_more),
                    _ => None,
                };
                limit = match next.next(wave, machine.lds, touched) {
                    Some(limit) => limit,
                    None => return Some(Stop::EndProgram),
                };
                has_come = false;
                if !(is_known && touched.is_some()) {
                    entry = Entry::of(wave, region);
                    let key = Key { pc: region.key.pc, ..key_of(wave) };
                    let goes_on =
                        key == region.key && (entry.is_some() || region.index_of(wave.pc).is_some());
                    if !goes_on || wave.is_halted() {
                        more = Some(limit);
                        return Some(Stop::EndProgram);
                    }
                    is_known = true;
                    entry = entry.map(|entry| entry.with_known(wave, machine, region, launch));
                }
                if machine.refetch {
                    more = Some(limit);
                    return Some(Stop::EndProgram);
                }
            }
        });
        match more {
            Some(limit) => budget = limit,
            None => return stop,
        }
    }
}

/// A region's machine code, and the element of it that a wave which has begun nothing begins with: most waves of a kernel begin at the same place.
#[derive(Clone, Copy)]
struct Entry<'a> {
    code: &'a Compiled,
    index: usize,
    point: EntryPoint,
}

impl<'a> Entry<'a> {
    /// Returns the entry at which a wave begins, if that is in machine code.
    fn of(wave: &Wave, region: &'a Region) -> Option<Entry<'a>> {
        let code = region.machine_code()?;
        let index = region.index_of(wave.pc)?;
        let point = code.entry(index)?;
        (region.vgprs <= wave.registers && !wave.has_partly_done()).then_some(Entry { code, index, point })
    }

    /// Returns the entry for waves whose first loads other waves of the launch have done, if this wave is at the
    /// first element and the values are known; otherwise returns this entry.
    fn with_known(self, wave: &mut Wave, machine: &mut Machine<'_>, region: &Region, launch: u64) -> Self {
        if self.index != 0 {
            return self;
        }
        // SAFETY: as in `go_on_compiled`.
        let known = unsafe { self.code.known_entry(wave, machine, (&region.code, launch)) };
        Entry { point: known.unwrap_or(self.point), ..self }
    }

    /// Returns the address at which code may start other waves that begin here, after a wave that changes registers
    /// as `touched` says.
    fn follow(self, touched: &'a Touched) -> Option<(&'a Touched, *const u8)> {
        (self.index == 0 && self.code.follows()).then(|| (touched, self.code.address(self.point)))
    }
}

/// Runs a wave from its beginning by `entry`, or from where it is. The error is its stop, if it has one other than
/// its end.
#[inline(always)]
fn run_fresh(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Arc<Region>,
    (limit, entry): (u64, Option<Entry<'_>>),
) -> Result<(), Option<Stop>> {
    // The way of most short waves: from their first instruction to their last one in one go.
    let (flow, at) = if let Some(Entry { code, point, .. }) = entry {
        // SAFETY: as in `go_on_compiled`.
        let (flow, at) = unsafe { code.run(wave, machine, &region.code, (limit, point)) };
        let limit = machine.limit_of_last().unwrap_or(limit);
        match flow == Flow::END_PROGRAM || flow.is_jump() && wave.instructions >= limit {
            true => (flow, at),
            false => {
                machine.wrote_more = true;
                go_on_compiled(wave, machine, region, (limit, code), (flow, at))
            }
        }
    } else {
        machine.wrote_more = true;
        run_to_flow(wave, machine, region, limit)
    };
    if flow == Flow::END_PROGRAM {
        wave.pc = region.pc_of(at + 1);
        return Ok(());
    }
    match stop_of(wave, machine, region, (flow, at)) {
        Some(Stop::EndProgram) => Ok(()),
        stop => Err(stop),
    }
}
