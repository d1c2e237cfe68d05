//! Stores of elements that are as far from each other each time, and of some lanes.

use super::elements::apart;
use super::masks::DIFFERENT;
use super::rows::Pair;
use crate::exec::di::Di;
use crate::tier1::x86::asm::{Condition, Gpr, Integer, K0, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, EXEC, scalar};
use crate::tier1::x86::encoding::*;

impl Body<'_> {
    /// Elements of some dwords of the active lanes, which are as far from each other as if all lanes' followed each other. The first active
    /// lane's address is in `Rax` and temporary 0, what its base is in `Rdx`.
    pub(crate) fn scatter_elements(
        &mut self,
        d: &Di,
        (low, data): (&[Pair], &[Pair]),
        dwords: u32,
        cold: &Cold,
    ) {
        let (lane, factor, size) = (Gpr::Rsi, Gpr::Rcx, dwords * 4);
        self.a.load(Integer::Mov, self.halves == 2, lane, scalar(EXEC));
        self.a.lowest_bit(lane, lane);
        self.a.immediate(Integer::Mov, false, factor, size);
        self.a.multiply(lane, factor);
        let (expected, before) = (Zmm(1), Zmm(2));
        self.a.everywhere(before, lane);
        self.a.evex(VPSUBD, expected, Zmm(0), before);
        self.a.evex(VPADDD, expected, expected, Operand::Words(*apart(size)));
        for lanes in self.sixteens() {
            self.unlike(VPCMPUD.by(DIFFERENT), low[lanes.0 as usize].chunk(lanes.1), expected, lanes);
            self.a.evex(VPADDD, expected, expected, Operand::Constant(16 * size));
        }
        self.leave_if_unlike(cold.entry);
        self.one_span(d, low, (size, true), cold);
        for lanes in self.sixteens() {
            let (half, chunk) = lanes;
            self.a.evex(VPSUBD, Zmm(1), low[half as usize].chunk(chunk), Zmm(0));
            for from in self.of_half(data, half) {
                self.scatter_sixteen(Gpr::Rdx, Zmm(1), from.chunk(chunk), lanes);
                self.a.evex(VPADDD, Zmm(1), Zmm(1), Operand::Constant(4));
            }
        }
    }

    /// Elements of four dwords that are further from each other than they are long, by as much each time. The first lane's address is
    /// in `Rax` and temporary 0, what its base is in `Rdx`.
    pub(crate) fn store_fours_in_steps(&mut self, d: &Di, (low, data): (&[Pair], &[Pair]), cold: &Cold) {
        let (step, size) = (Gpr::Rsi, 16);
        self.first_distance(low);
        self.a.immediate(Integer::Cmp, false, step, size);
        self.a.jump_if(Condition::Below, cold.entry);
        // Distances of all lanes are less than 2^31.
        self.a.immediate(Integer::Cmp, false, step, 1 << 24);
        self.a.jump_if(Condition::Above, cold.entry);
        let (expected, further) = (Zmm(1), Zmm(2));
        self.a.everywhere(expected, step);
        self.a.shift(VPSLLD.by(4), further, expected, K0);
        self.a.evex(VPMULLD, expected, expected, Operand::Words(*apart(1)));
        self.a.evex(VPADDD, expected, expected, Zmm(0));
        for lanes in self.sixteens() {
            self.unlike(VPCMPUD.by(DIFFERENT), low[lanes.0 as usize].chunk(lanes.1), expected, lanes);
            self.a.evex(VPADDD, expected, expected, further);
        }
        self.leave_if_unlike(cold.entry);
        self.one_span(d, low, (size, true), cold);
        for (half, chunk) in self.sixteens() {
            let from = self.of_half(data, half);
            self.store_fours((Gpr::Rdx, step), chunk, &from);
        }
    }
}
