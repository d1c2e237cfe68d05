//! Sixteen elements of D at a time.
//!
//! In the usual case, when all factors are between 2^-30 and 2^30 and C is at most 64 times as large as the largest
//! product, everything of [`fused`](super::fused)'s rule fits in 32 bits: products, which singles hold exactly,
//! become integers in units of the last digit that is kept, and so does C. A larger C is added with the sum's last
//! digits gathered in one. A C that is an infinity, a NaN or tiny is not handled here.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use zerocopy::FromZeros;

use super::convert::{EMPTIES, EMPTY, Left, POWERS, Right, SIXTEEN, VECTORS};
use super::group::rows_at_once;
use crate::exec::vector::float::single;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::Chunk;

/// Numbers of rules, as constants of types.
pub(super) mod rule {
    pub(in super::super) const CHAIN: u8 = 0;
    pub(in super::super) const EIGHTS: u8 = 1;
    pub(in super::super) const FOURS: u8 = 2;
    pub(in super::super) const HALVES: u8 = 3;
    pub(in super::super) const INTEGERS: u8 = 4;
}

/// Products that a rule adds at a time.
pub(super) const fn group_of(rule: u8) -> usize {
    match rule {
        rule::EIGHTS => 8,
        rule::FOURS => 4,
        rule::HALVES => 16,
        _ => 1,
    }
}

/// Sums, and the lanes of each that are to be done again.
pub(super) struct Sums<L: Lanes, const R: usize> {
    pub(super) value: [L::V; R],
    pub(super) again: [u16; R],
}

/// Returns the number that is added to the exponents of products, in the place of the exponent field, to make them
/// integers in units of 2^-24 of the power of two that the largest product begins with. It is positive, and at most
/// 126.
#[inline(always)]
fn scale<L: Lanes>(power: L::V) -> L::V {
    L::shl(L::sub(L::splat(255), power), L::splat(23))
}

/// The factor that makes such integers of C.
#[inline(always)]
fn scale_of_c<L: Lanes>(scale: L::V) -> L::V {
    L::add(scale, L::splat((127 + 24 + POWERS - 255) << 23))
}

/// The inverse of [`scale_of_c`].
#[inline(always)]
pub(super) fn inverse<L: Lanes>(scale: L::V) -> L::V {
    L::sub(L::splat((127 + 255 - 24 - POWERS) << 23), scale)
}

/// C in a product's units, rounded down: an integer, or the least or the largest one if C has more than 31 digits.
#[inline(always)]
pub(super) fn whole<L: Lanes>(c: L::V, scale: L::V) -> L::V {
    L::floored_product(c, scale_of_c::<L>(scale))
}

/// Returns words whose sign bit is set if C was too large to be added to products: [`whole`] has turned numbers of 31
/// digits or more, infinities and NaNs into -2^31.
#[inline(always)]
pub(super) fn large<L: Lanes>(whole: L::V) -> L::V {
    L::add(whole, L::splat(1 << 30))
}

/// As [`whole`], but 0 for numbers less than a half: more than 25 bits below.
#[inline(always)]
fn whole_halves<L: Lanes>(c: L::V, scale: L::V) -> L::V {
    let scaled = L::fmul(c, scale_of_c::<L>(scale));
    let magnitude = L::and(scaled, L::splat(!single::SIGN));
    L::and(L::floored(scaled), L::sar(L::sub(L::splat(0x3eff_ffff), magnitude), L::splat(31)))
}

/// Adds a sum of products, an integer, to a C that is [`whole`]; and an integer with the sign bit set where that is large.
#[inline(always)]
fn finish<L: Lanes>(sum: L::V, scale: L::V, whole: L::V) -> (L::V, L::V) {
    (L::fmul(L::numbers(L::add(sum, whole)), inverse::<L>(scale)), large::<L>(whole))
}

/// The lanes with a C that is large, or without products.
#[inline(always)]
pub(super) fn left_out<L: Lanes>(large: L::V, power: L::V) -> u16 {
    L::lt_i(large, L::splat(0)) | L::eq(power, L::splat(EMPTY))
}

