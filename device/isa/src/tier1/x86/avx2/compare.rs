//! Comparisons of eight lanes.

use crate::exec::di::{Di, Source};
use crate::exec::vector::cmp::{EQUAL, GREATER, LESS, Operands, UNORDERED};
use crate::tier1::analysis::classes::{Range, asked, ranges};
use crate::tier1::x86::asm::Zmm;
use crate::tier1::x86::avx512::masks::float_predicate;
use crate::tier1::x86::body::SIGN;
use crate::tier1::x86::encoding::*;

use super::lanes::T;
use super::opcodes::*;
use super::pass::{Pass, constant};

const NONE: u8 = 0;
const ALL: u8 = LESS | EQUAL | GREATER;
const DIFFERENT: u8 = LESS | GREATER;
const AT_MOST: u8 = LESS | EQUAL;

impl Pass<'_> {
    /// A comparison.
    pub(super) fn compare(&mut self, operands: Operands, d: &Di) {
        let [t0, t1, t2, t3] = T;
        match operands {
            Operands::F32 => {
                let a = self.register(&d.src[0], true, t0);
                let b = self.operand(&d.src[1], true, t1);
                self.a.vex(VCMPPS.by(float_predicate(d.aux)), t2, a, b);
                return self.write_mask(d.dst, t2);
            }
            Operands::F16 => {
                self.half_source(&d.src[0], t0);
                self.half_source(&d.src[1], t1);
                self.a.vex(VCMPPS.by(float_predicate(d.aux)), t2, t0, t1);
                return self.write_mask(d.dst, t2);
            }
            Operands::ClassF16 | Operands::ClassF32 | Operands::ClassF64 => {
                return self.compare_class(operands, d);
            }
            Operands::F64 => return self.compare_doubles(d),
            Operands::U64 | Operands::I64 => return self.compare_pairs(operands == Operands::I64, d),
            _ => {}
        }
        let is_half = matches!(operands, Operands::U16 | Operands::I16);
        let a = if is_half { self.upper_half(&d.src[0], t0) } else { self.register(&d.src[0], false, t0) };
        let outcomes = d.aux & !UNORDERED;
        let is_signed = matches!(operands, Operands::I32 | Operands::I16);
        let [first, second] = if is_signed { [VPMINSD, VPMAXSD] } else { [VPMINUD, VPMAXUD] };
        let other = |pass: &mut Self| match is_half {
            true => pass.upper_half(&d.src[1], t1).into(),
            false => pass.operand(&d.src[1], false, t1),
        };
        // By what is equal to `a`: `b`, the smaller one, or the larger one.
        let (op, inverts) = match outcomes {
            0 => (None, false),
            EQUAL => (Some(VPCMPEQD), false),
            _ if outcomes == LESS | GREATER => (Some(VPCMPEQD), true),
            _ if outcomes == LESS | EQUAL => (Some(first), false),
            GREATER => (Some(first), true),
            _ if outcomes == GREATER | EQUAL => (Some(second), false),
            LESS => (Some(second), true),
            _ => (None, true),
        };
        match op {
            None => self.a.vex(VPXORD, t2, t2, t2),
            Some(VPCMPEQD) => {
                let b = other(self);
                self.a.vex(VPCMPEQD, t2, a, b);
            }
            // `a > b` is an instruction of its own.
            Some(_) if is_signed && outcomes == GREATER => {
                let b = other(self);
                self.a.vex(VPCMPGTD, t2, a, b);
                return self.write_mask(d.dst, t2);
            }
            Some(op) => {
                let b = other(self);
                self.a.vex(op, t3, a, b);
                self.a.vex(VPCMPEQD, t2, t3, a);
            }
        }
        if inverts {
            self.invert(t2);
        }
        self.write_mask(d.dst, t2);
    }

    /// A class of floats: ranges of bits, of a double those of a number that is of the same class.
    fn compare_class(&mut self, operands: Operands, d: &Di) {
        let [t0, t1, t2, t3] = T;
        let source = &d.src[0];
        let (a, mantissa, bits) = match operands {
            Operands::ClassF16 => {
                self.half_bits(source, t0);
                (t0, 10, 16)
            }
            Operands::ClassF32 => (self.register(source, true, t0), 23, 32),
            _ => {
                // The high word, with a one where there are any in the low one.
                let [low, high] = self.wide(source);
                self.a.vex(VPCMPEQD, t1, low, constant(0));
                self.a.vex(VPANDN, t1, t1, constant(1));
                self.a.vex(VPORD, t0, t1, high);
                if source.abs {
                    self.a.vex(VPANDD, t0, t0, constant(!SIGN));
                }
                if source.neg {
                    self.a.vex(VPXORD, t0, t0, constant(SIGN));
                }
                (t0, 20, 32)
            }
        };
        self.a.vex(VPXORD, t2, t2, t2);
        for Range { first, last } in ranges(asked(d).unwrap_or_default(), mantissa, bits) {
            self.a.vex(VPSUBD, t1, a, constant(first));
            self.a.vex(VPMINUD, t3, t1, constant(last - first));
            self.a.vex(VPCMPEQD, t3, t3, t1);
            self.a.vex(VPORD, t2, t2, t3);
        }
        self.write_mask(d.dst, t2);
    }

    /// A half of a source in the upper half of a temporary, with zeros below: these are in the order of the halves.
    fn upper_half(&mut self, source: &Source, to: Zmm) -> Zmm {
        let from = self.register(source, false, to);
        if source.high {
            self.a.vex(VPANDD, to, from, constant(0xffff_0000));
        } else {
            self.a.vex_shift(VPSLLD.by(16), to, from);
        }
        to
    }

    /// Doubles, four at a time.
    fn compare_doubles(&mut self, d: &Di) {
        let [first, a, b, _] = T;
        for upper in [false, true] {
            self.four(&d.src[0], upper, a);
            self.four(&d.src[1], upper, b);
            let to = if upper { a } else { first };
            self.a.vex(VCMPPD.by(float_predicate(d.aux)).narrow(), to, a, b);
        }
        self.a.vex(VSHUFPS.by(0x88), first, first, a);
        self.write_mask(d.dst, first);
    }

    /// Integers of 64 bits: their high words decide unless they are the same.
    fn compare_pairs(&mut self, is_signed: bool, d: &Di) {
        let [t0, t1, t2, t3] = T;
        let outcomes = d.aux & (LESS | EQUAL | GREATER);
        // What is less than the other one, and the opposite.
        let (swaps, inverts) = match outcomes {
            NONE | EQUAL | LESS => (false, false),
            GREATER => (true, false),
            AT_MOST => (true, true),
            _ => (false, true),
        };
        let [a, b] = [0, 1].map(|n| self.wide(&d.src[n]));
        let ([low, high], [other_low, other_high]) = if swaps { (b, a) } else { (a, b) };
        match outcomes {
            NONE | ALL => self.a.vex(VPXORD, t2, t2, t2),
            EQUAL | DIFFERENT => {
                self.a.vex(VPCMPEQD, t2, low, other_low);
                self.a.vex(VPCMPEQD, t3, high, other_high);
                self.a.vex(VPANDD, t2, t2, t3);
            }
            _ => {
                // Without signs, numbers are in the order of signed ones half the range away.
                let mut greater = |to: Zmm, a: Zmm, b: Zmm, is_signed: bool| {
                    if is_signed {
                        return self.a.vex(VPCMPGTD, to, a, b);
                    }
                    self.a.vex(VPXORD, t0, a, constant(SIGN));
                    self.a.vex(VPXORD, t1, b, constant(SIGN));
                    self.a.vex(VPCMPGTD, to, t0, t1);
                };
                greater(t2, other_low, low, false);
                greater(t3, other_high, high, is_signed);
                self.a.vex(VPCMPEQD, t0, high, other_high);
                self.a.vex(VPANDD, t2, t2, t0);
                self.a.vex(VPORD, t2, t2, t3);
            }
        }
        if inverts {
            self.invert(t2);
        }
        self.write_mask(d.dst, t2);
    }
}
