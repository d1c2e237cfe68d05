//! `bfloat16`: the high half of a single.

use super::single;

/// As a single, exactly.
#[inline(always)]
pub(crate) fn to_single(bits: u16) -> u32 {
    u32::from(bits) << 16
}

/// From a single, rounded to nearest even; a NaN is made quiet.
#[inline(always)]
pub(crate) fn from_single(bits: u32) -> u16 {
    if single::is_nan(bits) {
        return (bits >> 16) as u16 | 0x40;
    }
    ((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) >> 16) as u16
}
