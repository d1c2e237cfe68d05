//! A back end of templates without a processor: it does one lane at a time, and gives what the operations' definitions give.

use super::floats::{Float, Rounding, Unary};
use super::recipe::{Act, Elements, Place, Recipe, Step, Test, own_bytes};
use super::template::{Arithmetic, Curve, Extreme, Integer, Shift, Template, Two, Whole, vector};
use crate::exec::di::{Di, Kind, Source};
use crate::exec::scalar::control;
use crate::exec::tests::{combinations, tables_without_clamp};
use crate::inst::Op;
use crate::lanes::BackendKind;

/// Result of a lane: the bits, or a number of which a NaN may have other bits.
#[derive(Clone, Copy, Debug)]
enum Lane {
    Bits(u64),
    /// A half by its value.
    Half(f64),
    Single(f32),
    Double(f64),
    /// Left to the handler.
    Handler,
}

impl Lane {
    fn is(self, bits: u64) -> bool {
        match self {
            Self::Bits(own) => own == bits,
            Self::Half(own) => own.to_bits() == value_of_half(bits).to_bits(),
            Self::Single(own) => {
                own.is_nan() && f32::from_bits(bits as u32).is_nan() || u64::from(own.to_bits()) == bits
            }
            Self::Double(own) => own.is_nan() && f64::from_bits(bits).is_nan() || own.to_bits() == bits,
            Self::Handler => true,
        }
    }
}

fn two(op: Two, a: u32, b: u32) -> u32 {
    let signed = |op: fn(i32, i32) -> i32| op(a.cast_signed(), b.cast_signed()).cast_unsigned();
    match op {
        Two::And => a & b,
        Two::Or => a | b,
        Two::Xor => a ^ b,
        Two::Add => a.wrapping_add(b),
        Two::Subtract => a.wrapping_sub(b),
        Two::Multiply => a.wrapping_mul(b),
        Two::MinUnsigned => a.min(b),
        Two::MaxUnsigned => a.max(b),
        Two::MinSigned => signed(Ord::min),
        Two::MaxSigned => signed(Ord::max),
    }
}

/// Bit `4 * a + 2 * b + c` of a function, for each bit of the sources.
fn bits(function: u8, a: u32, b: u32, c: u32) -> u32 {
    (0..32).fold(0, |result, bit| {
        let at = (a >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1);
        result | (u32::from(function) >> at & 1) << bit
    })
}

fn shift(how: Shift, value: u32, count: u32) -> u32 {
    match how {
        Shift::Left => value << (count & 31),
        Shift::Right => value >> (count & 31),
        Shift::Signed => (value.cast_signed() >> (count & 31)).cast_unsigned(),
    }
}

/// Of zeros, the negative one is the smaller.
fn extreme(of: Extreme, a: u32, b: u32) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    match of {
        Extreme::Least if x == y => a | b,
        Extreme::Most if x == y => a & b,
        Extreme::Least => x.min(y).to_bits(),
        Extreme::Most => x.max(y).to_bits(),
    }
}

/// The number shifted by the count, of which 32 and more leave nothing but signs.
fn shift_far(how: Shift, value: u32, count: u32) -> u32 {
    match (how, count) {
        (_, ..32) => shift(how, value, count),
        (Shift::Signed, _) => shift(how, value, 31),
        _ => 0,
    }
}

fn act(act: Act, a: u32, b: u32) -> u32 {
    let half = |word: u32, n: u32| i32::from((word >> (16 * n)) as i16);
    match act {
        Act::Two(op) => two(op, a, b),
        Act::AndNot => !a & b,
        Act::Shift(how) => shift_far(how, a, b),
        Act::MultiplyHalves => {
            let products = [0, 1].map(|n| half(a, n) * half(b, n));
            products[0].wrapping_add(products[1]).cast_unsigned()
        }
        Act::PickBytes => {
            let byte = |n: u8| if n < 0x80 { a.to_le_bytes()[usize::from(n & 3)] } else { 0 };
            u32::from_le_bytes(b.to_le_bytes().map(byte))
        }
    }
}

