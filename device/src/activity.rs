//! The time during which waves are executed.
#![expect(unsafe_code, reason = "asks for the time that all processes of a machine have in common")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds of a tick of the [performance counters](Activity::busy_ticks).
const TICK_NS: u64 = 10;
/// Bits of [`Busy::state`] that count threads.
const COUNT: u64 = 0xffff;
/// Nanoseconds of a unit of the time in the other bits of [`Busy::state`].
const UNIT_NS: u64 = 16;
/// Units after which the time of threads that take turns without a pause is added to the total, as a process
/// may end at any time.
const FOLD: u64 = 10_000_000 / UNIT_NS;

/// Time that one device has executed waves. All zeros are a device that has executed nothing.
///
/// The counts may be in memory that other processes see: they read it while it changes.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Busy {
    /// Number of threads that execute waves in bits 15:0; above, the time since which there is any, in units
    /// of the machine's monotonic clock.
    state: AtomicU64,
    /// Nanoseconds during which any thread executed waves, except since that time.
    total_ns: AtomicU64,
}

impl Busy {
    /// Begins a device that executes nothing; time of an earlier device stays counted.
    pub fn begin_anew(&self) {
        self.state.store(0, Ordering::Release);
    }

    /// Begins a device that executes nothing, with no time counted.
    pub fn clear(&self) {
        self.begin_anew();
        self.total_ns.store(0, Ordering::Release);
    }

    /// Returns true if a thread executes waves.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.state.load(Ordering::Relaxed) & COUNT != 0
    }

    /// Nanoseconds during which waves were executed. For a device that is gone (`counts_now` is false), its
    /// last, unfinished time is left out.
    #[must_use]
    pub fn total_ns(&self, counts_now: bool) -> u64 {
        loop {
            let state = self.state.load(Ordering::Acquire);
            let total = self.total_ns.load(Ordering::Acquire);
            if self.state.load(Ordering::Acquire) == state {
                let since = if counts_now && state & COUNT != 0 { units_since(state) * UNIT_NS } else { 0 };
                return total.saturating_add(since);
            }
            std::hint::spin_loop();
        }
    }

    fn enter(&self) {
        let next = |state: u64| Some(if state & COUNT == 0 { units() << 16 | 1 } else { state + 1 });
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
    }

    fn leave(&self) {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let since = units_since(state);
            let (next, passed) = match state & COUNT {
                // Another thread has begun anew in the meantime.
                0 => return,
                1 => (0, since),
                count if since >= FOLD => (units() << 16 | (count - 1), since),
                _ => (state - 1, 0),
            };
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    if passed > 0 {
                        self.total_ns.fetch_add(passed * UNIT_NS, Ordering::Release);
                    }
                    return;
                }
                Err(now) => state = now,
            }
        }
    }
}

/// The machine's monotonic clock in units; its upper 16 bits are lost in [`Busy::state`].
fn units() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is the call's to fill.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64) / UNIT_NS
}

/// Units from the time in a state until now.
fn units_since(state: u64) -> u64 {
    const TIME: u64 = u64::MAX >> 16;
    let passed = (units() & TIME).wrapping_sub(state >> 16) & TIME;
    // Another processor's clock may be a little ahead.
    if passed > TIME / 2 { 0 } else { passed }
}

/// The other devices of a card that a host shows as one.
pub trait WholeCard: Send + Sync {
    /// Returns true if another device of the card executes waves.
    fn others_are_busy(&self) -> bool;

    /// Nanoseconds during which the other devices have executed waves, together.
    fn others_ns(&self) -> u64;

    /// Bytes of VRAM and of system memory that the drivers of the other devices have allocated, together.
    fn others_memory(&self) -> (u64, u64);
}

/// Counts the threads that execute waves, and the time during which there are any.
#[derive(Clone)]
pub struct Activity {
    own: Place,
    card: Option<Arc<dyn WholeCard>>,
}

#[derive(Clone)]
enum Place {
    Own(Arc<Busy>),
    Shared(&'static Busy),
}

impl std::fmt::Debug for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Activity").field("busy", self.busy()).finish_non_exhaustive()
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self { own: Place::Own(Arc::default()), card: None }
    }
}

