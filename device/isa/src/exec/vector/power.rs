//! `v_exp_f32` as cards have it: within one unit in the last place, and not always the nearest number.
//!
//! A polynomial in fixed point for each of 32 parts of what is behind the point. Numbers and steps are from ROCm/rocm-systems,
//! `emulation/rocjitsu/lib/util/include/util/amdgpu_exp.h`, under the MIT licence: Copyright (c) 2026 Advanced Micro Devices, Inc. They
//! give all results that were captured on a Radeon Pro W7900 and a Radeon AI Pro R9700. Denormals are zeros before and behind it.

use super::float::single::{self, INFINITY, ONE, SIGN};
use super::sixteen::{again, columns, magnitudes, power_of_two, product, rounded, scaled, signs};
use crate::lanes::Lanes;

/// Terms of each part: constant and linear one with 28 digits behind the point, quadratic one with 35, cubic one with 24.
pub(crate) const TERMS: [[u32; 4]; 32] = [
    [268_435_456, 5_814_541, 8_060_268, 29],
    [274_313_427, 5_941_862, 8_236_765, 29],
    [280_320_109, 6_071_972, 8_417_127, 30],
    [286_458_319, 6_204_931, 8_601_438, 31],
    [292_730_941, 6_340_801, 8_789_785, 31],
    [299_140_913, 6_479_647, 8_982_256, 32],
    [305_691_246, 6_621_533, 9_178_942, 33],
    [312_385_013, 6_766_525, 9_379_934, 33],
    [319_225_354, 6_914_693, 9_585_328, 34],
    [326_215_479, 7_066_105, 9_795_219, 35],
    [333_358_667, 7_220_833, 10_009_707, 36],
    [340_658_273, 7_378_948, 10_228_891, 36],
    [348_117_717, 7_540_526, 10_452_874, 37],
    [355_740_503, 7_705_642, 10_681_762, 38],
    [363_530_205, 7_874_374, 10_915_663, 39],
    [371_490_480, 8_046_800, 11_154_685, 40],
    [379_625_062, 8_223_002, 11_398_940, 41],
    [387_937_769, 8_403_062, 11_648_545, 42],
    [396_432_501, 8_587_066, 11_903_614, 42],
    [405_113_242, 8_775_098, 12_164_270, 43],
    [413_984_066, 8_967_247, 12_430_633, 44],
    [423_049_137, 9_163_605, 12_702_828, 45],
    [432_312_707, 9_364_261, 12_980_984, 46],
    [441_779_122, 9_569_312, 13_265_230, 47],
    [451_452_826, 9_778_853, 13_555_701, 48],
    [461_338_356, 9_992_982, 13_852_532, 49],
    [471_440_350, 10_211_799, 14_155_863, 50],
    [481_763_549, 10_435_409, 14_465_836, 52],
    [492_312_797, 10_663_914, 14_782_597, 53],
    [503_093_043, 10_897_424, 15_106_293, 54],
    [514_109_347, 11_136_046, 15_437_078, 55],
    [525_366_876, 11_379_894, 15_775_106, 56],
];

/// Fields of exponents from which on powers are not 1, and from which on they are no numbers.
const LEAST: u32 = 103;
const MOST: u32 = 134;

/// Two to the power of a number from 0 to 1 with 29 digits behind the point, as one with 36 digits.
#[inline(always)]
fn of_part(part: u64, terms: [u32; 4]) -> u64 {
    let [constant, linear, quadratic, cubic] = terms.map(u64::from);
    let x = part & 0xff_ffff;
    // Products of more than 47 digits are rounded one digit higher.
    let product = linear * x;
    let first = (product + (1 << 22 << (product >> 47))) >> 24;
    let short = x >> 6;
    let square = (short * short) >> 12;
    let sum = (quadratic << 7) + cubic * short;
    let inner = (sum + 63 + (sum >> 7 & 1)) >> 7;
    let product = inner * square;
    let large = product >> 47;
    let second = (product + (1 << 22 << large)) >> (23 + large) << large;
    ((constant + first) << 8) + second
}

/// A number with 29 digits behind the point; negative ones have all digits inverted, so whole ones are the end of the part before.
#[inline(always)]
fn fixed(a: u32) -> u64 {
    let field = a >> 23 & 0xff;
    let digits = (u64::from(a & 0x7f_ffff | 0x80_0000) << 12) >> ((MOST - 1).wrapping_sub(field) & 63);
    digits ^ i64::from(a.cast_signed() >> 31).cast_unsigned()
}

/// The number of a number's part.
#[inline(always)]
fn part(a: u32) -> usize {
    (fixed(a) >> 24) as usize & 31
}

