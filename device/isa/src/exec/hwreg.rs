//! Hardware registers: `s_getreg_b32` and `s_setreg_b32`.
//!
//! `aux` is the [`HardwareRegister`], `imm` what the instruction says of its bits. Fields: `SQ_WAVE_*` of gfx11, as linux `amdkfd/cwsr_trap_handler_gfx10.asm`
//! reads them.

use super::Stop;
use super::control::{mask, set_mode};
use super::di::{Di, Flow, Machine};
use crate::registers::HardwareRegister::{
    self, FlatScratchHigh, FlatScratchLow, GprAlloc, HwId1, HwId2, IbSts, IbSts2, LdsAlloc, Mode, ShMemBases,
    ShaderCycles, Status, TrapSts,
};
use crate::registers::slot;
use crate::trap::{status, trapsts};
use crate::wave::Wave;

/// `GPR_ALLOC.VGPR_SIZE`: blocks of four registers, minus one.
const VGPR_SIZE_SHIFT: u32 = 12;
/// `LDS_ALLOC.LDS_SIZE`: units of 256 bytes.
const LDS_SIZE_SHIFT: u32 = 12;
/// `LDS_ALLOC.VGPR_SHARED_SIZE`: units of eight registers.
const VGPR_SHARED_SIZE_SHIFT: u32 = 24;
/// `IB_STS2.WAVE64`.
const WAVE64: u32 = 1 << 11;
/// Bits of `MODE` that exist: `FP_ROUND` to `TRAP_AFTER_INST_EN`, `EXCP_EN`, `FP16_OVFL`, `DISABLE_PERF`.
const MODE_BITS: u32 = 0x089f_ffff;

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

pub(crate) fn status_of(w: &Wave) -> u32 {
    w.status
        | w.s[slot::SCC]
        | u32::from(mask(w, slot::EXEC) == 0) << status::EXECZ
        | u32::from(mask(w, slot::VCC) == 0) << status::VCCZ
}

/// `s_getreg_b32`.
pub(crate) fn getreg(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let Some(register) = HardwareRegister::from_number(d.aux) else { return Flow::NEXT };
    let (offset, count) = field(d.imm);
    let value = match register {
        Mode => w.mode,
        Status => status_of(w),
        TrapSts => w.trapsts,
        GprAlloc => (w.vgpr_blocks() - 1) << VGPR_SIZE_SHIFT,
        LdsAlloc => {
            m.lds.size().div_ceil(256) << LDS_SIZE_SHIFT
                | (u32::from(w.registers - w.vgpr_count) / 8) << VGPR_SHARED_SIZE_SHIFT
        }
        // Counters of outstanding operations: each instruction is over before the next begins.
        IbSts => 0,
        ShMemBases => (m.apertures.private_base >> 48) as u32 | (m.apertures.shared_base >> 48 << 16) as u32,
        FlatScratchLow => w.scratch_base as u32,
        FlatScratchHigh => (w.scratch_base >> 32) as u32,
        HwId1 => w.hw_id[0],
        HwId2 => w.hw_id[1],
        IbSts2 => u32::from(w.halves == 2) * WAVE64,
        // Twenty bits of a clock: instructions executed do not advance it in the middle of a run, time does.
        ShaderCycles => (m.clock)() as u32 & 0xf_ffff,
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
            let flow = set_mode(w, insert(w.mode) & MODE_BITS, d);
            // The wave's next instruction is one that it enters its handler after.
            return if flow == Flow::LEAVE && w.steps() { m.stop_here(Stop::Budget) } else { flow };
        }
        // Only the trap handler may, and not everything.
        Status if w.is_privileged() => {
            let new = insert(status_of(w));
            w.status = w.status & !status::WRITABLE | new & status::WRITABLE & !1;
            w.s[slot::SCC] = new & 1;
        }
        TrapSts => w.trapsts = insert(w.trapsts) & trapsts::ALL,
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
