//! The register file of each architecture: how many registers there are, and which number means which.
//!
//! Instructions name scalar registers by numbers that differ between architectures (`M0` is 125 on gfx11 and 124 on gfx9).
//! The engine keeps them in the same places for all of them ([`slot`]); lowering asks the architecture's
//! [`RegisterFile`] where a number lies, so that nothing looks it up while code runs.
//!
//! Sources: scalar operand numbers, LLVM `SIRegisterInfo.td`; hardware registers, LLVM `SIDefines.h` (`AMDGPU::Hwreg::Id`).

mod card;
pub(crate) mod message;
mod name;

use core::ops::Range;

use crate::inst::Arch;
pub(crate) use card::Card;
use name::ScalarName;

/// Places of the scalar registers in a wave, and of everything that is read as one. The first 128 are numbered as on
/// gfx11.
pub(crate) mod slot {
    /// `FLAT_SCRATCH` where it is a scalar register.
    pub(crate) const FLAT_SCRATCH: usize = 102;
    /// `XNACK_MASK` where it is a scalar register.
    pub(crate) const XNACK_MASK: usize = 104;
    pub(crate) const VCC: usize = 106;
    pub(crate) const TTMP0: usize = 108;
    pub(crate) const M0: usize = 125;
    pub(crate) const EXEC: usize = 126;
    /// 1/(2π) in double precision: the one 64-bit constant with digits in both halves.
    pub(crate) const INV_TWO_PI: usize = 248;
    /// `src_vccz`, refreshed only for instructions that name it.
    pub(crate) const VCCZ: usize = 251;
    /// `src_execz`, refreshed only for instructions that name it.
    pub(crate) const EXECZ: usize = 252;
    /// `src_scc`: SCC lives here, as 0 or 1.
    pub(crate) const SCC: usize = 253;
    /// Target of writes to `NULL`: two registers that nothing reads.
    pub(crate) const DUMP: usize = 254;
}

/// Trap temporaries of every architecture.
const TTMPS: usize = 16;

macro_rules! hardware_registers {
    ($($name:ident,)*) => {
        /// A hardware register that `s_getreg_b32` and `s_setreg_b32` reach.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum HardwareRegister {
            $($name,)*
        }

        impl HardwareRegister {
            /// All of them, by their numbers in lowered instructions.
            const ALL: &[HardwareRegister] = &[$(HardwareRegister::$name,)*];
        }
    };
}

hardware_registers! {
    Mode,
    Status,
    TrapSts,
    GprAlloc,
    LdsAlloc,
    IbSts,
    ShMemBases,
    FlatScratchLow,
    FlatScratchHigh,
    HwId1,
    HwId2,
    IbSts2,
    ShaderCycles,
    WaveStatus,
    StatePriv,
    ExcpFlagPriv,
    ExcpFlagUser,
    TrapCtrl,
    SchedMode,
    ShaderCyclesLow,
    ShaderCyclesHigh,
    PerfSnapshot,
    DvgprAlloc,
    HwId,
    TbaLow,
    TbaHigh,
    TmaLow,
    TmaHigh,
    XccId,
}

impl HardwareRegister {
    /// The register a lowered instruction holds as a number.
    pub(crate) fn from_number(number: u8) -> Option<HardwareRegister> {
        HardwareRegister::ALL.get(usize::from(number)).copied()
    }

    /// Returns true if the register shows which float exceptions were raised.
    pub(crate) fn shows_exceptions(self) -> bool {
        matches!(self, HardwareRegister::TrapSts | HardwareRegister::ExcpFlagUser)
    }

    /// Returns true if `s_setreg_b32` may name the register.
    pub(crate) fn is_writable(self) -> bool {
        use HardwareRegister::{
            ExcpFlagPriv, ExcpFlagUser, FlatScratchHigh, FlatScratchLow, IbSts, Mode, SchedMode, StatePriv,
            Status, TrapCtrl, TrapSts,
        };
        matches!(
            self,
            Mode | Status
                | TrapSts
                | IbSts
                | FlatScratchLow
                | FlatScratchHigh
                | StatePriv
                | ExcpFlagPriv
                | ExcpFlagUser
                | TrapCtrl
                | SchedMode
        )
    }
}