/// `v_exp_f32`.
pub(crate) fn power(a: u32) -> u32 {
    let field = a >> 23 & 0xff;
    let fixed = fixed(a);
    let value = of_part(fixed & 0x1fff_ffff, TERMS[part(a)]);
    let rounded = (value + 0xfff + (value >> 13 & 1)) >> 13;
    let bits = ((fixed >> 29) as u32).wrapping_add(126).wrapping_shl(23).wrapping_add(rounded as u32);
    let within = if bits.cast_signed() < 0x0080_0000 { 0 } else { bits };
    let outside = if a & SIGN != 0 { 0 } else { INFINITY };
    let outside = if single::is_nan(a) { single::quiet(a) } else { outside };
    let small = if field < LEAST { ONE } else { within };
    if field < MOST { small } else { outside }
}

/// The same in lanes: as [`of_part`], in singles that have all digits.
#[inline(always)]
pub(crate) fn powers<L: Lanes>(a: L::V) -> L::V {
    const COLUMNS: [[u32; 32]; 4] = columns(&TERMS);
    let magnitude = magnitudes::<L>(a);
    let whole = L::floored(magnitude);
    let digits = L::truncated(L::fmul(L::fsub(magnitude, L::numbers(whole)), L::splat(power_of_two(29))));
    let sign = signs::<L>(a);
    let (whole, digits) = (L::xor(whole, sign), L::and(L::xor(digits, sign), L::splat(0x1fff_ffff)));
    let part = L::shr(digits, L::splat(24));
    let x = L::and(digits, L::splat(0xff_ffff));
    let [constant, linear, quadratic, cubic] = [
        L::pick(&COLUMNS[0], part),
        L::pick(&COLUMNS[1], part),
        L::pick(&COLUMNS[2], part),
        L::pick(&COLUMNS[3], part),
    ];
    let short = L::shr(x, L::splat(6));
    let inner = L::add(L::shl(quadratic, L::splat(7)), L::mul(cubic, short));
    let inner = scaled::<L>(rounded::<L>(inner, 7), -23);
    let short = L::shl(short, L::splat(10));
    let second = product::<L>(inner, L::numbers(L::mul_high(short, short)));
    let first = L::shr(product::<L>(scaled::<L>(linear, -23), L::numbers(x)), L::splat(1));
    // Eight digits of the second sum come after those of the first.
    let sum = L::add(L::add(constant, first), L::shr(second, L::splat(8)));
    let rest = L::and(second, L::splat(0xff));
    let last = L::and(L::shr(sum, L::splat(5)), L::splat(1));
    let rest = L::shr(L::add(L::add(rest, last), L::splat(0xff)), L::splat(8));
    let sum = L::shr(L::add(L::add(sum, rest), L::splat(15)), L::splat(5));
    let bits = L::add(L::shl(L::add(whole, L::splat(126)), L::splat(23)), sum);
    let bits = L::select(L::flt(a, L::splat(0xc2fc_0000)), L::splat(0), bits);
    let bits = L::select(L::lt_u(magnitude, L::splat(LEAST << 23)), L::splat(ONE), bits);
    again::<L>(a, bits, !L::flt(a, L::splat(MOST << 23)), power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::vector::sixteen::{digest, tests::digest_on};
    use crate::exec::vector::trans::V_EXP_F32;
    use crate::lanes::BackendKind;

    #[test]
    fn all_numbers_between_whole_ones_have_the_digests_of_captures() {
        let numbers =
            |sign: u32| (0..1 << 24).map(move |n: u32| (n as f32 * 2f32.powi(-24)).to_bits() | sign);
        assert_eq!(digest(numbers(0).map(power)), 0x6895_9bb6_84f4_2e5f);
        assert_eq!(digest(numbers(SIGN).map(power)), 0x88b7_5684_494d_b8d3);
        for kind in [BackendKind::Avx2, BackendKind::Avx512] {
            let of = |sign| digest_on::<V_EXP_F32>(kind, numbers(sign));
            assert!(of(0).is_none_or(|digest| digest == 0x6895_9bb6_84f4_2e5f), "{kind:?}");
            assert!(of(SIGN).is_none_or(|digest| digest == 0x88b7_5684_494d_b8d3), "{kind:?}");
        }
    }

    #[test]
    fn ends_of_the_range_are_as_captured() {
        for (a, expected) in [
            (0xc2fc_0000, 0x0080_0000),
            (0xc2fc_0001, 0),
            (0x42ff_ffff, 0x7f7f_ffa7),
            (0x4300_0000, INFINITY),
            (0xb37f_ffff, ONE),
            (0xb380_0000, 0x3f7f_ffff),
            (0xff80_0000, 0),
            (0xc300_0000, 0),
            (0xffa0_0001, 0xffe0_0001),
            (1, ONE),
        ] {
            assert_eq!(power(a), expected, "{a:x}");
        }
    }
}
