//! `v_sqrt_f32` and `v_exp_f32`: rounded once, as the handlers have it; and `v_rsq_f32`, see [`reciprocals`](super::reciprocals).
//!
//! Roots of normal numbers are the same on the processor as in the handlers; denormal ones, which are zeros, are left to these, and
//! so are zeros and negative numbers. The power of two, in double precision, is a polynomial here and a
//! table there, each of which is off by less than 2^-48 of the value: where a bound between two singles is that near, and for
//! results that are no normal numbers, the handler has the word.

use super::asm::{At, K0, Mask, Operand, Zmm};
use super::body::{Body, Cold, SCRATCH, SPILL};
use super::encoding::*;
use super::masks::LESS;
use crate::exec::di::Di;

/// A function that has a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    Root,
    ReciprocalRoot,
    PowerOfTwo,
}

/// Predicates of `vcmpps`, none of which signals for a quiet NaN: less; not at least, not at most, or unordered.
const LESS_QUIET: u8 = 0x11;
const NOT_AT_LEAST: u8 = 0x19;
const NOT_AT_MOST: u8 = 0x16;

/// Exponents between which all powers are normal singles.
const LEAST: f32 = -125.0;
const MOST: f32 = 127.0;

/// Terms of the power's series: for half an exponent and less the next one is below 2^-52.
const TERMS: usize = 13;

/// Bits of a double that a single does not have, the half of their range, and how near to that a value counts as near.
const BELOW: u64 = (1 << 29) - 1;
const MIDDLE: u64 = 1 << 28;
const NEAR: u64 = 1 << 10;

/// `ln(2)^k / k!`.
const fn series() -> [f64; TERMS] {
    let mut terms = [1.0; TERMS];
    let mut k = 1;
    while k < TERMS {
        terms[k] = terms[k - 1] * core::f64::consts::LN_2 / k as f64;
        k += 1;
    }
    terms
}

const SERIES: [f64; TERMS] = series();

/// Both lower halves side by side, and the upper half of the first twice.
const LOWER: u8 = 0x44;
const UPPER: u8 = 0xee;

/// Room for the results of sixteen lanes.
pub(super) fn kept(chunk: u8) -> Operand {
    let At(base, displacement) = SPILL;
    Operand::Memory(At(base, displacement + i32::from(chunk) * 64))
}