/// A lane of a recipe, step by step. All sources are vector registers, and the destination has been zero.
fn recipe_lane(recipe: Recipe, sources: [u64; 3]) -> u64 {
    let mut d = Di::for_test(control::refresh_flags);
    d.src = [Source { kind: Kind::Vector, ..Source::ZERO }; 3];
    let mut temporaries = [0; 3];
    for step in recipe.steps(&d) {
        let get = |place: Place| match place {
            Place::Source(n) | Place::Low(n) => sources[n] as u32,
            Place::High(n) => (sources[n] >> 32) as u32,
            Place::Old => 0,
            Place::Temporary(n) => temporaries[usize::from(n)],
            Place::Number(value) => value,
            Place::Bytes(bytes) => own_bytes(bytes, 0),
        };
        let (to, result) = match step {
            Step::Two { act: of, to, a, b } => (to, act(of, get(a), get(b))),
            Step::Shift { how, of: Elements::Dwords, by, to, from } => (to, shift(how, get(from), by.into())),
            Step::Shift { how, of: Elements::Words, by, to, from } => {
                let half = |n: u32| {
                    let half = (get(from) >> (16 * n)) as u16;
                    let extended = match how {
                        Shift::Signed => i32::from(half.cast_signed()).cast_unsigned(),
                        _ => half.into(),
                    };
                    shift(how, extended, by.into()) & 0xffff
                };
                (to, half(0) | half(1) << 16)
            }
            Step::Choose { test, to, a, b, from } => {
                let chooses = match test {
                    Test::Equal => get(a) == get(b),
                    Test::Greater => get(a).cast_signed() > get(b).cast_signed(),
                };
                (to, if chooses { get(from) } else { temporaries[usize::from(to)] })
            }
        };
        temporaries[usize::from(to)] = result;
    }
    let high = if recipe.makes_pair() { temporaries[1] } else { 0 };
    u64::from(temporaries[0]) | u64::from(high) << 32
}

