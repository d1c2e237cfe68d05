//! Single-precision transcendental operations.
//!
//! Hardware computes these from tables that are not public, to 1 ulp. Here they are computed in double precision and
//! rounded once, which is correctly rounded but for a vanishing number of arguments.

use super::float::single;
use super::op::vector_ops;

/// sin(2πx), exact at multiples of a quarter turn.
pub(crate) fn sin_turns(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    // Reduction is exact: `x` has few enough digits.
    let turn = x - x.round_ties_even();
    if turn == 0.0 {
        return 0.0_f64.copysign(x);
    }
    if turn.abs() == 0.5 {
        return 0.0;
    }
    (turn * core::f64::consts::TAU).sin()
}

/// cos(2πx), exact at multiples of a quarter turn.
pub(crate) fn cos_turns(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    let turn = (x - x.round_ties_even()).abs();
    if turn == 0.25 {
        return 0.0;
    }
    (turn * core::f64::consts::TAU).cos()
}

#[inline(always)]
fn in_double(a: u32, f: impl Fn(f64) -> f64) -> u32 {
    single::unary(a, |x| f(f64::from(x)) as f32)
}

vector_ops! {
    V_RCP_F32: F32 -> F32, (a: u32) -> u32 { single::unary(a, |x| 1.0 / x) }
    V_RCP_IFLAG_F32: F32 -> F32, (a: u32) -> u32 { single::unary(a, |x| 1.0 / x) }
    V_RSQ_F32: F32 -> F32, (a: u32) -> u32 { in_double(a, |x| 1.0 / x.sqrt()) }
    V_SQRT_F32: F32 -> F32, (a: u32) -> u32 { single::unary(a, f32::sqrt) }
    V_EXP_F32: F32 -> F32, (a: u32) -> u32 { in_double(a, f64::exp2) }
    V_LOG_F32: F32 -> F32, (a: u32) -> u32 { in_double(a, f64::log2) }
    V_SIN_F32: F32 -> F32, (a: u32) -> u32 { in_double(a, sin_turns) }
    V_COS_F32: F32 -> F32, (a: u32) -> u32 { in_double(a, cos_turns) }
}
