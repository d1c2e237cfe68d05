//! Going on: continue, and steps of a wave.

use std::time::Duration;

use belfry_tools::inspect::{Inspect as _, StatusView, WaveId};
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::target::ext::base::multithread::{
    MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};

use super::target::{DEVICE, Waves};

/// Time for which the device runs before the client is looked after.
const SLICE: Duration = Duration::from_millis(20);
/// Instructions of a step over a range before the client is looked after.
const STEPS: u32 = 256;

/// Why the device stands still.
pub(super) type Stop = MultiThreadStopReason<u64>;

/// Request of the client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Plan {
    /// Nothing.
    Stay,
    /// The device goes on.
    Continue,
    /// The device goes on already.
    Runs,
    /// A thread's wave is stepped, while its pc is in a range if there is one.
    Step(Tid, Option<(u64, u64)>),
}

impl Waves {
    /// Carries the request out for a while. Returns the reason for its end, if it has ended.
    pub(super) fn turn(&mut self) -> Option<Stop> {
        self.moved();
        let stop = match self.plan {
            Plan::Stay => Some(self.interrupt()),
            Plan::Step(thread, range) => self.step(thread, range),
            Plan::Continue => self.go_on(),
            Plan::Runs => match self.gpu.inspect().wait(SLICE) {
                Ok(status) if status.halted => self.halted(&status),
                Ok(_) => None,
                // It has ended: so will the program.
                Err(_) => {
                    std::thread::sleep(SLICE);
                    None
                }
            },
        };
        if stop.is_some() {
            self.plan = Plan::Stay;
        }
        stop
    }

    /// Halts the device because the client wants it.
    pub(super) fn interrupt(&mut self) -> Stop {
        self.plan = Plan::Stay;
        self.moved();
        // A device that has ended stands still as well.
        let _ = self.gpu.inspect().halt();
        self.stopped(None, Signal::SIGINT)
    }

    fn stopped(&mut self, wave: Option<WaveId>, signal: Signal) -> Stop {
        self.current = wave.or(self.current);
        let tid = wave.map_or(DEVICE, |wave| self.thread(wave));
        Stop::SignalWithThread { tid, signal }
    }

    fn at_break(&mut self, wave: WaveId) -> Stop {
        self.told.insert(wave);
        self.current = Some(wave);
        Stop::SwBreak(self.thread(wave))
    }

    /// Lets the device go on, unless another wave stays at a breakpoint already.
    fn go_on(&mut self) -> Option<Stop> {
        if std::mem::take(&mut self.untold) {
            return Some(Stop::Library(DEVICE));
        }
        let (status, next) = self.status();
        if let Some(wave) = next {
            return Some(self.at_break(wave));
        }
        if let Some(stop) = self.next_watch(&status) {
            return Some(stop);
        }
        self.told.clear();
        self.current = None;
        // The device gives this number to no other breakpoint meanwhile; without it code objects are found later.
        let _ = self.watch_dispatches();
        self.gpu.inspect().proceed();
        self.plan = Plan::Runs;
        None
    }

    /// Why the device has halted; nothing if that is none of the client's business, and it goes on.
    fn halted(&mut self, status: &StatusView) -> Option<Stop> {
        if status.breakpoint.is_some() && status.breakpoint == self.dispatches {
            return match self.look_for_code() {
                true => Some(Stop::Library(DEVICE)),
                false => self.go_on(),
            };
        }
        if let Some(stop) = self.next_watch(status) {
            return Some(stop);
        }
        match status.wave {
            Some(wave)
                if status
                    .breakpoint
                    .is_some_and(|number| self.breaks.values().any(|mine| *mine == number)) =>
            {
                Some(self.at_break(wave))
            }
            Some(wave) if status.why.as_ref().is_some_and(|why| why.starts_with("fault")) => {
                Some(self.stopped(Some(wave), Signal::SIGSEGV))
            }
            wave => Some(self.stopped(wave, Signal::SIGTRAP)),
        }
    }

    /// Progress of a thread's wave: instructions, and its pc.
    fn progress(&mut self, thread: Tid) -> Option<(u64, u64)> {
        self.details(thread).map(|seen| (seen.instructions, seen.view.pc.0))
    }

    /// Steps a wave until it leaves a range, or once.
    fn step(&mut self, thread: Tid, range: Option<(u64, u64)>) -> Option<Stop> {
        let Some(wave) = self.wave(thread) else { return Some(self.stopped(None, Signal::SIGTRAP)) };
        let inspector = std::sync::Arc::clone(&self.gpu);
        let inspector = inspector.inspect();
        for _ in 0..STEPS {
            // Waits that never wait are not counted: the pc tells of them.
            let before = self.progress(thread);
            let stepped = inspector.step(wave, 1);
            self.moved();
            let now = self.progress(thread);
            let (Ok(()), Some((_, pc))) = (stepped, now) else {
                // It has ended, or its queue was taken off the compute units.
                return Some(self.stopped(now.map(|_| wave), Signal::SIGTRAP));
            };
            if before == now {
                // It waits for other waves of its workgroup; nothing else is let go on.
                let _ = inspector.step_to_barrier(wave);
                self.moved();
                let now = self.progress(thread);
                if now == before || now.is_none() {
                    return Some(self.stopped(now.map(|_| wave), Signal::SIGTRAP));
                }
                continue;
            }
            if self.breaks.contains_key(&pc) {
                return Some(self.at_break(wave));
            }
            match range {
                Some((start, end)) if (start..end).contains(&pc) => {}
                _ => return Some(self.stopped(Some(wave), Signal::SIGTRAP)),
            }
        }
        None
    }
}

impl MultiThreadResume for Waves {
    fn resume(&mut self) -> Result<(), Self::Error> {
        self.moved();
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.plan = Plan::Continue;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _tid: Tid, _signal: Option<Signal>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for Waves {
    fn set_resume_action_step(&mut self, tid: Tid, _signal: Option<Signal>) -> Result<(), Self::Error> {
        self.plan = Plan::Step(tid, None);
        Ok(())
    }
}

impl MultiThreadRangeStepping for Waves {
    fn set_resume_action_range_step(&mut self, tid: Tid, start: u64, end: u64) -> Result<(), Self::Error> {
        self.plan = Plan::Step(tid, Some((start, end)));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for Waves {
    /// A wave that is stepped runs alone in any case.
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}
