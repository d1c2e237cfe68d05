//! A decoded instruction, the same type for every instruction set.
//!
//! `decode` turns bytes into an [`Inst`]; the execution engine lowers it and `disasm` prints it. Fields hold what the
//! encoding says, with the forms of one operation brought to one shape so that the engine sees only one of them:
//!
//! * `v_add_f32` in VOP2, VOP3 and with DPP is the same [`Op`] with the same operand order.
//! * Operands an encoding implies are filled in. VOPC writes `VCC` in [`Inst::dst`] (`V_CMPX_*`: `EXEC`), VOP2
//!   `V_ADD_CO_CI_U32` has `VCC` in [`Inst::dst2`] and `src[2]`, `V_CNDMASK_B32` has `VCC` in `src[2]`.
//! * An operation that accumulates into its destination (`V_FMAC_F32`, `V_DOT2ACC_F32_F16`) has that register in
//!   `src[2]` as well, one that reads and writes its SGPR destination (`S_ADDK_I32`, `S_CMOV_B32`) does not.
//! * `V_FMAMK_F32` and `V_FMAAK_F32` are both `src[0] * src[1] + src[2]` with the constant as [`Operand::Literal`].
//!
//! Places of the operands of each format:
//!
//! | format | `dst` | `dst2` | `src[0]` | `src[1]` | `src[2]` | `src[3]` | other |
//! |---|---|---|---|---|---|---|---|
//! | SOP1 SOP2 SOPC | SDST | | SSRC0 | SSRC1 | | | |
//! | SOPK | SDST | | the compared, stored or waited-on SGPR | | | | [`Inst::imm`] = SIMM16 |
//! | SOPP | | | | | | | [`Inst::imm`] = SIMM16 |
//! | SMEM | SDATA | | SBASE | SOFFSET | | | [`MemFields::offset`] |
//! | VOP1 VOP2 VOPC VOP3 VOP3P | VDST/SDST | carry out | SRC0 | SRC1 | SRC2 | | [`Inst::mods`], [`Inst::dpp`] |
//! | VOPD | VDSTX | | SRC0X | VSRC1X | third X | | [`Inst::dual`] = the Y half |
//! | DS | VDST | | ADDR | DATA0 | DATA1 | | [`MemFields::offset`], [`MemFields::offset1`], [`MemFields::gds`] |
//! | FLAT GLOBAL SCRATCH | VDST | | VADDR | VDATA | SADDR | | [`MemFields::offset`] |
//! | MUBUF MTBUF | VDATA (loads, returning atomics) | | VADDR | SRSRC | SOFFSET | VDATA (stores, atomics) | [`MemFields`] |
//! | MIMG VIMAGE VSAMPLE | VDATA (loads) | | VADDR | SRSRC | SSAMP | VDATA (stores) | [`Inst::imm`], [`MemFields::offset`] |
//! | EXP | | | VSRC0 | VSRC1 | VSRC2 | VSRC3 | recognised for its text only |
//! | VINTERP LDSDIR | VDST | | SRC0 | SRC1 | SRC2 | | |
//!
//! An absent operand is [`Operand::None`]: SADDR `off`, VADDR `off`, an SMEM without SOFFSET.
//!
//! Register numbers and field names are those of LLVM 22's AMDGPU TableGen description (`SIRegisterInfo.td`,
//! `VOPInstructions.td`, `FLATInstructions.td`, …). Formats of the GFX12 encoding family that only hold the same in other places
//! have the older names: VFLAT, VGLOBAL and VSCRATCH are FLAT, GLOBAL and SCRATCH, VBUFFER is MUBUF or MTBUF, VDSDIR is LDSDIR
//! and VEXPORT is EXP.

pub mod op;
mod operand;

pub use op::Op;
pub use operand::{FloatConst, Operand};

