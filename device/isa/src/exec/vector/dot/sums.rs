//! Sums of products of 16-bit floats, as cards form them: on a grid, with all digits below it cut off, and rounded
//! once.
//!
//! Source: results captured on gfx1100 and gfx1201 (ROCm/rocm-systems, `emulation/rocjitsu/tests/fixtures/float_dot`), and the
//! arithmetic that issue 12056 there makes of them.

use crate::exec::vector::float::{half, single};
pub(crate) use crate::registers::Card;

/// The result where a factor is a NaN: its payload is no source's.
const FACTOR_NAN: u32 = 0xffc0_0a3d;
/// Of the same as a half and as a `bfloat16`.
const FACTOR_NAN_HALF: u16 = 0xfe3d;
const FACTOR_NAN_BRAIN: u16 = 0xfffd;

/// The exponent of a number that is zero: below all others.
const NONE: i32 = -1024;
/// Digits of products, and of everything, below the largest one's first that the grid has.
const PRODUCT_DIGITS: i32 = 24;
const SUM_DIGITS: i32 = 26;
/// Exponents of the smallest normal numbers.
const LEAST_SINGLE: i32 = -126;
const LEAST_HALF: i32 = -14;

/// A format of factors, and of a sum that is as narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Factors {
    Halves,
    Brains,
}

impl Factors {
    const fn fraction(self) -> u32 {
        match self {
            Factors::Halves => 10,
            Factors::Brains => 7,
        }
    }

    const fn bias(self) -> i32 {
        match self {
            Factors::Halves => 15,
            Factors::Brains => 127,
        }
    }

    const fn infinity(self) -> u16 {
        match self {
            Factors::Halves => 0x7c00,
            Factors::Brains => 0x7f80,
        }
    }

    /// A number of the format as a single, a NaN with its bits.
    pub(crate) fn widened(self, bits: u16) -> u32 {
        match self {
            Factors::Brains => u32::from(bits) << 16,
            Factors::Halves if half::is_nan(bits) => {
                u32::from(bits & 0x8000) << 16 | 0x7f80_0000 | u32::from(bits & 0x3ff) << 13
            }
            Factors::Halves => half::to_single(bits),
        }
    }
}

/// A number: `digits * 2^exponent` with a sign.
#[derive(Clone, Copy, Default)]
struct Term {
    digits: u64,
    exponent: i32,
    negative: bool,
}

impl Term {
    /// The exponent of its first digit.
    fn top(self) -> i32 {
        if self.digits == 0 { NONE } else { self.exponent + self.digits.ilog2().cast_signed() }
    }

    /// Its digits from the grid on, and whether there are others below.
    fn on_grid(self, grid: i32) -> (i64, bool) {
        match grid - self.exponent {
            _ if self.digits == 0 => (0, false),
            64.. => (0, true),
            below @ 1..64 => ((self.digits >> below).cast_signed(), self.digits & ((1 << below) - 1) != 0),
            above => ((self.digits << -above).cast_signed(), false),
        }
    }

    /// As [`Term::on_grid`], rounded down. A negative third source that is all below the grid may count as nothing.
    fn floor(self, grid: i32, drops: bool) -> i64 {
        let (digits, rest) = self.on_grid(grid);
        match self.negative {
            true => -digits - i64::from(rest && (digits != 0 || !drops)),
            false => digits,
        }
    }
}

/// A factor of a product.
#[derive(Clone, Copy)]
struct Factor {
    bits: u16,
    of: Factors,
    card: Card,
}

impl Factor {
    fn magnitude(self) -> u16 {
        self.bits & 0x7fff
    }

    fn is_nan(self) -> bool {
        self.magnitude() > self.of.infinity()
    }

    fn is_infinite(self) -> bool {
        self.magnitude() == self.of.infinity()
    }

    fn field(self) -> u32 {
        u32::from(self.magnitude()) >> self.of.fraction()
    }

    /// The exponent that the field says, also of denormal numbers and zeros.
    fn exponent(self) -> i32 {
        self.field().max(1).cast_signed() - self.of.bias()
    }

    fn digits(self) -> u64 {
        let one = 1 << self.of.fraction();
        let fraction = u64::from(self.magnitude()) & (one - 1);
        match self.field() {
            0 if self.card == Card::Gfx11 && self.of == Factors::Brains => 0,
            0 => fraction,
            _ => fraction | one,
        }
    }
}

/// A product and its special properties.
struct Product {
    term: Term,
    /// Place at which its grid begins; below all others for a zero.
    grid: i32,
    is_nan: bool,
    is_invalid: bool,
    is_infinite: bool,
}

