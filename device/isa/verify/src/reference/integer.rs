//! Integer and bit operations of the vector ALU, by lane.

use belfry_isa::inst::Op;

use super::lane::{Lane, Out};

/// Bytes of a word.
fn bytes(word: u32) -> [i64; 4] {
    word.to_le_bytes().map(i64::from)
}

/// Sum of absolute differences of four bytes; with `masked`, bytes whose reference is 0 do not count.
fn sad8(a: u32, reference: u32, masked: bool) -> i64 {
    bytes(a)
        .into_iter()
        .zip(bytes(reference))
        .filter(|&(_, reference)| !(masked && reference == 0))
        .map(|(a, b)| (a - b).abs())
        .sum()
}

fn sext24(value: u32) -> i128 {
    i128::from((value << 8) as i32 >> 8)
}

fn zext24(value: u32) -> i128 {
    i128::from(value & 0xff_ffff)
}

fn find(set: impl Fn(u32) -> bool) -> u64 {
    (0..32).find(|&n| set(n)).map_or(0xffff_ffff, u64::from)
}

fn med<T: Ord>(a: T, b: T, c: T) -> T {
    let mut all = [a, b, c];
    all.sort();
    let [_, middle, _] = all;
    middle
}

/// Saturates.
fn clip(value: i32, low: i32, high: i32) -> u64 {
    u64::from(value.clamp(low, high) as u32 & 0xffff)
}

/// `v_perm_b32`: byte `select` of `{a, b}`.
fn permuted(a: u32, b: u32, select: u32) -> u64 {
    let both = u64::from(a) << 32 | u64::from(b);
    let byte = |n: u64| both >> (8 * n) & 0xff;
    let sign = |bit: u64| if both >> bit & 1 != 0 { 0xff } else { 0 };
    (0..4).fold(0, |result, n| {
        let chosen = match u64::from(select) >> (8 * n) & 0xff {
            n @ 0..=7 => byte(n),
            8 => sign(15),
            9 => sign(31),
            10 => sign(47),
            11 => sign(63),
            12 => 0,
            _ => 0xff,
        };
        result | chosen << (8 * n)
    })
}

