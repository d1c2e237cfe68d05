//! SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.

mod control;
mod float;
mod memory;

use belfry_isa::inst::{Inst, Op, Operand};

use super::state::{EXEC, End, State};
pub(crate) use memory::memory;

/// A result, which may also be the condition's.
enum Result_ {
    /// 32 bits.
    Word(u32),
    /// 64 bits.
    Long(u64),
    /// Nothing to write.
    Nothing,
}
use Result_::{Long, Nothing, Word};

/// Runs a scalar ALU instruction or branch; `pc` is the address after it, where it goes on unless it jumps.
pub(crate) fn run(state: &mut State, inst: &Inst) -> Result<(), End> {
    let name = inst.op.mnemonic();
    if name.ends_with("_saveexec_b32") || name.ends_with("_saveexec_b64") || name.contains("_wrexec_") {
        exec_mask(state, inst, name);
        return Ok(());
    }
    if let Some(done) = float::run(state, inst, name) {
        return done;
    }
    let signed = name.contains("i64");
    let a = state.scalar(inst.src[0]);
    let b = state.scalar(inst.src[1]);
    let a64 = state.scalar64(inst.src[0], signed);
    let b64 = state.scalar64(inst.src[1], signed);
    let k = i32::from(inst.simm16());
    let dst = match (inst.dst, inst.src[0]) {
        (Operand::Sgpr(number), _) => number,
        // SOPK that reads its destination.
        (Operand::None, Operand::Sgpr(number)) => number,
        _ => state.null(),
    };
    let mut scc = None;
    let result = alu(state, inst, dst, [a, b], [a64, b64], &mut scc)
        .or_else(|| constant(state, inst, dst, a, k, &mut scc));
    let Some(result) = result else { return control::run(state, inst, a64, dst, k) };
    match result {
        Word(value) => state.set_sgpr(dst, value),
        Long(value) => state.set_pair(dst, value),
        Nothing => {}
    }
    if let Some(scc) = scc {
        state.scc = scc;
    }
    Ok(())
}

/// `s_and_saveexec_b32` and its relatives.
fn exec_mask(state: &mut State, inst: &Inst, name: &str) {
    let wide = name.ends_with("64");
    let all = if wide { u64::MAX } else { 0xffff_ffff };
    let source = if wide { state.scalar64(inst.src[0], false) } else { u64::from(state.scalar(inst.src[0])) };
    let exec = state.pair(EXEC) & all;
    let operation = name.trim_start_matches("s_").split("_saveexec").next().unwrap_or_default();
    let operation = operation.split("_wrexec").next().unwrap_or_default();
    let new = all
        & match operation {
            "and" => source & exec,
            "or" => source | exec,
            "xor" => source ^ exec,
            "nand" => !(source & exec),
            "nor" => !(source | exec),
            "xnor" => !(source ^ exec),
            "and_not0" => !source & exec,
            "and_not1" => source & !exec,
            "or_not0" => !source | exec,
            _ => source | !exec,
        };
    let Operand::Sgpr(dst) = inst.dst else { return };
    let kept = if name.contains("wrexec") { new } else { exec };
    if wide {
        state.set_pair(EXEC, new);
        state.set_pair(dst, kept);
        // A destination of EXEC itself would be written twice; the hardware's order is not stated, so it is not drawn.
    } else {
        state.set_sgpr(EXEC, new as u32);
        state.set_sgpr(dst, kept as u32);
    }
    state.scc = new != 0;
}

/// Whole quads of which any lane is set.
fn whole_quads(value: u64) -> u64 {
    (0..16).filter(|quad| value >> (quad * 4) & 15 != 0).fold(0, |mask, quad| mask | 15 << (quad * 4))
}

fn quads(value: u64) -> u64 {
    (0..16).filter(|quad| value >> (quad * 4) & 15 != 0).fold(0, |mask, quad| mask | 1 << quad)
}

/// Number of leading bits that equal the sign, -1 for all.
fn leading_sign(value: i64, bits: u32) -> u32 {
    let sign = value >> (bits - 1) & 1;
    (1..bits).find(|&n| value >> (bits - 1 - n) & 1 != sign).unwrap_or(u32::MAX)
}

fn field(value: u64, offset: u32, width: u32, bits: u32, signed: bool) -> u64 {
    let width = width.min(64);
    if width == 0 {
        return 0;
    }
    // The sign comes from the highest bit of the field that is there.
    (0..bits).fold(0, |result, n| {
        let from = if n < width {
            n
        } else if signed {
            width - 1
        } else {
            return result;
        };
        let at = offset + from;
        let bit = if at < bits {
            value >> at & 1
        } else if signed {
            value >> (bits - 1) & 1
        } else {
            0
        };
        result | bit << n
    })
}

