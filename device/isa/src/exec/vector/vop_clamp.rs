//! Integer operations with the `clamp` modifier: the result saturates instead of wrapping.

use super::dot::signed;
use super::op::vector_ops;
use super::qsad::packed;

#[inline(always)]
fn i(value: u32) -> i64 {
    i64::from(value.cast_signed())
}

#[inline(always)]
fn clamp_i32(value: i64) -> u32 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
}

#[inline(always)]
fn clamp_u32(value: u64) -> u32 {
    value.min(u64::from(u32::MAX)) as u32
}

vector_ops! {
    V_ADD_NC_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.saturating_add(b) }
    V_SUB_NC_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.saturating_sub(b) }
    V_SUBREV_NC_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { b.saturating_sub(a) }
    V_ADD_NC_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { clamp_i32(i(a) + i(b)) }
    V_SUB_NC_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { clamp_i32(i(a) - i(b)) }
    V_MAD_U32_U24: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        clamp_u32(u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff) + u64::from(c))
    }
    V_MAD_I32_I24: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { clamp_i32((i(a << 8) >> 8) * (i(b << 8) >> 8) + i(c)) }
    V_MAD_U32_U16: Bits -> Bits, (a: u16, b: u16, c: u32) -> u32 { clamp_u32(u64::from(a) * u64::from(b) + u64::from(c)) }
    V_MAD_I32_I16: Bits -> Bits, (a: u16, b: u16, c: u32) -> u32 {
        clamp_i32(i64::from(a.cast_signed()) * i64::from(b.cast_signed()) + i(c))
    }
    V_SAD_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        let sum = a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(a, b)| u32::from(a.abs_diff(b))).sum::<u32>();
        sum.saturating_add(c)
    }
    V_SAD_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.abs_diff(b).saturating_add(c) }
    V_DOT4_U32_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        let sum = a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(a, b)| u64::from(*a) * u64::from(b)).sum::<u64>();
        clamp_u32(sum + u64::from(c))
    }
    V_DOT4_I32_I8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { clamp_i32(signed(a, b, 8) + i(c)) }
    V_DOT8_I32_I4: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { clamp_i32(signed(a, b, 4) + i(c)) }
    V_DOT2C_I32_I16: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { clamp_i32(signed(a, b, 16) + i(c)) }
    V_DOT8_U32_U4: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        clamp_u32((0..8).map(|n| u64::from(a >> (n * 4) & 15) * u64::from(b >> (n * 4) & 15)).sum::<u64>() + u64::from(c))
    }
    V_ADD_NC_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.saturating_add(b) }
    V_SUBREV_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { b.saturating_sub(a) }
    V_SUB_NC_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.saturating_sub(b) }
    V_ADD_NC_I16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.cast_signed().saturating_add(b.cast_signed()).cast_unsigned() }
    V_SUB_NC_I16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.cast_signed().saturating_sub(b.cast_signed()).cast_unsigned() }
    V_MAD_U16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 {
        (u64::from(a) * u64::from(b) + u64::from(c)).min(0xffff) as u16
    }
    V_MAD_I16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 {
        let value = i64::from(a.cast_signed()) * i64::from(b.cast_signed()) + i64::from(c.cast_signed());
        value.clamp(-0x8000, 0x7fff) as u16
    }
    V_MUL_U32_U24: Bits -> Bits, (a: u32, b: u32) -> u32 { clamp_u32(u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) }
    V_MUL_I32_I24: Bits -> Bits, (a: u32, b: u32) -> u32 { clamp_i32((i(a << 8) >> 8) * (i(b << 8) >> 8)) }
    V_SAD_HI_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        let sum = a.to_le_bytes().iter().zip(b.to_le_bytes()).map(|(a, b)| u32::from(a.abs_diff(b))).sum::<u32>();
        (sum << 16).saturating_add(c)
    }
    V_SAD_U16: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        ((a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16)).saturating_add(c)
    }
    V_MSAD_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
        pairs.filter(|(_, b)| *b != 0).fold(c, |sum, (a, b)| sum.saturating_add(u32::from(a.abs_diff(b))))
    }
    V_QSAD_PK_U16_U8: Bits -> Bits, (a: u64, b: u32, c: u64) -> u64 { packed::<false>(a, b, c, u16::saturating_add) }
    V_MQSAD_PK_U16_U8: Bits -> Bits, (a: u64, b: u32, c: u64) -> u64 { packed::<true>(a, b, c, u16::saturating_add) }
}
