//! Floats of eight bits: conversions and dot products, by `rustc_apfloat`'s formats of the Open Compute Project.

use belfry_isa::inst::Op;
use rustc_apfloat::ieee::{Float8E4M3FN, Float8E5M2};
use rustc_apfloat::{Float, FloatConvert, Round};

use super::lane::{Lane, Out};
use super::number::{F32, Rules, bits, flushed, fma, of};

/// E4M3 or E5M2.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Small {
    Fp8,
    Bf8,
}

fn widened<F: FloatConvert<F32>>(value: u8) -> u64 {
    let value = F::from_bits(u128::from(value));
    let wide: F32 = value.convert(&mut false).value;
    if value.is_nan() { 0x7fc0_0000 | u64::from(value.is_negative()) << 31 } else { bits(wide) }
}

fn narrowed<F: Float>(value: u64, round: Round) -> u8
where
    F32: FloatConvert<F>,
{
    let narrow: F = of::<F32>(value).convert_r(round, &mut false).value;
    narrow.to_bits() as u8
}

impl Small {
    fn named(name: &str) -> Option<Small> {
        match name {
            "fp8" => Some(Small::Fp8),
            "bf8" => Some(Small::Bf8),
            _ => None,
        }
    }

    /// As single precision.
    pub(crate) fn single(self, value: u8) -> u64 {
        match self {
            Small::Fp8 => widened::<Float8E4M3FN>(value),
            Small::Bf8 => widened::<Float8E5M2>(value),
        }
    }

    fn rounded(self, value: u64, round: Round) -> u8 {
        match self {
            Small::Fp8 => narrowed::<Float8E4M3FN>(value, round),
            Small::Bf8 => narrowed::<Float8E5M2>(value, round),
        }
    }

    /// Largest finite number.
    fn largest(self) -> u8 {
        match self {
            Small::Fp8 => 0x7e,
            Small::Bf8 => 0x7b,
        }
    }

    /// Limits a result above the largest number, which includes the NaN of E4M3, to the largest number, if `limit`
    /// says so.
    fn limited(self, result: u8, limit: bool) -> u8 {
        if result & 0x7f > self.largest() && limit { result & 0x80 | self.largest() } else { result }
    }

    /// NaNs and infinities, which are not rounded.
    fn special(self, value: u64) -> Option<u8> {
        let (value, sign) = (of::<F32>(value), (value >> 31 << 7) as u8);
        if value.is_nan() {
            return Some(sign | 0x7f);
        }
        value.is_infinite().then_some(sign | if matches!(self, Small::Fp8) { 0x7f } else { 0x7c })
    }

    /// To nearest even.
    fn nearest(self, value: u64, limit: bool) -> u8 {
        self.special(value)
            .unwrap_or_else(|| self.limited(self.rounded(value, Round::NearestTiesToEven), limit))
    }

    /// Up in magnitude with the probability that the digits below the last one say.
    fn by_chance(self, value: u64, random: u32, limit: bool) -> u8 {
        if let Some(special) = self.special(value) {
            return special;
        }
        let magnitude = value & 0x7fff_ffff;
        let cut = self.limited(self.rounded(magnitude, Round::TowardZero), true);
        let number = |bits: u8| f64::from(f32::from_bits(self.single(bits) as u32));
        // The step at the largest number is that below it.
        let step =
            if cut < self.largest() { number(cut + 1) - number(cut) } else { number(cut) - number(cut - 1) };
        let value = f64::from(f32::from_bits(magnitude as u32));
        let digit = 2f64.powi((magnitude >> 23).max(1) as i32 - 150);
        let digits = ((step / digit).log2() as u32).min(32);
        let chance = (u64::from(random) >> (32 - digits)) as f64 / 2f64.powi(digits as i32);
        let result = cut + u8::from((value - number(cut)) / step >= 1.0 - chance);
        self.limited(result, limit)
    }
}

/// Conversions.
pub(crate) fn run(l: &Lane<'_>) -> Option<Out> {
    let op_sel = l.vector.mods.op_sel;
    let limit = l.state.mode >> 23 & 1 != 0;
    let name = l.vector.op.mnemonic().strip_prefix("v_cvt_")?;
    let source = |n: usize| flushed::<F32>(l.f32(n), l.single().flush_in);
    let put = |shift: u32, mask: u32, value: u32| {
        Some(Out::B32(u64::from(l.old() & !(mask << shift) | value << shift)))
    };
    if let Some(kind) = name.strip_prefix("pk_f32_").and_then(Small::named) {
        let word = l.u32(0) >> (16 * u32::from(op_sel & 1));
        let [low, high] = [word as u8, (word >> 8) as u8].map(|byte| kind.single(byte));
        return Some(Out::B64(low | high << 32));
    }
    if let Some(kind) = name.strip_prefix("f32_").and_then(Small::named) {
        let half = if l.state.facts().is_gfx9 { 0 } else { l.vector.byte };
        return Some(Out::B32(kind.single((l.u32(0) >> (8 * half)) as u8)));
    }
    if let Some(kind) =
        name.strip_prefix("pk_").and_then(|name| name.strip_suffix("_f32")).and_then(Small::named)
    {
        let [low, high] = [0, 1].map(|n| u32::from(kind.nearest(source(n), limit)));
        return put(if op_sel & 8 != 0 { 16 } else { 0 }, 0xffff, low | high << 8);
    }
    let kind = Small::named(name.strip_prefix("sr_")?.strip_suffix("_f32")?)?;
    let value = source(0);
    let result = kind.by_chance(value, l.u32(1), limit) | (value >> 31 << 7) as u8;
    let byte = if l.state.facts().is_gfx9 { u32::from(op_sel >> 2 & 3) } else { l.vector.byte };
    put(8 * byte, 0xff, u32::from(result))
}

/// `v_dot4_f32_*`: the products are added one after the other.
pub(crate) fn dot(l: &Lane<'_>) -> Option<Out> {
    use Small::{Bf8, Fp8};
    let kinds = match l.vector.op {
        Op::V_DOT4_F32_FP8_FP8 => [Fp8, Fp8],
        Op::V_DOT4_F32_FP8_BF8 => [Fp8, Bf8],
        Op::V_DOT4_F32_BF8_FP8 => [Bf8, Fp8],
        Op::V_DOT4_F32_BF8_BF8 => [Bf8, Bf8],
        _ => return None,
    };
    let mods = &l.vector.mods;
    let third = u64::from(l.u32(2));
    let third = if mods.neg_hi & 4 != 0 { third & 0x7fff_ffff } else { third };
    let third = if mods.neg & 4 != 0 { third ^ 0x8000_0000 } else { third };
    let third = flushed::<F32>(third, l.single().flush_in);
    let sum = (0..4).fold(third, |sum, n| {
        let [a, b] = [0, 1].map(|source| kinds[source].single((l.u32(source) >> (8 * n)) as u8));
        fma::<F32>(a, b, sum, Rules::IEEE)
    });
    Some(Out::B32(sum))
}
