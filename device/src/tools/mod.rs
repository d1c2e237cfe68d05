//! The tools behind the device's moments: faults, traces, breakpoints, and the checks of drivers and runtimes.
//!
//! Each part of the device has one [`Tools`]. It tells each moment (`moments.rs`) to all of them at once, and gets one
//! verdict. The files beside this one have the answers of each tool:
//!
//! | file | tool | answer |
//! | --- | --- | --- |
//! | `stopped.rs` | breakpoints (`stops.rs`) | the part halts |
//! | `struck.rs` | planned faults ([`Faults`]) | the part fails in some way |
//! | `checked.rs` | the sanitizer's rules for drivers and runtimes | none |
//! | `traced.rs` | events ([`Tracer`]) | none |
//! | `counted.rs` | bytes over links ([`LinkCounters`]), for profiles and traces | none |
//!
//! They hear a moment in this order, up to the first whose answer is not to go on.

mod checked;
mod counted;
mod stopped;
mod struck;
mod traced;

use std::sync::Arc;
use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;

use crate::explore::Explorer;
use crate::faults::{Faults, Hook, Plan};
use crate::moments::{Asked, Asks, At, Met, Packet, Verdict};
use crate::profile::{LinkCounters, Profiler};
use crate::sanitize::{Misuse, Rule, Sanitizer};
use crate::stops::{Armed, Stops};
use crate::threads::Wake;
use crate::time::Clock;
use crate::trace::{Job, JobScope, TraceSink, Tracer};

/// The tools of a device; cheap to clone. The default has none but breakpoints.
#[derive(Clone, Debug)]
pub struct Tools {
    asked: Arc<Asked>,
    all: Arc<All>,
}

#[derive(Debug)]
struct All {
    tracer: Tracer,
    faults: Faults,
    sanitizer: Option<Arc<Sanitizer>>,
    profiler: Option<Arc<Profiler>>,
    links: Arc<LinkCounters>,
    explorer: Option<Explorer>,
    stops: Arc<Stops>,
}

/// Tools that a device is made with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) trace: Option<Arc<dyn TraceSink>>,
    pub(crate) faults: Plan,
    pub(crate) sanitizer: Option<Arc<Sanitizer>>,
    pub(crate) profiler: Option<Arc<Profiler>>,
    pub(crate) explorer: Option<Explorer>,
}

impl Default for Tools {
    fn default() -> Self {
        Self::of(Tracer::default(), Faults::default(), Chosen::default())
    }
}

impl Tools {
    /// The chosen tools, by a device's clock; `wake` is woken when a fault holds something back.
    pub(crate) fn new(chosen: Chosen, clock: &Clock, wake: &Arc<Wake>) -> Self {
        let tracer = Tracer::new(chosen.trace.clone(), clock);
        let faults = Faults::new(&chosen.faults, clock, &tracer, wake);
        if let Some(sanitizer) = &chosen.sanitizer {
            sanitizer.set_clock(clock.clone());
        }
        Self::of(tracer, faults, chosen)
    }

    fn of(tracer: Tracer, faults: Faults, chosen: Chosen) -> Self {
        let asked = Arc::new(Asked::default());
        let Chosen { trace: _, faults: _, sanitizer, profiler, explorer } = chosen;
        asked.set(Asks::Trace, tracer.is_on());
        asked.set(Asks::Faults, faults.is_on());
        asked.set(Asks::Checks, sanitizer.is_some());
        asked.set(Asks::Counts, profiler.is_some());
        let stops = Arc::new(Stops::new(Arc::clone(&asked)));
        let links = profiler.as_deref().map(Profiler::links).unwrap_or_default();
        Self { asked, all: Arc::new(All { tracer, faults, sanitizer, profiler, links, explorer, stops }) }
    }

