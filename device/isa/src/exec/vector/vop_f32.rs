//! Single-precision arithmetic of the vector ALU.

use super::dot::lanes;
use super::dot::pairs;
use super::dot::sums::{self, Card, Factors};
use super::float::single::{self, SIGN};
use super::op::vector_ops;
use crate::lanes::Lanes;

/// "Anything times zero is zero" of Direct3D 9.
#[inline(always)]
fn is_zero(a: u32, b: u32) -> bool {
    a & !SIGN == 0 || b & !SIGN == 0
}

vector_ops! {
    V_ADD_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::binary(a, b, |a, b| a + b) }, nan { L::fadd(a, b) }
    V_SUB_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::binary(a, b ^ SIGN, |a, b| a + b) }, nan { L::fsub(a, b) }
    V_SUBREV_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::binary(a ^ SIGN, b, |a, b| a + b) }, nan { L::fsub(b, a) }
    V_MUL_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::binary(a, b, |a, b| a * b) }, nan { L::fmul(a, b) }
    V_FMA_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::fma(a, b, c) }, nan { L::fma(a, b, c) }
    V_FMAC_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::fma(a, b, c) }, nan { L::fma(a, b, c) }
    V_FMAAK_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::fma(a, b, c) }, nan { L::fma(a, b, c) }
    V_FMAMK_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::fma(a, b, c) }, nan { L::fma(a, b, c) }
    V_MUL_DX9_ZERO_F32: F32 -> F32, (a: u32, b: u32) -> u32 { if is_zero(a, b) { 0 } else { single::binary(a, b, |a, b| a * b) } }
    V_FMA_DX9_ZERO_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 {
        if is_zero(a, b) { single::unary(c, |c| c) } else { single::fma(a, b, c) }
    }
    V_FMAC_DX9_ZERO_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 {
        if is_zero(a, b) { single::unary(c, |c| c) } else { single::fma(a, b, c) }
    }
    V_MIN_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::min(a, b) }, lanes {
        if L::unordered(a, b) != 0 {
            return each2::<L>(a, b, single::min);
        }
        L::select(L::feq(a, b), L::or(a, b), L::select(L::flt(a, b), a, b))
    }
    V_MAX_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::max(a, b) }, lanes {
        if L::unordered(a, b) != 0 {
            return each2::<L>(a, b, single::max);
        }
        L::select(L::feq(a, b), L::and(a, b), L::select(L::flt(b, a), a, b))
    }
    V_MIN3_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::min(single::min(a, b), c) }
    V_MAX3_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::max(single::max(a, b), c) }
    V_MED3_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { super::float::med3_f32(a, b, c) }
    V_MAXMIN_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::min(single::max(a, b), c) }
    V_MINMAX_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::max(single::min(a, b), c) }
    V_MIN_NUM_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::min_num(a, b) }, lanes {
        if L::unordered(a, b) != 0 {
            return each2::<L>(a, b, single::min_num);
        }
        L::select(L::feq(a, b), L::or(a, b), L::select(L::flt(a, b), a, b))
    }
    V_MAX_NUM_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::max_num(a, b) }, lanes {
        if L::unordered(a, b) != 0 {
            return each2::<L>(a, b, single::max_num);
        }
        L::select(L::feq(a, b), L::and(a, b), L::select(L::flt(b, a), a, b))
    }
    V_MINIMUM_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::minimum(a, b) }, lanes {
        if L::unordered(a, b) != 0 {
            return each2::<L>(a, b, single::minimum);
        }
        L::select(L::feq(a, b), L::or(a, b), L::select(L::flt(a, b), a, b))
    }
    V_MAXIMUM_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::maximum(a, b) }, lanes {
        if L::unordered(a, b) != 0 {
            return each2::<L>(a, b, single::maximum);
        }
        L::select(L::feq(a, b), L::and(a, b), L::select(L::flt(b, a), a, b))
    }
    V_MIN3_NUM_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::min_num(single::min_num(a, b), c) }
    V_MAX3_NUM_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::max_num(single::max_num(a, b), c) }
    V_MAXMIN_NUM_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::min_num(single::max_num(a, b), c) }
    V_MINMAX_NUM_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::max_num(single::min_num(a, b), c) }
    V_MINIMUM3_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::minimum(single::minimum(a, b), c) }
    V_MAXIMUM3_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::maximum(single::maximum(a, b), c) }
    V_MAXIMUMMINIMUM_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::minimum(single::maximum(a, b), c) }
    V_MINIMUMMAXIMUM_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::maximum(single::minimum(a, b), c) }
    V_MED3_NUM_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { super::float::med3_num_f32(a, b, c) }
    V_FLOOR_F32: F32 -> F32, (a: u32) -> u32 { single::unary(a, f32::floor) }
    V_CEIL_F32: F32 -> F32, (a: u32) -> u32 { single::unary(a, f32::ceil) }
    V_TRUNC_F32: F32 -> F32, (a: u32) -> u32 { single::unary(a, f32::trunc) }
    V_RNDNE_F32: F32 -> F32, (a: u32) -> u32 { single::unary(a, f32::round_ties_even) }
    V_FRACT_F32: F32 -> F32, (a: u32) -> u32 { single::fract(a) }
    V_FREXP_MANT_F32: F32 -> F32, (a: u32) -> u32 { if single::is_nan(a) { single::quiet(a) } else { single::frexp(a).0 } }
    V_FREXP_EXP_I32_F32: F32 -> Bits, (a: u32) -> u32 { single::frexp(a).1.cast_unsigned() }
    V_LDEXP_F32: F32 -> F32, (a: u32, b: u32) -> u32 { single::ldexp(a, b.cast_signed()) }
    V_DIV_FIXUP_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { single::div_fixup(a, b, c) }
    V_MULLIT_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 {
        let lowest = 0xff7f_ffff;
        if b == 0xff80_0000 || b == lowest || single::is_nan(b) || single::of(c) <= 0.0 || single::is_nan(c) {
            lowest
        } else if is_zero(a, b) {
            0
        } else {
            single::binary(a, b, |a, b| a * b)
        }
    }
    V_CUBEMA_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { cube(a, b, c).1 }
    V_CUBEID_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { cube(a, b, c).0 }
    V_CUBESC_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { cube(a, b, c).2 }
    V_CUBETC_F32: F32 -> F32, (a: u32, b: u32, c: u32) -> u32 { cube(a, b, c).3 }
    V_DOT2ACC_F32_F16: Bits -> F32, (a: u32, b: u32, c: u32) -> u32 { sums::single(Card::Gfx11, Factors::Halves, pairs(a, b), c) }, sixteen lanes::halves_of_gfx11
    V_DOT2ACC_F32_BF16: Bits -> F32, (a: u32, b: u32, c: u32) -> u32 { sums::single(Card::Gfx11, Factors::Brains, pairs(a, b), c) }
}

