//! Waves under a debugger: launched halted or with exceptions enabled, run one instruction at a time, and stopped at accesses of
//! watched memory.

use belfry_isa::exec::{self, Env, Observer, Stop};
use belfry_isa::trap::TrapCause;
use belfry_isa::wave::Wave;

use super::{State, Workgroup};
use crate::stops::Armed;
use crate::trace::WaveId;
use crate::vm::{LaunchControl, LaunchMode};

impl Workgroup {
    /// Changes waves that have not begun as the debugger of their process asks.
    #[cold]
    pub(super) fn begin_debugged(&mut self, control: LaunchControl) {
        for (wave, state) in self.waves.iter_mut().zip(&mut self.states) {
            if control.exceptions() != 0 || control.replaces_exceptions() {
                wave.enable_exceptions(control.exceptions(), control.replaces_exceptions());
            }
            match control.mode() {
                LaunchMode::Normal | LaunchMode::Kill => {}
                LaunchMode::Halt => {
                    wave.halt();
                    *state = State::Halted;
                }
                LaunchMode::Debug => wave.single_step(),
            }
        }
    }
}

/// Runs a wave for about `budget` instructions. The wave traps after each instruction, or addresses in its memory are
/// watched.
///
/// Traps are entered here, so that the caller finds the wave in its handler. For the trap, an instruction that waits
/// for other waves is over when they have come.
#[cold]
pub(super) fn run(
    wave: &mut Wave,
    env: &mut Env<'_>,
    budget: u64,
    mut observer: Option<&mut dyn Observer>,
) -> Stop {
    let begun = wave.instructions;
    for _ in 0..budget {
        if wave.has_stepped() && wave.enter_trap(TrapCause::SingleStep) {
            continue;
        }
        let (steps, privileged) = (wave.steps(), wave.is_privileged());
        let stop = match &mut observer {
            Some(observer) => exec::step(wave, env, Some(&mut **observer)),
            None => exec::step(wave, env, None),
        };
        let met = env.tlb.take_met();
        // Accesses of the handler itself are not the program's.
        if met != 0 && !privileged {
            if wave.traps_watches() && stop == Stop::Budget {
                wave.enter_trap(TrapCause::Watch(met));
                continue;
            }
            wave.record_watches(met);
        }
        match stop {
            // A program that wrote MODE itself has asked for steps from the next instruction on.
            Stop::Budget if steps && wave.steps() => {
                wave.enter_trap(TrapCause::SingleStep);
            }
            Stop::Budget => {}
            Stop::Barrier | Stop::GlobalWaveSync(_) | Stop::Sleep | Stop::Message { .. } if steps => {
                wave.set_stepped();
                return stop;
            }
            stop => return stop,
        }
        if wave.instructions - begun >= budget {
            break;
        }
    }
    Stop::Budget
}

/// Runs a wave while there are breakpoints: a wave that comes to one stays in front of it.
#[cold]
pub(super) fn run_armed(
    wave: &mut Wave,
    env: &mut Env<'_>,
    budget: u64,
    (armed, id): (&Armed, &WaveId),
    mut observer: Option<&mut dyn Observer>,
) -> Stop {
    let begun = wave.instructions;
    for _ in 0..budget {
        if armed.is_halted() || armed.keeps((id.dispatch, id.workgroup, id.wave), wave.pc()) {
            break;
        }
        let met = armed.has_ranges().then(|| armed.met_by(&exec::touches(wave, env))).flatten();
        let stop = match &mut observer {
            Some(observer) => run(wave, env, 1, Some(&mut **observer)),
            None => run(wave, env, 1, None),
        };
        // An access that has faulted, or waits for a page, has not happened.
        if let Some(met) = met
            && !matches!(stop, Stop::Fault(_))
        {
            armed.accessed((id.dispatch, id.workgroup, id.wave), met);
        }
        if stop != Stop::Budget {
            return stop;
        }
        if wave.instructions - begun >= budget {
            break;
        }
    }
    Stop::Budget
}
