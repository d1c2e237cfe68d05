//! `v_sqrt_f32` as cards have it: within one unit in the last place, and not always the nearest number.
//!
//! A polynomial in fixed point for each of 16 parts of the mantissas, of even and of odd exponents. Numbers and steps are from
//! yashjha123/rocm-systems, a fork of ROCm/rocm-systems, `emulation/rocjitsu/lib/util/include/util/amdgpu_sqrt.h`, under the MIT
//! licence: Copyright (c) 2026 Advanced Micro Devices, Inc. They give all results that were captured on a Radeon Pro W7900 and a Radeon
//! AI Pro R9700. Denormals are zeros.

use super::float::{flushed, single};
use super::sixteen::{again, columns, product, scaled};
use crate::lanes::Lanes;

/// Terms of each part in units of the last place: fourths, eighths, eighths and fourths.
pub(crate) const TERMS: [[u32; 4]; 32] = [
    [33_554_432, 2_097_143, 32_722, 474],
    [34_587_116, 2_034_529, 29_882, 409],
    [35_589_849, 1_977_208, 27_431, 356],
    [36_565_094, 1_924_474, 25_297, 312],
    [37_514_995, 1_875_745, 23_425, 275],
    [38_441_431, 1_830_541, 21_774, 244],
    [39_346_059, 1_788_454, 20_308, 218],
    [40_230_350, 1_749_143, 18_999, 195],
    [41_095_618, 1_712_315, 17_825, 176],
    [41_943_040, 1_677_719, 16_767, 159],
    [42_773_675, 1_645_139, 15_810, 145],
    [43_588_485, 1_614_387, 14_940, 132],
    [44_388_341, 1_585_296, 14_147, 120],
    [45_174_036, 1_557_724, 13_422, 110],
    [45_946_298, 1_531_542, 12_757, 102],
    [46_705_792, 1_506_637, 12_145, 94],
    [47_453_132, 2_965_809, 46_276, 670],
    [48_913_569, 2_877_259, 42_260, 578],
    [50_331_648, 2_796_194, 38_793, 503],
    [51_710_852, 2_721_617, 35_775, 441],
    [53_054_215, 2_652_705, 33_129, 389],
    [54_364_393, 2_588_776, 30_793, 346],
    [55_643_730, 2_529_256, 28_720, 308],
    [56_894_307, 2_473_662, 26_869, 277],
    [58_117_981, 2_421_579, 25_208, 249],
    [59_316_416, 2_372_654, 23_712, 225],
    [60_491_112, 2_326_579, 22_358, 205],
    [61_643_427, 2_283_088, 21_129, 186],
    [62_774_594, 2_241_948, 20_008, 171],
    [63_885_735, 2_202_954, 18_982, 156],
    [64_977_878, 2_165_927, 18_042, 144],
    [66_051_965, 2_130_707, 17_176, 133],
];

/// The mantissa, and whether the exponent is odd: it is biased by an odd number.
#[inline(always)]
fn place(a: u32) -> u32 {
    a & 0x7f_ffff | !a & 0x80_0000
}

/// The number of a number's part.
#[inline(always)]
fn part(a: u32) -> usize {
    (place(a) >> 19) as usize & 31
}

/// The root of a positive normal number.
#[inline(always)]
fn of_normal(a: u32, terms: [u32; 4]) -> u32 {
    let place = place(a);
    let [constant, linear, quadratic, cubic] = terms.map(u64::from);
    let x = u64::from(place & 0x7_ffff);
    // Products of more than 24 digits are rounded one digit higher.
    let product = linear * x;
    let first = (product + (0x8000 << (product >> 40))) >> 17;
    let inner = ((quadratic << 19) - cubic * (2 * x + 1) + 0x400) >> 11;
    let product = inner * (((x >> 2) * (x >> 2)) >> 10);
    let large = product >> 47;
    let half = (1 << 22) - 1 + (product >> 23 & 1);
    let second = if large != 0 { (product + (1 << 23)) >> 24 << 1 } else { (product + half) >> 23 };
    let sum = (constant << 10) + (first << 7) - second;
    let rounded = ((sum + 0x7ff + (sum >> 12 & 1)) >> 12) as u32;
    // Half of the even exponent that is not greater, biased; the first digit of the sum is one more.
    let exponent = ((a >> 23).wrapping_sub(127) & !1).cast_signed() >> 1;
    (exponent + 126).cast_unsigned().wrapping_shl(23).wrapping_add(rounded)
}

