//! Exceptions of float operations: the sticky bits of `TRAPSTS`, and traps.
//!
//! Only waves that could tell the difference pay for it: those whose `MODE` enables an exception, and those whose
//! code reads `TRAPSTS`. For them each float operation is lowered with an element before it that works out, from the
//! operation's sources, which exceptions it will raise.

use super::float;
use super::op::{Entry, Format, exec_half};
use super::rounded::mode_of;
use super::soft::{DOUBLE, HALF, Layout, Number, Round, SINGLE};
use crate::exec::Stop;
use crate::exec::di::{Di, Flow, Kind, Machine, Source};
use crate::wave::Wave;
use crate::wave::trap::{EXCP_EN_SHIFT, trapsts};

/// Bit of the lowering mode: exceptions are recorded.
pub(crate) const WATCHED: u32 = 1 << 31;

/// Rule by which an operation raises exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Rule {
    Add,
    Sub,
    SubRev,
    Mul,
    Fma,
    /// A product and a sum, each rounded, of numbers without denormals.
    Mad,
    Ldexp,
    /// From one float format to another.
    Convert,
    FromSigned,
    FromUnsigned,
    ToSigned,
    ToUnsigned,
    Reciprocal,
    /// `v_rcp_iflag_f32`: a zero is a division by zero of integers.
    IntegerReciprocal,
    ReciprocalRoot,
    Root,
    Logarithm,
    /// Sine and cosine.
    Periodic,
    DivFixup,
    /// Nothing but signalling NaNs.
    Quiet,
}

const RULES: [Rule; 20] = [
    Rule::Add,
    Rule::Sub,
    Rule::SubRev,
    Rule::Mul,
    Rule::Fma,
    Rule::Mad,
    Rule::Ldexp,
    Rule::Convert,
    Rule::FromSigned,
    Rule::FromUnsigned,
    Rule::ToSigned,
    Rule::ToUnsigned,
    Rule::Reciprocal,
    Rule::IntegerReciprocal,
    Rule::ReciprocalRoot,
    Rule::Root,
    Rule::Logarithm,
    Rule::Periodic,
    Rule::DivFixup,
    Rule::Quiet,
];

/// Returns the code of an operand's width: 0 for 16 bits, 1 for 32 bits, 2 for others.
fn bits_code(bits: u32) -> u8 {
    match bits {
        16 => 0,
        32 => 1,
        _ => 2,
    }
}

/// Returns the element that records the exceptions of an operation.
pub(crate) fn element(rule: Rule, entry: &Entry, src: [Source; 3]) -> Di {
    let [a, b, c] = entry.bits.map(bits_code);
    watch_element(rule, (entry.input, entry.output), entry.arity, a | b << 2 | c << 4, src)
}

/// As [`element`], for an operation whose operands all have `format`.
pub(crate) fn uniform_element(rule: Rule, format: Format, arity: usize, src: [Source; 3]) -> Di {
    let code = bits_code(width(format));
    watch_element(rule, (format, format), arity, code | code << 2 | code << 4, src)
}

fn watch_element(
    rule: Rule,
    (input, output): (Format, Format),
    arity: usize,
    aux: u8,
    src: [Source; 3],
) -> Di {
    let imm = rule as u32 | (arity as u32) << 8;
    Di { src, imm, aux, dst: input as u32, dst2: output as u32, ..Di::new(watch) }
}

fn width(format: Format) -> u32 {
    match format {
        Format::F16 => 16,
        Format::Bits | Format::F32 => 32,
        Format::F64 => 64,
    }
}

fn format(code: u32) -> Format {
    [Format::Bits, Format::F16, Format::F32, Format::F64][code as usize & 3]
}

fn layout(format: Format) -> Layout {
    match format {
        Format::F16 => HALF,
        Format::Bits | Format::F32 => SINGLE,
        Format::F64 => DOUBLE,
    }
}

