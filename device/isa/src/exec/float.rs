//! Scalar floating-point semantics: what one lane of a floating-point instruction computes.
//!
//! Values are passed as bits, so that NaNs keep theirs. The policy, used by every operation here:
//!
//! * rounding is to nearest even; denormals are kept (`MODE` that says otherwise goes through [`flush_input`] and
//!   [`flush_output`]);
//! * an operation with NaN sources returns the first of them, made quiet; one that makes a NaN returns the negative
//!   quiet NaN, as `v_div_fixup` and `v_log` are documented to;
//! * `v_rcp`, `v_rsq`, `v_sqrt`, `v_exp`, `v_log`, `v_sin`, `v_cos` are tables of unpublished content in hardware, good to
//!   1 ulp; here they are computed in double precision and rounded once.

use super::op::{Format, Reg};

/// Functions of one width.
macro_rules! float_format {
    ($module:ident, $float:ty, $bits:ty, $mantissa:literal, $exponent_mask:literal, $bias:literal) => {
        pub(crate) mod $module {
            pub(crate) type Bits = $bits;
            pub(crate) const SIGN: Bits = 1 << (Bits::BITS - 1);
            pub(crate) const QUIET: Bits = 1 << ($mantissa - 1);
            pub(crate) const INFINITY: Bits = $exponent_mask << $mantissa;
            pub(crate) const NAN: Bits = SIGN | INFINITY | QUIET;
            pub(crate) const ONE: Bits = $bias << $mantissa;

            #[inline(always)]
            pub(crate) fn of(bits: Bits) -> $float {
                <$float>::from_bits(bits)
            }
            #[inline(always)]
            pub(crate) fn is_nan(bits: Bits) -> bool {
                bits & !SIGN > INFINITY
            }
            #[inline(always)]
            pub(crate) fn is_signaling(bits: Bits) -> bool {
                is_nan(bits) && bits & QUIET == 0
            }
            #[inline(always)]
            pub(crate) fn quiet(bits: Bits) -> Bits {
                bits | QUIET
            }
            #[inline(always)]
            pub(crate) fn exponent(bits: Bits) -> i32 {
                (bits >> $mantissa & $exponent_mask) as i32
            }
            /// A result with NaN's bits made definite.
            #[inline(always)]
            pub(crate) fn result(value: $float) -> Bits {
                if value.is_nan() { NAN } else { value.to_bits() }
            }
            #[inline(always)]
            pub(crate) fn unary(a: Bits, f: impl Fn($float) -> $float) -> Bits {
                if is_nan(a) { quiet(a) } else { result(f(of(a))) }
            }
            #[inline(always)]
            pub(crate) fn binary(a: Bits, b: Bits, f: impl Fn($float, $float) -> $float) -> Bits {
                if is_nan(a) {
                    quiet(a)
                } else if is_nan(b) {
                    quiet(b)
                } else {
                    result(f(of(a), of(b)))
                }
            }
            #[inline(always)]
            pub(crate) fn fma(a: Bits, b: Bits, c: Bits) -> Bits {
                if is_nan(a) {
                    quiet(a)
                } else if is_nan(b) {
                    quiet(b)
                } else if is_nan(c) {
                    quiet(c)
                } else {
                    result(of(a).mul_add(of(b), of(c)))
                }
            }
            /// IEEE minimum: a number wins over a quiet NaN, a signalling one is made quiet, -0 is below +0.
            #[inline(always)]
            pub(crate) fn min(a: Bits, b: Bits) -> Bits {
                choose(a, b, |a, b| of(a) < of(b) || (of(a) == of(b) && a & SIGN != 0))
            }
            /// IEEE maximum, the counterpart of [`min`].
            #[inline(always)]
            pub(crate) fn max(a: Bits, b: Bits) -> Bits {
                choose(a, b, |a, b| of(a) > of(b) || (of(a) == of(b) && a & SIGN == 0))
            }
            #[inline(always)]
            fn choose(a: Bits, b: Bits, first: impl Fn(Bits, Bits) -> bool) -> Bits {
                if is_signaling(a) {
                    quiet(a)
                } else if is_signaling(b) {
                    quiet(b)
                } else if is_nan(a) {
                    b
                } else if is_nan(b) || first(a, b) {
                    a
                } else {
                    b
                }
            }
            /// `value * 2^power`, rounded once.
            pub(crate) fn ldexp(a: Bits, power: i32) -> Bits {
                if is_nan(a) {
                    return quiet(a);
                }
                let value = of(a);
                if value == 0.0 || value.is_infinite() {
                    return a;
                }
                let digits = $mantissa + 1;
                // Normalise, then decide: far too big, far too small, or one exact scaling and one rounding.
                let (mantissa, exponent) = frexp(a);
                let total = i64::from(exponent) + i64::from(power);
                if total > $bias + 1 {
                    return a & SIGN | INFINITY;
                }
                if total < -($bias + digits + 2) {
                    return a & SIGN;
                }
                // |mantissa| is in [0.5, 1), so the result's exponent field is bias + total - 1 when it is normal.
                multiply_down(mantissa, total as i32)
            }
            /// A normal number times 2^power, for a result that does not overflow, rounded once where it is denormal.
            fn multiply_down(bits: Bits, power: i32) -> Bits {
                let sign = bits & SIGN;
                let exponent = exponent(bits) + power;
                let fraction = bits & ((1 << $mantissa) - 1) | 1 << $mantissa;
                if exponent > 0 {
                    return sign | (exponent as Bits) << $mantissa | fraction & ((1 << $mantissa) - 1);
                }
                let shift = (1 - exponent) as u32;
                if shift > $mantissa + 1 {
                    return sign;
                }
                let kept = fraction >> shift;
                let rest = fraction & ((1 << shift) - 1);
                let half = 1 << (shift - 1);
                let up = rest > half || (rest == half && kept & 1 != 0);
                sign | (kept + Bits::from(up))
            }
            /// Mantissa in [0.5, 1) with the sign, and exponent; 0, infinities and NaNs give themselves and 0.
            pub(crate) fn frexp(a: Bits) -> (Bits, i32) {
                let magnitude = a & !SIGN;
                if magnitude == 0 || magnitude >= INFINITY {
                    return (a, 0);
                }
                let shift = if exponent(a) == 0 {
                    magnitude.leading_zeros() - (Bits::BITS - 1 - $mantissa)
                } else {
                    0
                };
                let exponent = if shift > 0 { 1 - shift as i32 } else { exponent(a) };
                let fraction = (magnitude << shift) & ((1 << $mantissa) - 1);
                (a & SIGN | ($bias - 1) << $mantissa | fraction, exponent - ($bias - 1))
            }
            /// `v_cmp_class`: whether the value is of a class in `mask`.
            #[inline(always)]
            pub(crate) fn class(a: Bits, mask: u32) -> bool {
                let negative = a & SIGN != 0;
                let magnitude = a & !SIGN;
                let bit = if is_nan(a) {
                    u32::from(!is_signaling(a))
                } else if magnitude == INFINITY {
                    if negative { 2 } else { 9 }
                } else if exponent(a) != 0 {
                    if negative { 3 } else { 8 }
                } else if magnitude != 0 {
                    if negative { 4 } else { 7 }
                } else if negative {
                    5
                } else {
                    6
                };
                mask >> bit & 1 != 0
            }
            /// `v_div_fixup`: the quotient `q` of `n / d` corrected for the special cases.
            pub(crate) fn div_fixup(q: Bits, d: Bits, n: Bits) -> Bits {
                let sign = (d ^ n) & SIGN;
                let (den, num) = (d & !SIGN, n & !SIGN);
                if is_nan(n) {
                    quiet(n)
                } else if is_nan(d) {
                    quiet(d)
                } else if (den == 0 && num == 0) || (den == INFINITY && num == INFINITY) {
                    NAN
                } else if den == 0 || num == INFINITY {
                    sign | INFINITY
                } else if den == INFINITY || num == 0 || exponent(n) - exponent(d) < -($bias + $mantissa) {
                    sign
                } else if is_nan(q) {
                    sign | INFINITY
                } else {
                    sign | q & !SIGN
                }
            }
            #[inline(always)]
            pub(crate) fn fract(a: Bits) -> Bits {
                // The largest value below 1 where the subtraction would round up to it.
                unary(a, |x| (x - x.floor()).min(of(ONE - 1)))
            }
            /// Clamp to 0..1; NaN becomes 0 (`DX10_CLAMP`).
            #[inline(always)]
            pub(crate) fn saturate(a: Bits) -> Bits {
                if is_nan(a) || of(a) <= 0.0 { 0 } else { of(a).min(1.0).to_bits() }
            }
        }
    };
}

