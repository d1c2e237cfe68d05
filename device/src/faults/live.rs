//! The plan of a running device.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use belfry_lock::{Mutex, rank};

use super::{FaultReport, Hook, Place, Plan, Rule, Strike};
use crate::threads::Wake;
use crate::time::Clock;
use crate::trace::{Engine, Owner, TraceEvent, Tracer};

/// Time for which a late thing is held back, unless a plan gives one.
const LATE: Duration = Duration::from_millis(10);
/// Time by which the golden counter jumps, unless a plan gives one: longer than any driver waits.
const JUMP: Duration = Duration::from_secs(60);
/// Highest count of a memory controller: its counter has 16 bits.
const MOST_CORRECTED: u32 = 0xffff;
/// Most strikes that are remembered one by one.
const REMEMBERED: usize = 1000;

/// A fault that strikes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Struck {
    pub(crate) rule: Rule,
    /// Time of the device until which a late thing is held back.
    pub(crate) until: Duration,
}

/// Resources that a driver can run out of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exhausted {
    /// VRAM.
    Vram,
    /// System memory.
    System,
    /// Doorbells of a process.
    Doorbells,
}

/// The faults of a device; cheap to clone. Without a plan, the check at a hook is one branch.
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<Live>>);

struct Live {
    armed: Mutex<Arc<Armed>, rank::Faults>,
    /// True once the function is out of its slot.
    removed: AtomicBool,
    /// True once a register is stuck.
    any_stuck: AtomicBool,
    stuck: Mutex<BTreeMap<u64, u32>, rank::Faults>,
    /// Number of corrected memory errors: the counter of the memory controller, on chips that have one.
    corrected: Arc<AtomicU32>,
    /// Times at which things that are held back go on.
    due: Mutex<Vec<Duration>, rank::Faults>,
    clock: Clock,
    tracer: Tracer,
    wake: Arc<Wake>,
}

/// A plan, and its counts.
struct Armed {
    plan: Plan,
    /// Number of moments that met the conditions, for each rule of the plan.
    counts: Box<[AtomicU64]>,
    /// Number of moments of each hook.
    met: [AtomicU64; Hook::ALL.len()],
    /// True once nothing strikes any more.
    over: AtomicBool,
    struck: Mutex<(Vec<Strike>, BTreeMap<Rule, u64>), rank::Faults>,
}

impl Armed {
    fn new(plan: &Plan) -> Arc<Self> {
        Arc::new(Self {
            counts: plan.rules().iter().map(|_| AtomicU64::new(0)).collect(),
            plan: plan.clone(),
            met: Default::default(),
            over: AtomicBool::new(false),
            struck: Mutex::default(),
        })
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Faults(off)"),
            Some(live) => write!(f, "Faults({})", live.armed().plan),
        }
    }
}

impl Faults {
    /// The faults of a plan; `wake` is woken when a strike holds something back.
    pub(crate) fn new(plan: &Plan, clock: &Clock, tracer: &Tracer, wake: &Arc<Wake>) -> Self {
        Self((!plan.is_off()).then(|| {
            Arc::new(Live {
                armed: Mutex::new(Armed::new(plan)),
                removed: AtomicBool::new(false),
                any_stuck: AtomicBool::new(false),
                stuck: Mutex::default(),
                corrected: Arc::default(),
                due: Mutex::default(),
                clock: clock.clone(),
                tracer: tracer.clone(),
                wake: Arc::clone(wake),
            })
        }))
    }

    /// Returns true if the device has a plan.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Ends the plan: nothing strikes any more. Faults that have struck stay.
    pub fn end(&self) {
        if let Some(live) = &self.0 {
            live.armed().over.store(true, Ordering::SeqCst);
        }
    }

    /// Begins another plan, whose moments and strikes are counted from zero. Returns false on a device that
    /// began without a plan, which takes none. A function that is out of its slot and a register that is
    /// stuck stay so.
    pub fn begin(&self, plan: &Plan) -> bool {
        if let Some(live) = &self.0 {
            *live.armed.lock().unwrap_or_else(PoisonError::into_inner) = Armed::new(plan);
        }
        self.is_on()
    }

