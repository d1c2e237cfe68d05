//! Counters of the device's work.

mod save;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_isa::code_store::KeptCounts;
use belfry_lock::{Mutex, rank};

use crate::guest_error::GuestError;
use crate::moments::Moment;
use crate::tools::Tools;
use crate::trace::Engine;
pub(crate) use save::SavedCounters;

/// A snapshot of the counters since the device was made; resets do not clear them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Doorbell writes that reached the device as accesses.
    pub doorbells_trapped: u64,
    /// Doorbell writes the host announced without their value.
    pub doorbells_woken: u64,
    /// Doorbells found changed in the page without an access.
    pub doorbells_polled: u64,
    /// Doorbell writes to offsets no queue owns.
    pub doorbells_unknown: u64,
    /// Pages reported to the driver because waves wait for them.
    pub retry_faults: u64,
    /// Register reads.
    pub register_reads: u64,
    /// Register writes.
    pub register_writes: u64,
    /// MES frames answered.
    pub mes_frames: u64,
    /// MES frames refused, whose fence was not written.
    pub mes_refused: u64,
    /// Passes of the device's thread over its queues.
    pub runner_passes: u64,
    /// Queues the MES mapped (again).
    pub queues_mapped: u64,
    /// Queues taken off their slot to make room.
    pub queues_preempted: u64,
    /// Entries written to the interrupt ring.
    pub ih_entries: u64,
    /// Entries lost because the interrupt ring was off, full or unreachable.
    pub ih_lost: u64,
    /// Vectors raised at the host.
    pub interrupts: u64,
    /// Resets of the function.
    pub resets: u64,
    /// Kernel dispatches completed.
    pub dispatches: u64,
    /// Workgroups run.
    pub workgroups: u64,
    /// Waves run.
    pub waves: u64,
    /// Wave instructions executed.
    pub wave_instructions: u64,
    /// Translations that no TLB of the compute units had.
    pub tlb_misses: u64,
    /// Page table walks.
    pub page_walks: u64,
    /// Regions whose compiled code is kept, if any is, by their fate: of all devices that share one store.
    pub kept_code: Option<KeptCounts>,
    /// Named errors a guest caused, with their numbers: malformed frames, refused queues, faults.
    pub errors: BTreeMap<GuestError, u64>,
    /// Details of each error's first case, in words; those of a snapshot are not restored.
    pub reasons: BTreeMap<GuestError, String>,
}

impl Stats {
    /// Adds the counters of another device. Kept code is that of one store, which all devices of a process share.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let mut errors = self.errors;
        for (error, count) in other.errors {
            *errors.entry(error).or_default() += count;
        }
        let mut reasons = other.reasons;
        reasons.extend(self.reasons);
        Self {
            doorbells_trapped: self.doorbells_trapped + other.doorbells_trapped,
            doorbells_woken: self.doorbells_woken + other.doorbells_woken,
            doorbells_polled: self.doorbells_polled + other.doorbells_polled,
            doorbells_unknown: self.doorbells_unknown + other.doorbells_unknown,
            retry_faults: self.retry_faults + other.retry_faults,
            register_reads: self.register_reads + other.register_reads,
            register_writes: self.register_writes + other.register_writes,
            mes_frames: self.mes_frames + other.mes_frames,
            mes_refused: self.mes_refused + other.mes_refused,
            runner_passes: self.runner_passes + other.runner_passes,
            queues_mapped: self.queues_mapped + other.queues_mapped,
            queues_preempted: self.queues_preempted + other.queues_preempted,
            ih_entries: self.ih_entries + other.ih_entries,
            ih_lost: self.ih_lost + other.ih_lost,
            interrupts: self.interrupts + other.interrupts,
            resets: self.resets + other.resets,
            dispatches: self.dispatches + other.dispatches,
            workgroups: self.workgroups + other.workgroups,
            waves: self.waves + other.waves,
            wave_instructions: self.wave_instructions + other.wave_instructions,
            tlb_misses: self.tlb_misses + other.tlb_misses,
            page_walks: self.page_walks + other.page_walks,
            kept_code: self.kept_code.or(other.kept_code),
            errors,
            reasons,
        }
    }
}

