//! Generated tables: the operations, and per architecture how they are encoded.

pub(crate) mod gfx11;
pub(crate) mod gfx12;
pub(crate) mod gfx9;
pub(crate) mod notation;

pub use crate::encoding::Imm;
use crate::encoding::{Decode, Flags, Name, Print, Tables};
use crate::fields;
use crate::inst::{Arch, Format, Inst, Op};

/// The tables of an architecture.
pub(crate) fn of(arch: Arch) -> &'static Tables {
    match arch {
        Arch::Gfx942 | Arch::Gfx950 => &gfx9::GFX9,
        Arch::Gfx1100 | Arch::Gfx1151 => &gfx11::GFX11,
        Arch::Gfx1201 => &gfx12::GFX12,
    }
}

/// Bit of the masks in [`of`] that is the architecture's, by its processor's place among those of its family's tables.
pub(crate) const fn bit(arch: Arch) -> u8 {
    match arch {
        Arch::Gfx942 | Arch::Gfx1100 | Arch::Gfx1201 => 1,
        Arch::Gfx950 | Arch::Gfx1151 => 2,
    }
}

/// The fixed bits of one encoding, for tests that want to meet every one.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Operation; of the X half for VOPD.
    pub op: Op,
    /// Encoding family.
    pub format: Format,
    /// Bits that select it, the first byte in the low bits.
    pub mask: u128,
    /// Their values, and LLVM 22's of bits that no operand has.
    pub value: u128,
    /// Length without a trailing literal.
    pub bytes: u8,
    /// [`Inst::form`] of what it selects.
    pub form: u16,
}

/// Every encoding of an architecture.
pub fn patterns(arch: Arch) -> impl Iterator<Item = Pattern> {
    of_processors(of(arch), move |processors| processors & bit(arch) != 0)
}

/// Every encoding that only other processors of the architecture's family have: none that its code has.
pub fn foreign_patterns(arch: Arch) -> impl Iterator<Item = Pattern> {
    of_processors(of(arch), move |processors| processors & bit(arch) == 0)
}

fn of_processors(
    tables: &'static Tables,
    wanted: impl Fn(u8) -> bool + Copy,
) -> impl Iterator<Item = Pattern> {
    tables.tables.iter().flat_map(move |table| {
        let first = usize::from(table.first);
        tables.groups[first..first + usize::from(table.len)].iter().flat_map(move |group| {
            let first = usize::from(group.first);
            let forms = tables.forms.iter().enumerate().skip(first).take(usize::from(group.len));
            forms.filter(move |(_, form)| wanted(form.processors)).map(move |(index, form)| Pattern {
                op: form.op,
                format: form.format,
                mask: group.mask,
                value: form.value,
                bytes: table.bytes,
                form: index as u16,
            })
        })
    })
}

/// Field of [`Inst`] that holds an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// [`Inst::dst`].
    Dst,
    /// [`Inst::dst2`].
    Dst2,
    /// [`Inst::src`].
    Src(usize),
    /// `dst` of [`Inst::dual`].
    DualDst,
    /// `src` of [`Inst::dual`].
    DualSrc(usize),
}

/// Properties of one operand of an instruction, from the target description.
#[derive(Clone, Copy, Debug)]
pub struct OperandType {
    /// Operand that is described.
    pub place: Place,
    /// 32-bit registers it occupies; of lane masks 0, because the wave size decides.
    pub words: u8,
    /// Type of a constant in its place.
    pub constant: Imm,
    /// True if it is a lane mask.
    pub mask: bool,
    /// True if it has floating-point `neg` and `abs`.
    pub float_modifiers: bool,
    /// True if bit 7 of a vector register's number says which half of it is meant.
    pub halves: bool,
}

/// The register and constant operands that the encoding of `inst` spells out.
pub fn operand_types(arch: Arch, inst: &Inst) -> Vec<OperandType> {
    let tables = of(arch);
    let Some(form) = tables.forms.get(usize::from(inst.form)) else { return Vec::new() };
    let specs = tables.operands_of(form);
    let fmamk = |op: Op| op.constant_place() == Some(1);
    let buffer = inst.format.is_buffer();
    let place = |name: Name| {
        Some(match name {
            Name::Vdst | Name::VdstX => Place::Dst,
            Name::Sdst if form.flags.has(Flags::SDST_IN) => Place::Src(0),
            Name::Sdst if inst.format == Format::Vop3Sd => Place::Dst2,
            Name::Sdst => Place::Dst,
            Name::Src0 | Name::Src0X | Name::Vaddr | Name::Addr | Name::Sbase => Place::Src(0),
            Name::Src1 | Name::Vsrc1X => Place::Src(if fmamk(inst.op) { 2 } else { 1 }),
            Name::Srsrc | Name::Data0 => Place::Src(1),
            Name::Soffset if inst.format == Format::Smem => Place::Src(1),
            Name::Src2 | Name::Soffset | Name::Saddr | Name::Data1 => Place::Src(2),
            Name::Sdata => Place::Src(2),
            Name::Idx => Place::Src(3),
            Name::Vdata if buffer && form.flags.has(Flags::DATA_OUT) => Place::Dst,
            Name::Vdata if buffer => Place::Src(3),
            Name::Vdata => Place::Src(1),
            Name::VdstY => Place::DualDst,
            Name::Src0Y | Name::ScaleSrc0 => Place::DualSrc(0),
            Name::ScaleSrc1 => Place::DualSrc(1),
            Name::Vsrc1Y => Place::DualSrc(usize::from(inst.dual.is_some_and(|dual| fmamk(dual.op))) + 1),
            _ => return None,
        })
    };
    let modifiers = |name: Name| {
        let wanted = match name {
            Name::Src0 => Name::Src0Modifiers,
            Name::Src1 => Name::Src1Modifiers,
            Name::Src2 => Name::Src2Modifiers,
            _ => return false,
        };
        specs.iter().any(|&spec| spec.0 == wanted && tables.kind(spec).print == Print::FpMods)
    };
    specs
        .iter()
        .filter_map(|&spec| {
            let kind = tables.kind(spec);
            if kind.decode == Decode::Imm {
                return None;
            }
            Some(OperandType {
                place: place(spec.0)?,
                words: fields::width(inst, spec.0, kind),
                constant: kind.imm,
                mask: matches!(kind.decode, Decode::Bool | Decode::SdwaVopcDst),
                float_modifiers: modifiers(spec.0),
                halves: matches!(kind.decode, Decode::VgprT16 | Decode::SrcT16),
            })
        })
        .collect()
}
