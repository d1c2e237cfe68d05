//! The [sums](super::sums) of sixteen lanes at once, by the same instructions for each.
//!
//! They are those of zeros and of numbers in the middle of the range, of halves also of denormal ones. Lanes with others are marked,
//! and left to the definition.

use super::sums::{Card, Factors};
use crate::exec::vector::float::single;

/// Sixteen numbers of as many lanes.
pub(crate) type Words = [u32; 16];

/// The exponent of zero: so far below all others that differences with it are shifts of everything.
const NONE: i32 = -1024;
/// Exponents of numbers in the middle of the range: scales by them, and by digits below, are normal singles.
const MIDDLE: i32 = 60;
/// Digits of products, and of everything, below the largest one's first that the grid has.
const PRODUCT_DIGITS: i32 = 24;
const SUM_DIGITS: i32 = 26;

/// A factor of each lane.
#[derive(Clone, Copy)]
pub(crate) struct Prepared {
    value: [f32; 16],
    /// Exponent that the field stands for, also of denormal numbers.
    exponent: [i32; 16],
    /// 1 where the number is left to the definition.
    others: Words,
}

/// An exponent without its bias, and the first digit and those behind it of a single.
#[inline(always)]
fn parts(bits: u32) -> (i32, i32) {
    let field = (bits >> 23 & 0xff).cast_signed();
    if field == 0 { (NONE, 0) } else { (field - 127, (bits & 0x7f_ffff | 0x80_0000).cast_signed()) }
}

#[inline(always)]
fn is_far(exponent: i32) -> bool {
    !(-MIDDLE..=MIDDLE).contains(&exponent)
}

impl Prepared {
    #[inline(always)]
    pub(crate) fn of(of: Factors, bits: &[u16; 16]) -> Prepared {
        let mut all = Prepared { value: [0.0; 16], exponent: [0; 16], others: [0; 16] };
        for lane in 0..16 {
            let bits = u32::from(bits[lane]);
            let (magnitude, sign) = (bits & 0x7fff, (bits & 0x8000) << 16);
            match of {
                Factors::Halves => {
                    // Of a denormal number this is one, too, which the product makes a normal one.
                    let scale = single::of((127 + 127 - 15) << 23);
                    let value = single::of(magnitude << 13) * scale;
                    all.value[lane] = single::of(value.to_bits() | sign);
                    all.exponent[lane] = (magnitude >> 10).max(1).cast_signed() - 15;
                    all.others[lane] = u32::from(magnitude >= 0x7c00);
                }
                Factors::Brains => {
                    let exponent = (magnitude >> 7).cast_signed() - 127;
                    all.value[lane] = single::of(bits << 16);
                    all.exponent[lane] = exponent;
                    all.others[lane] = u32::from((magnitude != 0) & is_far(2 * exponent));
                }
            }
        }
        all
    }
}

impl Prepared {
    /// One lane's in all of them.
    #[inline(always)]
    pub(crate) fn everywhere(&self, lane: usize) -> Prepared {
        Prepared {
            value: [self.value[lane]; 16],
            exponent: [self.exponent[lane]; 16],
            others: [self.others[lane]; 16],
        }
    }
}

/// A product of each lane: its value, and the exponent that those of its factors say, of zero none.
#[inline(always)]
fn product(a: &Prepared, b: &Prepared, lane: usize) -> (u32, i32) {
    let value = a.value[lane] * b.value[lane];
    let exponent = a.exponent[lane] + b.exponent[lane];
    (value.to_bits(), if value == 0.0 { NONE } else { exponent })
}

/// In units of a grid, of a single or of [`NONE`] with no digits: `above` is how far digits are above it at most.
#[inline(always)]
fn units(exponent: i32, digits: i32, grid: i32, above: i32) -> i32 {
    (digits << above) >> (grid - exponent + 23 + above).clamp(0, 31)
}

#[inline(always)]
fn scaled(units: i32, grid: i32) -> u32 {
    // To nearest even, and exact.
    let scale = single::of(((127 + grid) << 23).cast_unsigned());
    (units as f32 * scale).to_bits()
}

/// As gfx11 adds two products.
#[inline(always)]
fn of_gfx11(products: [(u32, i32); 2], c: u32) -> u32 {
    let (of_c, digits) = parts(c);
    let tops = products.map(|(bits, _)| parts(bits));
    let highest = products[0].1.max(products[1].1);
    let top = of_c.max(tops[0].0).max(tops[1].0);
    let grid = (top - SUM_DIGITS).max(highest - PRODUCT_DIGITS);
    let mut sum = units(of_c, digits, grid, 3);
    for ((bits, _), (exponent, digits)) in products.into_iter().zip(tops) {
        let opposes = (bits ^ c).cast_signed() >> 31;
        sum += units(exponent, digits, grid, 3) ^ opposes;
    }
    let none = (top == NONE) | (sum == 0);
    if none { 0 } else { scaled(sum, grid) ^ c & single::SIGN }
}

/// As gfx12 adds pairs of products.
#[inline(always)]
fn of_gfx12<const N: usize>(products: [(u32, i32); N], c: u32) -> u32 {
    let (of_c, digits) = parts(c);
    let mut highest = NONE;
    for (_, exponent) in products {
        highest = highest.max(exponent);
    }
    let grid = (of_c - SUM_DIGITS).max(highest - PRODUCT_DIGITS);
    let magnitude = units(of_c, digits, grid, 3);
    // What is all below the grid counts as nothing, also if it is negative.
    let negative = if magnitude == 0 { 0 } else { units(of_c, -digits, grid, 3) };
    let mut sum = if c & single::SIGN != 0 { negative } else { magnitude };
    for n in (0..N).step_by(2) {
        let own = products[n].1.max(products[n + 1].1) - PRODUCT_DIGITS;
        let mut both = 0;
        for (bits, _) in [products[n], products[n + 1]] {
            let (exponent, digits) = parts(bits);
            let digits = if bits & single::SIGN != 0 { -digits } else { digits };
            both += units(exponent, digits, own, 2);
        }
        sum += both >> (grid - own).clamp(0, 31);
    }
    if sum == 0 { 0 } else { scaled(sum, grid) }
}

