//! Integer and bit operations of the vector ALU.

use super::op::vector_ops;
use crate::lanes::{Lanes, selected_bytes};

#[inline(always)]
fn i(value: u32) -> i32 {
    value.cast_signed()
}

#[inline(always)]
fn u(value: i32) -> u32 {
    value.cast_unsigned()
}

/// Low 24 bits, zero-extended.
#[inline(always)]
fn u24(value: u32) -> u32 {
    value & 0xff_ffff
}

/// Low 24 bits, sign-extended.
#[inline(always)]
fn i24(value: u32) -> i32 {
    i(value << 8) >> 8
}

#[inline(always)]
fn low(value: u64) -> u32 {
    value as u32
}

#[inline(always)]
fn bytes(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

fn sad(a: u32, b: u32) -> u32 {
    bytes(a).iter().zip(bytes(b)).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
}

/// The low 24 bits of each word, sign-extended.
#[inline(always)]
fn signed24<L: Lanes>(a: L::V) -> L::V {
    L::sar(L::shl(a, L::splat(8)), L::splat(8))
}

fn med3<T: Ord>(a: T, b: T, c: T) -> T {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    low.max(high.min(c))
}

/// Two numbers shifted to the right, each limited to a byte.
fn shifted_bytes(words: [u32; 2], by: u32, [least, most]: [i32; 2]) -> u16 {
    let [low, high] = words.map(|word| (i(word) >> (by & 31)).clamp(least, most) as u16 & 0xff);
    low | high << 8
}

vector_ops! {
    V_PRNG_B32: Bits -> Bits, (a: u32) -> u32 { a << 1 ^ if a >> 31 != 0 { 0xc5 } else { 0 } }
    V_ASHR_PK_I8_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u16 { shifted_bytes([a, b], c, [-128, 127]) }
    V_ASHR_PK_U8_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u16 { shifted_bytes([a, b], c, [0, 255]) }
    V_MOV_B32: Bits -> Bits, (a: u32) -> u32 { a }, lanes { a }
    V_MOV_B64: Bits -> Bits, (a: u64) -> u64 { a }
    V_NOT_B32: Bits -> Bits, (a: u32) -> u32 { !a }, lanes { L::not(a) }
    V_AND_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { a & b }, lanes { L::and(a, b) }
    V_OR_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { a | b }, lanes { L::or(a, b) }
    V_XOR_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { a ^ b }, lanes { L::xor(a, b) }
    V_XNOR_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { !(a ^ b) }, lanes { L::not(L::xor(a, b)) }
    V_OR3_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a | b | c }, lanes { L::or(L::or(a, b), c) }
    V_XOR3_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a ^ b ^ c }, lanes { L::xor(L::xor(a, b), c) }
    V_AND_OR_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a & b | c }, lanes { L::or(L::and(a, b), c) }
    V_BFI_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a & b | !a & c }, lanes { L::xor(c, L::and(a, L::xor(b, c))) }
    V_ADD_NC_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.wrapping_add(b) }, lanes { L::add(a, b) }
    V_SUB_NC_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.wrapping_sub(b) }, lanes { L::sub(a, b) }
    V_SUBREV_NC_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { b.wrapping_sub(a) }, lanes { L::sub(b, a) }
    V_ADD_NC_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.wrapping_add(b) }, lanes { L::add(a, b) }
    V_SUB_NC_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.wrapping_sub(b) }, lanes { L::sub(a, b) }
    V_ADD3_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.wrapping_add(b).wrapping_add(c) }, lanes { L::add(L::add(a, b), c) }
    V_XAD_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { (a ^ b).wrapping_add(c) }, lanes { L::add(L::xor(a, b), c) }
    V_LSHLREV_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { b.wrapping_shl(a) }, lanes { L::shl(b, a) }
    V_LSHRREV_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { b.wrapping_shr(a) }, lanes { L::shr(b, a) }
    V_ASHRREV_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { u(i(b).wrapping_shr(a)) }, lanes { L::sar(b, a) }
    V_LSHL_ADD_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.wrapping_shl(b).wrapping_add(c) }, lanes { L::add(L::shl(a, b), c) }
    V_ADD_LSHL_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.wrapping_add(b).wrapping_shl(c) }, lanes { L::shl(L::add(a, b), c) }
    V_LSHL_OR_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.wrapping_shl(b) | c }, lanes { L::or(L::shl(a, b), c) }
    V_LSHL_ADD_U64: Bits -> Bits, (a: u64, b: u32, c: u64) -> u64 { (a << (b & 7)).wrapping_add(c) }
    V_LSHLREV_B64: Bits -> Bits, (a: u32, b: u64) -> u64 { b.wrapping_shl(a) }
    V_LSHRREV_B64: Bits -> Bits, (a: u32, b: u64) -> u64 { b.wrapping_shr(a) }
    V_ASHRREV_I64: Bits -> Bits, (a: u32, b: u64) -> u64 { b.cast_signed().wrapping_shr(a).cast_unsigned() }
    V_MUL_LO_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.wrapping_mul(b) }, lanes { L::mul(a, b) }
    V_MUL_HI_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { low((u64::from(a) * u64::from(b)) >> 32) }, lanes { L::mul_high(a, b) }
    V_MUL_HI_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { ((i64::from(i(a)) * i64::from(i(b))) >> 32) as u32 }, lanes {
        let sign = L::splat(31);
        L::sub(L::sub(L::mul_high(a, b), L::and(L::sar(a, sign), b)), L::and(L::sar(b, sign), a))
    }
    V_MUL_U32_U24: Bits -> Bits, (a: u32, b: u32) -> u32 { u24(a).wrapping_mul(u24(b)) }, lanes {
        let mask = L::splat(0xff_ffff);
        L::mul(L::and(a, mask), L::and(b, mask))
    }
    V_MUL_I32_I24: Bits -> Bits, (a: u32, b: u32) -> u32 { u(i24(a).wrapping_mul(i24(b))) }, lanes { L::mul(signed24::<L>(a), signed24::<L>(b)) }
    V_MUL_HI_U32_U24: Bits -> Bits, (a: u32, b: u32) -> u32 { low((u64::from(u24(a)) * u64::from(u24(b))) >> 32) }
    V_MUL_HI_I32_I24: Bits -> Bits, (a: u32, b: u32) -> u32 { ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as u32 }
    V_MAD_U32_U24: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { u24(a).wrapping_mul(u24(b)).wrapping_add(c) }, lanes {
        let mask = L::splat(0xff_ffff);
        L::add(L::mul(L::and(a, mask), L::and(b, mask)), c)
    }
    V_MAD_I32_I24: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { u(i24(a).wrapping_mul(i24(b))).wrapping_add(c) }, lanes { L::add(L::mul(signed24::<L>(a), signed24::<L>(b)), c) }
    V_MAD_U32_U16: Bits -> Bits, (a: u16, b: u16, c: u32) -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) }
    V_MAD_I32_I16: Bits -> Bits, (a: u16, b: u16, c: u32) -> u32 {
        u(i32::from(a.cast_signed()) * i32::from(b.cast_signed())).wrapping_add(c)
    }
    V_MIN_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.min(b) }, lanes { L::min_u(a, b) }
    V_MAX_U32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.max(b) }, lanes { L::max_u(a, b) }
    V_MIN_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { u(i(a).min(i(b))) }, lanes { L::min_i(a, b) }
    V_MAX_I32: Bits -> Bits, (a: u32, b: u32) -> u32 { u(i(a).max(i(b))) }, lanes { L::max_i(a, b) }
    V_MIN3_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.min(b).min(c) }, lanes { L::min_u(L::min_u(a, b), c) }
    V_MAX3_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.max(b).max(c) }, lanes { L::max_u(L::max_u(a, b), c) }
    V_MIN3_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { u(i(a).min(i(b)).min(i(c))) }, lanes { L::min_i(L::min_i(a, b), c) }
    V_MAX3_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { u(i(a).max(i(b)).max(i(c))) }, lanes { L::max_i(L::max_i(a, b), c) }
    V_MED3_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { med3(a, b, c) }, lanes {
        L::max_u(L::min_u(a, b), L::min_u(L::max_u(a, b), c))
    }
    V_MED3_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { u(med3(i(a), i(b), i(c))) }, lanes {
        L::max_i(L::min_i(a, b), L::min_i(L::max_i(a, b), c))
    }
    V_MAXMIN_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.max(b).min(c) }, lanes { L::min_u(L::max_u(a, b), c) }
    V_MINMAX_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.min(b).max(c) }, lanes { L::max_u(L::min_u(a, b), c) }
    V_MAXMIN_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { u(i(a).max(i(b)).min(i(c))) }, lanes { L::min_i(L::max_i(a, b), c) }
    V_MINMAX_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { u(i(a).min(i(b)).max(i(c))) }, lanes { L::max_i(L::min_i(a, b), c) }
    V_BFE_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.wrapping_shr(b) & !(u32::MAX << (c & 31)) }, lanes {
        L::and(L::shr(a, b), L::not(L::shl(L::splat(u32::MAX), c)))
    }
    V_BFE_I32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        let (offset, width) = (b & 31, c & 31);
        if width == 0 {
            0
        } else {
            // The field may reach past bit 31, where the sign continues.
            (i64::from(i(a)) >> offset << (64 - width) >> (64 - width)) as u32
        }
    }, lanes {
        let above = L::sub(L::splat(32), c);
        let field = L::sar(L::shl(L::sar(a, b), above), above);
        L::select(L::eq(L::and(c, L::splat(31)), L::splat(0)), L::splat(0), field)
    }
    V_BFM_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { (!(u32::MAX << (a & 31))).wrapping_shl(b) }, lanes {
        L::shl(L::not(L::shl(L::splat(u32::MAX), a)), b)
    }
    V_BFREV_B32: Bits -> Bits, (a: u32) -> u32 { a.reverse_bits() }
    V_BCNT_U32_B32: Bits -> Bits, (a: u32, b: u32) -> u32 { a.count_ones().wrapping_add(b) }
    V_CLZ_I32_U32: Bits -> Bits, (a: u32) -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }
    V_CTZ_I32_B32: Bits -> Bits, (a: u32) -> u32 { if a == 0 { u32::MAX } else { a.trailing_zeros() } }
    V_CLS_I32: Bits -> Bits, (a: u32) -> u32 {
        let same = (a ^ u(i(a) >> 31)).leading_zeros();
        if same == 32 { u32::MAX } else { same }
    }
    V_ALIGNBIT_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { low((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) }, lanes {
        // The left shift is by 32 - c, in two steps so that c = 0 shifts everything out.
        let left = L::shl(L::shl(a, L::splat(1)), L::not(c));
        L::or(L::shr(b, c), left)
    }
    V_ALIGNBYTE_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { low((u64::from(a) << 32 | u64::from(b)) >> ((c & 3) * 8)) }, lanes {
        let c = L::shl(L::and(c, L::splat(3)), L::splat(3));
        L::or(L::shr(b, c), L::shl(L::shl(a, L::splat(1)), L::not(c)))
    }
    V_PERM_B32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { selected_bytes(a, b, c) }, lanes { L::select_bytes(a, b, c) }
    V_LERP_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        let (a, b, c) = (bytes(a), bytes(b), bytes(c));
        u32::from_le_bytes(core::array::from_fn(|n| ((u16::from(a[n]) + u16::from(b[n]) + u16::from(c[n] & 1)) >> 1) as u8))
    }
    V_SAD_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { sad(a, b).wrapping_add(c) }
    V_SAD_HI_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { (sad(a, b) << 16).wrapping_add(c) }
    V_SAD_U16: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        (a & 0xffff).abs_diff(b & 0xffff).wrapping_add((a >> 16).abs_diff(b >> 16)).wrapping_add(c)
    }
    V_SAD_U32: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 { a.abs_diff(b).wrapping_add(c) }, lanes { L::add(L::sub(L::max_u(a, b), L::min_u(a, b)), c) }
    V_MSAD_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        bytes(a).iter().zip(bytes(b)).filter(|(_, b)| *b != 0).fold(c, |sum, (a, b)| sum.wrapping_add(u32::from(a.abs_diff(b))))
    }
    V_DOT4_U32_U8: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        bytes(a).iter().zip(bytes(b)).fold(c, |sum, (a, b)| sum.wrapping_add(u32::from(*a) * u32::from(b)))
    }
    V_DOT8_U32_U4: Bits -> Bits, (a: u32, b: u32, c: u32) -> u32 {
        (0..8).fold(c, |sum, n| sum.wrapping_add((a >> (n * 4) & 15) * (b >> (n * 4) & 15)))
    }
    V_SAT_PK_U8_I16: Bits -> Bits, (a: u32) -> u16 {
        let clamp = |value: u32| u16::from((value as u16).cast_signed().clamp(0, 255) as u8);
        clamp(a) | clamp(a >> 16) << 8
    }
    V_MOV_B16: Bits -> Bits, (a: u16) -> u16 { a }
    V_NOT_B16: Bits -> Bits, (a: u16) -> u16 { !a }
    V_AND_B16: Bits -> Bits, (a: u16, b: u16) -> u16 { a & b }
    V_OR_B16: Bits -> Bits, (a: u16, b: u16) -> u16 { a | b }
    V_XOR_B16: Bits -> Bits, (a: u16, b: u16) -> u16 { a ^ b }
    V_ADD_NC_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.wrapping_add(b) }
    V_SUBREV_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { b.wrapping_sub(a) }
    V_SUB_NC_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.wrapping_sub(b) }
    V_ADD_NC_I16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.wrapping_add(b) }
    V_SUB_NC_I16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.wrapping_sub(b) }
    V_MUL_LO_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.wrapping_mul(b) }
    V_MAD_U16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { a.wrapping_mul(b).wrapping_add(c) }
    V_MAD_I16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { a.wrapping_mul(b).wrapping_add(c) }
    V_LSHLREV_B16: Bits -> Bits, (a: u16, b: u16) -> u16 { b.wrapping_shl(u32::from(a)) }
    V_LSHRREV_B16: Bits -> Bits, (a: u16, b: u16) -> u16 { b.wrapping_shr(u32::from(a)) }
    V_ASHRREV_I16: Bits -> Bits, (a: u16, b: u16) -> u16 { b.cast_signed().wrapping_shr(u32::from(a)).cast_unsigned() }
    V_MIN_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.min(b) }
    V_MAX_U16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.max(b) }
    V_MIN_I16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.cast_signed().min(b.cast_signed()).cast_unsigned() }
    V_MAX_I16: Bits -> Bits, (a: u16, b: u16) -> u16 { a.cast_signed().max(b.cast_signed()).cast_unsigned() }
    V_MIN3_U16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { a.min(b).min(c) }
    V_MAX3_U16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { a.max(b).max(c) }
    V_MED3_U16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { med3(a, b, c) }
    V_MIN3_I16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { a.cast_signed().min(b.cast_signed()).min(c.cast_signed()).cast_unsigned() }
    V_MAX3_I16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { a.cast_signed().max(b.cast_signed()).max(c.cast_signed()).cast_unsigned() }
    V_MED3_I16: Bits -> Bits, (a: u16, b: u16, c: u16) -> u16 { med3(a.cast_signed(), b.cast_signed(), c.cast_signed()).cast_unsigned() }
    V_PACK_B32_F16: F16 -> Bits, (a: u16, b: u16) -> u32 { u32::from(a) | u32::from(b) << 16 }
}
