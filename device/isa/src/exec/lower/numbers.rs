//! Operations whose definition without `MODE.IEEE` is another one.

use crate::inst::{Mods, Op};

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