/// A lane of an operation, from its sources.
fn plain(template: Template, [wide_a, wide_b, wide_c]: [u64; 3]) -> Lane {
    let [a, b, c] = [wide_a, wide_b, wide_c].map(|source| source as u32);
    let [x, y, z] = [a, b, c].map(f32::from_bits);
    let [p, q, r] = [wide_a, wide_b, wide_c].map(f64::from_bits);
    let word = |bits: u32| Lane::Bits(bits.into());
    match template {
        Template::Move => word(a),
        Template::Not => word(!a),
        Template::Two(op) => word(two(op, a, b)),
        Template::Swapped(op) => word(two(op, b, a)),
        // Rounded twice it is the same: a double has more than twice the digits.
        Template::Float(op) => Lane::Single(doubles(op, x.into(), y.into(), 0.0) as f32),
        Template::Fused => Lane::Single(x.mul_add(y, z)),
        Template::Extreme(_) if x.is_nan() || y.is_nan() => Lane::Handler,
        Template::Extreme(of) => word(extreme(of, a, b)),
        Template::ExtremeOf(of, float) => {
            let [x, y] = if float == Float::Half { [wide_a, wide_b].map(value_of_half) } else { [p, q] };
            let first = match of {
                _ if x.is_nan() || y.is_nan() => return Lane::Handler,
                // Of zeros, the negative one is the smaller.
                Extreme::Least => x < y || x == y && x.is_sign_negative(),
                Extreme::Most => x > y || x == y && x.is_sign_positive(),
            };
            let value = if first { x } else { y };
            if float == Float::Half { Lane::Half(value) } else { Lane::Double(value) }
        }
        Template::Extremes(..) | Template::Median if [x, y, z].iter().any(|x| x.is_nan()) => Lane::Handler,
        Template::Extremes(first, second) => word(extreme(second, extreme(first, a, b), c)),
        Template::Median => {
            let (least, most) = (extreme(Extreme::Least, a, b), extreme(Extreme::Most, a, b));
            word(extreme(Extreme::Most, least, extreme(Extreme::Least, most, c)))
        }
        // Exact in doubles, and rounded once.
        Template::Scale(Float::Single) => {
            let power = 2f64.powi(b.cast_signed().clamp(-400, 400));
            Lane::Single((f64::from(x) * power) as f32)
        }
        Template::Scale(Float::Half) => {
            let power = 2f64.powi((b as u16).cast_signed().clamp(-100, 100).into());
            of_half(value_of_half(wide_a) * power)
        }
        // In two steps, the first of which is exact for normal results.
        Template::Scale(Float::Double) if p.is_normal() && b.cast_signed().unsigned_abs() < 1000 => {
            let scaled = p * 2f64.powi(b.cast_signed());
            if scaled.is_normal() { Lane::Double(scaled) } else { Lane::Handler }
        }
        Template::Scale(Float::Double) => Lane::Handler,
        Template::Unary(unary, Float::Half) => match one(unary, value_of_half(wide_a), 11) {
            One::Float(value) => of_half(value),
            One::Integer(value) => Lane::Bits((value as u16).into()),
        },
        Template::Unary(unary, float) => {
            let (value, digits) = if float == Float::Single { (f64::from(x), 24) } else { (p, 53) };
            match one(unary, value, digits) {
                One::Integer(value) => word(value.cast_unsigned()),
                One::Float(value) if float == Float::Single => Lane::Single(value as f32),
                One::Float(value) => Lane::Double(value),
            }
        }
        Template::DivideFixup => {
            let apart = (b >> 23 & 0xff).cast_signed() - (c >> 23 & 0xff).cast_signed();
            let usual = y.is_normal() && z.is_normal() && !x.is_nan() && apart <= 150;
            if usual { word((b ^ c) & 0x8000_0000 | a & 0x7fff_ffff) } else { Lane::Handler }
        }
        Template::DivideFixupDoubles => {
            let exponent = |bits: u64| (bits >> 52 & 0x7ff) as i32;
            let apart = exponent(wide_b) - exponent(wide_c);
            let usual = q.is_normal() && r.is_normal() && p.is_finite() && apart <= 1075;
            let sign = 1 << 63;
            if usual { Lane::Bits((wide_b ^ wide_c) & sign | wide_a & !sign) } else { Lane::Handler }
        }
        Template::ToDouble(Whole::Signed) => Lane::Double(a.cast_signed().into()),
        Template::ToDouble(Whole::Unsigned) => Lane::Double(a.into()),
        Template::ToDouble(Whole::Single) => Lane::Double(x.into()),
        Template::DoubleToSingle => Lane::Single(p as f32),
        Template::Recipe(recipe) => Lane::Bits(recipe_lane(recipe, [wide_a, wide_b, wide_c])),
        Template::Bits(function) => word(bits(function, a, b, c)),
        Template::Chain(first, second) => word(two(second, two(first, a, b), c)),
        Template::Shift(how) => word(shift(how, b, a)),
        Template::ShiftThen(op) => word(two(op, shift(Shift::Left, a, b), c)),
        Template::AddShift => word(shift(Shift::Left, a.wrapping_add(b), c)),
        Template::Extract => word(a >> (b & 31) & !(u32::MAX << (c & 31))),
        Template::Align => word(((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32),
        Template::Multiply24 => word((a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)),
        Template::MultiplyAdd24 => word((a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)),
        Template::MultiplyHigh => word(((u64::from(a) * u64::from(b)) >> 32) as u32),
        Template::MultiplyHighSigned => {
            let product = i64::from(a.cast_signed()) * i64::from(b.cast_signed());
            word((product >> 32) as u32)
        }
        Template::Convert(Integer::Signed) => Lane::Single(a.cast_signed() as f32),
        Template::Convert(Integer::Unsigned) => Lane::Single(a as f32),
        Template::ShiftPair => Lane::Bits(wide_b << (a & 63)),
        Template::MovePair => Lane::Bits(wide_a),
        Template::ShiftAddPair => Lane::Bits((wide_a << (b & 7)).wrapping_add(wide_c)),
        Template::ConvertByte(byte) => Lane::Single((a >> (u32::from(byte) * 8) & 0xff) as f32),
        Template::ToUnsigned => word(x as u32),
        Template::ToSigned => word((x as i32).cast_unsigned()),
        Template::Halves(arithmetic) => {
            let [p, q, r] = [wide_a, wide_b, wide_c].map(value_of_half);
            let exact = doubles(arithmetic, p, q, r);
            // Sums and products of two are exact in doubles, so that there is one rounding; sums of three are not.
            if exact.is_nan() || arithmetic == Arithmetic::Fused {
                return Lane::Handler;
            }
            Lane::Half(rounded_to_half(exact))
        }
        Template::Doubles(arithmetic) => Lane::Double(doubles(arithmetic, p, q, r)),
        // Their own tests compare tables and approximations.
        Template::HalfToSingle
        | Template::SingleToHalf
        | Template::SinglesToHalves
        | Template::Reciprocal
        | Template::DoubleRoot(_)
        | Template::Curve(Curve::Root | Curve::ReciprocalRoot | Curve::PowerOfTwo) => Lane::Handler,
    }
}

/// Result of a function of one float.
enum One {
    Float(f64),
    Integer(i32),
}

/// A function of one float with so many digits.
fn one(unary: Unary, value: f64, digits: i32) -> One {
    let parts = || {
        let (mut mantissa, mut exponent) = (value, 0);
        if value != 0.0 && value.is_finite() {
            while mantissa.abs() >= 1.0 {
                (mantissa, exponent) = (mantissa / 2.0, exponent + 1);
            }
            while mantissa.abs() < 0.5 {
                (mantissa, exponent) = (mantissa * 2.0, exponent - 1);
            }
        }
        (mantissa, exponent)
    };
    match unary {
        Unary::Round(Rounding::Nearest) => One::Float(value.round_ties_even()),
        Unary::Round(Rounding::Down) => One::Float(value.floor()),
        Unary::Round(Rounding::Up) => One::Float(value.ceil()),
        Unary::Round(Rounding::ToZero) => One::Float(value.trunc()),
        Unary::Fraction if value.is_finite() => {
            One::Float((value - value.floor()).min(1.0 - 2f64.powi(-digits)))
        }
        Unary::Fraction => One::Float(f64::NAN),
        Unary::Mantissa => One::Float(parts().0),
        Unary::Exponent => One::Integer(parts().1),
    }
}

/// A half of a value, which is rounded once.
fn of_half(value: f64) -> Lane {
    if value.is_nan() { Lane::Handler } else { Lane::Half(rounded_to_half(value)) }
}

/// Value of a half of IEEE 754.
fn value_of_half(bits: u64) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 31, (bits & 0x3ff) as f64);
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent as i32 - 25),
    };
    if bits >> 15 & 1 != 0 { -size } else { size }
}

