//! A second interpreter: slow, plain, lane by lane, sharing nothing with the engine but the decoder.
//!
//! The sources are the published descriptions of the operations. The code calculates with arrays of integers,
//! `rustc_apfloat` and `dashu_float`, and follows `docs/isa-choices.md` where hardware does something that no public
//! source states.

mod atomic;
mod blocks;
mod buffer;
mod cdna4;
mod compare;
mod cross;
mod curve;
mod dot;
mod double_root;
mod exact;
mod flags;
mod float;
mod fnuz;
mod gfx9;
mod integer;
mod lane;
mod matrix;
mod memory;
mod mfma;
mod number;
mod packed;
mod reciprocal;
mod scalar;
mod scaled;
mod small;
mod spread;
pub mod state;
mod transcendental;
mod vector;

use belfry_isa::decode::decode_for;
use belfry_isa::inst::{Format, Inst, Op};

pub use state::{End, State};

/// Executes one instruction, whose address is `state.pc`.
///
/// # Errors
///
/// The end of the wave. After a fault the state is that of somewhere inside the instruction.
pub fn execute(state: &mut State, inst: &Inst) -> Result<(), End> {
    let before = state.pc;
    let facts = state.facts();
    let zeroes = facts.is_gfx9 && gfx9::zeroes(inst);
    let inst = &if facts.is_gfx9 { gfx9::indexed(state, inst)? } else { *inst };
    let mut inst =
        Inst { op: if facts.is_gfx9 { gfx9::known_as(inst.op) } else { known_as(inst.op) }, ..*inst };
    if facts.is_gfx9 && inst.op.mnemonic().starts_with("ds_cmpstore_") {
        // Here the first is the one that is compared.
        inst.src.swap(1, 2);
    }
    let inst = &inst;
    state.pc = before.wrapping_add(u64::from(inst.size));
    let done = match inst.format {
        Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => scalar::run(state, inst),
        Format::Smem => scalar::memory(state, inst),
        Format::Vop1
        | Format::Vop2
        | Format::Vopc
        | Format::Vop3
        | Format::Vop3Sd
        | Format::Vop3P
        | Format::Vopd => vector::run(state, inst, zeroes),
        Format::Ds => memory::ds(state, inst),
        Format::Flat | Format::Global | Format::Scratch => memory::flat(state, inst),
        Format::Mubuf | Format::Mtbuf => buffer::run(state, inst),
        _ => Err(End::Unknown),
    };
    if matches!(done, Err(End::Memory | End::Lds | End::Register | End::Unknown | End::Illegal)) {
        state.pc = before;
    }
    done
}

/// The older name of an operation that has got another one.
fn known_as(op: Op) -> Op {
    match op {
        Op::S_ADD_CO_U32 => Op::S_ADD_U32,
        Op::S_SUB_CO_U32 => Op::S_SUB_U32,
        Op::S_ADD_CO_I32 => Op::S_ADD_I32,
        Op::S_SUB_CO_I32 => Op::S_SUB_I32,
        Op::S_ADD_CO_CI_U32 => Op::S_ADDC_U32,
        Op::S_SUB_CO_CI_U32 => Op::S_SUBB_U32,
        Op::S_ADDK_CO_I32 => Op::S_ADDK_I32,
        Op::V_MAD_CO_U64_U32 => Op::V_MAD_U64_U32,
        Op::V_MAD_CO_I64_I32 => Op::V_MAD_I64_I32,
        op => op,
    }
}

/// Runs `code`, which lies at `base`, until it ends; `None` when it has not after `limit` instructions.
pub fn run(state: &mut State, code: &[u8], base: u64, limit: usize) -> Option<End> {
    for _ in 0..limit {
        let at = usize::try_from(state.pc.wrapping_sub(base)).unwrap_or(usize::MAX);
        let Some(rest) = code.get(at..) else { return Some(End::Illegal) };
        let Ok(inst) = decode_for(state.arch, state.wave(), rest) else { return Some(End::Illegal) };
        if let Err(end) = execute(state, &inst) {
            return Some(end);
        }
    }
    None
}
