//! Source of a device's time, and the counter that shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::threads::Wake;

/// Nanoseconds of a tick of the golden counter, which counts at 100 MHz.
const TICK_NS: u32 = 10;
/// Ticks of a second.
const TICKS_OF_SECOND: u64 = 100_000_000;

/// The time of a device, and of a driver in the same process.
///
/// Clones are one source. Waits that only spare the host's processor, like the pauses between looks at
/// doorbells, always use the host's clock.
#[derive(Debug, Clone)]
pub struct TimeSource(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// The host's clock, times a factor.
    Host {
        start: Instant,
        factor: f64,
    },
    Manual(Arc<Manual>),
    /// A manual time that the device itself moves with the host's clock: [`TimeSource::recorded`].
    Recorded(Arc<Manual>),
}

/// A time that stands still until it is moved.
#[derive(Debug, Default)]
struct Manual {
    now_ns: AtomicU64,
    /// Number of times that it was moved.
    moves: AtomicU64,
    /// Threads that wait for a point in this time.
    waiting: Mutex<Vec<Weak<Wake>>>,
    /// Counts [`TimeSource::pause`].
    pauses: Mutex<u64>,
    paused: Condvar,
}

impl Default for TimeSource {
    fn default() -> Self {
        Self::scaled(1.0)
    }
}

impl TimeSource {
    /// The host's monotonic clock, `factor` times as fast: 10 turns a second of the host's into ten.
    ///
    /// # Panics
    ///
    /// If `factor` is not a positive, finite number.
    #[must_use]
    pub fn scaled(factor: f64) -> Self {
        assert!(factor.is_finite() && factor > 0.0, "time cannot pass {factor} times as fast");
        Self(Kind::Host { start: Instant::now(), factor })
    }

    /// A time that only [`advance`](Self::advance) moves, for tests: no timeout expires because a machine is slow, and a test
    /// that expects one does not wait for it.
    #[must_use]
    pub fn manual() -> Self {
        Self(Kind::Manual(Arc::default()))
    }

    /// The time of a device that is recorded or replayed: it moves only between two operations, and passes as
    /// the host's does.
    pub(crate) fn recorded() -> Self {
        Self(Kind::Recorded(Arc::default()))
    }

    /// Returns true if this is the host's clock, unchanged.
    #[must_use]
    pub fn is_real(&self) -> bool {
        matches!(self.0, Kind::Host { factor, .. } if factor.to_bits() == 1f64.to_bits())
    }

    /// The time since the source was made.
    #[must_use]
    pub fn now(&self) -> Duration {
        match &self.0 {
            Kind::Host { start, factor } => scale(start.elapsed(), *factor),
            Kind::Manual(manual) | Kind::Recorded(manual) => {
                Duration::from_nanos(manual.now_ns.load(Ordering::Acquire))
            }
        }
    }

    /// Time that the host has to wait for `left` to pass here; `None` if the host's clock does not decide
    /// that.
    #[must_use]
    pub fn on_host(&self, left: Duration) -> Option<Duration> {
        match self.0 {
            Kind::Host { factor, .. } => Some(scale(left, 1.0 / factor)),
            Kind::Manual(_) => None,
            Kind::Recorded(_) => Some(left),
        }
    }

