//! Operands that are brought to registers of the engine's own before an operation, and results from there after it: parts of
//! registers (SDWA), registers relative to `M0`, pairs that DPP permutes.

use super::operand::Width;
use super::{Di, Lowering, Unsupported};
use crate::encoding::Flags;
use crate::exec::di::{Kind, Source};
use crate::exec::form::Form;
use crate::exec::properties::{Family, properties};
use crate::exec::vector::index::{self, GPR_IDX_EN};
use crate::exec::vector::{dpp, sdwa};
use crate::inst::{Inst, Op, Operand, Sdwa};
use crate::tables;
use crate::tables::{Place, operand_types};
use crate::wave::TEMP_ROW;

/// Registers of the engine's own for each operand.
const EACH: u8 = 4;
/// First register of the destination.
const RESULT: u8 = 3 * EACH;
/// First row of these registers, after those that other preparations use.
const FIRST_ROW: u32 = TEMP_ROW as u32 + 8;

/// Row of a prepared register.
pub(super) fn prepared_row(register: u8, halves: u32) -> u32 {
    FIRST_ROW + u32::from(register) * halves
}

/// The prepared register of source `n`.
fn source(n: usize) -> Operand {
    Operand::Prepared(n as u8 * EACH)
}

/// A row as the only source.
pub(super) fn vector(value: u32) -> [Source; 3] {
    [Source { value, kind: Kind::Vector, ..Source::ZERO }, Source::ZERO, Source::ZERO]
}

/// Operands of an instruction after the preparation.
pub(super) struct Prepared {
    pub(super) dst: Operand,
    pub(super) src: [Operand; 3],
    /// Element that brings the result from its prepared register to the destination, and its form.
    store: Option<(Form, Di)>,
}

impl Lowering {
    /// Emits the steps that prepare the operands of an instruction of the vector ALU.
    pub(super) fn prepare(&mut self, inst: &Inst) -> Result<Prepared, Unsupported> {
        let [a, b, c, _] = inst.src;
        let mut prepared = Prepared { dst: inst.dst, src: [a, b, c], store: None };
        if self.file.unified.is_none() {
            return Ok(prepared);
        }
        if self.mode & GPR_IDX_EN != 0 {
            self.indexed(inst, &mut prepared)?;
        }
        if let Some(sdwa) = inst.sdwa {
            self.parts(sdwa, &mut prepared)?;
        }
        Ok(prepared)
    }

    /// Emits the step that brings a result from a prepared register to the destination.
    pub(super) fn finish(&mut self, prepared: &Prepared) {
        if let Some((form, store)) = prepared.store {
            self.emit_extra_as(form, store);
        }
    }

    /// Returns true if a result of 16 bits leaves zeros in the upper half.
    pub(super) fn zeroes_half(&self, inst: &Inst) -> bool {
        if !self.file.zeroes_halves || matches!(inst.op, Op::V_MAC_F16 | Op::V_MADAK_F16 | Op::V_MADMK_F16) {
            return false;
        }
        let form = tables::of(self.arch).forms.get(usize::from(inst.form));
        form.is_some_and(|form| !form.flags.has(Flags::OPSEL))
    }

    /// Emits a step that keeps only the half of a register that has been written.
    pub(super) fn keep_half(&mut self, row: u32, high: bool) {
        let imm = if high { 0xffff_0000 } else { 0xffff };
        self.emit_extra_as(Form::Keep, Di { dst: row, imm, ..Di::new(sdwa::keep) });
    }

