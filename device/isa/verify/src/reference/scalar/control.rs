//! Branches, waits, and hardware registers.

use belfry_isa::inst::{Inst, Op, Operand};

use super::super::gfx9;
use super::super::state::{EXEC, End, PRIVATE, SHARED, State, VCC};
use super::relative;
use crate::target::Facts;

/// Branches, waits and other instructions that change the program counter or `MODE`.
pub(super) fn run(state: &mut State, inst: &Inst, a64: u64, dst: u8, k: i32) -> Result<(), End> {
    use Op::*;
    if gfx9::set_index(state, inst) {
        return Ok(());
    }
    let target = state.pc.wrapping_add_signed(i64::from(k) * 4);
    let taken = match inst.op {
        S_NOP
        | S_CLAUSE
        | S_DELAY_ALU
        | S_WAITCNT
        | S_WAITCNT_DEPCTR
        | S_WAIT_IDLE
        | S_WAIT_ALU
        | S_WAIT_LOADCNT
        | S_WAIT_STORECNT
        | S_WAIT_SAMPLECNT
        | S_WAIT_BVHCNT
        | S_WAIT_EXPCNT
        | S_WAIT_DSCNT
        | S_WAIT_KMCNT
        | S_WAIT_LOADCNT_DSCNT
        | S_WAIT_STORECNT_DSCNT
        | S_WAIT_EVENT
        | S_SETPRIO
        | S_SET_INST_PREFETCH_DISTANCE
        | S_ICACHE_INV
        | S_INCPERFLEVEL
        | S_DECPERFLEVEL
        | S_TTRACEDATA
        | S_TTRACEDATA_IMM
        | S_CBRANCH_CDBGSYS
        | S_CBRANCH_CDBGUSER
        | S_CBRANCH_CDBGSYS_AND_USER
        | S_CBRANCH_CDBGSYS_OR_USER
        | S_WAKEUP => false,
        // The wave is alone, and keeps the registers that it has.
        S_BARRIER_SIGNAL if has_barrier(state, inst) => false,
        S_BARRIER_SIGNAL_ISFIRST if has_barrier(state, inst) => {
            state.scc = false;
            false
        }
        S_ALLOC_VGPR if state.lanes == 32 => false,
        S_BRANCH => true,
        S_CBRANCH_SCC0 => !state.scc,
        S_CBRANCH_SCC1 => state.scc,
        S_CBRANCH_VCCZ => state.mask(VCC) == 0,
        S_CBRANCH_VCCNZ => state.mask(VCC) != 0,
        S_CBRANCH_EXECZ => state.exec() == 0,
        S_CBRANCH_EXECNZ => state.exec() != 0,
        S_ENDPGM | S_ENDPGM_SAVED => return Err(End::Done),
        S_ROUND_MODE => {
            state.mode = state.mode & !0xf | inst.imm & 0xf;
            false
        }
        S_DENORM_MODE => {
            state.mode = state.mode & !0xf0 | (inst.imm & 0xf) << 4;
            false
        }
        S_RFE_B64 | S_SETPC_B64 => {
            state.pc = a64 & !3;
            false
        }
        S_SWAPPC_B64 => {
            state.set_pair(dst, state.pc);
            state.pc = a64 & !3;
            false
        }
        S_CALL_B64 => {
            state.set_pair(dst, state.pc);
            true
        }
        S_BARRIER => return Err(End::Stop("Barrier".to_owned())),
        S_SLEEP | S_SLEEP_VAR => return Err(End::Stop("Sleep".to_owned())),
        S_SENDMSG_RTN_B32 | S_SENDMSG_RTN_B64 if inst.imm == 131 => {
            // The real-time clock, which stands still.
            if inst.op == S_SENDMSG_RTN_B32 {
                state.set_sgpr(dst, 0);
            } else {
                state.set_pair(dst, 0);
            }
            false
        }
        S_SUBVECTOR_LOOP_BEGIN => {
            let (low, high) = (state.sgpr(EXEC), state.sgpr(EXEC + 1));
            if low == 0 && high == 0 {
                true
            } else {
                if low == 0 {
                    state.set_sgpr(dst, low);
                } else {
                    state.set_sgpr(dst, high);
                    state.set_sgpr(EXEC + 1, 0);
                }
                false
            }
        }
        S_SUBVECTOR_LOOP_END => {
            let (low, high, kept) = (state.sgpr(EXEC), state.sgpr(EXEC + 1), state.sgpr(dst));
            if high != 0 {
                state.set_sgpr(EXEC, kept);
                false
            } else if kept == 0 {
                false
            } else {
                state.set_sgpr(EXEC + 1, kept);
                state.set_sgpr(dst, low);
                state.set_sgpr(EXEC, 0);
                true
            }
        }
        S_MOVRELD_B32 | S_MOVRELD_B64 | S_MOVRELSD_2_B32 => {
            let Operand::Sgpr(to) = inst.dst else { return Err(End::Unknown) };
            let m0 = state.m0();
            if inst.op == S_MOVRELSD_2_B32 {
                let Operand::Sgpr(from) = inst.src[0] else { return Err(End::Unknown) };
                let value = relative(state, from, m0 & 0x3ff).map_or(0, |from| state.sgpr(from));
                if let Some(to) = relative(state, to, m0 >> 16 & 0x3ff) {
                    state.set_sgpr(to, value);
                }
            } else if let Some(to) = relative(state, to, m0) {
                if inst.op == S_MOVRELD_B32 {
                    state.set_sgpr(to, state.scalar(inst.src[0]));
                } else if u32::from(to) + 1 < super::registers(state) {
                    state.set_pair(to, a64);
                }
            }
            false
        }
        S_GETREG_B32 | S_SETREG_B32 | S_SETREG_IMM32_B32 => {
            let (id, offset, width) = (inst.imm & 63, inst.imm >> 6 & 31, (inst.imm >> 11 & 31) + 1);
            if offset + width > 32 {
                return Err(End::Unknown);
            }
            let mask = (((1u64 << width) - 1) << offset) as u32;
            let value = state.scalar(inst.src[0]);
            let insert = |old: u32| old & !mask | value << offset & mask;
            let facts = Facts::of(state.arch);
            if inst.op == S_GETREG_B32 {
                let value = hardware_register(state, id).ok_or(End::Unknown)?;
                state.set_sgpr(dst, (value & mask) >> offset);
            } else if id == 1 {
                // Bits that the register does not have stay as they behave.
                let there = Facts::of(state.arch).mode;
                state.mode = insert(state.mode) & there | state.mode & !there;
            } else if id == Facts::of(state.arch).exceptions && id == 18 {
                state.trapsts = state.trapsts.map(|old| insert(old) & 0x7f);
            } else if id == Facts::of(state.arch).exceptions {
                // Bits 8:0, 15:10, 20:16 and 28 are there; of GFX9 bits 22 and 25 in place of 16 and 20.
                state.trapsts = state.trapsts.map(|old| {
                    let new =
                        if facts.is_gfx9 { kept_trapsts(insert(shown_trapsts(old))) } else { insert(old) };
                    new & 0x101f_fdff
                });
            } else {
                return Err(End::Unknown);
            }
            false
        }
        _ => return Err(End::Unknown),
    };
    if taken {
        state.pc = target;
    }
    Ok(())
}

