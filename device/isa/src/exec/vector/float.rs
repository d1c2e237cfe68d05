//! Scalar floating-point semantics: what one lane of a floating-point instruction computes.
//!
//! Values are passed as bits, so that NaNs keep theirs. The policy, used by every operation here:
//!
//! * rounding is to nearest even; denormals are kept (`MODE` that says otherwise goes through [`flush_input`] and
//!   [`flush_output`]);
//! * an operation with NaN sources returns the first of them, made quiet; one that makes a NaN returns the negative
//!   quiet NaN, as `v_div_fixup` and `v_log` are documented to, and so does a fused sum whose product is invalid, with any number added;
//! * `v_rcp`, `v_rsq`, `v_sqrt`, `v_exp`, `v_log`, `v_sin` and `v_cos` of singles give the bits of a card (`reciprocal`,
//!   `root`, `power`, `logarithm`, `circle`); those of halves are computed with more precision and rounded once. The functions of
//!   singles other than sine and cosine have no denormals, for any `MODE`.

pub(crate) mod brain;
pub(crate) mod byte;
pub(crate) mod half;
mod mode;

pub(crate) use mode::{
    DX10_CLAMP, FP16_OVFL, IEEE, flush_input, flush_output, limit_overflow, output_f32, output_in_mode,
    signalling,
};

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
            /// `a * b + c`, rounded once. An invalid product makes a NaN before one that is added comes through.
            #[inline(always)]
            pub(crate) fn fma(a: Bits, b: Bits, c: Bits) -> Bits {
                if is_nan(a) {
                    quiet(a)
                } else if is_nan(b) {
                    quiet(b)
                } else if (of(a) * of(b)).is_nan() {
                    NAN
                } else if is_nan(c) {
                    quiet(c)
                } else {
                    result(of(a).mul_add(of(b), of(c)))
                }
            }
            /// IEEE minimum: a number wins over a quiet NaN, of two the first wins, a signalling one is made quiet, -0 is below +0.
            #[inline(always)]
            pub(crate) fn min(a: Bits, b: Bits) -> Bits {
                choose(a, b, |a, b| of(a) < of(b) || (of(a) == of(b) && a & SIGN != 0))
            }
            /// IEEE maximum, the counterpart of [`min`].
            #[inline(always)]
            pub(crate) fn max(a: Bits, b: Bits) -> Bits {
                choose(a, b, |a, b| of(a) > of(b) || (of(a) == of(b) && a & SIGN == 0))
            }
            /// Minimum of numbers (gfx12): a number wins over any NaN, -0 is below +0.
            #[inline(always)]
            pub(crate) fn min_num(a: Bits, b: Bits) -> Bits {
                number(a, b, min)
            }
            /// Maximum of numbers, the counterpart of [`min_num`].
            #[inline(always)]
            pub(crate) fn max_num(a: Bits, b: Bits) -> Bits {
                number(a, b, max)
            }
            #[inline(always)]
            fn number(a: Bits, b: Bits, f: impl Fn(Bits, Bits) -> Bits) -> Bits {
                match (is_nan(a), is_nan(b)) {
                    (true, true) => quiet(a),
                    (true, false) => b,
                    (false, true) => a,
                    (false, false) => f(a, b),
                }
            }
            /// Minimum of IEEE 754-2019 (gfx12): any NaN wins over a number, and of two the first, signalling or not.
            #[inline(always)]
            pub(crate) fn minimum(a: Bits, b: Bits) -> Bits {
                propagate(a, b, min)
            }
            /// Maximum, the counterpart of [`minimum`].
            #[inline(always)]
            pub(crate) fn maximum(a: Bits, b: Bits) -> Bits {
                propagate(a, b, max)
            }
            #[inline(always)]
            fn propagate(a: Bits, b: Bits, f: impl Fn(Bits, Bits) -> Bits) -> Bits {
                if is_nan(a) {
                    quiet(a)
                } else if is_nan(b) {
                    quiet(b)
                } else {
                    f(a, b)
                }
            }
            #[inline(always)]
            fn choose(a: Bits, b: Bits, first: impl Fn(Bits, Bits) -> bool) -> Bits {
                if is_signaling(a) {
                    quiet(a)
                } else if is_signaling(b) {
                    quiet(b)
                } else if is_nan(a) {
                    if is_nan(b) { a } else { b }
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
            /// Returns the fraction; that of an infinity is the NaN of an invalid operation.
            #[inline(always)]
            pub(crate) fn fract(a: Bits) -> Bits {
                // The largest value below 1 where the subtraction would round up to it.
                unary(a, |x| if x.is_infinite() { of(NAN) } else { (x - x.floor()).min(of(ONE - 1)) })
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

/// As [`med3_f32`], where a number wins over any NaN.
pub(crate) fn med3_num_f32(a: u32, b: u32, c: u32) -> u32 {
    use single::{is_nan, min_num};
    if is_nan(a) || is_nan(b) || is_nan(c) { min_num(min_num(a, b), c) } else { med3_f32(a, b, c) }
}

/// A denormal single becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flushed(bits: u32) -> u32 {
    if bits & single::INFINITY == 0 { bits & single::SIGN } else { bits }
}

/// Median of three single-precision numbers, -0 below +0; with a NaN among them, their minimum.
pub(crate) fn med3_f32(a: u32, b: u32, c: u32) -> u32 {
    use single::{is_nan, max, min};
    if is_nan(a) || is_nan(b) || is_nan(c) {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
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
