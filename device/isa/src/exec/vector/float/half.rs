//! Half precision, computed in double precision and rounded once.

pub(crate) const NAN: u16 = 0xfe00;
pub(crate) const SIGN: u16 = 0x8000;
pub(crate) const INFINITY: u16 = 0x7c00;

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
/// A function of the half as a single, whose result is rounded to nearest.
#[inline(always)]
pub(crate) fn by_single(a: u16, f: impl Fn(u32) -> u32) -> u16 {
    if is_nan(a) { quiet(a) } else { from_single(f(to_single(a))) }
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
/// Returns true if the product of two numbers is that of an infinity and zero, which is invalid: no NaN that is added comes through.
#[inline(always)]
fn is_invalid(a: u16, b: u16) -> bool {
    (to_f64(a) * to_f64(b)).is_nan()
}
/// The product is exact in double precision, and so is every sum that does not overflow.
#[inline(always)]
pub(crate) fn fma(a: u16, b: u16, c: u16) -> u16 {
    if is_nan(a) {
        quiet(a)
    } else if is_nan(b) {
        quiet(b)
    } else if is_invalid(a, b) {
        NAN
    } else if is_nan(c) {
        quiet(c)
    } else {
        result(to_f64(a) * to_f64(b) + to_f64(c))
    }
}
/// A denormal becomes a zero of its sign.
#[inline(always)]
pub(crate) fn flushed(bits: u16) -> u16 {
    if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}
/// A product and a sum, each rounded; there are no denormals, for any `MODE`.
#[inline(always)]
pub(crate) fn mad(a: u16, b: u16, c: u16) -> u16 {
    let [a, b, c] = [a, b, c].map(flushed);
    if is_nan(a) {
        quiet(a)
    } else if is_nan(b) {
        quiet(b)
    } else if is_invalid(a, b) {
        NAN
    } else if is_nan(c) {
        quiet(c)
    } else {
        let product = flushed(result(to_f64(a) * to_f64(b)));
        flushed(result(to_f64(product) + to_f64(c)))
    }
}
#[inline(always)]
fn choose(a: u16, b: u16, first: impl Fn(f64, f64) -> bool, sign: u16) -> u16 {
    if is_signaling(a) {
        quiet(a)
    } else if is_signaling(b) {
        quiet(b)
    } else if is_nan(a) {
        if is_nan(b) { a } else { b }
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
/// As for singles: a number wins over any NaN.
#[inline(always)]
fn number(a: u16, b: u16, f: impl Fn(u16, u16) -> u16) -> u16 {
    match (is_nan(a), is_nan(b)) {
        (true, true) => quiet(a),
        (true, false) => b,
        (false, true) => a,
        (false, false) => f(a, b),
    }
}
#[inline(always)]
pub(crate) fn min_num(a: u16, b: u16) -> u16 {
    number(a, b, min)
}
#[inline(always)]
pub(crate) fn max_num(a: u16, b: u16) -> u16 {
    number(a, b, max)
}
/// As for singles: any NaN wins over a number, and of two the first.
#[inline(always)]
fn propagate(a: u16, b: u16, f: impl Fn(u16, u16) -> u16) -> u16 {
    if is_nan(a) {
        quiet(a)
    } else if is_nan(b) {
        quiet(b)
    } else {
        f(a, b)
    }
}
#[inline(always)]
pub(crate) fn minimum(a: u16, b: u16) -> u16 {
    propagate(a, b, min)
}
#[inline(always)]
pub(crate) fn maximum(a: u16, b: u16) -> u16 {
    propagate(a, b, max)
}
pub(crate) fn med3_num(a: u16, b: u16, c: u16) -> u16 {
    if is_nan(a) || is_nan(b) || is_nan(c) { min_num(min_num(a, b), c) } else { med3(a, b, c) }
}
pub(crate) fn med3(a: u16, b: u16, c: u16) -> u16 {
    if is_nan(a) || is_nan(b) || is_nan(c) {
        return min(min(a, b), c);
    }
    max(min(a, b), min(max(a, b), c))
}
/// As for singles: an infinity gives a NaN, and nothing rounds up to 1.
pub(crate) fn fract(a: u16) -> u16 {
    let below_one = 2047.0 / 2048.0;
    unary(a, |x| if x.is_infinite() { f64::NAN } else { (x - x.floor()).min(below_one) })
}
pub(crate) fn ldexp(a: u16, power: i32) -> u16 {
    unary(a, |x| x * libm::exp2(f64::from(power.clamp(-64, 64))))
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