fn find(bits: u32, set: impl Fn(u32) -> bool) -> u32 {
    (0..bits).find(|&n| set(n)).unwrap_or(u32::MAX)
}

/// SOP1, SOP2 and SOPC.
#[expect(clippy::too_many_lines, reason = "one line for each operation")]
fn alu(
    state: &State,
    inst: &Inst,
    dst: u8,
    [a, b]: [u32; 2],
    [a64, b64]: [u64; 2],
    scc: &mut Option<bool>,
) -> Option<Result_> {
    use Op::*;
    let (ai, bi) = (a as i32, b as i32);
    let carry = u64::from(state.scc);
    let mut logic = |value: u64, wide: bool| {
        let value = if wide { value } else { value & 0xffff_ffff };
        *scc = Some(value != 0);
        if wide { Long(value) } else { Word(value as u32) }
    };
    Some(match inst.op {
        S_AND_B32 => logic(u64::from(a & b), false),
        S_OR_B32 => logic(u64::from(a | b), false),
        S_XOR_B32 => logic(u64::from(a ^ b), false),
        S_NAND_B32 => logic(u64::from(!(a & b)), false),
        S_NOR_B32 => logic(u64::from(!(a | b)), false),
        S_XNOR_B32 => logic(u64::from(!(a ^ b)), false),
        S_AND_NOT1_B32 => logic(u64::from(a & !b), false),
        S_OR_NOT1_B32 => logic(u64::from(a | !b), false),
        S_AND_B64 => logic(a64 & b64, true),
        S_OR_B64 => logic(a64 | b64, true),
        S_XOR_B64 => logic(a64 ^ b64, true),
        S_NAND_B64 => logic(!(a64 & b64), true),
        S_NOR_B64 => logic(!(a64 | b64), true),
        S_XNOR_B64 => logic(!(a64 ^ b64), true),
        S_AND_NOT1_B64 => logic(a64 & !b64, true),
        S_OR_NOT1_B64 => logic(a64 | !b64, true),
        S_NOT_B32 => logic(u64::from(!a), false),
        S_NOT_B64 => logic(!a64, true),
        S_WQM_B32 => logic(whole_quads(u64::from(a)), false),
        S_WQM_B64 => logic(whole_quads(a64), true),
        S_QUADMASK_B32 => logic(quads(u64::from(a)), false),
        S_QUADMASK_B64 => logic(quads(a64), true),
        S_BCNT0_I32_B32 => logic(u64::from(32 - (0..32).map(|n| a >> n & 1).sum::<u32>()), false),
        S_BCNT1_I32_B32 => logic(u64::from((0..32).map(|n| a >> n & 1).sum::<u32>()), false),
        S_BCNT0_I32_B64 => logic(64 - (0..64).map(|n| a64 >> n & 1).sum::<u64>(), false),
        S_BCNT1_I32_B64 => logic((0..64).map(|n| a64 >> n & 1).sum::<u64>(), false),
        S_LSHL_B32 => logic(u64::from(a) << (b & 31), false),
        S_LSHL_B64 => logic(a64 << (b & 63), true),
        S_LSHR_B32 => logic(u64::from(a >> (b & 31)), false),
        S_LSHR_B64 => logic(a64 >> (b & 63), true),
        S_ASHR_I32 => logic(i64::from(ai >> (b & 31)) as u64, false),
        S_ASHR_I64 => logic(((a64 as i64) >> (b & 63)) as u64, true),
        S_BFE_U32 => logic(field(u64::from(a), b & 31, b >> 16 & 127, 32, false), false),
        S_BFE_I32 => logic(field(u64::from(a), b & 31, b >> 16 & 127, 32, true), false),
        S_BFE_U64 => logic(field(a64, b & 63, b >> 16 & 127, 64, false), true),
        S_BFE_I64 => logic(field(a64, b & 63, b >> 16 & 127, 64, true), true),
        S_ABS_I32 => logic(u64::from(ai.unsigned_abs()), false),
        S_ABSDIFF_I32 => logic(u64::from(ai.wrapping_sub(bi).unsigned_abs()), false),
        S_MOV_B32 => Word(a),
        S_MOV_B64 => Long(a64),
        S_CMOV_B32 => {
            if state.scc {
                Word(a)
            } else {
                Nothing
            }
        }
        S_CMOV_B64 => {
            if state.scc {
                Long(a64)
            } else {
                Nothing
            }
        }
        S_BREV_B32 => Word((0..32).fold(0, |r, n| r | (a >> n & 1) << (31 - n))),
        S_BREV_B64 => Long((0..64).fold(0, |r, n| r | (a64 >> n & 1) << (63 - n))),
        S_FF0_I32_B32 => Word(find(32, |n| a >> n & 1 == 0)),
        S_FF0_I32_B64 => Word(find(64, |n| a64 >> n & 1 == 0)),
        S_CTZ_I32_B32 => Word(find(32, |n| a >> n & 1 != 0)),
        S_CTZ_I32_B64 => Word(find(64, |n| a64 >> n & 1 != 0)),
        S_CLZ_I32_U32 => Word(find(32, |n| a >> (31 - n) & 1 != 0)),
        S_CLZ_I32_U64 => Word(find(64, |n| a64 >> (63 - n) & 1 != 0)),
        S_CLS_I32 => Word(leading_sign(i64::from(ai), 32)),
        S_CLS_I32_I64 => Word(leading_sign(a64 as i64, 64)),
        S_SEXT_I32_I8 => Word(i32::from(a as u8 as i8) as u32),
        S_SEXT_I32_I16 => Word(i32::from(a as u16 as i16) as u32),
        S_BITSET0_B32 => Word(state.sgpr(dst) & !(1 << (a & 31))),
        S_BITSET1_B32 => Word(state.sgpr(dst) | 1 << (a & 31)),
        S_BITSET0_B64 => Long(state.pair(dst) & !(1 << (a & 63))),
        S_BITSET1_B64 => Long(state.pair(dst) | 1 << (a & 63)),
        S_BITREPLICATE_B64_B32 => Long((0..32).fold(0, |r, n| r | ((u64::from(a) >> n & 1) * 3) << (2 * n))),
        S_GETPC_B64 => Long(state.pc),
        S_ADD_U32 => {
            let sum = u64::from(a) + u64::from(b);
            *scc = Some(sum >> 32 != 0);
            Word(sum as u32)
        }
        S_SUB_U32 => {
            *scc = Some(b > a);
            Word(a.wrapping_sub(b))
        }
        S_ADD_I32 => {
            let sum = i64::from(ai) + i64::from(bi);
            *scc = Some(sum != i64::from(sum as i32));
            Word(sum as u32)
        }
        S_SUB_I32 => {
            let sum = i64::from(ai) - i64::from(bi);
            *scc = Some(sum != i64::from(sum as i32));
            Word(sum as u32)
        }
        S_ADDC_U32 => {
            let sum = u64::from(a) + u64::from(b) + carry;
            *scc = Some(sum >> 32 != 0);
            Word(sum as u32)
        }
        S_SUBB_U32 => {
            *scc = Some(u64::from(b) + carry > u64::from(a));
            Word(a.wrapping_sub(b).wrapping_sub(carry as u32))
        }
        S_MIN_I32 => {
            *scc = Some(ai < bi);
            Word(ai.min(bi) as u32)
        }
        S_MIN_U32 => {
            *scc = Some(a < b);
            Word(a.min(b))
        }
        S_MAX_I32 => {
            *scc = Some(ai >= bi);
            Word(ai.max(bi) as u32)
        }
        S_MAX_U32 => {
            *scc = Some(a >= b);
            Word(a.max(b))
        }
        S_CSELECT_B32 => Word(if state.scc { a } else { b }),
        S_CSELECT_B64 => Long(if state.scc { a64 } else { b64 }),
        S_BFM_B32 => Word(((1u32 << (a & 31)) - 1) << (b & 31)),
        S_BFM_B64 => Long(((1u64 << (a & 63)) - 1) << (b & 63)),
        S_MUL_I32 => Word(a.wrapping_mul(b)),
        S_ADD_NC_U64 => Long(a64.wrapping_add(b64)),
        S_SUB_NC_U64 => Long(a64.wrapping_sub(b64)),
        S_MUL_U64 => Long(a64.wrapping_mul(b64)),
        S_MUL_HI_U32 => Word(((u64::from(a) * u64::from(b)) >> 32) as u32),
        S_MUL_HI_I32 => Word(((i64::from(ai) * i64::from(bi)) >> 32) as u32),
        S_LSHL1_ADD_U32 | S_LSHL2_ADD_U32 | S_LSHL3_ADD_U32 | S_LSHL4_ADD_U32 => {
            let shift = match inst.op {
                S_LSHL1_ADD_U32 => 1,
                S_LSHL2_ADD_U32 => 2,
                S_LSHL3_ADD_U32 => 3,
                _ => 4,
            };
            let sum = (u64::from(a) << shift) + u64::from(b);
            *scc = Some(sum >> 32 != 0);
            Word(sum as u32)
        }
        S_PACK_LL_B32_B16 => Word(a & 0xffff | b << 16),
        S_PACK_LH_B32_B16 => Word(a & 0xffff | b & 0xffff_0000),
        S_PACK_HH_B32_B16 => Word(a >> 16 | b & 0xffff_0000),
        S_PACK_HL_B32_B16 => Word(a >> 16 | b << 16),
        S_MOVRELS_B32 => {
            let Operand::Sgpr(from) = inst.src[0] else { return None };
            Word(relative(state, from, state.m0()).map_or(0, |from| state.sgpr(from)))
        }
        S_MOVRELS_B64 => {
            let Operand::Sgpr(from) = inst.src[0] else { return None };
            let there =
                relative(state, from, state.m0()).filter(|&from| u32::from(from) + 1 < registers(state));
            Long(there.map_or(0, |from| state.pair(from)))
        }
        op => {
            let (left, right) = match op {
                S_CMP_EQ_I32 | S_CMP_LG_I32 | S_CMP_GT_I32 | S_CMP_GE_I32 | S_CMP_LT_I32 | S_CMP_LE_I32 => {
                    (i64::from(ai), i64::from(bi))
                }
                _ => (i64::from(a), i64::from(b)),
            };
            let holds = match op {
                S_CMP_EQ_I32 | S_CMP_EQ_U32 => left == right,
                S_CMP_LG_I32 | S_CMP_LG_U32 => left != right,
                S_CMP_GT_I32 | S_CMP_GT_U32 => left > right,
                S_CMP_GE_I32 | S_CMP_GE_U32 => left >= right,
                S_CMP_LT_I32 | S_CMP_LT_U32 => left < right,
                S_CMP_LE_I32 | S_CMP_LE_U32 => left <= right,
                S_CMP_EQ_U64 => a64 == b64,
                S_CMP_LG_U64 => a64 != b64,
                S_BITCMP0_B32 => a >> (b & 31) & 1 == 0,
                S_BITCMP1_B32 => a >> (b & 31) & 1 == 1,
                S_BITCMP0_B64 => a64 >> (b & 63) & 1 == 0,
                S_BITCMP1_B64 => a64 >> (b & 63) & 1 == 1,
                _ => return None,
            };
            *scc = Some(holds);
            Nothing
        }
    })
}

