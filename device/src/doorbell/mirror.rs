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
    /// Doorbells that somebody listens to or may again, as of so many changes.
    listened: (Option<u64>, Vec<u64>),
}

impl DoorbellMirror {
    /// The host's values, in a region of the size of BAR2 (if it has another, its size).
    pub(crate) fn new(host: MmapRegion) -> Result<Self, u64> {
        if host.size() as u64 != DOORBELL_BAR_SIZE || !host.as_ptr().addr().is_multiple_of(8) {
            return Err(host.size() as u64);
        }
        Ok(Self { host, seen: BTreeMap::new(), listened: (None, Vec::new()) })
    }

    fn host(&self, at: u64) -> &AtomicU64 {
        let at = (at % COUNT) as usize;
        // SAFETY: the region is as large as BAR2 and aligned (checked in `new`), is mapped as long as `self` lives, and is only
        // ever accessed through atomics and by the guest.
        unsafe { AtomicU64::from_ptr(self.host.as_ptr().cast::<u64>().add(at)) }
    }

    /// The numbers of doorbells that somebody listens to or may again, and of some others.
    fn looked_at(&mut self, doorbells: &Doorbells, others: &[DoorbellOffset]) -> Vec<u64> {
        let changes = Some(doorbells.changes.load(Ordering::Acquire));
        if self.listened.0 != changes {
            self.listened = (changes, doorbells.listened());
        }
        others.iter().copied().filter_map(number).chain(self.listened.1.iter().copied()).collect()
    }

    /// Takes over what others have stored to doorbells that somebody listens to, and to some others: number and value of each.
    pub(crate) fn look(&mut self, doorbells: &Doorbells, others: &[DoorbellOffset]) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for at in self.looked_at(doorbells, others) {
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
        for at in self.looked_at(doorbells, others) {
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
    /// The numbers of doorbells that somebody listens to or may again.
    fn listened(&self) -> Vec<u64> {
        let pages = (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize);
        pages.flat_map(|page| self.owned.of_page(page).chain(self.away.of_page(page))).collect()
    }

    /// A value was stored by others.
    pub(crate) fn found(&self, at: u64, value: u64) {
        self.value(at).store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::doorbell::DoorbellIndex;

    use super::super::Owner;
    use super::*;

    #[test]
    fn stores_are_found_and_the_devices_own_are_shown() {
        let region = || MmapRegion::new(DOORBELL_BAR_SIZE as usize).expect("anonymous memory");
        assert_eq!(DoorbellMirror::new(MmapRegion::new(4096).expect("memory")).err(), Some(4096));
        let doorbells = Doorbells::new(region()).expect("of the right size");
        let mut mirror = DoorbellMirror::new(region()).expect("of the right size");
        let (listened, other) = (DoorbellIndex::from_dwords(0x800), DoorbellOffset::from_bytes(0x40));
        let at = number(listened.offset()).expect("in range");
        mirror.host(at).store(5, Ordering::Release);
        assert_eq!(mirror.look(&doorbells, &[]), [], "nobody listens");
        doorbells.own(listened, Owner::Process);
        mirror.host(8).store(9, Ordering::Release);
        assert_eq!(mirror.look(&doorbells, &[other]), [(8, 9), (at, 5)]);
        assert_eq!((doorbells.load(listened.offset()), doorbells.load(other)), (5, 9));
        assert_eq!(mirror.look(&doorbells, &[other]), []);
        doorbells.store(listened.offset(), 6, 8);
        mirror.show(&doorbells, &[other]);
        assert_eq!(mirror.host(at).load(Ordering::Acquire), 6);
        assert_eq!(mirror.look(&doorbells, &[other]), [], "the device's own store is no news");
        // What others have stored meanwhile stays, and is found.
        doorbells.store(listened.offset(), 7, 8);
        mirror.host(at).store(8, Ordering::Release);
        mirror.show(&doorbells, &[]);
        assert_eq!(mirror.look(&doorbells, &[]), [(at, 8)]);
    }
}
