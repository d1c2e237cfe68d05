//! Doorbells of a device that is recorded: it has a page of values of its own, and others store to the host's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci::DOORBELL_BAR_SIZE;
use vm_memory::MmapRegion;

use super::{COUNT, Doorbells, PAGE, number};

/// The host's values, as the device has last seen them.
pub(crate) struct DoorbellMirror {
    host: MmapRegion,
    seen: BTreeMap<u64, u64>,
}

impl DoorbellMirror {
    /// The host's values, in a region of the size of BAR2 (if it has another, its size).
    pub(crate) fn new(host: MmapRegion) -> Result<Self, u64> {
        if host.size() as u64 != DOORBELL_BAR_SIZE || !host.as_ptr().addr().is_multiple_of(8) {
            return Err(host.size() as u64);
        }
        Ok(Self { host, seen: BTreeMap::new() })
    }

    fn host(&self, at: u64) -> &AtomicU64 {
        let at = (at % COUNT) as usize;
        // SAFETY: the region is as large as BAR2 and aligned (checked in `new`), is mapped as long as `self` lives, and is only
        // ever accessed through atomics and by the guest.
        unsafe { AtomicU64::from_ptr(self.host.as_ptr().cast::<u64>().add(at)) }
    }

    /// Takes over what others have stored to doorbells that somebody listens to, and to some others: number and value of each.
    pub(crate) fn look(&mut self, doorbells: &Doorbells, others: &[DoorbellOffset]) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for at in doorbells.looked_at(others) {
            let value = self.host(at).load(Ordering::Acquire);
            if self.seen.get(&at).copied().unwrap_or_default() != value {
                self.seen.insert(at, value);
                doorbells.found(at, value);
                found.push((at, value));
            }
        }
        found
    }

    /// Has what the device itself has stored in the host's page, unless others have stored there since it looked.
    pub(crate) fn show(&mut self, doorbells: &Doorbells, others: &[DoorbellOffset]) {
        for at in doorbells.looked_at(others) {
            let value = doorbells.value(at).load(Ordering::Acquire);
            let seen = self.seen.get(&at).copied().unwrap_or_default();
            if seen != value {
                let exchanged =
                    self.host(at).compare_exchange(seen, value, Ordering::AcqRel, Ordering::Acquire);
                if exchanged.is_ok() {
                    self.seen.insert(at, value);
                }
            }
        }
    }
}

impl Doorbells {
    /// The numbers of doorbells that somebody listens to or may again, and of some others.
    fn looked_at(&self, others: &[DoorbellOffset]) -> Vec<u64> {
        let mut all: Vec<u64> = others.iter().copied().filter_map(number).collect();
        for page in (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize) {
            all.extend(self.owned.of_page(page).chain(self.away.of_page(page)));
        }
        all
    }

    /// A value was stored by others.
    pub(crate) fn found(&self, at: u64, value: u64) {
        self.value(at).store(value, Ordering::Release);
    }
}
