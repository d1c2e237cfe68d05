//! Program control: branches, waits, messages.

use crate::exec::Stop;
use crate::exec::di::{Di, Flow, Machine};
use crate::registers::{message, slot};
use crate::wave::Wave;
use crate::wave::trap::{EXCP_EN, status};

/// Goes to the target: inside the region when `aux` is 0, else the address in `dst2:dst`.
#[inline(always)]
fn take(w: &mut Wave, d: &Di) -> Flow {
    if d.aux == 0 {
        Flow::to(d.imm)
    } else {
        w.pc = u64::from(d.dst) | u64::from(d.dst2) << 32;
        Flow::LEAVE
    }
}

macro_rules! branches {
    ($($(#[$doc:meta])* $name:ident: |$w:ident| $condition:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name($w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
            if $condition { take($w, d) } else { Flow::NEXT }
        }
    )*};
}

branches! {
    /// `s_branch`, and the end of a region.
    branch: |w| true;
    branch_scc0: |w| w.s[slot::SCC] == 0;
    branch_scc1: |w| w.s[slot::SCC] != 0;
    branch_vccz: |w| w.mask(slot::VCC) == 0;
    branch_vccnz: |w| w.mask(slot::VCC) != 0;
    branch_execz: |w| w.mask(slot::EXEC) == 0;
    branch_half_loop: |w| w.s[HALF_LOOP] != 0;
    branch_execnz: |w| w.mask(slot::EXEC) != 0;
}

/// Sets the values of `src_vccz` and `src_execz`, before an instruction that names one.
pub(crate) fn refresh_flags(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    w.s[slot::VCCZ] = u32::from(w.mask(slot::VCC) == 0);
    w.s[slot::EXECZ] = u32::from(w.mask(slot::EXEC) == 0);
    Flow::NEXT
}

/// First of the two registers [`refresh_wide_flags`] puts `src_scc` in: numbers no instruction writes.
pub(crate) const WIDE_SCC: usize = 242;
/// As [`WIDE_SCC`], of `src_vccz`.
pub(crate) const WIDE_VCCZ: usize = 244;
/// As [`WIDE_SCC`], of `src_execz`.
pub(crate) const WIDE_EXECZ: usize = 246;
/// Two registers that are 0: no instruction writes them.
pub(crate) const ZERO: usize = 232;

/// First of two registers [`copy_exec`] copies EXEC to.
pub(crate) const EXEC_COPY: usize = 228;
/// The register [`copy_exec`] puts what `src_execz` reads as in.
pub(crate) const EXECZ_COPY: usize = 230;

/// Keeps EXEC, before an instruction that changes it and reads it as an operand.
pub(crate) fn copy_exec(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    w.set_pair(EXEC_COPY, w.pair(slot::EXEC));
    w.s[EXECZ_COPY] = u32::from(w.mask(slot::EXEC) == 0);
    Flow::NEXT
}

/// Sets the 64-bit values of the one-bit sources, before an instruction that reads them.
pub(crate) fn refresh_wide_flags(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    w.set_pair(WIDE_SCC, u64::from(w.s[slot::SCC]));
    w.set_pair(WIDE_VCCZ, u64::from(w.mask(slot::VCC) == 0));
    w.set_pair(WIDE_EXECZ, u64::from(w.mask(slot::EXEC) == 0));
    Flow::NEXT
}

/// First of the two registers [`refresh_limits`] puts `src_shared_limit` in: numbers no instruction writes.
pub(crate) const SHARED_LIMIT: usize = 236;
/// As [`SHARED_LIMIT`], of `src_private_limit`.
pub(crate) const PRIVATE_LIMIT: usize = 238;

/// Sets the values of the aperture limits, before an instruction that names one.
pub(crate) fn refresh_limits(w: &mut Wave, m: &mut Machine<'_>, _d: &Di) -> Flow {
    w.set_pair(SHARED_LIMIT, m.apertures.shared_base | 0xffff_ffff);
    w.set_pair(PRIVATE_LIMIT, m.apertures.private_base | 0xffff_ffff);
    Flow::NEXT
}

/// Register in which the preparations of [`branch_half_loop`] leave 1 if it is to branch.
const HALF_LOOP: usize = 240;

