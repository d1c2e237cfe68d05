//! [`Inst`] to bytes: the inverse of the decoder, from the same tables.

use crate::encoding::{CachePolicy, Decode, Kind, Name, Tables, scatter};
use crate::fields;
use crate::halves;
use crate::inst::{Arch, Dpp, Format, Inst, Op, Operand, WaveSize};
use crate::registers::RegisterFile;
use crate::tables;

/// Source number that asks for a literal.
const LITERAL: u32 = 255;
/// Bits of a cache policy with hints (LLVM's `CPol::NV` and `CPol::SCAL`).
pub(crate) const NON_VOLATILE: u32 = 1 << 5;
pub(crate) const SCALE_OFFSET: u32 = 1 << 11;

/// Why an instruction has no encoding.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum EncodeError {
    /// [`Inst::form`] is not one of the architecture's forms.
    #[error("{} has no form {form} in this architecture", op.mnemonic())]
    UnknownForm {
        /// The operation.
        op: Op,
        /// The form asked for.
        form: u16,
    },
    /// An operand is not one the form can hold.
    #[error("{} cannot hold {operand:?} as `{name}`", op.mnemonic())]
    Operand {
        /// The operation.
        op: Op,
        /// LLVM's name of the operand.
        name: &'static str,
        /// Operand that the instruction has in this place.
        operand: Operand,
    },
}

/// The bytes of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    bytes: [u8; 16],
    len: u8,
}