    /// Moves a manual time on, and wakes the threads that wait for a point in it; does nothing to others.
    pub fn advance(&self, by: Duration) {
        let (Kind::Manual(manual) | Kind::Recorded(manual)) = &self.0 else { return };
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        manual.moves.fetch_add(1, Ordering::AcqRel);
        let _ = manual
            .now_ns
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| Some(now.saturating_add(by)));
        let mut waiting = lock(&manual.waiting);
        waiting.retain(|wake| wake.upgrade().inspect(|wake| wake.wake()).is_some());
    }

    /// Number of moves of the time of a recorded or replayed device: one for each of its operations.
    pub(crate) fn moves(&self) -> Option<u64> {
        let Kind::Recorded(manual) = &self.0 else { return None };
        Some(manual.moves.load(Ordering::Acquire))
    }

    /// Pauses the calling thread, which polls, for `pause` of this time. A manual time does not pass by
    /// itself: then for `pause` of the host's time.
    pub fn pause(&self, pause: Duration) {
        if let Kind::Manual(manual) = &self.0 {
            *lock(&manual.pauses) += 1;
            manual.paused.notify_all();
        }
        std::thread::sleep(self.on_host(pause).unwrap_or(pause));
    }

    /// Waits until threads have paused `pauses` times from now on. A driver that polls a device which does not answer pauses
    /// again and again; a test can then [`advance`](Self::advance) the time beyond the driver's timeout. Returns at once
    /// unless the time is manual.
    pub fn wait_for_pauses(&self, pauses: u64) {
        let Kind::Manual(manual) = &self.0 else { return };
        let mut count = lock(&manual.pauses);
        let until = count.saturating_add(pauses);
        while *count < until {
            count = manual.paused.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Makes a manual time wake a thread whenever it is moved.
    pub(crate) fn wakes(&self, wake: &Arc<Wake>) {
        if let Kind::Manual(manual) = &self.0 {
            lock(&manual.waiting).push(Arc::downgrade(wake));
        }
    }
}

fn scale(time: Duration, factor: f64) -> Duration {
    if factor.to_bits() == 1f64.to_bits() {
        return time;
    }
    Duration::try_from_secs_f64(time.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// Whole ticks in a time. A second is a whole number of ticks, so that no 128-bit division is needed.
fn ticks_in(time: Duration) -> u64 {
    time.as_secs().saturating_mul(TICKS_OF_SECOND).saturating_add((time.subsec_nanos() / TICK_NS).into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The clock of one device: its golden counter, which starts at 1 when the device does. A counter that reads 0 would look
/// like a stopped one.
#[derive(Debug, Clone)]
pub struct Clock {
    source: TimeSource,
    start: Duration,
    /// Time of the device at the start: none, unless it goes on from a snapshot.
    before: Duration,
    /// Ticks by which the counter is ahead of the device's time, as it has jumped on purpose.
    ahead: Arc<AtomicU64>,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn new(source: &TimeSource) -> Self {
        Self::at(source, Duration::ZERO, 0)
    }

    /// A clock that goes on from a time, with a counter that is `ahead` ticks ahead of it.
    pub(crate) fn at(source: &TimeSource, before: Duration, ahead: u64) -> Self {
        Self { source: source.clone(), start: source.now(), before, ahead: Arc::new(AtomicU64::new(ahead)) }
    }

    /// Ticks of 10 ns.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        ticks_in(self.now()).wrapping_add(1).wrapping_add(self.ahead())
    }

    /// Ticks by which the counter is ahead of the device's time.
    pub(crate) fn ahead(&self) -> u64 {
        self.ahead.load(Ordering::Relaxed)
    }

    /// Makes the counter jump forward, and not the device's time: delays, turns and traces use that time.
    pub(crate) fn jump(&self, by: Duration) {
        self.ahead.fetch_add(ticks_in(by), Ordering::Relaxed);
    }

    /// The time at which the device's time was none, by its source.
    pub(crate) fn start(&self) -> Duration {
        self.start.saturating_sub(self.before)
    }

    /// The time since the device started.
    pub(crate) fn now(&self) -> Duration {
        self.source.now().saturating_sub(self.start).saturating_add(self.before)
    }

    /// The source's [`TimeSource::moves`].
    pub(crate) fn moves(&self) -> Option<u64> {
        self.source.moves()
    }

    /// The source's [`TimeSource::on_host`].
    pub(crate) fn on_host(&self, left: Duration) -> Option<Duration> {
        self.source.on_host(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_moves_when_it_is_moved() {
        let time = TimeSource::manual();
        let clock = Clock::new(&time);
        assert_eq!((time.now(), clock.ticks()), (Duration::ZERO, 1));
        time.advance(Duration::from_micros(1));
        assert_eq!((clock.now(), clock.ticks()), (Duration::from_micros(1), 101));
        assert_eq!(Clock::new(&time).ticks(), 1, "a device's counter starts with the device");
        assert_eq!(Clock::at(&time, clock.now(), 7).ticks(), 108, "or where it was");
        let other = clock.clone();
        other.jump(Duration::from_micros(2));
        assert_eq!((clock.now(), clock.ticks(), clock.ahead()), (Duration::from_micros(1), 301, 200));
        time.advance(Duration::MAX);
        assert_eq!(time.now(), Duration::from_nanos(u64::MAX), "it stops at its end");
        assert_eq!(time.on_host(Duration::from_secs(1)), None);
    }

    #[test]
    fn moving_a_manual_time_wakes_who_waits_for_it() {
        let time = TimeSource::manual();
        let wake = Arc::new(Wake::default());
        time.wakes(&wake);
        assert!(!wake.is_woken());
        time.clone().advance(Duration::from_secs(1));
        assert!(wake.is_woken());
        drop(wake);
        time.advance(Duration::from_secs(1));
    }

    #[test]
    fn scaled_time_passes_as_many_times_as_fast() {
        let (time, real) = (TimeSource::scaled(1000.0), TimeSource::default());
        assert_eq!(time.on_host(Duration::from_secs(10)), Some(Duration::from_millis(10)));
        assert_eq!(real.on_host(Duration::from_secs(10)), Some(Duration::from_secs(10)));
        assert!(real.is_real() && !time.is_real());
        let before = (real.now(), time.now());
        time.pause(Duration::from_secs(2));
        // The pause took two milliseconds at least, which are two seconds.
        assert!(time.now() - before.1 >= Duration::from_secs(2));
        assert!(real.now() - before.0 >= Duration::from_millis(2));
    }
}