float_format!(single, f32, u32, 23, 0xff, 127);
float_format!(double, f64, u64, 52, 0x7ff, 1023);

/// Median of three single-precision numbers; with a NaN among them, their minimum.
pub(crate) fn med3_f32(a: u32, b: u32, c: u32) -> u32 {
    use single::{is_nan, max, min, of};
    if is_nan(a) || is_nan(b) || is_nan(c) {
        return min(min(a, b), c);
    }
    let largest = of(max(max(a, b), c));
    if largest == of(a) {
        max(b, c)
    } else if largest == of(b) {
        max(a, c)
    } else {
        max(a, b)
    }
}

/// Half precision, computed in double precision and rounded once.
pub(crate) mod half {
    pub(crate) const NAN: u16 = 0xfe00;

    #[inline(always)]
    pub(crate) fn is_nan(bits: u16) -> bool {
        bits & 0x7fff > 0x7c00
    }
    #[inline(always)]
    pub(crate) fn is_signaling(bits: u16) -> bool {
        is_nan(bits) && bits & 0x200 == 0
    }
    /// Exact; NaNs keep sign and payload and are made quiet.
    #[inline(always)]
    pub(crate) fn to_single(bits: u16) -> u32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
        let magnitude = match exponent {
            0 => (f32::from_bits(fraction | 0x4b00_0000) - 8_388_608.0).to_bits_scaled(),
            31 if fraction != 0 => 0x7fc0_0000 | fraction << 13,
            31 => 0x7f80_0000,
            _ => (exponent + 112) << 23 | fraction << 13,
        };
        sign | magnitude
    }
    trait Scaled {
        fn to_bits_scaled(self) -> u32;
    }
    impl Scaled for f32 {
        /// A count of 2^-24 as a number.
        #[inline(always)]
        fn to_bits_scaled(self) -> u32 {
            (self * f32::from_bits(0x3380_0000)).to_bits()
        }
    }
    #[inline(always)]
    pub(crate) fn to_f64(bits: u16) -> f64 {
        f64::from(f32::from_bits(to_single(bits)))
    }
    /// To nearest even; NaNs keep sign and the payload's top bits and are made quiet.
    pub(crate) fn from_f64(value: f64) -> u16 {
        let bits = value.to_bits();
        let sign = (bits >> 48 & 0x8000) as u16;
        let magnitude = bits & !(1 << 63);
        if value.is_nan() {
            return sign | 0x7e00 | (bits >> 42 & 0x1ff) as u16;
        }
        if magnitude >= 0x40ef_fe00_0000_0000 {
            // Half a unit above 65504, the largest: rounds to infinity.
            return sign | 0x7c00;
        }
        let exponent = (magnitude >> 52) as i32 - 1023;
        if exponent < -25 {
            return sign;
        }
        let fraction = magnitude & ((1 << 52) - 1) | 1 << 52;
        // Bits below the result's last: 42 for normal numbers, more for denormal ones.
        let shift = if exponent < -14 { 42 + (-14 - exponent) as u32 } else { 42 };
        let kept = fraction >> shift;
        let rest = fraction & ((1 << shift) - 1);
        let half = 1u64 << (shift - 1);
        let rounded = kept + u64::from(rest > half || (rest == half && kept & 1 != 0));
        // A carry out of the fraction moves into the exponent by itself.
        let base = if exponent < -14 { 0 } else { ((exponent + 15) as u64 - 1) << 10 };
        sign | (base + rounded) as u16
    }
    #[inline(always)]
    pub(crate) fn from_single(bits: u32) -> u16 {
        from_f64(f64::from(f32::from_bits(bits)))
    }
    #[inline(always)]
    pub(crate) fn quiet(bits: u16) -> u16 {
        bits | 0x200
    }
    #[inline(always)]
    pub(crate) fn result(value: f64) -> u16 {
        if value.is_nan() { NAN } else { from_f64(value) }
    }
    #[inline(always)]
    pub(crate) fn unary(a: u16, f: impl Fn(f64) -> f64) -> u16 {
        if is_nan(a) { quiet(a) } else { result(f(to_f64(a))) }
    }
    #[inline(always)]
    pub(crate) fn binary(a: u16, b: u16, f: impl Fn(f64, f64) -> f64) -> u16 {
        if is_nan(a) {
            quiet(a)
        } else if is_nan(b) {
            quiet(b)
        } else {
            result(f(to_f64(a), to_f64(b)))
        }
    }
    /// The product is exact in double precision, and so is every sum that does not overflow.
    #[inline(always)]
    pub(crate) fn fma(a: u16, b: u16, c: u16) -> u16 {
        if is_nan(a) {
            quiet(a)
        } else if is_nan(b) {
            quiet(b)
        } else if is_nan(c) {
            quiet(c)
        } else {
            result(to_f64(a) * to_f64(b) + to_f64(c))
        }
    }
    #[inline(always)]
    fn choose(a: u16, b: u16, first: impl Fn(f64, f64) -> bool, sign: u16) -> u16 {
        if is_signaling(a) {
            quiet(a)
        } else if is_signaling(b) {
            quiet(b)
        } else if is_nan(a) {
            b
        } else if is_nan(b) || first(to_f64(a), to_f64(b)) || (to_f64(a) == to_f64(b) && a & 0x8000 == sign) {
            a
        } else {
            b
        }
    }
    #[inline(always)]
    pub(crate) fn min(a: u16, b: u16) -> u16 {
        choose(a, b, |a, b| a < b, 0x8000)
    }
    #[inline(always)]
    pub(crate) fn max(a: u16, b: u16) -> u16 {
        choose(a, b, |a, b| a > b, 0)
    }
    pub(crate) fn med3(a: u16, b: u16, c: u16) -> u16 {
        if is_nan(a) || is_nan(b) || is_nan(c) {
            return min(min(a, b), c);
        }
        let largest = to_f64(max(max(a, b), c));
        if largest == to_f64(a) {
            max(b, c)
        } else if largest == to_f64(b) {
            max(a, c)
        } else {
            max(a, b)
        }
    }
    pub(crate) fn ldexp(a: u16, power: i32) -> u16 {
        unary(a, |x| x * f64::exp2(f64::from(power.clamp(-64, 64))))
    }
    pub(crate) fn frexp(a: u16) -> (u16, i32) {
        let magnitude = a & 0x7fff;
        if magnitude == 0 || magnitude >= 0x7c00 {
            return (if is_nan(a) { quiet(a) } else { a }, 0);
        }
        let (mantissa, exponent) = super::double::frexp(to_f64(a).to_bits());
        (from_f64(f64::from_bits(mantissa)), exponent)
    }
    pub(crate) fn class(a: u16, mask: u32) -> bool {
        let negative = a & 0x8000 != 0;
        let magnitude = a & 0x7fff;
        let bit = match magnitude {
            0x7c01.. => u32::from(!is_signaling(a)),
            0x7c00 => {
                if negative {
                    2
                } else {
                    9
                }
            }
            0x0400.. => {
                if negative {
                    3
                } else {
                    8
                }
            }
            0x0001.. => {
                if negative {
                    4
                } else {
                    7
                }
            }
            0 => {
                if negative {
                    5
                } else {
                    6
                }
            }
        };
        mask >> bit & 1 != 0
    }
    pub(crate) fn div_fixup(q: u16, d: u16, n: u16) -> u16 {
        let sign = (d ^ n) & 0x8000;
        let (den, num) = (d & 0x7fff, n & 0x7fff);
        if is_nan(n) {
            quiet(n)
        } else if is_nan(d) {
            quiet(d)
        } else if (den == 0 && num == 0) || (den == 0x7c00 && num == 0x7c00) {
            NAN
        } else if den == 0 || num == 0x7c00 {
            sign | 0x7c00
        } else if den == 0x7c00 || num == 0 {
            sign
        } else {
            sign | q & 0x7fff
        }
    }
}