/// Generation of descriptors of images and samplers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Images {
    Gfx11,
    Gfx12,
}

/// Registers of an architecture, by the numbers its instructions have for them.
#[derive(Debug)]
pub(crate) struct RegisterFile {
    /// Vector registers that instructions can name, of each kind.
    pub(crate) vgprs: u16,
    /// Accumulation registers follow the vector registers of a wave, in one allocation of at most this many.
    pub(crate) unified: Option<u16>,
    /// Scalar registers `s0..` a wave has.
    pub(crate) sgprs: u8,
    /// `VCC`, a pair.
    pub(crate) vcc: u8,
    /// `ttmp0`, the first of sixteen.
    pub(crate) ttmp0: u8,
    /// Number of `NULL`, which reads as 0 and drops writes; not all architectures have it.
    pub(crate) null: Option<u8>,
    /// No register, although LLVM's disassembler lists it as `null`.
    pub(crate) listed_null: Option<u8>,
    /// `FLAT_SCRATCH` and `XNACK_MASK`, pairs, where they are scalar registers.
    pub(crate) flat_scratch: Option<u8>,
    pub(crate) xnack_mask: Option<u8>,
    pub(crate) m0: u8,
    /// `EXEC`, a pair.
    pub(crate) exec: u8,
    /// Bits of `MODE` that exist.
    pub(crate) mode: u32,
    /// Bits of the internal `MODE` that waves of this architecture never have set.
    pub(crate) absent_mode: u32,
    /// Bits that waves always have set in the internal `MODE` although the register does not have them: waves behave
    /// as if it had.
    pub(crate) implied_mode: u32,
    /// Bits of the internal `MODE` that other registers have: `EXCP_EN` and `TRAP_AFTER_INST_EN`.
    pub(crate) trap_mode: u32,
    /// First bit of the trap identifier in `ttmp1:ttmp0` when a trap handler is entered.
    pub(crate) trap_id: u32,
    /// Matrix instructions find A and B in the first sixteen lanes, and copies in the others.
    pub(crate) copies_matrices: bool,
    /// Bits of `HW_ID1` (`HW_ID` on gfx942) and of `HW_ID2` that hold the number of the workgroup on its compute
    /// unit.
    pub(crate) workgroup_id: [u32; 2],
    /// Bits of `TRAPSTS` that have another place than on gfx11: the place here, then the place on gfx11.
    pub(crate) moved_trapsts: &'static [(u8, u8)],
    /// `s_sendmsg` has answers, which it leaves in `EXEC`.
    pub(crate) answers_in_exec: bool,
    /// Lanes among which `ds_permute_b32` and `ds_bpermute_b32` exchange, less one.
    pub(crate) exchange_mask: u8,
    /// Messages that `s_sendmsg_rtn` has an answer to.
    pub(crate) messages: &'static [u32],
    /// Order and rounding of sums of 16-bit floats, if they were measured on cards.
    pub(crate) float_sums: Option<Card>,
    /// Dot products of integers take the halves that `op_sel` and `op_sel_hi` name.
    pub(crate) dots_choose_halves: bool,
    /// Ticks of the shader's clock in a microsecond: those of the clock rate that drivers state (`max_engine_clk_fcompute`).
    pub(crate) shader_mhz: u16,
    /// DPP has the permutations across rows of gfx9.
    pub(crate) permutes_rows: bool,
    /// Buffer descriptors have a data format and a number format, and no kind of bounds check.
    pub(crate) old_descriptors: bool,
    /// Generation of the image descriptors; `None` without image instructions.
    pub(crate) images: Option<Images>,
    /// `s_setpc_b64` ends a restore where traps are not enabled.
    pub(crate) jumps_end_restores: bool,
    /// Stores by a format repeat the first component where the instruction has none; elsewhere there are zeros.
    pub(crate) repeats_component: bool,
    /// Results of 16 bits leave zeros in the upper half of their register, and `op_sel` numbers the byte that a conversion writes.
    pub(crate) zeroes_halves: bool,
    /// Floats of eight bits have the formats of CDNA3, without infinities and negative zero.
    pub(crate) old_bytes: bool,
    /// Bytes that `LDS_ALLOC` counts LDS in.
    pub(crate) lds_unit: u32,
    /// Vector registers of a block of those that waves of 32 lanes allocate while they run (dynamic VGPRs); 0 where none do.
    pub(crate) vgpr_block: u16,
    /// Numbers of the hardware registers there are.
    pub(crate) hardware: &'static [(u8, HardwareRegister)],
}

