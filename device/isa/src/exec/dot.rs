//! Dot products: of two 16-bit floats, and of signed integers.
//!
//! The products of floats are exact; the first sum is rounded to double precision, which loses nothing for halves, the last to the
//! result's format.

use super::di::{Di, Flow, Machine, flag};
use super::float::{self, half, single};
use super::lane::for_each_active;
use super::op::{Format, Reg, vector_ops};
use crate::wave::Wave;

fn brain(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// To bfloat16, to nearest even; NaNs are made quiet.
fn brain_from_single(bits: u32) -> u16 {
    if single::is_nan(bits) {
        return (bits >> 16) as u16 | 0x40;
    }
    ((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16
}

/// To bfloat16 with one rounding: the single on the way keeps a trace of what it loses.
fn brain_from_double(value: f64) -> u16 {
    let nearest = single::result(value as f32);
    let back = f64::from(single::of(nearest));
    if value.is_nan() || back == value || back.is_infinite() {
        return brain_from_single(nearest);
    }
    let towards_zero = if back.abs() > value.abs() { nearest - 1 } else { nearest };
    brain_from_single(towards_zero | 1)
}

vector_ops! {
    V_DOT2_BF16_BF16: Bits -> Bits, (a: u32, b: u32, c: u16) -> u16 {
        let product = |shift: u32| brain((a >> shift) as u16) * brain((b >> shift) as u16);
        brain_from_double(brain(c) + product(0) + product(16))
    }
    V_DOT2C_I32_I16: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { signed(a, b, 16).wrapping_add(i64::from(c)) as u32 }
    V_DOT4_I32_I8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { signed(a, b, 8).wrapping_add(i64::from(c)) as u32 }
    V_DOT8_I32_I4: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { signed(a, b, 4).wrapping_add(i64::from(c)) as u32 }
}

/// The sum of the products of signed elements of so many bits.
#[inline(always)]
pub(super) fn signed(a: u32, b: u32, bits: u32) -> i64 {
    let element =
        |word: u32, n: u32| i64::from((word << (32 - bits - n * bits)).cast_signed() >> (32 - bits));
    (0..32 / bits).map(|n| element(a, n) * element(b, n)).sum()
}

/// `v_dot2_i32_i16` (`aux` 1) and `v_dot2_u32_u16`: as [`dot2`], without signs.
pub(crate) fn dot2_integers(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let is_signed = d.aux != 0;
    for_each_active(w, |w, lane| {
        let part = |n: usize, second: bool| {
            let word = d.src[n].lane(w, lane);
            let high = if second { d.imm >> n & 1 != 0 } else { d.src[n].high };
            let bits = (if high { word >> 16 } else { word }) as u16;
            if is_signed { i64::from(bits.cast_signed()) } else { i64::from(bits) }
        };
        let c = d.src[2].lane(w, lane);
        let c = if is_signed { i64::from(c.cast_signed()) } else { i64::from(c) };
        let sum = part(0, false) * part(1, false) + part(0, true) * part(1, true) + c;
        let (least, most) =
            if is_signed { (i64::from(i32::MIN), i64::from(i32::MAX)) } else { (0, i64::from(u32::MAX)) };
        let sum = if d.flags & flag::CLAMP != 0 { sum.clamp(least, most) } else { sum };
        w.v.set_lane(d.dst + lane / 32, lane & 31, sum as u32);
    });
    Flow::NEXT
}

/// `v_dot2_f32_f16` and, with `BRAIN`, `v_dot2_f32_bf16`: `op_sel` chooses the halves of the first product, `op_sel_hi`
/// (bits 2:0 of `imm`) of the second; `neg` negates in the first and `neg_hi` (bits 5:3) in the second.
pub(crate) fn dot2<const BRAIN: bool>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    for_each_active(w, |w, lane| {
        let part = |n: usize, second: bool| {
            let source = &d.src[n];
            let word = source.lane(w, lane);
            let (high, negate) = if second {
                (d.imm >> n & 1 != 0, d.imm >> (3 + n) & 1 != 0)
            } else {
                (source.high, source.neg)
            };
            let bits = (if high { word >> 16 } else { word }) as u16;
            let value = if BRAIN { brain(bits) } else { half::to_f64(bits) };
            if negate { -value } else { value }
        };
        let c = d.src[2].lane(w, lane).modify(Format::F32, &d.src[2]);
        let sum = f64::from(single::of(c)) + part(0, false) * part(1, false) + part(0, true) * part(1, true);
        let clamp = d.flags & flag::CLAMP != 0;
        let value = float::output_in_mode(single::result(sum as f32), Format::F32, 0, clamp, w.mode);
        w.v.set_lane(d.dst + lane / 32, lane & 31, value);
    });
    Flow::NEXT
}
