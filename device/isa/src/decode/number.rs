//! Fields that are numbers and not operands: modifiers, offsets, flags.

use super::{DPP8_FI, DecodeError, Reader, low8};
use crate::encode::{NON_VOLATILE, SCALE_OFFSET};
use crate::encoding::{CachePolicy, Name, Segment};
use crate::inst::{Dpp, Dpp8, Dpp16, Format, Inst, Mods, Op, Operand, Sdwa};

impl Reader {
    /// Puts a number where [`Inst`] keeps it.
    pub(super) fn number(
        &self,
        inst: &mut Inst,
        name: Name,
        value: u64,
        field: &[Segment],
    ) -> Result<(), DecodeError> {
        let value = u32::try_from(value).map_err(|_| self.invalid())?;
        let flag = value != 0;
        match name {
            Name::Src0Modifiers => self.modifiers(inst, 0, value, field),
            Name::Src1Modifiers => self.modifiers(inst, 1, value, field),
            Name::Src2Modifiers => self.modifiers(inst, 2, value, field),
            Name::Clamp => inst.mods.clamp = flag,
            Name::Omod => inst.mods.omod = low8(value),
            Name::Simm16 | Name::Sdata => inst.imm = value,
            Name::Imm => inst.src[0] = Operand::Literal(value),
            // The message of `s_sendmsg_rtn_*`.
            Name::Src0 => inst.imm = value,
            // The index mode of `s_set_gpr_idx_on`.
            Name::Src1 => inst.imm = value,
            Name::Offset => {
                let bits = field.iter().map(|&Segment(_, _, len)| u32::from(len)).sum();
                // The formats of 24 bits are signed. Of FLAT with fewer LLVM reads 13; the format has 12 and no sign.
                let signed =
                    matches!(inst.format, Format::Smem | Format::Global | Format::Scratch) || bits == 24;
                inst.mem.offset = if signed { sign_extend(value, bits) } else { value.cast_signed() };
            }
            Name::Offset0 => inst.mem.offset = value.cast_signed(),
            Name::Offset1 => inst.mem.offset1 = low8(value),
            Name::Cpol => match self.tables.cache_policy {
                CachePolicy::Bits => {
                    inst.mem.glc |= value & 1 != 0;
                    inst.mem.slc = value & 2 != 0;
                    inst.mem.dlc = value & 4 != 0;
                }
                CachePolicy::Scopes => {
                    inst.mem.glc |= value & 1 != 0;
                    inst.mem.slc = value & 2 != 0;
                    inst.mem.dlc = value & 16 != 0;
                }
                CachePolicy::Hints => {
                    inst.mem.th = low8(value & 7) | u8::from(inst.mem.glc);
                    inst.mem.scope = low8(value >> 3 & 3);
                    inst.mem.non_volatile = value & NON_VOLATILE != 0;
                    inst.mem.scale_offset = value & SCALE_OFFSET != 0;
                }
            },
            Name::Gds => inst.mem.gds = flag,
            Name::Format => inst.mem.format = low8(value),
            Name::Fi if inst.op.swaps_rows() => inst.mods.op_sel |= low8(value & 1),
            Name::BoundCtrl if inst.op.swaps_rows() => inst.mods.op_sel |= low8(value & 1) << 1,
            Name::Fi => self.fetch_inactive(inst, value)?,
            Name::Dpp8 => {
                inst.dpp = Some(Dpp::Dpp8(Dpp8 { selectors: value, fetch_inactive: false }));
            }
            Name::DppCtrl | Name::RowMask | Name::BankMask | Name::BoundCtrl => dpp16(inst, name, value),
            Name::Tgt => inst.imm |= value,
            Name::En => inst.imm |= value << 8,
            Name::Attr | Name::Waitexp => inst.imm |= value,
            Name::Attrchan => inst.imm |= value << 8,
            Name::Waitvdst => inst.imm |= value << 16,
            Name::Waitvsrc => inst.imm |= value << 20,
            Name::DstSel | Name::DstUnused | Name::Src0Sel | Name::Src1Sel => {
                self.sub_dword(inst, name, value)?;
            }
            Name::Cbsz => inst.imm |= value,
            Name::Abid => inst.imm |= value << 4,
            Name::Blgp => inst.imm |= value << 8,
            Name::Bitop3 | Name::ByteSel | Name::IndexKey8bit | Name::IndexKey16bit => inst.imm = value,
            Name::Dmask => inst.imm |= value,
            Name::Dim => inst.imm |= value << 4,
            Name::Unorm => inst.imm |= value << 7,
            Name::R128 => inst.imm |= value << 8,
            Name::A16 => inst.imm |= value << 9,
            Name::Lwe => inst.imm |= value << 10,
            Name::D16 => inst.imm |= value << 11,
            Name::Tfe => inst.mem.tfe = flag,
            _ => {}
        }
        Ok(())
    }