const GFX11: RegisterFile = {
    use HardwareRegister::*;
    RegisterFile {
        vgprs: 256,
        unified: None,
        sgprs: 106,
        vcc: 106,
        ttmp0: 108,
        null: Some(124),
        listed_null: None,
        flat_scratch: None,
        xnack_mask: None,
        m0: 125,
        exec: 126,
        // `FP_ROUND` to `TRAP_AFTER_INST_EN`, `EXCP_EN`, `FP16_OVFL`, `DISABLE_PERF`.
        mode: 0x089f_ffff,
        absent_mode: 0,
        implied_mode: 0,
        trap_mode: 0,
        trap_id: 48,
        copies_matrices: true,
        workgroup_id: [0, 31 << 16],
        moved_trapsts: &[],
        answers_in_exec: false,
        exchange_mask: 31,
        messages: &message::ANSWERED,
        float_sums: Some(Card::Gfx11),
        dots_choose_halves: true,
        shader_mhz: 2482,
        permutes_rows: false,
        old_descriptors: false,
        images: Some(Images::Gfx11),
        jumps_end_restores: true,
        repeats_component: false,
        zeroes_halves: false,
        old_bytes: false,
        lds_unit: 256,
        vgpr_block: 0,
        hardware: &[
            (1, Mode),
            (2, Status),
            (3, TrapSts),
            (5, GprAlloc),
            (6, LdsAlloc),
            (7, IbSts),
            (15, ShMemBases),
            (20, FlatScratchLow),
            (21, FlatScratchHigh),
            (23, HwId1),
            (24, HwId2),
            (28, IbSts2),
            (29, ShaderCycles),
        ],
    }
};

/// As GFX11 but for the clock: the maximum of a Radeon 8060S. No results of a card with its sums are public; they are taken for those
/// of gfx1100.
const GFX1151: RegisterFile = RegisterFile { shader_mhz: 2900, ..GFX11 };

/// Vector registers and accumulation registers are one allocation, and there is no `NULL`. Sources: LLVM `SIDefines.h`,
/// `AMDGPU.td` (`FeatureISAVersion9_4_Common`); `MODE`, linux `gc_9_4_3_sh_mask.h` (`SQ_WAVE_MODE`).
const GFX9: RegisterFile = {
    use HardwareRegister::*;
    RegisterFile {
        unified: Some(512),
        sgprs: 102,
        null: None,
        listed_null: Some(125),
        flat_scratch: Some(102),
        xnack_mask: Some(104),
        m0: 124,
        // `FP_ROUND`, `FP_DENORM`, `DX10_CLAMP`, `IEEE`, `LOD_CLAMPED`, `DEBUG_EN`, `EXCP_EN`, `FP16_OVFL`, `POPS_PACKER0/1`,
        // `DISABLE_PERF`, `GPR_IDX_EN`, `VSKIP`, `CSP`.
        mode: 0xff9f_ffff,
        copies_matrices: false,
        workgroup_id: [15 << 16, 0],
        // `HOST_TRAP` and `TRAP_AFTER_INST`.
        moved_trapsts: &[(22, 16), (25, 20)],
        answers_in_exec: true,
        // All lanes of the wave: HIP's shuffles of 64 lanes are made of it.
        exchange_mask: 63,
        float_sums: None,
        dots_choose_halves: false,
        shader_mhz: 2100,
        permutes_rows: true,
        old_descriptors: true,
        images: None,
        jumps_end_restores: false,
        zeroes_halves: true,
        old_bytes: true,
        // 64 dwords.
        lds_unit: 256,
        hardware: &[
            (1, Mode),
            (2, Status),
            (3, TrapSts),
            (4, HwId),
            (5, GprAlloc),
            (6, LdsAlloc),
            (7, IbSts),
            (15, ShMemBases),
            (16, TbaLow),
            (17, TbaHigh),
            (18, TmaLow),
            (19, TmaHigh),
            (20, XccId),
            (21, PerfSnapshot),
            (22, PerfSnapshot),
            (23, PerfSnapshot),
            (24, PerfSnapshot),
        ],
        ..GFX11
    }
};

