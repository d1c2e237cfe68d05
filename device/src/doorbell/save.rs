//! Doorbells as plain values.

use std::sync::atomic::Ordering;

use belfry_abi::pci::DOORBELL_BAR_SIZE;
use serde::{Deserialize, Serialize};

use super::{COUNT, Doorbells, PAGE, WORDS, offset};
use crate::save::{Broken, check};

/// One doorbell.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
struct SavedDoorbell {
    /// Number of the doorbell among the 64-bit ones.
    at: u32,
    value: u64,
    /// Value that the device has taken note of.
    known: u64,
    owned: bool,
    announced: bool,
    rung: bool,
    busy: bool,
}

/// Doorbells with a value or with a queue that listens.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedDoorbells {
    enabled: bool,
    doorbells: Vec<SavedDoorbell>,
}

impl Doorbells {
    fn save_one(&self, at: u64) -> SavedDoorbell {
        SavedDoorbell {
            at: at as u32,
            value: self.value(at).load(Ordering::Acquire),
            known: self.known(at).load(Ordering::Relaxed),
            owned: self.owned.get(at),
            announced: self.announced.get(at),
            rung: self.rung.get(at),
            busy: self.busy.get(at),
        }
    }

    /// Saves values and listeners.
    pub(crate) fn save(&self) -> SavedDoorbells {
        let flags = [&self.owned, &self.announced, &self.rung, &self.busy];
        let mut doorbells = Vec::new();
        for first in (0..COUNT).step_by(WORDS as usize) {
            let page = offset(first).bytes();
            if !*self.lock(first) && self.is_blank(page) && !flags.iter().any(|flags| flags.any(page)) {
                continue;
            }
            let all = (first..first + WORDS).map(|at| self.save_one(at));
            doorbells.extend(all.filter(|one| *one != SavedDoorbell { at: one.at, ..Default::default() }));
        }
        SavedDoorbells { enabled: self.enabled(), doorbells }
    }

    /// Takes over values and listeners of another device, on a device that has none. A host's own listener learns of
    /// the doorbells when it is set.
    pub(crate) fn restore(&self, saved: &SavedDoorbells) -> Result<(), Broken> {
        for one in &saved.doorbells {
            check("number of a doorbell", one.at, u64::from(one.at) < COUNT)?;
        }
        debug_assert_eq!(DOORBELL_BAR_SIZE / PAGE, self.locks.len() as u64);
        self.reset();
        self.enable(saved.enabled);
        for one in &saved.doorbells {
            let at = u64::from(one.at);
            *self.lock(at) = true;
            self.value(at).store(one.value, Ordering::Release);
            self.known(at).store(one.known, Ordering::Relaxed);
            self.owned.set(at, one.owned);
            self.announced.set(at, one.owned && one.announced);
            self.rung.set(at, one.rung);
            self.busy.set(at, one.owned && one.busy);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex, PoisonError};

    use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
    use vm_memory::MmapRegion;

    use super::*;
    use crate::doorbell::{DoorbellListener, Owner};

    fn doorbells() -> Doorbells {
        let region = MmapRegion::new(DOORBELL_BAR_SIZE as usize).expect("anonymous memory");
        Doorbells::new(region).expect("of the right size")
    }

    #[derive(Default)]
    struct Ear(Mutex<Vec<DoorbellOffset>>);

    impl DoorbellListener for Ear {
        fn listens(&self, doorbell: DoorbellOffset, listening: bool) {
            assert!(listening);
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(doorbell);
        }
    }

    #[test]
    fn doorbells_go_through_bytes_and_back_and_listeners_learn_of_them() {
        let original = doorbells();
        original.enable(true);
        let [queue, ring] = [0x800, 0x16].map(DoorbellIndex::from_dwords);
        original.own(queue, Owner::Queue);
        original.own(ring, Owner::Ring);
        original.store(queue.offset(), 5, 8);
        original.set_busy(queue, true);
        original.value(3).store(9, Ordering::Release);
        let bytes = postcard::to_allocvec(&original.save()).expect("plain values");
        let restored = doorbells();
        restored.restore(&postcard::from_bytes(&bytes).expect("the same values")).expect("doorbells");
        assert_eq!(restored.save(), original.save());
        assert!(restored.is_rung(queue) && !restored.is_rung(ring) && restored.is_busy(0x2000));
        assert!(restored.is_rung(DoorbellIndex::of_number(3)), "a store that nobody has seen");
        let ear = Arc::new(Ear::default());
        restored.set_listener(Arc::clone(&ear) as Arc<dyn DoorbellListener>);
        assert_eq!(*ear.0.lock().expect("no panic"), [queue.offset()]);
        let mut other = original.save();
        other.doorbells[0].at = COUNT as u32;
        assert_eq!(restored.restore(&other).expect_err("outside").field, "number of a doorbell");
    }
}
