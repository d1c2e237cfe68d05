//! Floats of eight bits of CDNA3: no infinities, one NaN in the place of negative zero. Found by looking through all of them.

use belfry_isa::inst::Op;

use super::lane::{Lane, Out};
use super::number::{F32, flushed};

const NAN: u8 = 0x80;
const LARGEST: u8 = 0x7f;

/// Bits of the mantissa, and the bias.
#[derive(Clone, Copy, Debug)]
pub(super) struct Byte(u32, i32);

pub(super) const FP8: Byte = Byte(3, 8);
pub(super) const BF8: Byte = Byte(2, 16);

impl Byte {
    /// The number, which is none for the NaN.
    pub(super) fn number(self, bits: u8) -> f64 {
        let Byte(mantissa, bias) = self;
        if bits == NAN {
            return f64::NAN;
        }
        let (field, fraction) = (i32::from(bits & 0x7f) >> mantissa, i32::from(bits) & ((1 << mantissa) - 1));
        let hidden = if field == 0 { 0 } else { 1 << mantissa };
        let value = f64::from(fraction + hidden) * 2f64.powi(field.max(1) - bias - mantissa as i32);
        if bits >> 7 != 0 { -value } else { value }
    }

    fn single(self, bits: u8) -> u32 {
        if bits == NAN { 0x7fc0_0000 } else { (self.number(bits) as f32).to_bits() }
    }

    /// The largest that is not larger than a magnitude.
    fn below(self, magnitude: f64) -> u8 {
        (0..=LARGEST).rev().find(|bits| self.number(*bits) <= magnitude).unwrap_or(0)
    }

    /// Returns the distance from `bits` to the next number.
    fn step(self, bits: u8) -> f64 {
        let bits = bits.min(LARGEST - 1);
        self.number(bits + 1) - self.number(bits)
    }

    /// With a sign, unless it is zero; `over` says that it is too large.
    fn signed(magnitude: u8, over: bool, negative: bool, limit: bool) -> u8 {
        match (over, magnitude) {
            (true, _) if !limit => NAN,
            (false, 0) => 0,
            (true, _) => LARGEST | u8::from(negative) << 7,
            _ => magnitude | u8::from(negative) << 7,
        }
    }

    fn nearest(self, value: f32, limit: bool) -> u8 {
        if !value.is_finite() {
            return NAN;
        }
        let magnitude = f64::from(value.abs());
        let below = self.below(magnitude);
        let rest = (magnitude - self.number(below)) / self.step(below);
        let up = rest > 0.5 || (rest == 0.5 && below & 1 != 0);
        Self::signed(below + u8::from(up && below < LARGEST), up && below == LARGEST, value < 0.0, limit)
    }

    fn by_chance(self, value: f32, random: u32, limit: bool) -> u8 {
        if !value.is_finite() {
            return NAN;
        }
        let magnitude = f64::from(value.abs());
        let below = self.below(magnitude);
        let step = self.step(below);
        // So many of the value's own digits are below the last one that is kept, and so many of the random ones count.
        let digit = 2f64.powi((value.abs().to_bits() >> 23).max(1) as i32 - 150);
        let digits = ((step / digit).log2() as u32).min(32);
        let chance = (u64::from(random) >> (32 - digits)) as f64 / 2f64.powi(digits as i32);
        let up = (magnitude - self.number(below)) / step >= 1.0 - chance;
        Self::signed(below + u8::from(up && below < LARGEST), up && below == LARGEST, value < 0.0, limit)
    }
}

/// Conversions.
pub(crate) fn run(l: &Lane<'_>) -> Option<Out> {
    let (op_sel, limit) = (l.vector.mods.op_sel, l.state.mode >> 23 & 1 != 0);
    let source = |n: usize| f32::from_bits(flushed::<F32>(l.f32(n), l.single().flush_in) as u32);
    let put = |shift: u32, mask: u32, value: u32| {
        Some(Out::B32(u64::from(l.old() & !(mask << shift) | value << shift)))
    };
    let kind = match l.vector.op {
        Op::V_CVT_F32_FP8 | Op::V_CVT_PK_F32_FP8 | Op::V_CVT_PK_FP8_F32 | Op::V_CVT_SR_FP8_F32 => FP8,
        Op::V_CVT_F32_BF8 | Op::V_CVT_PK_F32_BF8 | Op::V_CVT_PK_BF8_F32 | Op::V_CVT_SR_BF8_F32 => BF8,
        _ => return None,
    };
    match l.vector.op {
        Op::V_CVT_F32_FP8 | Op::V_CVT_F32_BF8 => Some(Out::B32(u64::from(kind.single(l.u32(0) as u8)))),
        Op::V_CVT_PK_F32_FP8 | Op::V_CVT_PK_F32_BF8 => {
            let word = l.u32(0) >> (16 * u32::from(op_sel & 1));
            let [low, high] = [word as u8, (word >> 8) as u8].map(|byte| u64::from(kind.single(byte)));
            Some(Out::B64(low | high << 32))
        }
        Op::V_CVT_PK_FP8_F32 | Op::V_CVT_PK_BF8_F32 => {
            let [low, high] = [0, 1].map(|n| u32::from(kind.nearest(source(n), limit)));
            put(if op_sel & 8 != 0 { 16 } else { 0 }, 0xffff, low | high << 8)
        }
        // The number of the byte is in bits 3 and 2 of `op_sel`, the higher one first.
        _ => put(8 * u32::from(op_sel >> 2 & 3), 0xff, u32::from(kind.by_chance(source(0), l.u32(1), limit))),
    }
}

/// Dot products of integers of GFX9.
pub(crate) fn dot(l: &Lane<'_>) -> Option<Out> {
    let mods = &l.vector.mods;
    let (bits, signed) = match l.vector.op {
        Op::V_DOT2_I32_I16 | Op::V_DOT2C_I32_I16 => (16, true),
        Op::V_DOT2_U32_U16 => (16, false),
        Op::V_DOT4_I32_I8 | Op::V_DOT4C_I32_I8 => (8, true),
        Op::V_DOT8_I32_I4 | Op::V_DOT8C_I32_I4 => (4, true),
        _ => return None,
    };
    let chooses = matches!(l.vector.op, Op::V_DOT2_I32_I16 | Op::V_DOT2_U32_U16);
    let field = |n: usize, at: u32| {
        let select = if at == 0 { mods.op_sel } else { mods.op_sel_hi };
        let at = if chooses { u32::from(select >> n & 1) } else { at };
        let raw = i128::from(l.u32(n) >> (at * bits)) & ((1 << bits) - 1);
        if signed && raw >> (bits - 1) != 0 { raw - (1 << bits) } else { raw }
    };
    let sum: i128 = (0..32 / bits).map(|at| field(0, at) * field(1, at)).sum();
    let third = if signed { i128::from(l.i32(2)) } else { i128::from(l.u32(2)) };
    Some(l.int(sum + third, 32, signed))
}
