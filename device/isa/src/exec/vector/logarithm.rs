//! `v_log_f32` as cards have it: within one unit in the last place, and not always the nearest number.
//!
//! A polynomial in fixed point for each of 32 parts of the mantissas, with others next to 1. Numbers and steps are from
//! yashjha123/rocm-systems, a fork of ROCm/rocm-systems, `emulation/rocjitsu/lib/util/include/util/amdgpu_log.h`, under the MIT licence:
//! Copyright (c) 2026 Advanced Micro Devices, Inc. They give all results that were captured on a Radeon Pro W7900 and a Radeon AI Pro
//! R9700. Denormals are zeros.

use super::float::{flushed, single};
use super::sixteen::{again, columns, cut, signs};
use crate::lanes::Lanes;

/// Terms of a part: constant one with 30 digits after the point, linear one with 46, quadratic one with 24 and cubic
/// one with 47 in steps of the mantissa, and the number that is added to the cubic one's product.
type Terms = [u32; 5];

const TERMS: [Terms; 33] = [
    [15, 12_102_179, 12_095_173, 7_703_430, 0],
    [47_667_825, 11_735_468, 11_378_345, 7_196_210, 7_786_496],
    [93_912_517, 11_390_291, 10_714_741, 6_440_064, 7_413_760],
    [138_816_594, 11_064_855, 10_111_507, 5_910_132, 7_176_192],
    [182_455_591, 10_757_500, 9_557_803, 5_437_300, 6_864_896],
    [224_898_847, 10_466_758, 9_048_378, 5_014_168, 6_701_056],
    [266_210_154, 10_191_316, 8_578_611, 4_633_666, 6_881_280],
    [306_448_312, 9_930_003, 8_144_494, 4_290_660, 6_971_392],
    [345_667_679, 9_681_753, 7_742_500, 3_980_348, 6_138_880],
    [383_918_558, 9_445_614, 7_369_567, 3_699_876, 6_987_776],
    [421_247_645, 9_220_718, 7_022_931, 3_444_856, 5_824_512],
    [457_698_312, 9_006_284, 6_700_175, 3_212_382, 6_217_728],
    [493_310_964, 8_801_596, 6_399_165, 3_000_264, 5_619_712],
    [528_123_258, 8_606_005, 6_118_007, 2_807_020, 5_586_944],
    [562_170_399, 8_418_918, 5_854_955, 2_629_240, 5_513_216],
    [595_485_263, 8_239_793, 5_608_532, 2_466_858, 5_709_824],
    [628_098_719, 8_068_131, 5_377_341, 2_317_504, 5_332_992],
    [660_039_693, 7_903_475, 5_160_150, 2_179_820, 5_226_496],
    [691_335_339, 7_745_406, 4_955_875, 2_053_444, 5_193_728],
    [722_011_229, 7_593_536, 4_763_477, 1_936_151, 5_345_280],
    [752_091_435, 7_447_506, 4_582_059, 1_827_318, 5_513_216],
    [781_598_650, 7_306_987, 4_410_807, 1_726_376, 5_046_272],
    [810_554_297, 7_171_673, 4_248_984, 1_632_887, 5_227_520],
    [838_978_616, 7_041_279, 4_095_937, 1_547_042, 5_300_224],
    [866_890_752, 6_915_542, 3_950_988, 1_466_372, 4_939_776],
    [894_308_853, 6_794_217, 3_813_578, 1_390_544, 4_890_624],
    [921_250_083, 6_677_075, 3_683_220, 1_321_584, 4_857_856],
    [947_730_761, 6_563_905, 3_559_471, 1_255_436, 4_808_704],
    [973_766_367, 6_454_506, 3_441_820, 1_193_876, 4_784_128],
    [999_371_610, 6_348_694, 3_329_908, 1_137_588, 4_767_744],
    [1_024_560_488, 6_246_298, 3_223_482, 1_083_560, 4_734_976],
    [1_049_346_329, 6_147_160, 3_121_894, 1_032_952, 4_718_592],
    // The second half of part 1.
    [47_667_912, 11_735_350, 11_363_743, 6_879_954, 8_077_312],
];

/// Terms next to 1, of distances in units of 2^-23 above and 2^-24 below it; their constant terms are those of results.
const ABOVE: [(i64, [u64; 4]); 3] = [
    (1, [48_408_812, 12_102_094, 7_996_204, 8_257_536]),
    (385, [48_408_744, 12_097_614, 7_795_547, 8_196_096]),
    (5713, [48_408_288, 12_084_310, 7_533_868, 7_961_344]),
];
const BELOW: [(i64, [u64; 4]); 2] =
    [(1, [48_408_812, 12_101_979, 2_035_248, 61_440]), (-799, [48_408_884, 12_097_323, 2_088_428, 0])];

