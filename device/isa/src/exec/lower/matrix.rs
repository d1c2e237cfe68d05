//! Matrix instructions of CDNA3 and CDNA4.

use super::operand::Width;
use super::vector::Operation;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Kind, Role, Source};
use crate::exec::matrix::mfma::{self, Control, scaled};
use crate::exec::vector::op::Format;
use crate::inst::{Inst, Op, Operand};
use crate::wave::TEMP_ROW;

impl Lowering {
    /// `v_mfma_f32_*_f8f6f4` and `v_mfma_scale_*`. There are no formats beyond the five.
    pub(super) fn scaled(&mut self, inst: &Inst) -> Lowered {
        let (aux, sum) = match inst.op {
            Op::V_MFMA_F32_16X16X128_F8F6F4 | Op::V_MFMA_SCALE_F32_16X16X128_F8F6F4 => (16, 4),
            _ => (32, 16),
        };
        let control = Control::encoded(inst.imm);
        let mut src = [Source::ZERO; 3];
        for (n, number) in [control.cbsz, control.blgp].into_iter().enumerate() {
            let format = scaled::FORMATS.get(number as usize).ok_or(Unsupported)?;
            let value = self.row(inst.src[n], format.bits())?;
            src[n] = Source { value, kind: Kind::Vector, ..Source::ZERO };
        }
        src[2] = match inst.src[2] {
            operand @ (Operand::Vgpr(_) | Operand::Agpr(_)) => {
                Source { value: self.row(operand, sum)?, kind: Kind::Vector, ..Source::ZERO }
            }
            constant => self.source(constant, Width { bits: 32, format: Format::F32, signed: true })?,
        };
        let dst = self.row(inst.dst, sum)?;
        let mut dst2 = scaled::NO_SCALES;
        if let Some(scales) = inst.dual {
            dst2 = TEMP_ROW as u32;
            let mut sources = [Source::ZERO; 3];
            for (n, source) in sources.iter_mut().enumerate().take(2) {
                *source = self.source(scales.src[n], Width::B32)?;
            }
            // The byte of each: `op_sel` is the low bit of its number, `op_sel_hi` the high one.
            let byte = |n: u8| inst.mods.op_sel >> n & 1 | (inst.mods.op_sel_hi >> n & 1) << 1;
            let load = Di::new(scaled::load_scales);
            self.role = Role::Operation(scales.op);
            self.emit(Di { dst: dst2, src: sources, aux: byte(0) | byte(1) << 2, ..load });
        }
        self.role = Role::Operation(inst.op);
        self.emit(Di { dst, dst2, src, imm: control.word(), aux, ..Di::new(scaled::run(self.backend)) });
        Ok(())
    }

    /// `v_mfma_*` and `v_smfmac_*`.
    pub(super) fn multiplied(&mut self, o: &Operation<'_>, number: u8, shape: &mfma::Shape) -> Lowered {
        let [a, b, sum] = shape.registers();
        let control = Control::encoded(o.imm);
        // Of doubles the pattern is what is negated.
        let negated = |n: usize| shape.is_double() && control.blgp >> n & 1 != 0;
        let mut src = [Source::ZERO; 3];
        let third = if shape.is_sparse() { 1 } else { sum };
        for (n, registers) in [a, b, third].into_iter().enumerate() {
            src[n] = match o.src[n] {
                operand @ (Operand::Vgpr(_) | Operand::Agpr(_)) => {
                    let value = self.row(operand, registers)?;
                    Source { value, kind: Kind::Vector, ..Source::ZERO }
                }
                constant if n == 2 && !shape.is_sparse() => {
                    let (bits, format) = match (shape.is_double(), shape.is_float()) {
                        (true, _) => (64, Format::F64),
                        (_, true) => (32, Format::F32),
                        _ => (32, Format::Bits),
                    };
                    self.source(constant, Width { bits, format, signed: true })?
                }
                _ => return Err(Unsupported),
            };
            src[n].neg = negated(n);
        }
        let dst = self.row(o.dst, sum)?;
        let handler = shape.handler(self.backend);
        self.emit(Di { dst, src, imm: control.word(), aux: number, ..Di::new(handler) });
        Ok(())
    }
}
