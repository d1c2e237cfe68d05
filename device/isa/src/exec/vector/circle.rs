//! `v_sin_f32` and `v_cos_f32` as cards have them.
//!
//! The part after the point is reduced to an eighth of a turn, and a polynomial in fixed point gives its sine or
//! cosine. Numbers and steps are from ROCm/rocm-systems, `emulation/rocjitsu/lib/util/include/util/amdgpu_trig.h`,
//! under the MIT licence: Copyright (c) 2026 Advanced Micro Devices, Inc. They were fitted there to results of a
//! Radeon Pro W7900 and a Radeon AI Pro R9700.

use super::float::single::{self, INFINITY, NAN, ONE, SIGN};
use super::sixteen::{again, cut, magnitudes, product, rounded, scaled};
use crate::lanes::Lanes;

/// Terms of a part: constant, linear, quadratic and cubic one.
type Terms = [i64; 4];

/// Terms of each sixteenth of an eighth of a turn in units of 2^-26; those of sines.
const SINE: [Terms; 16] = [
    [0, 3_294_200, 0, -1322],
    [3_292_874, 3_290_232, -3968, -1320],
    [6_577_818, 3_278_340, -7928, -1312],
    [9_846_914, 3_258_548, -11864, -1304],
    [13_092_288, 3_230_908, -15778, -1290],
    [16_306_122, 3_195_480, -19650, -1274],
    [19_480_674, 3_152_356, -23476, -1256],
    [22_608_294, 3_101_636, -27246, -1234],
    [25_681_450, 3_043_444, -30948, -1210],
    [28_692_736, 2_977_924, -34576, -1182],
    [31_634_898, 2_905_224, -38122, -1152],
    [34_500_850, 2_825_532, -41576, -1118],
    [37_283_686, 2_739_032, -44928, -1082],
    [39_976_702, 2_645_928, -48176, -1042],
    [42_573_412, 2_546_452, -51304, -1002],
    [45_067_558, 2_440_844, -54310, -958],
];

/// Terms of cosines.
const COSINE: [Terms; 16] = [
    [67_108_864, 0, -80872, 32],
    [67_028_028, -161_636, -80774, 98],
    [66_785_716, -322_884, -80482, 162],
    [66_382_510, -483_352, -79996, 226],
    [65_819_384, -642_664, -79318, 290],
    [65_097_694, -800_416, -78448, 352],
    [64_219_178, -956_248, -77390, 414],
    [63_185_952, -1_109_776, -76144, 476],
    [62_000_504, -1_260_628, -74716, 536],
    [60_665_694, -1_408_448, -73104, 594],
    [59_184_734, -1_552_872, -71320, 652],
    [57_561_192, -1_693_552, -69364, 708],
    [55_798_980, -1_830_152, -67242, 762],
    [53_902_344, -1_962_348, -64956, 814],
    [51_875_852, -2_089_812, -62514, 864],
    [49_724_388, -2_212_244, -59922, 912],
];

/// Both tables, one after the other.
const TERMS: [Terms; 32] = {
    let mut terms = [[0; 4]; 32];
    let mut n = 0;
    while n < 16 {
        terms[n] = SINE[n];
        terms[n + 16] = COSINE[n];
        n += 1;
    }
    terms
};

/// Sines below this number are products with two pi.
const SMALL: u32 = 0x39c0_0000;
/// Two pi as a single has it.
const TWO_PI: u64 = 0xc9_0fd5;
/// Distances from a whole turn whose cosine is 1.
const NO_DISTANCE: u64 = 46_592;

/// Place on the circle after a number of turns.
struct Place {
    /// Whole quarters of a turn before it.
    quarter: u32,
    /// 1 where it is counted backwards from the end of its quarter.
    back: u64,
    /// Distance from there, in units of 2^-31 turns.
    distance: u64,
    /// Terms of the distance's sine or cosine.
    part: usize,
    /// Distance from where the part begins, an eighth of a turn is 2^28.
    within: u64,
}

impl Place {
    #[inline(always)]
    fn of(a: u32, cosine: bool) -> Place {
        let field = a >> 23 & 0xff;
        let digits = u64::from(a & 0x7f_ffff | 0x80_0000);
        // 31 digits after the point. Numbers with more before it than there are bits are whole.
        let left = digits << field.saturating_sub(119).min(63);
        let phase = left >> 119_u32.saturating_sub(field).min(63) & 0x7fff_ffff;
        let rest = phase & 0x1fff_ffff;
        let back = rest >> 28;
        let distance = if back != 0 { 0x2000_0000 - rest } else { rest };
        let quarter = (phase >> 29) as u32;
        let of_cosine = u64::from(u32::from(cosine) ^ quarter & 1) ^ back;
        let sixteenth = (distance - back) >> 24;
        let within = distance - (sixteenth << 24);
        Place { quarter, back, distance, part: (of_cosine << 4 | sixteenth) as usize & 31, within }
    }