/// The numbers for which these terms are.
const FIRST_BELOW: u32 = 0x3f7c_0001;
const FIRST_ABOVE: u32 = 0x3f84_0000;

/// Digits after the point.
const DIGITS: u32 = 36;

/// A number of more than 25 digits is even.
#[inline(always)]
fn even(value: u64) -> u64 {
    value & !(value >> 25 & 1)
}

/// The number of a number's part.
#[inline(always)]
fn part(a: u32) -> usize {
    let mantissa = a & 0x7f_ffff;
    if mantissa >> 17 == 3 { 32 } else { (mantissa >> 18) as usize }
}

/// The logarithm of a positive normal number that is not next to 1.
#[inline(always)]
fn far(a: u32, terms: Terms) -> u32 {
    let mantissa = a & 0x7f_ffff;
    let [constant, linear, quadratic, cubic, added] = terms.map(u64::from);
    let x = u64::from(mantissa & 0x3_ffff);
    let inner = quadratic - ((cubic * x + added) >> 23);
    let second = even((inner * ((x * x) >> 12)) >> 22);
    let fraction = (constant << 6) + ((linear * x) >> 16 << 6) - second;
    let whole = i64::from((a >> 23).cast_signed() - 127) << DIGITS;
    let sum = whole.wrapping_add(fraction.cast_signed());
    // As a double, whose digits are then cut: down, so that negative numbers grow.
    let below = (sum >> 63).cast_unsigned();
    let magnitude = sum.unsigned_abs();
    let wide = (f64::from_bits(magnitude & ((1 << 52) - 1) | 0x433 << 52) - 2f64.powi(52)).to_bits();
    let cut = (wide + (below & 0x1fff_ffff)) >> 29;
    (cut as u32).wrapping_sub((1023 + DIGITS - 127) << 23) | below as u32 & single::SIGN
}

/// The logarithm of a number next to 1 whose distance is a number of units.
fn near(is_below: bool, distance: u32) -> u32 {
    let (constant, [linear, quadratic, cubic, added]) = match (is_below, distance >> 16) {
        (true, _) => BELOW[(distance >> 17) as usize & 1],
        (false, 0) => ABOVE[0],
        (false, 1) => ABOVE[1],
        (false, _) => ABOVE[2],
    };
    // By fours, until there are fifteen digits.
    let missing = distance.leading_zeros().saturating_sub(17).next_multiple_of(4);
    let scaled = u64::from(distance) << missing;
    let first = ((linear * scaled) >> 15 << 3).cast_signed();
    let square = (scaled * scaled) >> (12 + missing);
    let third = cubic * u64::from(distance) + added;
    let (value, digits) = if is_below {
        let second = even(((quadratic + (third >> 22)) * square) >> 23);
        (constant + first + second.cast_signed(), DIGITS + 1 + missing)
    } else {
        let second = even(((quadratic - (third >> 23)) * square) >> 22);
        (constant + first - second.cast_signed(), DIGITS + missing)
    };
    // Away from zero; numbers of so few digits are exact as doubles.
    let wide = (value as f64).to_bits() + 0x1fff_ffff;
    ((wide >> 29) as u32).wrapping_sub((1023 + digits - 127) << 23) | u32::from(is_below) << 31
}

/// `v_log_f32`.
pub(crate) fn logarithm(a: u32) -> u32 {
    match flushed(a) {
        _ if single::is_nan(a) => single::quiet(a),
        0 | single::SIGN => single::SIGN | single::INFINITY,
        single::SIGN.. => single::NAN,
        single::INFINITY => a,
        FIRST_BELOW..single::ONE => near(true, single::ONE - a),
        single::ONE..FIRST_ABOVE if a == single::ONE => 0,
        single::ONE..FIRST_ABOVE => near(false, a - single::ONE),
        _ => far(a, TERMS[part(a)]),
    }
}

