//! Dot products of two 16-bit floats: what cards add, as whole numbers of units of one power of two.

use belfry_isa::inst::Arch;
use rustc_apfloat::ieee::Quad;
use rustc_apfloat::{Float, FloatConvert, Round};

use super::number::{self as n, B16, F16, F32, Format, bits, default_nan, is_nan, of, quiet};

/// A whole number of units of 2^`unit`.
#[derive(Clone, Copy)]
struct Units {
    count: i128,
    unit: i32,
}

impl Units {
    /// The exponent of the first digit; of zero one below all.
    fn first(self) -> i32 {
        if self.count == 0 { -2000 } else { self.unit + self.count.unsigned_abs().ilog2() as i32 }
    }

    /// In larger or smaller units, rounded down.
    fn down(self, unit: i32) -> i128 {
        match unit - self.unit {
            _ if self.count == 0 => 0,
            shift @ 0.. => self.count >> shift.min(126),
            shift => self.count << -shift,
        }
    }

    /// As [`Units::down`], rounded towards zero.
    fn cut(self, unit: i32) -> i128 {
        let magnitude = Units { count: self.count.abs(), ..self }.down(unit);
        if self.count < 0 { -magnitude } else { magnitude }
    }
}

/// A finite number in units of its last place, and the exponent of its field.
fn units<F: Format>(value: u64, denormals: bool) -> (Units, i32) {
    let fraction = i128::from(value & ((1 << F::MANTISSA) - 1));
    let field = ((value & !n::sign::<F>()) >> F::MANTISSA) as i32;
    let bias = (1 << (F::WIDTH - 2 - F::MANTISSA)) - 1;
    let exponent = field.max(1) - bias;
    let count = match field {
        0 => i128::from(denormals) * fraction,
        _ => fraction | 1 << F::MANTISSA,
    };
    let count = if value & n::sign::<F>() != 0 { -count } else { count };
    (Units { count, unit: exponent - F::MANTISSA as i32 }, exponent)
}

fn is_negative<F: Format>(value: u64) -> bool {
    value & n::sign::<F>() != 0
}

/// The result as a single of sums that are not of finite numbers.
fn special<F: Format>(pairs: &[[u64; 2]; 2], c: u64, denormals: bool) -> Option<u64> {
    let infinite = |x: u64| of::<F>(x).is_infinite();
    let zero = |x: u64| !infinite(x) && units::<F>(x, denormals).0.count == 0;
    if pairs.iter().flatten().any(|&x| is_nan::<F>(x)) {
        return Some(0xffc0_0a3d);
    }
    let invalid = pairs.iter().any(|&[a, b]| infinite(a) && zero(b) || infinite(b) && zero(a));
    let mut signs: Vec<bool> = pairs
        .iter()
        .filter(|[a, b]| infinite(*a) || infinite(*b))
        .map(|&[a, b]| is_negative::<F>(a) != is_negative::<F>(b))
        .collect();
    let clash = |signs: &[bool]| signs.contains(&true) && signs.contains(&false);
    if invalid || clash(&signs) {
        return Some(default_nan::<F32>());
    }
    if is_nan::<F32>(c) {
        return Some(quiet::<F32>(c));
    }
    if of::<F32>(c).is_infinite() {
        signs.push(is_negative::<F32>(c));
    }
    match signs.first() {
        _ if clash(&signs) => Some(default_nan::<F32>()),
        Some(&negative) => Some(0x7f80_0000 | u64::from(negative) << 31),
        None => None,
    }
}

/// The sum on the grid of a chip; `least` is the exponent that the third source has at least for it.
fn on_grid<F: Format>(pairs: &[[u64; 2]; 2], c: u64, gfx12: bool, least: i32) -> Units {
    let third = units::<F32>(c, gfx12).0;
    let denormals = gfx12 || F::WIDTH - F::MANTISSA == 6;
    let products = pairs.map(|[a, b]| {
        let ((x, e), (y, f)) = (units::<F>(a, denormals), units::<F>(b, denormals));
        let negative = is_negative::<F>(a) != is_negative::<F>(b);
        let product = Units { count: x.count * y.count, unit: x.unit + y.unit };
        (product, if product.count == 0 { -2000 } else { e + f - 24 }, negative)
    });
    let coarsest = products.iter().map(|product| product.1).max().unwrap_or_default();
    if gfx12 {
        let unit = coarsest.max(third.first().max(least) - 26);
        let pair =
            Units { count: products.iter().map(|product| product.0.down(coarsest)).sum(), unit: coarsest };
        // Of a coarse grid a small negative number is nothing.
        let first = if unit > least && third.cut(unit) == 0 { 0 } else { third.down(unit) };
        return Units { count: first + pair.down(unit), unit };
    }
    let highest = products.iter().map(|product| product.0.first()).max().unwrap_or_default();
    let narrow = if least == -14 { third.first().max(-14) } else { third.first() };
    let unit = coarsest.max(highest.max(narrow) - 26);
    if third.count == 0 && products.iter().all(|product| product.0.count == 0) {
        return Units { count: 0, unit };
    }
    let frame = is_negative::<F32>(c);
    let count = products.iter().map(|(product, _, negative)| {
        let size = product.cut(unit).abs();
        if *negative == frame { size } else { -1 - size }
    });
    let count = third.cut(unit).abs() + count.sum::<i128>();
    Units { count: if frame { -count } else { count }, unit }
}

