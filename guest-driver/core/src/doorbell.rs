//! Doorbells: which slice of BAR2 a process has, and which doorbells of it are taken.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;

use crate::asic::DoorbellLayout;
use crate::errno::{Errno, Result};

/// Doorbells of a slice.
const DOORBELLS: usize = KFD_DOORBELL_PROCESS_SLICE as usize / 8;
/// Distance of the reserved range's second copy (`KFD_QUEUE_DOORBELL_MIRROR_OFFSET`).
const MIRROR_OFFSET: usize = 512;

/// One process's slice. Slice 0 of the BAR is the kernel's.
pub(crate) struct Doorbells {
    slice: u32,
    taken: [u64; DOORBELLS / 64],
}

impl Doorbells {
    pub(crate) fn new(slice: u32, layout: &DoorbellLayout) -> Self {
        let mut taken = [0u64; DOORBELLS / 64];
        let (first, last) = layout.not_compute;
        for index in first as usize..=last as usize {
            for index in [index, index + MIRROR_OFFSET] {
                taken[index / 64] |= 1 << (index % 64);
            }
        }
        Self { slice, taken }
    }

    /// Takes a doorbell for a compute queue; returns its index in the slice.
    ///
    /// # Errors
    ///
    /// `EBUSY` when none is free.
    pub(crate) fn take(&mut self) -> Result<u32> {
        for (word, bits) in self.taken.iter_mut().enumerate() {
            if *bits != u64::MAX {
                let bit = bits.trailing_ones();
                *bits |= 1 << bit;
                return Ok(word as u32 * 64 + bit);
            }
        }
        Err(Errno::EBUSY)
    }

    pub(crate) fn put(&mut self, index: u32) {
        self.taken[index as usize / 64] &= !(1 << (index % 64));
    }

    /// A doorbell of the slice, as MQDs and MES frames count it.
    pub(crate) fn index(&self, number: u32) -> DoorbellIndex {
        DoorbellIndex::of_number(self.slice * DOORBELLS as u32 + number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_doorbells_are_never_handed_out() {
        let mut doorbells = Doorbells::new(3, &crate::asic::ANY.doorbells);
        let (first, last) = crate::asic::ANY.doorbells.not_compute;
        let mut count = 0;
        while let Ok(index) = doorbells.take() {
            let position = index % MIRROR_OFFSET as u32;
            assert!(!(first..=last).contains(&position), "{index}");
            count += 1;
        }
        assert_eq!(count, DOORBELLS - 2 * 0x90);
        doorbells.put(7);
        assert_eq!(doorbells.take(), Ok(7));
        assert_eq!(doorbells.index(1).dwords(), 3 * 2048 + 2);
    }
}
