//! Hardware registers: `s_getreg_b32` and `s_setreg_b32`.
//!
//! `aux` is the [`HardwareRegister`], `imm` what the instruction says of its bits. Fields: `SQ_WAVE_*` as linux
//! `amdkfd/cwsr_trap_handler_gfx10.asm` (gfx11) and `cwsr_trap_handler_gfx12.asm` read them. A wave is kept in the fields of
//! gfx11; the registers of gfx12 that hold the same elsewhere are in [`split`].

mod split;

use super::control::{set_mode, shader_clock};
use crate::exec::Stop;
use crate::exec::di::{Di, Flow, Machine};
use crate::registers::HardwareRegister::{
    self, DvgprAlloc, ExcpFlagPriv, ExcpFlagUser, FlatScratchHigh, FlatScratchLow, GprAlloc, HwId, HwId1,
    HwId2, IbSts, IbSts2, LdsAlloc, Mode, PerfSnapshot, SchedMode, ShMemBases, ShaderCycles,
    ShaderCyclesHigh, ShaderCyclesLow, StatePriv, Status, TbaHigh, TbaLow, TmaHigh, TmaLow, TrapCtrl,
    TrapSts, WaveStatus, XccId,
};
use crate::registers::slot;
use crate::wave::Wave;
use crate::wave::trap::{status, trapsts};

/// `GPR_ALLOC.VGPR_SIZE`: blocks of four registers, minus one.
const VGPR_SIZE_SHIFT: u32 = 12;
/// `LDS_ALLOC.LDS_SIZE`: units of [`RegisterFile::lds_unit`](crate::registers::RegisterFile::lds_unit).
const LDS_SIZE_SHIFT: u32 = 12;
/// `LDS_ALLOC.VGPR_SHARED_SIZE`: units of eight registers.
const VGPR_SHARED_SIZE_SHIFT: u32 = 24;
/// `IB_STS2.WAVE64`.
const WAVE64: u32 = 1 << 11;
/// Register number of a `hwreg` immediate.
pub(crate) fn number(imm: u32) -> u32 {
    imm & 63
}

/// First bit and bit count of a `hwreg` immediate.
fn field(imm: u32) -> (u32, u32) {
    (imm >> 6 & 31, (imm >> 11 & 31) + 1)
}

fn low_bits(count: u32) -> u32 {
    u32::MAX >> (32 - count)
}

/// `TRAPSTS` as the architecture has it.
fn trapsts_of(w: &Wave) -> u32 {
    let moved = w.file.moved_trapsts;
    let kept = moved.iter().fold(w.trapsts, |bits, (_, kept)| bits & !(1 << kept));
    moved.iter().fold(kept, |bits, (own, kept)| bits | (w.trapsts >> kept & 1) << own)
}

/// Returns the internal form of a `TRAPSTS` value of the architecture.
fn trapsts_from(w: &Wave, value: u32) -> u32 {
    let moved = w.file.moved_trapsts;
    let kept = moved.iter().fold(value, |bits, (own, kept)| bits & !(1 << kept | 1 << own));
    moved.iter().fold(kept, |bits, (own, kept)| bits | (value >> own & 1) << kept)
}