/// The value of the nearest half, of two that are as near the even one.
fn rounded_to_half(value: f64) -> f64 {
    if value == 0.0 || value.is_infinite() {
        return value;
    }
    let exponent = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let unit = 2f64.powi(exponent.max(-14) - 10);
    let nearest = (value / unit).round_ties_even() * unit;
    if nearest.abs() < 65536.0 { nearest } else { f64::INFINITY.copysign(value) }
}

fn doubles(arithmetic: Arithmetic, a: f64, b: f64, c: f64) -> f64 {
    match arithmetic {
        Arithmetic::Add => a + b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Subtract => a - b,
        Arithmetic::ReverseSubtract => b - a,
        Arithmetic::Fused => a.mul_add(b, c),
    }
}

/// The template of an operation, with constants for the sources that have to be.
fn template_of(op: Op) -> Option<Template> {
    let source = |kind: Kind| Source { kind, ..Source::ZERO };
    let choices: [&[usize]; 5] = [&[], &[0], &[1], &[2], &[1, 2]];
    choices.iter().find_map(|constants| {
        let kind = |n| if constants.contains(&n) { Kind::Constant } else { Kind::Vector };
        let mut d = Di::for_test(control::refresh_flags);
        d.src = [0, 1, 2].map(|n| source(kind(n)));
        vector(op, &d)
    })
}

#[test]
fn templates_give_what_definitions_give() {
    let mut compared = 0;
    for (ops, entry) in tables_without_clamp() {
        for &op in ops {
            let Some(template) = template_of(op) else { continue };
            let entry = entry(op, BackendKind::Portable).expect("it is in its own table");
            assert_eq!(entry.arity, template.arity(), "{op:?}");
            for values in combinations(&entry) {
                let (own, expected) =
                    (plain(template, values), (entry.scalar)(values[0], values[1], values[2]));
                assert!(own.is(expected), "{op:?} of {values:#x?}: {own:x?}, not {expected:#x}");
            }
            compared += 1;
        }
    }
    assert!(compared > 110, "{compared}");
}