/// A source in one lane.
fn operand(w: &Wave, source: &Source, code: u8, lane: u32) -> u64 {
    match code {
        0 => u64::from(source.lane(w, lane) >> if source.high { 16 } else { 0 } & 0xffff),
        1 => u64::from(source.lane(w, lane)),
        _ if source.kind == Kind::Vector => {
            let row = source.value + (lane >> 5);
            let (low, high) = (w.v.lane(row, lane & 31), w.v.lane(row + w.halves, lane & 31));
            u64::from(low) | u64::from(high) << 32
        }
        _ => source.scalar64(w),
    }
}

/// As an [element](element), for an operation on scalar registers, which is done once, also if EXEC is zero.
pub(crate) fn once(element: Di) -> Di {
    Di { f: watch_once, ..element }
}

fn watch_once(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    watch_lanes(w, d, core::iter::once(0))
}

fn watch(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let [low, high] = [exec_half(w, 0), if w.halves == 2 { exec_half(w, 1) } else { 0 }];
    let exec = u64::from(low) | u64::from(high) << 32;
    watch_lanes(w, d, (0..64).filter(|lane| exec >> lane & 1 != 0))
}

fn watch_lanes(w: &mut Wave, d: &Di, lanes: impl Iterator<Item = u32>) -> Flow {
    let Some(&rule) = RULES.get(d.imm as usize & 0xff) else { return Flow::NEXT };
    let (input, output, arity) = (format(d.dst), format(d.dst2), (d.imm >> 8) as usize);
    let mut raised = 0;
    for lane in lanes {
        let mut values = [0; 3];
        for (n, value) in values.iter_mut().enumerate().take(arity) {
            let source = &d.src[n];
            let code = d.aux >> (2 * n) & 3;
            let sign = 1u64 << [15, 31, 63, 63][usize::from(code)];
            *value = operand(w, source, code, lane);
            if source.abs {
                *value &= !sign;
            }
            if source.neg {
                *value ^= sign;
            }
            if !(rule == Rule::Ldexp && n == 1) {
                *value = float::flush_input(*value, input, w.mode);
            }
        }
        raised |= raises(rule, (input, output), &values[..arity], w.mode);
    }
    w.trapsts |= raised;
    w.raised |= raised;
    Flow::NEXT
}

/// Forgets the exceptions of earlier instructions: before the first element of one that may trap.
pub(crate) fn begin(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    w.raised = 0;
    Flow::NEXT
}

/// Stops the wave after an operation that has raised an enabled exception.
pub(crate) fn check(w: &mut Wave, m: &mut Machine<'_>, _d: &Di) -> Flow {
    if w.raised & trapsts::MATH & w.mode >> EXCP_EN_SHIFT != 0 { m.stop(Stop::Exception) } else { Flow::NEXT }
}

/// Returns the exceptions that a half among the sources of an operation on singles raises by itself.
pub(crate) fn of_half_source(bits: u16, mode: u32) -> u32 {
    let bits = float::flush_input(u64::from(bits), Format::F16, mode);
    match () {
        () if HALF.is_signalling(bits) => trapsts::INVALID,
        () if HALF.is_denormal(bits) => trapsts::INPUT_DENORM,
        () => 0,
    }
}

/// Returns the exceptions that an operation on singles raises, with a result in `output`.
pub(crate) fn of_single(rule: Rule, values: &[u64], output: Format, mode: u32) -> u32 {
    raises(rule, (Format::F32, output), values, mode)
}