/// Instruction set of a code object, chosen by the device and not by the guest's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// CDNA 3, `gfx942` (MI300X).
    Gfx942,
    /// CDNA 4, `gfx950` (MI350X).
    Gfx950,
    /// RDNA 3, `gfx1100` (Navi 31).
    Gfx1100,
    /// RDNA 3.5, `gfx1151` (Strix Halo).
    Gfx1151,
    /// RDNA 4, `gfx1201` (Navi 48).
    Gfx1201,
}

impl Arch {
    /// All of them.
    pub const ALL: [Arch; 5] = [Arch::Gfx942, Arch::Gfx950, Arch::Gfx1100, Arch::Gfx1151, Arch::Gfx1201];

    /// LLVM's name of the processor.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx942 => "gfx942",
            Arch::Gfx950 => "gfx950",
            Arch::Gfx1100 => "gfx1100",
            Arch::Gfx1151 => "gfx1151",
            Arch::Gfx1201 => "gfx1201",
        }
    }

    /// Sizes of its waves.
    pub const fn wave_sizes(self) -> &'static [WaveSize] {
        match self {
            Arch::Gfx942 | Arch::Gfx950 => &[WaveSize::Wave64],
            Arch::Gfx1100 | Arch::Gfx1151 | Arch::Gfx1201 => &[WaveSize::Wave32, WaveSize::Wave64],
        }
    }

    /// Returns true if the architecture has instructions that read and write images.
    pub fn has_images(self) -> bool {
        match self {
            Arch::Gfx942 | Arch::Gfx950 => false,
            Arch::Gfx1100 | Arch::Gfx1151 | Arch::Gfx1201 => true,
        }
    }

    /// Returns true if its encodings are those of the family GFX9.
    pub const fn is_gfx9(self) -> bool {
        match self {
            Arch::Gfx942 | Arch::Gfx950 => true,
            Arch::Gfx1100 | Arch::Gfx1151 | Arch::Gfx1201 => false,
        }
    }
}

/// Lanes in a wave: the width of `VCC`, `EXEC` and of every lane mask an instruction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum WaveSize {
    /// 32 lanes, masks in one SGPR (`vcc_lo`).
    Wave32,
    /// 64 lanes, masks in an SGPR pair (`vcc`).
    Wave64,
}

/// Encoding family an instruction was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the hardware's encoding names")]
#[repr(u8)]
pub enum Format {
    Sop1,
    Sop2,
    Sopc,
    Sopk,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    /// VOP3 without a scalar destination besides VDST.
    Vop3,
    /// VOP3 with SDST (carry out, `v_div_scale`).
    Vop3Sd,
    Vop3P,
    Vopd,
    Vinterp,
    LdsDir,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
    Mtbuf,
    Mimg,
    Vimage,
    Vsample,
    Exp,
}

impl Format {
    /// Returns true if instructions of the format read or write images.
    pub(crate) const fn is_image(self) -> bool {
        matches!(self, Format::Mimg | Format::Vimage | Format::Vsample)
    }

    /// Returns true if instructions of the format go through a buffer descriptor, with vector registers.
    pub(crate) const fn is_buffer(self) -> bool {
        matches!(self, Format::Mubuf | Format::Mtbuf)
    }
}

impl Op {
    /// Place among the sources of the constant that is part of the encoding: `a * K + b`, `a * b + K`.
    pub(crate) const fn constant_place(self) -> Option<usize> {
        match self {
            Op::V_FMAMK_F32 | Op::V_FMAMK_F16 | Op::S_FMAMK_F32 | Op::V_MADMK_F16 => Some(1),
            Op::V_FMAAK_F32 | Op::V_FMAAK_F16 | Op::S_FMAAK_F32 | Op::V_MADAK_F16 => Some(2),
            _ => None,
        }
    }

    /// Returns true if `BLGP` of a matrix operation says which operands are negated.
    pub(crate) const fn negates_by_blgp(self) -> bool {
        matches!(self, Op::V_MFMA_F64_16X16X4_F64 | Op::V_MFMA_F64_4X4X4_4B_F64)
    }