/// `s_subvector_loop_begin`: the low half first, when it has lanes; `dst` keeps the other half's mask.
pub(crate) fn half_loop_begin(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let [low, high] = [w.s[slot::EXEC], w.s[slot::EXEC + 1]];
    w.s[HALF_LOOP] = u32::from(low | high == 0);
    if low != 0 {
        w.s[d.dst as usize & 255] = high;
        w.s[slot::EXEC + 1] = 0;
    } else if high != 0 {
        w.s[d.dst as usize & 255] = low;
    }
    Flow::NEXT
}

/// `s_subvector_loop_end`: the high half after the low one, then EXEC as it was.
pub(crate) fn half_loop_end(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let kept = w.s[d.dst as usize & 255];
    w.s[HALF_LOOP] = 0;
    if w.s[slot::EXEC + 1] != 0 {
        w.s[slot::EXEC] = kept;
    } else if kept != 0 {
        w.s[HALF_LOOP] = 1;
        w.s[slot::EXEC + 1] = kept;
        w.s[d.dst as usize & 255] = w.s[slot::EXEC];
        w.s[slot::EXEC] = 0;
    }
    Flow::NEXT
}

/// `s_rfe_b64`: back from the trap handler; the bits above the address are the trap's, not the address's.
pub(crate) fn rfe(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.pc = d.src[0].scalar64(w) & 0xffff_ffff_fffc;
    w.status &= !status::PRIV;
    match () {
        () if w.is_halted() => m.stop_here(Stop::Halt),
        // The next instruction may be one that it enters its handler after.
        () if w.stops_at_return || w.steps() => m.stop_here(Stop::TrapReturn),
        () => Flow::LEAVE,
    }
}

/// `s_setpc_b64`.
pub(crate) fn setpc(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    w.pc = d.src[0].scalar64(w) & !3;
    Flow::LEAVE
}

/// `s_setpc_b64` where it may end a restore. If traps are not enabled, Linux's handler leaves by it and not by `s_rfe_b64`
/// (`cwsr_trap_handler_gfx10.asm`, `L_RESTORE_HWREG`): the wave is out of its handler. It keeps `PRIV` on hardware, to enter the
/// handler again for the next save; here a save takes any wave there.
pub(crate) fn setpc_or_return(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    if w.status & (status::PRIV | status::TRAP_EN) == status::PRIV { rfe(w, m, d) } else { setpc(w, m, d) }
}

/// `s_swappc_b64`: the return address is the 64-bit constant `src[1]`, `src[2]`.
pub(crate) fn swappc(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    w.pc = d.src[0].scalar64(w) & !3;
    set_constant(w, d);
    Flow::LEAVE
}

/// `s_getpc_b64`, and the first half of `s_call_b64`: `src[1]`, `src[2]` to the destination pair.
pub(crate) fn getpc(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    set_constant(w, d);
    Flow::NEXT
}

fn set_constant(w: &mut Wave, d: &Di) {
    w.set_pair(d.dst as usize, u64::from(d.src[1].value) | u64::from(d.src[2].value) << 32);
}

/// `s_endpgm`.
pub(crate) fn endpgm(_w: &mut Wave, m: &mut Machine<'_>, _d: &Di) -> Flow {
    m.stop(Stop::EndProgram)
}

/// `s_endpgm_saved`: the end of a context save, or of the program.
pub(crate) fn endpgm_saved(w: &mut Wave, m: &mut Machine<'_>, _d: &Di) -> Flow {
    m.stop(if w.context_slot.is_some() { Stop::Saved } else { Stop::EndProgram })
}

/// `s_barrier` at the address in `dst2:dst`.
pub(crate) fn barrier(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.stopped_at = u64::from(d.dst) | u64::from(d.dst2) << 32;
    w.is_at_barrier();
    m.stop(Stop::Barrier)
}

/// `s_icache_inv`: code is fetched again, from the address in `dst2:dst` on.
pub(crate) fn icache_inv(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    m.refetch = true;
    w.pc = u64::from(d.dst) | u64::from(d.dst2) << 32;
    Flow::LEAVE
}

/// `s_sleep`.
pub(crate) fn sleep(_w: &mut Wave, m: &mut Machine<'_>, _d: &Di) -> Flow {
    m.stop(Stop::Sleep)
}

/// `s_sethalt`: in the trap handler the wave halts when it returns from it.
pub(crate) fn halt(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.status = w.status & !status::HALT | if d.imm & 1 != 0 { status::HALT } else { 0 };
    if w.is_halted() { m.stop(Stop::Halt) } else { Flow::NEXT }
}

