//! Instructions that write vector registers shared by the halves of a wave64.

use super::{Di, Lowered, Lowering};
use crate::exec::di::{Role, Source};
use crate::exec::form::Form;
use crate::exec::properties::{Family, properties};
use crate::exec::waves::shared::{self, lanes};
use crate::inst::{Inst, Op, Operand};

impl Lowering {
    /// Takes note of shared registers among those of a destination, registers `start` to before `end`.
    pub(super) fn note_shared(&mut self, operand: Operand, start: u16, end: u16) {
        if self.shared_from == 0 || end <= self.shared_from || !self.destinations.contains(&operand) {
            return;
        }
        let (first, last) = self.shared_writes.unwrap_or((u16::MAX, 0));
        self.shared_writes = Some((first.min(start.max(self.shared_from)), last.max(end)));
    }

    /// Emits the steps around an operation that writes registers which the halves share.
    pub(super) fn with_shared_writes(
        &mut self,
        inst: &Inst,
        operation: impl FnOnce(&mut Self) -> Lowered,
    ) -> Lowered {
        if self.shared_from == 0 {
            return operation(self);
        }
        let swapped = if matches!(inst.op, Op::V_SWAP_B32 | Op::V_SWAPREL_B32) || inst.op.swaps_rows() {
            inst.src[0]
        } else {
            Operand::None
        };
        self.destinations = [inst.dst, swapped];
        // Which register these write is known only when they run.
        let moved = matches!(
            inst.op,
            Op::V_MOVRELD_B32 | Op::V_MOVRELSD_B32 | Op::V_MOVRELSD_2_B32 | Op::V_SWAPREL_B32
        );
        self.shared_writes = moved.then_some((self.shared_from, self.file.vgprs));
        let before = self.code.len();
        operation(self)?;
        let Some((first, end)) = self.shared_writes.take() else { return Ok(()) };
        let aux = match inst.op {
            Op::V_WRITELANE_B32 => lanes::ONE,
            op if matches!(properties(op).family, Family::Matrix) => lanes::ALL,
            _ => lanes::ACTIVE,
        };
        let src = self.code.last().map_or([Source::ZERO; 3], |element| element.src);
        self.code.insert(before, Di { src, aux, ..Di::new(shared::note) });
        self.roles.insert(before, Role::Step);
        self.forms.insert(before, Form::Call);
        self.offsets.insert(before, self.at);
        self.emit_extra(Di { dst: first.into(), dst2: end.into(), ..Di::new(shared::join) });
        Ok(())
    }
}
