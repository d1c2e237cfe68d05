//! Conversions of CDNA4 with a scale, `v_cvt_scalef32_*`, by lists of the numbers that a format has.

use belfry_isa::inst::{Inst, Operand};

use super::number::{F16, F32, Rules, convert};
use super::state::{End, State, float_constant};

/// A format of few bits: those of exponent and mantissa, the bias, the codes of the largest number, of what an overflow gives, and of
/// a NaN.
struct Narrow {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    largest: u32,
    beyond: u32,
    nan: u32,
}

impl Narrow {
    fn named(name: &str) -> Option<Narrow> {
        let (exponent, mantissa, bias, [largest, beyond, nan]) = match name {
            "fp8" => (4, 3, 7, [0x7e, 0x7f, 0x7f]),
            "bf8" => (5, 2, 15, [0x7b, 0x7c, 0x7f]),
            "fp6" => (2, 3, 1, [0x1f; 3]),
            "bf6" => (3, 2, 3, [0x1f; 3]),
            "fp4" => (2, 1, 1, [7; 3]),
            _ => return None,
        };
        Some(Narrow { exponent, mantissa, bias, largest, beyond, nan })
    }

    fn bits(&self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    /// The number of a code without its sign, one beyond the largest too.
    fn number(&self, code: u32) -> f64 {
        let (exponent, fraction) = (code >> self.mantissa, code & ((1 << self.mantissa) - 1));
        let part = f64::from(fraction) / f64::from(1 << self.mantissa);
        if exponent == 0 {
            part * 2f64.powi(1 - self.bias)
        } else {
            (1.0 + part) * 2f64.powi(exponent as i32 - self.bias)
        }
    }

    /// The number of a code as a float that has infinities and NaNs.
    fn value(&self, code: u32) -> f64 {
        let sign = if code >> (self.bits() - 1) & 1 != 0 { -1.0f64 } else { 1.0 };
        let code = code & ((1 << (self.bits() - 1)) - 1);
        if code <= self.largest {
            return self.number(code) * sign;
        }
        let is_infinite = code == self.beyond && self.beyond != self.nan;
        if is_infinite { f64::INFINITY * sign } else { f64::NAN.copysign(sign) }
    }

    /// The code of a number: the nearest, of two the even one; with random bits one of both.
    fn code(&self, value: f64, random: Option<u32>, limit: bool) -> u32 {
        let sign = u32::from(value.is_sign_negative()) << (self.bits() - 1);
        if value.is_nan() {
            return sign | self.nan;
        }
        let magnitude = value.abs();
        if magnitude.is_infinite() {
            return sign | self.beyond;
        }
        if magnitude == 0.0 {
            return sign;
        }
        let below = (0..=self.largest).rev().find(|code| self.number(*code) <= magnitude).unwrap_or(0);
        let from = if below == self.largest { below - 1 } else { below };
        let step = self.number(from + 1) - self.number(from);
        let part = (magnitude - self.number(below)) / step;
        let up = match random {
            None => part > 0.5 || part == 0.5 && below % 2 == 1,
            Some(random) => {
                // Digits of the number below the last one of the result.
                let digit = 2f64.powi(exponent(magnitude) - 23);
                let digits = ((step / digit).log2() as u32).min(32);
                let chance = (u64::from(random) >> (32 - digits)) as f64 / 2f64.powi(digits as i32);
                part >= 1.0 - chance
            }
        };
        let code = below + u32::from(up);
        sign | match (code > self.largest, limit) {
            (false, _) => code,
            (true, true) => self.largest,
            (true, false) => self.beyond,
        }
    }
}

/// Exponent of the highest digit.
fn exponent(magnitude: f64) -> i32 {
    (magnitude.to_bits() >> 52) as i32 - 1023
}

/// Register `n` of a source; a constant is each of its registers.
fn word(state: &State, operand: Operand, n: u32, lane: u32, is_half: bool) -> u32 {
    match operand {
        Operand::InlineFloat(value) if is_half => float_constant(value, 16) as u32,
        Operand::InlineFloat(value) => value.f32_bits(),
        Operand::InlineInt(value) => i32::from(value) as u32,
        other => match state.vector_register(other) {
            Some(register) => state.vgpr(register + n, lane),
            None => (state.scalar64(other, true) >> (32 * n)) as u32,
        },
    }
}

fn single(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

/// A half of either kind as a number.
fn widened(bits: u32, is_brain: bool) -> f64 {
    if is_brain {
        single(bits << 16)
    } else {
        single(convert::<F16, F32>(u64::from(bits), Rules::IEEE, Rules::IEEE) as u32)
    }
}

/// Replaces `count` bits from `at` on.
fn put(old: u32, at: u32, count: u32, value: u32) -> u32 {
    (0..count).fold(old, |word, bit| word & !(1 << (at + bit)) | (value >> bit & 1) << (at + bit))
}

/// Runs a conversion; `None` if it is none of these.
pub(super) fn run(state: &mut State, inst: &Inst) -> Option<Result<(), End>> {
    let name = inst.op.mnemonic().strip_prefix("v_cvt_scalef32_")?;
    let parts: Vec<&str> = name.split('_').collect();
    let [before @ .., to, from] = parts.as_slice() else { return Some(Err(End::Unknown)) };
    let chance = before.first() == Some(&"sr");
    let turns = before.contains(&"2xpk16");
    let count = match before.last() {
        Some(&("pk32" | "2xpk16")) => 32,
        Some(&"pk") => 2,
        _ => 1,
    };
    let sizes = [count, u32::from(turns), u32::from(chance)];
    Some(match (Narrow::named(to), Narrow::named(from)) {
        (Some(format), None) => narrow(state, inst, &format, from, sizes),
        (None, Some(format)) => widen(state, inst, &format, to, count),
        _ => Err(End::Unknown),
    })
}

/// The power of two that a scale is; `None` for the NaN.
fn power(scale: u32) -> Option<f64> {
    let exponent = scale >> 23 & 255;
    (exponent != 255).then(|| 2f64.powi(exponent as i32 - 127))
}

fn narrow(
    state: &mut State,
    inst: &Inst,
    format: &Narrow,
    from: &str,
    [count, turns, chance]: [u32; 3],
) -> Result<(), End> {
    let (limit, op_sel) = (state.mode >> 23 & 1 != 0, u32::from(inst.mods.op_sel));
    let two = turns != 0 || from == "f32" && count == 2 && chance == 0;
    let scale_at = if two || chance != 0 { 2 } else { 1 };
    let dst = state.vector_register(inst.dst).ok_or(End::Unknown)?;
    for lane in state.active() {
        let scale = power(word(state, inst.src[scale_at], 0, lane, false));
        let random = (chance != 0).then(|| word(state, inst.src[1], 0, lane, false));
        let element = |at: u32| {
            let (n, at) = if two { (at as usize % 2, at / 2) } else { (0, at) };
            let value = if from == "f32" {
                single(word(state, inst.src[n], at, lane, false))
            } else {
                let at = if count == 1 { op_sel & 1 } else { at };
                let both = word(state, inst.src[n], at / 2, lane, from == "f16");
                widened(both >> (16 * (at % 2)) & 0xffff, from == "bf16")
            };
            let value = if inst.mods.abs >> n & 1 != 0 { value.abs() } else { value };
            if inst.mods.neg >> n & 1 != 0 { -value } else { value }
        };
        let codes: Vec<u32> = (0..count)
            .map(|at| format.code(scale.map_or(f64::NAN, |scale| element(at) / scale), random, limit))
            .collect();
        let bits = format.bits();
        let mut stream: Vec<u32> =
            codes.iter().flat_map(|code| (0..bits).map(move |bit| code >> bit & 1)).collect();
        if count < 32 {
            let size = bits * count;
            let part = if size == 8 { op_sel >> 2 & 3 } else { op_sel >> 3 & 1 };
            let value = stream.iter().rev().fold(0, |value, bit| value << 1 | bit);
            let old = state.vgpr(dst, lane);
            state.set_vgpr(dst, lane, put(old, part * size, size, value));
            continue;
        }
        for n in 0..bits {
            let rest = stream.split_off(32);
            state.set_vgpr(dst + n, lane, stream.iter().rev().fold(0, |value, bit| value << 1 | bit));
            stream = rest;
        }
    }
    Ok(())
}

fn widen(state: &mut State, inst: &Inst, format: &Narrow, to: &str, count: u32) -> Result<(), End> {
    let (limit, op_sel) = (state.mode >> 23 & 1 != 0, u32::from(inst.mods.op_sel));
    let dst = state.vector_register(inst.dst).ok_or(End::Unknown)?;
    let bits = format.bits();
    for lane in state.active() {
        let scale = power(word(state, inst.src[1], 0, lane, false));
        let start = match (count, bits * count) {
            (32, _) => 0,
            (_, 8) => (op_sel & 3) * 8,
            _ => (op_sel & 1) * 16,
        };
        let results: Vec<u32> = (0..count)
            .map(|at| {
                let code = (0..bits).rev().fold(0, |code, bit| {
                    let place = start + at * bits + bit;
                    code << 1 | word(state, inst.src[0], place / 32, lane, false) >> (place % 32) & 1
                });
                let number = format.value(code);
                let value = scale.map_or(f64::NAN, |scale| number * scale);
                let wide = if value.is_nan() {
                    0x7fc0_0000 | u32::from(value.is_sign_negative()) << 31
                } else {
                    (value as f32).to_bits()
                };
                match to {
                    "f32" => wide,
                    "bf16" => super::cdna4::brain(u64::from(wide)) as u32,
                    _ => {
                        let half = convert::<F32, F16>(u64::from(wide), Rules::IEEE, Rules::IEEE) as u32;
                        let overflows = half & 0x7fff == 0x7c00 && number.is_finite();
                        if overflows && limit { half - 1 } else { half }
                    }
                }
            })
            .collect();
        for (at, result) in (0..).zip(results) {
            match (to, count) {
                ("f32", _) => state.set_vgpr(dst + at, lane, result),
                (_, 1) => {
                    let old = state.vgpr(dst, lane);
                    state.set_vgpr(dst, lane, put(old, (op_sel >> 3 & 1) * 16, 16, result));
                }
                _ => {
                    let old = state.vgpr(dst + at / 2, lane);
                    state.set_vgpr(dst + at / 2, lane, put(old, at % 2 * 16, 16, result));
                }
            }
        }
    }
    Ok(())
}