/// `c` and the products of `N` pairs of each lane, as singles; 1 for lanes that are left to the definition.
#[inline(always)]
pub(crate) fn singles<const N: usize>(
    card: Card,
    [a, b]: [[&Prepared; N]; 2],
    c: &Words,
    r: &mut Words,
) -> Words {
    let mut others = [0; 16];
    for lane in 0..16 {
        let products: [_; N] = core::array::from_fn(|n| product(a[n], b[n], lane));
        let c = c[lane];
        r[lane] = match card {
            Card::Gfx11 => of_gfx11([products[0], products[1]], c),
            Card::Gfx12 => of_gfx12(products, c),
        };
        let mut other = u32::from((c & !single::SIGN != 0) & is_far((c >> 23 & 0xff).cast_signed() - 127));
        for n in 0..N {
            other |= a[n].others[lane] | b[n].others[lane];
        }
        others[lane] = other;
    }
    others
}

/// The low or the high halves of words.
#[inline(always)]
pub(crate) fn halves(words: &Words, high: bool) -> [u16; 16] {
    let shift = if high { 16 } else { 0 };
    words.map(|word| (word >> shift) as u16)
}

/// `v_dot2acc_f32_f16`: both products of each lane and the third source.
#[inline(always)]
fn of_words(card: Card, [a, b, c]: [&Words; 3], r: &mut Words, definition: impl Fn(u32, u32, u32) -> u32) {
    let factors =
        |words: &Words| [false, true].map(|high| Prepared::of(Factors::Halves, &halves(words, high)));
    let (x, y) = (factors(a), factors(b));
    let others = singles(card, [x.each_ref(), y.each_ref()], c, r);
    for lane in 0..16 {
        if others[lane] != 0 {
            r[lane] = definition(a[lane], b[lane], c[lane]);
        }
    }
}

#[inline(always)]
pub(crate) fn halves_of_gfx11(
    sources: [&Words; 3],
    r: &mut Words,
    definition: impl Fn(u32, u32, u32) -> u32,
) {
    of_words(Card::Gfx11, sources, r, definition);
}

#[inline(always)]
pub(crate) fn halves_of_gfx12(
    sources: [&Words; 3],
    r: &mut Words,
    definition: impl Fn(u32, u32, u32) -> u32,
) {
    of_words(Card::Gfx12, sources, r, definition);
}

#[cfg(test)]
mod tests {
    use super::super::sums;
    use super::*;

    #[test]
    fn sixteen_sums_are_as_each_alone() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let (mut all, mut left) = (0, 0);
        for round in 0..40_000 {
            let of = if round & 1 == 0 { Factors::Halves } else { Factors::Brains };
            // Of about the same size, and of any; sums of small integers cancel.
            let mut factor = |any: bool| -> [u16; 16] {
                core::array::from_fn(|_| {
                    let (bits, about) = (next(), if of == Factors::Halves { 0x83ff } else { 0x81ff });
                    match bits >> 28 {
                        0 => 0,
                        1 if any => bits as u16,
                        2..=5 => (bits & about & 0xff80) as u16 | 0x3c00,
                        7 if of == Factors::Halves => bits as u16 & 0x83ff,
                        _ => (bits & about) as u16 | 0x3c00,
                    }
                })
            };
            let any = round & 2 != 0;
            let (a, b): ([_; 4], [_; 4]) =
                (core::array::from_fn(|_| factor(any)), core::array::from_fn(|_| factor(any)));
            let c: Words = core::array::from_fn(|_| {
                let bits = next();
                match next() >> 29 {
                    0 => bits & 0x8000_0000,
                    1 => bits,
                    2 | 3 => bits & 0x807f_0000 | 0x3f80_0000,
                    4 => bits & 0x87ff_ffff | 0x3000_0000,
                    _ => bits & 0x80ff_ffff | 0x3f00_0000,
                }
            });
            let [x, y] = [a, b].map(|factors| factors.map(|bits| Prepared::of(of, &bits)));
            let (mut r, mut s) = ([[0; 16]; 2], [0; 16]);
            let two = [[&x[0], &x[1]], [&y[0], &y[1]]];
            let others = [Card::Gfx11, Card::Gfx12].map(|card| singles(card, two, &c, &mut r[card as usize]));
            let of_four = singles(Card::Gfx12, [x.each_ref(), y.each_ref()], &c, &mut s);
            for lane in 0..16 {
                let pair = |n: usize| [a[n][lane], b[n][lane]];
                let (two, four) = ([pair(0), pair(1)], [pair(0), pair(1), pair(2), pair(3)]);
                let expected = [
                    (sums::single(Card::Gfx11, of, two, c[lane]), r[0][lane], others[0][lane]),
                    (sums::single(Card::Gfx12, of, two, c[lane]), r[1][lane], others[1][lane]),
                    (sums::single(Card::Gfx12, of, four, c[lane]), s[lane], of_four[lane]),
                ];
                for (n, (expected, got, other)) in expected.into_iter().enumerate() {
                    all += 1;
                    left += other;
                    assert!(
                        other != 0 || got == expected,
                        "{n} {of:?} {four:x?} {:x}: {got:x}, not {expected:x}",
                        c[lane]
                    );
                }
            }
        }
        assert!(left * 2 < all, "{left} of {all} are left to the definition");
    }
}