    /// Says whether sines are so small that more of their digits are kept.
    #[inline(always)]
    fn is_near_zero(&self) -> bool {
        self.part < 2
    }

    /// The quadratic and the cubic term together, without the square, and its square's root.
    #[inline(always)]
    fn inner(&self, [_, _, quadratic, cubic]: Terms) -> (u64, u64) {
        let x = self.within - self.back;
        let inverse = 0x00ff_ffff_u64.wrapping_sub(x);
        let of_sine = (-quadratic << 24) - cubic * (x & !63).cast_signed();
        let of_cosine = (-(quadratic + cubic) << 24) + cubic * (inverse & !63).cast_signed();
        let value = (if cubic <= 0 { of_sine } else { of_cosine }).cast_unsigned();
        (nearest(value, 17), x >> 7)
    }

    /// The linear term's place, rounded to as many digits less; what is counted backwards ends before its block does.
    #[inline(always)]
    fn rounded(&self, digits: u32) -> u64 {
        let x = self.within - self.back;
        let last = (((x >> (20 + digits)) + 1) << 20) - 1;
        ((x + (1 << digits >> 1)) >> digits).min(last) << digits
    }

    /// The magnitude, in units of 2^-29.
    #[inline(always)]
    fn magnitude(&self, terms: Terms) -> u64 {
        let [constant, linear, ..] = terms;
        let place = self.rounded(4);
        let product = linear.unsigned_abs() * place;
        // To 24 digits.
        let more = u64::from(product >= 1 << 45);
        let first = (nearest_by(product, 21 + more) << more).cast_signed();
        let first = if linear < 0 { -first } else { first };
        let (inner, root) = self.inner(terms);
        let product = inner * ((root * root) >> 10);
        let half = 1 << 22 << (product >> 47);
        let second = ((product.saturating_sub(half) + (1 << 29) - 1) >> 29).cast_signed();
        (constant * 8 + first - 2 * second).cast_unsigned()
    }

    /// The sine of a small part of a turn, of at least one unit.
    fn small(&self, terms: Terms) -> u32 {
        let [constant, linear, ..] = terms;
        let width = u64::BITS - self.within.leading_zeros();
        // The first part has its digits moved up by fours.
        let by_fours = |most: u32| if self.part == 0 { most.saturating_sub(width) & !3 } else { 0 };
        let (moved, more) = (by_fours(24), by_fours(25));
        let mut place = if self.part == 0 { self.within << more } else { self.rounded(2) };
        if self.part == 0 && self.back != 0 && self.within << moved & 0xf_ffff == 0 {
            place -= 1;
        }
        let (linear_digits, digits) = if self.part == 0 { (32 + moved, 34 + moved) } else { (30, 34) };
        let first =
            ((linear.unsigned_abs() * place) >> (50 + more - linear_digits)) << (digits - linear_digits);
        let (inner, root) = self.inner(terms);
        let kept = (24 + moved).min(34);
        let second = nearest(inner * ((root * root) >> (34 - kept)), 33 + kept - digits);
        let sum = (constant.unsigned_abs() << (digits - 26)) + first - second;
        cut_to_single(sum, digits)
    }

    /// A result with its sign.
    #[inline(always)]
    fn signed(&self, bits: u32, a: u32, cosine: bool) -> u32 {
        let turned = if cosine { self.quarter >> 1 ^ self.quarter & 1 } else { self.quarter >> 1 ^ a >> 31 };
        bits | turned << 31
    }
}

/// Shifted right and rounded to nearest even.
#[inline(always)]
fn nearest(value: u64, digits: u32) -> u64 {
    nearest_by(value, u64::from(digits))
}

#[inline(always)]
fn nearest_by(value: u64, digits: u64) -> u64 {
    (value + (((1 << digits) - 1) >> 1) + (value >> digits & u64::from(digits != 0))) >> digits
}

/// A number with `digits` digits after the point, cut to a single.
#[inline(always)]
fn cut_to_single(value: u64, digits: u32) -> u32 {
    // Fewer than 53 digits are exact as a double.
    let wide = f64::from_bits(value & ((1 << 52) - 1) | 0x433 << 52) - 2f64.powi(52);
    ((wide.to_bits() >> 29) as u32).wrapping_sub((1023 + digits - 127) << 23)
}

