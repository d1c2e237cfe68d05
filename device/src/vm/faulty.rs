//! Deliberate faults of an address space: TLBs that miss an invalidation, and memory whose errors cannot be
//! corrected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_isa::mem::Access;

use super::{AddressSpace, Fault, FaultKind, RootKind, Translation};
use crate::faults::{Hook, Place};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::memory::{Aperture, Physical};

/// Bytes of the smallest page.
const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
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

    fn note(&self, translation: &Translation) {
        let fresh = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner).fresh;
        if fresh.len() < ENTRIES {
            fresh.insert(translation.va, Translation { writable: false, ..*translation });
        }
    }

    /// Invalidates the TLBs, which either take the invalidation or miss it.
    fn invalidate(&self, heard: bool) {
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
}

impl AddressSpace {
    /// Remembers the result of a walk, as it may outlive an invalidation.
    pub(super) fn note_translation(&self, translation: &Translation) {
        if self.root.kind == RootKind::Process && translation.location.aperture == Aperture::Local {
            self.stale.note(translation);
        }
    }

    /// Applies a planned fault at an invalidation of a process's TLBs.
    pub(super) fn strike_invalidation(&self) {
        if self.root.kind != RootKind::Process {
            return;
        }
        // The pages may have other contents from now on.
        self.poisoned.pages().clear();
        let place = || Place { what: "invalidation", ..Place::default() };
        self.stale.invalidate(self.faults.meets(Hook::Invalidation, place).is_none());
    }

    /// Applies a planned fault at an access of a wave that misses its TLB.
    ///
    /// # Errors
    ///
    /// Poison.
    pub(super) fn strike_access(&self, va: u64, access: Access, location: Physical) -> Result<(), Fault> {
        let reads = access != Access::Write && location.aperture == Aperture::Local;
        if !reads || self.root.kind != RootKind::Process {
            return Ok(());
        }
        let page = va >> PAGE_SHIFT;
        if !self.poisoned.pages().contains(&page) {
            let place = || Place { what: "read of VRAM", address: Some(va), ..Place::default() };
            if self.faults.meets(Hook::VramRead, place).is_none() {
                return Ok(());
            }
            let mut pages = self.poisoned.pages();
            if pages.len() < ENTRIES {
                pages.insert(page);
            }
        }
        Err(Fault::new(va, access, FaultKind::Poison))
    }

    /// Bytes before an address and from it on that a wave's TLB keeps with its translation. If a plan names
    /// reads of VRAM, or has struck one, this is at most the rest of its page, so that each page has its own
    /// moment for a fault.
    pub(super) fn moment_of(&self, va: u64, location: Physical, (before, after): (u64, u64)) -> (u64, u64) {
        let by_pages = self.faults.is_on()
            && location.aperture == Aperture::Local
            && (self.faults.plans(Hook::VramRead) || !self.poisoned.pages().is_empty());
        if !by_pages {
            return (before, after);
        }
        let inside = va % PAGE_SIZE;
        (before.min(inside), after.min(PAGE_SIZE - inside))
    }

    /// Applies a planned fault at a read of an engine.
    ///
    /// # Errors
    ///
    /// Poison.
    pub(crate) fn strike_read(&self, va: u64) -> Result<(), Fault> {
        if !self.faults.is_on() {
            return Ok(());
        }
        let location = self.peek(va).and_then(|translation| translation.locate(va));
        location.map_or(Ok(()), |location| self.strike_access(va, Access::Read, location))
    }
}
