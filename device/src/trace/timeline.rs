//! One timeline of the GPUs of a machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use belfry_isa::exec::Step;

use super::{Record, TraceSink, WaveId};

/// One timeline of several GPUs: that of the one which begins first. Each GPU's own time begins with it.
#[derive(Clone, Debug)]
pub struct Timeline(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    next: Arc<dyn TraceSink>,
    /// Beginning of the first GPU's time, by the source of time that all have.
    first: OnceLock<Duration>,
}

/// A sink for the events of one of them.
#[derive(Debug)]
struct OfGpu {
    number: u16,
    shared: Arc<Shared>,
    /// Nanoseconds by which its time begins later than the first one's.
    later: AtomicU64,
}

impl Timeline {
    /// A timeline whose events go to `next`.
    #[must_use]
    pub fn new(next: Arc<dyn TraceSink>) -> Self {
        Self(Arc::new(Shared { next, first: OnceLock::new() }))
    }

    /// Returns the sink for the events of the GPU with this number.
    #[must_use]
    pub fn of_gpu(&self, number: u8) -> Arc<dyn TraceSink> {
        Arc::new(OfGpu { number: number.into(), shared: Arc::clone(&self.0), later: AtomicU64::new(0) })
    }
}

impl TraceSink for OfGpu {
    fn begins(&self, start: Duration) {
        let first = *self.shared.first.get_or_init(|| start);
        let later = start.saturating_sub(first).as_nanos();
        self.later.store(u64::try_from(later).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn record(&self, record: &Record) {
        let mut record = record.clone();
        record.owner.gpu = self.number;
        record.time = record.time.saturating_add(self.later.load(Ordering::Relaxed));
        self.shared.next.record(&record);
    }

    fn wants_waves(&self) -> bool {
        self.shared.next.wants_waves()
    }

    fn wants_wave(&self, wave: &WaveId) -> bool {
        self.shared.next.wants_wave(wave)
    }

    fn instruction(&self, wave: &WaveId, step: &Step<'_>) {
        self.shared.next.instruction(wave, step);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::{Engine, Owner, TraceEvent, Tracer};
    use super::*;
    use crate::time::{Clock, TimeSource};

    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<(u16, u64)>>);

    impl TraceSink for Kept {
        fn record(&self, record: &Record) {
            self.0.lock().expect("no panic").push((record.owner.gpu, record.time));
        }
    }

    #[test]
    fn events_of_gpus_that_begin_later_have_the_time_of_the_first() {
        let time = TimeSource::manual();
        let kept = Arc::new(Kept::default());
        let timeline = Timeline::new(Arc::clone(&kept) as Arc<dyn TraceSink>);
        time.advance(Duration::from_nanos(1000));
        let mut tracers = Vec::new();
        for number in 0..3 {
            tracers.push(Tracer::new(Some(timeline.of_gpu(number)), &Clock::new(&time)));
            time.advance(Duration::from_nanos(50));
        }
        for tracer in &tracers {
            tracer.event(Owner::of(Engine::Device), TraceEvent::Reset);
        }
        assert_eq!(*kept.0.lock().expect("no panic"), [(0, 150), (1, 150), (2, 150)]);
        assert_eq!(tracers[2].time(), Some(Duration::from_nanos(50)), "each has a time of its own");
    }
}