/// `M0`, where an instruction may have the number of a barrier.
const M0: u8 = 125;

/// Returns true if there is a barrier of the number that an instruction names: of those without a name, -2, -1 and 0,
/// there is.
fn has_barrier(state: &State, inst: &Inst) -> bool {
    match inst.src[0] {
        Operand::InlineInt(number) => (-2..=0).contains(&number),
        Operand::Sgpr(M0) => state.m0().is_multiple_of(32),
        _ => false,
    }
}

/// `TRAPSTS` as GFX9 shows it: `HOST_TRAP` and `TRAP_AFTER_INST` are in other bits.
fn shown_trapsts(kept: u32) -> u32 {
    kept & !(1 << 16 | 1 << 20) | (kept >> 16 & 1) << 22 | (kept >> 20 & 1) << 25
}

/// The other way.
fn kept_trapsts(shown: u32) -> u32 {
    shown & !(1 << 16 | 1 << 20 | 1 << 22 | 1 << 25) | (shown >> 22 & 1) << 16 | (shown >> 25 & 1) << 20
}

/// Returns the value that a hardware register reads as; `None` if it is not known.
fn hardware_register(state: &State, id: u32) -> Option<u32> {
    const VALID: u32 = 1 << 16;
    const SCRATCH_EN: u32 = 1 << 29;
    let facts = Facts::of(state.arch);
    if !facts.hardware.contains(&id) && id != facts.exceptions && id != 1 {
        return None;
    }
    if facts.splits_status {
        let zero = |register: u8, bit: u32| u32::from(state.mask(register) == 0) << bit;
        match id {
            2 => return Some(zero(EXEC, 9) | zero(VCC, 10) | VALID | u32::from(state.lanes == 64) << 29),
            // `STATE_PRIV`: SCC and `SCRATCH_EN`.
            4 => return Some(u32::from(state.scc) << 9 | 1 << 18),
            6 => return Some((state.lds.len() as u32 / 512) << 12),
            // `EXCP_FLAG_PRIV`, `SCHED_MODE`, and the high half of a clock that stands.
            17 | 26 | 30 => return Some(0),
            18 => return Some(state.trapsts? & 0x7f),
            19 => return Some(state.mode >> 12 & 0xff),
            _ => {}
        }
    }
    Some(match id {
        1 => state.mode & facts.mode,
        2 => {
            let zero = |register: u8, bit: u32| u32::from(state.mask(register) == 0) << bit;
            u32::from(state.scc) | zero(EXEC, 9) | zero(VCC, 10) | VALID | SCRATCH_EN
        }
        3 if facts.is_gfx9 => shown_trapsts(state.trapsts?),
        3 => state.trapsts?,
        4 | 16..=20 if facts.is_gfx9 => 0,
        5 if facts.is_gfx9 => {
            let own = (state.v.len() - facts.accumulators) as u32;
            (state.v.len() as u32 / 8 - 1) << 6 | (own / 4 - 1) << 12
        }
        6 if facts.is_gfx9 => (state.lds.len() as u32 / 512) << 12,
        // Vector registers in units of four, minus one.
        5 => (state.v.len() as u32 / 4 - 1) << 12,
        // LDS in units of 256 bytes.
        6 => (state.lds.len() as u32 / 256) << 12,
        15 => (PRIVATE >> 48 | SHARED >> 48 << 16) as u32,
        20 => state.scratch as u32,
        21 => (state.scratch >> 32) as u32,
        28 => u32::from(state.lanes == 64) << 11,
        // Nothing is outstanding, the first place of everything, and a clock that stands.
        7 | 23 | 24 | 29 => 0,
        _ => return None,
    })
}