    /// Returns true if the operation has FETCH_INACTIVE and BOUND_CTRL without DPP: they are bits 0 and 1 of [`Mods::op_sel`].
    pub(crate) const fn swaps_rows(self) -> bool {
        matches!(self, Op::V_PERMLANE16_SWAP_B32 | Op::V_PERMLANE32_SWAP_B32)
    }

    /// Returns true if `CBSZ` and `BLGP` of a matrix operation say which formats its factors have.
    pub(crate) const fn chooses_formats(self) -> bool {
        matches!(
            self,
            Op::V_MFMA_F32_16X16X128_F8F6F4
                | Op::V_MFMA_F32_32X32X64_F8F6F4
                | Op::V_MFMA_SCALE_F32_16X16X128_F8F6F4
                | Op::V_MFMA_SCALE_F32_32X32X64_F8F6F4
        )
    }

    /// Returns true if the source is the number of a barrier.
    pub(crate) const fn names_barrier(self) -> bool {
        matches!(
            self,
            Op::S_BARRIER_SIGNAL
                | Op::S_BARRIER_SIGNAL_ISFIRST
                | Op::S_BARRIER_INIT
                | Op::S_BARRIER_JOIN
                | Op::S_GET_BARRIER_STATE
        )
    }
}

/// One instruction: the operation and everything its bytes say about it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Inst {
    /// The operation; for VOPD that of the X half.
    pub op: Op,
    /// The encoding it came from.
    pub format: Format,
    /// Bytes it occupies, literal and DPP or SDWA dword included: 4, 8 or 12 on gfx11.
    pub size: u8,
    /// Index of the instruction's form in its architecture's table: mnemonic spelling, register widths, asm syntax.
    pub form: u16,
    /// First destination.
    pub dst: Operand,
    /// Second destination: carry out of VOP2/VOP3SD.
    pub dst2: Operand,
    /// Sources in assembler order, see the table above.
    pub src: [Operand; 4],
    /// Input and output modifiers of vector ALU instructions.
    pub mods: Mods,
    /// Lane permutation of `src[0]`.
    pub dpp: Option<Dpp>,
    /// Parts of registers that the instruction reads and writes.
    pub sdwa: Option<Sdwa>,
    /// Fields of memory instructions.
    pub mem: MemFields,
    /// Number that is no operand, by format:
    /// * SOPK, SOPP: SIMM16 as encoded, 16 bits, not sign-extended;
    /// * SOP1 `S_SENDMSG_RTN_*`: the message;
    /// * LDSDIR: `attr | attr_chan << 8 | wait_vdst << 16 | wait_vsrc << 20`;
    /// * VOP3 of 8-bit floats: `byte_sel`, the byte that is read or written;
    /// * VOP3P `V_SWMMAC_*`: `index_key`, which part of the indices applies;
    /// * VOP3P `V_MFMA_*` and `V_SMFMAC_*`: `cbsz | abid << 4 | blgp << 8`;
    /// * SMEM `S_PREFETCH_*`: the length;
    /// * VINTERP: `wait_exp`;
    /// * EXP: `target | enable << 8`;
    /// * MIMG: `dmask | dim << 4 | unorm << 7 | r128 << 8 | a16 << 9 | lwe << 10 | d16 << 11`.
    pub imm: u32,
    /// The Y half of a VOPD. Both halves read their sources before either writes. Of `V_MFMA_SCALE_*` the operation that loads the
    /// scales, whose sources they are.
    pub dual: Option<Dual>,
}

impl Inst {
    /// `SIMM16` sign-extended: SOPP branch distances (in dwords after this instruction), SOPK constants.
    pub const fn simm16(&self) -> i16 {
        #[expect(clippy::cast_possible_truncation, reason = "the field is 16 bits wide")]
        let low = self.imm as u16;
        low.cast_signed()
    }