/// Does the lanes of `mask` another way, those of `again` not at all.
#[inline(always)]
pub(super) fn mend<L: Lanes>(result: &mut L::V, mask: u16, [sum, power, c]: [L::V; 3], again: &mut u16) {
    let (large, undone) = finish_large::<L>(sum, power, c);
    *again |= undone & mask;
    *result = L::select(mask, large, *result);
}

/// As [`mend`], of lanes that have products, where `large` is negative.
#[inline(always)]
pub(super) fn mend_large<L: Lanes>(
    result: &mut L::V,
    large: L::V,
    [sum, power, c]: [L::V; 3],
    again: &mut u16,
) {
    let mask = L::lt_i(large, L::splat(0));
    let exponent = L::and(c, L::splat(0xff << 23));
    *again |= mask & L::eq(exponent, L::splat(0xff << 23));
    *result = L::select(mask, add_to_large::<L>(sum, power, c, L::shr(exponent, L::splat(23))), *result);
}

/// The sum with a C that begins at least six bits above the largest product, and whose exponent is `field`, or with
/// an empty sum; anything for others.
#[inline(always)]
fn add_to_large<L: Lanes>(sum: L::V, power: L::V, c: L::V, field: L::V) -> L::V {
    let digits = L::or(L::and(c, L::splat(0x7f_ffff)), L::splat(0x80_0000));
    let digits = L::shl(digits, L::splat(4));
    let sign = L::sar(c, L::splat(31));
    let digits = L::sub(L::xor(digits, sign), sign);
    // The sum in units of 31 bits below C, then of 27 bits with a last one for what is below.
    let below = L::sub(L::sub(field, power), L::splat((127 + 6 - POWERS as i32).cast_unsigned()));
    let sum = L::sar(L::shl(sum, L::splat(1)), L::min_u(below, L::splat(31)));
    let rest = L::min_u(L::and(sum, L::splat(15)), L::splat(1));
    let sum = L::or(L::sar(sum, L::splat(4)), rest);
    L::fmul(L::numbers(L::add(digits, sum)), L::shl(L::sub(field, L::splat(27)), L::splat(23)))
}

/// The sum with a C that begins at least six bits above the largest product, or where there are no products; and the
/// lanes where it is something else.
#[inline(always)]
fn finish_large<L: Lanes>(sum: L::V, power: L::V, c: L::V) -> (L::V, u16) {
    let field = L::and(L::shr(c, L::splat(23)), L::splat(0xff));
    let result = add_to_large::<L>(sum, power, c, field);
    let zero = L::eq(L::shl(c, L::splat(1)), L::splat(0));
    let unusual = L::lt_u(L::splat(254 - 28), L::sub(field, L::splat(28)));
    (L::select(zero, L::splat(0), result), unusual & !zero)
}

/// A sum of products scaled to integers.
#[inline(always)]
pub(super) fn add_product<L: Lanes>(sum: L::V, a: L::V, b: L::V, scale: L::V) -> L::V {
    L::add(sum, L::truncated(L::add(L::fmul(a, b), scale)))
}

/// Both sums in the units of the larger power, and that power.
#[inline(always)]
fn join<L: Lanes>(sums: [L::V; 2], powers: [L::V; 2]) -> (L::V, L::V) {
    let power = L::max_u(powers[0], powers[1]);
    let most = L::splat(31);
    let first = L::sar(sums[0], L::min_u(L::sub(power, powers[0]), most));
    let second = L::sar(sums[1], L::min_u(L::sub(power, powers[1]), most));
    (L::add(first, second), power)
}

/// Place of four rows and sixteen columns of D.
#[derive(Clone, Copy)]
pub(super) struct Quad {
    /// Fours of rows, and sixteens of columns.
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Elements of a row of A.
    pub(super) count: usize,
}

/// Byte `n` of each word.
#[inline(always)]
pub(super) fn byte<L: Lanes>(words: L::V, n: usize) -> L::V {
    L::and(L::shr(words, L::splat(8 * n as u32)), L::splat(0xff))
}