    /// Source modifier bits: 0 negate, 1 absolute or negate high, 2 `op_sel`, 3 `op_sel_hi` or `op_sel` of the destination, 4
    /// extend the sign.
    fn modifiers(&self, inst: &mut Inst, source: u32, value: u32, field: &[Segment]) {
        let bit = 1u8 << source;
        if value & 16 != 0 {
            parts(inst).sext |= bit;
        }
        let mods = &mut inst.mods;
        let mut set = |mask: u32, field: fn(&mut Mods) -> &mut u8, bit: u8| {
            if value & mask != 0 {
                *field(mods) |= bit;
            }
        };
        set(1, |mods| &mut mods.neg, bit);
        set(4, |mods| &mut mods.op_sel, bit);
        if self.form.format == Format::Vop3P {
            // `v_fma_mix*` are in this encoding but have no high half to negate.
            let mix = matches!(self.form.op, Op::V_FMA_MIX_F32 | Op::V_FMA_MIXLO_F16 | Op::V_FMA_MIXHI_F16);
            set(2, if mix { |mods| &mut mods.abs } else { |mods| &mut mods.neg_hi }, bit);
            let encoded = field.iter().any(|&Segment(_, shift, len)| (shift..shift + len).contains(&3));
            if encoded && value & 8 == 0 {
                mods.op_sel_hi &= !bit;
            }
        } else {
            set(2, |mods| &mut mods.abs, bit);
            set(8, |mods| &mut mods.op_sel, 8);
        }
    }

    /// Fields of the SDWA dword. The last number of each is none.
    fn sub_dword(&self, inst: &mut Inst, name: Name, value: u32) -> Result<(), DecodeError> {
        let sdwa = parts(inst);
        let (field, most) = match name {
            Name::DstSel => (&mut sdwa.dst_sel, 6),
            Name::DstUnused => (&mut sdwa.dst_unused, 2),
            Name::Src0Sel => (&mut sdwa.src_sel[0], 6),
            _ => (&mut sdwa.src_sel[1], 6),
        };
        if value > most {
            return Err(self.invalid());
        }
        *field = low8(value);
        Ok(())
    }

    fn fetch_inactive(&self, inst: &mut Inst, value: u32) -> Result<(), DecodeError> {
        match &mut inst.dpp {
            Some(Dpp::Dpp16(dpp)) => dpp.fetch_inactive = value != 0,
            Some(Dpp::Dpp8(dpp)) => {
                if !DPP8_FI.contains(&u64::from(value)) {
                    return Err(self.invalid());
                }
                dpp.fetch_inactive = u64::from(value) == DPP8_FI[1];
            }
            None => return Err(self.invalid()),
        }
        Ok(())
    }
}

/// The parts of registers that an instruction takes, which are whole ones at first.
fn parts(inst: &mut Inst) -> &mut Sdwa {
    let whole = Sdwa { dst_sel: Sdwa::DWORD, src_sel: [Sdwa::DWORD; 2], ..Sdwa::default() };
    inst.sdwa.get_or_insert(whole)
}

/// Fields of the DPP16 dword.
fn dpp16(inst: &mut Inst, name: Name, value: u32) {
    let mut dpp = match inst.dpp {
        Some(Dpp::Dpp16(dpp)) => dpp,
        _ => Dpp16 { ctrl: 0, row_mask: 0, bank_mask: 0, bound_ctrl: false, fetch_inactive: false },
    };
    match name {
        Name::DppCtrl => dpp.ctrl = u16::try_from(value).unwrap_or(u16::MAX),
        Name::RowMask => dpp.row_mask = low8(value),
        Name::BankMask => dpp.bank_mask = low8(value),
        _ => dpp.bound_ctrl = value != 0,
    }
    inst.dpp = Some(Dpp::Dpp16(dpp));
}

const fn sign_extend(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)).cast_signed() >> (32 - bits)
}
