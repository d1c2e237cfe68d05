//! Operations on singles that leave unusual numbers to their handlers: minima and maxima, and the steps of a division.

use super::masks::{EQUAL, GREATER, UNORDERED};
use crate::exec::di::Di;
use crate::inst::Op;
use crate::registers::slot;
use crate::tier1::analysis::template::{Arithmetic, Extreme};
use crate::tier1::x86::asm::{Condition, Gpr, Integer, K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, EXEC, SCRATCH, SIGN, scalar};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes::extreme;

/// An instruction that chooses one of two, and what zeros of both signs become by.
type Choice = (Evex, Evex);

/// Classes of `vfpclassps`: NaNs, and all that is no normal number.
const NAN: u8 = 0x81;
const NOT_NORMAL: u8 = 0xbf;

const INFINITY: u32 = 0x7f80_0000;
/// The unit of exponents.
const ONE: u32 = 1 << 23;
/// Predicate of `vpcmpud`: at least.
pub(super) const AT_LEAST: u8 = 5;
/// Quotients are zeros if the exponents of their numbers are further apart than that.
const FURTHEST: u32 = 150 * ONE;

/// Exponents for which `v_div_scale_*` changes nothing: of the denominator less, of the numerator more, and apart less; and their unit.
pub(super) struct Limits {
    pub(super) large: u32,
    pub(super) tiny: u32,
    pub(super) far: u32,
    pub(super) one: u32,
}

const LIMITS: Limits = Limits { large: 253 * ONE, tiny: 24 * ONE, far: 96 * ONE, one: ONE };

