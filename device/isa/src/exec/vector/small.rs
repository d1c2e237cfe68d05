//! Operations with floats of eight bits (gfx12, gfx942): conversions and dot products. `aux` is the format's number.
//!
//! `MODE.FP16_OVFL` limits results that overflow to the largest finite number, as it does for halves.

use super::float::byte::Byte;
use super::float::{self, FP16_OVFL, single};
use super::lane::for_each_active;
use super::op::Format;
use crate::exec::di::{Di, Flow, Machine, flag};
use crate::wave::Wave;

/// Bit of a format's number: that of CDNA3.
pub(crate) const FNUZ: u8 = 2;

/// A float source of a lane, its modifiers applied.
fn source(w: &Wave, d: &Di, n: usize, lane: u32) -> u32 {
    let source = &d.src[n];
    let mut value = source.lane(w, lane);
    if source.abs {
        value &= !single::SIGN;
    }
    if source.neg {
        value ^= single::SIGN;
    }
    if d.flags & flag::SLOW != 0 { float::flush_input(value, Format::F32, w.mode) } else { value }
}

fn old(w: &Wave, d: &Di, lane: u32) -> u32 {
    w.v.lane(d.dst + lane / 32, lane & 31)
}

fn set(w: &mut Wave, d: &Di, n: u32, lane: u32, value: u32) {
    w.v.set_lane(d.dst + n * w.halves + lane / 32, lane & 31, value);
}

/// `v_cvt_f32_fp8` and `_bf8`: the byte `imm`.
pub(crate) fn to_single(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let format = Byte::from_number(d.aux);
    for_each_active(w, |w, lane| {
        let bits = (d.src[0].lane(w, lane) >> (d.imm * 8)) as u8;
        set(w, d, 0, lane, format.to_single(bits));
    });
    Flow::NEXT
}

/// `v_cvt_pk_f32_fp8` and `_bf8`: two bytes, of the high half with `imm` 1, to two registers.
pub(crate) fn to_singles(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let format = Byte::from_number(d.aux);
    for_each_active(w, |w, lane| {
        let bits = d.src[0].lane(w, lane) >> (d.imm * 16);
        set(w, d, 0, lane, format.to_single(bits as u8));
        set(w, d, 1, lane, format.to_single((bits >> 8) as u8));
    });
    Flow::NEXT
}

/// `v_cvt_pk_fp8_f32` and `_bf8_`: to two bytes, of the high half with `imm` 1.
pub(crate) fn from_singles(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (format, limited) = (Byte::from_number(d.aux), w.mode & FP16_OVFL != 0);
    let shift = d.imm * 16;
    for_each_active(w, |w, lane| {
        let [low, high] = [0, 1].map(|n| format.encoded(source(w, d, n, lane), limited));
        let bits = u32::from(low) | u32::from(high) << 8;
        let value = old(w, d, lane) & !(0xffff << shift) | bits << shift;
        set(w, d, 0, lane, value);
    });
    Flow::NEXT
}

/// `v_cvt_sr_fp8_f32` and `_bf8_`: to the byte `imm`, rounded by the random bits in the second source.
pub(crate) fn by_chance(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (format, limited) = (Byte::from_number(d.aux), w.mode & FP16_OVFL != 0);
    let shift = d.imm * 8;
    for_each_active(w, |w, lane| {
        let random = d.src[1].lane(w, lane);
        let bits = u32::from(format.encoded_by_chance(source(w, d, 0, lane), random, limited));
        let value = old(w, d, lane) & !(0xff << shift) | bits << shift;
        set(w, d, 0, lane, value);
    });
    Flow::NEXT
}

/// `v_dot4_f32_*`: four products added to a single, one after the other. `aux` has the formats of both factors.
pub(crate) fn dot4(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let formats = [Byte::from_number(d.aux & 1), Byte::from_number(d.aux >> 1 & 1)];
    for_each_active(w, |w, lane| {
        let [a, b] =
            [0, 1].map(|n| d.src[n].lane(w, lane).to_le_bytes().map(|bits| formats[n].to_single(bits)));
        let start = source(w, d, 2, lane);
        let sum = a.iter().zip(b).fold(start, |sum, (a, b)| single::fma(*a, b, sum));
        set(w, d, 0, lane, sum);
    });
    Flow::NEXT
}
