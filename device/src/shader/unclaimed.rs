//! Workgroups of a dispatch that no worker has begun.

mod claims;
mod save;

use std::ops::Range;

use claims::Claims;

/// The parts that `claims.rs` is made of; under a model, others stand in for them.
mod sync {
    pub(super) use std::sync::PoisonError;
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};

    use belfry_lock::rank;

    pub(super) type Mutex<T> = belfry_lock::Mutex<T, rank::Unclaimed>;
    pub(super) type MutexGuard<'a, T> = belfry_lock::MutexGuard<'a, T, rank::Unclaimed>;
}

/// Most workgroups of unknown cost that a worker takes at once.
const MOST: u64 = 256;
/// Parts the rest is divided into for each worker: shares become smaller towards the end, so that all workers finish
/// together.
const PARTS: u64 = 4;
/// Cost of a share, in instructions of a turn's budget, beside which claiming it does not count: some two microseconds.
const WORTHWHILE: u64 = 8192;

/// Workgroups of a grid that are left, handed out in shares of neighbours. Taken one by one, each would move a cache
/// line between the workers; and neighbours find each other's data in the cache.
#[derive(Debug)]
pub(super) struct Unclaimed(Claims);

impl Unclaimed {
    /// Makes the first `total` workgroups.
    pub(super) fn new(total: u64) -> Unclaimed {
        Unclaimed(Claims::new(std::iter::once(0..total).filter(|range| !range.is_empty())))
    }

    /// Makes these ranges: ascending, not empty, without overlaps.
    pub(super) fn of(ranges: Vec<Range<u64>>) -> Unclaimed {
        Unclaimed(Claims::new(ranges))
    }

    /// Returns the ranges that are left.
    pub(super) fn parts(&self) -> Vec<Range<u64>> {
        self.0.ranges()
    }

    /// Returns the number of workgroups that are left.
    pub(super) fn left(&self) -> u64 {
        self.0.left()
    }

    /// Returns true if none is left.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true if more than one may be left.
    pub(super) fn has_several(&self) -> bool {
        self.0.has_several()
    }

    /// Takes the share of one of `workers` from the first range; empty if none is left. A workgroup of this dispatch
    /// costs `usual` instructions of a turn's budget, or is not known yet: 0.
    pub(super) fn take(&self, workers: u64, usual: u64) -> Range<u64> {
        self.0.claim(|left| share(left, workers.max(1), usual))
    }

    /// Gives back workgroups that were not begun. Returns true if nothing else was left, because other workers may have
    /// found nothing to do.
    pub(super) fn give_back(&self, range: Range<u64>) -> bool {
        self.0.give_back(range)
    }
}

/// Returns the size of a share of `left` workgroups.
fn share(left: u64, workers: u64, usual: u64) -> u64 {
    let even = left / (workers * PARTS);
    if usual == 0 {
        return even.min(MOST);
    }
    // Small workgroups go out in shares that are worth a claim, and the last ones in smaller shares again.
    let worthwhile = WORTHWHILE / usual;
    let last = (left / workers).max(worthwhile / 4);
    even.min(MOST.max(4 * worthwhile)).max(worthwhile.min(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all shares of two workers.
    fn sizes(total: u64, usual: u64) -> Vec<u64> {
        let unclaimed = Unclaimed::new(total);
        let mut next = 0;
        let mut sizes = Vec::new();
        while !unclaimed.is_empty() {
            assert_eq!(unclaimed.left(), total - next);
            let share = unclaimed.take(2, usual);
            assert_eq!(share.start, next);
            next = share.end;
            sizes.push(share.end - share.start);
        }
        assert_eq!(next, total);
        assert_eq!(unclaimed.take(2, usual), 0..0);
        sizes
    }

    #[test]
    fn shares_are_ascending_and_shrink() {
        let sizes = sizes(5000, 0);
        assert_eq!((sizes[0], sizes.last()), (MOST, Some(&1)));
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        assert!(Unclaimed::new(0).take(1, 0).is_empty());
    }

    #[test]
    fn workgroups_that_cost_little_go_out_in_larger_shares() {
        let small = sizes(5000, 24);
        assert!(small.is_sorted_by(|a, b| a >= b), "{small:?}");
        assert_eq!(small[0], 5000 / 8);
        // The last one is the rest.
        assert!(small[..small.len() - 1].iter().all(|&size| size >= WORTHWHILE / 24 / 4), "{small:?}");
        assert!(small.len() < sizes(5000, 0).len() / 3);
        assert_eq!(sizes(5000, WORTHWHILE + 1), sizes(5000, 0), "these cost enough");
    }

    #[test]
    fn a_grid_of_few_is_handed_out_one_by_one() {
        let unclaimed = Unclaimed::new(8);
        assert_eq!([unclaimed.take(2, 0), unclaimed.take(2, 0)], [0..1, 1..2]);
    }

    #[test]
    fn what_comes_back_goes_out_first() {
        let unclaimed = Unclaimed::new(64);
        let (first, second) = (unclaimed.take(2, 0), unclaimed.take(2, 0));
        assert_eq!((first.clone(), second.clone()), (0..8, 8..15));
        assert!(!unclaimed.give_back(10..15));
        assert!(!unclaimed.give_back(3..8));
        assert!(!unclaimed.give_back(5..5));
        assert_eq!(unclaimed.parts(), [3..8, 10..64]);
        assert_eq!(unclaimed.left(), 59);
        assert!(unclaimed.has_several());
        assert_eq!(unclaimed.take(1, 0), 3..8);
        let mut all: Vec<u64> = Vec::new();
        while !unclaimed.is_empty() {
            all.extend(unclaimed.take(1, 0));
        }
        assert_eq!(all, (10..64).collect::<Vec<_>>());
        assert!(!unclaimed.has_several());
        assert!(unclaimed.give_back(20..21), "nothing else was left");
        assert!(!unclaimed.has_several() && !unclaimed.is_empty());
    }

    #[test]
    fn grids_of_more_workgroups_than_fit_a_word_are_handed_out_whole() {
        let end = u64::from(u32::MAX) + 1000;
        for start in [0, (1 << 31) - 600, 1 << 31, u64::from(u32::MAX) - 5] {
            let unclaimed = Unclaimed::of(std::iter::once(start..end).collect());
            assert_eq!(unclaimed.left(), end - start);
            let (mut next, mut shares) = (start, 0);
            while shares < 5000 && !unclaimed.is_empty() {
                let share = unclaimed.take(1, 0);
                assert_eq!(share.start, next, "{start}");
                (next, shares) = (share.end, shares + 1);
            }
            assert_eq!(unclaimed.is_empty(), next == end, "{start}");
            if !unclaimed.is_empty() {
                let last = next - 3..next;
                assert!(!unclaimed.give_back(last.clone()));
                assert_eq!(unclaimed.parts().first().map(|range| range.start), Some(last.start));
                assert_eq!(unclaimed.left(), end - last.start);
            }
        }
    }
}
