//! The allocations that a driver has reported, each with the requested size in bytes, and the allocations
//! that were freed lately.

use std::collections::{BTreeMap, VecDeque};

/// Most allocations.
const MAX_ALLOCATIONS: usize = 1 << 18;
/// Most freed allocations that are remembered.
const MAX_FREED: usize = 1 << 12;
/// Bytes from an allocation within which an access of unmapped memory counts as beyond its end, or before its
/// beginning.
const BESIDE: u64 = 1 << 20;
/// Memory is given in pages.
const PAGE: u64 = 4096;

/// Place of an access that is in no allocation, or beyond the bytes of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Stray {
    /// After the end of an allocation, or before its beginning.
    Beside { va: u64, bytes: u64 },
    /// In an allocation that was freed.
    Freed { va: u64, bytes: u64 },
}

/// The allocations.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    /// Bytes by address.
    live: BTreeMap<u64, u64>,
    freed: VecDeque<(u64, u64)>,
}

fn pages(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

impl Allocations {
    /// Adds an allocation. Returns false if there are too many.
    pub(super) fn allocated(&mut self, va: u64, bytes: u64) -> bool {
        let end = va.saturating_add(pages(bytes));
        self.freed.retain(|&(old, size)| old >= end || old.saturating_add(pages(size)) <= va);
        if self.live.len() == MAX_ALLOCATIONS && !self.live.contains_key(&va) {
            return false;
        }
        self.live.insert(va, bytes);
        true
    }

    /// Removes an allocation that is freed.
    pub(super) fn freed(&mut self, va: u64) {
        let Some(bytes) = self.live.remove(&va) else { return };
        if self.freed.len() == MAX_FREED {
            self.freed.pop_front();
        }
        self.freed.push_back((va, bytes));
    }

    /// The allocation around an address, as addresses of its first byte and of the byte after its last.
    pub(super) fn around(&self, va: u64) -> Option<(u64, u64)> {
        let (&first, &bytes) = self.live.range(..=va).next_back()?;
        let end = first.saturating_add(bytes);
        (va < end).then_some((first, end))
    }

    /// The allocation that an access outside of all allocations has missed, and true if that is certain.
    /// Otherwise the access may be within memory that the driver has not reported: it counts only if nothing
    /// is mapped there.
    pub(super) fn stray(&self, va: u64, end: u64) -> Option<(Stray, bool)> {
        let before = self.live.range(..=va).next_back().map(|(&va, &bytes)| (va, bytes));
        let beside = |(va, bytes)| Stray::Beside { va, bytes };
        // The rest of its last page belongs to no other allocation.
        if let Some((first, bytes)) = before.filter(|&(first, bytes)| va - first < pages(bytes)) {
            return Some((beside((first, bytes)), true));
        }
        let inside = |&&(old, bytes): &&(u64, u64)| old <= va && va - old < pages(bytes);
        if let Some(&(va, bytes)) = self.freed.iter().rev().find(inside) {
            return Some((Stray::Freed { va, bytes }, false));
        }
        let behind = before.filter(|&(first, bytes)| va - first - pages(bytes) < BESIDE);
        let ahead = self.live.range(va..).next().map(|(&va, &bytes)| (va, bytes));
        let ahead = ahead.filter(|&(next, _)| next.saturating_sub(end) < BESIDE);
        behind.or(ahead).map(|found| (beside(found), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strays_are_told_from_what_is_known_and_what_is_mapped() {
        let mut all = Allocations::default();
        assert!(all.allocated(0x10000, 100) && all.allocated(0x20000, 0x2000));
        assert_eq!(all.around(0x10063), Some((0x10000, 0x10064)));
        assert_eq!(all.around(0x10064), None);
        let beside = |va, bytes, sure| Some((Stray::Beside { va, bytes }, sure));
        assert_eq!(all.stray(0x10064, 0x10068), beside(0x10000, 100, true), "its own page");
        assert_eq!(all.stray(0x11000, 0x11004), beside(0x10000, 100, false));
        assert_eq!(all.stray(0x8000, 0x8004), beside(0x10000, 100, false), "before it");
        assert_eq!(all.stray(0x900_0000, 0x900_0004), None, "far from everything");
        all.freed(0x20000);
        assert_eq!(all.stray(0x21ffc, 0x22000), Some((Stray::Freed { va: 0x20000, bytes: 0x2000 }, false)));
        assert!(all.allocated(0x20000, 0x2000));
        assert_eq!(all.around(0x21ffc), Some((0x20000, 0x22000)));
        assert!(all.freed.is_empty());
    }

    #[test]
    fn what_was_freed_is_bounded() {
        let mut all = Allocations::default();
        for number in 0..2 * MAX_FREED as u64 {
            assert!(all.allocated(number * PAGE, 1));
            all.freed(number * PAGE);
        }
        assert_eq!(all.freed.len(), MAX_FREED);
    }
}