    /// Registers relative to `M0`.
    fn indexed(&mut self, inst: &Inst, prepared: &mut Prepared) -> Result<(), Unsupported> {
        if matches!(inst.op, Op::V_SWAP_B32 | Op::V_WRITELANE_B32)
            || inst.op.swaps_rows()
            || matches!(properties(inst.op).family, Family::Matrix)
        {
            return Err(Unsupported);
        }
        let types = operand_types(self.arch, inst);
        if types.iter().any(|operand| operand.words > EACH) {
            return Err(Unsupported);
        }
        let registers = |place: Place| {
            types.iter().find(|operand| operand.place == place).map_or(1, |operand| operand.words.max(1))
        };
        for n in 0..prepared.src.len() {
            let operand = prepared.src[n];
            let Operand::Vgpr(_) = operand else { continue };
            // What is accumulated into is the destination.
            let accumulates =
                n == 2 && operand == inst.dst && !types.iter().any(|t| t.place == Place::Src(2));
            let (number, count) = match accumulates {
                true => (index::DST, registers(Place::Dst)),
                false => (n as u8, registers(Place::Src(n))),
            };
            let src = vector(self.row(operand, 1)?);
            prepared.src[n] = source(n);
            let dst = self.row(source(n), 1)?;
            let aux = number | count << index::REGISTERS;
            self.emit_extra(Di { dst, src, aux, ..Di::new(index::fetch) });
        }
        if let Operand::Vgpr(_) = inst.dst {
            let row = self.row(inst.dst, 1)?;
            let aux = index::DST | registers(Place::Dst) << index::REGISTERS;
            let own = prepared_row(RESULT, self.halves);
            self.emit_extra(Di { dst: own, src: vector(row), aux, ..Di::new(index::fetch) });
            prepared.dst = Operand::Prepared(RESULT);
            prepared.store =
                Some((Form::Call, Di { dst: row, src: vector(own), aux, ..Di::new(index::store) }));
        }
        Ok(())
    }

    /// Parts of registers.
    fn parts(&mut self, sdwa: Sdwa, prepared: &mut Prepared) -> Result<(), Unsupported> {
        if self.mode & GPR_IDX_EN != 0 {
            return Err(Unsupported);
        }
        for n in 0..2 {
            let extends = sdwa.sext >> n & 1 != 0;
            let register = matches!(prepared.src[n], Operand::Vgpr(_) | Operand::Sgpr(_));
            if sdwa.src_sel[n] == Sdwa::DWORD || !register {
                continue;
            }
            let from = self.source(prepared.src[n], Width::B32)?;
            prepared.src[n] = source(n);
            let dst = self.row(source(n), 1)?;
            let aux = sdwa.src_sel[n] | if extends { sdwa::SIGNED } else { 0 };
            // Compiled code may leave lanes alone that are off: nothing reads them.
            let (first, bits) = sdwa::place(aux);
            let constant = |value: u32| Source { value, ..Source::ZERO };
            let src = [from, constant(first), constant(bits)];
            let form = Form::Vector(if extends { Op::V_BFE_I32 } else { Op::V_BFE_U32 });
            self.emit_extra_as(form, Di { dst, src, aux, ..Di::new(sdwa::extract) });
        }
        if sdwa.dst_sel != Sdwa::DWORD && matches!(prepared.dst, Operand::Vgpr(_)) {
            let dst = self.row(prepared.dst, 1)?;
            let own = prepared_row(RESULT, self.halves);
            self.emit_extra_as(Form::Vector(Op::V_MOV_B32), Di { dst: own, ..Di::new(sdwa::clear) });
            let aux = sdwa.dst_sel | sdwa.dst_unused << sdwa::UNUSED;
            prepared.dst = Operand::Prepared(RESULT);
            prepared.store = Some((Form::Part, Di { dst, src: vector(own), aux, ..Di::new(sdwa::merge) }));
        }
        Ok(())
    }

    /// Emits the permutation of a source of two registers; where it is then.
    pub(super) fn permuted_pair(&mut self, operand: Operand, imm: u32) -> Result<Operand, Unsupported> {
        let src = vector(self.row(operand, 2)?);
        let dst = self.row(source(0), 2)?;
        self.emit_extra(Di { dst, src, imm, aux: 1, ..Di::new(dpp::dpp16_gfx9) });
        Ok(source(0))
    }
}
