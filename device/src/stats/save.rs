//! The counters as plain values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::Counters;
use crate::guest_error::GuestError;
use crate::save::{Broken, check, count, counter};

/// Most fields and operations without a model, and the longest of their names in bytes: there are a few dozen
/// short names of fields, and the operations of an instruction set.
const FIELDS: (usize, usize) = (4096, 256);

/// Counters, without the passes of the device's thread, which depend more on the host than on the device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedCounters {
    counters: [u64; 15],
    /// Errors by name.
    errors: BTreeMap<String, u64>,
    unmodelled: BTreeMap<String, u64>,
}

impl Counters {
    fn counted(&self) -> [&AtomicU64; 15] {
        [
            &self.doorbells_trapped,
            &self.doorbells_woken,
            &self.doorbells_polled,
            &self.doorbells_unknown,
            &self.retry_faults,
            &self.register_reads,
            &self.register_writes,
            &self.mes_frames,
            &self.mes_refused,
            &self.queues_mapped,
            &self.queues_preempted,
            &self.ih_entries,
            &self.ih_lost,
            &self.interrupts,
            &self.resets,
        ]
    }

    /// All counters.
    pub(crate) fn save(&self) -> SavedCounters {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let errors = errors.into_iter().map(|(error, count)| (error.name().to_owned(), count)).collect();
        SavedCounters {
            counters: self.counted().map(|counter| counter.load(Ordering::Relaxed)),
            errors,
            unmodelled: self
                .unmodelled_fields()
                .into_iter()
                .map(|(name, count)| (name.into_owned(), count))
                .collect(),
        }
    }

    /// Continues from the values of another device.
    pub(crate) fn restore(&self, saved: &SavedCounters) -> Result<(), Broken> {
        let mut errors = BTreeMap::new();
        for (at, (name, &seen)) in (0u64..).zip(&saved.errors) {
            let known = GuestError::ALL.iter().find(|error| error.name() == name);
            let known = known.ok_or(Broken { field: "position of an unknown error", value: at })?;
            errors.insert(*known, counter("count of an error", seen)?);
        }
        count("fields without a model", saved.unmodelled.len(), saved.unmodelled.len() <= FIELDS.0)?;
        let mut unmodelled = BTreeMap::new();
        for (name, &seen) in &saved.unmodelled {
            let length = name.len() as u64;
            check("length of the name of a field without a model", length, name.len() <= FIELDS.1)?;
            unmodelled.insert(Cow::Owned(name.clone()), counter("count of a field without a model", seen)?);
        }
        for (to, &value) in self.counted().into_iter().zip(&saved.counters) {
            to.store(value, Ordering::Relaxed);
        }
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner) = errors;
        *self.unmodelled.lock().unwrap_or_else(PoisonError::into_inner) = unmodelled;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats;

    #[test]
    fn counters_go_through_bytes_and_count_on() {
        let original = Counters::default();
        stats::count(&original.resets);
        original.error(GuestError::PageFault, format_args!("test"));
        original.unmodelled("a field", format_args!("test"));
        let bytes = postcard::to_allocvec(&original.save()).expect("plain values");
        let read: SavedCounters = postcard::from_bytes(&bytes).expect("the same values");
        let restored = Counters::default();
        restored.restore(&read).expect("counters");
        assert_eq!(restored.save(), original.save());
        restored.unmodelled("a field", format_args!("test"));
        assert_eq!(restored.unmodelled_fields().get("a field"), Some(&2));
        let mut other = original.save();
        other.errors.insert("no such error".into(), 1);
        assert_eq!(restored.restore(&other).expect_err("unknown").field, "position of an unknown error");
    }
}