    /// Returns the strikes and counts up to now.
    #[must_use]
    pub fn report(&self) -> FaultReport {
        let Some(live) = self.0.as_ref().map(|live| live.armed()) else { return FaultReport::default() };
        let (strikes, struck) = live.struck.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let met = Hook::ALL.iter().map(|&hook| (hook, live.met[hook.number()].load(Ordering::Relaxed)));
        FaultReport { strikes, struck, met: met.collect() }
    }

    /// Counts a moment of a hook; returns the fault that strikes there, if one does.
    #[inline(always)]
    pub(crate) fn meets<'a>(&self, hook: Hook, place: impl FnOnce() -> Place<'a>) -> Option<Struck> {
        match &self.0 {
            None => None,
            Some(live) => live.meets(hook, &place()),
        }
    }

    /// Returns true if a rule of the plan strikes at this hook; chaos does not count.
    pub(crate) fn plans(&self, hook: Hook) -> bool {
        let armed = self.0.as_ref().map(|live| live.armed());
        armed.is_some_and(|armed| armed.plan.rules().iter().any(|planned| planned.rule.hook() == hook))
    }

    /// Returns true if a driver in this process is to find none left when it takes a resource, for itself or
    /// for the process of this PASID.
    #[must_use]
    pub fn is_exhausted(&self, what: Exhausted, pasid: Option<u32>) -> bool {
        let (hook, what) = match what {
            Exhausted::Vram => (Hook::Vram, "VRAM"),
            Exhausted::System => (Hook::System, "system memory"),
            Exhausted::Doorbells => (Hook::QueueDoorbell, "doorbell"),
        };
        self.meets(hook, || Place { what, pasid, ..Place::default() }).is_some()
    }

    /// Returns the fault that strikes the driver in this process before it handles a call of the process of
    /// this PASID: [`Rule::DriverUnbound`] or [`Rule::Suspend`].
    #[must_use]
    pub fn at_call(&self, pasid: u32) -> Option<Rule> {
        let place = || Place { what: "call", pasid: Some(pasid), ..Place::default() };
        self.meets(Hook::Call, place).map(|struck| struck.rule)
    }

    /// Returns true if the function is out of its slot.
    #[inline(always)]
    pub(crate) fn is_removed(&self) -> bool {
        self.0.as_ref().is_some_and(|live| live.removed.load(Ordering::Relaxed))
    }

    /// Takes the function out of its slot.
    pub(crate) fn remove(&self) {
        if let Some(live) = &self.0 {
            live.removed.store(true, Ordering::SeqCst);
        }
    }

    /// Makes the register at an offset of the BAR read as this value for good.
    pub(crate) fn stick(&self, offset: u64, value: u32) {
        if let Some(live) = &self.0 {
            live.stuck.lock().unwrap_or_else(PoisonError::into_inner).insert(offset, value);
            live.any_stuck.store(true, Ordering::SeqCst);
        }
    }

    /// The counter of corrected memory errors, which stays 0 without a plan.
    pub(crate) fn corrected(&self) -> Arc<AtomicU32> {
        self.0.as_ref().map(|live| Arc::clone(&live.corrected)).unwrap_or_default()
    }

    /// The value that a register is stuck at.
    pub(crate) fn stuck_at(&self, offset: u64) -> Option<u32> {
        let live = self.0.as_ref().filter(|live| live.any_stuck.load(Ordering::Relaxed))?;
        live.stuck.lock().unwrap_or_else(PoisonError::into_inner).get(&offset).copied()
    }

    /// Returns true once a thing that was held back until this time may go on.
    pub(crate) fn is_over(&self, until: Duration) -> bool {
        self.0.as_ref().is_none_or(|live| live.clock.now() >= until)
    }

    /// Wakes the device's thread, so that it finds out when the thing that is held back now is due.
    pub(crate) fn look_again(&self) {
        if let Some(live) = &self.0 {
            live.wake.wake();
        }
    }

    /// Time on the host until the next thing that is held back goes on; `None` if there is none, or if the
    /// host's clock cannot tell.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let live = self.0.as_ref()?;
        let now = live.clock.now();
        let mut due = live.due.lock().unwrap_or_else(PoisonError::into_inner);
        let next = due.iter().min()?.saturating_sub(now);
        due.retain(|at| *at > now);
        live.clock.on_host(next)
    }
}

