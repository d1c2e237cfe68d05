//! Functions that hardware approximates, in a hundred digits of `dashu_float` and rounded once.

use dashu_float::FBig;
use dashu_float::round::mode::Zero;
use rustc_apfloat::ieee::{Double, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

use super::number::{Format, bits, of, one};

/// Digits that results are cut to before they are rounded.
const DIGITS: usize = 100;
/// Results with fewer digits than this are exact.
const EXACT: u32 = 64;

/// A number of a hundred digits, cut off.
type Big = FBig<Zero, 2>;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// `2^x`.
    Power,
    /// The logarithm to base 2.
    Logarithm,
}

/// A number as a double, which holds all there are.
fn double<F: Format>(value: F) -> f64 {
    let wide: Double = match F::WIDTH {
        16 => of::<Half>(bits(value)).convert(&mut false).value,
        32 => of::<Single>(bits(value)).convert(&mut false).value,
        _ => of::<Double>(bits(value)),
    };
    f64::from_bits(bits(wide))
}

/// `big` rounded to nearest: cut to a hundred digits with the lowest one set when it is not exact, which one rounding more
/// cannot tell from the number itself.
fn narrowed<F: Format>(big: &Big) -> F {
    let repr = big.repr();
    let (negative, magnitude) = match i128::try_from(repr.significand().clone()) {
        Ok(digits) => (digits < 0, digits.unsigned_abs()),
        Err(_) => unreachable!("a hundred digits fit"),
    };
    let length = 128 - magnitude.leading_zeros();
    // The lowest digits are cut where they are zeros.
    let missing = if length < EXACT { 0 } else { 100_u32.saturating_sub(length) };
    let digits = magnitude << missing | u128::from(length >= EXACT);
    let exponent = repr.exponent() as i32 - missing as i32;
    let quad = Quad::from_u128(digits).value.scalbn(exponent);
    let quad = if negative { -quad } else { quad };
    of::<F>(match F::WIDTH {
        16 => bits::<Half>(quad.convert_r(Round::NearestTiesToEven, &mut false).value),
        32 => bits::<Single>(quad.convert_r(Round::NearestTiesToEven, &mut false).value),
        _ => bits::<Double>(quad.convert_r(Round::NearestTiesToEven, &mut false).value),
    })
}

/// The function of a number that is no NaN, correctly rounded to nearest even.
pub(crate) fn rounded<F: Format>(function: Function, x: F) -> F {
    let value = double(x);
    if let Some(known) = special::<F>(function, x, value) {
        return known;
    }
    let Ok(big) = Big::try_from(value) else { unreachable!("a finite number") };
    let big = big.with_precision(DIGITS).value();
    let two = || Big::try_from(2.0).map(|two| two.with_precision(DIGITS).value());
    narrowed(&match function {
        Function::Power => match two() {
            Ok(two) => two.powf(&big),
            Err(_) => unreachable!("2 is a number"),
        },
        Function::Logarithm => big.log2(),
    })
}

/// Results of infinities, zeros and numbers outside the domain, and those that are far too large or small.
fn special<F: Format>(function: Function, x: F, value: f64) -> Option<F> {
    use Function::{Logarithm, Power};
    Some(match function {
        Logarithm if x.is_negative() && !x.is_zero() => F::NAN,
        Logarithm if x.is_zero() => -F::INFINITY,
        Logarithm if x.is_infinite() => x,
        Power if value > 20_000.0 => F::INFINITY,
        Power if value < -20_000.0 => F::ZERO,
        Power if x.is_zero() => of::<F>(one::<F>()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(function: Function, x: f32) -> f32 {
        f32::from_bits(bits(rounded(function, of::<Single>(x.to_bits().into()))) as u32)
    }

    #[test]
    fn known_values() {
        for (function, x, expected) in [
            (Function::Power, -149.0, f32::from_bits(1)),
            (Function::Power, -149.5, f32::from_bits(1)),
            (Function::Power, -150.0, 0.0),
            (Function::Power, 0.5, std::f32::consts::SQRT_2),
            (Function::Logarithm, 8.0, 3.0),
            (Function::Logarithm, 10.0, std::f32::consts::LOG2_10),
        ] {
            assert_eq!(single(function, x), expected, "{function:?} of {x}");
        }
    }
}