/// The [`scale`]s of four rows, from the powers in the bytes of words.
#[inline(always)]
pub(super) fn scales<L: Lanes>(powers: L::V) -> [L::V; 4] {
    let field = L::splat(0xff << 23);
    [
        L::and(L::not(L::shl(powers, L::splat(23))), field),
        L::and(L::not(L::shl(powers, L::splat(15))), field),
        L::and(L::not(L::shl(powers, L::splat(7))), field),
        L::and(L::not(L::shr(powers, L::splat(1))), field),
    ]
}

/// Returns true if a byte is [`EMPTY`]. No byte may be smaller.
#[inline(always)]
pub(super) fn is_some_empty<L: Lanes>(powers: L::V) -> bool {
    let zero = L::xor(powers, L::splat(EMPTIES));
    let borrowed = L::sub(zero, L::splat(0x0101_0101));
    // Of each such byte the highest bit, and of some above such a byte.
    let bits = L::and(L::and(borrowed, L::not(zero)), L::splat(0x8080_8080));
    L::eq(bits, L::splat(0)) != u16::MAX
}

/// `N` elements with the same line, or powers, from number `start` of group `sixteens` of sixteen on; `start` is a
/// multiple of `N`.
#[inline(always)]
pub(super) fn group<T, const N: usize>(all: &[T; VECTORS], sixteens: usize, start: usize) -> &[T; N] {
    &all.as_chunks::<N>().0[(sixteens * SIXTEEN + start) / N % (VECTORS / N)]
}

/// Returns `values` as a reference that the compiler takes for another one: without AVX-512 there are too few
/// registers to keep them from one row to the next, and a copy is no faster.
#[inline(always)]
fn loaded_again<L: Lanes, const N: usize>(values: &[Chunk; N]) -> &[Chunk; N] {
    if L::KIND == BackendKind::Avx512 { values } else { core::hint::black_box(values) }
}

/// Less than [`TINY`] for a negative C that may become zero where it is made an integer, and is not rounded down then.
#[inline(always)]
fn above_tiny<L: Lanes>(c: L::V) -> L::V {
    L::sub(c, L::splat(single::SIGN + 1))
}

/// 2^-112, where backends do not round as an instruction says: the least factor that makes integers is 2^-37.
const TINY: u32 = (127 - 112) << 23;

/// Largest sum of products and a C that is not large: each product is less than 2^26, and such a C is less than 2^30.
///
/// All other sums are larger, those that have wrapped too.
pub(super) const MOST: u32 = (127 + 29) << 23;

/// The powers of a group's products: one row's in each byte. Those without products are anything below 128.
#[inline(always)]
pub(super) fn largest_powers<L: Lanes, const N: usize>(
    left: &[[u32; 4]; N],
    row: usize,
    right: &[Chunk; N],
) -> L::V {
    let mut powers = L::add(L::splat(left[0][row]), L::load(&right[0]));
    for n in 1..N {
        powers = L::max_bytes(powers, L::add(L::splat(left[n][row]), L::load(&right[n])));
    }
    powers
}

/// Replaces bytes below [`EMPTY`] by [`EMPTY`].
#[inline(always)]
pub(super) fn at_least_empty<L: Lanes>(powers: L::V) -> L::V {
    L::max_bytes(powers, L::splat(EMPTIES))
}

