//! Counters of the shader engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// What the engine has done since it was made.
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

/// Shared counters behind [`Statistics`], in cache lines of their own: all workers write them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counters {
    dispatches: AtomicU64,
    workgroups: AtomicU64,
    waves: AtomicU64,
    wave_instructions: AtomicU64,
    tlb_misses: AtomicU64,
    regions_lowered: AtomicU64,
    regions_shared: AtomicU64,
    /// When the first dispatch was counted.
    pub(super) first_dispatch: OnceLock<Instant>,
}

impl Counters {
    /// Adds a worker's own counts, which begin anew: once per turn.
    pub(super) fn add(&self, local: &mut Statistics) {
        let local = std::mem::take(local);
        if local.dispatches > 0 {
            self.first_dispatch.get_or_init(Instant::now);
        }
        for (counter, more) in self.beside(local) {
            // Others count here at the same time, which is not asked for without need.
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// Counts on from there.
    pub(super) fn restore(&self, from: Statistics) {
        for (counter, value) in self.beside(from) {
            counter.store(value, Ordering::Relaxed);
        }
    }

    /// Each counter, and what these have of it.
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

    pub(super) fn get(&self) -> Statistics {
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
