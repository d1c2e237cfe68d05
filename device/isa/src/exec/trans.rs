//! Single-precision transcendental operations.
//!
//! Hardware computes these from tables, to 1 ulp. Reciprocals and reciprocal roots are those of cards (see [`reciprocal`]). The others,
//! whose tables are not public, are computed in double precision and rounded once, which is correctly rounded but for a vanishing
//! number of arguments. The double-precision functions are compiled in, so that results do not depend on the C library that a process
//! happens to run with.

use super::float::{flushed, single};
use super::op::vector_ops;
use super::{reciprocal, series};

/// sin(2πx), exact at multiples of a quarter turn.
pub(crate) fn sin_turns(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    // Reduction is exact: `x` has few enough digits.
    let turn = x - x.round_ties_even();
    if x == 0.0 {
        return x;
    }
    if turn == 0.0 || turn.abs() == 0.5 {
        return 0.0;
    }
    // From the nearer of its zeros, lest the product with 2π loses the digits that count there.
    let near = if turn.abs() > 0.25 { 0.5_f64.copysign(turn) - turn } else { turn };
    libm::sin(near * core::f64::consts::TAU)
}

/// cos(2πx), exact at multiples of a quarter turn.
pub(crate) fn cos_turns(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    let turn = (x - x.round_ties_even()).abs();
    let from_zero = 0.25 - turn;
    if from_zero == 0.0 {
        return 0.0;
    }
    if from_zero.abs() < 0.125 {
        return libm::sin(from_zero * core::f64::consts::TAU);
    }
    libm::cos(turn * core::f64::consts::TAU)
}

#[inline(always)]
fn in_double(a: u32, f: impl Fn(f64) -> f64) -> u32 {
    single::unary(a, |x| f(f64::from(x)) as f32)
}

/// A function of a single that knows no denormals: they are zeros before and behind it, in every mode.
#[inline(always)]
fn without_denormals(a: u32, f: impl Fn(u32) -> u32) -> u32 {
    flushed(f(flushed(a)))
}

vector_ops! {
    V_RCP_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal(a) }, sixteen reciprocal::reciprocals
    V_RCP_IFLAG_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal(a) }, sixteen reciprocal::reciprocals
    V_RSQ_F32: F32 -> F32, (a: u32) -> u32 { reciprocal::reciprocal_root(a) }, sixteen reciprocal::reciprocal_roots
    V_SQRT_F32: F32 -> F32, (a: u32) -> u32 { without_denormals(a, |a| single::unary(a, f32::sqrt)) }
    V_EXP_F32: F32 -> F32, (a: u32) -> u32 { without_denormals(a, |a| in_double(a, libm::exp2)) }, sixteen series::powers
    V_LOG_F32: F32 -> F32, (a: u32) -> u32 { without_denormals(a, |a| in_double(a, libm::log2)) }, sixteen series::logarithms
    V_SIN_F32: F32 -> F32, (a: u32) -> u32 { in_double(a, sin_turns) }, sixteen series::sines
    V_COS_F32: F32 -> F32, (a: u32) -> u32 { in_double(a, cos_turns) }, sixteen series::cosines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_and_cosine_are_precise_next_to_their_zeros() {
        let distance = 2f64.powi(-25);
        let expected = distance * core::f64::consts::TAU;
        for value in [
            sin_turns(distance),
            sin_turns(0.5 - distance),
            -sin_turns(0.5 + distance),
            -sin_turns(7.0 - distance),
            cos_turns(0.25 - distance),
            -cos_turns(0.25 + distance),
            -cos_turns(3.75 - distance),
        ] {
            assert!((value / expected - 1.0).abs() < 1e-14, "{value:e} {expected:e}");
        }
    }
}
