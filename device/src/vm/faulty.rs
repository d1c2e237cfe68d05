//! Faults on purpose that strike an address space: TLBs that do not hear an invalidation, and memory whose errors cannot be corrected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_isa::mem::Access;

use super::{AddressSpace, Fault, FaultKind, RootKind, Translation};
use crate::faults::{Hook, Place};
use crate::lock::{Mutex, MutexGuard, rank};
use crate::memory::Location;

/// Bytes of the smallest page.
const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// Translations that are remembered: as many as a large TLB has.
const ENTRIES: usize = 4096;

/// Translations by their first address.
type Entries = BTreeMap<u64, Translation>;

/// The translations to VRAM that TLBs would keep if they did not hear an invalidation.
///
/// They serve loads and fetches alone. VRAM lives as long as the device, so that an old translation reads wrong bytes at worst. One
/// to system memory could lead to pages that the host has taken back, and a store could reach page tables.
#[derive(Debug, Default)]
pub(super) struct StaleTlb(Mutex<Kept, rank::StaleTlb>);

#[derive(Debug, Default)]
struct Kept {
    /// Walked since the last invalidation.
    fresh: Entries,
    /// Those of before an invalidation that was not heard.
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

    /// The TLBs are invalidated, and hear of it or not.
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
    /// Remembers what a walk has found, in case that it outlives an invalidation.
    pub(super) fn note_translation(&self, translation: &Translation) {
        if self.root.kind == RootKind::Process && matches!(translation.location, Location::Vram(_)) {
            self.stale.note(translation);
        }
    }

    /// Looks for a fault at an invalidation of the TLBs of a process.
    pub(super) fn strike_invalidation(&self) {
        if self.root.kind != RootKind::Process {
            return;
        }
        // The pages may be others from now on.
        self.poisoned.pages().clear();
        let place = || Place { what: "invalidation", ..Place::default() };
        self.stale.invalidate(self.faults.meets(Hook::Invalidation, place).is_none());
    }

    /// Looks for a fault at an access of a wave that is not in its TLB.
    ///
    /// # Errors
    ///
    /// Poison.
    pub(super) fn strike_access(&self, va: u64, access: Access, location: Location) -> Result<(), Fault> {
        let reads = access != Access::Write && matches!(location, Location::Vram(_));
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

    /// Bytes before and from an address on that a wave's TLB keeps with it: where a plan names reads of VRAM, or has struck one, no more
    /// than its page, so that each page has a moment.
    pub(super) fn moment_of(&self, va: u64, location: Location, (before, after): (u64, u64)) -> (u64, u64) {
        let by_pages = self.faults.is_on()
            && matches!(location, Location::Vram(_))
            && (self.faults.plans(Hook::VramRead) || !self.poisoned.pages().is_empty());
        if !by_pages {
            return (before, after);
        }
        let inside = va % PAGE_SIZE;
        (before.min(inside), after.min(PAGE_SIZE - inside))
    }

    /// Looks for a fault at a read of an engine.
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
