//! Functions that hardware approximates, in a hundred digits of `dashu_float` and rounded once.

use dashu_float::FBig;
use dashu_float::round::mode::Zero;
use rustc_apfloat::ieee::{Double, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

use super::number::{Format, bits, of, one, sign};

/// Digits that results are cut to before they are rounded.
const DIGITS: usize = 100;
/// Results with fewer digits than this are exact.
const EXACT: u32 = 64;

/// A number of a hundred digits, cut off.
type Big = FBig<Zero, 2>;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// `1 / sqrt(x)`.
    ReciprocalRoot,
    /// `sqrt(x)`.
    Root,
    /// `2^x`.
    Power,
    /// The logarithm to base 2.
    Logarithm,
    /// `sin(2πx)`.
    Sine,
    /// `cos(2πx)`.
    Cosine,
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
        Function::Root => big.sqrt(),
        Function::ReciprocalRoot => {
            // Twice the digits for the root, so that the quotient is good to a hundred.
            let root = big.with_precision(2 * DIGITS).value().sqrt();
            (Big::ONE.with_precision(2 * DIGITS).value() / root).with_precision(DIGITS).value()
        }
        Function::Power => match two() {
            Ok(two) => two.powf(&big),
            Err(_) => unreachable!("2 is a number"),
        },
        Function::Logarithm => big.log2(),
        Function::Sine => big.sin_unit(1),
        Function::Cosine => big.cos_unit(1),
    })
}

/// Results of infinities, zeros and numbers outside the domain, and those that are far too large or small.
fn special<F: Format>(function: Function, x: F, value: f64) -> Option<F> {
    use Function::{Cosine, Logarithm, Power, ReciprocalRoot, Root, Sine};
    let zero = F::ZERO;
    let is_negative = x.is_negative() && !x.is_zero();
    Some(match function {
        Root | ReciprocalRoot | Logarithm if is_negative => F::NAN,
        Root if x.is_zero() || x.is_infinite() => x,
        ReciprocalRoot if x.is_zero() => F::INFINITY.copy_sign(x),
        ReciprocalRoot if x.is_infinite() => zero,
        Logarithm if x.is_zero() => -F::INFINITY,
        Logarithm if x.is_infinite() => x,
        Power if value > 20_000.0 => F::INFINITY,
        Power if value < -20_000.0 => zero,
        Sine | Cosine if x.is_infinite() => F::NAN,
        // Half and whole turns give +0, zeros themselves.
        Sine if x.is_zero() => x,
        Sine if value % 0.5 == 0.0 => zero,
        Cosine if value % 0.5 != 0.0 && value % 0.25 == 0.0 => zero,
        Power if x.is_zero() => of::<F>(one::<F>()),
        Cosine if x.is_zero() => of::<F>(bits(of::<F>(one::<F>())) & !sign::<F>()),
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
            (Function::Root, 2.0, std::f32::consts::SQRT_2),
            (Function::ReciprocalRoot, 4.0, 0.5),
            (Function::Power, -149.0, f32::from_bits(1)),
            (Function::Power, -149.5, f32::from_bits(1)),
            (Function::Power, -150.0, 0.0),
            (Function::Power, 0.5, std::f32::consts::SQRT_2),
            (Function::Logarithm, 8.0, 3.0),
            (Function::Logarithm, 10.0, std::f32::consts::LOG2_10),
            (Function::Sine, 0.125, std::f32::consts::FRAC_1_SQRT_2),
            (Function::Sine, 0.75, -1.0),
            (Function::Cosine, 0.5, -1.0),
            (Function::Cosine, 0.25, 0.0),
        ] {
            assert_eq!(single(function, x), expected, "{function:?} of {x}");
        }
        // The number below a half turn: 2π times its distance.
        let near = f32::from_bits(0.5f32.to_bits() - 1);
        let distance = f64::from(0.5 - near) * std::f64::consts::TAU;
        assert_eq!(single(Function::Sine, near), distance as f32);
    }
}
