//! Matrix operations: D = A × B + C on 16×16 tiles.
//!
//! Layout (RDNA 3): lane *i* of the first sixteen holds row *i* of A and column *i* of B, sixteen elements in consecutive
//! registers, the lowest bits first; the other lanes hold copies. Of C and D lane *i* holds column *i* mod 16, rows
//! `i / 16`, `i / 16 + lanes / 16`, … in consecutive registers.

use belfry_isa::inst::{Inst, Op, Operand};

use super::number::{B16, F16, F32, Rules, bf16_single, convert, fma};
use super::state::{End, State};

fn register(operand: Operand) -> Option<u32> {
    match operand {
        Operand::Vgpr(register) => Some(u32::from(register)),
        _ => None,
    }
}

/// Element `k` of a row of A or a column of B, `bits` wide.
fn element(state: &State, base: u32, line: u32, k: u32, bits: u32) -> u32 {
    let each = 32 / bits;
    let word = state.vgpr(base + k / each, line);
    (u64::from(word) >> (k % each * bits) & ((1 << bits) - 1)) as u32
}

/// A 16-bit float as single precision bits.
fn single(bits: u32, brain: bool) -> u64 {
    if brain {
        bf16_single(u64::from(bits))
    } else {
        convert::<F16, F32>(u64::from(bits), Rules::IEEE, Rules::IEEE)
    }
}

/// Runs a matrix instruction; all lanes take part.
pub(crate) fn run(state: &mut State, inst: &Inst) -> Result<(), End> {
    let (a, b) = (register(inst.src[0]), register(inst.src[1]));
    let (Some(a), Some(b), Some(d)) = (a, b, register(inst.dst)) else { return Err(End::Unknown) };
    let rows = state.lanes / 16;
    let before = state.clone();
    for row in 0..16 {
        for column in 0..16 {
            let (place, lane) = (row / rows, row % rows * 16 + column);
            let c = match inst.src[2] {
                Operand::Vgpr(base) => before.vgpr(u32::from(base) + place, lane),
                Operand::InlineInt(value) => i32::from(value) as u32,
                Operand::InlineFloat(value) if matches!(inst.op, Op::V_WMMA_F16_16X16X16_F16) => {
                    u32::from(value.f16_bits())
                }
                Operand::InlineFloat(value) if matches!(inst.op, Op::V_WMMA_BF16_16X16X16_BF16) => {
                    u32::from(value.bf16_bits())
                }
                Operand::InlineFloat(value) => value.f32_bits(),
                Operand::Literal(value) => value,
                other => before.scalar(other),
            };
            let old = before.vgpr(d + place, lane);
            let value = match inst.op {
                Op::V_WMMA_I32_16X16X16_IU8 => integer(&before, inst, [a, b, row, column], c, 8),
                Op::V_WMMA_I32_16X16X16_IU4 => integer(&before, inst, [a, b, row, column], c, 4),
                _ => float(&before, inst, [a, b, row, column], c, old),
            };
            state.set_vgpr(d + place, lane, value);
        }
    }
    Ok(())
}

fn integer(state: &State, inst: &Inst, [a, b, row, column]: [u32; 4], c: u32, bits: u32) -> u32 {
    let value = |base: u32, line: u32, k: u32, n: u32| {
        let raw = i64::from(element(state, base, line, k, bits));
        if inst.mods.neg >> n & 1 != 0 && raw >> (bits - 1) != 0 { raw - (1 << bits) } else { raw }
    };
    let sum =
        (0..16).map(|k| value(a, row, k, 0) * value(b, column, k, 1)).sum::<i64>() + i64::from(c as i32);
    let sum = if inst.mods.clamp { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
    sum as u32
}

fn float(state: &State, inst: &Inst, [a, b, row, column]: [u32; 4], c: u32, old: u32) -> u32 {
    let name = inst.op.mnemonic();
    let (brain, narrow) = (name.ends_with("_bf16"), !name.starts_with("v_wmma_f32"));
    let mods = &inst.mods;
    let value = |base: u32, line: u32, k: u32, n: u32| {
        let negate = if k.is_multiple_of(2) { mods.neg } else { mods.neg_hi };
        single(element(state, base, line, k, 16), brain) ^ u64::from(negate >> n & 1) << 31
    };
    let high = narrow && mods.op_sel & 4 != 0;
    let c = match (narrow, high) {
        (false, _) => u64::from(c),
        (true, false) => single(c & 0xffff, brain),
        (true, true) => single(c >> 16, brain),
    };
    let c = if mods.neg_hi & 4 != 0 { c & 0x7fff_ffff } else { c };
    let c = c ^ u64::from(mods.neg >> 2 & 1) << 31;
    let sum =
        (0..16).fold(c, |sum, k| fma::<F32>(value(a, row, k, 0), value(b, column, k, 1), sum, Rules::IEEE));
    if !narrow {
        return sum as u32;
    }
    let result = if brain {
        convert::<F32, B16>(sum, Rules::IEEE, Rules::IEEE)
    } else {
        convert::<F32, F16>(sum, Rules::IEEE, Rules::IEEE)
    } as u32;
    if high { old & 0xffff | result << 16 } else { old & 0xffff_0000 | result }
}
