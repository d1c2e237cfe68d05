//! Where [`Inst`] keeps what a form's operand names: the way back from an instruction to its fields.

use crate::encoding::{Flags, Form, Kind, Name};
use crate::halves;
use crate::inst::{Format, Inst, Op, Operand};

/// The register or constant the instruction has as its operand `name`.
pub(crate) fn operand(form: &Form, inst: &Inst, name: Name, kind: &Kind) -> Operand {
    let fmamk = matches!(inst.op, Op::V_FMAMK_F32 | Op::V_FMAMK_F16);
    let value = match name {
        Name::Vdst | Name::VdstX => inst.dst,
        Name::Sdst if form.flags.has(Flags::SDST_IN) => inst.src[0],
        Name::Sdst if inst.format == Format::Vop3Sd => inst.dst2,
        Name::Sdst => inst.dst,
        Name::Src0 | Name::Src0X | Name::Vaddr | Name::Vaddr0 | Name::Addr | Name::Sbase => inst.src[0],
        Name::Src1 | Name::Vsrc1X => inst.src[if fmamk { 2 } else { 1 }],
        Name::Srsrc | Name::Data0 => inst.src[1],
        Name::Soffset if inst.format == Format::Smem => inst.src[1],
        Name::Src2 | Name::Soffset | Name::Ssamp | Name::Saddr | Name::Data1 => inst.src[2],
        Name::Src3 => inst.src[3],
        Name::Vdata => match inst.format {
            Format::Mubuf | Format::Mtbuf | Format::Mimg if form.flags.has(Flags::DATA_OUT) => inst.dst,
            Format::Mubuf | Format::Mtbuf | Format::Mimg => inst.src[3],
            _ => inst.src[1],
        },
        Name::Imm | Name::ImmDeferred => constant(inst),
        Name::VdstY => inst.dual.map_or(Operand::None, |dual| dual.dst),
        Name::Src0Y => inst.dual.map_or(Operand::None, |dual| dual.src[0]),
        Name::Vsrc1Y => {
            inst.dual.map_or(Operand::None, |dual| dual.src[if dual.op == Op::V_FMAMK_F32 { 2 } else { 1 }])
        }
        _ => Operand::None,
    };
    whole(inst, name, kind, value)
}

/// Puts back the bit that selects the high half of a VGPR.
fn whole(inst: &Inst, name: Name, kind: &Kind, value: Operand) -> Operand {
    let bit = halves::bit(inst.op, name);
    match value {
        Operand::Vgpr(number) if kind.class.ends_with("_Lo128") && inst.mods.op_sel & bit != 0 => {
            Operand::Vgpr(number | 0x80)
        }
        _ => value,
    }
}

/// The constant of `v_fmamk`, `v_fmaak`, their VOPD halves and `s_setreg_imm32_b32`.
pub(crate) fn constant(inst: &Inst) -> Operand {
    let of = |op: Op, src: &[Operand]| match op {
        Op::V_FMAMK_F32 | Op::V_FMAMK_F16 => src.get(1).copied(),
        Op::V_FMAAK_F32 | Op::V_FMAAK_F16 => src.get(2).copied(),
        Op::S_SETREG_IMM32_B32 => src.first().copied(),
        _ => None,
    };
    of(inst.op, &inst.src)
        .or_else(|| inst.dual.and_then(|dual| of(dual.op, &dual.src)))
        .unwrap_or(Operand::None)
}
