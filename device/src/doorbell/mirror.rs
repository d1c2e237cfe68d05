//! Doorbells of a device that is recorded: it has a page of values of its own, and its users store to the host's page.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::pci::DOORBELL_BAR_SIZE;
use vm_memory::MmapRegion;

use super::{COUNT, Doorbells, PAGE};

/// The host's page: a region of the size of BAR2, which is only ever accessed through atomics and by the guest.
#[derive(Clone, Debug)]
pub(crate) struct HostDoorbells(Arc<MmapRegion>);

impl HostDoorbells {
    /// Returns the host address of the region.
    pub(crate) fn host(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

/// Values of the host's page, as the device has last seen them.
pub(crate) struct DoorbellMirror {
    host: Arc<MmapRegion>,
    seen: BTreeMap<u64, u64>,
    /// Doorbells with a queue that listens, or that may come back, and the number of changes at which the list was
    /// made.
    listened: (Option<u64>, Vec<u64>),
}

impl DoorbellMirror {
    /// Takes the host's values, in a region of the size of BAR2. Returns the region's size if it has another one.
    pub(crate) fn new(host: MmapRegion) -> Result<Self, u64> {
        if host.size() as u64 != DOORBELL_BAR_SIZE || !host.as_ptr().addr().is_multiple_of(8) {
            return Err(host.size() as u64);
        }
        Ok(Self { host: Arc::new(host), seen: BTreeMap::new(), listened: (None, Vec::new()) })
    }

    /// Returns the host's page, for others that store there.
    pub(crate) fn page(&self) -> HostDoorbells {
        HostDoorbells(Arc::clone(&self.host))
    }

    fn host(&self, at: u64) -> &AtomicU64 {
        let at = (at % COUNT) as usize;
        // SAFETY: the region is as large as BAR2 and aligned (checked in `new`), is mapped as long as `self` lives, and is only
        // ever accessed through atomics and by the guest.
        unsafe { AtomicU64::from_ptr(self.host.as_ptr().cast::<u64>().add(at)) }
    }

    /// Returns the numbers of the doorbells with a queue that listens or may come back, and of the interrupt handler's.
    fn looked_at(&mut self, doorbells: &Doorbells) -> Vec<u64> {
        let changes = Some(doorbells.changes.load(Ordering::Acquire));
        if self.listened.0 != changes {
            self.listened = (changes, doorbells.listened());
        }
        doorbells.of_interrupts().chain(self.listened.1.iter().copied()).collect()
    }

    /// Takes over values that the host's page has for the doorbells that the device reads. Returns number and value of
    /// each.
    pub(crate) fn look(&mut self, doorbells: &Doorbells) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for at in self.looked_at(doorbells) {
            let value = self.host(at).load(Ordering::Acquire);
            if self.seen.get(&at).copied().unwrap_or_default() != value {
                self.seen.insert(at, value);
                doorbells.found(at, value);
                found.push((at, value));
            }
        }
        found
    }

    /// Stores the values of the device itself into the host's page, except those that were stored there since the
    /// device looked.
    pub(crate) fn show(&mut self, doorbells: &Doorbells) {
        for at in self.looked_at(doorbells) {
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
    /// Returns the numbers of the doorbells with a queue that listens or may come back.
    fn listened(&self) -> Vec<u64> {
        let pages = (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize);
        pages.flat_map(|page| self.owned.of_page(page).chain(self.away.of_page(page))).collect()
    }

    /// Takes over a value that was found in the host's page.
    pub(crate) fn found(&self, at: u64, value: u64) {
        self.value(at).store(value, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};

    use super::super::{Owner, number};
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
        assert_eq!(mirror.look(&doorbells), [], "nobody listens");
        doorbells.own(listened, Owner::Queue);
        doorbells.set_interrupts([None, Some(other), None]);
        mirror.host(8).store(9, Ordering::Release);
        assert_eq!(mirror.look(&doorbells), [(8, 9), (at, 5)]);
        assert_eq!((doorbells.load(listened.offset()), doorbells.load(other)), (5, 9));
        assert_eq!(mirror.look(&doorbells), []);
        doorbells.store(listened.offset(), 6, 8);
        mirror.show(&doorbells);
        assert_eq!(mirror.host(at).load(Ordering::Acquire), 6);
        assert_eq!(mirror.look(&doorbells), [], "the device's own store is no news");
        // A value that was stored in the host's page meanwhile stays, and is found.
        doorbells.store(listened.offset(), 7, 8);
        mirror.host(at).store(8, Ordering::Release);
        mirror.show(&doorbells);
        assert_eq!(mirror.look(&doorbells), [(at, 8)]);
    }
}