/// As [`quad`], for groups of `N` singles' products.
#[inline(always)]
fn grouped<L: Lanes, const N: usize>(a: &Left, b: &Right, at: Quad, c: [L::V; 4]) -> Sums<L, 4> {
    let mut sums = Sums { value: c, again: [0; 4] };
    let mut least = L::splat(u32::MAX);
    for r in 0..4 {
        least = L::min_u(least, above_tiny::<L>(c[r]));
    }
    if L::lt_u(least, L::splat(TINY)) != 0 {
        for r in 0..4 {
            sums.again[r] = L::lt_u(above_tiny::<L>(c[r]), L::splat(TINY));
        }
    }
    let (left, row) = (at.rows / 4, at.rows % 4);
    for start in (0..at.count).step_by(N) {
        let powers =
            largest_powers::<L, N>(group(&a.power, left, start), row, group(&b.power, at.columns, start));
        let powers = at_least_empty::<L>(powers);
        let scales = scales::<L>(powers);
        let empty = is_some_empty::<L>(powers);
        let left_values: &[_; N] = group(&a.value, left, start);
        let right_values: &[_; N] = group(&b.value, at.columns, start);
        for r in 0..4 {
            let right_values = loaded_again::<L, N>(right_values);
            let (scale, before) = (scales[r], sums.value[r]);
            let mut total = L::splat(0);
            for n in 0..N {
                let value = L::splat(left_values[n].0[row * 4 + r]);
                total = add_product::<L>(total, value, L::load(&right_values[n]), scale);
            }
            let large;
            (sums.value[r], large) = finish::<L>(total, scale, whole::<L>(before, scale));
            if empty {
                let top = byte::<L>(powers, r);
                let mask = left_out::<L>(large, top);
                mend::<L>(&mut sums.value[r], mask, [total, top, before], &mut sums.again[r]);
            } else if L::lt_i(large, L::splat(0)) != 0 {
                let top = byte::<L>(powers, r);
                mend_large::<L>(&mut sums.value[r], large, [total, top, before], &mut sums.again[r]);
            }
        }
    }
    sums
}

/// As [`quad`], for sixteen products each, of which the even and the odd ones are added apart.
#[inline(always)]
fn halves<L: Lanes>(a: &Left, b: &Right, at: Quad, c: [L::V; 4]) -> Sums<L, 4> {
    const N: usize = group_of(rule::HALVES);
    let mut sums = Sums { value: c, again: [0; 4] };
    let (left, row) = (at.rows / 4, at.rows % 4);
    for start in (0..at.count).step_by(N) {
        let left_powers: &[_; N] = group(&a.power, left, start);
        let right_powers: &[_; N] = group(&b.power, at.columns, start);
        let mut tops = [L::splat(EMPTIES); 2];
        for n in 0..N {
            let power = L::add(L::splat(left_powers[n][row]), L::load(&right_powers[n]));
            tops[n % 2] = L::max_bytes(tops[n % 2], power);
        }
        let left_values: &[_; N] = group(&a.value, left, start);
        let right_values: &[_; N] = group(&b.value, at.columns, start);
        for r in 0..4 {
            let right_values = loaded_again::<L, N>(right_values);
            let before = sums.value[r];
            let powers = [byte::<L>(tops[0], r), byte::<L>(tops[1], r)];
            let scales = [scale::<L>(powers[0]), scale::<L>(powers[1])];
            let mut products = [L::splat(0); 2];
            for n in 0..N {
                let value = L::splat(left_values[n].0[row * 4 + r]);
                let factor = L::load(&right_values[n]);
                products[n % 2] = add_product::<L>(products[n % 2], value, factor, scales[n % 2]);
            }
            let (total, top) = join::<L>(products, powers);
            let large;
            let scale = scale::<L>(top);
            (sums.value[r], large) = finish::<L>(total, scale, whole_halves::<L>(before, scale));
            let empty = L::sub(top, L::splat(EMPTY + 1));
            if L::lt_i(empty, L::splat(0)) != 0 {
                let mask = left_out::<L>(large, top);
                mend::<L>(&mut sums.value[r], mask, [total, top, before], &mut sums.again[r]);
            } else if L::lt_i(large, L::splat(0)) != 0 {
                mend_large::<L>(&mut sums.value[r], large, [total, top, before], &mut sums.again[r]);
            }
        }
    }
    sums
}