    /// Address a branch, loop or `S_CALL_B64` at address `pc` goes to, `None` for every other instruction.
    pub fn branch_target(&self, pc: u64) -> Option<u64> {
        let branch = matches!(
            self.op,
            Op::S_CALL_B64
                | Op::S_BRANCH
                | Op::S_SUBVECTOR_LOOP_BEGIN
                | Op::S_SUBVECTOR_LOOP_END
                | Op::S_CBRANCH_SCC0
                | Op::S_CBRANCH_SCC1
                | Op::S_CBRANCH_VCCZ
                | Op::S_CBRANCH_VCCNZ
                | Op::S_CBRANCH_EXECZ
                | Op::S_CBRANCH_EXECNZ
                | Op::S_CBRANCH_CDBGSYS
                | Op::S_CBRANCH_CDBGUSER
                | Op::S_CBRANCH_CDBGSYS_OR_USER
                | Op::S_CBRANCH_CDBGSYS_AND_USER
        );
        branch.then(|| pc.wrapping_add(4).wrapping_add_signed(i64::from(self.simm16()) * 4))
    }
}

/// Second half of a VOPD instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dual {
    /// The Y operation, by its single-issue name: `v_dual_mov_b32` is [`Op::V_MOV_B32`].
    pub op: Op,
    /// VDSTY.
    pub dst: Operand,
    /// SRC0Y, VSRC1Y and, as for single instructions, the literal, `VCC` or accumulator in third place.
    pub src: [Operand; 3],
}

/// Modifiers of vector ALU instructions. In the masks bit *n* belongs to `src[n]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mods {
    /// Negate the source (VOP3P: its low half).
    pub neg: u8,
    /// Absolute value, applied before `neg`.
    pub abs: u8,
    /// VOP3P: negate the source's high half.
    pub neg_hi: u8,
    /// VOP3: take the source's high 16 bits, bit 3: write the destination's high 16 bits (an accumulating operation reads
    /// it there too). VOP1, VOP2 and VOPC with 16-bit operands have these bits as bit 7 of their VGPR numbers. VOP3P: half
    /// used by the low result.
    pub op_sel: u8,
    /// VOP3P: half used by the high result; 7 unless the instruction says otherwise.
    pub op_sel_hi: u8,
    /// Clamp the result: floats to 0..1, integers to their range.
    pub clamp: bool,
    /// Output multiplier: 0 none, 1 ×2, 2 ×4, 3 ÷2.
    pub omod: u8,
}

/// Data-parallel primitive: a permutation of `src[0]`'s lanes before the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dpp {
    /// DPP16.
    Dpp16(Dpp16),
    /// DPP8.
    Dpp8(Dpp8),
}

/// Fields of the DPP16 dword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dpp16 {
    /// `dpp_ctrl`, 9 bits: `quad_perm` 0x000-0x0ff, `row_shl` 0x101-0x10f, `row_shr` 0x111-0x11f, `row_ror`
    /// 0x121-0x12f, `row_mirror` 0x140, `row_half_mirror` 0x141, `row_share` 0x150-0x15f, `row_xmask` 0x160-0x16f.
    pub ctrl: u16,
    /// Rows (of 16 lanes) that are written.
    pub row_mask: u8,
    /// Banks (of 4 lanes in each row) that are written.
    pub bank_mask: u8,
    /// `bound_ctrl:1`: lanes without a source read 0 instead of keeping their old value.
    pub bound_ctrl: bool,
    /// `fi:1`: read lanes that `EXEC` has switched off.
    pub fetch_inactive: bool,
}

/// Fields of the DPP8 dword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dpp8 {
    /// Eight 3-bit lane selectors, lane 0's in the low bits.
    pub selectors: u32,
    /// `fi:1`: read lanes that `EXEC` has switched off.
    pub fetch_inactive: bool,
}

impl Dpp8 {
    /// Lane (0-7, within the group of eight) that lane `lane` reads from.
    pub const fn selector(self, lane: u32) -> u32 {
        (self.selectors >> ((lane & 7) * 3)) & 7
    }
}

