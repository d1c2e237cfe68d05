//! Floats of the scalar ALU: each is the vector operation of the same name in one lane, without modifiers.

use belfry_isa::inst::{Format, Inst, Mods, Op, Operand};

use super::super::lane::{From, Lane, Out, Vector};
use super::super::state::{End, State};
use super::super::{compare, flags, vector};

/// The vector operation, and the `op_sel` it has.
fn counterpart(name: &str) -> Option<(Op, u8)> {
    let name = name.strip_prefix("s_")?;
    let is_float = ["_f32", "_f16"].iter().any(|kind| name.contains(kind));
    if !is_float {
        return None;
    }
    let (name, op_sel) = match name {
        "cvt_hi_f32_f16" => ("cvt_f32_f16", 1),
        name => (name, 0),
    };
    Op::ALL.iter().find(|op| op.mnemonic().strip_prefix("v_") == Some(name)).map(|&op| (op, op_sel))
}

/// Runs a scalar float operation; `None` when `inst` is none.
pub(super) fn run(state: &mut State, inst: &Inst, name: &str) -> Option<Result<(), End>> {
    let (op, op_sel) = counterpart(name)?;
    let mut src = [inst.src[0], inst.src[1], inst.src[2]];
    if matches!(op, Op::V_FMAC_F32 | Op::V_FMAC_F16) {
        src[2] = inst.dst;
    }
    let mods = Mods { op_sel, op_sel_hi: 7, ..Mods::default() };
    let vector = Vector {
        op,
        format: Format::Vop3,
        dst: Operand::None,
        dst2: Operand::None,
        src,
        mods,
        byte: 0,
        sdwa: None,
        zeroes: false,
    };
    let l = Lane { state, vector: &vector, lane: 0, from: From::Lane(0) };
    let raised = flags::raised(&l);
    if let Some(comparison) = compare::parse(op.mnemonic()) {
        let holds = compare::run(&l, comparison);
        state.raise(raised);
        state.scc = holds;
        return Some(Ok(()));
    }
    let Some(Out::B16(value) | Out::B32(value)) = vector::value(&l) else {
        return Some(Err(End::Unknown));
    };
    state.raise(raised);
    let dst = if let Operand::Sgpr(number) = inst.dst { number } else { state.null() };
    state.set_sgpr(dst, value as u32);
    Some(Ok(()))
}
