//! The mappings of `v_sqrt_f32`, `v_exp_f32`, `v_log_f32`, `v_sin_f32` and `v_cos_f32`, from the files of their numbers.
//!
//! Sources are no NaNs. Whole numbers have as many digits after the point as names say.

use std::sync::LazyLock;

use super::number::{self as n, F32};

static ROOT: LazyLock<Terms> = LazyLock::new(|| read(include_str!("../../data/cards/root.txt")));
static POWER: LazyLock<Terms> = LazyLock::new(|| read(include_str!("../../data/cards/power.txt")));
static LOGARITHM: LazyLock<Terms> = LazyLock::new(|| read(include_str!("../../data/cards/logarithm.txt")));
static CIRCLE: LazyLock<Terms> = LazyLock::new(|| read(include_str!("../../data/cards/circle.txt")));

/// Terms of each part: constant, linear, quadratic and cubic one.
pub(super) type Terms = Vec<[i128; 4]>;

/// The lines of terms of a file.
pub(super) fn read(text: &str) -> Terms {
    let lines = text.lines().filter_map(|line| line.strip_prefix("terms "));
    let terms = lines.map(|line| line.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<i128>>());
    terms.filter_map(|terms| terms.try_into().ok()).collect()
}

/// Divided by a power of two, to nearest even.
pub(super) fn nearest(value: i128, digits: u32) -> i128 {
    let unit = 1_i128 << digits;
    let (whole, twice) = (value.div_euclid(unit), value.rem_euclid(unit) * 2);
    whole + i128::from(twice > unit || twice == unit && whole % 2 != 0)
}

/// A product of 48 digits at most without 23 of them, or one more where it has 48.
fn to_24_digits(product: i128) -> i128 {
    if product >= 1 << 47 { nearest(product, 24) * 2 } else { nearest(product, 23) }
}

const SIGN: u64 = 0x8000_0000;
const INFINITY: u64 = 0x7f80_0000;
const ONE: u64 = 0x3f80_0000;

/// Exponent of a normal single and its mantissa without the first digit.
fn parts(a: u64) -> (i32, i128) {
    ((a >> 23 & 0xff) as i32 - 127, i128::from(a & 0x7f_ffff))
}

/// A positive number of units of 2^-`digits`, cut to a single, or made larger where `up`.
fn packed(value: i128, digits: i32, up: bool) -> u64 {
    let first = value.ilog2() as i32;
    let scaled = if first > 23 { value >> (first - 23) } else { value << (23 - first) };
    let lost = first > 23 && scaled << (first - 23) != value;
    // A carry moves into the exponent.
    ((first - digits + 126) as u64 * 0x80_0000).wrapping_add(scaled as u64 + u64::from(up && lost))
}

/// The root.
pub(super) fn root(a: u64) -> u64 {
    let sign = a & SIGN;
    if a & INFINITY == 0 {
        return sign;
    }
    if sign != 0 || a == INFINITY {
        return if sign != 0 { n::default_nan::<F32>() } else { a };
    }
    let (exponent, mantissa) = parts(a);
    let odd = exponent.rem_euclid(2);
    let part = (mantissa >> 19) as usize + 16 * odd as usize;
    let [constant, linear, quadratic, cubic] = ROOT[part];
    let x = mantissa % (1 << 19);
    let product = linear * x;
    let first = (product + if product < 1 << 40 { 1 << 15 } else { 1 << 16 }) / (1 << 17);
    // To the nearest unit, halves up.
    let inner = (quadratic * (1 << 19) - cubic * (2 * x + 1) + (1 << 10)).div_euclid(1 << 11);
    let product = inner * ((x / 4) * (x / 4) / 1024);
    let second =
        if product >= 1 << 47 { (product + (1 << 23)) / (1 << 24) * 2 } else { nearest(product, 23) };
    let last = nearest(constant * 1024 + first * 128 - second, 12);
    ((exponent - odd) / 2 + 126) as u64 * 0x80_0000 + last as u64
}

