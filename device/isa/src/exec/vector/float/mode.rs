//! Effects of `MODE`, `omod` and `clamp` on sources and results.

use super::{double, half, single};
use crate::exec::vector::op::{Format, Reg};
use crate::exec::vector::soft::{DOUBLE, HALF, Round, SINGLE};

/// Output modifiers of a single-precision result, to nearest.
#[inline(always)]
pub(crate) fn output_f32(bits: u32, omod: u8, clamp: bool) -> u32 {
    let scaled = multiplied(bits.bits(), Format::F32, omod, 0) as u32;
    if clamp { single::saturate(scaled) } else { scaled }
}

/// Multiplies a result by the output multiplier; overflow is by the rounding of its format, and by `FP16_OVFL`.
#[inline(always)]
fn multiplied(bits: u64, format: Format, omod: u8, mode: u32) -> u64 {
    let (layout, round) = match format {
        _ if omod == 0 => return bits,
        Format::Bits => return bits,
        Format::F32 => (SINGLE, mode),
        Format::F16 if mode & FP16_OVFL != 0 => (HALF, TOWARDS_ZERO),
        Format::F16 => (HALF, mode >> 2),
        Format::F64 => (DOUBLE, mode >> 2),
    };
    layout.multiplied(bits, omod, Round::from_bits(round))
}

/// `FP_ROUND`: towards zero, in which no number becomes an infinity.
const TOWARDS_ZERO: u32 = 3;

/// `MODE.IEEE`.
pub(crate) const IEEE: u32 = 1 << 9;
/// `MODE.DX10_CLAMP`: clamping makes a NaN 0; without it a NaN stays one.
pub(crate) const DX10_CLAMP: u32 = 1 << 8;

/// Output modifiers of a result of `format`, with what `mode` says of rounding and of NaNs.
#[inline(always)]
pub(crate) fn output_in_mode<D: Reg>(value: D, format: Format, omod: u8, clamp: bool, mode: u32) -> D {
    let bits = value.bits();
    let nan = match format {
        Format::Bits => false,
        Format::F16 => half::is_nan(u16::from_bits(bits)),
        Format::F32 => single::is_nan(u32::from_bits(bits)),
        Format::F64 => double::is_nan(bits),
    };
    let bits = multiplied(bits, format, omod, mode);
    let clamp = clamp && (mode & DX10_CLAMP != 0 || !nan);
    D::from_bits(match format {
        _ if !clamp => bits,
        Format::Bits => bits,
        Format::F32 => single::saturate(u32::from_bits(bits)).bits(),
        Format::F64 => double::saturate(bits),
        Format::F16 if nan => 0,
        Format::F16 => u64::from(half::from_f64(half::to_f64(u16::from_bits(bits)).clamp(0.0, 1.0)) & 0x7fff),
    })
}

/// A NaN result where signalling NaNs stay what they are: that of the first source which it is, made quiet, as that source was.
#[inline(always)]
pub(crate) fn signalling<D: Reg>(result: D, format: Format, operands: &[u64]) -> D {
    let layout = match format {
        Format::Bits => return result,
        Format::F16 => HALF,
        Format::F32 => SINGLE,
        Format::F64 => DOUBLE,
    };
    let is_result = |bits: &&u64| layout.is_nan(**bits) && layout.quiet(**bits) == result.bits();
    operands.iter().find(is_result).map_or(result, |nan| D::from_bits(*nan))
}

/// `MODE.FP16_OVFL`: half-precision results that overflow become the largest finite number.
pub(crate) const FP16_OVFL: u32 = 1 << 23;

/// A half-precision result as `MODE.FP16_OVFL` wants it, from operands in `input`: infinities stay when an operand is one. What
/// dividing by zero or the logarithm of zero gives is the largest number.
pub(crate) fn limit_overflow<D: Reg>(result: D, input: Format, operands: &[u64]) -> D {
    const HALF_INFINITY: u64 = 0x7c00;
    if result.bits() & 0x7fff != HALF_INFINITY {
        return result;
    }
    let infinity = match input {
        // Dot products of halves, two in each operand.
        Format::Bits if operands.len() == 3 => {
            let infinite = |bits: u64| bits & HALF_INFINITY == HALF_INFINITY;
            let any = operands.iter().any(|bits| infinite(*bits) || infinite(*bits >> 16));
            return if any { result } else { D::from_bits(result.bits() - 1) };
        }
        Format::Bits => return D::from_bits(result.bits() - 1),
        Format::F16 => HALF_INFINITY,
        Format::F32 => 0x7f80_0000,
        Format::F64 => double::INFINITY,
    };
    let of_infinity = operands.iter().any(|bits| bits & infinity == infinity);
    if of_infinity { result } else { D::from_bits(result.bits() - 1) }
}

/// `FP_DENORM` bits of `MODE` for a format: bit 0 keeps input denormals, bit 1 keeps those of results.
pub(super) fn denormals(format: Format, mode: u32) -> u32 {
    match format {
        Format::Bits => 3,
        Format::F32 => mode >> 4 & 3,
        Format::F16 | Format::F64 => mode >> 6 & 3,
    }
}

pub(super) fn flush<T: Reg>(value: T, format: Format) -> T {
    let bits = value.bits();
    T::from_bits(match format {
        Format::F32 if bits & 0x7f80_0000 == 0 => bits & 0x8000_0000,
        Format::F16 if bits & 0x7c00 == 0 => bits & 0x8000,
        Format::F64 if bits & double::INFINITY == 0 => bits & double::SIGN,
        _ => bits,
    })
}

/// A source as `MODE` lets the operation see it.
#[inline(always)]
pub(crate) fn flush_input<T: Reg>(value: T, format: Format, mode: u32) -> T {
    if denormals(format, mode) & 1 == 0 { flush(value, format) } else { value }
}

/// A result as `MODE` lets it out.
#[inline(always)]
pub(crate) fn flush_output<T: Reg>(value: T, format: Format, mode: u32) -> T {
    if denormals(format, mode) & 2 == 0 { flush(value, format) } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signalling_nans_stay_where_the_result_is_theirs() {
        // `v_div_fixup_f16` takes the NaN of its last source.
        assert_eq!(signalling(0x7e01_u16, Format::F16, &[0x7e05, 0x3c00, 0x7c01]), 0x7c01);
        // Zero times a NaN is zero to `v_fmac_dx9_zero_f32`, and the addend's NaN remains.
        assert_eq!(signalling(0x7fc0_0001_u32, Format::F32, &[0x7fa0_0005, 0, 0x7f80_0001]), 0x7f80_0001);
        // The first of two that would give the same.
        assert_eq!(signalling(0x7e01_u16, Format::F16, &[0x7e01, 0x7c01]), 0x7e01);
        assert_eq!(signalling(0x7e00_u16, Format::F16, &[0x7c01, 0x3c00]), 0x7e00, "made by the operation");
    }
}