impl Body<'_> {
    /// A function of singles; some are left to the handler, by the way that is returned.
    pub(super) fn curve(&mut self, curve: Curve, d: &Di, half: u32) -> Cold {
        self.load_sources(d, 1, half);
        let [any, these] = SCRATCH;
        let mut first = true;
        let mut collect = |body: &mut Self, predicate: u8, a: Zmm, bound: f32, exec: Mask| {
            let to = if core::mem::take(&mut first) { any } else { these };
            body.a.compare(VCMPPS.by(predicate), to, a, Operand::Constant(bound.to_bits()), exec);
            if to == these {
                body.a.mask(KORW, any, any, these);
            }
        };
        for chunk in 0..2 {
            let (a, exec) = (self.register(&d.src[0], true, half, chunk, Zmm(0)), self.exec(half, chunk));
            match curve {
                Curve::PowerOfTwo => {
                    collect(self, NOT_AT_LEAST, a, LEAST, exec);
                    collect(self, NOT_AT_MOST, a, MOST, exec);
                }
                Curve::Root => collect(self, LESS_QUIET, a, f32::MIN_POSITIVE, exec),
                Curve::ReciprocalRoot => {
                    collect(self, NOT_AT_LEAST, a, f32::MIN_POSITIVE, exec);
                    collect(self, NOT_AT_MOST, a, f32::MAX, exec);
                }
            }
        }
        if curve == Curve::PowerOfTwo {
            for chunk in 0..2 {
                self.powers(d, half, chunk);
            }
        }
        let cold = self.leave_if_any(any, any);
        let to = self.define(d.dst + half);
        for chunk in 0..2 {
            let mask = self.exec(half, chunk);
            match curve {
                Curve::Root => {
                    let a = self.register(&d.src[0], true, half, chunk, Zmm(0));
                    self.a.masked(VSQRTPS, to.chunk(chunk), Zmm(0), a, mask);
                }
                Curve::ReciprocalRoot => {
                    self.reciprocal_roots(d, half, chunk);
                    self.put(to.chunk(chunk), Zmm(2), mask);
                }
                Curve::PowerOfTwo => self.a.masked(VMOVUPS_LOAD, to.chunk(chunk), Zmm(0), kept(chunk), mask),
            }
        }
        cold
    }

    /// Eight singles of sixteen as doubles.
    fn doubles_of(&mut self, to: Zmm, from: Zmm, eight: u8) {
        let mut at = from;
        if eight == 1 {
            self.a.evex(VSHUFI64X2.by(UPPER), to, from, from);
            at = to;
        }
        self.a.evex(VCVTPS2PD, to, Zmm(0), at);
    }

    /// Those of sixteen lanes to where they are [`kept`]; lanes too near to a bound are added to the first mask.
    fn powers(&mut self, d: &Di, half: u32, chunk: u8) {
        let ([any, these], [r, n, y]) = (SCRATCH, [Zmm(1), Zmm(2), Zmm(3)]);
        let a = self.register(&d.src[0], true, half, chunk, Zmm(0));
        for eight in 0..2 {
            self.doubles_of(r, a, eight);
            self.a.evex(VRNDSCALEPD.by(8), n, Zmm(0), r);
            self.a.evex(VSUBPD, r, r, n);
            let [others @ .., last] = &SERIES;
            self.a.evex(VPBROADCASTQ, y, Zmm(0), Operand::Constant64(last.to_bits()));
            for term in others.iter().rev() {
                self.a.evex(VFMADD213PD, y, r, Operand::Constant64(term.to_bits()));
            }
            self.a.evex(VSCALEFPD, y, y, n);
            self.a.evex(VPANDQ, r, y, Operand::Constant64(BELOW));
            self.a.evex(VPSUBQ, r, r, Operand::Constant64(MIDDLE - NEAR));
            self.a.compare(VPCMPUQ.by(LESS), these, r, Operand::Constant64(2 * NEAR), K0);
            self.a.mask(KORW, any, any, these);
            self.a.evex(VCVTPD2PS, y, Zmm(0), y);
            if eight == 1 {
                self.a.evex(VMOVUPS_LOAD, r, Zmm(0), kept(chunk));
                self.a.evex(VSHUFI64X2.by(LOWER), y, r, y);
            }
            self.a.evex(VMOVUPS_STORE, y, Zmm(0), kept(chunk));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the code that [`Body::powers`] makes has it.
    fn power(x: f64) -> f64 {
        let n = x.round_ties_even();
        let [others @ .., last] = &SERIES;
        let y = others.iter().rev().fold(*last, |sum, term| sum.mul_add(x - n, *term));
        y * 2f64.powi(n as i32)
    }

    #[test]
    fn series_is_nearer_to_the_power_than_what_counts_as_near() {
        let mut most = 0f64;
        let mut bits = 0x3c00_0000_u32;
        while bits < MOST.to_bits() {
            for x in [f64::from(f32::from_bits(bits)), -f64::from(f32::from_bits(bits))] {
                if x >= f64::from(LEAST) {
                    most = most.max((power(x) / libm::exp2(x) - 1.0).abs());
                }
            }
            bits += 997;
        }
        // `NEAR` is in units of 2^-52 of a number from 1 to 2.
        assert!(most < 2f64.powi(-48), "{most:e}");
        assert!(2f64.powi(-47) < NEAR as f64 * 2f64.powi(-52));
        assert_eq!(power(3.0), 8.0);
    }
}
