//! Operations on doubles, four at a time.

use crate::exec::di::{Di, Kind, Source};
use crate::tier1::analysis::template::{Arithmetic, Whole};
use crate::tier1::x86::asm::{Operand, Zmm};
use crate::tier1::x86::avx512::masks::UNORDERED;
use crate::tier1::x86::body::{SIGN, SPILL, scalar};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

use super::lanes::T;
use super::opcodes::*;
use super::pass::{Pass, constant};

/// A constant for the high words of doubles, and one for the low words.
fn in_turn(value: u32, other: u32) -> Operand {
    Operand::Eight(core::array::from_fn(|n| if n & 1 == 1 { value } else { other }))
}

impl Pass<'_> {
    /// Four of eight doubles of a source: the lower or the upper ones of each four lanes.
    pub(super) fn four(&mut self, source: &Source, upper: bool, to: Zmm) {
        match source.kind {
            Kind::Vector => {
                let low = self.row(source.value);
                let high = self.row(source.value + self.halves);
                self.a.vex(if upper { VUNPCKHPS } else { VUNPCKLPS }, to, low, high);
            }
            Kind::Scalar => {
                self.a.vex(VPBROADCASTQ_VEX, to, Zmm(0), Operand::Splat(scalar(source.value)));
            }
            kind => {
                let value = match kind {
                    Kind::Signed => i64::from(source.value.cast_signed()).cast_unsigned(),
                    Kind::High => u64::from(source.value) << 32,
                    _ => source.value.into(),
                };
                self.a.vex(VPBROADCASTQ_VEX, to, Zmm(0), Operand::Constant64(value));
            }
        }
        if source.abs {
            self.a.vex(VPANDD, to, to, in_turn(!SIGN, u32::MAX));
        }
        if source.neg {
            self.a.vex(VPXORD, to, to, in_turn(SIGN, 0));
        }
    }

    /// An operation on doubles.
    pub(super) fn of_doubles(&mut self, arithmetic: Arithmetic, d: &Di) {
        let [first, a, b, c] = T;
        let sources = &d.src[..arithmetic.arity()];
        for upper in [false, true] {
            for (source, to) in sources.iter().zip([a, b, c]) {
                self.four(source, upper, to);
            }
            match arithmetic {
                Arithmetic::Fused => {
                    // What is added to an invalid product does not matter; there is no register left for the product.
                    self.a.vex(VMOVUPS_STORE, a, Zmm(0), Operand::Memory(SPILL));
                    self.a.vex(VMULPD.narrow(), a, a, b);
                    self.a.vex(VCMPPD.by(UNORDERED).narrow(), a, a, a);
                    self.a.vex(VPANDN, c, a, c);
                    self.a.vex(VMOVUPS_LOAD, a, Zmm(0), Operand::Memory(SPILL));
                    self.a.vex(VFMADD132PD, a, c, b);
                }
                _ => self.a.vex(opcodes::arithmetic(arithmetic).1.narrow(), a, a, b),
            }
            if !upper {
                self.put(first, a);
            }
        }
        self.a.vex(VSHUFPS.by(0x88), b, first, a);
        self.a.vex(VSHUFPS.by(0xdd), c, first, a);
        self.finish(d.dst, b);
        self.finish(d.dst + self.halves, c);
    }

    /// Numbers of 32 bits as doubles.
    pub(super) fn make_doubles(&mut self, from: Whole, d: &Di) {
        let [first, a, second, result] = T;
        let source = self.register(&d.src[0], from == Whole::Single, first);
        // Of each four lanes the lower two, then the upper two, as results are mixed again.
        self.a.vex(VPERMPD.by(0xd8), a, Zmm(0), source);
        if from == Whole::Unsigned {
            self.a.vex(VPXORD, a, a, constant(SIGN));
        }
        self.a.vex(VEXTRACTF128.by(1), a, Zmm(0), second);
        let op = if from == Whole::Single { VCVTPS2PD } else { VCVTDQ2PD };
        for (to, from) in [(first, a), (second, second)] {
            self.a.vex(op, to, Zmm(0), from);
        }
        if from == Whole::Unsigned {
            let half = in_turn((2f64.powi(31).to_bits() >> 32) as u32, 0);
            for to in [first, second] {
                self.a.vex(VADDPD.narrow(), to, to, half);
            }
        }
        self.a.vex(VSHUFPS.by(0x88), a, first, second);
        self.a.vex(VSHUFPS.by(0xdd), result, first, second);
        self.finish(d.dst, a);
        self.finish(d.dst + self.halves, result);
    }

    /// Doubles as singles.
    pub(super) fn make_singles(&mut self, d: &Di) {
        let [first, second, upper, _] = T;
        for (to, is_upper) in [(first, false), (second, true)] {
            self.four(&d.src[0], is_upper, to);
            self.a.vex(VCVTPD2PS.narrow(), to, Zmm(0), to);
        }
        self.a.vex(VUNPCKHPD, upper, first, second);
        self.a.vex(VUNPCKLPD, first, first, second);
        self.a.vex(VINSERTF128.by(1), first, first, upper);
        self.finish(d.dst, first);
    }
}