fn product(card: Card, of: Factors, [a, b]: [u16; 2]) -> Product {
    let [x, y] = [a, b].map(|bits| Factor { bits, of, card });
    let digits = x.digits() * y.digits();
    let exponent = x.exponent() + y.exponent();
    let negative = (a ^ b) & 0x8000 != 0;
    Product {
        term: Term { digits, exponent: exponent - 2 * of.fraction().cast_signed(), negative },
        grid: if digits == 0 { NONE } else { exponent - PRODUCT_DIGITS },
        is_nan: x.is_nan() || y.is_nan(),
        is_invalid: x.is_infinite() && y.digits() == 0 || y.is_infinite() && x.digits() == 0,
        is_infinite: x.is_infinite() || y.is_infinite(),
    }
}

/// The result where a number is no finite one.
fn special(products: &[Product], c: u32) -> Option<u32> {
    if products.iter().any(|product| product.is_nan) {
        return Some(FACTOR_NAN);
    }
    let of_sign = |negative: bool| {
        products.iter().any(|product| product.is_infinite && product.term.negative == negative)
    };
    let (mut below, mut above) = (of_sign(true), of_sign(false));
    // These come before a third source that is a NaN.
    if products.iter().any(|product| product.is_invalid) || below && above {
        return Some(single::NAN);
    }
    if single::is_nan(c) {
        return Some(single::quiet(c));
    }
    below |= c == single::SIGN | single::INFINITY;
    above |= c == single::INFINITY;
    match (below, above) {
        (true, true) => Some(single::NAN),
        (true, false) => Some(single::SIGN | single::INFINITY),
        (false, true) => Some(single::INFINITY),
        (false, false) => None,
    }
}

/// A sum in units of the grid, before it is rounded.
struct Sum {
    units: i64,
    grid: i32,
    card: Card,
}

/// The third source: its denormals are zeros on gfx11.
fn third(card: Card, c: u32) -> Term {
    let (field, fraction) = (single::exponent(c), u64::from(c & 0x7f_ffff));
    let digits = match field {
        0 if card == Card::Gfx11 => 0,
        0 => fraction,
        _ => fraction | 1 << 23,
    };
    Term { digits, exponent: field.max(1) - 150, negative: c & single::SIGN != 0 }
}

fn sum(card: Card, products: &[Product], c: u32, least: i32) -> Sum {
    let third = third(card, c);
    let terms = products.iter().map(|product| product.term);
    let highest = products.iter().map(|product| product.grid).fold(NONE, i32::max);
    if card == Card::Gfx11 {
        let narrow = if least == LEAST_HALF && third.top() < least { least } else { third.top() };
        let grid = terms.clone().map(Term::top).fold(narrow, i32::max) - SUM_DIGITS;
        let grid = grid.max(highest);
        if third.digits == 0 && terms.clone().all(|term| term.digits == 0) {
            return Sum { units: 0, grid, card };
        }
        // In the frame of the third source's sign, where what opposes it is a complement.
        let in_frame = |term: Term| {
            let (digits, _) = term.on_grid(grid);
            if term.negative == third.negative { digits } else { !digits }
        };
        let units = in_frame(third) + terms.map(in_frame).sum::<i64>();
        return Sum { units: if third.negative { -units } else { units }, grid, card };
    }
    let grid = highest.max(third.top().max(least) - SUM_DIGITS);
    let pairs = products.chunks(2).map(|pair| {
        let own = pair.iter().map(|product| product.grid).fold(NONE, i32::max);
        let both: i64 = pair.iter().map(|product| product.term.floor(own, false)).sum();
        Term { digits: both.unsigned_abs(), exponent: own, negative: both < 0 }.floor(grid, false)
    });
    let units = third.floor(grid, grid > least) + pairs.sum::<i64>();
    Sum { units, grid, card }
}

/// Digits without the lowest `shift`, to nearest even.
fn nearest(digits: u64, shift: i32) -> u64 {
    match shift {
        64.. => 0,
        1..64 => {
            let (kept, rest, middle) = (digits >> shift, digits & ((1 << shift) - 1), 1 << (shift - 1));
            kept + u64::from(rest > middle || rest == middle && kept & 1 != 0)
        }
        _ => digits << -shift,
    }
}

impl Sum {
    fn sign(&self) -> u64 {
        u64::from(self.units < 0)
    }

