//! Doorbells: a page of values that queues look at, and the wake-up that makes them look.
//!
//! The region is the single copy of every doorbell's value. A trapped write is stored there and wakes the scheduler;
//! where a guest maps the page itself, nobody is told, and the scheduler looks by itself or is told by the host.

#![expect(
    unsafe_code,
    reason = "the doorbell region is written by the guest at any time: atomics through raw pointers"
)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use belfry_abi::pci::DOORBELL_BAR_SIZE;
use vm_memory::MmapRegion;

/// The doorbell BAR.
#[derive(Debug)]
pub(crate) struct Doorbells {
    region: MmapRegion,
    /// One bit per 64-bit doorbell that somebody listens to.
    owned: Box<[AtomicU64]>,
    /// One bit per 64-bit doorbell whose last write was an access the device saw.
    trapped: Box<[AtomicU64]>,
}

const COUNT: u64 = DOORBELL_BAR_SIZE / 8;

impl Doorbells {
    /// Doorbells over a region of [`DOORBELL_BAR_SIZE`] bytes, or the size it has instead.
    pub(crate) fn new(region: MmapRegion) -> Result<Self, u64> {
        if region.size() as u64 != DOORBELL_BAR_SIZE || !(region.as_ptr().addr()).is_multiple_of(8) {
            return Err(region.size() as u64);
        }
        let bits = || (0..COUNT / 64).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { region, owned: bits(), trapped: bits() })
    }

    /// Value of the 64-bit doorbell at a byte offset, which is rounded down to its doorbell; outside of the BAR: 0.
    pub(crate) fn load(&self, offset: u64) -> u64 {
        if offset >= DOORBELL_BAR_SIZE {
            return 0;
        }
        // SAFETY: the region is mapped as long as `self` lives, the offset is in range and aligned, the base is aligned
        // (checked in `new`), and the region is only ever accessed through atomics and by the guest.
        unsafe { AtomicU64::from_ptr(self.region.as_ptr().add((offset & !7) as usize).cast()) }
            .load(Ordering::Acquire)
    }

    /// Value of the low 32 bits at a byte offset that is a multiple of 4; outside of the BAR: 0.
    pub(crate) fn load32(&self, offset: u64) -> u32 {
        (self.load(offset) >> (offset % 8 * 8)) as u32
    }

    /// Stores 4 or 8 bytes at an aligned offset inside the BAR.
    pub(crate) fn store(&self, offset: u64, value: u64, len: usize) {
        if offset >= DOORBELL_BAR_SIZE {
            return;
        }
        let at = self.region.as_ptr().wrapping_add((offset & !(len as u64 - 1)) as usize);
        // SAFETY: as in `load`; `at` is aligned to the access because the offset was rounded down to it.
        unsafe {
            if len == 8 {
                AtomicU64::from_ptr(at.cast()).store(value, Ordering::Release);
            } else {
                AtomicU32::from_ptr(at.cast()).store(value as u32, Ordering::Release);
            }
        }
    }

    /// Replaces a 64-bit value, unless somebody has rung since `before` was read.
    pub(crate) fn replace(&self, offset: u64, before: u64, value: u64) {
        if offset >= DOORBELL_BAR_SIZE {
            return;
        }
        // SAFETY: as in `load`.
        let doorbell =
            unsafe { AtomicU64::from_ptr(self.region.as_ptr().add((offset & !7) as usize).cast()) };
        let _rung_meanwhile = doorbell.compare_exchange(before, value, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Says whether somebody listens to the doorbell at a dword index.
    pub(crate) fn own(&self, index: u32, owned: bool) {
        let bit = u64::from(index / 2) % COUNT;
        let word = &self.owned[(bit / 64) as usize];
        if owned {
            word.fetch_or(1 << (bit % 64), Ordering::Relaxed);
        } else {
            word.fetch_and(!(1 << (bit % 64)), Ordering::Relaxed);
        }
    }

    /// Whether somebody listens to the doorbell at a byte offset.
    pub(crate) fn is_owned(&self, offset: u64) -> bool {
        let bit = offset / 8 % COUNT;
        self.owned[(bit / 64) as usize].load(Ordering::Relaxed) >> (bit % 64) & 1 == 1
    }

    /// Remembers that the last write to the doorbell at a byte offset was seen.
    pub(crate) fn set_trapped(&self, offset: u64) {
        let bit = offset / 8 % COUNT;
        self.trapped[(bit / 64) as usize].fetch_or(1 << (bit % 64), Ordering::Relaxed);
    }

    /// Whether the last write to the doorbell at a dword index was seen; asked once per change.
    pub(crate) fn take_trapped(&self, index: u32) -> bool {
        let bit = u64::from(index / 2) % COUNT;
        let word = &self.trapped[(bit / 64) as usize];
        word.fetch_and(!(1 << (bit % 64)), Ordering::Relaxed) >> (bit % 64) & 1 == 1
    }

    /// Nobody listens any more, and every value is 0.
    pub(crate) fn reset(&self) {
        for word in self.owned.iter().chain(&self.trapped) {
            word.store(0, Ordering::Relaxed);
        }
        for offset in (0..DOORBELL_BAR_SIZE).step_by(8) {
            // Reading first keeps a fresh region sparse.
            if self.load(offset) != 0 {
                self.store(offset, 0, 8);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doorbells() -> Doorbells {
        Doorbells::new(MmapRegion::new(DOORBELL_BAR_SIZE as usize).expect("anonymous memory"))
            .expect("right size")
    }

    #[test]
    fn values_are_kept_in_the_page() {
        let doorbells = doorbells();
        doorbells.store(0x58, 0x1_0000_0002, 8);
        assert_eq!(doorbells.load(0x58), 0x1_0000_0002);
        doorbells.store(0xbc4, 7, 4);
        assert_eq!(
            (doorbells.load(0xbc0), doorbells.load32(0xbc4), doorbells.load32(0xbc0)),
            (7 << 32, 7, 0)
        );
        doorbells.reset();
        assert_eq!(doorbells.load(0x58), 0);
    }

    #[test]
    fn outside_of_the_bar_there_is_nothing() {
        let doorbells = doorbells();
        doorbells.store(DOORBELL_BAR_SIZE, 1, 8);
        assert_eq!(doorbells.load(DOORBELL_BAR_SIZE), 0);
        assert_eq!(doorbells.load(u64::MAX), 0);
    }

    #[test]
    fn ownership_is_per_doorbell() {
        let doorbells = doorbells();
        doorbells.own(0x16, true);
        assert!(doorbells.is_owned(0x58) && doorbells.is_owned(0x5c) && !doorbells.is_owned(0x60));
        doorbells.own(0x16, false);
        assert!(!doorbells.is_owned(0x58));
    }

    #[test]
    fn regions_of_the_wrong_size_are_refused() {
        assert_eq!(Doorbells::new(MmapRegion::new(4096).expect("anonymous memory")).err(), Some(4096));
    }
}
