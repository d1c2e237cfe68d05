//! `STATUS`, `TRAPSTS` and the trap bits of `MODE` as gfx12 has split them: `STATUS`, `STATE_PRIV`, `EXCP_FLAG_PRIV`,
//! `EXCP_FLAG_USER` and `TRAP_CTRL`.
//!
//! Bit positions: `SQ_WAVE_*` of linux `amdkfd/cwsr_trap_handler_gfx12.asm` and `gc_12_0_0_sh_mask.h`.

use crate::exec::di::Machine;
use crate::registers::slot;
use crate::wave::Wave;
use crate::wave::trap::{EXCP_EN_SHIFT, mode, status, trapsts};

/// `STATUS` bits that are where they were: `PRIV`, `TRAP_EN`, `EXECZ`, `VCCZ`, `IN_WG`, `VALID`.
const SAME_STATUS: u32 =
    status::PRIV | status::TRAP_EN | 1 << status::EXECZ | 1 << status::VCCZ | status::IN_TG | status::VALID;
/// `STATUS.WAVE64`.
const WAVE64: u32 = 1 << 29;
/// `STATUS.DVGPR_EN`.
const DVGPR_EN: u32 = 1 << 30;

/// `STATE_PRIV` bits.
mod state {
    pub(super) const BARRIER_COMPLETE: u32 = 1 << 2;
    pub(super) const SCC: u32 = 9;
    /// `SYS_PRIO` and `USER_PRIO`, which `STATUS` had in bits 4:1.
    pub(super) const PRIORITIES: u32 = 10;
    pub(super) const HALT: u32 = 1 << 14;
    pub(super) const SCRATCH_EN: u32 = 1 << 18;
}

/// `EXCP_FLAG_PRIV` bits and the bits of `TRAPSTS` that are the same, but for the address watches in bits 3:0.
const FLAGS: [(u32, u32); 6] = [
    (1 << 4, trapsts::MEM_VIOL),
    (1 << 5, trapsts::SAVECTX),
    (1 << 6, trapsts::ILLEGAL_INST),
    (1 << 7, trapsts::HOST_TRAP),
    (1 << 11, trapsts::TRAP_AFTER_INST),
    // `XNACK_ERROR`, by which ROCr and debuggers tell a page that is not there from an address that cannot be.
    (1 << 12, trapsts::UTC_ERROR),
];

/// `TRAP_CTRL.TRAP_AFTER_INST`; below are the math exceptions and the address watch, in the order of `EXCP_EN`.
const TRAP_AFTER_INST: u32 = 1 << 9;
const EXCEPTIONS: u32 = 0xff;

/// `STATUS`.
pub(super) fn status(w: &Wave) -> u32 {
    let size = if w.halves == 2 { WAVE64 } else { 0 };
    w.status_bits() & SAME_STATUS | size | if w.vgpr_block != 0 { DVGPR_EN } else { 0 }
}

/// `STATE_PRIV`.
pub(super) fn state_priv(w: &Wave, m: &Machine<'_>) -> u32 {
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    w.s[slot::SCC] << state::SCC
        | (w.status >> 1 & 15) << state::PRIORITIES
        | bit(w.status & status::HALT != 0, state::HALT)
        | bit(w.status & status::SCRATCH_EN != 0, state::SCRATCH_EN)
        | bit(m.lds.barriers.is_complete(w, 0), state::BARRIER_COMPLETE)
}

/// Writes the bits of `STATE_PRIV` that can be written.
pub(super) fn set_state_priv(w: &mut Wave, m: &Machine<'_>, value: u32) {
    w.s[slot::SCC] = value >> state::SCC & 1;
    w.status = w.status & !(status::HALT | 15 << 1)
        | (value >> state::PRIORITIES & 15) << 1
        | if value & state::HALT != 0 { status::HALT } else { 0 };
    m.lds.barriers.set_complete(w, 0, value & state::BARRIER_COMPLETE != 0);
}

/// `EXCP_FLAG_PRIV`.
pub(super) fn excp_flag_priv(w: &Wave) -> u32 {
    let watches =
        u32::from(w.trapsts & trapsts::ADDR_WATCH != 0) | ((w.trapsts / trapsts::ADDR_WATCH1) & 7) << 1;
    FLAGS.iter().fold(watches, |flags, (bit, same)| flags | if w.trapsts & same != 0 { *bit } else { 0 })
}

/// Writes `EXCP_FLAG_PRIV`.
pub(super) fn set_excp_flag_priv(w: &mut Wave, value: u32) {
    let all =
        FLAGS.iter().fold(trapsts::ADDR_WATCH | (7 * trapsts::ADDR_WATCH1), |all, (_, same)| all | same);
    let watches = ((value & 1) * trapsts::ADDR_WATCH) | ((value >> 1 & 7) * trapsts::ADDR_WATCH1);
    let flags =
        FLAGS.iter().fold(watches, |flags, (bit, same)| flags | if value & bit != 0 { *same } else { 0 });
    w.trapsts = w.trapsts & !all | flags;
}

/// `TRAP_CTRL`.
pub(super) fn trap_ctrl(w: &Wave) -> u32 {
    let step = if w.mode & mode::TRAP_AFTER_INST_EN != 0 { TRAP_AFTER_INST } else { 0 };
    w.mode >> EXCP_EN_SHIFT & EXCEPTIONS | step
}

/// Returns the internal `MODE` with another `TRAP_CTRL`.
pub(super) fn with_trap_ctrl(w: &Wave, value: u32) -> u32 {
    let step = if value & TRAP_AFTER_INST != 0 { mode::TRAP_AFTER_INST_EN } else { 0 };
    w.mode & !w.file.trap_mode | (value & EXCEPTIONS) << EXCP_EN_SHIFT | step
}