/// Says whether a number is a positive normal one.
#[inline(always)]
fn is_usual(a: u32) -> bool {
    a.wrapping_sub(0x0080_0000) < single::INFINITY - 0x0080_0000
}

/// `v_sqrt_f32`.
pub(crate) fn root(a: u32) -> u32 {
    match flushed(a) {
        _ if single::is_nan(a) => single::quiet(a),
        zero if zero & !single::SIGN == 0 => zero,
        _ if is_usual(a) => of_normal(a, TERMS[part(a)]),
        single::INFINITY => a,
        _ => single::NAN,
    }
}

/// The same in lanes: as [`of_normal`], in singles that have all digits.
#[inline(always)]
pub(crate) fn roots<L: Lanes>(a: L::V) -> L::V {
    const COLUMNS: [[u32; 32]; 4] = columns(&TERMS);
    let place = L::xor(L::and(a, L::splat(0xff_ffff)), L::splat(0x80_0000));
    let (part, x) = (L::shr(place, L::splat(19)), L::and(place, L::splat(0x7_ffff)));
    let [constant, linear, quadratic, cubic] = [
        L::pick(&COLUMNS[0], part),
        L::pick(&COLUMNS[1], part),
        L::pick(&COLUMNS[2], part),
        L::pick(&COLUMNS[3], part),
    ];
    let twice = L::add(L::add(x, x), L::splat(1));
    let inner = L::sar(L::sub(L::splat(0x400), L::mul(cubic, twice)), L::splat(11));
    let inner = L::add(L::shl(quadratic, L::splat(8)), inner);
    let short = L::shl(L::shr(x, L::splat(2)), L::splat(11));
    let square = L::mul_high(short, short);
    let second = product::<L>(scaled::<L>(inner, -23), L::numbers(square));
    let first = L::shr(product::<L>(scaled::<L>(linear, -16), L::numbers(x)), L::splat(1));
    // Seven digits of the second sum come after those of the first.
    let less = L::shr(L::add(second, L::splat(127)), L::splat(7));
    let sum = L::sub(L::add(L::shl(constant, L::splat(3)), first), less);
    let rest = L::and(L::sub(L::splat(0), second), L::splat(127));
    let last = L::and(L::shr(sum, L::splat(5)), L::splat(1));
    let rest = L::shr(L::add(L::add(rest, last), L::splat(127)), L::splat(7));
    let rounded = L::shr(L::add(L::add(sum, rest), L::splat(15)), L::splat(5));
    let exponent = L::and(L::sub(a, L::splat(single::ONE)), L::splat(0xff00_0000));
    let exponent = L::add(L::sar(exponent, L::splat(1)), L::splat(126 << 23));
    let normal = L::lt_u(L::sub(a, L::splat(0x0080_0000)), L::splat(single::INFINITY - 0x0080_0000));
    again::<L>(a, L::add(rounded, exponent), !normal, root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::vector::sixteen::{digest, tests::digest_on};
    use crate::exec::vector::trans::V_SQRT_F32;
    use crate::lanes::BackendKind;

    #[test]
    fn all_mantissas_have_the_digest_of_captures() {
        let numbers = || (0..1 << 24).map(|n| single::ONE + n);
        assert_eq!(digest(numbers().map(root)), 0x514d_49d3_1f12_176b);
        for kind in [BackendKind::Avx2, BackendKind::Avx512] {
            let digest = digest_on::<V_SQRT_F32>(kind, numbers());
            assert!(digest.is_none_or(|digest| digest == 0x514d_49d3_1f12_176b), "{kind:?}");
        }
    }

    #[test]
    fn ends_of_the_range_are_as_captured() {
        for (a, expected) in [
            (0x0080_0001, 0x2000_0000),
            (0x00ff_ffff, 0x2035_04f3),
            (0x7f7f_ffff, 0x5f7f_ffff),
            (0x407f_ffff, 0x3fff_ffff),
            (0x8000_0001, 0x8000_0000),
            (0x007f_ffff, 0),
            (0xbf80_0000, 0xffc0_0000),
            (0xff80_0000, 0xffc0_0000),
            (0x7f80_0000, 0x7f80_0000),
            (0xffa1_2345, 0xffe1_2345),
        ] {
            assert_eq!(root(a), expected, "{a:x}");
        }
    }
}
