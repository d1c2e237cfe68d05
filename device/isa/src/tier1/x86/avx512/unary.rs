//! Functions of one float, and floats scaled by powers of two.

use crate::exec::di::{Di, Kind, Source, flag};
use crate::tier1::analysis::floats::{Float, Rounding, Unary};
use crate::tier1::x86::asm::{K0, Operand, Zmm};
use crate::tier1::x86::body::{Body, SCRATCH};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes::rounding;

/// Classes of `vfpclassps`: zeros, infinities and NaNs.
const NO_EXPONENT: u8 = 0x9f;
/// Mantissas from 0.5 on, with the sign.
const FROM_HALF: u8 = 2;

/// The instructions on floats of a format; halves are done in singles.
struct Instructions {
    round: Evex,
    add: Evex,
    subtract: Evex,
    least: Evex,
    classes: Evex,
    mantissa: Evex,
    exponent: Evex,
    to_integers: Evex,
    /// The same number in all lanes.
    everywhere: Evex,
    /// The largest number below one.
    below_one: Operand,
}

impl Instructions {
    fn of(float: Float) -> Instructions {
        if float == Float::Double {
            return Instructions {
                round: VRNDSCALEPD,
                add: VADDPD,
                subtract: VSUBPD,
                least: VMINPD,
                classes: VFPCLASSPD,
                mantissa: VGETMANTPD,
                exponent: VGETEXPPD,
                to_integers: VCVTTPD2DQ,
                everywhere: VPBROADCASTQ,
                below_one: Operand::Constant64(1f64.to_bits() - 1),
            };
        }
        let below_one =
            if float == Float::Half { 2047.0 / 2048.0 } else { f32::from_bits(1f32.to_bits() - 1) };
        Instructions {
            round: VRNDSCALEPS,
            add: VADDPS,
            subtract: VSUBPS,
            least: VMINPS,
            classes: VFPCLASSPS,
            mantissa: VGETMANTPS,
            exponent: VGETEXPPS,
            to_integers: VCVTTPS2DQ,
            everywhere: VPBROADCASTD,
            below_one: Operand::Constant(below_one.to_bits()),
        }
    }
}