/// As GFX9 but for floats of eight bits, those of OCP (linux: no `SH_MEM_CONFIG.F8_MODE`), and the clock: the maximum of an MI350X.
const GFX950: RegisterFile = RegisterFile { old_bytes: false, shader_mhz: 2200, ..GFX9 };

/// As GFX11 but for the hardware registers: `STATUS` and `TRAPSTS` are split, and `MODE` has lost `DX10_CLAMP`, which always
/// counts as set, and `IEEE`, which does not. Sources: LLVM `SIDefines.h`, linux `amdkfd/cwsr_trap_handler_gfx12.asm`.
const GFX12: RegisterFile = {
    use HardwareRegister::*;
    RegisterFile {
        // `FP_ROUND`, `FP_DENORM`, `FP16_OVFL`, `SCALAR_PREFETCH_EN`, `DISABLE_PERF`.
        mode: 0x0980_00ff,
        absent_mode: 1 << 9,
        implied_mode: 1 << 8,
        trap_mode: 0x1ff << 12 | 1 << 11,
        trap_id: 60,
        copies_matrices: false,
        // LLVM `AMDGPU.td`: `FeatureDefaultComponentBroadcast`, where others have `FeatureDefaultComponentZero`.
        repeats_component: true,
        images: Some(Images::Gfx12),
        // All lanes of the wave. Source: LLVM `GCNSubtarget::supportsWaveWideBPermute`.
        exchange_mask: 63,
        messages: &message::ANSWERED_BY_ENGINE,
        float_sums: Some(Card::Gfx12),
        dots_choose_halves: true,
        shader_mhz: 2350,
        lds_unit: 512,
        vgpr_block: VGPR_BLOCK,
        hardware: &[
            (1, Mode),
            (2, WaveStatus),
            (4, StatePriv),
            (5, GprAlloc),
            (6, LdsAlloc),
            (7, IbSts),
            (10, PerfSnapshot),
            (11, PerfSnapshot),
            (12, PerfSnapshot),
            (15, PerfSnapshot),
            (16, PerfSnapshot),
            (17, ExcpFlagPriv),
            (18, ExcpFlagUser),
            (19, TrapCtrl),
            (20, FlatScratchLow),
            (21, FlatScratchHigh),
            (23, HwId1),
            (24, HwId2),
            (26, SchedMode),
            (29, ShaderCyclesLow),
            (30, ShaderCyclesHigh),
            (31, DvgprAlloc),
            (32, DvgprAlloc),
        ],
        ..GFX11
    }
};

/// The files of all architectures.
static FILES: [RegisterFile; 5] = [GFX9, GFX11, GFX12, GFX1151, GFX950];

/// Most vector registers an instruction of any architecture can name.
pub const MAX_VGPRS: u16 = GFX11.vgprs;
/// Most vector registers a wave of any architecture can have, accumulation registers included.
pub const MAX_ALLOCATION: u16 = 512;
/// Vector registers of a block of those that waves of gfx12 allocate while they run. AMD "RDNA4 Instruction Set Architecture",
/// 3.3.3: 16 or 32 on the whole chip; amdkfd's trap handler and LLVM without an attribute go by 16.
pub const VGPR_BLOCK: u16 = 16;
/// Most blocks of a wave.
pub const MAX_VGPR_BLOCKS: u16 = 8;

