//! IEEE arithmetic in software (`rustc_apfloat`), with `MODE`'s rounding and denormals and the engine's stated choice of
//! NaNs.

use rustc_apfloat::ieee::{BFloat, Double, Half, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

/// Rounding and denormals of one width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Rounding.
    pub(crate) round: Round,
    /// Denormal sources are zeros.
    pub(crate) flush_in: bool,
    /// Denormal results become zeros.
    pub(crate) flush_out: bool,
    /// Signalling NaNs are not made quiet, and lose against numbers as others do.
    pub(crate) signals: bool,
}

impl Rules {
    /// To nearest even, denormals kept.
    pub(crate) const IEEE: Rules =
        Rules { round: Round::NearestTiesToEven, flush_in: false, flush_out: false, signals: false };

    /// Of single precision (`wide` false) or of half and double precision, after `MODE`.
    pub(crate) fn of(mode: u32, wide: bool) -> Rules {
        let (round, denormal) = if wide { (mode >> 2 & 3, mode >> 6 & 3) } else { (mode & 3, mode >> 4 & 3) };
        let round = match round {
            0 => Round::NearestTiesToEven,
            1 => Round::TowardPositive,
            2 => Round::TowardNegative,
            _ => Round::TowardZero,
        };
        Rules { round, flush_in: denormal & 1 == 0, flush_out: denormal & 2 == 0, signals: false }
    }

    /// The same denormals, to nearest even.
    pub(crate) fn nearest(self) -> Rules {
        Rules { round: Round::NearestTiesToEven, ..self }
    }
}

/// A format by its apfloat type: bits of mantissa and in all.
pub(crate) trait Format: Float {
    /// Explicit bits of the mantissa.
    const MANTISSA: u32;
    /// Bits in all.
    const WIDTH: u32;
}

impl Format for Half {
    const MANTISSA: u32 = 10;
    const WIDTH: u32 = 16;
}
impl Format for BFloat {
    const MANTISSA: u32 = 7;
    const WIDTH: u32 = 16;
}
impl Format for Single {
    const MANTISSA: u32 = 23;
    const WIDTH: u32 = 32;
}
impl Format for Double {
    const MANTISSA: u32 = 52;
    const WIDTH: u32 = 64;
}

/// The value of some bits.
pub(crate) fn of<F: Format>(bits: u64) -> F {
    F::from_bits(u128::from(bits))
}

/// The bits of a value.
pub(crate) fn bits<F: Format>(value: F) -> u64 {
    value.to_bits() as u64
}

/// The sign bit.
pub(crate) fn sign<F: Format>() -> u64 {
    1 << (F::WIDTH - 1)
}

/// Bits of 1.0.
pub(crate) fn one<F: Format>() -> u64 {
    bits(F::from_u128(1).value)
}

/// Returns true if the bits are a NaN.
pub(crate) fn is_nan<F: Format>(value: u64) -> bool {
    of::<F>(value).is_nan()
}

/// A NaN made quiet.
pub(crate) fn quiet<F: Format>(value: u64) -> u64 {
    value | 1 << (F::MANTISSA - 1)
}

/// A NaN that is the result of an operation: made quiet, if the rules are so.
pub(crate) fn passed<F: Format>(value: u64, rules: Rules) -> u64 {
    if rules.signals { value } else { quiet::<F>(value) }
}

/// The NaN of an operation without NaN sources.
pub(crate) fn default_nan<F: Format>() -> u64 {
    let exponent = F::WIDTH - 1 - F::MANTISSA;
    sign::<F>() | (((1 << exponent) - 1) << F::MANTISSA) | 1 << (F::MANTISSA - 1)
}

/// A denormal becomes a zero of its sign when `flush`.
pub(crate) fn flushed<F: Format>(value: u64, flush: bool) -> u64 {
    if flush && of::<F>(value).is_denormal() { value & sign::<F>() } else { value }
}