impl Body<'_> {
    /// A function of one float.
    pub(super) fn unary(&mut self, unary: Unary, float: Float, d: &Di, half: u32) {
        let (t0, t1, t3) = (Zmm(0), Zmm(1), Zmm(3));
        let by = Instructions::of(float);
        match float {
            Float::Single => {
                self.load_sources(d, 1, half);
                let to = self.define(d.dst + half);
                for chunk in self.chunks() {
                    let a = self.register(&d.src[0], true, half, chunk, t0);
                    self.of_one(unary, &by, a);
                    let mask = self.exec(half, chunk);
                    self.put(to.chunk(chunk), t1, mask);
                }
            }
            Float::Half => {
                self.load_sources(d, 1, half);
                let to = self.define_half(d.dst + half);
                for chunk in self.chunks() {
                    self.half_source(&d.src[0], half, chunk, t0);
                    self.of_one(unary, &by, t0);
                    if unary == Unary::Exponent {
                        self.a.evex(VPANDD, t1, t1, Operand::Constant(0xffff));
                    } else {
                        self.narrow(t1, 0);
                    }
                    let mask = self.exec(half, chunk);
                    self.put_halves(to.chunk(chunk), t1, d.flags & flag::DST_HIGH != 0, mask);
                }
            }
            Float::Double => {
                self.load_pairs(d, 1, half);
                let to = self.define(d.dst + half);
                let to_high = (unary != Unary::Exponent).then(|| self.define(d.dst + self.halves + half));
                for chunk in self.chunks() {
                    for eight in 0..2 {
                        self.double_source(&d.src[0], (half, chunk, eight), t3);
                        self.of_one(unary, &by, t3);
                        if eight == 0 {
                            self.put(t0, t1, K0);
                        }
                    }
                    let mask = self.exec(half, chunk);
                    match to_high {
                        Some(high) => self.put_words([to.chunk(chunk), high.chunk(chunk)], mask),
                        None => {
                            self.a.evex(VINSERTF64X4.by(1), t0, t0, t1);
                            self.put(to.chunk(chunk), t0, mask);
                        }
                    }
                }
            }
        }
    }

    /// A function of the floats in a register, which is neither temporary 1 nor 2, to 1; 2 is used.
    fn of_one(&mut self, unary: Unary, by: &Instructions, a: Zmm) {
        let (to, t2, [k, _]) = (Zmm(1), Zmm(2), SCRATCH);
        match unary {
            Unary::Round(how) => self.a.evex(by.round.by(rounding(how)), to, Zmm(0), a),
            Unary::Fraction => {
                self.a.evex(by.round.by(rounding(Rounding::Down)), t2, Zmm(0), a);
                self.a.evex(by.subtract, t2, a, t2);
                // Where one is a NaN, the last operand is the less one.
                self.a.evex(by.everywhere, to, Zmm(0), by.below_one);
                self.a.evex(by.least, to, to, t2);
            }
            Unary::Mantissa => {
                self.a.compare(by.classes.by(NO_EXPONENT), k, Zmm(0), a, K0);
                self.a.evex(by.mantissa.by(FROM_HALF), to, Zmm(0), a);
                // These are themselves, NaNs made quiet.
                self.a.masked(by.add, to, a, a, k);
            }
            Unary::Exponent => {
                self.a.compare(by.classes.by(NO_EXPONENT), k, Zmm(0), a, K0);
                self.a.evex(by.exponent, t2, Zmm(0), a);
                self.a.evex(by.to_integers, to, Zmm(0), t2);
                self.a.evex(VPADDD, to, to, Operand::Constant(1));
                self.a.masked(VPXORD, to, to, to, k);
            }
        }
    }

    /// A float scaled by a power of two.
    pub(super) fn scale(&mut self, float: Float, d: &Di, half: u32) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        match float {
            Float::Single => {
                self.load_sources(d, 2, half);
                let to = self.define(d.dst + half);
                for chunk in self.chunks() {
                    let b = self.register(&d.src[1], true, half, chunk, t1);
                    self.a.evex(VCVTDQ2PS, t1, Zmm(0), b);
                    let a = self.register(&d.src[0], true, half, chunk, t0);
                    let mask = self.exec(half, chunk);
                    self.a.masked(VSCALEFPS, to.chunk(chunk), a, t1, mask);
                }
            }
            Float::Half => {
                self.load_sources(d, 2, half);
                let to = self.define_half(d.dst + half);
                for chunk in self.chunks() {
                    let power = Source { neg: false, abs: false, ..d.src[1] };
                    let mut b = self.register(&power, false, half, chunk, t1);
                    if !power.high {
                        self.a.shift(VPSLLD.by(16), t1, b, K0);
                        b = t1;
                    }
                    self.a.shift(VPSRAD.by(16), t1, b, K0);
                    self.a.evex(VCVTDQ2PS, t1, Zmm(0), t1);
                    self.half_source(&d.src[0], half, chunk, t0);
                    self.a.evex(VSCALEFPS, t0, t0, t1);
                    self.narrow(t0, 0);
                    let mask = self.exec(half, chunk);
                    self.put_halves(to.chunk(chunk), t0, d.flags & flag::DST_HIGH != 0, mask);
                }
            }
            Float::Double => {
                self.load_pairs(d, 1, half);
                if d.src[1].kind == Kind::Vector {
                    self.load_row(d.src[1].value + half);
                }
                let (low, high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
                for chunk in self.chunks() {
                    for eight in 0..2 {
                        let b = self.register(&d.src[1], true, half, chunk, t3);
                        if eight == 0 {
                            self.a.evex(VCVTDQ2PD, t2, Zmm(0), b);
                        } else {
                            self.a.evex(VSHUFI64X2.by(0xee), t2, b, b);
                            self.a.evex(VCVTDQ2PD, t2, Zmm(0), t2);
                        }
                        self.double_source(&d.src[0], (half, chunk, eight), t1);
                        self.a.evex(VSCALEFPD, t1, t1, t2);
                        if eight == 0 {
                            self.put(t0, t1, K0);
                        }
                    }
                    let mask = self.exec(half, chunk);
                    self.put_words([low.chunk(chunk), high.chunk(chunk)], mask);
                }
            }
        }
    }
}