/// Two to the power of the number.
pub(super) fn power(a: u64) -> u64 {
    let magnitude = a & !SIGN;
    let is_negative = a & SIGN != 0;
    if magnitude >= 0x4300_0000 {
        return if is_negative { 0 } else { INFINITY };
    }
    if magnitude < 0x3380_0000 {
        return ONE;
    }
    let (exponent, mantissa) = parts(magnitude);
    let digits = (mantissa + 0x80_0000) * (1 << 40);
    // 29 digits; a negative number ends just before the unit that it is in.
    let size = digits >> (40 + 23 - 29 - exponent);
    let turned = if is_negative { -size - 1 } else { size };
    let (whole, part) = (turned.div_euclid(1 << 29), turned.rem_euclid(1 << 29));
    let [constant, linear, quadratic, cubic] = POWER[(part >> 24) as usize];
    let x = part % (1 << 24);
    let product = linear * x;
    let first = if product >= 1 << 47 { nearest(product, 24) } else { nearest(product, 23) / 2 };
    let short = x / 64;
    let inner = nearest(quadratic * 128 + cubic * short, 7);
    let second = to_24_digits(inner * (short * short / 4096));
    let sum = (constant + first) * 256 + second;
    let bits = (whole + 126) * 0x80_0000 + nearest(sum, 13);
    if bits < 0x80_0000 { 0 } else { bits as u64 }
}

/// The logarithm to base 2.
pub(super) fn logarithm(a: u64) -> u64 {
    match a {
        _ if a & INFINITY == 0 => SIGN | INFINITY,
        SIGN.. => n::default_nan::<F32>(),
        INFINITY => a,
        0x3f7c_0000..ONE => SIGN | logarithm_below(i128::from(ONE - a)),
        ONE..0x3f84_0000 if a == ONE => 0,
        ONE..0x3f84_0000 => logarithm_above(i128::from(a - ONE)),
        _ => logarithm_far(a),
    }
}

/// Returns the times, a multiple of four, that a number of fewer than fifteen digits is doubled to have that many.
fn doubled(x: i128) -> u32 {
    let width = x.ilog2() + 1;
    if width < 18 { (18 - width) / 4 * 4 } else { 0 }
}

fn logarithm_below(x: i128) -> u64 {
    let [constant, linear, quadratic, cubic] = LOGARITHM[if x < 0x2_0000 { 36 } else { 37 }];
    let more = doubled(x);
    let cut = |value: i128, digits: u32| value >> digits.saturating_sub(more) << digits.saturating_sub(more);
    let first = cut(2 * linear * x, 14) * 4;
    let inner = nearest(quadratic * (1 << 22) + cubic * (x - 1), 22);
    let product = inner * cut(x * x, 12);
    let unit = 1_i128 << (38 - more);
    let second = (product + unit - 1) / unit * (1 << (16 - more));
    packed(first + second - constant * 0x1_0000, 50, true)
}

fn logarithm_above(x: i128) -> u64 {
    let row = [0x1_0000, 0x2_0000].iter().filter(|&&start| x >= start).count();
    let [constant, linear, quadratic, cubic] = LOGARITHM[33 + row];
    let more = if row == 0 { doubled(x) } else { 0 };
    let wide = x << more;
    let first = linear * wide / (1 << 13) * 4;
    let inner = nearest(quadratic * (1 << 22) - cubic * (2 * x + 1), 22);
    let second = to_24_digits(inner * (wide * x / 4096));
    // One more than what is cut, also where nothing is.
    packed(constant + first - second, 35 + more as i32, false) + 1
}

fn logarithm_far(a: u64) -> u64 {
    let (exponent, mantissa) = parts(a);
    let x = mantissa % (1 << 18);
    let part = if mantissa >> 17 == 3 { 32 } else { (mantissa >> 18) as usize };
    let [constant, linear, quadratic, cubic] = LOGARITHM[part];
    let first = linear * x / (1 << 16);
    let inner = nearest(quadratic * (1 << 22) - cubic * (2 * x + 1), 22);
    let second = to_24_digits(inner * (x * x / 4096));
    let sum = i128::from(exponent) * (1 << 35) + (constant + first) * 32 - second;
    if sum < 0 { SIGN | packed(-sum, 35, true) } else { packed(sum, 35, false) }
}

/// The sine or cosine of a number of turns; denormals are numbers.
pub(super) fn turned(a: u64, is_cosine: bool) -> u64 {
    let (sign, magnitude) = (a >> 31, a & !SIGN);
    if magnitude == INFINITY {
        return n::default_nan::<F32>();
    }
    let (exponent, mantissa) = parts(magnitude);
    if !is_cosine && magnitude < 0x39c0_0000 {
        return sign << 31 | small_sine(magnitude);
    }
    if exponent >= 23 || is_cosine && exponent == -127 {
        return if is_cosine { ONE } else { 0 };
    }
    // 31 digits of the part after the point.
    let digits = (mantissa + 0x80_0000) << 31 << 23 >> (23 + 23 - exponent).min(120);
    let phase = digits % (1 << 31);
    let (quarter, rest) = (phase >> 29, phase % (1 << 29));
    let back = rest >= 1 << 28;
    let distance = if back { (1 << 29) - rest } else { rest };
    let takes_cosine = is_cosine != (quarter % 2 == 1) && !back || is_cosine == (quarter % 2 == 1) && back;
    let result = match distance {
        0 if !takes_cosine => return 0,
        _ => eighth(distance, takes_cosine, i128::from(back)),
    };
    let negative = match is_cosine {
        true => quarter == 1 || quarter == 2,
        false => (quarter >= 2) != (sign == 1),
    };
    result | u64::from(negative) << 31
}

