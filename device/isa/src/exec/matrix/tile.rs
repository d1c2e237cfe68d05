//! D of dense matrices with sixteen rows, columns and products of 16-bit floats, all of it at a time.
//!
//! For backends with registers for sixteen sums: two elements of each column of B become singles right before they are
//! multiplied, so that they are never in memory.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::wmma::both;
use crate::exec::di::Di;
use crate::lanes::Lanes;
use crate::wave::Chunk;

const N: usize = 16;

/// The lanes that have elements 2*n* and 2*n* + 1 of sixteen rows of A, and of sixteen columns of B.
pub(crate) struct Pairs<'a> {
    pub(crate) a: [&'a Chunk; N / 2],
    pub(crate) b: [&'a Chunk; N / 2],
}

/// Signs that the modifiers of A and B change in products, as bits of words of either.
#[inline(always)]
fn signs(d: &Di) -> u32 {
    // `neg` is for the elements in low halves, `neg_hi` for those in high ones.
    let low = d.src[0].neg ^ d.src[1].neg;
    let high = (d.imm ^ d.imm >> 1) & 1;
    u32::from(low) << 15 | high << 31
}

/// Both elements of each row of A as singles; [`element`] finds them.
#[inline(always)]
fn left<L: Lanes, const BRAIN: bool>(words: &Chunk, into: &mut [Chunk; 2]) {
    if BRAIN {
        let both = both::<L, true>(L::load(words));
        L::store(&mut into[0], both[0]);
        L::store(&mut into[1], both[1]);
    } else if let Some(halves) = L::ordered_halves(words) {
        L::store(&mut into[0], halves[0]);
        L::store(&mut into[1], halves[1]);
    } else {
        let halves = L::interleave2(both::<L, false>(L::load(words)));
        into[0].0.copy_from_slice(&halves[..N]);
        into[1].0.copy_from_slice(&halves[N..]);
    }
}

/// Element `part` of row `row`.
#[inline(always)]
fn element<const BRAIN: bool>(left: &[Chunk; 2], row: usize, part: usize) -> u32 {
    if BRAIN { left[part].0[row] } else { left[row / 8].0[row % 8 * 2 + part] }
}

/// The rows of D from those of C, and whether there are NaNs among them, which have any bits.
#[inline(always)]
pub(crate) fn sums<L: Lanes, const BRAIN: bool>(
    d: &Di,
    pairs: &Pairs<'_>,
    c: [L::V; N],
) -> ([L::V; N], bool) {
    let mut sums = c;
    let signs = L::splat(signs(d));
    let mut a = [[Chunk([0; N]); 2]; N / 2];
    for n in 0..N / 2 {
        left::<L, BRAIN>(pairs.a[n], &mut a[n]);
    }
    // The compiler would take elements from registers in several steps, where a multiplication has them from memory in none.
    let a = core::hint::black_box(&a);
    for n in 0..N / 2 {
        let b = both::<L, BRAIN>(L::xor(L::load(pairs.b[n]), signs));
        for part in 0..2 {
            for r in 0..N {
                sums[r] = L::fma(L::splat(element::<BRAIN>(&a[n], r, part)), b[part], sums[r]);
            }
        }
    }
    let mut nans = 0;
    for r in 0..N / 2 {
        nans |= L::unordered(sums[2 * r], sums[2 * r + 1]);
    }
    (sums, nans != 0)
}
