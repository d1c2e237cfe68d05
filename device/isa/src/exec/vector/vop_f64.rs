//! Double-precision arithmetic of the vector ALU.

use super::double_roots;
use super::float::{self, double};
use super::op::vector_ops;

vector_ops! {
    V_ADD_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::binary(a, b, |a, b| a + b) }
    V_MUL_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::binary(a, b, |a, b| a * b) }
    V_FMA_F64: F64 -> F64, (a: u64, b: u64, c: u64) -> u64 { double::fma(a, b, c) }
    V_MIN_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::min(a, b) }
    V_MAX_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::max(a, b) }
    V_MIN_NUM_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::min_num(a, b) }
    V_MAX_NUM_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::max_num(a, b) }
    V_MINIMUM_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::minimum(a, b) }
    V_MAXIMUM_F64: F64 -> F64, (a: u64, b: u64) -> u64 { double::maximum(a, b) }
    V_FLOOR_F64: F64 -> F64, (a: u64) -> u64 { double::unary(a, f64::floor) }
    V_CEIL_F64: F64 -> F64, (a: u64) -> u64 { double::unary(a, f64::ceil) }
    V_TRUNC_F64: F64 -> F64, (a: u64) -> u64 { double::unary(a, f64::trunc) }
    V_RNDNE_F64: F64 -> F64, (a: u64) -> u64 { double::unary(a, f64::round_ties_even) }
    V_FRACT_F64: F64 -> F64, (a: u64) -> u64 { double::fract(a) }
    V_FREXP_MANT_F64: F64 -> F64, (a: u64) -> u64 { if double::is_nan(a) { double::quiet(a) } else { double::frexp(a).0 } }
    V_FREXP_EXP_I32_F64: F64 -> Bits, (a: u64) -> u32 { double::frexp(a).1.cast_unsigned() }
    V_LDEXP_F64: F64 -> F64, (a: u64, b: u32) -> u64 { double::ldexp(a, b.cast_signed()) }
    V_DIV_FIXUP_F64: F64 -> F64, (a: u64, b: u64, c: u64) -> u64 { double::div_fixup(a, b, c) }
    V_TRIG_PREOP_F64: F64 -> F64, (a: u64, b: u32) -> u64 { float::trig_preop(a, b) }
    V_RCP_F64: F64 -> F64, (a: u64) -> u64 { double_roots::rcp(a) }
    V_RSQ_F64: F64 -> F64, (a: u64) -> u64 { double_roots::rsq(a) }
    V_SQRT_F64: F64 -> F64, (a: u64) -> u64 { double_roots::sqrt(a) }
}