fn small_sine(magnitude: u64) -> u64 {
    let (exponent, mantissa) = parts(magnitude);
    let (exponent, mantissa) =
        if exponent == -127 { (-126, mantissa) } else { (exponent, mantissa + 0x80_0000) };
    let product = mantissa * 0xc9_0fd5;
    if product == 0 {
        return 0;
    }
    let first = product.ilog2() as i32;
    match exponent - 44 + first {
        ..-126 => nearest(product, 21) as u64,
        exponent => (exponent + 126) as u64 * 0x80_0000 + nearest(product, first as u32 - 23) as u64,
    }
}

/// The sine or cosine of a distance from a zero or one of an extreme, in units of 2^-31 turns.
fn eighth(distance: i128, is_cosine: bool, back: i128) -> u64 {
    if is_cosine && distance - back < 46_592 {
        return ONE;
    }
    let index = (distance - back) >> 24;
    let [constant, linear, quadratic, cubic] = CIRCLE[index as usize + if is_cosine { 16 } else { 0 }];
    let within = distance - (index << 24);
    let before = within - back;
    let seen = |x: i128| x / 64 * 64;
    let inner = if cubic <= 0 {
        -quadratic * (1 << 24) - cubic * seen(before)
    } else {
        -(quadratic + cubic) * (1 << 24) + cubic * seen((1 << 24) - 1 - before)
    };
    let inner = nearest(inner, 17);
    let square = (before >> 7) * (before >> 7);
    // Rounded to fewer digits, but not beyond the block of 2^20 steps that it is in.
    let rounded = |digits: u32| {
        let last = ((before >> (20 + digits)) + 1) * (1 << 20) - 1;
        ((before + (1 << (digits - 1))) >> digits).min(last) << digits
    };
    if !is_cosine && index < 2 {
        let width = within.checked_ilog2().map_or(0, |first| first + 1);
        let fours = |most: u32| if index == 0 { most.saturating_sub(width) / 4 * 4 } else { 0 };
        let (moved, more) = (fours(24), fours(25));
        let place = match index {
            0 => (within << more) - i128::from(back == 1 && (within << moved) % (1 << 20) == 0),
            _ => rounded(2),
        };
        let fine = if index == 0 { 32 + moved } else { 30 };
        let digits = 34 + moved;
        let first = ((linear * place) >> (50 + more - fine)) << (digits - fine);
        let kept = (24 + moved).min(34);
        let second = nearest(inner * (square >> (34 - kept)), 33 + kept - digits);
        return packed((constant << (digits - 26)) + first - second, digits as i32, false);
    }
    let product = linear * rounded(4);
    let size = product.abs();
    let first = if size >= 1 << 45 { nearest(size, 22) * 2 } else { nearest(size, 21) } * product.signum();
    let product = inner * (square >> 10);
    let bias = if product >= 1 << 47 { 1 << 23 } else { 1 << 22 };
    let second = if product <= bias { 0 } else { (product - bias + (1 << 29) - 1) >> 29 };
    packed(constant * 8 + first - second * 2, 29, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_whole() {
        assert_eq!([&ROOT, &POWER, &LOGARITHM, &CIRCLE].map(|terms| terms.len()), [32, 32, 38, 32]);
    }

    #[test]
    fn captured_results() {
        assert_eq!(
            [0x3f7a_2707, 0x4005_a8f7, 0x0080_0001, 0x407f_ffff].map(root),
            [0x3f7d_0f30, 0x3fb8_fa71, 0x2000_0000, 0x3fff_ffff]
        );
        assert_eq!(
            [0x3f05_67ec, 0xc114_ed44, 0xc2fc_0000, 0xc2fc_0001].map(power),
            [0x3fb7_b03d, 0x3ace_cc1e, 0x0080_0000, 0]
        );
        let numbers =
            [0x3f7b_ffff, 0x3f7c_0000, 0x3f7f_ffff, 0x3f80_0001, 0x3f83_5d48, 0x3f84_0000, 0x3fff_ffff];
        let expected =
            [0xbcba_1fa3, 0xbcba_1f74, 0xb3b8_aa3c, 0x3438_aa3b, 0x3d19_508b, 0x3d35_d69c, 0x3f7f_ffff];
        assert_eq!(numbers.map(logarithm), expected);
    }
}