/// An operation: sources flushed, the first NaN made quiet if there is one, the result rounded and flushed.
pub(crate) fn operation<F: Format, const N: usize>(
    sources: [u64; N],
    rules: Rules,
    f: impl Fn([F; N], Round) -> F,
) -> u64 {
    let sources = sources.map(|source| flushed::<F>(source, rules.flush_in));
    if let Some(&nan) = sources.iter().find(|&&source| is_nan::<F>(source)) {
        return passed::<F>(nan, rules);
    }
    let result = f(sources.map(of::<F>), rules.round);
    if result.is_nan() { default_nan::<F>() } else { flushed::<F>(bits(result), rules.flush_out) }
}

/// `a + b`.
pub(crate) fn add<F: Format>(a: u64, b: u64, rules: Rules) -> u64 {
    operation::<F, 2>([a, b], rules, |[a, b], round| a.add_r(b, round).value)
}

/// `a * b`.
pub(crate) fn mul<F: Format>(a: u64, b: u64, rules: Rules) -> u64 {
    operation::<F, 2>([a, b], rules, |[a, b], round| a.mul_r(b, round).value)
}

/// `a * b + c`, rounded once.
pub(crate) fn fma<F: Format>(a: u64, b: u64, c: u64, rules: Rules) -> u64 {
    fused::<F>([a, b, c], rules, |[a, b, c], round| a.mul_add_r(b, c, round).value)
}

/// A fused sum, as [`operation`]: where infinity is multiplied by zero, what is added does not matter.
pub(crate) fn fused<F: Format>(sources: [u64; 3], rules: Rules, f: impl Fn([F; 3], Round) -> F) -> u64 {
    let [a, b, _] = sources.map(|source| of::<F>(flushed::<F>(source, rules.flush_in)));
    let invalid = a.is_infinite() && b.is_zero() || a.is_zero() && b.is_infinite();
    if invalid { default_nan::<F>() } else { operation(sources, rules, f) }
}

/// Negated bits.
pub(crate) fn neg<F: Format>(a: u64) -> u64 {
    a ^ sign::<F>()
}

/// Returns true if `a < b`, with -0 below +0.
pub(crate) fn below<F: Format>(a: u64, b: u64) -> bool {
    let (x, y) = (of::<F>(a), of::<F>(b));
    x < y || (x == y && x.is_negative() && !y.is_negative())
}

/// Minimum or maximum: a signalling NaN is made quiet and returned, a quiet one loses against a number; the first of two wins.
pub(crate) fn extreme<F: Format>(a: u64, b: u64, rules: Rules, maximum: bool) -> u64 {
    let [a, b] = [a, b].map(|x| flushed::<F>(x, rules.flush_in));
    for x in [a, b] {
        if of::<F>(x).is_signaling() && !rules.signals {
            return quiet::<F>(x);
        }
    }
    let picked = match (is_nan::<F>(a), is_nan::<F>(b)) {
        (true, true) => a,
        (true, false) => b,
        (false, true) => a,
        _ if below::<F>(a, b) != maximum => a,
        _ if a == b => a,
        _ if below::<F>(b, a) == maximum => a,
        _ => b,
    };
    flushed::<F>(picked, rules.flush_out)
}

/// Minimum or maximum of gfx12 where a number wins: against any NaN; the first of two NaNs is made quiet.
pub(crate) fn extreme_number<F: Format>(a: u64, b: u64, rules: Rules, maximum: bool) -> u64 {
    let [x, y] = [a, b].map(|x| flushed::<F>(x, rules.flush_in));
    match (is_nan::<F>(x), is_nan::<F>(y)) {
        (true, true) => quiet::<F>(x),
        (true, false) => flushed::<F>(y, rules.flush_out),
        (false, true) => flushed::<F>(x, rules.flush_out),
        _ => extreme::<F>(a, b, rules, maximum),
    }
}

/// Minimum or maximum of gfx12 where a NaN wins, the first of two.
pub(crate) fn extreme_or_nan<F: Format>(a: u64, b: u64, rules: Rules, maximum: bool) -> u64 {
    let [x, y] = [a, b].map(|x| flushed::<F>(x, rules.flush_in));
    match [x, y].into_iter().find(|&x| is_nan::<F>(x)) {
        Some(nan) if rules.signals => nan,
        Some(nan) => quiet::<F>(nan),
        None => extreme::<F>(a, b, rules, maximum),
    }
}

