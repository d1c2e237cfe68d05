//! Place in [`Inst`] of the register or constant that a form's operand names: the way back from an instruction to its
//! fields.

use crate::encoding::{Flags, Form, Kind, Name};
use crate::halves;
use crate::inst::{Format, Inst, Op, Operand};

/// The register or constant the instruction has as its operand `name`.
pub(crate) fn operand(form: &Form, inst: &Inst, name: Name, kind: &Kind) -> Operand {
    let fmamk = inst.op.constant_place() == Some(1);
    let value = match name {
        Name::Vdst | Name::VdstX => inst.dst,
        Name::Sdst if form.flags.has(Flags::SDST_IN) => inst.src[0],
        Name::Sdst if inst.format == Format::Vop3Sd => inst.dst2,
        Name::Sdst => inst.dst,
        Name::Src0 | Name::Src0X | Name::Vaddr | Name::Vaddr0 | Name::Addr | Name::Sbase => inst.src[0],
        Name::Src1 | Name::Vsrc1X => inst.src[if fmamk { 2 } else { 1 }],
        Name::Srsrc | Name::Rsrc | Name::Data0 => inst.src[1],
        Name::Soffset if inst.format == Format::Smem => inst.src[1],
        Name::Src2 | Name::Soffset | Name::Ssamp | Name::Samp | Name::Saddr | Name::Data1 => inst.src[2],
        Name::Src3 | Name::Idx => inst.src[3],
        Name::Sdata => inst.src[2],
        Name::Vdata => match inst.format {
            format if !format.is_buffer() && !format.is_image() => inst.src[1],
            _ if form.flags.has(Flags::DATA_OUT) => inst.dst,
            _ => inst.src[3],
        },
        Name::Vaddr1 | Name::Vaddr2 | Name::Vaddr3 | Name::Vaddr4 => {
            Operand::Vgpr((inst.mem.offset >> address_shift(name)) as u8)
        }
        Name::Imm | Name::ImmX => constant(inst),
        Name::VdstY => inst.dual.map_or(Operand::None, |dual| dual.dst),
        Name::Src0Y | Name::ScaleSrc0 => inst.dual.map_or(Operand::None, |dual| dual.src[0]),
        Name::ScaleSrc1 => inst.dual.map_or(Operand::None, |dual| dual.src[1]),
        Name::Vsrc1Y => inst
            .dual
            .map_or(Operand::None, |dual| dual.src[if dual.op.constant_place() == Some(1) { 2 } else { 1 }]),
        _ => Operand::None,
    };
    whole(inst, name, kind, value)
}

/// Registers of an operand: those of its kind, except of matrices whose format the instruction says.
pub(crate) fn width(inst: &Inst, name: Name, kind: &Kind) -> u8 {
    let format = match name {
        Name::Src0 => inst.imm,
        Name::Src1 => inst.imm >> 8,
        _ => return kind.width,
    };
    if inst.op.chooses_formats() { registers(format & 7) } else { kind.width }
}

/// Registers of 32 elements of a lane in format 0 to 4: 8-bit floats, 6-bit floats of two kinds each, 4-bit floats. There are no others;
/// LLVM lists them as the largest.
const fn registers(format: u32) -> u8 {
    match format {
        2 | 3 => 6,
        4 => 4,
        _ => 8,
    }
}

/// Returns true if the registers of matrices whose format the instruction says are there.
pub(crate) fn fits(inst: &Inst) -> bool {
    let within = |operand, format: u32| match operand {
        Operand::Vgpr(first) | Operand::Agpr(first) => {
            u32::from(first) + u32::from(registers(format & 7)) <= 256
        }
        _ => true,
    };
    !inst.op.chooses_formats() || within(inst.src[0], inst.imm) && within(inst.src[1], inst.imm >> 8)
}

/// Returns the shift of the byte in [`crate::inst::MemFields::offset`] that holds an image's further address
/// register.
pub(crate) fn address_shift(name: Name) -> u32 {
    match name {
        Name::Vaddr2 => 8,
        Name::Vaddr3 => 16,
        Name::Vaddr4 => 24,
        _ => 0,
    }
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
        Op::S_SETREG_IMM32_B32 => src.first().copied(),
        _ => op.constant_place().and_then(|place| src.get(place).copied()),
    };
    of(inst.op, &inst.src)
        .or_else(|| inst.dual.and_then(|dual| of(dual.op, &dual.src)))
        .unwrap_or(Operand::None)
}