/// Exceptions of an operation, as bits of `TRAPSTS`.
fn raises(rule: Rule, (input, output): (Format, Format), values: &[u64], mode: u32) -> u32 {
    use Rule::{
        Add, Convert, DivFixup, Fma, FromSigned, FromUnsigned, IntegerReciprocal, Ldexp, Logarithm, Mad, Mul,
        Periodic, Quiet, Reciprocal, ReciprocalRoot, Root, Sub, SubRev, ToSigned, ToUnsigned,
    };
    let (from, to) = (layout(input), layout(output));
    let round = Round::from_bits(mode_of(output, mode));
    let rounding = |exact: &dyn Fn(Round) -> Number| rounding(to, round, exact);
    let value = |n: usize| values.get(n).copied().unwrap_or(0);
    let (a, b, c) = (value(0), value(1), value(2));
    match rule {
        Mad => return of_mad(from, values, round),
        FromSigned => {
            let integer = if width(output) == 16 { i64::from(a as i16) } else { i64::from(a as i32) };
            return rounding(&|_| Number::integer(integer));
        }
        FromUnsigned => return rounding(&|_| Number::integer(a.cast_signed())),
        _ => {}
    }
    let floats = &values[..if rule == Ldexp { 1 } else { values.len() }];
    let mut raised = 0;
    if floats.iter().any(|bits| from.is_denormal(*bits)) && rule != Quiet {
        raised |= trapsts::INPUT_DENORM;
    }
    if floats.iter().any(|bits| from.is_nan(*bits)) {
        let signalling = floats.iter().any(|bits| from.is_signalling(*bits));
        let converted = matches!(rule, ToSigned | ToUnsigned);
        return if signalling || converted { trapsts::INVALID } else { 0 };
    }
    let is_zero = |bits: u64| from.magnitude(bits) == 0;
    let is_infinite = |bits: u64| !from.is_finite(bits);
    let is_negative = |bits: u64| bits != from.magnitude(bits);
    let sum = |a: u64, b: u64| match (is_infinite(a), is_infinite(b)) {
        (true, true) if is_negative(a) != is_negative(b) => trapsts::INVALID,
        (false, false) => rounding(&|round| from.number(a).plus(from.number(b), round)),
        _ => 0,
    };
    let opposite = |bits: u64| bits ^ from.sign();
    raised
        | match rule {
            Add => sum(a, b),
            Sub => sum(a, opposite(b)),
            SubRev => sum(b, opposite(a)),
            Mul | Fma if is_infinite(a) && is_zero(b) || is_zero(a) && is_infinite(b) => trapsts::INVALID,
            Mul if is_infinite(a) || is_infinite(b) => 0,
            Mul => rounding(&|_| from.number(a).times(from.number(b))),
            Fma if is_infinite(a) || is_infinite(b) => {
                let negative = is_negative(a) != is_negative(b);
                if is_infinite(c) && is_negative(c) != negative { trapsts::INVALID } else { 0 }
            }
            Fma if is_infinite(c) => 0,
            Fma => rounding(&|round| from.number(a).times(from.number(b)).plus(from.number(c), round)),
            Ldexp | Convert if is_infinite(a) => 0,
            Ldexp => {
                let power = if width(input) == 16 { i32::from(b as i16) } else { b as i32 };
                rounding(&|_| from.number(a).scaled(power))
            }
            Convert => rounding(&|_| from.number(a)),
            ToSigned | ToUnsigned => {
                to_integer(from.value(a), rule == ToSigned, if width(input) == 16 { 16 } else { 32 })
            }
            Reciprocal | ReciprocalRoot if is_zero(a) => trapsts::DIV0,
            IntegerReciprocal if is_zero(a) => trapsts::INT_DIV0,
            Logarithm if is_zero(a) => trapsts::DIV0,
            ReciprocalRoot | Root | Logarithm if is_negative(a) && !is_zero(a) => trapsts::INVALID,
            Periodic if is_infinite(a) => trapsts::INVALID,
            DivFixup if is_zero(b) && is_zero(c) || is_infinite(b) && is_infinite(c) => trapsts::INVALID,
            DivFixup if is_zero(b) && !is_infinite(c) => trapsts::DIV0,
            _ => 0,
        }
}

