//! Notice of doorbells: the counters and trace events of a doorbell that was rung, and the device's activity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};

use super::Doorbells;
use crate::faults::{Faults, Hook, Place, Rule};
use crate::guest_error::GuestError;
use crate::stats::{Counters, count};
use crate::trace::{Counter, Engine, Job, Owner, TraceEvent, Tracer, Way};

/// Takes note of doorbells.
pub(crate) struct DoorbellWatch {
    doorbells: Arc<Doorbells>,
    counters: Arc<Counters>,
    tracer: Tracer,
    faults: Faults,
    activity: AtomicU64,
}

/// Result of a look at a doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// The doorbell was not rung.
    Nothing,
    /// The doorbell was rung.
    Ring,
    /// The doorbell was rung, and a fault loses the ring.
    Lost,
    /// The doorbell was rung, and a fault holds the ring back until this time of the device.
    Late(Duration),
}

impl DoorbellWatch {
    pub(crate) fn new(
        doorbells: Arc<Doorbells>,
        counters: Arc<Counters>,
        tracer: Tracer,
        faults: Faults,
    ) -> Self {
        Self { doorbells, counters, tracer, faults, activity: AtomicU64::new(0) }
    }

    fn trace(&self, event: TraceEvent<'_>) {
        self.tracer.of_engine(Engine::Doorbells, event);
    }

    /// Records that a doorbell was rung. Its value is the index of a packet in its queue, or the index after it.
    fn rung(&self, event: TraceEvent<'_>) {
        if let TraceEvent::Doorbell { offset, value, way } = event
            && self.tracer.is_on()
        {
            let job = offset.whole().index().map_or(Job::NONE, |doorbell| self.tracer.job(doorbell, value));
            self.tracer.of_job(job, event.owner(Engine::Doorbells), event);
            let (counter, count) = match way {
                Way::Trapped => (Counter::DoorbellsTrapped, &self.counters.doorbells_trapped),
                Way::Woken => (Counter::DoorbellsWoken, &self.counters.doorbells_woken),
                Way::Polled => (Counter::DoorbellsPolled, &self.counters.doorbells_polled),
            };
            let event = TraceEvent::Counter { counter, value: count.load(Ordering::Relaxed) };
            self.tracer.of_job(job, Owner::of(Engine::Doorbells), event);
        }
    }

    /// Takes note of a doorbell, if it was rung. `sleeps` is true if its queue would do nothing without it.
    pub(crate) fn look(&self, doorbell: DoorbellIndex, sleeps: bool) -> Heard {
        let Some(rung) = self.doorbells.take(doorbell) else { return Heard::Nothing };
        self.stir();
        self.trace(TraceEvent::DoorbellSeen { doorbell });
        if rung.found {
            self.found(doorbell.offset(), rung.value);
        }
        if !sleeps {
            return Heard::Ring;
        }
        let place = || Place { what: "ring", doorbell: Some(doorbell.dwords()), ..Place::default() };
        match self.faults.meets(Hook::Doorbell, place) {
            None => Heard::Ring,
            Some(struck) if struck.rule == Rule::DoorbellLost => Heard::Lost,
            Some(struck) => Heard::Late(struck.until),
        }
    }

    /// Counts a value that was stored without the device seeing it.
    fn found(&self, offset: DoorbellOffset, value: u64) {
        count(&self.counters.doorbells_polled);
        self.rung(TraceEvent::Doorbell { offset, value, way: Way::Polled });
    }

    /// Takes a trapped write of 4 or 8 bytes at an aligned offset.
    pub(crate) fn trapped(&self, offset: DoorbellOffset, value: u64, len: usize) {
        count(&self.counters.doorbells_trapped);
        self.rung(TraceEvent::Doorbell { offset, value, way: Way::Trapped });
        if let Some(unknown) = self.doorbells.store(offset, value, len) {
            self.found(offset.whole(), unknown);
        }
    }

    /// Takes the host's announcement that a doorbell was written `writes` times. Returns false if no queue listens to
    /// it.
    pub(crate) fn woken(&self, offset: DoorbellOffset, writes: u64) -> bool {
        self.counters.doorbells_woken.fetch_add(writes, Ordering::Relaxed);
        self.rung(TraceEvent::Doorbell { offset, value: self.doorbells.load(offset), way: Way::Woken });
        self.doorbells.note(offset)
    }

    /// Counts a doorbell that no queue listens to.
    pub(crate) fn unknown(&self, details: std::fmt::Arguments<'_>) {
        count(&self.counters.doorbells_unknown);
        self.counters.error(GuestError::UnknownDoorbell, details);
    }

    /// Returns true if the driver lets doorbells through; counts one that it does not.
    pub(crate) fn lets_through(&self, offset: DoorbellOffset) -> bool {
        let enabled = self.doorbells.enabled();
        if !enabled {
            self.counters.error(GuestError::DoorbellsOff, format_args!("offset={offset:#x}"));
        }
        enabled
    }

    /// Notes that something has happened on a queue, or is about to.
    pub(crate) fn stir(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a number that changes whenever something has happened.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }
}