/// `s_trap` at the address in `dst2:dst`.
pub(crate) fn trap(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.stopped_at = u64::from(d.dst) | u64::from(d.dst2) << 32;
    m.stop(Stop::Trap((d.imm & 255) as u8))
}

/// `s_sendmsg` and, when `aux` is 1, `s_sendmsghalt`: the next run finds the wave halted.
pub(crate) fn sendmsg(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    w.status |= if d.aux == 1 { status::HALT } else { 0 };
    m.stop(Stop::Message { id: (d.imm & 0xffff) as u16, m0: w.s[slot::M0] })
}

/// `SE_ID` of `HW_ID1`: first bit, and mask. The answer has it in its low bits and the XCC, of which there is one, from bit 16 on.
/// Source: HIP, `amd_device_functions.h` (`__smid`).
const SHADER_ENGINE: (u32, u32) = (18, 7);

/// Ticks of the shader's clock, for those of the constant one of 100 MHz.
pub(crate) fn shader_clock(w: &Wave, m: &Machine<'_>) -> u64 {
    let ticks = u128::from((m.clock)()) * u128::from(w.file.shader_mhz) / 100;
    ticks as u64
}

/// `s_memtime`.
pub(crate) fn memtime(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let clock = shader_clock(w, m);
    w.set_pair(d.dst as usize, clock);
    Flow::NEXT
}

/// `s_sendmsg_rtn_b32` and, when `aux` is 64, `s_sendmsg_rtn_b64`.
pub(crate) fn sendmsg_rtn(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let answer = match d.imm {
        message::GET_DOORBELL => u64::from(w.doorbell),
        message::GET_TMA => w.handler.tma,
        message::GET_TBA => w.handler.tba,
        message::GET_REALTIME => (m.clock)(),
        // Where to save to, for a wave that is asked to.
        message::SAVE_WAVE => w.context_slot.unwrap_or(0),
        message::GET_SE_AID_ID => u64::from(w.hw_id[0] >> SHADER_ENGINE.0 & SHADER_ENGINE.1),
        // The draw: there is none.
        _ => 0,
    };
    if d.aux == 64 {
        w.set_pair(d.dst as usize, answer);
    } else {
        w.s[d.dst as usize & 255] = answer as u32;
    }
    Flow::NEXT
}

/// `s_sendmsg` of messages that are answered in EXEC.
pub(crate) mod exec_message {
    pub(crate) const SAVEWAVE: u32 = 4;
    pub(crate) const GET_DOORBELL: u32 = 10;
}

/// `s_sendmsg` of [`exec_message`]s: where to save to, for a wave that is asked to, or the doorbell in the low half.
pub(crate) fn answer_in_exec(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    if d.imm & 15 == exec_message::SAVEWAVE {
        w.set_pair(slot::EXEC, w.context_slot.unwrap_or(0));
    } else {
        w.s[slot::EXEC] = w.doorbell;
    }
    Flow::NEXT
}

/// Follows an instruction that has written the registers of `FLAT_SCRATCH`.
pub(crate) fn take_scratch(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    w.scratch_base = w.pair(slot::FLAT_SCRATCH);
    Flow::NEXT
}

/// Follows a comparison that writes EXEC besides the mask in the registers `dst`.
pub(crate) fn copy_to_exec(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    w.set_pair(slot::EXEC, w.pair(d.dst as usize));
    Flow::NEXT
}

/// `s_round_mode`: `MODE` bits 3:0.
pub(crate) fn round_mode(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    set_mode(w, w.mode & !0xf | d.imm & 0xf, d)
}

/// `s_denorm_mode`: `MODE` bits 7:4.
pub(crate) fn denorm_mode(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    set_mode(w, w.mode & !0xf0 | (d.imm & 0xf) << 4, d)
}

/// Code is lowered for a mode: go on in code lowered for the new one, at the address in `dst2:dst`.
pub(crate) fn set_mode(w: &mut Wave, mode: u32, d: &Di) -> Flow {
    let changed = w.mode != mode;
    w.mode = mode;
    w.watched |= mode & EXCP_EN != 0;
    if changed {
        w.pc = u64::from(d.dst) | u64::from(d.dst2) << 32;
        Flow::LEAVE
    } else {
        Flow::NEXT
    }
}

/// Precedes an instruction that looks for writes of other waves.
pub(crate) fn look(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    w.looked = true;
    Flow::NEXT
}

/// An instruction that cannot be executed.
pub(crate) fn raise(_w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    Flow::RAISE
}
