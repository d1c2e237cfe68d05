//! The sums of products of CDNA3's matrix instructions with few digits, one element of D at a time and for any numbers.
//!
//! Hardware's rule, as the MMA-Sim project found it by experiments ("MMA-Sim: Bit-Accurate Reference Model of Tensor
//! Cores and Matrix Cores", Microsoft): the products of a group of k are exact, cut off at 24 bits below the largest
//! of their exponents, and added. Then the sum is cut off at 31 bits and C at 24 bits below the larger of both
//! exponents, they are added, and the result is rounded to nearest even. The exponent of a product is the sum of its
//! factors' exponents, where a denormal number has that of the smallest normal one, and a product of zero has -126.
//! Products are cut off towards zero, sums and C towards minus infinity.
//!
//! With 8-bit floats the even and the odd k of sixteen are added apart, and both sums cut off as C is; a C that begins further than 25
//! bits below is dropped.
//!
//! The details of infinities and NaNs in hardware are not known. Here a product of at least 2^128 is an infinity, the
//! sum of infinities is as in IEEE 754, and every NaN that comes out has the same bits.

use super::shape::Element;
use crate::exec::vector::float::single;

/// Exponent of a sum that has no products but zeros.
const EMPTY: i32 = -126;

/// A finite number is `digits` * 2^(`exponent` - 23).
struct Parts {
    digits: i64,
    exponent: i32,
}

/// Takes a number of a format apart whose smallest normal exponent is `least`.
fn parts(bits: u32, least: i32) -> Parts {
    let field = single::exponent(bits);
    let fraction = i64::from(bits & 0x7f_ffff);
    let (mut digits, mut exponent) =
        if field == 0 { (fraction, -126) } else { (fraction | 1 << 23, field - 127) };
    if exponent < least {
        // A denormal number of that format: it has no digits that get lost.
        digits >>= (least - exponent).min(63);
        exponent = least;
    }
    Parts { digits: if bits & single::SIGN != 0 { -digits } else { digits }, exponent }
}

/// `value` / 2^`count`, towards minus infinity, or times 2^-`count`.
fn floor(value: i64, count: i32) -> i64 {
    if count < 0 { value << count.unsigned_abs().min(63) } else { value >> count.min(63) }
}

/// Exponent of the smallest normal number.
pub(super) const fn least_exponent(element: Element) -> i32 {
    match element {
        Element::Half => -14,
        Element::Fp8 => -7,
        Element::Bf8 => -15,
        Element::E4m3 => -6,
        Element::E5m2 => -14,
        _ => -126,
    }
}

/// The sum of some products in units of 2^(exponent - 24), and its exponent.
fn products<'a>(pairs: impl Iterator<Item = (&'a u32, &'a u32)> + Clone, least: [i32; 2]) -> (i64, i32) {
    let terms = pairs.map(|(a, b)| {
        let (a, b) = (parts(*a, least[0]), parts(*b, least[1]));
        let digits = a.digits * b.digits;
        Parts { digits, exponent: if digits == 0 { EMPTY } else { a.exponent + b.exponent } }
    });
    let largest = terms.clone().map(|term| term.exponent).max().unwrap_or(EMPTY);
    let sum = terms
        .map(|term| {
            // 46 digits are after the point, of which 24 stay.
            let magnitude = floor(term.digits.abs(), 22 + largest - term.exponent);
            if term.digits < 0 { -magnitude } else { magnitude }
        })
        .sum();
    (sum, largest)
}

/// Returns the result if there are infinities, NaNs, or products that are infinite; `None` if there are none.
fn special(a: &[u32], b: &[u32], c: u32, scale: f64) -> Option<u32> {
    let mut sum = 0f32;
    for (a, b) in a.iter().zip(b) {
        let product = f64::from(single::of(*a)) * f64::from(single::of(*b)) * scale;
        // Only what is no finite number matters, so that nothing overflows on the way.
        if product.is_nan() {
            return Some(single::NAN);
        }
        if product.abs() >= 2f64.powi(128) {
            sum += f32::INFINITY.copysign(product as f32);
        }
    }
    let c = single::of(c);
    if !c.is_finite() {
        sum += c;
    }
    if sum.is_nan() {
        return Some(single::NAN);
    }
    sum.is_infinite().then_some(sum.to_bits())
}

/// Adds the products of a group of `a` and `b`, singles of two formats, to `c`; with `halves` even and odd ones apart.
pub(super) fn group(elements: [Element; 2], halves: bool, [a, b]: [&[u32]; 2], c: u32) -> u32 {
    scaled_group(elements.map(least_exponent), halves, [a, b], c, 0)
}

