//! Waves that tools look at, or whose next wave is chosen by a seed: each tool has its own way to run them.

use belfry_isa::exec::{self, Env, Observer, Step, Stop};
use belfry_isa::wave::Wave;

use super::{debug, probed};
use crate::profile::Counting;
use crate::sanitize::Group;
use crate::stops::Armed;
use crate::trace::{TraceSink, WaveId};

/// The tools that look at the waves of a turn.
#[derive(Clone, Copy, Default)]
pub(in crate::shader) struct Looks<'a> {
    /// Receiver of instructions, which is asked for each wave.
    pub(in crate::shader) trace: Option<&'a dyn TraceSink>,
    /// Breakpoints, if there are any.
    pub(in crate::shader) armed: Option<&'a Armed>,
    /// True if the TLB has address watches.
    pub(in crate::shader) watches: bool,
    /// True if each wave runs one instruction.
    pub(in crate::shader) steps: bool,
}

impl Looks<'_> {
    /// Returns true if a tool looks at waves.
    #[inline(always)]
    pub(super) fn are_any(&self) -> bool {
        self.watches | self.steps | self.armed.is_some() | self.trace.is_some()
    }
}

/// A wave that tools look at.
pub(super) struct Looked<'a> {
    pub(super) looks: Looks<'a>,
    pub(super) id: WaveId,
    /// True if it is not the only one of its workgroup.
    pub(super) has_others: bool,
    /// True if a seed chooses the next wave.
    pub(super) by_chance: bool,
    pub(super) check: Option<&'a mut Group>,
    pub(super) profile: Option<&'a mut Counting>,
}

/// A trace of one wave.
struct Traced<'a> {
    id: WaveId,
    sink: &'a dyn TraceSink,
}

impl Observer for Traced<'_> {
    fn step(&mut self, step: &Step<'_>) {
        self.sink.instruction(&self.id, step);
    }
}

/// Runs a wave for a quantum. Breakpoints and debuggers come before traces, and all of them before probes.
#[inline(never)]
pub(super) fn run(wave: &mut Wave, env: &mut Env<'_>, quantum: u64, at: Looked<'_>) -> Stop {
    let Looked { looks, id, has_others, by_chance, check, profile } = at;
    let mut traced = looks.trace.filter(|sink| sink.wants_wave(&id)).map(|sink| Traced { id, sink });
    let debugged = wave.steps() || looks.watches || looks.steps || looks.armed.is_some();
    let is_plain = !debugged && traced.is_none();
    let is_probed = is_plain && (check.is_some() || profile.is_some());
    wave.take_turns(has_others && is_plain && !by_chance && !is_probed);
    if is_probed {
        return probed::run(wave, env, quantum, (id.wave as usize, (check, profile)));
    }
    if is_plain && !by_chance {
        return exec::run(wave, env, quantum);
    }
    let observer = traced.as_mut().map(|traced| traced as &mut dyn Observer);
    match looks.armed {
        Some(armed) => debug::run_armed(wave, env, quantum, (armed, &id), observer),
        None if debugged => debug::run(wave, env, quantum, observer),
        None => exec::run_stepped(wave, env, quantum, observer),
    }
}