    /// Tells the tools a moment, and returns what the part has to do. While no tool asks, this is one load.
    #[inline(always)]
    pub(crate) fn at<'a>(&self, at: impl FnOnce() -> At<'a>) -> Verdict {
        if self.asked.any_hears() { self.all.at(&at()) } else { Verdict::GoOn }
    }

    /// Tells the tools a moment that they only look at.
    #[inline(always)]
    pub(crate) fn tell<'a>(&self, at: impl FnOnce() -> At<'a>) {
        if self.asked.any_hears() {
            let _: Verdict = self.all.at(&at());
        }
    }

    /// Tells the tools of the packet that a queue is about to process. Once they let it go on, later moments of this
    /// thread belong to it, until the scope is dropped.
    ///
    /// # Errors
    ///
    /// [`Verdict::Halt`] or [`Verdict::Hang`].
    pub(crate) fn packet(&self, met: &mut Met, packet: &Packet<'_>) -> Result<JobScope, Verdict> {
        let All { tracer, faults, stops, .. } = &*self.all;
        if stopped::keeps(stops, met, packet) {
            return Err(Verdict::Halt);
        }
        if met.packet.replace((packet.index, packet.inner)) != Some((packet.index, packet.inner)) {
            if struck::hangs(faults, packet) {
                return Err(Verdict::Hang);
            }
            let scope = traced::scope(tracer, packet);
            traced::packet(tracer, packet);
            return Ok(scope);
        }
        Ok(traced::scope(tracer, packet))
    }

    /// Returns true if a tool asks for moments.
    #[inline(always)]
    pub(crate) fn hear(&self) -> bool {
        self.asked.any_hears()
    }

    /// Returns true if everything stands still.
    #[inline(always)]
    pub(crate) fn is_halted(&self) -> bool {
        self.asked.has(Asks::Halted)
    }

    /// The breakpoints of waves.
    #[inline(always)]
    pub(crate) fn armed(&self) -> Option<Arc<Armed>> {
        if self.asked.has(Asks::Waves) { self.all.stops.armed() } else { None }
    }

    /// The breakpoints, and the switch that halts the device.
    pub(crate) fn stops(&self) -> &Arc<Stops> {
        &self.all.stops
    }

    /// Returns true if events are recorded.
    #[inline(always)]
    pub(crate) fn is_traced(&self) -> bool {
        self.asked.has(Asks::Trace)
    }

    /// The recorder of events.
    pub(crate) fn tracer(&self) -> &Tracer {
        &self.all.tracer
    }

    /// The device's time; none while nothing is recorded.
    #[inline(always)]
    pub(crate) fn time(&self) -> Option<Duration> {
        if self.is_traced() { self.all.tracer.time() } else { None }
    }

    /// The job of the packet at a place of a queue; [`Job::NONE`] if nothing is recorded.
    #[inline(always)]
    pub(crate) fn job(&self, doorbell: DoorbellIndex, index: u64) -> Job {
        if self.is_traced() { self.all.tracer.job(doorbell, index) } else { Job::NONE }
    }

    /// The job that this thread works for; [`Job::NONE`] if nothing is recorded.
    pub(crate) fn current_job(&self) -> Job {
        self.all.tracer.current()
    }

    /// Makes moments of this thread belong to a job until the scope is dropped.
    #[inline(always)]
    pub(crate) fn scope(&self, job: Job) -> JobScope {
        if self.is_traced() { self.all.tracer.scope(job) } else { JobScope::nothing() }
    }

    /// Returns true if a fault can strike.
    #[inline(always)]
    pub(crate) fn may_strike(&self) -> bool {
        self.asked.has(Asks::Faults)
    }

    /// The faults of the device.
    pub(crate) fn faults(&self) -> &Faults {
        &self.all.faults
    }

    /// Returns true if a fault has taken the function out of its slot.
    #[inline(always)]
    pub(crate) fn is_removed(&self) -> bool {
        self.may_strike() && self.all.faults.is_removed()
    }

    /// Returns true once a thing that was held back until this time of the device may go on.
    pub(crate) fn is_over(&self, until: Duration) -> bool {
        self.all.faults.is_over(until)
    }

    /// Returns true if the plan of faults names reads of VRAM.
    pub(crate) fn plans_poison(&self) -> bool {
        self.all.faults.plans(Hook::VramRead)
    }

    /// The sanitizer, if there is one.
    #[inline(always)]
    pub(crate) fn sanitizer(&self) -> Option<&Arc<Sanitizer>> {
        if self.asked.has(Asks::Checks) { self.all.sanitizer.as_ref() } else { None }
    }

    /// Returns true if the sanitizer checks a rule.
    #[inline(always)]
    pub(crate) fn checks(&self, rule: Rule) -> bool {
        self.sanitizer().is_some_and(|sanitizer| sanitizer.checks(rule))
    }

    /// Reports that a driver or a runtime has broken a rule, if that is checked.
    pub(crate) fn misused(&self, misuse: Misuse) {
        if let Some(sanitizer) = self.sanitizer() {
            sanitizer.misused(misuse);
        }
    }

    /// The profiler of kernels, if there is one.
    pub(crate) fn profiler(&self) -> Option<&Profiler> {
        self.all.profiler.as_deref()
    }

    /// Returns true if kernels' waves are checked or counted.
    #[inline(always)]
    pub(crate) fn probe_kernels(&self) -> bool {
        self.asked.has(Asks::Checks) || self.asked.has(Asks::Counts)
    }

    /// The explorer that decides who goes on next, if there is one.
    #[inline(always)]
    pub(crate) fn explorer(&self) -> Option<&Explorer> {
        self.all.explorer.as_ref()
    }
}

impl All {
    #[cold]
    fn at(&self, at: &At<'_>) -> Verdict {
        stopped::at(&self.stops, at);
        let verdict = struck::at(&self.faults, at);
        if verdict != Verdict::GoOn {
            return verdict;
        }
        if let Some(sanitizer) = &self.sanitizer {
            checked::at(sanitizer, at);
        }
        if self.tracer.is_on() {
            traced::at(&self.tracer, at);
        }
        counted::at(&self.links, &self.tracer, at);
        Verdict::GoOn
    }
}

#[cfg(test)]
mod tests;
