//! Matrix instructions of CDNA3.

use super::operand::Width;
use super::vector::Operation;
use super::{Di, Lowered, Lowering, Unsupported};
use crate::exec::di::{Kind, Source};
use crate::exec::matrix::mfma::{self, Control};
use crate::exec::vector::op::Format;
use crate::inst::Operand;

impl Lowering {
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