/// The scalar form for vectors with NaNs in them.
#[cold]
#[inline(never)]
fn each2<L: Lanes>(a: L::V, b: L::V, f: impl Fn(u32, u32) -> u32) -> L::V {
    let (a, b) = (L::to_array(a), L::to_array(b));
    L::from_array(core::array::from_fn(|i| f(a[i], b[i])))
}

/// Face, major axis, and the two face coordinates of a direction.
fn cube(x: u32, y: u32, z: u32) -> (u32, u32, u32, u32) {
    let (fx, fy, fz) = (single::of(x), single::of(y), single::of(z));
    let (face, major, s, t) = if fz.abs() >= fx.abs() && fz.abs() >= fy.abs() {
        if fz < 0.0 { (5.0, fz, -fx, -fy) } else { (4.0, fz, fx, -fy) }
    } else if fy.abs() >= fx.abs() {
        if fy < 0.0 { (3.0, fy, fx, -fz) } else { (2.0, fy, fx, fz) }
    } else if fx < 0.0 {
        (1.0, fx, fz, -fy)
    } else {
        (0.0, fx, -fz, -fy)
    };
    // A face coordinate that is a NaN is a source's.
    let nan = |value: f32, sources: [u32; 3]| match sources.into_iter().find(|bits| single::is_nan(*bits)) {
        Some(bits) => single::quiet(bits),
        None => single::result(value),
    };
    let all = [x, y, z];
    (nan(face, all), nan(major * 2.0, all), nan(s, all), nan(t, all))
}