/// Sub-dword addressing: parts of registers as operands (SDWA).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sdwa {
    /// Part of the destination that is written, see [`Sdwa::DWORD`]. VOPC, which writes a mask, has none: a dword.
    pub dst_sel: u8,
    /// Value of the rest of the destination: 0 zeros, 1 the sign of the result, 2 unchanged.
    pub dst_unused: u8,
    /// Part of `src[0]` and `src[1]` that is read.
    pub src_sel: [u8; 2],
    /// Sources, a bit for each, whose part is sign-extended.
    pub sext: u8,
}

impl Sdwa {
    /// Numbers of parts: 0 to 3 are bytes, 4 and 5 are halves, and this is all of it.
    pub const DWORD: u8 = 6;
}

/// Fields of memory instructions; all zero for the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MemFields {
    /// Immediate byte offset, sign-extended where the format's is signed (gfx11: FLAT unsigned 12 bits, GLOBAL and SCRATCH
    /// signed 13 bits, SMEM signed 21 bits, MUBUF/MTBUF unsigned 12 bits; gfx12: signed 24 bits in all of them). DS: 16 bits, or `offset0` (8 bits, in
    /// units of the element) of two-address operations. MIMG: the NSA dword. VIMAGE, VSAMPLE: VADDR1 to VADDR4, a byte each.
    pub offset: i32,
    /// DS two-address operations: `offset1`, in units of the element.
    pub offset1: u8,
    /// MTBUF: buffer format number.
    pub format: u8,
    /// Globally coherent, SC0 on gfx942; on atomics of every architecture: return the old value.
    pub glc: bool,
    /// System level coherent (streaming hint), NT on gfx942.
    pub slc: bool,
    /// Device level coherent, SC1 on gfx942.
    pub dlc: bool,
    /// Temporal hint, where there are hints and scopes in place of the three bits above. On atomics bit 0, which asks for the
    /// old value, is [`MemFields::glc`] as well.
    pub th: u8,
    /// Scope: 0 compute unit, 1 shader engine, 2 device, 3 system.
    pub scope: u8,
    /// gfx12: a hint that what is read does not change meanwhile. It changes nothing where there are no caches.
    pub non_volatile: bool,
    /// gfx12: a bit that scales an offset on later chips.
    pub scale_offset: bool,
    /// DS: global data share.
    pub gds: bool,
    /// MUBUF/MTBUF: VADDR holds an offset.
    pub offen: bool,
    /// MUBUF/MTBUF: VADDR holds an index.
    pub idxen: bool,
    /// Texture fail enable: one more destination register gets the residency status.
    pub tfe: bool,
    /// MUBUF: the data goes to LDS.
    pub lds: bool,
}

impl MemFields {
    /// Returns true if the access must see stores of other compute units, or be seen by them.
    pub fn is_coherent(&self) -> bool {
        self.glc || self.dlc || self.scope > 0
    }

    /// Returns true if caches are not to keep the data: SLC, NT on gfx942, and `TH_LOAD_NT`, `TH_LOAD_NT_RT`, `TH_LOAD_RT_NT` and
    /// `TH_LOAD_NT_HT` where there are hints (LLVM `SIDefines.h`, `CPol::TH`).
    pub fn is_non_temporal(&self) -> bool {
        self.slc || matches!(self.th, 1 | 4..=6)
    }
}

/// Why bytes are not an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the instruction does.
    #[error("Instruction truncated: {available} of {needed} bytes")]
    Truncated {
        /// Bytes the instruction needs, as far as known.
        needed: u8,
        /// Bytes there were.
        available: u8,
    },
    /// No operation of this architecture has this encoding.
    #[error("Unknown {encoding} instruction {word:#010x}")]
    UnknownOpcode {
        /// Encoding the leading bits select.
        encoding: &'static str,
        /// First dword.
        word: u32,
        /// Second dword, 0 when there was none.
        next: u32,
    },
    /// An operand field names no register or constant of this architecture.
    #[error("Invalid operand in {} instruction {word:#010x}", op.mnemonic())]
    InvalidOperand {
        /// The operation.
        op: Op,
        /// First dword.
        word: u32,
    },
}