/// Four rows of sixteen columns of D, from those of C.
#[inline(always)]
pub(super) fn quad<L: Lanes, const RULE: u8>(a: &Left, b: &Right, at: Quad, c: [L::V; 4]) -> Sums<L, 4> {
    match RULE {
        rule::EIGHTS if L::ROUNDS => return rows_at_once::<L, { group_of(rule::EIGHTS) }>(a, b, at, c),
        rule::FOURS if L::ROUNDS => return rows_at_once::<L, { group_of(rule::FOURS) }>(a, b, at, c),
        rule::EIGHTS => return grouped::<L, { group_of(rule::EIGHTS) }>(a, b, at, c),
        rule::FOURS => return grouped::<L, { group_of(rule::FOURS) }>(a, b, at, c),
        rule::HALVES => return halves::<L>(a, b, at, c),
        _ => {}
    }
    let mut sums = Sums { value: c, again: [0; 4] };
    let (left, row) = (at.rows / 4, at.rows % 4);
    for k in 0..at.count {
        let [left]: &[_; 1] = group(&a.value, left, k);
        let [right]: &[_; 1] = group(&b.value, at.columns, k);
        let right = L::load(right);
        for r in 0..4 {
            let left = L::splat(left.0[row * 4 + r]);
            sums.value[r] = match RULE {
                rule::CHAIN => L::fma(left, right, sums.value[r]),
                // Two products of each.
                _ => L::add(sums.value[r], L::dot_halves(left, right)),
            };
        }
    }
    if RULE == rule::CHAIN {
        for r in 0..4 {
            sums.again[r] = L::unordered(sums.value[r], sums.value[r]);
        }
    }
    sums
}

/// An element of A for sixteen columns, and which elements of B it is multiplied with.
#[derive(Clone, Copy, FromZeros)]
pub(super) struct Term {
    pub(super) value: Chunk,
    pub(super) power: Chunk,
    pub(super) column: usize,
}

/// Sixteen elements of a row of D, from those of C.
#[inline(always)]
pub(super) fn line<L: Lanes, const RULE: u8>(terms: &[Term], b: &Right, c: L::V) -> Sums<L, 1> {
    let mut sums = Sums { value: [c], again: [0] };
    if !L::ROUNDS && (RULE == rule::FOURS || RULE == rule::EIGHTS) {
        sums.again[0] = L::lt_u(above_tiny::<L>(c), L::splat(TINY));
    }
    let group = group_of(RULE);
    for terms in terms.chunks_exact(group) {
        if RULE == rule::CHAIN || RULE == rule::INTEGERS {
            let (a, b) = (L::load(&terms[0].value), L::load(&b.value[terms[0].column % VECTORS]));
            sums.value[0] = match RULE {
                rule::CHAIN => L::fma(a, b, sums.value[0]),
                _ => L::add(sums.value[0], L::mul(a, b)),
            };
            continue;
        }
        let parts = if RULE == rule::HALVES { 2 } else { 1 };
        let mut powers = [L::splat(EMPTY); 2];
        for n in 0..group / parts {
            for part in 0..parts {
                let term = &terms[n * parts + part];
                let power = L::add(L::load(&term.power), L::load(&b.power[term.column % VECTORS]));
                powers[part] = L::max_u(powers[part], L::and(power, L::splat(0xff)));
            }
        }
        let scales = [scale::<L>(powers[0]), scale::<L>(powers[1])];
        let mut products = [L::splat(0); 2];
        for n in 0..group / parts {
            for part in 0..parts {
                let term = &terms[n * parts + part];
                let (a, b) = (L::load(&term.value), L::load(&b.value[term.column % VECTORS]));
                products[part] = add_product::<L>(products[part], a, b, scales[part]);
            }
        }
        let c = sums.value[0];
        let (total, top) = match RULE {
            rule::HALVES => join::<L>(products, powers),
            _ => (products[0], powers[0]),
        };
        let scale = scale::<L>(top);
        let whole = match RULE {
            rule::HALVES => whole_halves::<L>(c, scale),
            _ => whole::<L>(c, scale),
        };
        let high;
        (sums.value[0], high) = finish::<L>(total, scale, whole);
        let mask = left_out::<L>(high, top);
        if mask != 0 {
            mend::<L>(&mut sums.value[0], mask, [total, top, c], &mut sums.again[0]);
        }
    }
    if RULE == rule::CHAIN {
        sums.again[0] = L::unordered(sums.value[0], sums.value[0]);
    }
    sums
}
