//! `v_rcp_f64`, `v_rsq_f64` and `v_sqrt_f64` as cards have them: good to some 2^29 units in the last place.
//!
//! Cards take the polynomials of singles, with a few digits more. Steps are from ROCm/rocm-systems,
//! `emulation/rocjitsu/lib/rocjitsu/src/rocjitsu/isa/arch/amdgpu/shared/transcendental_f64.h`, under the MIT licence: Copyright (c) 2026
//! Advanced Micro Devices, Inc. There they give all results that were captured on a Radeon AI Pro R9700 and a Radeon Pro W7900.

use super::float::double::{self, INFINITY, NAN, SIGN};
use super::reciprocal::{numbers, root_numbers};
use super::root;

/// Digits of a double's fraction, and all of them set.
const DIGITS: u32 = 52;
const FRACTION: u64 = (1 << DIGITS) - 1;
/// The largest exponent of numbers, and the smallest of normal ones.
const MOST: i32 = 1023;
const LEAST: i32 = -1022;

/// Shifted right and rounded to nearest even.
fn nearest(value: i64, digits: u32) -> i64 {
    (value + (1 << (digits - 1)) - 1 + (value >> digits & 1)) >> digits
}

/// The quadratic and the cubic term of a place of 24 bits in its part; both terms are moved up by as many digits as `by` says.
fn higher([quadratic, cubic]: [i64; 2], x: i64, by: [u32; 2]) -> i64 {
    let square = ((x >> 7) * (x >> 7)) >> 10;
    let inner = (quadratic << by[0]) - nearest(cubic * ((x >> 4) + 1), by[1]);
    let product = inner * square;
    // To 24 digits.
    if product >= 1 << 47 { nearest(product, 24) * 2 } else { nearest(product, 23) }
}

/// Number of a part, and the place in it.
fn place(digits: u64) -> (usize, i64) {
    ((digits >> 24) as usize, (digits & 0xff_ffff).cast_signed())
}

/// The reciprocal of a mantissa of 29 digits after the point, which are not all 0, with 35 digits.
fn reciprocal(digits: u64) -> u64 {
    let (part, x) = place(digits);
    let [constant, linear, quadratic, cubic] = numbers::TERMS[part & 31].map(i64::from);
    let product = linear * x;
    let first = if product >= 1 << 44 { nearest(product, 21) } else { (product + 0x17_ffff) >> 21 };
    // Half a unit more but in the first part.
    let start = constant * 512 + i64::from(part != 0) * 256;
    (start - first * 64 + higher([quadratic, cubic], x, [8, 12])).cast_unsigned()
}

/// The reciprocal root of a mantissa of 29 digits, of twice it where the exponent is odd, with 36 digits.
fn reciprocal_root(odd: bool, digits: u64) -> u64 {
    let (part, x) = place(digits);
    let [constant, linear, quadratic, cubic] =
        root_numbers::TERMS[usize::from(odd) * 32 + (part & 31)].map(i64::from);
    // Two bits are not looked at in the last part.
    let seen = if part == 31 { x & !0x30 } else { x };
    let product = linear * seen;
    let first = (product + if product >= 1 << 43 { 0x17_ffff } else { 0x1b_ffff }) >> 21;
    let start = constant * 1024 + i64::from(part != 0) * 512;
    (start - first * 128 + higher([quadratic, cubic], x, [9, 11])).cast_unsigned()
}

/// The root of a mantissa of 28 digits, of twice it where the exponent is odd, with 35 digits.
fn square_root(odd: bool, digits: u64) -> u64 {
    let (part, x) = place(digits);
    let [constant, linear, quadratic, cubic] =
        root::TERMS[usize::from(odd) * 16 + (part & 15)].map(i64::from);
    let product = linear * x;
    let first = if product >= 1 << 45 { nearest(product, 22) } else { (product + (1 << 20)) >> 22 };
    // Half a unit more but in the last part.
    let start = constant * 1024 + i64::from(part != 15) * 512;
    (start + first * 128 - higher([quadratic, cubic], x, [8, 11])).cast_unsigned()
}

/// A number from its exponent and fraction; digits that denormal ones have no room for are cut.
fn number(exponent: i32, fraction: u64) -> u64 {
    match exponent {
        LEAST..=MOST => ((exponent + MOST) as u64) << DIGITS | fraction,
        ..LEAST => (1 << DIGITS | fraction).checked_shr((LEAST - exponent).unsigned_abs()).unwrap_or(0),
        _ => INFINITY,
    }
}

/// The number below a power of two.
fn below(exponent: i32) -> u64 {
    if exponent > MOST { INFINITY } else { number(exponent, 0) - 1 }
}

/// Exponent and fraction of a number that is neither zero, infinite nor a NaN.
fn parts(a: u64) -> (i32, u64) {
    let (field, fraction) = (double::exponent(a), a & FRACTION);
    if field != 0 {
        return (field - MOST, fraction);
    }
    let shift = fraction.leading_zeros() - (u64::BITS - 1 - DIGITS);
    (LEAST - shift.cast_signed(), fraction << shift & FRACTION)
}