impl Live {
    fn armed(&self) -> Arc<Armed> {
        Arc::clone(&self.armed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cold]
    fn meets(&self, hook: Hook, place: &Place<'_>) -> Option<Struck> {
        let armed = self.armed();
        if armed.over.load(Ordering::Relaxed) {
            return None;
        }
        let moment = armed.met[hook.number()].fetch_add(1, Ordering::Relaxed) + 1;
        let mut strikes = None;
        for (planned, count) in armed.plan.rules().iter().zip(&armed.counts) {
            if planned.rule.hook() != hook || !planned.when.counts(|| self.clock.now(), place) {
                continue;
            }
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            if planned.when.strikes(number) && strikes.is_none() {
                strikes = Some((planned.rule, planned.when.length));
            }
        }
        if let (None, Some(chaos)) = (strikes, armed.plan.chaos()) {
            let rules = Rule::ALL.iter().filter(|rule| rule.hook() == hook);
            strikes = rules.copied().find(|&rule| chaos.strikes(rule, moment)).map(|rule| (rule, None));
        }
        let (rule, length) = strikes?;
        let now = self.clock.now();
        let until = if rule.is_late() { now.saturating_add(length.unwrap_or(LATE)) } else { now };
        self.record(&armed, Strike { rule, moment, time: now, place: place.to_string() }, place);
        if rule == Rule::ClockJump {
            // Nothing else happens at this packet.
            self.clock.jump(length.unwrap_or(JUMP));
            return None;
        }
        if rule == Rule::VramEccCorrectable {
            // A reader gets the bytes that were written.
            let count = |count| (count < MOST_CORRECTED).then_some(count + 1);
            let _ = self.corrected.fetch_update(Ordering::AcqRel, Ordering::Acquire, count);
            return None;
        }
        if rule.is_late() {
            self.due.lock().unwrap_or_else(PoisonError::into_inner).push(until);
            self.wake.wake();
        }
        Some(Struck { rule, until })
    }

    fn record(&self, armed: &Armed, strike: Strike, place: &Place<'_>) {
        log::info!(target: "gpu::faults", "{strike}");
        let owner =
            Owner { pasid: place.pasid.unwrap_or(0), doorbell: place.doorbell, ..Owner::of(Engine::Device) };
        let text = format!("{}: {}", strike.rule.name(), strike.place);
        self.tracer.event(owner, TraceEvent::Fault { moment: strike.moment, text: &text });
        let mut struck = armed.struck.lock().unwrap_or_else(PoisonError::into_inner);
        *struck.1.entry(strike.rule).or_insert(0) += 1;
        if struck.0.len() < REMEMBERED {
            struck.0.push(strike);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TimeSource;

    fn faults(text: &str) -> (Faults, TimeSource) {
        let time = TimeSource::manual();
        let plan = text.parse().expect("a plan");
        (Faults::new(&plan, &Clock::new(&time), &Tracer::default(), &Arc::default()), time)
    }

    fn ring(faults: &Faults, doorbell: u32) -> Option<Rule> {
        let place = || Place { what: "ring", doorbell: Some(doorbell), ..Place::default() };
        faults.meets(Hook::Doorbell, place).map(|struck| struck.rule)
    }

    #[test]
    fn rule_strikes_at_its_moment_alone_and_tells_where() {
        let (faults, _) = faults("doorbell-lost@2,queue:8");
        let met: Vec<_> = [8, 9, 9, 8, 8].iter().map(|&doorbell| ring(&faults, doorbell)).collect();
        assert_eq!(met, [None, None, None, Some(Rule::DoorbellLost), None]);
        let report = faults.report();
        assert_eq!(
            (report.strikes.len(), report.met[&Hook::Doorbell], report.struck[&Rule::DoorbellLost]),
            (1, 5, 1)
        );
        assert_eq!(
            report.strikes[0].to_string(),
            "doorbell-lost at doorbell 4, 0.000 ms: ring, doorbell 0x8"
        );
    }

    #[test]
    fn rule_strikes_after_its_time_and_again_and_again() {
        let (faults, time) = faults("doorbell-late@every:2,after:1ms,for:5us");
        assert_eq!((ring(&faults, 1), ring(&faults, 1)), (None, None));
        time.advance(Duration::from_millis(1));
        let met: Vec<_> = (0..5).map(|_| ring(&faults, 1).is_some()).collect();
        assert_eq!(met, [false, true, false, true, false]);
        assert!(!faults.is_over(Duration::from_micros(1005)));
        time.advance(Duration::from_micros(5));
        assert!(faults.is_over(Duration::from_micros(1005)));
        faults.end();
        assert!((0..4).all(|_| ring(&faults, 1).is_none()));
    }

    #[test]
    fn counter_jumps_and_the_time_of_the_plan_does_not() {
        let time = TimeSource::manual();
        let clock = Clock::new(&time);
        let plan = "clock-jump@1,for:1ms;clock-jump@3;queue-hang@2".parse().expect("a plan");
        let faults = Faults::new(&plan, &clock, &Tracer::default(), &Arc::default());
        let packet = || faults.meets(Hook::Packet, || Place { what: "packet", ..Place::default() });
        assert_eq!((packet().map(|struck| struck.rule), clock.ticks()), (None, 100_001));
        assert_eq!((packet().map(|struck| struck.rule), clock.ticks()), (Some(Rule::QueueHang), 100_001));
        assert_eq!((packet().map(|struck| struck.rule), clock.ticks()), (None, 6_000_100_001));
        assert_eq!((clock.now(), faults.next_due()), (Duration::ZERO, None));
        assert_eq!(faults.report().struck[&Rule::ClockJump], 2);
    }

    #[test]
    fn corrected_errors_are_counted_in_16_bits_and_nothing_else_happens() {
        let (faults, _) = faults("vram-ecc-correctable@every:2;vram-ecc@5");
        let read = || faults.meets(Hook::VramRead, || Place { what: "read of VRAM", ..Place::default() });
        let struck: Vec<_> = (0..6).map(|_| read().map(|struck| struck.rule)).collect();
        assert_eq!(struck, [None, None, None, None, Some(Rule::VramEcc), None]);
        let counter = faults.corrected();
        assert_eq!(counter.load(Ordering::Relaxed), 3);
        assert_eq!(faults.report().struck[&Rule::VramEccCorrectable], 3);
        counter.store(0xfffe, Ordering::Relaxed);
        for _ in 0..8 {
            let _ = read();
        }
        assert_eq!(counter.load(Ordering::Relaxed), 0xffff);
    }

    #[test]
    fn same_seed_strikes_the_same_moments() {
        let struck = |text: &str| {
            let (faults, _) = faults(text);
            (0..5000).filter(|_| ring(&faults, 1).is_some()).count();
            faults.report().strikes.into_iter().map(|strike| (strike.rule, strike.moment)).collect::<Vec<_>>()
        };
        let first = struck("chaos:5:0.01");
        assert!(!first.is_empty() && first == struck("chaos:5:0.01") && first != struck("chaos:6:0.01"));
    }

    #[test]
    fn another_plan_counts_from_nothing() {
        let (faults, _) = faults("doorbell-lost@2");
        assert_eq!((ring(&faults, 1), ring(&faults, 1)), (None, Some(Rule::DoorbellLost)));
        faults.end();
        assert!(faults.begin(&"doorbell-late@1".parse().unwrap()));
        assert_eq!(faults.report().struck, BTreeMap::new());
        assert_eq!((ring(&faults, 1), ring(&faults, 1)), (Some(Rule::DoorbellLate), None));
        assert_eq!(faults.report().met[&Hook::Doorbell], 2);
    }

    #[test]
    fn device_without_a_plan_counts_nothing() {
        let (off, _) = faults("");
        assert!(
            !off.begin(&Plan::counting())
                && ring(&off, 1).is_none()
                && off.report() == FaultReport::default()
        );
        let counting = Faults::new(
            &Plan::counting(),
            &Clock::new(&TimeSource::manual()),
            &Tracer::default(),
            &Arc::default(),
        );
        assert_eq!((ring(&counting, 1), counting.report().met[&Hook::Doorbell]), (None, 1));
    }
}