/// Exceptions of a product and a sum without denormals.
fn of_mad(layout: Layout, values: &[u64], round: Round) -> u32 {
    let flushed = |bits: u64| if layout.is_denormal(bits) { bits & layout.sign() } else { bits };
    let [a, b, c] = core::array::from_fn(|n| flushed(values.get(n).copied().unwrap_or(0)));
    if [a, b, c].iter().any(|bits| layout.is_nan(*bits)) {
        return if [a, b, c].iter().any(|bits| layout.is_signalling(*bits)) { trapsts::INVALID } else { 0 };
    }
    let is_zero = |bits: u64| layout.magnitude(bits) == 0;
    let is_infinite = |bits: u64| !layout.is_finite(bits);
    let is_negative = |bits: u64| bits & layout.sign() != 0;
    if is_infinite(a) && is_zero(b) || is_zero(a) && is_infinite(b) {
        return trapsts::INVALID;
    }
    let negative = is_negative(a) != is_negative(b);
    // An infinite product, unless both are finite.
    let (mut raised, mut product) = (0, if is_infinite(a) { a } else { b });
    if !is_infinite(a) && !is_infinite(b) {
        raised |= rounding(layout, round, &|_| layout.number(a).times(layout.number(b)));
        product = flushed(layout.number(a).times(layout.number(b)).rounded(layout, round));
    }
    raised
        | match (is_infinite(product), is_infinite(c)) {
            (true, true) if negative != is_negative(c) => trapsts::INVALID,
            (false, false) => {
                rounding(layout, round, &|round| layout.number(product).plus(layout.number(c), round))
            }
            _ => 0,
        }
}

/// Exceptions of a result that is rounded: it is exact when both directions agree on it.
fn rounding(layout: Layout, round: Round, exact: &dyn Fn(Round) -> Number) -> u32 {
    let result = |round: Round| exact(round).rounded(layout, round);
    let (up, down) = (result(Round::Up), result(Round::Down));
    if up == down || (layout.magnitude(up) | layout.magnitude(down)) == 0 {
        return 0;
    }
    let mut raised = trapsts::INEXACT;
    if exact(round).overflows(layout, round) {
        raised |= trapsts::OVERFLOW;
    }
    let rounded = result(round);
    if layout.is_denormal(rounded) || layout.magnitude(rounded) == 0 {
        raised |= trapsts::UNDERFLOW;
    }
    raised
}

