//! Operations on doubles, four at a time.

use crate::exec::di::{Di, Kind, Source};
use crate::tier1::analysis::template::Arithmetic;
use crate::tier1::x86::asm::{Operand, Zmm};
use crate::tier1::x86::avx512::masks::UNORDERED;
use crate::tier1::x86::body::{SIGN, SPILL, scalar};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

use super::lanes::T;
use super::opcodes::*;
use super::pass::Pass;

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
        let in_turn = |value: u32, other: u32| {
            Operand::Eight(core::array::from_fn(|n| if n & 1 == 1 { value } else { other }))
        };
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
}
