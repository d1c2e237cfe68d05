//! Workgroups of a dispatch that no worker has begun.

mod save;

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::lock::{Mutex, MutexGuard, rank};

/// Most workgroups a worker takes at once.
const MOST: u64 = 256;
/// Parts the rest is divided into for each worker: shares become smaller towards the end, so that all workers finish
/// together.
const PARTS: u64 = 4;

/// Workgroups of a grid that are left, handed out in shares of neighbours. Taken one by one, each would move a cache
/// line between the workers; and neighbours find each other's data in the cache.
///
/// The fields have cache lines of their own, because workers read the other fields of a dispatch for every workgroup.
/// Padding does that instead of an alignment, with which the memory of a dispatch would take longer to allocate.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Unclaimed {
    _before: Room,
    /// Ranges in ascending order, not empty, without overlaps.
    ranges: Mutex<Ranges, rank::Unclaimed>,
    /// Number of workgroups in the ranges.
    left: AtomicU64,
    _behind: Room,
}

/// A few ranges at most. A dispatch that was given nothing back has one, which takes no allocation.
type Ranges = SmallVec<[Range<u64>; 1]>;

/// Padding of two cache lines: processors fetch lines in pairs.
type Room = [MaybeUninit<u64>; 16];

const ROOM: Room = [MaybeUninit::uninit(); 16];

impl Unclaimed {
    /// Makes the first `total` workgroups.
    pub(super) fn new(total: u64) -> Unclaimed {
        Unclaimed::with(std::iter::once(0..total).filter(|range| !range.is_empty()).collect(), total)
    }

    /// Makes these ranges: ascending, not empty, without overlaps.
    pub(super) fn of(ranges: Vec<Range<u64>>) -> Unclaimed {
        let left = ranges.iter().map(|range| range.end - range.start).sum();
        Unclaimed::with(ranges.into(), left)
    }

    /// Makes these ranges, which have `left` workgroups together.
    fn with(ranges: Ranges, left: u64) -> Unclaimed {
        Unclaimed { _before: ROOM, ranges: Mutex::new(ranges), left: AtomicU64::new(left), _behind: ROOM }
    }

    /// Returns the ranges that are left.
    pub(super) fn parts(&self) -> Vec<Range<u64>> {
        self.ranges().iter().cloned().collect()
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges, rank::Unclaimed> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of workgroups that are left.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Returns true if none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// Takes the share of one of `workers` from the first range; empty if none is left.
    pub(super) fn take(&self, workers: u64) -> Range<u64> {
        let mut ranges = self.ranges();
        let left = self.left.load(Ordering::Relaxed);
        let Some(first) = ranges.first_mut() else { return 0..0 };
        let share = (left / (workers * PARTS).max(1)).clamp(1, MOST).min(first.end - first.start);
        let taken = first.start..first.start + share;
        first.start = taken.end;
        if first.is_empty() {
            ranges.remove(0);
        }
        self.left.store(left - share, Ordering::Relaxed);
        taken
    }

    /// Gives back workgroups that were not begun. Returns true if nothing else was left, because other workers may have
    /// found nothing to do.
    pub(super) fn give_back(&self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return false;
        }
        let mut ranges = self.ranges();
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left + (range.end - range.start), Ordering::Relaxed);
        let at = ranges.partition_point(|other| other.start < range.start);
        match ranges.get_mut(at) {
            Some(next) if next.start == range.end => next.start = range.start,
            _ => ranges.insert(at, range),
        }
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_ascending_and_shrink() {
        let unclaimed = Unclaimed::new(5000);
        let mut next = 0;
        let mut sizes = Vec::new();
        while !unclaimed.is_empty() {
            let share = unclaimed.take(2);
            assert_eq!(share.start, next);
            next = share.end;
            sizes.push(share.end - share.start);
        }
        assert_eq!(next, 5000);
        assert_eq!((sizes[0], sizes.last()), (MOST, Some(&1)));
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        assert_eq!(unclaimed.take(2), 0..0);
        assert!(Unclaimed::new(0).take(1).is_empty());
    }

    #[test]
    fn a_grid_of_few_is_handed_out_one_by_one() {
        let unclaimed = Unclaimed::new(8);
        assert_eq!([unclaimed.take(2), unclaimed.take(2)], [0..1, 1..2]);
    }

    #[test]
    fn what_comes_back_goes_out_first() {
        let unclaimed = Unclaimed::new(64);
        let (first, second) = (unclaimed.take(2), unclaimed.take(2));
        assert_eq!((first.clone(), second.clone()), (0..8, 8..15));
        assert!(!unclaimed.give_back(10..15));
        assert!(!unclaimed.give_back(3..8));
        assert!(!unclaimed.give_back(5..5));
        assert_eq!(unclaimed.ranges()[..], [3..8, 10..64]);
        assert_eq!(unclaimed.take(1), 3..8);
        let mut all: Vec<u64> = Vec::new();
        while !unclaimed.is_empty() {
            all.extend(unclaimed.take(1));
        }
        assert_eq!(all, (10..64).collect::<Vec<_>>());
        assert!(unclaimed.give_back(20..30), "nothing else was left");
    }
}
