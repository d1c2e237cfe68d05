//! Scratch memory as plain values.

use std::sync::PoisonError;

use belfry_lock::Mutex;
use serde::{Deserialize, Serialize};

use super::{ScratchPool, Slots};
use crate::save::{Broken, check};

/// Scratch memory of a queue. The waves that use slots save them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedScratch {
    base: u64,
    wave_bytes: u64,
    slots: u32,
    free: Vec<u32>,
    next: u32,
}

impl ScratchPool {
    pub(crate) fn save(&self) -> SavedScratch {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        SavedScratch {
            base: self.base,
            wave_bytes: self.wave_bytes,
            slots: self.slots,
            free: used.free.clone(),
            next: used.next,
        }
    }

    /// Restores scratch memory of at most `most` slots.
    pub(crate) fn restored(saved: &SavedScratch, most: u64) -> Result<Self, Broken> {
        let SavedScratch { base, wave_bytes, slots, next, .. } = *saved;
        check("slots of scratch memory", slots, u64::from(slots) <= most)?;
        check("bytes of a slot of scratch memory", wave_bytes, wave_bytes >> 40 == 0)?;
        check("first unused slot of scratch memory", next, next <= slots)?;
        let mut given = vec![false; next as usize];
        for &slot in &saved.free {
            let place = given.get_mut(slot as usize).filter(|given| !**given);
            *place.ok_or(Broken { field: "free slot of scratch memory", value: slot.into() })? = true;
        }
        let used = Mutex::new(Slots { free: saved.free.clone(), next });
        Ok(Self { base, wave_bytes, slots, used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_in_use_stay_in_use_and_free_ones_come_in_the_same_order() {
        let original = ScratchPool::new(0x1000, 0x100, 8);
        let first = original.take(3).expect("eight are free");
        original.take(2).expect("five are left");
        original.give(first);
        let saved = original.save();
        let restored = ScratchPool::restored(&saved, 8).expect("scratch memory");
        assert_eq!(restored.save(), saved);
        assert_eq!(restored.take(6), original.take(6));
        assert_eq!(restored.take(1), None);
        for (field, change) in [
            ("slots of scratch memory", (|saved| saved.slots = 9) as fn(&mut SavedScratch)),
            ("first unused slot of scratch memory", |saved| saved.next = 9),
            ("free slot of scratch memory", |saved| saved.free[0] = saved.free[1]),
            ("free slot of scratch memory", |saved| saved.free[0] = 5),
        ] {
            let mut saved = saved.clone();
            change(&mut saved);
            assert_eq!(ScratchPool::restored(&saved, 8).expect_err("none").field, field);
        }
    }
}