/// Exceptions of a conversion to an integer of `bits`: out of range, or a fraction lost.
fn to_integer(value: f64, signed: bool, bits: i32) -> u32 {
    let (low, high) = if signed {
        (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)
    } else {
        (0.0, 2f64.powi(bits) - 1.0)
    };
    let whole = value.trunc();
    match () {
        () if whole < low || whole > high => trapsts::INVALID,
        () if whole == value => 0,
        () => trapsts::INEXACT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: u32 = Wave::DEFAULT_MODE;

    fn single(rule: Rule, values: &[f32]) -> u32 {
        let bits: Vec<u64> = values.iter().map(|value| value.to_bits().into()).collect();
        raises(rule, (Format::F32, Format::F32), &bits, KEPT)
    }

    #[test]
    fn results_overflow_by_what_they_would_round_to_with_more_exponents() {
        use trapsts::{INEXACT, OVERFLOW};
        let bits = |value: f32| u64::from(value.to_bits());
        let in_mode = |round: u32, a: f32, b: f32| {
            raises(Rule::Add, (Format::F32, Format::F32), &[bits(a), bits(b)], KEPT | round)
        };
        let (max, unit) = (f32::MAX, 2f32.powi(104));
        // To nearest, up, down, to zero.
        for (round, tiny, half, whole) in [
            (0, 0, OVERFLOW, OVERFLOW),
            (1, OVERFLOW, OVERFLOW, OVERFLOW),
            (2, 0, 0, OVERFLOW),
            (3, 0, 0, OVERFLOW),
        ] {
            assert_eq!(in_mode(round, max, 1.0), INEXACT | tiny, "{round}");
            assert_eq!(in_mode(round, max, unit / 2.0), INEXACT | half, "{round}");
            assert_eq!(in_mode(round, max, unit), INEXACT | whole, "{round}");
        }
    }

    #[test]
    fn rules_are_numbered_as_listed() {
        for (number, rule) in (0u32..).zip(RULES) {
            assert_eq!(rule as u32, number, "{rule:?}");
        }
    }

    #[test]
    fn arithmetic_raises_what_ieee_754_says() {
        use trapsts::{DIV0, INEXACT, INPUT_DENORM, INT_DIV0, INVALID, OVERFLOW, UNDERFLOW};
        let (inf, max, tiny) = (f32::INFINITY, f32::MAX, f32::MIN_POSITIVE);
        let denormal = f32::from_bits(1);
        let signalling = f32::from_bits(0x7f80_0001);
        let rows: &[(Rule, &[f32], u32)] = &[
            (Rule::Add, &[1.0, 2.0], 0),
            (Rule::Add, &[1.0, 1e-30], INEXACT),
            (Rule::Add, &[1.0, -1.0], 0),
            (Rule::Add, &[max, max], OVERFLOW | INEXACT),
            (Rule::Add, &[inf, -inf], INVALID),
            (Rule::Add, &[inf, inf], 0),
            (Rule::Sub, &[inf, inf], INVALID),
            (Rule::SubRev, &[inf, 1.0], 0),
            (Rule::Add, &[f32::NAN, 1.0], 0),
            (Rule::Add, &[signalling, 1.0], INVALID),
            (Rule::Add, &[denormal, 1.0], INPUT_DENORM | INEXACT),
            (Rule::Mul, &[tiny, 0.5], 0),
            (Rule::Mul, &[tiny, tiny], UNDERFLOW | INEXACT),
            (Rule::Mul, &[0.0, inf], INVALID),
            (Rule::Mul, &[0.0, 5.0], 0),
            (Rule::Fma, &[3.0, 5.0, -15.0], 0),
            (Rule::Fma, &[inf, 1.0, -inf], INVALID),
            (Rule::Fma, &[0.1, 0.1, 1.0], INEXACT),
            (Rule::Reciprocal, &[0.0], DIV0),
            (Rule::Reciprocal, &[3.0], 0),
            (Rule::IntegerReciprocal, &[-0.0], INT_DIV0),
            (Rule::ReciprocalRoot, &[0.0], DIV0),
            (Rule::Root, &[-1.0], INVALID),
            (Rule::Root, &[-0.0], 0),
            (Rule::Logarithm, &[-2.0], INVALID),
            (Rule::Logarithm, &[0.0], DIV0),
            (Rule::Periodic, &[inf], INVALID),
            (Rule::DivFixup, &[0.0, 0.0, 1.0], DIV0),
            (Rule::DivFixup, &[0.0, 0.0, 0.0], INVALID),
            (Rule::DivFixup, &[0.5, 2.0, 1.0], 0),
            (Rule::ToSigned, &[1.5], INEXACT),
            (Rule::ToSigned, &[3e9], INVALID),
            (Rule::ToSigned, &[f32::NAN], INVALID),
            (Rule::ToUnsigned, &[3e9], 0),
            (Rule::ToUnsigned, &[-1.0], INVALID),
            (Rule::ToUnsigned, &[-0.5], INEXACT),
            (Rule::Quiet, &[signalling, 1.0], INVALID),
            (Rule::Quiet, &[1.0, denormal], 0),
        ];
        for (rule, values, expected) in rows {
            assert_eq!(single(*rule, values), *expected, "{rule:?} of {values:?}");
        }
        let integer = |rule: Rule, value: u64| raises(rule, (Format::F32, Format::F32), &[value], KEPT);
        assert_eq!(integer(Rule::FromSigned, 0xff00_0001), INEXACT & integer(Rule::FromSigned, 0xff00_0001));
        assert_eq!(integer(Rule::FromUnsigned, 0x0100_0001), INEXACT);
        assert_eq!(integer(Rule::FromUnsigned, 0x0100_0000), 0);
        assert_eq!(integer(Rule::FromSigned, 0xffff_ffff), 0);
        let narrowed =
            |value: f64| raises(Rule::Convert, (Format::F64, Format::F32), &[value.to_bits()], KEPT);
        assert_eq!(narrowed(1e300), OVERFLOW | INEXACT);
        assert_eq!(narrowed(0.1), INEXACT);
        assert_eq!(narrowed(0.5), 0);
        assert_eq!(narrowed(1e-60), UNDERFLOW | INEXACT);
    }
}