/// To another format.
pub(crate) fn convert<A: Format + FloatConvert<B>, B: Format>(a: u64, from: Rules, to: Rules) -> u64 {
    let a = flushed::<A>(a, from.flush_in);
    if is_nan::<A>(a) {
        let value: B = of::<A>(quiet::<A>(a)).convert(&mut false).value;
        return bits(value);
    }
    let value: B = of::<A>(a).convert_r(to.round, &mut false).value;
    flushed::<B>(bits(value), to.flush_out)
}

/// To an integer of `width` bits, saturating, NaN to 0.
pub(crate) fn to_signed<F: Format>(a: u64, width: usize, round: Round) -> i64 {
    if is_nan::<F>(a) { 0 } else { of::<F>(a).to_i128_r(width, round, &mut false).value as i64 }
}

/// To the integer of 32 bits that `nearest` says of halves: the next lower one, or the nearest one, the upper of two. A NaN saturates
/// by its sign.
pub(crate) fn to_lower<F: Format>(a: u64, nearest: bool) -> i64 {
    let value = of::<F>(a);
    if value.is_nan() {
        return i64::from(if value.is_negative() { i32::MIN } else { i32::MAX });
    }
    let whole = value.to_i128_r(34, Round::TowardNegative, &mut false).value as i64;
    // What is after the point is exact.
    let rest = (value - value.round_to_integral(Round::TowardNegative).value).value;
    let half = F::from_u128(1).value.scalbn(-1);
    let up = nearest && value.is_finite() && rest >= half;
    (whole + i64::from(up)).clamp(i32::MIN.into(), i32::MAX.into())
}

/// To an unsigned integer of `width` bits, saturating, NaN to 0.
pub(crate) fn to_unsigned<F: Format>(a: u64, width: usize, round: Round) -> u64 {
    if is_nan::<F>(a) || of::<F>(a).is_negative() {
        return 0;
    }
    of::<F>(a).to_u128_r(width, round, &mut false).value as u64
}

/// From an integer.
pub(crate) fn from_int<F: Format>(value: i128, round: Round) -> u64 {
    bits(F::from_i128_r(value, round).value)
}

/// Rounded to an integer in the same format.
pub(crate) fn integral<F: Format>(a: u64, rules: Rules, round: Round) -> u64 {
    operation::<F, 1>([a], rules, |[a], _| a.round_to_integral(round).value)
}

/// `a * 2^power`.
pub(crate) fn ldexp<F: Format>(a: u64, power: i32, rules: Rules) -> u64 {
    operation::<F, 1>([a], rules, |[a], round| a.scalbn_r(power, round))
}

/// Mantissa in [0.5, 1) and exponent; zeros, infinities and NaNs are themselves with exponent 0.
pub(crate) fn frexp<F: Format>(a: u64, rules: Rules) -> (u64, i32) {
    let a = flushed::<F>(a, rules.flush_in);
    let value = of::<F>(a);
    if value.is_nan() {
        return (passed::<F>(a, rules), 0);
    }
    if value.is_zero() || value.is_infinite() {
        return (a, 0);
    }
    let mut exponent = 0;
    let mantissa = value.frexp(&mut exponent);
    (bits(mantissa), exponent)
}

/// A half's value as a double.
pub(crate) fn half_value(bits: u64) -> f64 {
    f64::from_bits(convert::<Half, Double>(bits, Rules::IEEE, Rules::IEEE))
}

/// A `bfloat16`'s value as single precision bits.
pub(crate) fn bf16_single(bits: u64) -> u64 {
    bits << 16
}

/// A double rounded to another format; a NaN becomes the default one.
pub(crate) fn from_double<F: Format>(value: f64, rules: Rules) -> u64
where
    Double: FloatConvert<F>,
{
    if value.is_nan() {
        default_nan::<F>()
    } else {
        convert::<Double, F>(value.to_bits(), Rules::IEEE, rules)
    }
}

pub(crate) use rustc_apfloat::ieee::{BFloat as B16, Double as F64, Half as F16, Single as F32};