/// Scalar registers that are numbered `s0` and on.
fn registers(state: &State) -> u32 {
    if state.facts().is_gfx9 { 102 } else { 106 }
}

/// A register number plus an offset, when such an SGPR exists.
fn relative(state: &State, base: u8, offset: u32) -> Option<u8> {
    let number = u32::from(base).checked_add(offset)?;
    (number < registers(state)).then_some(number as u8)
}

/// SOPK.
fn constant(
    state: &mut State,
    inst: &Inst,
    dst: u8,
    a: u32,
    k: i32,
    scc: &mut Option<bool>,
) -> Option<Result_> {
    use Op::*;
    let (ai, ku) = (a as i32, inst.imm & 0xffff);
    let old = state.sgpr(dst);
    let holds = match inst.op {
        S_MOVK_I32 => return Some(Word(k as u32)),
        S_CMOVK_I32 => return Some(if state.scc { Word(k as u32) } else { Nothing }),
        S_ADDK_I32 => {
            let sum = i64::from(old as i32) + i64::from(k);
            *scc = Some(sum != i64::from(sum as i32));
            return Some(Word(sum as u32));
        }
        S_MULK_I32 => return Some(Word(old.wrapping_mul(k as u32))),
        S_VERSION | S_WAITCNT_EXPCNT | S_WAITCNT_LGKMCNT | S_WAITCNT_VMCNT | S_WAITCNT_VSCNT => {
            return Some(Nothing);
        }
        S_CMPK_EQ_I32 => ai == k,
        S_CMPK_LG_I32 => ai != k,
        S_CMPK_GT_I32 => ai > k,
        S_CMPK_GE_I32 => ai >= k,
        S_CMPK_LT_I32 => ai < k,
        S_CMPK_LE_I32 => ai <= k,
        S_CMPK_EQ_U32 => a == ku,
        S_CMPK_LG_U32 => a != ku,
        S_CMPK_GT_U32 => a > ku,
        S_CMPK_GE_U32 => a >= ku,
        S_CMPK_LT_U32 => a < ku,
        S_CMPK_LE_U32 => a <= ku,
        _ => return None,
    };
    *scc = Some(holds);
    Some(Nothing)
}
