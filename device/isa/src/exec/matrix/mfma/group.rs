//! A group of products for four rows and sixteen columns of D, the rows in turns: for backends that round as instructions say
//! and have registers for that.

use super::convert::{Left, Right};
use super::sum::{
    MOST, Quad, Sums, add_product, at_least_empty, byte, group, inverse, is_some_empty, large,
    largest_powers, left_out, mend, mend_large, scales, whole,
};
use crate::lanes::Lanes;

/// A group of products for four rows: the elements from number `start` of a line on.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) at: Quad,
    pub(super) start: usize,
    /// True if elements of D may have no products at all.
    pub(super) may_be_empty: bool,
}

impl Group {
    /// Its [`largest_powers`].
    #[inline(always)]
    pub(super) fn powers<L: Lanes, const N: usize>(self, a: &Left, b: &Right) -> L::V {
        let left = group(&a.power, self.at.rows / 4, self.start);
        largest_powers::<L, N>(left, self.at.rows % 4, group(&b.power, self.at.columns, self.start))
    }

    /// Adds its products, whose powers are given, to sums.
    ///
    /// All rows take turns: for backends that round as instructions say and have registers for that.
    #[inline(always)]
    pub(super) fn add<L: Lanes, const N: usize>(
        self,
        a: &Left,
        b: &Right,
        powers: L::V,
        mut sums: Sums<L, 4>,
    ) -> Sums<L, 4> {
        let powers = if self.may_be_empty { at_least_empty::<L>(powers) } else { powers };
        let left: &[_; N] = group(&a.value, self.at.rows / 4, self.start);
        let right: &[_; N] = group(&b.value, self.at.columns, self.start);
        let row = self.at.rows % 4 * 4;
        let scales = scales::<L>(powers);
        let before = sums.value;
        let mut totals = [L::splat(0); 4];
        let mut numbers = [L::splat(0); 4];
        for r in 0..4 {
            for n in 0..N {
                let value = L::splat(left[n].0[row + r]);
                totals[r] = add_product::<L>(totals[r], value, L::load(&right[n]), scales[r]);
            }
            numbers[r] = L::numbers(L::add(totals[r], whole::<L>(before[r], scales[r])));
            sums.value[r] = L::fmul(numbers[r], inverse::<L>(scales[r]));
        }
        let first = L::larger_magnitude(numbers[0], numbers[1]);
        let second = L::larger_magnitude(numbers[2], numbers[3]);
        let most = L::larger_magnitude(first, second);
        if self.may_be_empty && is_some_empty::<L>(powers) {
            for r in 0..4 {
                let top = byte::<L>(powers, r);
                let mask = left_out::<L>(large::<L>(whole::<L>(before[r], scales[r])), top);
                mend::<L>(&mut sums.value[r], mask, [totals[r], top, before[r]], &mut sums.again[r]);
            }
        } else if L::lt_i(L::splat(MOST - 1), most) != 0 {
            for r in 0..4 {
                let top = byte::<L>(powers, r);
                let large = large::<L>(whole::<L>(before[r], scales[r]));
                mend_large::<L>(&mut sums.value[r], large, [totals[r], top, before[r]], &mut sums.again[r]);
            }
        }
        sums
    }
}

/// As [`quad`](super::sum::quad), with rows that take [turns](Group::add).
#[inline(always)]
pub(super) fn rows_at_once<L: Lanes, const N: usize>(
    a: &Left,
    b: &Right,
    at: Quad,
    c: [L::V; 4],
) -> Sums<L, 4> {
    let mut sums = Sums { value: c, again: [0; 4] };
    for start in (0..at.count).step_by(N) {
        let group = Group { at, start, may_be_empty: true };
        sums = group.add::<L, N>(a, b, group.powers::<L, N>(a, b), sums);
    }
    sums
}
