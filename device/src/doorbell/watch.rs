//! Notice of doorbells: the counters and trace events of a doorbell that was rung, and the device's activity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};

use super::Doorbells;
use crate::guest_error::GuestError;
use crate::moments::{Moment, Verdict};
use crate::stats::{Counters, count};
use crate::tools::Tools;
use crate::trace::{Engine, Job, Way};

/// Takes note of doorbells.
pub(crate) struct DoorbellWatch {
    doorbells: Arc<Doorbells>,
    counters: Arc<Counters>,
    tools: Tools,
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
    pub(crate) fn new(doorbells: Arc<Doorbells>, counters: Arc<Counters>, tools: Tools) -> Self {
        Self { doorbells, counters, tools, activity: AtomicU64::new(0) }
    }

    /// Tells that a doorbell was rung. Its value is the index of a packet in its queue, or the index after it.
    #[inline(always)]
    fn rung(&self, offset: DoorbellOffset, value: u64, way: Way) {
        self.tools.tell(|| {
            let job = offset.whole().index().map_or(Job::NONE, |doorbell| self.tools.job(doorbell, value));
            let count = match way {
                Way::Trapped => &self.counters.doorbells_trapped,
                Way::Woken => &self.counters.doorbells_woken,
                Way::Polled => &self.counters.doorbells_polled,
            };
            let count = count.load(Ordering::Relaxed);
            Moment::Rung { offset, value, way, count }.on(Engine::Doorbells).in_job(job)
        });
    }

    /// Takes note of a doorbell, if it was rung. `sleeps` is true if its queue would do nothing without it.
    pub(crate) fn look(&self, doorbell: DoorbellIndex, sleeps: bool) -> Heard {
        let Some(rung) = self.doorbells.take(doorbell) else { return Heard::Nothing };
        self.stir();
        self.tools.tell(|| Moment::Noticed { doorbell }.on(Engine::Doorbells));
        if rung.found {
            self.found(doorbell.offset(), rung.value);
        }
        if !sleeps {
            return Heard::Ring;
        }
        match self.tools.at(|| Moment::Heard { doorbell }.on(Engine::Doorbells)) {
            Verdict::Lose => Heard::Lost,
            Verdict::Delay(until) => Heard::Late(until),
            _ => Heard::Ring,
        }
    }

    /// Counts a value that was stored without the device seeing it.
    fn found(&self, offset: DoorbellOffset, value: u64) {
        count(&self.counters.doorbells_polled);
        self.rung(offset, value, Way::Polled);
    }

    /// Takes a trapped write of 4 or 8 bytes at an aligned offset.
    pub(crate) fn trapped(&self, offset: DoorbellOffset, value: u64, len: usize) {
        count(&self.counters.doorbells_trapped);
        self.rung(offset, value, Way::Trapped);
        if let Some(unknown) = self.doorbells.store(offset, value, len) {
            self.found(offset.whole(), unknown);
        }
    }

    /// Takes the host's announcement that a doorbell was written `writes` times. Returns false if no queue listens to
    /// it.
    pub(crate) fn woken(&self, offset: DoorbellOffset, writes: u64) -> bool {
        self.counters.doorbells_woken.fetch_add(writes, Ordering::Relaxed);
        self.rung(offset, self.doorbells.load(offset), Way::Woken);
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