/// `s_getreg_b32`.
pub(crate) fn getreg(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let Some(register) = HardwareRegister::from_number(d.aux) else { return Flow::NEXT };
    let (offset, count) = field(d.imm);
    let value = match register {
        Mode => w.mode & !(w.file.implied_mode | w.file.trap_mode),
        Status => w.status_bits(),
        TrapSts => trapsts_of(w),
        HwId => w.hw_id[0],
        XccId => w.hw_id[1],
        // Addresses of 256 bytes.
        TbaLow => (w.handler.tba >> 8) as u32,
        TbaHigh => (w.handler.tba >> 40) as u32,
        TmaLow => (w.handler.tma >> 8) as u32,
        TmaHigh => (w.handler.tma >> 40) as u32,
        // Blocks of eight registers, and where the accumulation registers begin in blocks of four.
        GprAlloc if w.file.unified.is_some() => {
            let block = |count: u16, size: u16| u32::from(count.div_ceil(size).max(1) - 1);
            block(w.vgpr_count, 8) << 6 | block(w.accumulators_from, 4) << 12
        }
        GprAlloc => (w.vgpr_blocks() - 1) << VGPR_SIZE_SHIFT,
        LdsAlloc => {
            m.lds.size().div_ceil(w.file.lds_unit) << LDS_SIZE_SHIFT
                | (u32::from(w.registers - w.vgpr_count) / 8) << VGPR_SHARED_SIZE_SHIFT
        }
        // Counters of outstanding operations: each instruction is over before the next begins.
        IbSts => 0,
        WaveStatus => split::status(w),
        StatePriv => split::state_priv(w, m),
        ExcpFlagPriv => split::excp_flag_priv(w),
        ExcpFlagUser => w.trapsts & trapsts::MATH,
        TrapCtrl => split::trap_ctrl(w),
        // Instructions are done in order, for any value of it.
        SchedMode | PerfSnapshot => 0,
        // Place of the blocks of a wave that allocates them, in the memory of the SIMD, as `VGPR_BASE` is for other
        // waves.
        DvgprAlloc => 0,
        ShaderCyclesLow => shader_clock(w, m) as u32,
        ShaderCyclesHigh => (shader_clock(w, m) >> 32) as u32,
        ShMemBases => (m.apertures.private_base >> 48) as u32 | (m.apertures.shared_base >> 48 << 16) as u32,
        FlatScratchLow => w.scratch_base as u32,
        FlatScratchHigh => (w.scratch_base >> 32) as u32,
        HwId1 => w.hw_id[0],
        HwId2 => w.hw_id[1],
        IbSts2 => u32::from(w.halves == 2) * WAVE64,
        // Twenty bits of a clock: instructions executed do not advance it in the middle of a run, time does.
        ShaderCycles => shader_clock(w, m) as u32 & 0xf_ffff,
    };
    w.s[d.dst as usize & 255] = value >> offset & low_bits(count);
    Flow::NEXT
}

/// `s_setreg_b32` (source `src[0]`) and `s_setreg_imm32_b32` (a constant).
pub(crate) fn setreg(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let Some(register) = HardwareRegister::from_number(d.aux) else { return Flow::NEXT };
    let (offset, count) = field(d.imm);
    let mask = low_bits(count) << offset;
    let value = d.src[0].scalar(w) << offset & mask;
    let insert = |old: u32| old & !mask | value;
    match register {
        Mode => {
            let mode = insert(w.mode) & w.file.mode | w.mode & (w.file.implied_mode | w.file.trap_mode);
            let flow = set_mode(w, mode, d);
            // The wave's next instruction is one that it enters its handler after.
            return if flow == Flow::LEAVE && w.steps() { m.stop_here(Stop::Budget) } else { flow };
        }
        // Only the trap handler may, and not everything.
        Status if w.is_privileged() => {
            let new = insert(w.status_bits());
            w.status = w.status & !status::WRITABLE | new & status::WRITABLE & !1;
            w.s[slot::SCC] = new & 1;
        }
        StatePriv if w.is_privileged() => {
            let new = insert(split::state_priv(w, m));
            split::set_state_priv(w, m, new);
        }
        ExcpFlagPriv if w.is_privileged() => {
            let new = insert(split::excp_flag_priv(w));
            split::set_excp_flag_priv(w, new);
        }
        ExcpFlagUser => {
            w.trapsts = w.trapsts & !trapsts::MATH | insert(w.trapsts & trapsts::MATH) & trapsts::MATH;
        }
        TrapCtrl => {
            let mode = split::with_trap_ctrl(w, insert(split::trap_ctrl(w)));
            let flow = set_mode(w, mode, d);
            return if flow == Flow::LEAVE && w.steps() { m.stop_here(Stop::Budget) } else { flow };
        }
        TrapSts => w.trapsts = trapsts_from(w, insert(trapsts_of(w))) & trapsts::ALL,
        FlatScratchLow => {
            w.scratch_base = w.scratch_base & !0xffff_ffff | u64::from(insert(w.scratch_base as u32));
        }
        FlatScratchHigh => {
            w.scratch_base =
                w.scratch_base & 0xffff_ffff | u64::from(insert((w.scratch_base >> 32) as u32)) << 32;
        }
        _ => {}
    }
    Flow::NEXT
}