    /// Rounds to a format with `fraction` digits after the point, whose least and largest exponents are given. With
    /// `keeps`, denormal results are rounded as such; otherwise they become zeros.
    fn rounded(&self, fraction: u32, (least, most): (i32, i32), keeps: bool) -> u64 {
        let digits = self.units.unsigned_abs();
        if digits == 0 {
            return 0;
        }
        let top = digits.ilog2().cast_signed() + self.grid;
        let from_top = top - self.grid - fraction.cast_signed();
        if top < least && keeps {
            return nearest(digits, least - fraction.cast_signed() - self.grid);
        }
        // A carry out of the digits moves into the exponent by itself.
        let field = (top - least).max(0).cast_unsigned();
        let bits = (u64::from(field) << fraction) + nearest(digits, from_top);
        let one = 1_u64 << fraction;
        let infinity = u64::from((most - least + 2).cast_unsigned()) << fraction;
        if top >= least {
            return bits.min(infinity);
        }
        // The smallest normal number, if the rounding carries up to it.
        let carries = top == least - 1 && nearest(digits, from_top) == 2 * one;
        if carries { one } else { 0 }
    }

    fn single(&self) -> u32 {
        let magnitude = self.rounded(23, (LEAST_SINGLE, 127), self.card == Card::Gfx12) as u32;
        if magnitude == 0 { 0 } else { magnitude | (self.sign() as u32) << 31 }
    }

    fn half(&self) -> u16 {
        let magnitude = self.rounded(10, (LEAST_HALF, 15), true) as u16;
        if magnitude == 0 { 0 } else { magnitude | (self.sign() as u16) << 15 }
    }
}

/// `c` and the products of `N` pairs, as a single.
pub(crate) fn single<const N: usize>(card: Card, of: Factors, pairs: [[u16; 2]; N], c: u32) -> u32 {
    let products = pairs.map(|pair| product(card, of, pair));
    match special(&products, c) {
        Some(bits) => bits,
        None => sum(card, &products, c, LEAST_SINGLE).single(),
    }
}

/// As the sum in singles, with a result and a `c` as narrow as the factors. `bfloat16` is cut off, not rounded again.
pub(crate) fn narrow<const N: usize>(card: Card, of: Factors, pairs: [[u16; 2]; N], c: u16) -> u16 {
    let wide = of.widened(c);
    let products = pairs.map(|pair| product(card, of, pair));
    match (special(&products, wide), of) {
        (Some(FACTOR_NAN), Factors::Halves) => FACTOR_NAN_HALF,
        (Some(FACTOR_NAN), Factors::Brains) => FACTOR_NAN_BRAIN,
        (Some(bits), Factors::Halves) => (bits >> 16) as u16 & 0x8000 | 0x7c00 | (bits >> 13) as u16 & 0x3ff,
        (Some(bits), Factors::Brains) => (bits >> 16) as u16,
        (None, Factors::Halves) => sum(card, &products, wide, LEAST_HALF).half(),
        (None, Factors::Brains) => (sum(card, &products, wide, LEAST_SINGLE).single() >> 16) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_cards() {
        use Card::{Gfx11, Gfx12};
        use Factors::{Brains, Halves};
        let pair = |a: u32, b: u32| [[a as u16, b as u16], [(a >> 16) as u16, (b >> 16) as u16]];
        for (card, of, a, b, c, expected) in [
            (Gfx11, Halves, 0x3c00_bc00, 0x3c00_3c00, 0x3f80_0000, 0x3f7f_ffff),
            (Gfx11, Halves, 0x3c00_3c00, 0x3c00_3c00, 0xc000_0000, 0x3400_0000),
            (Gfx11, Halves, 0x0000_0001, 0x3c00_8001, 0, 0xa788_0000),
            (Gfx11, Brains, 0xff7f_7f7f, 0x7f7f_7f7f, 0, 0xff80_0000),
            (Gfx11, Brains, 0x0080_0080, 0x3f00_3f00, 0, 0x0080_0000),
            (Gfx11, Brains, 0x0080_0000, 0x3f80_8000, 0, 0),
            (Gfx12, Halves, 0x3c00_bc00, 0x3c00_3c00, 0x3f80_0000, 0x3f80_0000),
            (Gfx12, Halves, 0x7c00_7e01, 0x0000_3c00, 0x7fc1_2345, 0xffc0_0a3d),
            (Gfx12, Halves, 0xfc00_7c00, 0x3c00_3c00, 0x7fc1_2345, 0xffc0_0000),
            (Gfx12, Brains, 0x2061_bc39, 0x96b4_0093, 0x0056_dd77, 0x0055_3463),
            (Gfx12, Brains, 0x08e7_393d, 0xb7d3_07aa, 0x8080_0005, 0x8006_c205),
            (Gfx12, Brains, 0x0080_0000, 0x3f80_8000, 1, 0x0080_0001),
        ] {
            let got = single(card, of, pair(a, b), c);
            assert_eq!(got, expected, "{card:?} {of:?} {a:x} {b:x} {c:x}: {got:x}");
        }
    }
}