/// Output modifiers of a single-precision result.
#[inline(always)]
pub(crate) fn output_f32(bits: u32, omod: u8, clamp: bool) -> u32 {
    let scaled = match omod {
        0 => bits,
        _ => {
            positive_zero(flush(single::unary(bits, |x| x * factor(omod) as f32), Format::F32), single::SIGN)
        }
    };
    if clamp { single::saturate(scaled) } else { scaled }
}

/// What the output multiplier multiplies by.
fn factor(omod: u8) -> f64 {
    match omod {
        1 => 2.0,
        2 => 4.0,
        3 => 0.5,
        _ => 1.0,
    }
}

/// The output multiplier knows no negative zero.
fn positive_zero<T: Copy + PartialEq + Default>(value: T, negative_zero: T) -> T {
    if value == negative_zero { T::default() } else { value }
}

/// Output modifiers of a result of `format`. The multiplier works only where denormal results are flushed.
#[inline(always)]
pub(crate) fn output<D: Reg>(value: D, format: Format, omod: u8, clamp: bool) -> D {
    let bits = value.bits();
    D::from_bits(match format {
        Format::Bits => bits,
        Format::F32 => output_f32(u32::from_bits(bits), omod, clamp).bits(),
        Format::F16 => {
            let bits = u16::from_bits(bits);
            let scaled = match omod {
                0 => bits,
                _ => positive_zero(flush(half::unary(bits, |x| x * factor(omod)), format), 0x8000),
            };
            let saturated =
                if half::is_nan(scaled) { 0 } else { half::from_f64(half::to_f64(scaled).clamp(0.0, 1.0)) };
            if clamp { saturated.bits() & 0x7fff } else { scaled.bits() }
        }
        Format::F64 => {
            let scaled = match omod {
                0 => bits,
                _ => positive_zero(flush(double::unary(bits, |x| x * factor(omod)), format), double::SIGN),
            };
            if clamp { double::saturate(scaled) } else { scaled }
        }
    })
}

