//! Half-precision arithmetic of the vector ALU.

use super::dot::pairs;
use super::dot::sums::{self, Card, Factors};
use super::float::half;
use super::op::vector_ops;
use super::{circle, reciprocal, root};

vector_ops! {
    V_ADD_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::binary(a, b, |a, b| a + b) }
    V_SUB_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::binary(a, b ^ half::SIGN, |a, b| a + b) }
    V_SUBREV_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::binary(a ^ half::SIGN, b, |a, b| a + b) }
    V_MUL_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::binary(a, b, |a, b| a * b) }
    V_FMA_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::fma(a, b, c) }
    V_FMAC_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::fma(a, b, c) }
    V_FMAAK_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::fma(a, b, c) }
    V_FMAMK_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::fma(a, b, c) }
    V_MAD_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::mad(a, b, c) }
    V_MIN_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::min(a, b) }
    V_MAX_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::max(a, b) }
    V_MIN3_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::min(half::min(a, b), c) }
    V_MAX3_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::max(half::max(a, b), c) }
    V_MED3_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::med3(a, b, c) }
    V_MAXMIN_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::min(half::max(a, b), c) }
    V_MINMAX_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::max(half::min(a, b), c) }
    V_MIN_NUM_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::min_num(a, b) }
    V_MAX_NUM_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::max_num(a, b) }
    V_MINIMUM_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::minimum(a, b) }
    V_MAXIMUM_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::maximum(a, b) }
    V_MIN3_NUM_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::min_num(half::min_num(a, b), c) }
    V_MAX3_NUM_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::max_num(half::max_num(a, b), c) }
    V_MAXMIN_NUM_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::min_num(half::max_num(a, b), c) }
    V_MINMAX_NUM_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::max_num(half::min_num(a, b), c) }
    V_MINIMUM3_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::minimum(half::minimum(a, b), c) }
    V_MAXIMUM3_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::maximum(half::maximum(a, b), c) }
    V_MAXIMUMMINIMUM_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::minimum(half::maximum(a, b), c) }
    V_MINIMUMMAXIMUM_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::maximum(half::minimum(a, b), c) }
    V_MED3_NUM_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::med3_num(a, b, c) }
    V_FLOOR_F16: F16 -> F16, (a: u16) -> u16 { half::unary(a, f64::floor) }
    V_CEIL_F16: F16 -> F16, (a: u16) -> u16 { half::unary(a, f64::ceil) }
    V_TRUNC_F16: F16 -> F16, (a: u16) -> u16 { half::unary(a, f64::trunc) }
    V_RNDNE_F16: F16 -> F16, (a: u16) -> u16 { half::unary(a, f64::round_ties_even) }
    V_FRACT_F16: F16 -> F16, (a: u16) -> u16 { half::fract(a) }
    V_FREXP_MANT_F16: F16 -> F16, (a: u16) -> u16 { half::frexp(a).0 }
    V_FREXP_EXP_I16_F16: F16 -> Bits, (a: u16) -> u16 { half::frexp(a).1 as u16 }
    V_LDEXP_F16: F16 -> F16, (a: u16, b: u16) -> u16 { half::ldexp(a, i32::from(b.cast_signed())) }
    V_DIV_FIXUP_F16: F16 -> F16, (a: u16, b: u16, c: u16) -> u16 { half::div_fixup(a, b, c) }
    V_RCP_F16: F16 -> F16, (a: u16) -> u16 { half::by_single(a, reciprocal::reciprocal) }
    V_RSQ_F16: F16 -> F16, (a: u16) -> u16 { half::by_single(a, reciprocal::reciprocal_root) }
    V_SQRT_F16: F16 -> F16, (a: u16) -> u16 { half::by_single(a, root::root) }
    V_EXP_F16: F16 -> F16, (a: u16) -> u16 { half::unary(a, libm::exp2) }
    V_LOG_F16: F16 -> F16, (a: u16) -> u16 { half::unary(a, libm::log2) }
    V_SIN_F16: F16 -> F16, (a: u16) -> u16 { half::by_single(a, circle::sine) }
    V_COS_F16: F16 -> F16, (a: u16) -> u16 { half::by_single(a, circle::cosine) }
    V_DOT2_F16_F16: Bits -> F16, (a: u32, b: u32, c: u16) -> u16 { sums::narrow(Card::Gfx11, Factors::Halves, pairs(a, b), c) }
}