/// The sine of a number near 0, which may be denormal, as may its result.
fn product_with_two_pi(a: u32) -> u32 {
    let (sign, magnitude) = (a & SIGN, a & !SIGN);
    let digits = u64::from(if magnitude >> 23 == 0 { magnitude } else { magnitude & 0x7f_ffff | 0x80_0000 });
    let exponent = (magnitude >> 23).max(1).cast_signed();
    let product = digits * TWO_PI;
    if product == 0 {
        return sign;
    }
    // A product of 24 digits each; its exponent's field is that of the last digit that a single keeps.
    let first = product.ilog2().cast_signed();
    let field = exponent - 44 + first;
    if field < 1 {
        return sign | nearest(product, 21) as u32;
    }
    // A carry moves into the exponent.
    sign | (((field.cast_unsigned() - 1) << 23) + nearest(product, first.cast_unsigned() - 23) as u32)
}

#[inline(always)]
fn sine_or_cosine(a: u32, cosine: bool) -> u32 {
    let magnitude = a & !SIGN;
    if magnitude > INFINITY {
        return single::quiet(a);
    } else if magnitude == INFINITY {
        return NAN;
    } else if magnitude < 0x0080_0000 && cosine {
        return ONE;
    } else if magnitude < SMALL && !cosine {
        return product_with_two_pi(a);
    }
    let place = Place::of(a, cosine);
    if !place.is_near_zero() {
        let value = if place.part >= 16 && place.distance - place.back < NO_DISTANCE {
            ONE
        } else {
            cut_to_single(place.magnitude(TERMS[place.part]), 29)
        };
        return place.signed(value, a, cosine);
    }
    if place.distance == 0 { 0 } else { place.signed(place.small(TERMS[place.part]), a, cosine) }
}

/// `v_sin_f32`, of turns.
pub(crate) fn sine(a: u32) -> u32 {
    sine_or_cosine(a, false)
}

/// `v_cos_f32`, of turns.
pub(crate) fn cosine(a: u32) -> u32 {
    sine_or_cosine(a, true)
}

/// Constant, linear, quadratic and cubic terms, as [`Place::inner`] and [`Place::magnitude`] use them: magnitudes of linear and cubic ones, the
/// quadratic ones of where the cubic ones begin.
const COLUMNS: [[u32; 32]; 4] = {
    let mut columns = [[0; 32]; 4];
    let mut part = 0;
    while part < 32 {
        let [constant, linear, quadratic, cubic] = TERMS[part];
        let begin = if cubic <= 0 { -quadratic } else { -(quadratic + cubic) };
        columns[0][part] = constant as u32;
        columns[1][part] = linear.unsigned_abs() as u32;
        columns[2][part] = begin as u32;
        columns[3][part] = cubic.unsigned_abs() as u32;
        part += 1;
    }
    columns
};