/// `MODE.IEEE`.
pub(crate) const IEEE: u32 = 1 << 9;
/// `MODE.DX10_CLAMP`: clamping makes a NaN 0; without it a NaN stays one.
pub(crate) const DX10_CLAMP: u32 = 1 << 8;

/// As [`output`], with what `mode` says of NaNs.
#[inline(always)]
pub(crate) fn output_in_mode<D: Reg>(value: D, format: Format, omod: u8, clamp: bool, mode: u32) -> D {
    let bits = value.bits();
    let nan = match format {
        Format::Bits => false,
        Format::F16 => half::is_nan(u16::from_bits(bits)),
        Format::F32 => single::is_nan(u32::from_bits(bits)),
        Format::F64 => double::is_nan(bits),
    };
    output(value, format, omod, clamp && (mode & DX10_CLAMP != 0 || !nan))
}

/// `MODE.FP16_OVFL`: half-precision results that overflow become the largest finite number.
pub(crate) const FP16_OVFL: u32 = 1 << 23;

/// A half-precision result as `MODE.FP16_OVFL` wants it, from operands in `input`: infinities stay when an operand is one,
/// and so does what dividing by zero or the logarithm of zero gives.
pub(crate) fn limit_overflow<D: Reg>(result: D, input: Format, operands: &[u64]) -> D {
    const HALF_INFINITY: u64 = 0x7c00;
    if result.bits() & 0x7fff != HALF_INFINITY {
        return result;
    }
    let (infinity, magnitude) = match input {
        // Dot products of halves, two in each operand.
        Format::Bits if operands.len() == 3 => {
            let infinite = |bits: u64| bits & HALF_INFINITY == HALF_INFINITY;
            let any = operands.iter().any(|bits| infinite(*bits) || infinite(*bits >> 16));
            return if any { result } else { D::from_bits(result.bits() - 1) };
        }
        Format::Bits => return D::from_bits(result.bits() - 1),
        Format::F16 => (HALF_INFINITY, 0x7fff),
        Format::F32 => (0x7f80_0000, 0x7fff_ffff),
        Format::F64 => (double::INFINITY, !double::SIGN),
    };
    let of_zero = matches!(operands, [only] if only & magnitude == 0);
    let of_infinity = operands.iter().any(|bits| bits & infinity == infinity);
    if of_zero || of_infinity { result } else { D::from_bits(result.bits() - 1) }
}

