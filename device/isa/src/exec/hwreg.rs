//! Hardware registers: `s_getreg_b32` and `s_setreg_b32`.
//!
//! Numbers: LLVM's `AMDGPU::Hwreg::Id`. Fields: `SQ_WAVE_*` of gfx11, as linux `amdkfd/cwsr_trap_handler_gfx10.asm`
//! reads them.

use super::control::{mask, set_mode};
use super::di::{Di, Flow, Machine};
use crate::trap::{status, trapsts};
use crate::wave::{Wave, number};

const MODE: u32 = 1;
const STATUS: u32 = 2;
pub(crate) const TRAPSTS: u32 = 3;
const GPR_ALLOC: u32 = 5;
const LDS_ALLOC: u32 = 6;
const IB_STS: u32 = 7;
const SH_MEM_BASES: u32 = 15;
const FLAT_SCR_LO: u32 = 20;
const FLAT_SCR_HI: u32 = 21;
const HW_ID1: u32 = 23;
const HW_ID2: u32 = 24;
const IB_STS2: u32 = 28;
const SHADER_CYCLES: u32 = 29;

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

/// Whether reading register `id` is implemented.
pub(crate) fn readable(id: u32) -> bool {
    matches!(
        id,
        MODE | STATUS
            | TRAPSTS
            | GPR_ALLOC
            | LDS_ALLOC
            | IB_STS
            | SH_MEM_BASES
            | FLAT_SCR_LO
            | FLAT_SCR_HI
            | HW_ID1
            | HW_ID2
            | IB_STS2
            | SHADER_CYCLES
    )
}

/// Whether writing register `id` is implemented.
pub(crate) fn writable(id: u32) -> bool {
    matches!(id, MODE | STATUS | TRAPSTS | IB_STS | FLAT_SCR_LO | FLAT_SCR_HI)
}

/// Register number, first bit, bit count of a `hwreg` immediate.
fn field(imm: u32) -> (u32, u32, u32) {
    (imm & 63, imm >> 6 & 31, (imm >> 11 & 31) + 1)
}

fn low_bits(count: u32) -> u32 {
    u32::MAX >> (32 - count)
}

fn status_of(w: &Wave) -> u32 {
    w.status
        | w.s[number::SCC]
        | u32::from(mask(w, number::EXEC) == 0) << status::EXECZ
        | u32::from(mask(w, number::VCC) == 0) << status::VCCZ
}

/// `s_getreg_b32`.
pub(crate) fn getreg(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (id, offset, count) = field(d.imm);
    let value = match id {
        MODE => w.mode,
        STATUS => status_of(w),
        TRAPSTS => w.trapsts,
        GPR_ALLOC => (u32::from(w.vgpr_count).div_ceil(4).max(1) - 1) << VGPR_SIZE_SHIFT,
        LDS_ALLOC => {
            m.lds.size().div_ceil(256) << LDS_SIZE_SHIFT
                | (u32::from(w.registers - w.vgpr_count) / 8) << VGPR_SHARED_SIZE_SHIFT
        }
        // Counters of outstanding operations: each instruction is over before the next begins.
        IB_STS => 0,
        SH_MEM_BASES => {
            (m.apertures.private_base >> 48) as u32 | (m.apertures.shared_base >> 48 << 16) as u32
        }
        FLAT_SCR_LO => w.scratch_base as u32,
        FLAT_SCR_HI => (w.scratch_base >> 32) as u32,
        HW_ID1 => w.hw_id[0],
        HW_ID2 => w.hw_id[1],
        IB_STS2 => u32::from(w.halves == 2) * WAVE64,
        // Twenty bits of a clock: instructions executed do not advance it in the middle of a run, time does.
        SHADER_CYCLES => (m.clock)() as u32 & 0xf_ffff,
        _ => 0,
    };
    w.s[d.dst as usize & 255] = value >> offset & low_bits(count);
    Flow::NEXT
}

/// `s_setreg_b32` (source `src[0]`) and `s_setreg_imm32_b32` (a constant).
pub(crate) fn setreg(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (id, offset, count) = field(d.imm);
    let mask = low_bits(count) << offset;
    let value = d.src[0].scalar(w) << offset & mask;
    let insert = |old: u32| old & !mask | value;
    match id {
        MODE => return set_mode(w, insert(w.mode) & MODE_BITS, d),
        // Only the trap handler may, and not everything.
        STATUS if w.is_privileged() => {
            let new = insert(status_of(w));
            w.status = w.status & !status::WRITABLE | new & status::WRITABLE & !1;
            w.s[number::SCC] = new & 1;
        }
        TRAPSTS => w.trapsts = insert(w.trapsts) & trapsts::ALL,
        FLAT_SCR_LO => {
            w.scratch_base = w.scratch_base & !0xffff_ffff | u64::from(insert(w.scratch_base as u32));
        }
        FLAT_SCR_HI => {
            w.scratch_base =
                w.scratch_base & 0xffff_ffff | u64::from(insert((w.scratch_base >> 32) as u32)) << 32;
        }
        _ => {}
    }
    Flow::NEXT
}
