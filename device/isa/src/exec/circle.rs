//! `v_sin_f32` and `v_cos_f32` as cards have them.
//!
//! The part after the point is reduced to an eighth of a turn, and a polynomial in fixed point gives its sine or
//! cosine. Numbers and steps are from ROCm/rocm-systems, `emulation/rocjitsu/lib/util/include/util/amdgpu_trig.h`,
//! under the MIT licence: Copyright (c) 2026 Advanced Micro Devices, Inc. They were fitted there to results of a
//! Radeon Pro W7900 and a Radeon AI Pro R9700.

use super::float::single::{self, INFINITY, NAN, ONE, SIGN};
use super::sixteen::sixteen;

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
        cut(sum, digits)
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
fn cut(value: u64, digits: u32) -> u32 {
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
        return usual(a, cosine, TERMS[place.part]).0;
    }
    if place.distance == 0 { 0 } else { place.signed(place.small(TERMS[place.part]), a, cosine) }
}

/// The function, and true if it needs no more digits here than elsewhere.
#[inline(always)]
fn usual(a: u32, cosine: bool, terms: Terms) -> (u32, bool) {
    let magnitude = a & !SIGN;
    let place = Place::of(a, cosine);
    let value = cut(place.magnitude(terms), 29);
    let value = if place.part >= 16 && place.distance - place.back < NO_DISTANCE { ONE } else { value };
    let least = if cosine { 0x0080_0000 } else { SMALL };
    // Of whole numbers with no digits after the point the phase is 0.
    let within = magnitude.wrapping_sub(least) < INFINITY - least;
    (place.signed(value, a, cosine), within & !place.is_near_zero())
}

/// `v_sin_f32`, of turns.
pub(super) fn sine(a: u32) -> u32 {
    sine_or_cosine(a, false)
}

/// `v_cos_f32`, of turns.
pub(super) fn cosine(a: u32) -> u32 {
    sine_or_cosine(a, true)
}

/// The same of sixteen numbers.
#[inline(always)]
pub(super) fn sines(a: &[u32; 16], r: &mut [u32; 16], definition: impl Fn(u32) -> u32) {
    let part = |a| Place::of(a, false).part;
    sixteen((a, r), (&TERMS, part), |a, terms| usual(a, false, terms), definition);
}

/// The same of sixteen numbers.
#[inline(always)]
pub(super) fn cosines(a: &[u32; 16], r: &mut [u32; 16], definition: impl Fn(u32) -> u32) {
    let part = |a| Place::of(a, true).part;
    sixteen((a, r), (&TERMS, part), |a, terms| usual(a, true, terms), definition);
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