/// `FP_DENORM` bits of `MODE` for a format: bit 0 keeps input denormals, bit 1 keeps those of results.
fn denormals(format: Format, mode: u32) -> u32 {
    match format {
        Format::Bits => 3,
        Format::F32 => mode >> 4 & 3,
        Format::F16 | Format::F64 => mode >> 6 & 3,
    }
}

fn flush<T: Reg>(value: T, format: Format) -> T {
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

/// The first 1201 bits of 2/π after the point, most significant first.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_0000,
];

/// `v_trig_preop_f64`: 53 bits of 2/π, chosen by the exponent of `a` and the segment `b`.
pub(crate) fn trig_preop(a: u64, b: u32) -> u64 {
    let exponent = double::exponent(a);
    let mut shift = 53 * (b & 31);
    if exponent > 1077 {
        shift += (exponent - 1077).unsigned_abs();
    }
    // 53 bits from position `shift`.
    let (limb, bit) = ((shift / 64) as usize, shift % 64);
    let at = |index: usize| u128::from(TWO_OVER_PI.get(index).copied().unwrap_or(0));
    let window = (at(limb) << 64 | at(limb + 1)) << bit;
    let digits = (window >> 64) as u64 >> 11;
    let mut scale = -53 - shift.cast_signed();
    if exponent >= 1968 {
        scale += 128;
    }
    double::ldexp((digits as f64).to_bits(), scale)
}
