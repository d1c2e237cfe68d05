//! Steps of a division of doubles, of usual numbers; and conversions from and to doubles.
//!
//! Exponents are in the high words, which decide alone whether numbers are usual. Everything else is left to the handler.

use super::guarded::{AT_LEAST, Limits};
use crate::exec::di::{Di, Kind, Source};
use crate::tier1::analysis::template::Whole;
use crate::tier1::x86::asm::{K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, SCRATCH, SIGN};
use crate::tier1::x86::encoding::*;

/// The exponent's bits of a high word, and its unit.
const EXPONENT: u32 = 0x7ff0_0000;
const ONE: u32 = 1 << 20;

/// See [`Limits`].
const LIMITS: Limits = Limits { large: 2045 * ONE, tiny: 53 * ONE, far: 768 * ONE, one: ONE };

/// Quotients are zeros if the exponents of their numbers are further apart than that.
const FURTHEST: u32 = 1075 * ONE;
/// Predicate of `vpcmpd`.
const GREATER: u8 = 6;

/// Sixteen lanes.
pub(super) type Lanes = (u32, u8);

impl Body<'_> {
    /// Loads both rows of the first `count` sources.
    pub(super) fn load_pairs(&mut self, d: &Di, count: usize, half: u32) {
        for source in d.src[..count].iter().filter(|source| source.kind == Kind::Vector) {
            self.load_row(source.value + half);
            self.load_row(source.value + self.halves + half);
        }
    }

    /// The high words of a source, with its sign, in a temporary or a row's register.
    pub(super) fn high_word(&mut self, source: &Source, (half, chunk): Lanes, to: Zmm) -> Zmm {
        let (_, high) = self.wide(source, half, chunk);
        let mut from = self.reach(to, high);
        for (is_so, op, constant) in [(source.abs, VPANDD, !SIGN), (source.neg, VPXORD, SIGN)] {
            if is_so {
                self.a.evex(op, to, from, Operand::Constant(constant));
                from = to;
            }
        }
        from
    }

    /// Exponents of a source in a temporary; lanes whose number is not a usual one are left to the handler. Temporary 3 is used.
    fn exponents(&mut self, first: &mut bool, source: &Source, lanes: Lanes, to: Zmm) {
        let (exec, t3) = (self.exec(lanes.0, lanes.1), Zmm(3));
        let high = self.high_word(source, lanes, to);
        self.a.evex(VPANDD, to, high, Operand::Constant(EXPONENT));
        self.a.evex(VPSUBD, t3, to, Operand::Constant(ONE));
        self.leave_for(first, VPCMPUD.by(AT_LEAST), t3, Operand::Constant(EXPONENT - ONE), exec);
    }

    /// Looks at all lanes of some sources, and leaves the element to the handler if `unusual` has collected one.
    pub(super) fn leave_unusual(
        &mut self,
        d: &Di,
        sources: usize,
        unusual: impl Fn(&mut Self, &mut bool, Lanes),
    ) -> Cold {
        let [any, _] = SCRATCH;
        let mut first = true;
        for half in self.parts() {
            self.rows.unlock();
            self.load_pairs(d, sources, half);
            for chunk in self.chunks() {
                unusual(self, &mut first, (half, chunk));
            }
        }
        self.leave_if_any(any, any)
    }

    /// `v_div_scale_f64` of usual numbers that need no scaling.
    pub(super) fn scale_doubles(&mut self, d: &Di) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let cold = self.leave_unusual(d, 3, |body, first, lanes| {
            for (n, t) in [(0, t0), (1, t1), (2, t2)] {
                body.exponents(first, &d.src[n], lanes, t);
            }
            let exec = body.exec(lanes.0, lanes.1);
            body.leave_for_scaled(first, &LIMITS, exec);
        });
        for half in self.parts() {
            self.rows.unlock();
            self.load_pairs(d, 1, half);
            let (to_low, to_high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
            for chunk in self.chunks() {
                // One may be where the other goes.
                let (low, _) = self.wide(&d.src[0], half, chunk);
                self.in_register(t0, low);
                let high = self.high_word(&d.src[0], (half, chunk), t1);
                self.put(t1, high, K0);
                let mask = self.exec(half, chunk);
                self.put(to_low.chunk(chunk), t0, mask);
                self.put(to_high.chunk(chunk), t1, mask);
            }
        }
        self.end_unscaled(d, cold);
    }

    /// `v_div_fixup_f64` of usual numbers and a quotient that is finite: the quotient with the right sign.
    pub(super) fn fix_up_doubles(&mut self, d: &Di) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let cold = self.leave_unusual(d, 3, |body, first, lanes| {
            let exec = body.exec(lanes.0, lanes.1);
            let quotient = body.high_word(&d.src[0], lanes, t0);
            body.a.evex(VPANDD, t0, quotient, Operand::Constant(EXPONENT));
            body.leave_for(first, VPCMPUD.by(AT_LEAST), t0, Operand::Constant(EXPONENT), exec);
            for (n, t) in [(1, t1), (2, t2)] {
                body.exponents(first, &d.src[n], lanes, t);
            }
            body.a.evex(VPSUBD, t1, t1, t2);
            body.leave_for(first, VPCMPD.by(GREATER), t1, Operand::Constant(FURTHEST), exec);
        });
        for half in self.parts() {
            self.rows.unlock();
            self.load_pairs(d, 3, half);
            let (to_low, to_high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
            for chunk in self.chunks() {
                let lanes = (half, chunk);
                let denominator = self.high_word(&d.src[1], lanes, t1);
                let numerator = self.high_word(&d.src[2], lanes, t2);
                self.a.evex(VPXORD, t1, denominator, numerator);
                self.a.evex(VPANDD, t1, t1, Operand::Constant(SIGN));
                let (low, _) = self.wide(&d.src[0], half, chunk);
                self.in_register(t2, low);
                let quotient = self.high_word(&d.src[0], lanes, t0);
                self.a.evex(VPANDD, t0, quotient, Operand::Constant(!SIGN));
                let mask = self.exec(half, chunk);
                self.a.masked(VPORD, to_high.chunk(chunk), t0, t1, mask);
                self.put(to_low.chunk(chunk), t2, mask);
            }
        }
        self.come_back(cold);
    }

    /// Numbers of 32 bits as doubles.
    pub(super) fn make_doubles(&mut self, from: Whole, d: &Di, half: u32) {
        let op = match from {
            Whole::Signed => VCVTDQ2PD,
            Whole::Unsigned => VCVTUDQ2PD,
            Whole::Single => VCVTPS2PD,
        };
        self.load_sources(d, 1, half);
        let (low, high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
        for chunk in self.chunks() {
            let a = self.register(&d.src[0], from == Whole::Single, half, chunk, Zmm(3));
            self.a.evex(VSHUFI64X2.by(0xee), Zmm(1), a, a);
            self.a.evex(op, Zmm(0), Zmm(0), a);
            self.a.evex(op, Zmm(1), Zmm(0), Zmm(1));
            let mask = self.exec(half, chunk);
            self.put_words([low.chunk(chunk), high.chunk(chunk)], mask);
        }
    }

    /// Doubles as singles.
    pub(super) fn make_singles(&mut self, d: &Di, half: u32) {
        self.load_pairs(d, 1, half);
        let to = self.define(d.dst + half);
        for chunk in self.chunks() {
            for (eight, t) in [Zmm(0), Zmm(1)].into_iter().enumerate() {
                self.double_source(&d.src[0], (half, chunk, eight), t);
                self.a.evex(VCVTPD2PS, t, Zmm(0), t);
            }
            self.a.evex(VINSERTF64X4.by(1), Zmm(0), Zmm(0), Zmm(1));
            let mask: Mask = self.exec(half, chunk);
            self.put(to.chunk(chunk), Zmm(0), mask);
        }
    }
}