/// The result of an operation on integers or bits; `None` when it is none.
#[expect(clippy::too_many_lines, reason = "one line for each operation")]
pub(crate) fn run(l: &Lane<'_>) -> Option<Out> {
    use Op::*;
    let word = |value: u32| Some(Out::B32(u64::from(value)));
    let half = |value: u16| Some(Out::B16(u64::from(value)));
    let (u, i) = (|n| l.u32(n), |n| l.i32(n));
    let wide = |n| i128::from(l.u32(n));
    let swide = |n| i128::from(l.i32(n));
    let (h, s) = (|n| i128::from(l.u16(n)), |n| i128::from(l.i16(n)));
    match l.vector.op {
        V_MOV_B32 => word(u(0)),
        V_MOV_B64 => Some(Out::B64(l.u64(0))),
        V_MOV_B16 => half(l.u16(0)),
        V_NOT_B32 => word(!u(0)),
        V_NOT_B16 => half(!l.u16(0)),
        V_BFREV_B32 => word((0..32).fold(0, |r, n| r | (u(0) >> n & 1) << (31 - n))),
        V_CLZ_I32_U32 => Some(Out::B32(find(|n| u(0) >> (31 - n) & 1 != 0))),
        V_CTZ_I32_B32 => Some(Out::B32(find(|n| u(0) >> n & 1 != 0))),
        V_CLS_I32 => {
            let sign = u(0) >> 31;
            Some(Out::B32(find(|n| u(0) >> (31 - n) & 1 != sign)))
        }
        V_CVT_I32_I16 => word(i32::from(l.i16(0)) as u32),
        V_CVT_U32_U16 => word(u32::from(l.u16(0))),
        V_SAT_PK_U8_I16 => {
            let byte = |shift: u32| u64::from(((u(0) >> shift) as u16 as i16).clamp(0, 255) as u16);
            Some(Out::B16(byte(0) | byte(16) << 8))
        }
        V_CNDMASK_B32 => Some(Out::B32(if l.bit(2) { l.f32(1) } else { l.f32(0) })),
        V_CNDMASK_B16 => Some(Out::B16(if l.bit(2) { l.f16(1) } else { l.f16(0) })),
        V_AND_B32 => word(u(0) & u(1)),
        V_OR_B32 => word(u(0) | u(1)),
        V_XOR_B32 => word(u(0) ^ u(1)),
        V_XNOR_B32 => word(!(u(0) ^ u(1))),
        V_AND_B16 => half(l.u16(0) & l.u16(1)),
        V_OR_B16 => half(l.u16(0) | l.u16(1)),
        V_XOR_B16 => half(l.u16(0) ^ l.u16(1)),
        V_LSHLREV_B32 => word(u(1) << (u(0) & 31)),
        V_LSHRREV_B32 => word(u(1) >> (u(0) & 31)),
        V_ASHRREV_I32 => word((i(1) >> (u(0) & 31)) as u32),
        V_LSHLREV_B16 => half(l.u16(1) << (l.u16(0) & 15)),
        V_LSHRREV_B16 => half(l.u16(1) >> (l.u16(0) & 15)),
        V_ASHRREV_I16 => half((l.i16(1) >> (l.u16(0) & 15)) as u16),
        V_LSHLREV_B64 => Some(Out::B64(l.u64(1) << (u(0) & 63))),
        V_LSHRREV_B64 => Some(Out::B64(l.u64(1) >> (u(0) & 63))),
        V_ASHRREV_I64 => Some(Out::B64((l.i64(1) >> (u(0) & 63)) as u64)),
        V_ADD_NC_U32 => Some(l.int(wide(0) + wide(1), 32, false)),
        V_SUB_NC_U32 => Some(l.int(wide(0) - wide(1), 32, false)),
        V_SUBREV_NC_U32 => Some(l.int(wide(1) - wide(0), 32, false)),
        V_ADD_NC_I32 => Some(l.int(swide(0) + swide(1), 32, true)),
        V_SUB_NC_I32 => Some(l.int(swide(0) - swide(1), 32, true)),
        V_ADD_NC_U16 => Some(l.int(h(0) + h(1), 16, false)),
        V_SUB_NC_U16 => Some(l.int(h(0) - h(1), 16, false)),
        V_SUBREV_U16 => Some(l.int(h(1) - h(0), 16, false)),
        V_ADD_NC_I16 => Some(l.int(s(0) + s(1), 16, true)),
        V_SUB_NC_I16 => Some(l.int(s(0) - s(1), 16, true)),
        V_MUL_LO_U16 => half(l.u16(0).wrapping_mul(l.u16(1))),
        V_MUL_LO_U32 => word(u(0).wrapping_mul(u(1))),
        V_MUL_HI_U32 => word(((wide(0) * wide(1)) >> 32) as u32),
        V_MUL_HI_I32 => word(((swide(0) * swide(1)) >> 32) as u32),
        V_MUL_I32_I24 => Some(l.int(sext24(u(0)) * sext24(u(1)), 32, true)),
        V_MUL_U32_U24 => Some(l.int(zext24(u(0)) * zext24(u(1)), 32, false)),
        V_MUL_HI_I32_I24 => word(((sext24(u(0)) * sext24(u(1))) >> 32) as u32),
        V_MUL_HI_U32_U24 => word(((zext24(u(0)) * zext24(u(1))) >> 32) as u32),
        V_MAD_I32_I24 => Some(l.int(sext24(u(0)) * sext24(u(1)) + swide(2), 32, true)),
        V_MAD_U32_U24 => Some(l.int(zext24(u(0)) * zext24(u(1)) + wide(2), 32, false)),
        V_MAD_U16 => Some(l.int(h(0) * h(1) + h(2), 16, false)),
        V_MAD_I16 => Some(l.int(s(0) * s(1) + s(2), 16, true)),
        V_MAD_U32_U16 => Some(l.int(h(0) * h(1) + wide(2), 32, false)),
        V_MAD_I32_I16 => Some(l.int(s(0) * s(1) + swide(2), 32, true)),
        V_MIN_I32 => word(i(0).min(i(1)) as u32),
        V_MAX_I32 => word(i(0).max(i(1)) as u32),
        V_MIN_U32 => word(u(0).min(u(1))),
        V_MAX_U32 => word(u(0).max(u(1))),
        V_MIN_I16 => half(l.i16(0).min(l.i16(1)) as u16),
        V_MAX_I16 => half(l.i16(0).max(l.i16(1)) as u16),
        V_MIN_U16 => half(l.u16(0).min(l.u16(1))),
        V_MAX_U16 => half(l.u16(0).max(l.u16(1))),
        V_MIN3_I32 => word(i(0).min(i(1)).min(i(2)) as u32),
        V_MAX3_I32 => word(i(0).max(i(1)).max(i(2)) as u32),
        V_MED3_I32 => word(med(i(0), i(1), i(2)) as u32),
        V_MIN3_U32 => word(u(0).min(u(1)).min(u(2))),
        V_MAX3_U32 => word(u(0).max(u(1)).max(u(2))),
        V_MED3_U32 => word(med(u(0), u(1), u(2))),
        V_MIN3_I16 => half(l.i16(0).min(l.i16(1)).min(l.i16(2)) as u16),
        V_MAX3_I16 => half(l.i16(0).max(l.i16(1)).max(l.i16(2)) as u16),
        V_MED3_I16 => half(med(l.i16(0), l.i16(1), l.i16(2)) as u16),
        V_MIN3_U16 => half(l.u16(0).min(l.u16(1)).min(l.u16(2))),
        V_MAX3_U16 => half(l.u16(0).max(l.u16(1)).max(l.u16(2))),
        V_MED3_U16 => half(med(l.u16(0), l.u16(1), l.u16(2))),
        V_MAXMIN_I32 => word(i(0).max(i(1)).min(i(2)) as u32),
        V_MINMAX_I32 => word(i(0).min(i(1)).max(i(2)) as u32),
        V_MAXMIN_U32 => word(u(0).max(u(1)).min(u(2))),
        V_MINMAX_U32 => word(u(0).min(u(1)).max(u(2))),
        V_ADD3_U32 => word(u(0).wrapping_add(u(1)).wrapping_add(u(2))),
        V_LSHL_ADD_U32 => word((u(0) << (u(1) & 31)).wrapping_add(u(2))),
        V_LSHL_ADD_U64 => Some(Out::B64((l.u64(0) << (u(1) & 7)).wrapping_add(l.u64(2)))),
        V_ADD_LSHL_U32 => word(u(0).wrapping_add(u(1)) << (u(2) & 31)),
        V_LSHL_OR_B32 => word(u(0) << (u(1) & 31) | u(2)),
        V_AND_OR_B32 => word(u(0) & u(1) | u(2)),
        V_OR3_B32 => word(u(0) | u(1) | u(2)),
        V_XOR3_B32 => word(u(0) ^ u(1) ^ u(2)),
        V_XAD_U32 => word((u(0) ^ u(1)).wrapping_add(u(2))),
        V_BFE_U32 => word((0..u(2) & 31).fold(0, |r, n| {
            let at = (u(1) & 31) + n;
            r | if at < 32 { (u(0) >> at & 1) << n } else { 0 }
        })),
        V_BFE_I32 => {
            let width = u(2) & 31;
            let shifted = i(0) >> (u(1) & 31);
            word(if width == 0 { 0 } else { (shifted << (32 - width) >> (32 - width)) as u32 })
        }
        V_BFI_B32 => word(u(0) & u(1) | !u(0) & u(2)),
        V_BFM_B32 => word(((1u32 << (u(0) & 31)) - 1) << (u(1) & 31)),
        V_ALIGNBIT_B32 => word(((u64::from(u(0)) << 32 | u64::from(u(1))) >> (l.u16(2) & 31)) as u32),
        V_ALIGNBYTE_B32 => word(((u64::from(u(0)) << 32 | u64::from(u(1))) >> ((l.u16(2) & 3) * 8)) as u32),
        V_PERM_B32 => Some(Out::B32(permuted(u(0), u(1), u(2)))),
        V_BCNT_U32_B32 => word((0..32).map(|n| u(0) >> n & 1).sum::<u32>().wrapping_add(u(1))),
        V_MBCNT_LO_U32_B32 => {
            let below = (0..32).filter(|&n| n < l.lane && u(0) >> n & 1 != 0).count() as u32;
            word(u(1).wrapping_add(below))
        }
        V_MBCNT_HI_U32_B32 => {
            let below = (0..32).filter(|&n| n + 32 < l.lane && u(0) >> n & 1 != 0).count() as u32;
            word(u(1).wrapping_add(below))
        }
        V_LERP_U8 => {
            let (a, b, c) = (bytes(u(0)), bytes(u(1)), bytes(u(2)));
            word(
                (0..4).fold(0, |r, n| r | (((a[n] + b[n] + (c[n] & 1)) >> 1 & 0xff) as u32 * (1 << (8 * n)))),
            )
        }
        V_SAD_U8 => Some(l.int(i128::from(sad8(u(0), u(1), false)) + wide(2), 32, false)),
        V_MSAD_U8 => Some(l.int(i128::from(sad8(u(0), u(1), true)) + wide(2), 32, false)),
        V_SAD_HI_U8 => Some(l.int((i128::from(sad8(u(0), u(1), false)) << 16) + wide(2), 32, false)),
        V_SAD_U16 => {
            let part = |shift: u32| i128::from((u(0) >> shift & 0xffff).abs_diff(u(1) >> shift & 0xffff));
            Some(l.int(part(0) + part(16) + wide(2), 32, false))
        }
        V_SAD_U32 => Some(l.int(i128::from(u(0).abs_diff(u(1))) + wide(2), 32, false)),
        V_QSAD_PK_U16_U8 | V_MQSAD_PK_U16_U8 => {
            let masked = l.vector.op == V_MQSAD_PK_U16_U8;
            let (window, sums) = (l.u64(0), l.u64(2));
            Some(Out::B64((0..4).fold(0, |r, n| {
                let sum = i128::from(sad8((window >> (8 * n)) as u32, u(1), masked))
                    + i128::from(sums >> (16 * n) & 0xffff);
                let Out::B16(sum) = l.int(sum, 16, false) else { return r };
                r | sum << (16 * n)
            })))
        }
        V_MQSAD_U32_U8 => {
            let belfry_isa::inst::Operand::Vgpr(sums) = l.vector.src[2] else { return None };
            let window = l.u64(0);
            Some(Out::B128([0, 1, 2, 3].map(|n| {
                let sum = i128::from(sad8((window >> (8 * n)) as u32, u(1), true))
                    + i128::from(l.state.vgpr(u32::from(sums) + n, l.lane));
                match l.int(sum, 32, false) {
                    Out::B32(sum) => sum as u32,
                    _ => 0,
                }
            })))
        }
        V_CVT_PK_I16_I32 => Some(Out::B32(clip(i(0), -32768, 32767) | clip(i(1), -32768, 32767) << 16)),
        V_CVT_PK_U16_U32 => word(u(0).min(0xffff) | u(1).min(0xffff) << 16),
        _ => None,
    }
}