/// `v_sin_f32` or `v_cos_f32` in lanes, in integers of 32 digits.
#[inline(always)]
pub(crate) fn lanes<L: Lanes, const COSINE: bool>(a: L::V) -> L::V {
    let magnitude = magnitudes::<L>(a);
    // Shifts are by less than 32, so more of them are zeros.
    let field = L::shr(magnitude, L::splat(23));
    let digits = L::or(L::and(a, L::splat(0x7f_ffff)), L::splat(0x80_0000));
    let (left, right) = (L::sub(field, L::splat(119)), L::sub(L::splat(119), field));
    let zero = L::splat(0);
    let phase = L::select(L::lt_u(left, L::splat(32)), L::shl(digits, left), zero);
    let phase = L::select(L::lt_u(right, L::splat(32)), L::shr(digits, right), phase);
    let rest = L::and(phase, L::splat(0x1fff_ffff));
    let back = L::shr(rest, L::splat(28));
    let all_back = L::sub(zero, back);
    let distance = L::sub(L::xor(rest, all_back), all_back);
    let distance = L::add(distance, L::and(all_back, L::splat(0x2000_0000)));
    let quarter = L::and(L::shr(phase, L::splat(29)), L::splat(3));
    let of_cosine = L::and(L::xor(L::xor(quarter, L::splat(COSINE.into())), back), L::splat(1));
    let from = L::sub(distance, back);
    let (sixteenth, x) = (L::shr(from, L::splat(24)), L::and(from, L::splat(0xff_ffff)));
    let part = L::or(L::shl(of_cosine, L::splat(4)), sixteenth);
    let [constant, linear, quadratic, cubic] = [
        L::pick(&COLUMNS[0], part),
        L::pick(&COLUMNS[1], part),
        L::pick(&COLUMNS[2], part),
        L::pick(&COLUMNS[3], part),
    ];
    let place = L::shr(L::add(x, L::splat(8)), L::splat(4));
    let place = L::min_u(place, L::splat(0xf_ffff));
    let first = product::<L>(scaled::<L>(linear, -17), L::numbers(place));
    let sign = L::sub(zero, of_cosine);
    let first = L::sub(L::xor(first, sign), sign);
    let along = L::shr(L::xor(x, L::and(sign, L::splat(0xff_ffff))), L::splat(6));
    let inner = L::add(L::shl(quadratic, L::splat(7)), rounded::<L>(L::mul(cubic, along), 11));
    let root = L::shl(L::shr(x, L::splat(7)), L::splat(11));
    let square = L::mul_high(root, root);
    // One less than the product, which is rounded up then.
    let quotient = L::mul_high(L::shl(inner, L::splat(5)), L::shl(square, L::splat(5)));
    let exact = L::eq(L::and(L::mul(inner, square), L::splat(0x3f_ffff)), zero);
    let large = L::shr(quotient, L::splat(25));
    let below = L::select(exact, L::sub(quotient, L::splat(1)), quotient);
    let second = L::sar(L::sub(L::add(below, L::splat(127)), large), L::splat(7));
    let value = L::sub(L::add(L::shl(constant, L::splat(3)), first), L::add(second, second));
    let bits = cut::<L>(value, L::splat(29), 0);
    let at_once = L::lt_u(from, L::splat(NO_DISTANCE as u32)) & L::eq(of_cosine, L::splat(1));
    let bits = L::select(at_once, L::splat(ONE), bits);
    let turned = if COSINE {
        L::shl(L::xor(L::shr(quarter, L::splat(1)), quarter), L::splat(31))
    } else {
        L::xor(L::shl(L::shr(quarter, L::splat(1)), L::splat(31)), L::and(a, L::splat(SIGN)))
    };
    let least = if COSINE { 0x0080_0000 } else { SMALL };
    let within = L::lt_u(L::sub(magnitude, L::splat(least)), L::splat(INFINITY - least));
    let near_zero = L::lt_u(part, L::splat(2));
    let definition = if COSINE { cosine } else { sine };
    again::<L>(a, L::or(bits, turned), !within | near_zero, definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turns, sine and cosine, each in units of the last place of 1.
    fn off(a: u32) -> f64 {
        let angle = f64::from(single::of(a)).rem_euclid(1.0) * core::f64::consts::TAU;
        let sine = f64::from(single::of(sine(a))) - libm::sin(angle);
        let cosine = f64::from(single::of(cosine(a))) - libm::cos(angle);
        sine.abs().max(cosine.abs()) * 2f64.powi(24)
    }

    #[test]
    fn results_are_near_to_sines_and_cosines() {
        let numbers = (0x3400_0000..0x4b80_0000).step_by(97).flat_map(|bits: u32| [bits, SIGN | bits]);
        let most = numbers.map(off).fold(0.0, f64::max);
        assert!(most < 3.0, "{most}");
    }

    #[test]
    fn whole_and_half_turns_have_the_sine_0_and_large_numbers_are_whole() {
        for turns in [1.0_f32, -1.0, 0.5, -0.5, 3.5, 8_388_608.0, -1e30, f32::MAX] {
            assert_eq!(sine(turns.to_bits()), 0, "{turns}");
        }
        assert_eq!([0, SIGN].map(sine), [0, SIGN]);
        assert_eq!([0.25_f32, 0.75, -0.25].map(|turns| sine(turns.to_bits())), [ONE, SIGN | ONE, SIGN | ONE]);
        assert_eq!(
            [0.0_f32, 0.5, -1.0, 1e30].map(|turns| cosine(turns.to_bits())),
            [ONE, SIGN | ONE, ONE, ONE]
        );
        assert_eq!([0.25_f32, -0.75].map(|turns| cosine(turns.to_bits())), [0, 0]);
    }

    #[test]
    fn numbers_near_0_are_multiplied_with_two_pi_to_denormal_ones() {
        assert_eq!([1, SIGN | 1].map(sine), [6, SIGN | 6]);
        assert_eq!([0x0040_0000, 0x0080_0000].map(sine), [0x0149_0fd5, 0x01c9_0fd5]);
    }
}
