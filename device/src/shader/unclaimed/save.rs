//! Workgroups that have not begun, as plain values.

use super::Unclaimed;
use crate::save::{Broken, check};

impl Unclaimed {
    /// Returns the first workgroup of each range, and the one after its last.
    pub(in crate::shader) fn save(&self) -> Vec<(u64, u64)> {
        self.parts().into_iter().map(|range| (range.start, range.end)).collect()
    }

    /// Restores the ranges that are left of the first `total` workgroups.
    pub(in crate::shader) fn restored(total: u64, saved: &[(u64, u64)]) -> Result<Self, Broken> {
        let (mut ranges, mut last) = (Vec::new(), 0);
        for &(start, end) in saved {
            check("first workgroup of a range", start, start >= last && start < end)?;
            check("last workgroup of a range", end, end <= total)?;
            ranges.push(start..end);
            last = end;
        }
        Ok(Self::of(ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_on_where_they_were_unless_they_overlap_or_leave_the_grid() {
        let original = Unclaimed::new(64);
        let (_, second) = (original.take(2, 0), original.take(2, 0));
        original.give_back(second.start + 2..second.end);
        let saved = original.save();
        let restored = Unclaimed::restored(64, &saved).expect("ranges");
        assert_eq!((restored.save(), restored.left()), (saved, original.left()));
        assert_eq!(restored.take(1, 0), original.take(1, 0));
        for bad in [&[(3, 3)][..], &[(4, 2)], &[(0, 5), (4, 6)], &[(60, 65)], &[(8, 9), (0, 1)]] {
            assert!(Unclaimed::restored(64, bad).is_err(), "{bad:?}");
        }
    }
}