impl Encoded {
    /// The bytes, literal included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Encodes `inst` in its own form. Bits that no operand of the form has a meaning for are as LLVM 22 writes them, 0 nearly all.
/// So of all words that decode to one instruction this gives one, and that decodes to it as well.
///
/// # Errors
///
/// [`EncodeError`] when the form or an operand of it is not one of `arch`.
pub fn encode(arch: Arch, inst: &Inst) -> Result<Encoded, EncodeError> {
    let tables = tables::of(arch);
    let unknown = EncodeError::UnknownForm { op: inst.op, form: inst.form };
    let form = tables.forms.get(usize::from(inst.form)).ok_or(unknown)?;
    let (bytes, _) = shape(tables, inst.form).ok_or(unknown)?;
    let mut bits = form.value;
    let mut trailing = None;
    // Sources share the constant of an encoding that has one.
    let own_constant =
        tables.operands_of(form).iter().any(|&spec| tables.kind(spec).decode == Decode::Literal);
    for &spec in tables.operands_of(form) {
        let field = tables.field(spec);
        if field.is_empty() {
            continue;
        }
        let kind = tables.kind(spec);
        let value = match kind.decode {
            Decode::Imm => number(tables.cache_policy, inst, spec.0),
            _ => {
                let operand = fields::operand(form, inst, spec.0, kind);
                if let (
                    Operand::Literal(literal),
                    Decode::Src
                    | Decode::SrcT16
                    | Decode::Sgpr
                    | Decode::Bool
                    | Decode::SrcAv
                    | Decode::SrcAgpr,
                ) = (operand, kind.decode)
                    && !own_constant
                {
                    trailing = Some(literal);
                }
                source(kind, RegisterFile::of(arch).vcc, operand).ok_or(EncodeError::Operand {
                    op: inst.op,
                    name: spec.0.text(),
                    operand,
                })?
            }
        };
        bits = scatter(bits, field, value);
    }
    if inst.format == Format::Mimg && tables.operands_of(form).iter().any(|spec| spec.0 == Name::Vaddr1) {
        trailing = Some(inst.mem.offset.cast_unsigned());
    }
    bits = halves::write(tables, form, bits, inst.mods.op_sel);
    let mut len = usize::from(bytes);
    let mut encoded = bits.to_le_bytes();
    encoded[len..].fill(0);
    if let Some(literal) = trailing {
        encoded[len..len + 4].copy_from_slice(&literal.to_le_bytes());
        len += 4;
    }
    Ok(Encoded { bytes: encoded, len: u8::try_from(len).unwrap_or(u8::MAX) })
}

/// Bits of the instruction `inst` was decoded from that the decoder does not look at, literal excluded.
///
/// They belong to no operand of its form and select no operation, or they are low bits of an SGPR number below the
/// alignment of the tuple it starts.
pub fn ignored_bits(arch: Arch, wave: WaveSize, inst: &Inst) -> u128 {
    let tables = tables::of(arch);
    let Some(form) = tables.forms.get(usize::from(inst.form)) else { return 0 };
    let Some((bytes, mask)) = shape(tables, inst.form) else { return 0 };
    let file = RegisterFile::of(arch);
    let whole = if bytes < 16 { (1u128 << (u32::from(bytes) * 8)) - 1 } else { u128::MAX };
    let mut read = mask | halves::field(tables, form);
    for &spec in tables.operands_of(form) {
        let (field, kind) = (tables.field(spec), tables.kind(spec));
        let operand = || fields::operand(form, inst, spec.0, kind);
        let unread = match kind.decode {
            Decode::Bool if wave == WaveSize::Wave64 => misalignment(file, operand(), 2),
            Decode::Sgpr | Decode::Src | Decode::SrcAgpr => misalignment(file, operand(), kind.width),
            Decode::SrcAv if matches!(operand(), Operand::Vgpr(_) | Operand::Agpr(_)) => 0,
            Decode::SrcAv => 1 << 9 | misalignment(file, operand(), kind.width),
            Decode::SdwaVopcDst if operand() == Operand::Sgpr(file.vcc) => 0xff,
            Decode::SdwaVopcDst => misalignment(file, operand(), 2),
            _ => 0,
        };
        read |= scatter(0, field, !unread);
    }
    whole & !read
}

/// Returns the bits of the encoding of `inst` (without its literal) that belong to no operand of its form and do not
/// tell the forms of the operation apart: their values change nothing.
pub fn unused_bits(arch: Arch, inst: &Inst) -> u128 {
    let tables = tables::of(arch);
    let Some(form) = tables.forms.get(usize::from(inst.form)) else { return 0 };
    let Some((bytes, mask)) = shape(tables, inst.form) else { return 0 };
    let mut used = mask | halves::field(tables, form);
    for &spec in tables.operands_of(form) {
        used |= scatter(0, tables.field(spec), u32::MAX);
    }
    for table in tables.tables.iter().filter(|table| table.bytes == bytes) {
        let first = usize::from(table.first);
        for group in &tables.groups[first..first + usize::from(table.len)] {
            let first = usize::from(group.first);
            let forms = &tables.forms[first..first + usize::from(group.len)];
            if group.mask & !used != 0
                && forms.iter().any(|other| other.op == form.op && other.processors & form.processors != 0)
            {
                used |= group.mask;
            }
        }
    }
    let whole = if bytes < 16 { (1u128 << (u32::from(bytes) * 8)) - 1 } else { u128::MAX };
    whole & !used
}

/// Bits of an SGPR number that the width of the operand takes no notice of.
fn misalignment(file: &RegisterFile, operand: Operand, width: u8) -> u32 {
    let Operand::Sgpr(number) = operand else { return 0 };
    if file.bank(number).is_none() {
        return 0;
    }
    match width {
        0 | 1 => 0,
        2 => 1,
        width if file.keeps_number(number, u32::from(width)) => 0,
        _ => 3,
    }
}

/// Length without a literal and fixed bits of a form.
fn shape(tables: &Tables, form: u16) -> Option<(u8, u128)> {
    let group =
        tables.groups.iter().position(|group| (group.first..group.first + group.len).contains(&form))?;
    let table = tables
        .tables
        .iter()
        .find(|table| (usize::from(table.first)..usize::from(table.first + table.len)).contains(&group))?;
    Some((table.bytes, tables.groups[group].mask))
}

/// The number of a register or constant in a field of `kind`.
fn source(kind: &Kind, vcc: u8, operand: Operand) -> Option<u32> {
    let vgpr = match kind.decode {
        Decode::Vgpr | Decode::VgprT16 | Decode::VopdDstY | Decode::Av | Decode::AvMemory | Decode::Agpr => 0,
        _ => 256,
    };
    if kind.decode == Decode::SdwaSrc {
        return match operand {
            Operand::Vgpr(number) => Some(number.into()),
            // The bit of what is no VGPR is where others have that of VGPRs.
            other => source_number(256, other).map(|number| number + 256),
        };
    }
    let acc = match kind.decode {
        Decode::Av | Decode::AvMemory | Decode::SrcAv => 1 << 9,
        _ => 0,
    };
    match operand {
        Operand::Agpr(number) => Some(acc + vgpr + u32::from(number)),
        Operand::Sgpr(number) if kind.decode == Decode::SdwaVopcDst && number == vcc => Some(0),
        Operand::Sgpr(number) if kind.decode == Decode::SdwaVopcDst => Some(0x80 | u32::from(number)),
        Operand::Literal(value) if kind.decode == Decode::Literal => Some(value),
        other => source_number(vgpr, other),
    }
}

/// The number of a register or constant among sources, VGPRs from `vgpr` on.
fn source_number(vgpr: u32, operand: Operand) -> Option<u32> {
    Some(match operand {
        Operand::Vgpr(number) => vgpr + u32::from(number),
        _ if vgpr == 0 => return None,
        Operand::None | Operand::Agpr(_) | Operand::Prepared(_) => return None,
        Operand::Sgpr(number) => u32::from(number),
        Operand::InlineInt(value @ 0..) => 128 + u32::from(value.unsigned_abs()),
        Operand::InlineInt(value) => 192 + u32::from(value.unsigned_abs()),
        Operand::InlineFloat(constant) => 240 + constant as u32,
        Operand::Literal(_) => LITERAL,
        Operand::SharedBase => 235,
        Operand::SharedLimit => 236,
        Operand::PrivateBase => 237,
        Operand::PrivateLimit => 238,
        Operand::PopsExitingWaveId => 239,
        Operand::Vccz => 251,
        Operand::Execz => 252,
        Operand::Scc => 253,
        Operand::LdsDirect => 254,
    })
}

/// The number [`Inst`] keeps as the form's `name`.
fn number(policy: CachePolicy, inst: &Inst, name: Name) -> u32 {
    let mem = &inst.mem;
    let bit = u32::from;
    match name {
        Name::Src0Modifiers => modifiers(inst, 0),
        Name::Src1Modifiers => modifiers(inst, 1),
        Name::Src2Modifiers => modifiers(inst, 2),
        Name::Clamp => bit(inst.mods.clamp),
        Name::Omod => u32::from(inst.mods.omod),
        Name::Simm16 | Name::Sdata | Name::Src0 | Name::Src1 | Name::Cbsz => inst.imm,
        Name::Abid => inst.imm >> 4,
        Name::Blgp => inst.imm >> 8,
        Name::DstSel | Name::DstUnused | Name::Src0Sel | Name::Src1Sel => {
            let sdwa = inst.sdwa.unwrap_or_default();
            u32::from(match name {
                Name::DstSel => sdwa.dst_sel,
                Name::DstUnused => sdwa.dst_unused,
                Name::Src0Sel => sdwa.src_sel[0],
                _ => sdwa.src_sel[1],
            })
        }
        Name::Bitop3 | Name::ByteSel | Name::IndexKey8bit | Name::IndexKey16bit => inst.imm,
        Name::Imm => match inst.src[0] {
            Operand::Literal(value) => value,
            _ => 0,
        },
        Name::Offset | Name::Offset0 => mem.offset.cast_unsigned(),
        Name::Offset1 => u32::from(mem.offset1),
        Name::Cpol => match policy {
            CachePolicy::Bits => bit(mem.glc) | bit(mem.slc) << 1 | bit(mem.dlc) << 2,
            CachePolicy::Scopes => bit(mem.glc) | bit(mem.slc) << 1 | bit(mem.dlc) << 4,
            CachePolicy::Hints => {
                let more = [(mem.non_volatile, NON_VOLATILE), (mem.scale_offset, SCALE_OFFSET)];
                more.iter().filter(|(set, _)| *set).fold(0, |policy, (_, bit)| policy | bit)
                    | u32::from(mem.th)
                    | u32::from(mem.scope) << 3
            }
        },
        Name::Gds => bit(mem.gds),
        Name::Format => u32::from(mem.format),
        Name::Tfe => bit(mem.tfe),
        Name::Fi | Name::Dpp8 | Name::DppCtrl | Name::RowMask | Name::BankMask | Name::BoundCtrl => {
            dpp(inst, name)
        }
        Name::Tgt | Name::Attr | Name::Waitexp | Name::Dmask => inst.imm,
        Name::En | Name::Attrchan | Name::R128 => inst.imm >> 8,
        Name::Waitvdst => inst.imm >> 16,
        Name::Waitvsrc => inst.imm >> 20,
        Name::Dim => inst.imm >> 4,
        Name::Unorm => inst.imm >> 7,
        Name::A16 => inst.imm >> 9,
        Name::Lwe => inst.imm >> 10,
        Name::D16 => inst.imm >> 11,
        _ => 0,
    }
}

/// Fields of the DPP dword.
fn dpp(inst: &Inst, name: Name) -> u32 {
    match (inst.dpp, name) {
        (None, Name::Fi) if inst.op.swaps_rows() => u32::from(inst.mods.op_sel) & 1,
        (None, Name::BoundCtrl) if inst.op.swaps_rows() => u32::from(inst.mods.op_sel) >> 1 & 1,
        (Some(Dpp::Dpp8(dpp)), Name::Fi) => 0xe9 + u32::from(dpp.fetch_inactive),
        (Some(Dpp::Dpp8(dpp)), Name::Dpp8) => dpp.selectors,
        (Some(Dpp::Dpp16(dpp)), Name::Fi) => u32::from(dpp.fetch_inactive),
        (Some(Dpp::Dpp16(dpp)), Name::DppCtrl) => u32::from(dpp.ctrl),
        (Some(Dpp::Dpp16(dpp)), Name::RowMask) => u32::from(dpp.row_mask),
        (Some(Dpp::Dpp16(dpp)), Name::BankMask) => u32::from(dpp.bank_mask),
        (Some(Dpp::Dpp16(dpp)), Name::BoundCtrl) => u32::from(dpp.bound_ctrl),
        _ => 0,
    }
}

/// Source modifier bits: 0 negate, 1 absolute or negate high, 2 `op_sel`, 3 `op_sel_hi` or `op_sel` of the destination, 4
/// extend the sign.
fn modifiers(inst: &Inst, source: u32) -> u32 {
    let mods = &inst.mods;
    let bit = |mask: u8| u32::from(mask) >> source & 1;
    let (second, fourth) = if inst.format == Format::Vop3P {
        (bit(mods.abs) | bit(mods.neg_hi), bit(mods.op_sel_hi))
    } else {
        (bit(mods.abs), u32::from(mods.op_sel) >> 3 & 1)
    };
    let sext = inst.sdwa.map_or(0, |sdwa| bit(sdwa.sext));
    bit(mods.neg) | second << 1 | bit(mods.op_sel) << 2 | fourth << 3 | sext << 4
}