fn quad(units: Units) -> Quad {
    Quad::from_i128(units.count).value.scalbn(units.unit)
}

/// Rounded to a format; a zero is positive. Without denormals what is below the smallest normal number after rounding is zero.
fn rounded<F: Format>(units: Units, denormals: bool) -> u64
where
    Quad: FloatConvert<F>,
{
    let nearest = |value: Quad| -> F { value.convert_r(Round::NearestTiesToEven, &mut false).value };
    let result = if denormals || units.first() >= -126 {
        nearest(quad(units))
    } else {
        let far: F = nearest(quad(Units { unit: units.unit + 200, ..units }));
        let normal = far.abs() >= F::smallest_normalized().scalbn(200);
        if normal { far.scalbn(-200) } else { F::ZERO }
    };
    if result.is_zero() { 0 } else { bits(result) }
}

/// `c` and two products, as a single.
pub(crate) fn single<F: Format>(pairs: [[u64; 2]; 2], c: u64, arch: Arch) -> u64 {
    let gfx12 = arch == Arch::Gfx1201;
    let denormals = gfx12 || F::WIDTH - F::MANTISSA == 6;
    if arch.is_gfx9() && F::WIDTH - F::MANTISSA == 6 {
        return exact(pairs, c);
    }
    if arch.is_gfx9() {
        return chained(pairs, c);
    }
    special::<F>(&pairs, c, denormals)
        .unwrap_or_else(|| rounded::<F32>(on_grid::<F>(&pairs, c, gfx12, -126), gfx12))
}

/// The sum of gfx9 of `bfloat16`: one fused operation after the other, without denormal singles.
fn chained(pairs: [[u64; 2]; 2], c: u64) -> u64 {
    let rules = n::Rules { flush_in: true, flush_out: true, ..n::Rules::IEEE };
    pairs.iter().fold(c, |sum, &[a, b]| n::fma::<F32>(a << 16, b << 16, sum, rules))
}

/// The sum of gfx9: an exact one of halves, without denormal singles.
fn exact(pairs: [[u64; 2]; 2], c: u64) -> u64 {
    let value = |x: u64| n::half_value(x);
    let c = n::flushed::<F32>(c, true);
    let start = f64::from(f32::from_bits(c as u32));
    let sum = pairs.iter().fold(start, |sum, &[a, b]| sum + value(a) * value(b));
    n::from_double::<F32>(sum, n::Rules { flush_out: true, ..n::Rules::IEEE })
}

/// The same with halves for all.
pub(crate) fn halves(pairs: [[u64; 2]; 2], c: u64, arch: Arch) -> u64 {
    let gfx12 = arch == Arch::Gfx1201;
    let wide = match is_nan::<F16>(c) {
        true => (c & 0x8000) << 16 | 0x7f80_0000 | (c & 0x3ff) << 13,
        false => n::convert::<F16, F32>(c, n::Rules::IEEE, n::Rules::IEEE),
    };
    match special::<F16>(&pairs, wide, true) {
        Some(0xffc0_0a3d) => 0xfe3d,
        Some(single) => single >> 16 & 0x8000 | 0x7c00 | single >> 13 & 0x3ff,
        None => rounded::<F16>(on_grid::<F16>(&pairs, wide, gfx12, -14), true),
    }
}

/// The same with `bfloat16` for all: the single is cut off.
pub(crate) fn brains(pairs: [[u64; 2]; 2], c: u64, arch: Arch) -> u64 {
    match single::<B16>(pairs, c << 16, arch) {
        0xffc0_0a3d => 0xfffd,
        single => single >> 16,
    }
}