impl Activity {
    /// Counts in `busy`, which belongs to one device alone; the device's registers show the activity of the
    /// whole card.
    #[must_use]
    pub fn shared(busy: &'static Busy, card: Option<Arc<dyn WholeCard>>) -> Self {
        Self { own: Place::Shared(busy), card }
    }

    fn busy(&self) -> &Busy {
        match &self.own {
            Place::Own(busy) => busy,
            Place::Shared(busy) => busy,
        }
    }

    /// Returns true if a thread of the card executes waves.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy().is_busy() || self.card.as_ref().is_some_and(|card| card.others_are_busy())
    }

    /// Ticks of 10 ns, like those of the golden counter, during which the card has executed waves. If several
    /// devices did at once, the time counts for each.
    #[must_use]
    pub fn busy_ticks(&self) -> u64 {
        let others = self.card.as_ref().map_or(0, |card| card.others_ns());
        self.busy().total_ns(true).saturating_add(others) / TICK_NS
    }

    /// Bytes of VRAM and of system memory that the drivers of the card's other devices have allocated.
    #[must_use]
    pub fn others_memory(&self) -> (u64, u64) {
        self.card.as_ref().map_or((0, 0), |card| card.others_memory())
    }

    /// Notes that a thread executes waves, until the guard is dropped.
    pub(crate) fn begin(&self) -> Executing<'_> {
        self.busy().enter();
        Executing(self)
    }
}

/// A thread that executes waves.
pub(crate) struct Executing<'a>(&'a Activity);

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        self.0.busy().leave();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn busy_is_from_the_first_thread_to_the_last() {
        static BUSY: Busy = Busy { state: AtomicU64::new(0), total_ns: AtomicU64::new(0) };
        for activity in [Activity::default(), Activity::shared(&BUSY, None)] {
            assert!(!activity.is_busy());
            let first = activity.begin();
            let second = activity.begin();
            drop(first);
            assert!(activity.clone().is_busy());
            drop(second);
            assert!(!activity.is_busy());
        }
    }

    #[test]
    fn time_of_threads_that_overlap_counts_once_and_idle_time_not() {
        let activity = Activity::default();
        let start = Instant::now();
        let first = activity.begin();
        std::thread::sleep(Duration::from_millis(15));
        let second = activity.begin();
        drop(first);
        // Added in between, as more than 10 ms have passed: it is counted although a thread goes on.
        assert!(activity.busy().total_ns(false) >= 10_000_000);
        let meanwhile = activity.busy_ticks();
        std::thread::sleep(Duration::from_millis(2));
        assert!(activity.busy_ticks() > meanwhile);
        drop(second);
        let elapsed = start.elapsed().as_nanos() as u64;
        let counted = activity.busy_ticks() * TICK_NS;
        assert!((15_000_000..=elapsed).contains(&counted), "{counted} of {elapsed}");
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(activity.busy_ticks() * TICK_NS, counted);
    }

    #[test]
    fn device_that_begins_anew_keeps_what_was_counted_and_is_idle() {
        let busy = Busy::default();
        busy.enter();
        std::thread::sleep(Duration::from_millis(1));
        busy.leave();
        busy.enter();
        let counted = busy.total_ns(false);
        assert!(counted >= 1_000_000);
        busy.begin_anew();
        assert!(!busy.is_busy());
        assert_eq!(busy.total_ns(true), counted);
        // A thread of the earlier device.
        busy.leave();
        assert!(!busy.is_busy());
    }

    #[test]
    fn card_is_busy_while_another_of_its_devices_is() {
        struct Others;
        impl WholeCard for Others {
            fn others_are_busy(&self) -> bool {
                true
            }
            fn others_ns(&self) -> u64 {
                1230
            }
            fn others_memory(&self) -> (u64, u64) {
                (1, 2)
            }
        }
        static BUSY: Busy = Busy { state: AtomicU64::new(0), total_ns: AtomicU64::new(0) };
        let activity = Activity::shared(&BUSY, Some(Arc::new(Others)));
        assert!(activity.is_busy() && !BUSY.is_busy());
        assert_eq!((activity.busy_ticks(), activity.others_memory()), (123, (1, 2)));
    }
}
