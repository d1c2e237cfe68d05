//! Sums that no format of the machine holds, by way of quadruple precision.

use rustc_apfloat::ieee::{Double, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round, Status};

use super::number::{Format, bits, of};

fn widen<F: Format>(value: F) -> Quad {
    if F::WIDTH == 32 {
        of::<Single>(bits(value)).convert(&mut false).value
    } else {
        of::<Double>(bits(value)).convert(&mut false).value
    }
}

/// `(a * b + c) * 2^power` rounded once.
///
/// Quadruple precision rounds the sum to odd, which a second rounding to at most 111 digits cannot tell from the exact
/// one.
pub(crate) fn fma_scaled<F: Format>([a, b, c]: [F; 3], power: i32, round: Round) -> F {
    let sum = widen(a).mul_add_r(widen(b), widen(c), Round::TowardZero);
    let exact = !sum.status.contains(Status::INEXACT);
    let digits = sum.value.to_bits() | u128::from(!exact);
    let mut scaled = Quad::from_bits(digits).scalbn_r(power, Round::TowardZero);
    if scaled.is_zero() && exact {
        // The sign of an exact zero is the rounding's, of the exact sum.
        scaled = widen(a).mul_add_r(widen(b), widen(c), round).value;
    }
    if F::WIDTH == 32 {
        let narrow: Single = scaled.convert_r(round, &mut false).value;
        of::<F>(bits(narrow))
    } else {
        let narrow: Double = scaled.convert_r(round, &mut false).value;
        of::<F>(bits(narrow))
    }
}
