//! `v_trig_preop_f64`: the digits of 2/π.

use rustc_apfloat::Round;

use super::super::lane::Lane;
use super::super::number::{self as n, F64, Rules, ldexp};

/// The first 1201 bits of 2/π after the point.
const TWO_OVER_PI: [u32; 38] = [
    0xa2f9_836e,
    0x4e44_1529,
    0xfc27_57d1,
    0xf534_ddc0,
    0xdb62_9599,
    0x3c43_9041,
    0xfe51_63ab,
    0xdebb_c561,
    0xb724_6e3a,
    0x424d_d2e0,
    0x0649_2eea,
    0x09d1_921c,
    0xfe1d_eb1c,
    0xb129_a73e,
    0xe882_35f5,
    0x2ebb_4484,
    0xe99c_7026,
    0xb45f_7e41,
    0x3991_d639,
    0x8353_39f4,
    0x9c84_5f8b,
    0xbdf9_283b,
    0x1ff8_97ff,
    0xde05_980f,
    0xef2f_118b,
    0x5a0a_6d1f,
    0x6d36_7ecf,
    0x27cb_09b7,
    0x4f46_3f66,
    0x9e5f_ea2d,
    0x7527_bac7,
    0xebe5_f17b,
    0x3d07_39f7,
    0x8a52_92ea,
    0x6bfb_5fb1,
    0x1f8d_5d08,
    0x5603_3046,
    0xfc7b_0000,
];

/// `v_trig_preop_f64`.
pub(super) fn trig_preop(l: &Lane<'_>) -> u64 {
    let r = l.wide();
    let a = n::flushed::<F64>(l.f64(0), r.flush_in);
    let exponent = (a >> 52 & 0x7ff) as i32;
    let mut shift = (l.u32(1) & 31) as i32 * 53;
    if exponent > 1077 {
        shift += exponent - 1077;
    }
    let bit =
        |at: i32| TWO_OVER_PI.get(at as usize / 32).map_or(0, |word| u64::from(word >> (31 - at % 32) & 1));
    let digits = (0..53).fold(0, |digits, at| digits << 1 | bit(shift + at));
    let mut scale = -53 - shift;
    if exponent >= 1968 {
        scale += 128;
    }
    let value = n::from_int::<F64>(i128::from(digits), Round::NearestTiesToEven);
    ldexp::<F64>(value, scale, Rules { flush_in: false, ..r.nearest() })
}
