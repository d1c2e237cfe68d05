//! Stores of elements that are as far from each other each time.

use super::elements::apart;
use super::masks::DIFFERENT;
use super::rows::Pair;
use crate::exec::di::Di;
use crate::tier1::x86::asm::{Condition, Gpr, Integer, K0, Label, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold};
use crate::tier1::x86::encoding::*;

impl Body<'_> {
    /// Elements of four dwords that are further from each other than they are long, by as much each time; `others` is for the rest. The
    /// first lane's address is in `Rax` and temporary 0, what its base is in `Rdx`.
    pub(crate) fn store_fours_in_steps(
        &mut self,
        d: &Di,
        (low, data): (&[Pair], &[Pair]),
        (others, cold): (Label, &Cold),
    ) {
        let (step, size) = (Gpr::Rsi, 16);
        self.first_distance(low);
        self.a.immediate(Integer::Cmp, false, step, size);
        self.a.jump_if(Condition::Below, others);
        // Distances of all lanes are less than 2^31.
        self.a.immediate(Integer::Cmp, false, step, 1 << 24);
        self.a.jump_if(Condition::Above, others);
        let (expected, further) = (Zmm(1), Zmm(2));
        self.a.everywhere(expected, step);
        self.a.shift(VPSLLD.by(4), further, expected, K0);
        self.a.evex(VPMULLD, expected, expected, Operand::Words(*apart(1)));
        self.a.evex(VPADDD, expected, expected, Zmm(0));
        for lanes in self.sixteens() {
            self.unlike(VPCMPUD.by(DIFFERENT), low[lanes.0 as usize].chunk(lanes.1), expected, lanes);
            self.a.evex(VPADDD, expected, expected, further);
        }
        self.leave_if_unlike(others);
        self.one_span(d, low, (size, true), cold);
        for (half, chunk) in self.sixteens() {
            let from = self.of_half(data, half);
            self.store_fours((Gpr::Rdx, step), chunk, &from);
        }
    }
}