/// The live counters of the front end.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) doorbells_trapped: AtomicU64,
    pub(crate) doorbells_woken: AtomicU64,
    pub(crate) doorbells_polled: AtomicU64,
    pub(crate) doorbells_unknown: AtomicU64,
    pub(crate) retry_faults: AtomicU64,
    pub(crate) register_reads: AtomicU64,
    pub(crate) register_writes: AtomicU64,
    pub(crate) mes_frames: AtomicU64,
    pub(crate) mes_refused: AtomicU64,
    pub(crate) runner_passes: AtomicU64,
    pub(crate) queues_mapped: AtomicU64,
    pub(crate) queues_preempted: AtomicU64,
    pub(crate) ih_entries: AtomicU64,
    pub(crate) ih_lost: AtomicU64,
    pub(crate) interrupts: AtomicU64,
    pub(crate) resets: AtomicU64,
    errors: Mutex<BTreeMap<GuestError, u64>, rank::Counters>,
    reasons: Mutex<BTreeMap<GuestError, String>, rank::Counters>,
    unmodelled: Mutex<BTreeMap<Cow<'static, str>, u64>, rank::Counters>,
    tools: Tools,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Most characters of an error's details that are kept: a guest may have chosen them.
const REASON: usize = 400;

/// Counts and logs; returns the number of times that the name was counted.
fn tally<N: Clone + Ord + std::fmt::Display>(
    counts: &Mutex<BTreeMap<N, u64>, rank::Counters>,
    name: &N,
    details: std::fmt::Arguments<'_>,
) -> u64 {
    let seen = {
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = counts.entry(name.clone()).or_insert(0);
        *seen += 1;
        *seen
    };
    if seen <= 8 || seen.is_power_of_two() {
        log::warn!(target: "gpu", "{name}: {details} (seen {seen} times)");
    }
    seen
}

impl Counters {
    /// Counters that are all zero; the tools hear of refusals.
    pub(crate) fn new(tools: Tools) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Counts a named error, and logs it the first few times and then more and more rarely. Keeps the details
    /// of the first.
    pub(crate) fn error(&self, error: GuestError, details: std::fmt::Arguments<'_>) {
        self.tools.tell(|| Moment::Refused { error, details }.on(Engine::Device));
        if tally(&self.errors, &error, details) == 1 {
            let reason = details.to_string().chars().take(REASON).collect();
            self.reasons.lock().unwrap_or_else(PoisonError::into_inner).insert(error, reason);
        }
    }

    /// Tells the tools of an error without counting it, for a case that hardware handles in its own way.
    pub(crate) fn tell(&self, error: GuestError, details: std::fmt::Arguments<'_>) {
        self.tools.tell(|| Moment::Handled { error, details }.on(Engine::Device));
    }

    /// Counts and logs a field of a request that is answered without doing what the field asks.
    pub(crate) fn unmodelled(&self, name: &'static str, details: std::fmt::Arguments<'_>) {
        self.tools.tell(|| Moment::Unmodelled { name, details }.on(Engine::Device));
        tally(&self.unmodelled, &Cow::Borrowed(name), details);
    }

    /// Counts and logs an operation of the instruction set that has no semantics.
    pub(crate) fn unmodelled_operation(&self, operation: &str, details: std::fmt::Arguments<'_>) {
        tally(&self.unmodelled, &Cow::Owned(format!("instruction {operation}")), details);
    }

    /// The fields and operations that were asked for and are not modelled, with their counts.
    pub(crate) fn unmodelled_fields(&self) -> BTreeMap<Cow<'static, str>, u64> {
        self.unmodelled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Copies the front end's counters into a snapshot.
    pub(crate) fn fill(&self, stats: &mut Stats) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.doorbells_trapped = get(&self.doorbells_trapped);
        stats.doorbells_woken = get(&self.doorbells_woken);
        stats.doorbells_polled = get(&self.doorbells_polled);
        stats.doorbells_unknown = get(&self.doorbells_unknown);
        stats.retry_faults = get(&self.retry_faults);
        stats.register_reads = get(&self.register_reads);
        stats.register_writes = get(&self.register_writes);
        stats.mes_frames = get(&self.mes_frames);
        stats.mes_refused = get(&self.mes_refused);
        stats.runner_passes = get(&self.runner_passes);
        stats.queues_mapped = get(&self.queues_mapped);
        stats.queues_preempted = get(&self.queues_preempted);
        stats.ih_entries = get(&self.ih_entries);
        stats.ih_lost = get(&self.ih_lost);
        stats.interrupts = get(&self.interrupts);
        stats.resets = get(&self.resets);
        stats.errors.clone_from(&self.errors.lock().unwrap_or_else(PoisonError::into_inner));
        stats.reasons.clone_from(&self.reasons.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
