//! Sums of products of small integers, of which matrices consist: two products at a time, as those of 16-bit halves of words.
//!
//! A sum of all products of an element of D has no more than 24 bits, so only what is added to C can leave 32.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use crate::lanes::{BackendKind, Lanes};
use crate::wave::Chunk;

const N: usize = 16;
/// Rows that are calculated at a time without AVX-512: as many sums as the registers have room for.
const FEW: usize = 4;

/// Element `j` of the low half of each word, and of its high half, as 16-bit integers in these halves.
#[inline(always)]
pub(crate) fn halves<L: Lanes>(word: L::V, bits: u32, j: u32, signed: bool) -> L::V {
    let low = L::shl(word, L::splat(32 - bits - bits * j));
    let high = L::shl(word, L::splat(16 - bits - bits * j));
    let (below, above) = (L::splat(32 - bits), L::splat(16 - bits));
    let [low, high] = match signed {
        true => [L::sar(low, below), L::sar(high, above)],
        false => [L::shr(low, below), L::shr(high, above)],
    };
    L::or(L::and(low, L::splat(0xffff)), L::and(high, L::splat(0xffff_0000)))
}

/// Element `j` of each word as an integer.
#[inline(always)]
pub(crate) fn whole<L: Lanes>(word: L::V, bits: u32, j: u32, signed: bool) -> L::V {
    let top = L::shl(word, L::splat(32 - bits - bits * j));
    match signed {
        true => L::sar(top, L::splat(32 - bits)),
        false => L::shr(top, L::splat(32 - bits)),
    }
}

/// Rows of products from `first` on, of pairs of elements of A and B.
#[inline(always)]
fn rows<L: Lanes, const P: usize, const ROWS: usize>(
    a: &[Chunk; P],
    b: &[Chunk; P],
    first: usize,
) -> [L::V; ROWS] {
    let mut sums = [L::splat(0); ROWS];
    for p in 0..P {
        let b = L::load(&b[p]);
        for r in 0..ROWS {
            sums[r] = L::add(sums[r], L::dot_halves(L::splat(a[p].0[(first + r) % N]), b));
        }
    }
    sums
}

/// All sums of products, row by row, of pairs of elements of A, in the lanes of their rows, and of B, in those of their columns.
#[inline(always)]
pub(crate) fn dense<L: Lanes, const P: usize>(a: &[Chunk; P], b: &[Chunk; P], sums: &mut [Chunk; N]) {
    // The compiler would take elements from registers in several steps.
    let a = core::hint::black_box(a);
    if L::KIND == BackendKind::Avx512 {
        let all = rows::<L, P, N>(a, b, 0);
        for r in 0..N {
            L::store(&mut sums[r], all[r]);
        }
        return;
    }
    for first in (0..N).step_by(FEW) {
        let few = rows::<L, P, FEW>(a, b, first);
        for r in 0..FEW {
            L::store(&mut sums[(first + r) % N], few[r]);
        }
    }
}

/// C and a sum of products; with `clamp` the nearest number of 32 bits.
#[inline(always)]
pub(crate) fn added<L: Lanes>(c: L::V, sum: L::V, clamp: bool) -> L::V {
    let total = L::add(c, sum);
    if !clamp {
        return total;
    }
    let beyond = L::and(L::xor(c, total), L::xor(sum, total));
    let most = L::xor(L::sar(c, L::splat(31)), L::splat(i32::MAX.cast_unsigned()));
    L::select(L::lt_i(beyond, L::splat(0)), most, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Portable;

    /// Numbers near the ends of 32 bits and near 0.
    const WORDS: [i32; N] = [
        i32::MIN,
        i32::MIN + 1,
        i32::MIN + 100,
        -70_000,
        -101,
        -100,
        -1,
        0,
        1,
        99,
        100,
        101,
        70_000,
        i32::MAX - 100,
        i32::MAX - 1,
        i32::MAX,
    ];

    #[test]
    fn sums_wrap_or_end_at_the_ends_of_32_bits() {
        let c = Portable::from_array(WORDS.map(i32::cast_unsigned));
        for sum in WORDS.map(|word| word.clamp(-1 << 24, 1 << 24)) {
            let splat = Portable::splat(sum.cast_unsigned());
            let [wrapped, clamped] =
                [false, true].map(|clamp| Portable::to_array(added::<Portable>(c, splat, clamp)));
            for (n, c) in WORDS.into_iter().enumerate() {
                assert_eq!(wrapped[n].cast_signed(), c.wrapping_add(sum), "{c} + {sum}");
                assert_eq!(clamped[n].cast_signed(), c.saturating_add(sum), "{c} + {sum}, clamped");
            }
        }
    }

    #[test]
    fn elements_of_words_are_extended_as_their_signs_say() {
        let word = 0x9e_f0_7f_83_u32;
        for (bits, signed) in [(8, false), (8, true), (4, false), (4, true)] {
            let element = |n: u32| {
                let value = (word >> (n * bits) & ((1 << bits) - 1)).cast_signed();
                if signed && value >> (bits - 1) != 0 { value - (1 << bits) } else { value }
            };
            for j in 0..32 / bits {
                let got = Portable::to_array(whole::<Portable>(Portable::splat(word), bits, j, signed))[0];
                assert_eq!(got.cast_signed(), element(j), "element {j} of {bits} bits, signed: {signed}");
            }
            for j in 0..16 / bits {
                let got = Portable::to_array(halves::<Portable>(Portable::splat(word), bits, j, signed))[0];
                let parts = [i32::from(got as i16), i32::from((got >> 16) as i16)];
                assert_eq!(
                    parts,
                    [element(j), element(j + 16 / bits)],
                    "pair {j} of {bits} bits, signed: {signed}"
                );
            }
        }
    }
}
