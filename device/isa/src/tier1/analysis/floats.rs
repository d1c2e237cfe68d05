//! Functions of one float.

use crate::inst::Op;

/// A format of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    Half,
    Single,
    Double,
}

/// A way to an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// To the nearest one, of two the even one.
    Nearest,
    Down,
    Up,
    ToZero,
}

/// A function of one float that is an instruction or a few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    /// A float that is an integer.
    Round(Rounding),
    /// The part after the point.
    Fraction,
    /// Both parts of a float, the mantissa from 0.5 on.
    Mantissa,
    Exponent,
}

/// The function of one float, if compiled code does it.
pub(crate) fn unary(op: Op) -> Option<(Unary, Float)> {
    use Float::{Double, Half, Single};
    let round = |how, float| (Unary::Round(how), float);
    Some(match op {
        Op::V_FLOOR_F16 => round(Rounding::Down, Half),
        Op::V_FLOOR_F32 => round(Rounding::Down, Single),
        Op::V_FLOOR_F64 => round(Rounding::Down, Double),
        Op::V_CEIL_F16 => round(Rounding::Up, Half),
        Op::V_CEIL_F32 => round(Rounding::Up, Single),
        Op::V_CEIL_F64 => round(Rounding::Up, Double),
        Op::V_TRUNC_F16 => round(Rounding::ToZero, Half),
        Op::V_TRUNC_F32 => round(Rounding::ToZero, Single),
        Op::V_TRUNC_F64 => round(Rounding::ToZero, Double),
        Op::V_RNDNE_F16 => round(Rounding::Nearest, Half),
        Op::V_RNDNE_F32 => round(Rounding::Nearest, Single),
        Op::V_RNDNE_F64 => round(Rounding::Nearest, Double),
        Op::V_FRACT_F16 => (Unary::Fraction, Half),
        Op::V_FRACT_F32 => (Unary::Fraction, Single),
        Op::V_FRACT_F64 => (Unary::Fraction, Double),
        Op::V_FREXP_MANT_F16 => (Unary::Mantissa, Half),
        Op::V_FREXP_MANT_F32 => (Unary::Mantissa, Single),
        Op::V_FREXP_MANT_F64 => (Unary::Mantissa, Double),
        Op::V_FREXP_EXP_I16_F16 => (Unary::Exponent, Half),
        Op::V_FREXP_EXP_I32_F32 => (Unary::Exponent, Single),
        Op::V_FREXP_EXP_I32_F64 => (Unary::Exponent, Double),
        _ => return None,
    })
}
