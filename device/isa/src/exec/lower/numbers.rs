//! Operations whose definition without `MODE.IEEE` is another one, and constants that some take in another format.

use crate::exec::vector::op::Format;
use crate::inst::{Mods, Op, Operand};

/// Minima and maxima without `MODE.IEEE`: a number wins over signalling NaNs, too.
pub(super) fn of_numbers(op: Op) -> Option<Op> {
    Some(match op {
        Op::V_MIN_F16 => Op::V_MIN_NUM_F16,
        Op::V_MAX_F16 => Op::V_MAX_NUM_F16,
        Op::V_MIN3_F16 => Op::V_MIN3_NUM_F16,
        Op::V_MAX3_F16 => Op::V_MAX3_NUM_F16,
        Op::V_MED3_F16 => Op::V_MED3_NUM_F16,
        Op::V_MAXMIN_F16 => Op::V_MAXMIN_NUM_F16,
        Op::V_MINMAX_F16 => Op::V_MINMAX_NUM_F16,
        Op::V_MIN_F32 => Op::V_MIN_NUM_F32,
        Op::V_MAX_F32 => Op::V_MAX_NUM_F32,
        Op::V_MIN3_F32 => Op::V_MIN3_NUM_F32,
        Op::V_MAX3_F32 => Op::V_MAX3_NUM_F32,
        Op::V_MED3_F32 => Op::V_MED3_NUM_F32,
        Op::V_MAXMIN_F32 => Op::V_MAXMIN_NUM_F32,
        Op::V_MINMAX_F32 => Op::V_MINMAX_NUM_F32,
        Op::V_MIN_F64 => Op::V_MIN_NUM_F64,
        Op::V_MAX_F64 => Op::V_MAX_NUM_F64,
        Op::V_PK_MIN_F16 => Op::V_PK_MIN_NUM_F16,
        Op::V_PK_MAX_F16 => Op::V_PK_MAX_NUM_F16,
        _ => return None,
    })
}

/// A difference as the sum with the other sign of what is subtracted, of which a signalling NaN may be the result.
pub(super) fn as_sum(op: Op, mods: &mut Mods) -> Op {
    let (sum, source) = match op {
        Op::V_SUB_F16 => (Op::V_ADD_F16, 1),
        Op::V_SUBREV_F16 => (Op::V_ADD_F16, 0),
        Op::V_SUB_F32 => (Op::V_ADD_F32, 1),
        Op::V_SUBREV_F32 => (Op::V_ADD_F32, 0),
        _ => return op,
    };
    mods.neg ^= 1 << source;
    sum
}

/// Source `n`: a floating-point constant among 16-bit floats is one of that format, in the low half.
pub(super) fn half_constant(op: Op, n: usize, operand: Operand) -> Operand {
    let Operand::InlineFloat(value) = operand else { return operand };
    match op {
        // These add to a single.
        Op::V_DOT2_F32_F16
        | Op::V_DOT2_F32_BF16
        | Op::V_DOT2ACC_F32_F16
        | Op::V_DOT2ACC_F32_BF16
        | Op::V_DOT2C_F32_F16
            if n == 2 =>
        {
            operand
        }
        Op::V_DOT2_F32_F16
        | Op::V_DOT2_F16_F16
        | Op::V_DOT2ACC_F32_F16
        | Op::V_DOT2C_F32_F16
        | Op::V_WMMA_F16_16X16X16_F16 => Operand::Literal(value.f16_bits().into()),
        Op::V_DOT2_F32_BF16
        | Op::V_DOT2_BF16_BF16
        | Op::V_DOT2ACC_F32_BF16
        | Op::V_WMMA_BF16_16X16X16_BF16 => Operand::Literal(value.bf16_bits().into()),
        _ => operand,
    }
}

/// Bits of a number.
pub(super) fn bits_of(format: Format) -> u32 {
    match format {
        Format::F16 => 16,
        Format::Bits | Format::F32 => 32,
        Format::F64 => 64,
    }
}
