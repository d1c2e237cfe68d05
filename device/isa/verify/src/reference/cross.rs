//! Vector instructions that move values between lanes or to registers named at run time.

use belfry_isa::inst::{Inst, Op, Operand};

use super::lane::From;
use super::state::{End, State};
use super::vector::{lanes, m0};

fn register(operand: Operand) -> u32 {
    match operand {
        Operand::Vgpr(register) => u32::from(register),
        _ => 0,
    }
}

/// A source of one lane.
fn source(state: &State, operand: Operand, lane: u32) -> u32 {
    match operand {
        Operand::Vgpr(register) => state.vgpr(u32::from(register), lane),
        other => state.scalar(other),
    }
}

/// A register number that must be there.
fn there(state: &State, number: u32) -> Result<u32, End> {
    if (number as usize) < state.v.len() { Ok(number) } else { Err(End::Register) }
}

/// Runs such an instruction; `None` when `inst` is none.
pub(crate) fn run(state: &mut State, inst: &Inst) -> Option<Result<(), End>> {
    use Op::*;
    Some(match inst.op {
        V_READFIRSTLANE_B32 => {
            let lane = state.active().next().unwrap_or(0);
            let value = source(state, inst.src[0], lane);
            if let Operand::Sgpr(dst) = inst.dst {
                state.set_sgpr(dst, value);
            }
            Ok(())
        }
        V_READLANE_B32 => {
            let lane = state.scalar(inst.src[1]) & (state.lanes - 1);
            let value = source(state, inst.src[0], lane);
            if let Operand::Sgpr(dst) = inst.dst {
                state.set_sgpr(dst, value);
            }
            Ok(())
        }
        V_WRITELANE_B32 => {
            let lane = state.scalar(inst.src[1]) & (state.lanes - 1);
            let value = state.scalar(inst.src[0]);
            state.set_vgpr(register(inst.dst), lane, value);
            Ok(())
        }
        V_PERMLANE16_B32 | V_PERMLANEX16_B32 => {
            permute_rows(state, inst);
            Ok(())
        }
        V_PERMLANE16_VAR_B32 | V_PERMLANEX16_VAR_B32 => {
            permute_rows(state, inst);
            Ok(())
        }
        V_PERMLANE64_B32 => {
            if state.lanes == 64 {
                let before = state.clone();
                for lane in before.active() {
                    let value = source(&before, inst.src[0], lane ^ 32);
                    state.set_vgpr(register(inst.dst), lane, value);
                }
            }
            Ok(())
        }
        V_PERMLANE16_SWAP_B32 | V_PERMLANE32_SWAP_B32 => super::cdna4::swap_rows(state, inst),
        V_SWAP_B32 => {
            swap(state, register(inst.dst), register(inst.src[0]));
            Ok(())
        }
        V_MOVRELS_B32 | V_MOVRELD_B32 | V_MOVRELSD_B32 | V_MOVRELSD_2_B32 | V_SWAPREL_B32 => {
            relative(state, inst)
        }
        _ => return None,
    })
}

fn swap(state: &mut State, a: u32, b: u32) {
    for lane in state.active() {
        let (x, y) = (state.vgpr(a, lane), state.vgpr(b, lane));
        state.set_vgpr(a, lane, y);
        state.set_vgpr(b, lane, x);
    }
}

/// `v_permlane16`, `v_permlanex16`: each lane of a row reads the lane that sixteen numbers of four bits name, of its own
/// row or of the row beside it.
fn permute_rows(state: &mut State, inst: &Inst) {
    let before = state.clone();
    let exec = before.exec();
    let (fetch_inactive, bound) = (inst.mods.op_sel & 1 != 0, inst.mods.op_sel & 2 != 0);
    let (own, other) = match inst.op {
        Op::V_PERMLANE16_VAR_B32 => (true, false),
        Op::V_PERMLANEX16_VAR_B32 => (true, true),
        op => (false, op == Op::V_PERMLANEX16_B32),
    };
    let select = u64::from(before.scalar(inst.src[1])) | u64::from(before.scalar(inst.src[2])) << 32;
    for lane in before.active() {
        let row = if other { lane & !15 ^ 16 } else { lane & !15 };
        // Each lane's own number, or its four bits of a scalar one.
        let number = if own {
            source(&before, inst.src[1], lane) & 15
        } else {
            (select >> ((lane & 15) * 4) & 15) as u32
        };
        let from = row | number;
        let value = if fetch_inactive || exec >> from & 1 != 0 {
            source(&before, inst.src[0], from)
        } else if bound {
            0
        } else {
            continue;
        };
        state.set_vgpr(register(inst.dst), lane, value);
    }
}

/// Register numbers that `M0` adds to.
fn relative(state: &mut State, inst: &Inst) -> Result<(), End> {
    use Op::*;
    let m0 = m0(state);
    let (by_source, by_destination) = match inst.op {
        V_MOVRELS_B32 => (m0, 0),
        V_MOVRELD_B32 => (0, m0),
        V_MOVRELSD_B32 => (m0, m0),
        _ => (m0 & 0x3ff, m0 >> 16 & 0x3ff),
    };
    let dst = there(state, register(inst.dst).saturating_add(by_destination))?;
    let src = match inst.src[0] {
        Operand::Vgpr(register) => {
            Operand::Vgpr(there(state, u32::from(register).saturating_add(by_source))? as u8)
        }
        other => other,
    };
    if inst.op == V_SWAPREL_B32 {
        swap(state, dst, register(src));
        return Ok(());
    }
    let before = state.clone();
    for (lane, from) in lanes(&before, inst) {
        let value = match from {
            From::Lane(from) => source(&before, src, from),
            From::Zero => 0,
        };
        state.set_vgpr(dst, lane, value);
    }
    Ok(())
}