/// As [`group`], of formats with these smallest normal exponents, and with products that are 2^`scale` as large.
pub(super) fn scaled_group(least: [i32; 2], halves: bool, [a, b]: [&[u32]; 2], c: u32, scale: i32) -> u32 {
    if let Some(result) = special(a, b, c, 2f64.powi(scale)) {
        return result;
    }
    let pairs = a.iter().zip(b);
    let (sum, exponent) = if halves {
        let (even, even_exponent) = products(pairs.clone().step_by(2), least);
        let (odd, odd_exponent) = products(pairs.skip(1).step_by(2), least);
        let exponent = even_exponent.max(odd_exponent);
        (floor(even, exponent - even_exponent) + floor(odd, exponent - odd_exponent), exponent)
    } else {
        products(pairs, least)
    };
    let exponent = if exponent == EMPTY { EMPTY } else { exponent + scale };
    let c = parts(c, -126);
    let largest = exponent.max(c.exponent);
    // Both in units of 2^(largest - 31).
    let sum = floor(sum, largest - exponent - 7);
    let dropped = halves && c.exponent < largest - 25;
    let c = if dropped { 0 } else { floor(c.digits, largest - c.exponent - 1) << 7 };
    // At most 37 digits, which a double has; converting it rounds once.
    single::result(((sum + c) as f64 * 2f64.powi(largest - 31)) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(element: Element, halves: bool, a: &[f32], b: &[f32], c: f32) -> f32 {
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        single::of(group([element; 2], halves, [&bits(a), &bits(b)], c.to_bits()))
    }

    #[test]
    fn products_are_cut_off_below_the_largest() {
        let small = 2f32.powi(-14) * 1.0009766;
        // 1 + 2^-24 * (1 + 2^-9 + 2^-20): the last digits of the product are cut off, what is left decides on the rounding.
        let a = [1.0, small];
        let b = [1.0, 2f32.powi(-10) * 1.0009766];
        assert_eq!(sum(Element::Half, false, &a, &b, 0.0), 1.0);
        assert_eq!(sum(Element::Half, false, &a, &b, 1.0), 2.0);
        // 2^-24 is a tie, which goes to even; twice of it is the next number.
        let tiny = [2f32.powi(-12), 2f32.powi(-12)];
        assert_eq!(sum(Element::Half, false, &tiny, &tiny, 1.0), 1.0 + 2f32.powi(-23));
        assert_eq!(sum(Element::Half, false, &tiny[..1], &tiny[..1], 1.0), 1.0);
    }

    #[test]
    fn the_smaller_of_both_is_rounded_down() {
        // C is -2^-30, and its floor at 24 bits below 1 is -2^-24: half a step below 1.
        assert_eq!(sum(Element::Half, false, &[1.0], &[1.0], -2f32.powi(-30)), 1.0 - 2f32.powi(-24));
        assert_eq!(sum(Element::Half, false, &[1.0], &[1.0], 2f32.powi(-30)), 1.0);
        // With 8-bit floats such a small C is dropped.
        assert_eq!(sum(Element::Fp8, true, &[1.0], &[1.0], -2f32.powi(-30)), 1.0);
        assert_eq!(sum(Element::Fp8, true, &[1.0], &[1.0], -2f32.powi(-25)), 1.0 - 2f32.powi(-24));
    }

    #[test]
    fn infinities_and_nans_come_through() {
        let infinity = f32::INFINITY;
        assert_eq!(sum(Element::Half, false, &[infinity, 1.0], &[1.0, 1.0], 5.0), infinity);
        assert!(sum(Element::Half, false, &[infinity], &[0.0], 5.0).is_nan());
        assert!(sum(Element::Half, false, &[infinity, -infinity], &[1.0, 1.0], 5.0).is_nan());
        assert!(sum(Element::Half, false, &[1.0], &[1.0], f32::NAN).is_nan());
        let large = [2f32.powi(100)];
        assert_eq!(sum(Element::Brain, false, &large, &large, 5.0), infinity);
        assert!(sum(Element::Brain, false, &large, &large, -infinity).is_nan());
        assert_eq!(sum(Element::Half, false, &[0.0], &[-1.0], -0.0).to_bits(), 0);
    }

    #[test]
    fn denormal_results_are_rounded_once() {
        let a = [2f32.powi(-100)];
        // 2^-149 and a half of it, to even.
        assert_eq!(sum(Element::Brain, false, &a, &[2f32.powi(-50)], 0.0), 0.0);
        assert_eq!(sum(Element::Brain, false, &a, &[1.5 * 2f32.powi(-49)], 0.0), 2f32.powi(-148));
        assert_eq!(sum(Element::Brain, false, &[0.0], &[1.0], 2f32.powi(-149)), 2f32.powi(-149));
    }
}
