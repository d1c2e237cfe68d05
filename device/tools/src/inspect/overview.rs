//! Counters of the whole device.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Inspector;

/// The device at a glance. Rates are differences of two of these.
#[derive(Clone, Debug, Serialize)]
pub struct Overview {
    /// Name of the chip.
    pub chip: String,
    /// Compute units.
    pub compute_units: u32,
    /// Bytes of VRAM.
    pub vram: u64,
    /// Age of the device in nanoseconds.
    pub time: u64,
    /// Queues that are known, those of the kernel included.
    pub queues: usize,
    /// Kernel dispatches completed.
    pub dispatches: u64,
    /// Workgroups that have ended.
    pub workgroups: u64,
    /// Waves that have ended.
    pub waves: u64,
    /// Wave instructions executed.
    pub wave_instructions: u64,
    /// Translations that no TLB of the compute units had.
    pub tlb_misses: u64,
    /// Walks of page tables.
    pub page_walks: u64,
    /// Doorbells by the way in which they were noticed.
    pub doorbells: BTreeMap<&'static str, u64>,
    /// Entries written to the interrupt ring.
    pub ih_entries: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Resets of the function.
    pub resets: u64,
    /// Number of refusals of the device, by the name of the error.
    pub errors: BTreeMap<String, u64>,
}

impl Inspector<'_> {
    /// The device at a glance.
    #[must_use]
    pub fn overview(&self) -> Overview {
        let (stats, config) = (self.device.gpu().stats(), self.device.gpu().config());
        let doorbells = [
            ("trapped", stats.doorbells_trapped),
            ("woken", stats.doorbells_woken),
            ("polled", stats.doorbells_polled),
            ("unknown", stats.doorbells_unknown),
        ];
        Overview {
            chip: config.chip.name.to_owned(),
            compute_units: config.cus,
            vram: config.vram_size,
            time: u64::try_from(self.device.time().as_nanos()).unwrap_or(u64::MAX),
            queues: self.seen_queues().map_or(0, |queues| queues.len()),
            dispatches: stats.dispatches,
            workgroups: stats.workgroups,
            waves: stats.waves,
            wave_instructions: stats.wave_instructions,
            tlb_misses: stats.tlb_misses,
            page_walks: stats.page_walks,
            doorbells: doorbells.into_iter().collect(),
            ih_entries: stats.ih_entries,
            interrupts: stats.interrupts,
            resets: stats.resets,
            errors: stats.errors.iter().map(|(error, &count)| (error.to_string(), count)).collect(),
        }
    }
}
