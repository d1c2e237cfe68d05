//! Reasons why LLVM 22's word on an instruction is not compared with: it is known to misread some.

use belfry_isa::encode::{Encoded, encode};
use belfry_isa::inst::{Arch, Format, Inst, Op, Operand};

use super::llvm_mc::Listed;

/// Why LLVM lists nothing where the chip has an instruction.
pub(super) fn unknown(arch: Arch, inst: &Inst) -> Option<&'static str> {
    match arch {
        Arch::Gfx1201 if halves(inst) => Some(
            "high halves in VOP1, VOP2, VOPC: LLVM 22 knows them in no text; encode(decode(x)) was checked",
        ),
        Arch::Gfx1201 if inst.op == Op::V_MOV_B16 => {
            Some("v_mov_b16: LLVM 22 has it with true16 alone; encode(decode(x)) was checked")
        }
        Arch::Gfx1201 if is_below_buffer(inst) => {
            Some("offsets of buffers below 0: LLVM 22 lists none; encode(decode(x)) was checked")
        }
        Arch::Gfx942 | Arch::Gfx950 if matches!(inst.dst, Operand::Agpr(_)) => returns_to_accumulators(inst),
        _ => None,
    }
}

/// The same of atomics that return to accumulation registers.
fn returns_to_accumulators(inst: &Inst) -> Option<&'static str> {
    if matches!(inst.op, Op::GLOBAL_ATOMIC_ADD_F32 | Op::GLOBAL_ATOMIC_PK_ADD_F16) {
        return Some(
            "global_atomic_add_f32 and global_atomic_pk_add_f16 that return to accumulation registers: LLVM 19 has them",
        );
    }
    let doubles = inst.op.mnemonic().contains("_atomic_") && inst.op.mnemonic().ends_with("_f64");
    (doubles && inst.mem.dlc)
        .then_some("sc1 of atomics of doubles that return to accumulation registers: LLVM 19 has it")
}

/// A dot product of integers that chooses halves, with the usual ones.
pub(super) fn with_usual_halves(arch: Arch, inst: &Inst) -> Option<Encoded> {
    let dots =
        matches!(inst.op, Op::V_DOT4_I32_IU8 | Op::V_DOT4_U32_U8 | Op::V_DOT8_I32_IU4 | Op::V_DOT8_U32_U4);
    let mut usual = *inst;
    (usual.mods.op_sel, usual.mods.op_sel_hi) = (0, 7);
    if dots && usual != *inst { encode(arch, &usual).ok() } else { None }
}

/// Why an accumulator that is a scalar register is not compared.
pub(super) const NO_TUPLE: &str =
    "matrices of 32 registers that are scalar ones: LLVM lists one register and that it is invalid";

/// Returns true if `llvm-mc` lists a scalar register, which is invalid, where 32 vector registers belong.
pub(super) fn no_tuple(text: &str) -> bool {
    text.contains("_1024' register class*/") || text.contains("_1024_Align2' register class*/")
}

/// Why a triple of scalar registers that is none is not compared.
pub(super) const NO_TRIPLE: &str =
    "three registers that do not follow each other: LLVM lists others, or nothing, and that they are invalid";

/// Returns true if `text` has a register that is invalid where three scalar ones belong.
pub(super) fn no_triple(text: &str) -> bool {
    text.contains("operand has 'SReg_96' register class*/")
}

/// Why LLVM lists an instruction that is none: it has operands of other chips, or not those that the bits say.
pub(super) fn of_other_chips(text: &str) -> Option<&'static str> {
    if text.contains("src_flat_scratch_base_") {
        return Some("sources 230 and 231, which LLVM 22 reads on every chip and gfx1250 alone has");
    }
    let last = |range: &str| {
        range.split_once(']').and_then(|(numbers, _)| numbers.split_once(':')?.1.parse::<u32>().ok())
    };
    if text.split("v[").chain(text.split("a[")).skip(1).filter_map(last).any(|last| last > 255) {
        return Some("registers that end behind the last one, which LLVM 22 counts on");
    }
    if text.starts_with("v_fma_mix") {
        return Some(
            "gfx9's encodings of v_fma_mix*, which LLVM 22 reads on every chip with these operations",
        );
    }
    text.starts_with("v_interp_").then_some(
        "sources of v_interp_* that are no vector register: LLVM 22 drops the bit that says so if they are halves",
    )
}

/// Why LLVM lists a comparison of halves whose destination, of eight bits, is no scalar register: those are for 16-bit results alone.
pub(super) fn no_destination(text: &str, sample: &[u8]) -> Option<&'static str> {
    let compares = text.starts_with("v_cmp") && text.contains("_f16_e64 ");
    // VOP3, `op_sel` of the third source and of the result set, and a destination behind the scalar registers.
    let strange =
        |bytes: &[u8]| bytes[3] >> 2 == 0b11_0101 && bytes[1] >> 3 & 0b1100 == 0b1100 && bytes[0] >= 0x80;
    (compares && sample.windows(4).step_by(4).any(strange))
        .then_some("v_cmp_*_f16 with op_sel of operands that they lack and no scalar register to write: LLVM 22 lists some")
}

/// Why the text that LLVM writes is not `mine` for an instruction: it is known to misread it.
pub(super) fn otherwise(inst: &Inst, theirs: &Listed, mine: &str) -> Option<&'static str> {
    let narrow = matches!(
        inst.op,
        Op::V_FMA_MIXLO_F16 | Op::V_FMA_MIXHI_F16 | Op::V_CVT_PK_FP8_F32 | Op::V_CVT_PK_BF8_F32
    );
    if no_triple(&theirs.text) && no_triple(mine) {
        return Some(NO_TRIPLE);
    }
    let no_control = |text: &str| text.contains("/* Invalid dpp_ctrl value */");
    if inst.op == Op::V_FMAC_F16 && no_control(&theirs.text) && no_control(mine) {
        return Some("v_fmac_f16 with a permutation that is none: LLVM 22 writes a constant by its code");
    }
    let outside = |text: &str| {
        let (before, rest) = text.split_once(" row_mask:")?;
        let control = [" quad_perm:", " row_", " /* "].iter().filter_map(|name| before.find(name)).min()?;
        Some((before[..control].to_owned(), rest.to_owned()))
    };
    (narrow
        && outside(&theirs.text).is_some()
        && outside(&theirs.text) == outside(mine))
    .then_some(
        "v_fma_mixlo, v_fma_mixhi, v_cvt_pk_*8_f32 with DPP: LLVM 22 loses a bit of the permutation; all else was compared",
    )
}

/// The text with an implied `vcc` after the bars of the operand before it.
pub(super) fn vcc_outside(text: &str) -> String {
    text.replace(", vcc_lo|", "|, vcc_lo").replace(", vcc|", "|, vcc")
}

/// Returns true if the offset of an instruction that goes through a buffer descriptor is negative.
fn is_below_buffer(inst: &Inst) -> bool {
    let scalar = ["s_buffer_", "s_atc_probe_buffer"].iter().any(|name| inst.op.mnemonic().starts_with(name));
    inst.mem.offset < 0 && (scalar || matches!(inst.format, Format::Mubuf | Format::Mtbuf))
}

/// Returns true if a 16-bit operand of a short encoding is the high half of its register.
fn halves(inst: &Inst) -> bool {
    inst.mods.op_sel != 0 && matches!(inst.format, Format::Vop1 | Format::Vop2 | Format::Vopc)
}
