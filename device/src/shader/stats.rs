//! Counters of the shader engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Work that the engine has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Statistics {
    /// Dispatches completed.
    pub dispatches: u64,
    /// Workgroups completed.
    pub workgroups: u64,
    /// Waves completed.
    pub waves: u64,
    /// Instructions executed by waves; waits, hints and nops do not count.
    pub wave_instructions: u64,
    /// Translations that no TLB of a worker had; a device that goes on from a snapshot has empty ones.
    #[serde(skip)]
    pub tlb_misses: u64,
    /// Regions of code decoded and lowered; a device that goes on from a snapshot lowers again.
    #[serde(skip)]
    pub regions_lowered: u64,
    /// Regions a worker began to use that had been lowered before.
    #[serde(skip)]
    pub regions_shared: u64,
}

/// Counters of the engine. Each worker has its own; [`Statistics`] are their sums.
#[derive(Debug)]
pub(super) struct Counters {
    of_workers: Box<[WorkerCounters]>,
    /// Time at which the first dispatch was counted.
    pub(super) first_dispatch: OnceLock<Instant>,
}

/// Counts of one worker, in cache lines of its own because it writes them all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct WorkerCounters {
    dispatches: AtomicU64,
    workgroups: AtomicU64,
    waves: AtomicU64,
    wave_instructions: AtomicU64,
    tlb_misses: AtomicU64,
    regions_lowered: AtomicU64,
    regions_shared: AtomicU64,
}

impl Counters {
    /// Makes counters of this many workers.
    pub(super) fn new(workers: usize) -> Self {
        let of_workers = (0..workers).map(|_| WorkerCounters::default()).collect();
        Self { of_workers, first_dispatch: OnceLock::new() }
    }

    /// Adds a worker's own counts, once per turn, and sets `local` to 0. Only the caller uses the worker of this
    /// number.
    pub(super) fn add(&self, worker: u32, local: &mut Statistics) {
        let local = std::mem::take(local);
        if local.dispatches > 0 {
            self.first_dispatch.get_or_init(Instant::now);
        }
        let Some(counters) = self.of_workers.get(worker as usize) else { return };
        for (counter, more) in counters.beside(local) {
            // No other thread adds to these counters: the worker's user finds the last stored values. An atomic
            // exchange would take longer.
            if more > 0 {
                counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
            }
        }
    }

    /// Sets the counters, which count on from there. No worker counts meanwhile.
    pub(super) fn restore(&self, from: Statistics) {
        let rest = std::iter::repeat(Statistics::default());
        for (counters, from) in self.of_workers.iter().zip(std::iter::once(from).chain(rest)) {
            for (counter, value) in counters.beside(from) {
                counter.store(value, Ordering::Relaxed);
            }
        }
    }

    /// Returns the sums of all workers' counts.
    pub(super) fn get(&self) -> Statistics {
        self.of_workers.iter().fold(Statistics::default(), |sum, counters| {
            let own = counters.get();
            Statistics {
                dispatches: sum.dispatches + own.dispatches,
                workgroups: sum.workgroups + own.workgroups,
                waves: sum.waves + own.waves,
                wave_instructions: sum.wave_instructions + own.wave_instructions,
                tlb_misses: sum.tlb_misses + own.tlb_misses,
                regions_lowered: sum.regions_lowered + own.regions_lowered,
                regions_shared: sum.regions_shared + own.regions_shared,
            }
        })
    }
}

impl WorkerCounters {
    /// Pairs each counter with the value of it in `of`.
    #[inline(always)]
    fn beside(&self, of: Statistics) -> [(&AtomicU64, u64); 7] {
        [
            (&self.dispatches, of.dispatches),
            (&self.workgroups, of.workgroups),
            (&self.waves, of.waves),
            (&self.wave_instructions, of.wave_instructions),
            (&self.tlb_misses, of.tlb_misses),
            (&self.regions_lowered, of.regions_lowered),
            (&self.regions_shared, of.regions_shared),
        ]
    }

    fn get(&self) -> Statistics {
        Statistics {
            dispatches: self.dispatches.load(Ordering::Relaxed),
            workgroups: self.workgroups.load(Ordering::Relaxed),
            waves: self.waves.load(Ordering::Relaxed),
            wave_instructions: self.wave_instructions.load(Ordering::Relaxed),
            tlb_misses: self.tlb_misses.load(Ordering::Relaxed),
            regions_lowered: self.regions_lowered.load(Ordering::Relaxed),
            regions_shared: self.regions_shared.load(Ordering::Relaxed),
        }
    }
}
