//! Conversions of the vector ALU.
//!
//! Float to integer truncates and saturates, NaN gives 0; where it rounds otherwise a NaN saturates by its sign.

use super::float::{brain, double, half, single};
use super::op::vector_ops;

#[inline(always)]
fn of(a: u32) -> f32 {
    single::of(a)
}

fn norm(value: f64, low: f64, scale: f64) -> f64 {
    if value.is_nan() { 0.0 } else { (value.clamp(low, 1.0) * scale).round_ties_even() }
}

fn snorm(value: f64) -> u16 {
    (norm(value, -1.0, 32767.0) as i16).cast_unsigned()
}

fn unorm(value: f64) -> u16 {
    norm(value, 0.0, 65535.0) as u16
}

#[inline(always)]
fn pack(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Converts to half precision, rounding towards zero.
fn to_half_rtz(a: u32) -> u16 {
    let value = f64::from(of(a));
    let nearest = half::from_f64(value);
    if value.is_nan() || half::to_f64(nearest).abs() <= value.abs() {
        return nearest;
    }
    // One step towards zero; from infinity that is the largest number.
    nearest - 1
}

/// The largest integer not above `value`, saturated; a NaN saturates by the sign of the source's bits.
fn rounded_down(value: f64, bits: u32) -> u32 {
    match value.is_nan() {
        true => i32::MAX.cast_unsigned() + (bits >> 31),
        false => (value.floor() as i32).cast_unsigned(),
    }
}

/// Adds random bits below the last digit that a half keeps, and cuts the rest off.
fn half_by_chance(value: u32, random: u32) -> u16 {
    let sign = (value >> 16) as u16 & 0x8000;
    let magnitude = value & !single::SIGN;
    if single::is_nan(value) || magnitude == single::INFINITY {
        return half::from_single(value);
    }
    // Halves are multiples of 2^-24, and of 2^(exponent - 10) above the smallest normal one.
    let exponent = ((magnitude >> 23) as i32 - 127).max(-14);
    let step = 2f64.powi(exponent - 10);
    let digits = f64::from(of(magnitude)) / step + f64::from(random) / 2f64.powi(32);
    sign | half::from_f64(digits.floor() * step)
}

/// The high half of a single, to which random bits below it are added.
fn brain_by_chance(value: u32, random: u32) -> u16 {
    let magnitude = value & !single::SIGN;
    if single::is_nan(value) || magnitude == single::INFINITY {
        return brain::from_single(value);
    }
    (value.wrapping_add(random >> 16) >> 16) as u16
}

vector_ops! {
    V_CVT_F32_BF16: Bits -> F32, (a: u16) -> u32 { brain::to_single(a) }
    V_CVT_PK_BF16_F32: F32 -> Bits, (a: u32, b: u32) -> u32 { pack(brain::from_single(a), brain::from_single(b)) }
    V_CVT_PK_F16_F32: F32 -> Bits, (a: u32, b: u32) -> u32 { pack(half::from_single(a), half::from_single(b)) }
    V_CVT_SR_BF16_F32: F32 -> Bits, (a: u32, b: u32) -> u16 { brain_by_chance(a, b) }
    V_CVT_SR_F16_F32: F32 -> Bits, (a: u32, b: u32) -> u16 { half_by_chance(a, b) }
    V_CVT_F32_I32: Bits -> F32, (a: u32) -> u32 { (a.cast_signed() as f32).to_bits() }
    V_CVT_F32_U32: Bits -> F32, (a: u32) -> u32 { (a as f32).to_bits() }
    V_CVT_F32_UBYTE0: Bits -> F32, (a: u32) -> u32 { ((a & 255) as f32).to_bits() }
    V_CVT_F32_UBYTE1: Bits -> F32, (a: u32) -> u32 { ((a >> 8 & 255) as f32).to_bits() }
    V_CVT_F32_UBYTE2: Bits -> F32, (a: u32) -> u32 { ((a >> 16 & 255) as f32).to_bits() }
    V_CVT_F32_UBYTE3: Bits -> F32, (a: u32) -> u32 { ((a >> 24) as f32).to_bits() }
    V_CVT_OFF_F32_I4: Bits -> F32, (a: u32) -> u32 { ((((a << 28).cast_signed() >> 28) as f32) / 16.0).to_bits() }
    V_CVT_I32_F32: F32 -> Bits, (a: u32) -> u32 { (of(a) as i32).cast_unsigned() }
    V_CVT_U32_F32: F32 -> Bits, (a: u32) -> u32 { of(a) as u32 }
    V_CVT_FLOOR_I32_F32: F32 -> Bits, (a: u32) -> u32 { rounded_down(f64::from(of(a)), a) }
    V_CVT_NEAREST_I32_F32: F32 -> Bits, (a: u32) -> u32 { rounded_down(f64::from(of(a)) + 0.5, a) }
    V_CVT_F64_F32: F32 -> F64, (a: u32) -> u64 {
        // A NaN keeps its payload, as the host's conversion does too, but quiet and sign by definition here.
        if single::is_nan(a) {
            u64::from(a >> 31) << 63 | 0x7ff8 << 48 | u64::from(a & 0x3f_ffff) << 29
        } else {
            f64::from(of(a)).to_bits()
        }
    }
    V_CVT_F32_F64: F64 -> F32, (a: u64) -> u32 {
        if double::is_nan(a) {
            (a >> 32) as u32 & 0x8000_0000 | 0x7fc0_0000 | (a >> 29) as u32 & 0x3f_ffff
        } else {
            (double::of(a) as f32).to_bits()
        }
    }
    V_CVT_F64_I32: Bits -> F64, (a: u32) -> u64 { f64::from(a.cast_signed()).to_bits() }
    V_CVT_F64_U32: Bits -> F64, (a: u32) -> u64 { f64::from(a).to_bits() }
    V_CVT_I32_F64: F64 -> Bits, (a: u64) -> u32 { (double::of(a) as i32).cast_unsigned() }
    V_CVT_U32_F64: F64 -> Bits, (a: u64) -> u32 { double::of(a) as u32 }
    V_CVT_F16_F32: F32 -> F16, (a: u32) -> u16 { half::from_single(a) }
    V_CVT_F32_F16: F16 -> F32, (a: u16) -> u32 { half::to_single(a) }
    V_CVT_F16_U16: Bits -> F16, (a: u16) -> u16 { half::from_f64(f64::from(a)) }
    V_CVT_F16_I16: Bits -> F16, (a: u16) -> u16 { half::from_f64(f64::from(a.cast_signed())) }
    V_CVT_U16_F16: F16 -> Bits, (a: u16) -> u16 { half::to_f64(a) as u16 }
    V_CVT_I16_F16: F16 -> Bits, (a: u16) -> u16 { (half::to_f64(a) as i16).cast_unsigned() }
    V_CVT_NORM_I16_F16: F16 -> Bits, (a: u16) -> u16 { snorm(half::to_f64(a)) }
    V_CVT_NORM_U16_F16: F16 -> Bits, (a: u16) -> u16 { unorm(half::to_f64(a)) }
    V_CVT_I32_I16: Bits -> Bits, (a: u16) -> u32 { i32::from(a.cast_signed()).cast_unsigned() }
    V_CVT_U32_U16: Bits -> Bits, (a: u16) -> u32 { u32::from(a) }
    V_CVT_PK_RTZ_F16_F32: F32 -> Bits, (a: u32, b: u32) -> u32 { pack(to_half_rtz(a), to_half_rtz(b)) }
    V_CVT_PK_NORM_I16_F32: F32 -> Bits, (a: u32, b: u32) -> u32 { pack(snorm(f64::from(of(a))), snorm(f64::from(of(b)))) }
    V_CVT_PK_NORM_U16_F32: F32 -> Bits, (a: u32, b: u32) -> u32 { pack(unorm(f64::from(of(a))), unorm(f64::from(of(b)))) }
    V_CVT_PK_NORM_I16_F16: F16 -> Bits, (a: u16, b: u16) -> u32 { pack(snorm(half::to_f64(a)), snorm(half::to_f64(b))) }
    V_CVT_PK_NORM_U16_F16: F16 -> Bits, (a: u16, b: u16) -> u32 { pack(unorm(half::to_f64(a)), unorm(half::to_f64(b))) }
    V_CVT_PK_I16_F32: F32 -> Bits, (a: u32, b: u32) -> u32 { pack((of(a) as i16).cast_unsigned(), (of(b) as i16).cast_unsigned()) }
    V_CVT_PK_U16_F32: F32 -> Bits, (a: u32, b: u32) -> u32 { pack(of(a) as u16, of(b) as u16) }
    V_CVT_PK_U16_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { pack(a.min(0xffff) as u16, b.min(0xffff) as u16) }
    V_CVT_PK_I16_I32: Bits -> Bits, (a: u32, b: u32) -> u32 {
        let clamp = |value: u32| value.cast_signed().clamp(-0x8000, 0x7fff) as u16;
        pack(clamp(a), clamp(b))
    }
    V_CVT_PK_U8_F32: F32 -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        let shift = (b & 3) * 8;
        c & !(255 << shift) | u32::from(of(a) as u8) << shift
    }
}