/// `v_rcp_f64`.
pub(crate) fn rcp(a: u64) -> u64 {
    let (sign, magnitude) = (a & SIGN, a & !SIGN);
    if double::is_nan(a) {
        return double::quiet(a);
    } else if magnitude == 0 || magnitude == INFINITY {
        return sign | (INFINITY - magnitude);
    }
    let (exponent, fraction) = parts(magnitude);
    sign | match (fraction, fraction >> 23) {
        (0, _) => number(-exponent, 0),
        // All digits: the number above the power.
        (FRACTION, _) if -exponent > LEAST => number(-exponent - 1, 1),
        (FRACTION, _) => number(-exponent - 1, 0) + 1,
        (_, 0) => below(-exponent),
        (_, digits) => number(-exponent - 1, (reciprocal(digits) << 18) & FRACTION),
    }
}

/// Of functions of positive numbers, what others give; `None` for positive numbers.
fn outside(a: u64, of_zero: u64, of_infinity: u64) -> Option<u64> {
    match a {
        _ if double::is_nan(a) => Some(double::quiet(a)),
        0 | SIGN => Some(a | of_zero),
        _ if a & SIGN != 0 => Some(NAN),
        INFINITY => Some(of_infinity),
        _ => None,
    }
}

/// `v_rsq_f64`.
pub(crate) fn rsq(a: u64) -> u64 {
    outside(a, INFINITY, 0).unwrap_or_else(|| {
        let (exponent, fraction) = parts(a);
        let (half, odd) = (exponent >> 1, exponent & 1 != 0);
        match (fraction, fraction >> 23) {
            (0, _) if !odd => number(-half, 0),
            (_, 0) if !odd => below(-half),
            (_, digits) => number(-half - 1, (reciprocal_root(odd, digits) << 17) & FRACTION),
        }
    })
}

/// `v_sqrt_f64`.
pub(crate) fn sqrt(a: u64) -> u64 {
    outside(a, 0, INFINITY).unwrap_or_else(|| {
        let (exponent, fraction) = parts(a);
        number(exponent >> 1, (square_root(exponent & 1 != 0, fraction >> 24) << 17) & FRACTION)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the distance of a result from the exact one, in units of 2^-52 of it.
    fn off(result: u64, exact: f64) -> f64 {
        ((double::of(result) - exact) / exact).abs() * 2f64.powi(52)
    }

    #[test]
    fn results_are_as_near_as_the_manual_grants() {
        let mut most = [0.0_f64; 3];
        for n in 0..1_u64 << 20 {
            let a = (0x3fe0_0000_0000_0000 + n * 0x0000_0002_0000_0fff) & !SIGN;
            let x = double::of(a);
            let now = [off(rcp(a), 1.0 / x), off(rsq(a), 1.0 / x.sqrt()), off(sqrt(a), x.sqrt())];
            most = core::array::from_fn(|n| most[n].max(now[n]));
        }
        assert!(most.iter().all(|&off| off > 1.0 && off < 2f64.powi(29)), "{most:?}");
    }

    #[test]
    fn powers_of_two_and_what_is_next_to_them_are_exact_or_neighbours() {
        let bits = f64::to_bits;
        assert_eq!(
            [1.0, -2.0, 0.5, 2f64.powi(-1022)].map(|x| rcp(bits(x))),
            [1.0, -0.5, 2.0, 2f64.powi(1022)].map(bits)
        );
        assert_eq!([1.0, 4.0, 0.25].map(|x| rsq(bits(x))), [1.0, 0.5, 2.0].map(bits));
        assert_eq!([1.0, 0.0].map(|x| sqrt(bits(x))), [0x3ff0_0000_0400_0000, 0], "half a unit more");
        assert_eq!(rcp(bits(1.0) + 1), bits(1.0) - 1);
        assert_eq!(rcp(bits(2.0) - 1), bits(0.5) + 1);
        assert_eq!(rcp(bits(f64::MAX)), 0x0004_0000_0000_0001);
        assert_eq!(rsq(bits(1.0) + 1), bits(1.0) - 1);
        assert_eq!(
            [1, 1 << 49, 1 << 50, SIGN | 1 << 51].map(rcp),
            [INFINITY, INFINITY, INFINITY, SIGN | bits(2f64.powi(1023))]
        );
        assert_eq!((rsq(1), sqrt(1)), (bits(2f64.powi(537)), 0x1e60_0000_0400_0000));
    }

    #[test]
    fn zeros_infinities_and_negative_numbers_are_as_captured() {
        assert_eq!([0, SIGN, INFINITY, SIGN | INFINITY].map(rcp), [INFINITY, SIGN | INFINITY, 0, SIGN]);
        assert_eq!(
            [0, SIGN, INFINITY, SIGN | INFINITY, SIGN | 1].map(rsq),
            [INFINITY, SIGN | INFINITY, 0, NAN, NAN]
        );
        assert_eq!([0, SIGN, INFINITY, SIGN | INFINITY, SIGN | 1].map(sqrt), [0, SIGN, INFINITY, NAN, NAN]);
        let signalling = SIGN | INFINITY | 5;
        assert_eq!([rcp, rsq, sqrt].map(|f| f(signalling)), [double::quiet(signalling); 3]);
    }
}
