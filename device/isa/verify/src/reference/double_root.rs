//! The mappings of `v_rcp_f64`, `v_rsq_f64` and `v_sqrt_f64`: the polynomials of singles with more digits.
//!
//! The steps are those of ROCm/rocm-systems, `transcendental_f64.h` (MIT, Copyright (c) 2026 Advanced Micro Devices, Inc.).

use std::sync::LazyLock;

use super::curve::{Terms, nearest, read};
use super::number::{self as n, F64};

static RECIPROCAL: LazyLock<Terms> = LazyLock::new(|| read(include_str!("../../data/cards/reciprocal.txt")));
static RECIPROCAL_ROOT: LazyLock<Terms> =
    LazyLock::new(|| read(include_str!("../../data/cards/reciprocal-root.txt")));
static ROOT: LazyLock<Terms> = LazyLock::new(|| read(include_str!("../../data/cards/root.txt")));

const SIGN: u64 = 1 << 63;
const INFINITY: u64 = 0x7ff << 52;
/// 1 with the digits of a fraction.
const UNIT: i128 = 1 << 52;

/// A number of 53 digits and its exponent as bits: digits that denormal ones have no room for are cut.
fn encoded(exponent: i32, digits: i128) -> u64 {
    if exponent > 1023 {
        return INFINITY;
    }
    let lost = (-1022 - exponent).max(0);
    // The first digit counts as one of the exponent, as denormal numbers have none.
    let field = (exponent + 1022).max(0) as u64;
    (field << 52) + (digits >> lost.min(100)) as u64
}

/// Exponent and fraction of a positive number.
fn parts(a: u64) -> (i32, i128) {
    let (field, digits) = ((a >> 52) as i32, i128::from(a) % UNIT);
    if field > 0 {
        return (field - 1023, digits);
    }
    let first = digits.ilog2() as i32;
    (first - 1074, (digits << (52 - first)) % UNIT)
}

fn curved([quadratic, cubic]: [i128; 2], x: i128, first: u32, second: u32) -> i128 {
    let square = (x / 128) * (x / 128) / 1024;
    let product = ((quadratic << first) - nearest(cubic * (x / 16 + 1), second)) * square;
    if product < 1 << 47 { nearest(product, 23) } else { 2 * nearest(product, 24) }
}

/// Rounded up from `from` units of 2^-21 on.
fn up_from(product: i128, from: i128) -> i128 {
    (product + (1 << 21) - from).div_euclid(1 << 21)
}

fn mapped_reciprocal(fraction: i128) -> i128 {
    let place = fraction >> 23;
    let (part, x) = ((place >> 24) as usize, place % (1 << 24));
    let [constant, linear, quadratic, cubic] = RECIPROCAL[part];
    let product = linear * x;
    let first = if product < 1 << 44 { up_from(product, 0x08_0001) } else { nearest(product, 21) };
    let half = if part == 0 { 0 } else { 256 };
    constant * 512 + half - 64 * first + curved([quadratic, cubic], x, 8, 12)
}

fn mapped_reciprocal_root(odd: usize, fraction: i128) -> i128 {
    let place = fraction >> 23;
    let (part, x) = ((place >> 24) as usize, place % (1 << 24));
    let [constant, linear, quadratic, cubic] = RECIPROCAL_ROOT[part + 32 * odd];
    let product = linear * if part == 31 { x - (x & 0x30) } else { x };
    let first = up_from(product, if product < 1 << 43 { 0x04_0001 } else { 0x08_0001 });
    let half = if part == 0 { 0 } else { 512 };
    constant * 1024 + half - 128 * first + curved([quadratic, cubic], x, 9, 11)
}

fn mapped_root(odd: usize, fraction: i128) -> i128 {
    let place = fraction >> 24;
    let (part, x) = ((place >> 24) as usize, place % (1 << 24));
    let [constant, linear, quadratic, cubic] = ROOT[part + 16 * odd];
    let product = linear * x;
    let first = if product < 1 << 45 { (product + (1 << 20)) >> 22 } else { nearest(product, 22) };
    let half = if part == 15 { 0 } else { 512 };
    constant * 1024 + half + 128 * first - curved([quadratic, cubic], x, 8, 11)
}

/// The reciprocal of a double that is no NaN.
pub(super) fn reciprocal(a: u64) -> u64 {
    let (sign, magnitude) = (a & SIGN, a & !SIGN);
    if magnitude == 0 || magnitude == INFINITY {
        return sign | if magnitude == 0 { INFINITY } else { 0 };
    }
    let (exponent, fraction) = parts(magnitude);
    let power = |exponent: i32| encoded(exponent, UNIT);
    sign | if fraction == 0 {
        power(-exponent)
    } else if fraction == UNIT - 1 {
        power(-exponent - 1) + 1
    } else if fraction >> 23 == 0 {
        power(-exponent) - u64::from(exponent > -1024)
    } else {
        encoded(-exponent - 1, mapped_reciprocal(fraction) << 18)
    }
}

/// The reciprocal root of a double that is no NaN.
pub(super) fn reciprocal_root(a: u64) -> u64 {
    let magnitude = a & !SIGN;
    if magnitude == 0 {
        return a | INFINITY;
    }
    if a != magnitude || a == INFINITY {
        return if a == INFINITY { 0 } else { n::default_nan::<F64>() };
    }
    let (exponent, fraction) = parts(a);
    let odd = exponent.rem_euclid(2);
    let half = (exponent - odd) / 2;
    match (odd, fraction >> 23) {
        (0, 0) => encoded(-half, UNIT) - u64::from(fraction != 0),
        (odd, _) => encoded(-half - 1, mapped_reciprocal_root(odd as usize, fraction) << 17),
    }
}

/// The root of a double that is no NaN.
pub(super) fn root(a: u64) -> u64 {
    let magnitude = a & !SIGN;
    if magnitude == 0 || a == INFINITY {
        return a;
    }
    if a != magnitude {
        return n::default_nan::<F64>();
    }
    let (exponent, fraction) = parts(a);
    let odd = exponent.rem_euclid(2);
    encoded((exponent - odd) / 2, mapped_root(odd as usize, fraction) << 17)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_near() {
        for x in [1.5_f64, 3.0, 0.1, 1e-310, 7e300] {
            let near =
                |result: u64, exact: f64| (f64::from_bits(result) / exact - 1.0).abs() < 2f64.powi(-23);
            let a = x.to_bits();
            assert!(near(reciprocal_root(a), 1.0 / x.sqrt()) && near(root(a), x.sqrt()), "{x}");
            assert!(x < 1e-307 || near(reciprocal(a), 1.0 / x), "{x}");
        }
    }
}