/// The same in lanes: as [`far`], in integers of 32 digits.
#[inline(always)]
pub(crate) fn logarithms<L: Lanes>(a: L::V) -> L::V {
    const COLUMNS: [[u32; 32]; 5] = columns(&FIRST_TERMS);
    const LAST: Terms = TERMS[32];
    let mantissa = L::and(a, L::splat(0x7f_ffff));
    let part = L::shr(mantissa, L::splat(18));
    let is_last = L::eq(L::shr(mantissa, L::splat(17)), L::splat(3));
    let mut terms = [part; 5];
    for n in 0..5 {
        terms[n] = L::select(is_last, L::splat(LAST[n]), L::pick(&COLUMNS[n], part));
    }
    let [constant, linear, quadratic, cubic, added] = terms;
    let x = L::and(mantissa, L::splat(0x3_ffff));
    let product = L::mul(cubic, x);
    let low = L::add(product, added);
    let high = L::mul_high(cubic, x);
    let high = L::select(L::lt_u(low, product), L::add(high, L::splat(1)), high);
    let inner = L::sub(quadratic, L::or(L::shl(high, L::splat(9)), L::shr(low, L::splat(23))));
    let wide = L::shl(x, L::splat(10));
    let square = L::mul_high(wide, wide);
    let second = L::mul_high(L::shl(inner, L::splat(5)), L::shl(square, L::splat(5)));
    let odd = L::and(L::shr(second, L::splat(25)), second);
    let second = L::sub(second, L::and(odd, L::splat(1)));
    let first = L::mul_high(L::shl(linear, L::splat(8)), L::shl(x, L::splat(8)));
    // With 30 digits after the point, rounded down.
    let less = L::shr(L::add(second, L::splat(63)), L::splat(6));
    let fraction = L::sub(L::add(constant, first), less);
    let whole = L::sub(L::shr(a, L::splat(23)), L::splat(127));
    let below = signs::<L>(whole);
    let negative = L::lt_i(whole, L::splat(0));
    let magnitude = L::sub(L::xor(whole, below), below);
    // The part before the point with 30 digits after it, where it is 0 or -1, or 23.
    let is_small = L::lt_u(magnitude, L::add(L::splat(1), L::and(below, L::splat(1))));
    let digits = L::select(is_small, L::splat(30), L::splat(23));
    let fraction = L::select(is_small, fraction, L::shr(fraction, L::splat(7)));
    let signed = L::sub(L::xor(fraction, below), below);
    let bits = cut::<L>(L::add(L::shl(magnitude, digits), signed), digits, negative);
    let bits = L::or(bits, L::and(below, L::splat(single::SIGN)));
    let normal = L::lt_u(L::sub(a, L::splat(0x0080_0000)), L::splat(single::INFINITY - 0x0080_0000));
    let near = L::lt_u(L::sub(a, L::splat(FIRST_BELOW)), L::splat(FIRST_ABOVE - FIRST_BELOW));
    again::<L>(a, bits, !normal | near, logarithm)
}

/// Terms of the parts but for the last one.
const FIRST_TERMS: [Terms; 32] = {
    let mut terms = [[0; 5]; 32];
    let mut part = 0;
    while part < 32 {
        terms[part] = TERMS[part];
        part += 1;
    }
    terms
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::vector::sixteen::{
        digest,
        tests::{digest_on, on},
    };
    use crate::exec::vector::trans::V_LOG_F32;
    use crate::lanes::BackendKind;

    #[test]
    fn all_numbers_from_a_half_to_two_have_the_digest_of_captures() {
        let numbers = || 0x3f00_0000..0x4000_0000;
        assert_eq!(digest(numbers().map(logarithm)), 0xc33a_54ef_bae0_98be);
        for kind in [BackendKind::Avx2, BackendKind::Avx512] {
            let digest = digest_on::<V_LOG_F32>(kind, numbers());
            assert!(digest.is_none_or(|digest| digest == 0xc33a_54ef_bae0_98be), "{kind:?}");
        }
    }

    #[test]
    fn lanes_have_the_logarithms_of_all_mantissas_and_some_exponents() {
        for kind in [BackendKind::Avx2, BackendKind::Avx512] {
            let Some(lanes) = on::<V_LOG_F32>(kind) else { continue };
            for exponent in [1_u32, 2, 62, 63, 64, 119, 124, 125, 126, 127, 128, 129, 131, 135, 190, 254] {
                for first in (exponent << 23..(exponent + 1) << 23).step_by(16) {
                    let a = core::array::from_fn(|lane| first + lane as u32);
                    assert_eq!(lanes(&a), a.map(logarithm), "{kind:?} {first:x}");
                }
            }
        }
    }

    #[test]
    fn numbers_without_a_logarithm_are_as_captured() {
        for (a, expected) in [
            (0, 0xff80_0000),
            (0x8000_0001, 0xff80_0000),
            (0x007f_ffff, 0xff80_0000),
            (0x8080_0000, 0xffc0_0000),
            (0xff80_0000, 0xffc0_0000),
            (0x7f80_0000, 0x7f80_0000),
            (0x7fa1_2345, 0x7fe1_2345),
            (0xffa1_2345, 0xffe1_2345),
            (0x3f80_0001, 0x3438_aa3b),
            (0x3f7f_ffff, 0xb3b8_aa3c),
        ] {
            assert_eq!(logarithm(a), expected, "{a:x}");
        }
    }
}
