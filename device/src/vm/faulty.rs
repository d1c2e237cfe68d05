//! Deliberate faults of an address space: TLBs that miss an invalidation, and memory whose errors cannot be
//! corrected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use belfry_isa::mem::Access;
use belfry_lock::{Mutex, MutexGuard, rank};

use super::Translation;

/// Most translations that are remembered: as many as a large TLB has.
const ENTRIES: usize = 4096;

/// Translations by their first address.
type Entries = BTreeMap<u64, Translation>;

/// The translations to VRAM that TLBs would keep if they missed an invalidation.
///
/// They serve loads and fetches only. VRAM lives as long as the device, so that an old translation reads
/// wrong bytes at worst. A translation to system memory could lead to pages that the host has taken back, and
/// a store could reach page tables.
#[derive(Debug, Default)]
pub(super) struct StaleTlb(Mutex<Kept, rank::StaleTlb>);

#[derive(Debug, Default)]
struct Kept {
    /// Translations of walks since the last invalidation.
    fresh: Entries,
    /// Translations from before an invalidation that the TLBs missed.
    stale: Entries,
}

impl StaleTlb {
    /// The translation of an address that has outlived an invalidation, if it allows the access.
    pub(super) fn get(&self, va: u64, access: Access) -> Option<Translation> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, translation) = kept.stale.range(..=va).next_back()?;
        let allows = match access {
            Access::Read => translation.readable,
            Access::Execute => translation.executable,
            Access::Write | Access::Atomic => false,
        };
        (allows && va - translation.va < translation.len).then_some(*translation)
    }

    /// Notes the result of a walk.
    pub(super) fn note(&self, translation: &Translation) {
        let fresh = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).fresh;
        if fresh.len() < ENTRIES {
            fresh.insert(translation.va, Translation { writable: false, ..*translation });
        }
    }

    /// Invalidates the TLBs, which either take the invalidation or miss it.
    pub(super) fn invalidate(&self, heard: bool) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = std::mem::take(&mut kept.fresh);
        kept.stale = if heard { Entries::new() } else { fresh };
    }
}

/// Numbers of the pages of VRAM with an error that cannot be corrected. The error stays in its page, so that each later read finds it, too.
#[derive(Debug, Default)]
pub(super) struct Poisoned(Mutex<BTreeSet<u64>, rank::StaleTlb>);

impl Poisoned {
    fn pages(&self) -> MutexGuard<'_, BTreeSet<u64>, rank::StaleTlb> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a page.
    pub(super) fn add(&self, page: u64) {
        let mut pages = self.pages();
        if pages.len() < ENTRIES {
            pages.insert(page);
        }
    }

    /// Returns true if a page is poisoned.
    pub(super) fn has(&self, page: u64) -> bool {
        self.pages().contains(&page)
    }

    /// Returns true if no page is.
    pub(super) fn is_empty(&self) -> bool {
        self.pages().is_empty()
    }

    /// Forgets all pages.
    pub(super) fn clear(&self) {
        self.pages().clear();
    }
}