impl RegisterFile {
    /// The registers of an architecture.
    pub(crate) fn of(arch: Arch) -> &'static RegisterFile {
        match arch {
            Arch::Gfx942 => &FILES[0],
            Arch::Gfx1100 => &FILES[1],
            Arch::Gfx1201 => &FILES[2],
            Arch::Gfx1151 => &FILES[3],
            Arch::Gfx950 => &FILES[4],
        }
    }

    /// Returns the internal `MODE` of a wave that begins with `mode`, exceptions included.
    pub(crate) fn internal_mode(&self, mode: u32) -> u32 {
        mode & !self.absent_mode | self.implied_mode
    }

    /// Returns the place of scalar register `number`; `None` for `NULL` and for numbers of no register.
    pub(crate) fn slot(&self, number: u8) -> Option<usize> {
        let within = |first: u8, count: u8| number.checked_sub(first).filter(|n| *n < count).map(usize::from);
        if Some(number) == self.null {
            return None;
        }
        within(0, self.sgprs)
            .or_else(|| within(self.vcc, 2).map(|n| slot::VCC + n))
            .or_else(|| within(self.flat_scratch?, 2).map(|n| slot::FLAT_SCRATCH + n))
            .or_else(|| within(self.xnack_mask?, 2).map(|n| slot::XNACK_MASK + n))
            .or_else(|| within(self.ttmp0, TTMPS as u8).map(|n| slot::TTMP0 + n))
            .or_else(|| within(self.m0, 1).map(|n| slot::M0 + n))
            .or_else(|| within(self.exec, 2).map(|n| slot::EXEC + n))
    }

    /// Returns the place of the first of `count` registers from `number` on, if all exist and their places are side
    /// by side.
    pub(crate) fn slots(&self, number: u8, count: u32) -> Option<usize> {
        let first = self.slot(number)?;
        let follows = |n: u32| {
            let number = u8::try_from(u32::from(number) + n).ok()?;
            self.slot(number).filter(|slot| *slot == first + n as usize)
        };
        (1..count).all(|n| follows(n).is_some()).then_some(first)
    }

    /// The numbers of the registers beside `number` that an operand of several may be of: those of the SGPRs, or of the trap
    /// temporaries.
    pub(crate) fn bank(&self, number: u8) -> Option<Range<u8>> {
        let banks = [0..self.sgprs, self.ttmp0..self.ttmp0 + TTMPS as u8];
        banks.into_iter().find(|bank| bank.contains(&number))
    }

    /// Returns true if an operand has no alignment: LLVM knows no groups of three trap temporaries, and keeps the
    /// number.
    pub(crate) fn keeps_number(&self, number: u8, width: u32) -> bool {
        width == 3 && (self.ttmp0..self.ttmp0 + TTMPS as u8).contains(&number)
    }

    /// The number an operand of `width` registers has that is encoded with the number of a register in a [bank](Self::bank): it
    /// begins where its alignment allows, and the bits below are ignored.
    pub(crate) fn aligned(&self, number: u8, width: u32) -> Option<u8> {
        let bank = self.bank(number)?;
        if self.keeps_number(number, width) {
            return Some(number);
        }
        let align = match width {
            1 => 1,
            2 => 2,
            _ => 4,
        };
        let first = bank.start + (number - bank.start) / align * align;
        // `FLAT_SCRATCH` and `XNACK_MASK` end a tuple that begins before them.
        let more = if bank.start == 0 && self.flat_scratch.is_some() { 4 } else { 0 };
        (u32::from(first) + width <= u32::from(bank.end) + more).then_some(first)
    }

    /// Returns true if an operand of any width may begin with this register outside the [banks](Self::bank).
    pub(crate) fn begins_any_width(&self, number: u8) -> bool {
        let pairs = [Some(self.vcc), Some(self.exec), self.flat_scratch, self.xnack_mask];
        pairs.contains(&Some(number)) || self.is_null(number)
    }

    /// Returns true if a number is listed as `null`.
    pub(crate) fn is_null(&self, number: u8) -> bool {
        Some(number) == self.null || Some(number) == self.listed_null
    }

    /// Vector registers that a wave can have in all.
    pub(crate) fn allocation(&self) -> u16 {
        self.unified.unwrap_or(self.vgprs)
    }

    /// Returns true if the number is that of a scalar register or of `NULL`.
    pub(crate) fn names(&self, number: u8) -> bool {
        self.is_null(number) || self.slot(number).is_some()
    }

    /// The hardware register with a number.
    pub(crate) fn hardware(&self, number: u32) -> Option<HardwareRegister> {
        self.hardware.iter().find(|(known, _)| u32::from(*known) == number).map(|(_, register)| *register)
    }

    /// The name of `width` scalar registers from `number` on.
    pub(crate) fn name(&'static self, number: u8, width: u8) -> ScalarName {
        ScalarName { file: self, number, width: width.max(1) }
    }
}

#[cfg(test)]
mod tests;