impl Body<'_> {
    /// Adds lanes to those that are left to the handler.
    pub(super) fn leave_for(
        &mut self,
        first: &mut bool,
        op: Evex,
        a: Zmm,
        b: impl Into<Operand>,
        exec: Mask,
    ) {
        let [any, these] = SCRATCH;
        let to = if core::mem::take(first) { any } else { these };
        self.a.compare(op, to, a, b, exec);
        if to == these {
            self.a.mask(KORW, any, any, these);
        }
    }

    /// Adds lanes in which a register is of some classes.
    fn leave_for_classes(&mut self, first: &mut bool, classes: u8, a: Zmm, exec: Mask) {
        self.leave_for(first, VFPCLASSPS.by(classes), Zmm(0), a, exec);
    }

    /// The smaller or larger of two, of zeros of both signs the right one; mask 5 is used.
    pub(super) fn choose(&mut self, (op, zeros): Choice, to: Zmm, a: Zmm, b: Operand) {
        let [k, _] = SCRATCH;
        self.a.compare(VCMPPS.by(EQUAL), k, a, b, K0);
        self.a.evex(op, to, a, b);
        self.a.masked(zeros, to, a, b, k);
    }

    /// Leaves the element to the handler if a source has a NaN.
    fn leave_nans(&mut self, d: &Di, arity: usize, half: u32) -> Cold {
        let [any, _] = SCRATCH;
        self.load_sources(d, arity, half);
        let mut first = true;
        for chunk in 0..2 {
            let exec = self.exec(half, chunk);
            let a = self.register(&d.src[0], true, half, chunk, Zmm(0));
            let b = self.operand(&d.src[1], true, half, chunk, Zmm(1));
            self.leave_for(&mut first, VCMPPS.by(UNORDERED), a, b, exec);
            if arity > 2 {
                let c = self.register(&d.src[2], true, half, chunk, Zmm(2));
                self.leave_for(&mut first, VCMPPS.by(UNORDERED), c, c, exec);
            }
        }
        self.leave_if_any(any, any)
    }

    /// The smaller or larger of two: NaNs are left to the handler, by the way that is returned.
    pub(crate) fn extreme(&mut self, of: Choice, d: &Di, half: u32) -> Cold {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let cold = self.leave_nans(d, 2, half);
        let to = self.define(d.dst + half);
        for chunk in 0..2 {
            let a = self.register(&d.src[0], true, half, chunk, t0);
            let b = self.operand(&d.src[1], true, half, chunk, t1);
            self.choose(of, t2, a, b);
            let mask = self.exec(half, chunk);
            self.put(to.chunk(chunk), t2, mask);
        }
        cold
    }

    /// `second(first(a, b), c)`.
    pub(crate) fn extremes(&mut self, first: Choice, second: Choice, d: &Di, half: u32) -> Cold {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let cold = self.leave_nans(d, 3, half);
        let to = self.define(d.dst + half);
        for chunk in 0..2 {
            let a = self.register(&d.src[0], true, half, chunk, t0);
            let b = self.operand(&d.src[1], true, half, chunk, t1);
            self.choose(first, t2, a, b);
            let c = self.operand(&d.src[2], true, half, chunk, t1);
            self.choose(second, t3, t2, c);
            let mask = self.exec(half, chunk);
            self.put(to.chunk(chunk), t3, mask);
        }
        cold
    }

    /// The number in the middle.
    pub(crate) fn median(&mut self, d: &Di, half: u32) -> Cold {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let [least, most] = [Extreme::Least, Extreme::Most].map(extreme);
        let cold = self.leave_nans(d, 3, half);
        let to = self.define(d.dst + half);
        for chunk in 0..2 {
            let a = self.register(&d.src[0], true, half, chunk, t0);
            let b = self.operand(&d.src[1], true, half, chunk, t1);
            self.choose(most, t2, a, b);
            let c = self.operand(&d.src[2], true, half, chunk, t1);
            self.choose(least, t3, t2, c);
            let a = self.register(&d.src[0], true, half, chunk, t0);
            let b = self.operand(&d.src[1], true, half, chunk, t1);
            self.choose(least, t2, a, b);
            self.choose(most, t0, t2, t3.into());
            let mask = self.exec(half, chunk);
            self.put(to.chunk(chunk), t0, mask);
        }
        cold
    }

    /// `v_div_fixup_f32` of normal numbers and a quotient that is a number: the quotient with the right sign.
    pub(crate) fn divide_fixup(&mut self, d: &Di, half: u32) -> Cold {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let [any, _] = SCRATCH;
        self.load_sources(d, 3, half);
        let mut first = true;
        for chunk in 0..2 {
            let exec = self.exec(half, chunk);
            let quotient = self.register(&d.src[0], true, half, chunk, t0);
            self.leave_for_classes(&mut first, NAN, quotient, exec);
            for (n, t) in [(1, t1), (2, t2)] {
                let number = self.register(&d.src[n], true, half, chunk, t);
                self.leave_for_classes(&mut first, NOT_NORMAL, number, exec);
                self.a.evex(VPANDD, t, number, Operand::Constant(INFINITY));
            }
            self.a.evex(VPSUBD, t1, t1, t2);
            self.leave_for(&mut first, VPCMPD.by(GREATER), t1, Operand::Constant(FURTHEST), exec);
        }
        let cold = self.leave_if_any(any, any);
        let to = self.define(d.dst + half);
        for chunk in 0..2 {
            let denominator = self.register(&d.src[1], true, half, chunk, t1);
            let numerator = self.operand(&d.src[2], true, half, chunk, t2);
            self.a.evex(VPXORD, t1, denominator, numerator);
            self.a.evex(VPANDD, t1, t1, Operand::Constant(SIGN));
            let quotient = self.register(&d.src[0], true, half, chunk, t0);
            self.a.evex(VPANDD, t0, quotient, Operand::Constant(!SIGN));
            let mask = self.exec(half, chunk);
            self.a.masked(VPORD, to.chunk(chunk), t0, t1, mask);
        }
        cold
    }

    /// A step of a division that has a mask.
    pub(crate) fn division(&mut self, op: Op, d: &Di) {
        match op {
            Op::V_DIV_SCALE_F32 => self.divide_scale(d),
            Op::V_DIV_SCALE_F64 => self.scale_doubles(d),
            Op::V_DIV_FMAS_F32 => self.sum_unscaled(d, |body, half| body.fused_row(d, half)),
            _ => self.sum_unscaled(d, |body, half| body.of_doubles(Arithmetic::Fused, d, half)),
        }
    }

    /// `v_div_scale_f32` of normal numbers that need no scaling.
    fn divide_scale(&mut self, d: &Di) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let [any, _] = SCRATCH;
        let mut first = true;
        for half in self.parts() {
            self.rows.unlock();
            self.load_sources(d, 3, half);
            for chunk in 0..2 {
                let exec = self.exec(half, chunk);
                let number = self.register(&d.src[0], true, half, chunk, t0);
                self.leave_for_classes(&mut first, NOT_NORMAL, number, exec);
                for (n, t) in [(1, t1), (2, t2)] {
                    let number = self.register(&d.src[n], true, half, chunk, t);
                    self.leave_for_classes(&mut first, NOT_NORMAL, number, exec);
                    self.a.evex(VPANDD, t, number, Operand::Constant(INFINITY));
                }
                self.leave_for_scaled(&mut first, &LIMITS, exec);
            }
        }
        let cold = self.leave_if_any(any, any);
        for half in self.parts() {
            self.rows.unlock();
            self.load_sources(d, 1, half);
            let to = self.define(d.dst + half);
            for chunk in 0..2 {
                let number = self.register(&d.src[0], true, half, chunk, t0);
                let mask = self.exec(half, chunk);
                self.put(to.chunk(chunk), number, mask);
            }
        }
        self.end_unscaled(d, cold);
    }

    /// Leaves lanes to the handler whose numbers `v_div_scale_*` may scale: exponents of the denominator and the numerator are in temporaries
    /// 1 and 2; 0 and 1 are used.
    pub(super) fn leave_for_scaled(&mut self, first: &mut bool, of: &Limits, exec: Mask) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        self.leave_for(first, VPCMPUD.by(AT_LEAST), t1, Operand::Constant(of.large), exec);
        // Less than the numerator's least, which is one more than what is tiny.
        self.a.evex(VPSUBD, t0, t2, Operand::Constant(of.tiny + of.one));
        self.leave_for(first, VPCMPUD.by(AT_LEAST), t0, Operand::Constant(SIGN), exec);
        self.a.evex(VPSUBD, t1, t1, t2);
        self.a.evex(VPADDD, t1, t1, Operand::Constant(of.far - of.one));
        self.leave_for(first, VPCMPUD.by(AT_LEAST), t1, Operand::Constant(2 * of.far - of.one), exec);
    }

    /// The end of `v_div_scale_*` of numbers that need no scaling.
    pub(super) fn end_unscaled(&mut self, d: &Di, cold: Cold) {
        if d.dst2 != slot::DUMP as u32 {
            // No quotient is to be scaled back.
            self.a.immediate(Integer::Mov, true, Gpr::Rax, 0);
            self.a.store(self.halves == 2, scalar(d.dst2), Gpr::Rax);
        }
        self.come_back(cold);
    }

    /// The fused sum of `v_div_fmas_*` where no quotient is to be scaled back, by `sum` for each half.
    pub(super) fn sum_unscaled(&mut self, d: &Di, sum: impl Fn(&mut Self, u32)) {
        let wide = self.halves == 2;
        let cold = self.leave();
        self.a.load(Integer::Mov, wide, Gpr::Rax, scalar(d.imm));
        self.a.load(Integer::And, wide, Gpr::Rax, scalar(EXEC));
        self.a.jump_if(Condition::NotEqual, cold.entry);
        for half in self.parts() {
            self.rows.unlock();
            sum(self, half);
        }
        self.come_back(cold);
    }
}
