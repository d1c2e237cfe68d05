//! Minima and maxima of halves and doubles. Elements with a NaN are left to the handler.

use super::masks::{EQUAL, SAME, UNORDERED};
use crate::exec::di::{Di, flag};
use crate::tier1::analysis::floats::Float;
use crate::tier1::analysis::template::Extreme;
use crate::tier1::x86::asm::{K0, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, SCRATCH};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

/// The exponent's bits of a double's high word.
const EXPONENT: u32 = 0x7ff0_0000;

impl Body<'_> {
    /// The smaller or larger of two.
    pub(super) fn extreme_of(&mut self, of: Extreme, float: Float, d: &Di) {
        let cold = match float {
            Float::Double => self.extreme_of_doubles(of, d),
            Float::Half | Float::Single => self.extreme_of_halves(of, d),
        };
        self.come_back(cold);
    }

    fn extreme_of_halves(&mut self, of: Extreme, d: &Di) -> Cold {
        let (t0, t1, [any, _]) = (Zmm(0), Zmm(1), SCRATCH);
        let mut first = true;
        for half in self.parts() {
            self.rows.unlock();
            self.load_sources(d, 2, half);
            for chunk in self.chunks() {
                self.half_source(&d.src[0], half, chunk, t0);
                self.half_source(&d.src[1], half, chunk, t1);
                let exec = self.exec(half, chunk);
                self.leave_for(&mut first, VCMPPS.by(UNORDERED), t0, t1, exec);
            }
        }
        let cold = self.leave_if_any(any, any);
        for half in self.parts() {
            self.rows.unlock();
            self.load_sources(d, 2, half);
            let to = self.define_half(d.dst + half);
            for chunk in self.chunks() {
                self.half_source(&d.src[0], half, chunk, t0);
                self.half_source(&d.src[1], half, chunk, t1);
                self.choose(opcodes::extreme(of), Zmm(2), t0, t1.into());
                self.narrow(Zmm(2), 0);
                let mask = self.exec(half, chunk);
                self.put_halves(to.chunk(chunk), Zmm(2), d.flags & flag::DST_HIGH != 0, mask);
            }
        }
        cold
    }

    fn extreme_of_doubles(&mut self, of: Extreme, d: &Di) -> Cold {
        let (t0, t1, t2, t3, [k, _]) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3), SCRATCH);
        let cold = self.leave_unusual(d, 2, |body, first, lanes| {
            let exec = body.exec(lanes.0, lanes.1);
            for source in &d.src[..2] {
                // Infinities are left as well.
                let high = body.high_word(source, lanes, t0);
                body.a.evex(VPANDD, t0, high, Operand::Constant(EXPONENT));
                body.leave_for(first, VPCMPUD.by(SAME), t0, Operand::Constant(EXPONENT), exec);
            }
        });
        let (op, zeros) = match of {
            Extreme::Least => (VMINPD, VPORQ),
            Extreme::Most => (VMAXPD, VPANDQ),
        };
        for half in self.parts() {
            self.rows.unlock();
            self.load_pairs(d, 2, half);
            let (low, high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
            for chunk in self.chunks() {
                for eight in 0..2 {
                    self.double_source(&d.src[0], (half, chunk, eight), t1);
                    self.double_source(&d.src[1], (half, chunk, eight), t2);
                    self.a.compare(VCMPPD.by(EQUAL), k, t1, t2, K0);
                    self.a.evex(op, t3, t1, t2);
                    self.a.masked(zeros, t3, t1, t2, k);
                    if eight == 0 {
                        self.put(t0, t3, K0);
                    }
                }
                self.put(t1, t3, K0);
                let mask = self.exec(half, chunk);
                self.put_words([low.chunk(chunk), high.chunk(chunk)], mask);
            }
        }
        cold
    }
}
