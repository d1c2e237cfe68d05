//! Checks of the elements of atomics: those of all active lanes must be aligned, and in range or in one span of the
//! TLB's.

use crate::exec::di::Di;
use crate::tier1::x86::asm::{Condition, Gpr, Integer, Operand, Zmm};
use crate::tier1::x86::atomic::{LANE, of_lane};
use crate::tier1::x86::body::{Body, Cold, EXEC, scalar};
use crate::tier1::x86::encoding::*;

/// Value that the lowest bits of all lanes are compared with.
const EXPECTED: Zmm = Zmm(2);

impl Body<'_> {
    /// Leaves if an element of LDS is out of range or at an address that is no multiple of its size, in waves that have all lanes.
    pub(crate) fn leave_unless_aligned_in_lds(&mut self, d: &Di, size: u32, cold: &Cold) {
        self.leave_unless_in_lds(d.src[0].value, &[d.imm], cold);
        // With the offset these bits are zeros in all lanes.
        self.a.vex(VMOVUPS_LOAD, EXPECTED, Zmm(0), Operand::Eight([d.imm.wrapping_neg(); 8]));
        self.leave_unless_bits_are_expected(d.src[0].value, size, cold);
    }

    /// As [`Body::leave_unless_aligned_in_lds`], in waves with inactive lanes, of elements at an offset; addresses are multiples of `unit`.
    pub(crate) fn look_at_each_in_lds(&mut self, d: &Di, (offset, unit): (u32, u32), cold: &Cold) {
        let place = Gpr::Rcx;
        self.each_lane(|body| {
            body.a.load_element(Integer::Mov, false, place, of_lane(d.src[0].value));
            if offset != 0 {
                body.a.immediate(Integer::Add, false, place, offset);
            }
            body.a.integer(Integer::Cmp, false, place, Gpr::R10);
            body.a.jump_if(Condition::Above, cold.entry);
            if unit > 1 {
                body.a.immediate(Integer::And, false, place, unit - 1);
                body.a.jump_if(Condition::NotEqual, cold.entry);
            }
        });
    }

    /// Leaves unless elements are in one span, each at a multiple of its size, in waves that have all lanes. The first one's
    /// host address is in `Rdx` then, the low half of its address in `Rax`.
    pub(crate) fn leave_unless_aligned_in_span(&mut self, d: &Di, size: u32, cold: &Cold) {
        let low = d.src[0].value;
        self.base_of(d, cold);
        self.a.load(Integer::Mov, false, Gpr::Rax, Self::eight(low, 0));
        self.leave_unless_first_is_aligned(d, size, cold);
        self.in_one_span(d, low, (size, true), cold);
        self.first_of(EXPECTED, low, 0);
        self.leave_unless_bits_are_expected(low, size, cold);
    }

    /// As [`Body::leave_unless_aligned_in_span`], in waves with inactive lanes, of addresses that are multiples of `unit`: the first one is
    /// the lowest that is active.
    pub(crate) fn look_at_each_in_span(&mut self, d: &Di, (size, unit): (u32, u32), cold: &Cold) {
        let (low, high) = (d.src[0].value, d.src[0].value + self.halves);
        let [first, place, first_high] = [Gpr::Rax, Gpr::Rcx, Gpr::R11];
        let has_high = d.dst2 != 2;
        self.a.load(Integer::Mov, self.halves == 2, place, scalar(EXEC));
        self.a.lowest_bit(LANE, place);
        self.a.load_element(Integer::Mov, false, first, of_lane(low));
        if has_high {
            self.a.load_element(Integer::Mov, false, Gpr::Rdx, of_lane(high));
            self.leave_unless_global(cold);
            self.a.shift_by(4, true, Gpr::Rdx, 32);
        } else {
            self.scalar_base(d);
        }
        if unit > 1 {
            self.leave_unless_first_is_aligned(d, unit, cold);
        }
        self.span(d, (size, true), cold);
        if has_high {
            self.a.load_element(Integer::Mov, false, first_high, of_lane(high));
        }
        // Each lane uses the register that its host address is in.
        self.a.integer(Integer::Mov, true, Gpr::R8, Gpr::Rdx);
        self.each_lane(|body| {
            if has_high {
                body.a.load_element(Integer::Cmp, false, first_high, of_lane(high));
                body.a.jump_if(Condition::NotEqual, cold.entry);
            }
            body.a.load_element(Integer::Mov, false, place, of_lane(low));
            if unit > 1 {
                body.a.integer(Integer::Mov, false, Gpr::Rdx, place);
                body.a.integer(Integer::Sub, false, Gpr::Rdx, first);
                body.a.immediate(Integer::And, false, Gpr::Rdx, unit - 1);
                body.a.jump_if(Condition::NotEqual, cold.entry);
            }
            body.a.integer(Integer::Sub, false, place, Gpr::R9);
            body.a.integer(Integer::Cmp, false, place, Gpr::R10);
            body.a.jump_if(Condition::Above, cold.entry);
        });
        self.a.integer(Integer::Mov, true, Gpr::Rdx, Gpr::R8);
    }

    /// Leaves unless all lanes of a row are as expected, as far as the bits below those of the size go.
    fn leave_unless_bits_are_expected(&mut self, row: u32, size: u32, cold: &Cold) {
        let (differs, one) = (Zmm(0), Zmm(1));
        for eight in self.eights() {
            let to = if eight == 0 { differs } else { one };
            self.a.vex(VPXORD, to, EXPECTED, Operand::Memory(Self::eight(row, eight)));
            if eight > 0 {
                self.a.vex(VPORD, differs, differs, one);
            }
        }
        self.a.vex(VPANDD, differs, differs, Operand::Eight([size - 1; 8]));
        self.leave_if_any_bit(differs, cold.entry);
    }
}
