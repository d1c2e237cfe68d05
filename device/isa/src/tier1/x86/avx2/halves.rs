//! Operations on halves, which are done in single precision, and functions of one float.

use crate::exec::di::{Di, Source, flag};
use crate::exec::vector::vop3p::high;
use crate::tier1::analysis::floats::{Float, Rounding, Unary};
use crate::tier1::analysis::template::Arithmetic;
use crate::tier1::x86::asm::{Operand, Zmm};
use crate::tier1::x86::avx512::masks::UNORDERED;
use crate::tier1::x86::body::SPILL;
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

use super::lanes::T;
use super::opcodes::*;
use super::pass::{Pass, constant};

/// Predicate of `vcmpps`: different, and no NaN among them.
const DIFFERENT: u8 = 0x0c;

impl Pass<'_> {
    /// A half of a source, with its sign and zeros above it.
    pub(super) fn half_bits(&mut self, source: &Source, to: Zmm) {
        let from = self.register(&Source { neg: false, abs: false, ..*source }, false, to);
        if source.high {
            self.a.vex_shift(VPSRLD.by(16), to, from);
        } else {
            self.a.vex(VPANDD, to, from, constant(0xffff));
        }
        if source.abs {
            self.a.vex(VPANDD, to, to, constant(0x7fff));
        }
        if source.neg {
            self.a.vex(VPXORD, to, to, constant(0x8000));
        }
    }

    /// A half of a source as a single.
    pub(super) fn half_source(&mut self, source: &Source, to: Zmm) {
        self.half_bits(source, to);
        // Halves side by side.
        self.a.vex(VPACKUSDW, to, to, to);
        self.a.vex(VPERMPD.by(0x08), to, Zmm(0), to);
        self.a.vex(VCVTPH2PS, to, Zmm(0), to);
    }

    /// Halves in the low halves of words from singles, rounded as `rounding` says: 0 to nearest even, 3 towards zero.
    fn narrow(&mut self, value: Zmm, rounding: u8) {
        // The destination is in `ModRM.rm`.
        self.a.vex(VCVTPS2PH.by(rounding), value, Zmm(0), value);
        self.a.vex(VPMOVZXWD, value, Zmm(0), value);
    }

    /// Puts halves in low halves of words of a temporary but 3 into the low or the high halves of a row; 3 is used.
    pub(super) fn put_halves(&mut self, row: u32, value: Zmm, high: bool) {
        let kept = T[3];
        if high {
            self.a.vex_shift(VPSLLD.by(16), value, value);
        }
        let old = self.row(row);
        self.a.vex(VPANDD, kept, old, constant(if high { 0xffff } else { 0xffff_0000 }));
        self.a.vex(VPORD, value, value, kept);
        self.finish(row, value);
    }

    /// An operation on halves to halves in temporary 0; all others are used.
    fn half_arithmetic(&mut self, arithmetic: Arithmetic, sources: &[Source; 3]) {
        let [t0, t1, t2, _] = T;
        let sources = arithmetic.signed(sources);
        self.half_source(&sources[0], t0);
        self.half_source(&sources[1], t1);
        if arithmetic == Arithmetic::Fused {
            self.half_source(&sources[2], t2);
            self.fuse_to_odd();
        } else {
            self.a.vex(opcodes::arithmetic(arithmetic).0, t0, t0, t1);
        }
        self.narrow(t0, 0);
    }

    /// `t0 * t1 + t2` of halves to temporary 0, rounded to odd where it is not exact. The product of halves is exact.
    fn fuse_to_odd(&mut self) {
        let [t0, t1, t2, t3] = T;
        self.a.vex(VMULPS, t0, t0, t1);
        // What is added to an invalid product does not matter.
        self.a.vex(VCMPPS.by(UNORDERED), t1, t0, t0);
        self.a.vex(VPANDN, t2, t1, t2);
        // The sum, and what it lacks.
        self.a.vex(VADDPS, t1, t0, t2);
        self.a.vex(VSUBPS, t3, t1, t0);
        self.a.vex(VSUBPS, t2, t2, t3);
        self.a.vex(VSUBPS, t3, t1, t3);
        self.a.vex(VSUBPS, t0, t0, t3);
        self.a.vex(VADDPS, t0, t0, t2);
        // The number towards zero is the sum, or the one below it where signs differ; of it and the next one, one is odd.
        self.a.vex(VPXORD, t3, t0, t1);
        self.a.vex_shift(VPSRAD.by(31), t3, t3);
        self.a.vex(VPADDD, t3, t3, t1);
        self.a.vex(VPORD, t3, t3, constant(1));
        self.a.vex(VCMPPS.by(DIFFERENT), t0, t0, constant(0));
        self.blend(t0, t1, t3, t0);
    }

    /// An operation on halves.
    pub(super) fn of_halves(&mut self, arithmetic: Arithmetic, d: &Di) {
        self.half_arithmetic(arithmetic, &d.src);
        self.put_halves(d.dst, T[0], d.flags & flag::DST_HIGH != 0);
    }

    /// An operation on both halves of registers.
    pub(super) fn both_halves(&mut self, arithmetic: Arithmetic, d: &Di) {
        let bit = |at: u32, n: usize| d.imm >> (at + n as u32) & 1 != 0;
        let upper: [Source; 3] = core::array::from_fn(|n| Source {
            high: bit(high::SELECT, n),
            neg: bit(high::NEG, n),
            abs: false,
            ..d.src[n]
        });
        self.half_arithmetic(arithmetic, &upper);
        self.a.vex_shift(VPSLLD.by(16), T[0], T[0]);
        self.a.vex(VMOVUPS_STORE, T[0], Zmm(0), Operand::Memory(SPILL));
        self.half_arithmetic(arithmetic, &d.src);
        self.a.vex(VPORD, T[0], T[0], Operand::Memory(SPILL));
        self.finish(d.dst, T[0]);
    }

    /// `v_fma_mix*`: sources are singles, or halves where `imm` says so; the result is a single or a half.
    pub(super) fn mixed(&mut self, narrows: bool, d: &Di) {
        let [a, b, c, product] = T;
        for (n, t) in [a, b, c].into_iter().enumerate() {
            if d.imm >> n & 1 != 0 {
                self.half_source(&d.src[n], t);
            } else {
                let value = self.register(&d.src[n], true, t);
                self.put(t, value);
            }
        }
        self.a.vex(VMULPS, product, a, b);
        self.a.vex(VCMPPS.by(UNORDERED), product, product, product);
        self.a.vex(VPANDN, c, product, c);
        self.a.vex(VFMADD132PS, a, c, b);
        if narrows {
            self.narrow(a, 0);
            self.put_halves(d.dst, a, d.flags & flag::DST_HIGH != 0);
        } else {
            self.finish(d.dst, a);
        }
    }

    /// A half as a single.
    pub(super) fn half_to_single(&mut self, d: &Di) {
        self.half_source(&d.src[0], T[0]);
        self.finish(d.dst, T[0]);
    }

    /// A single as a half.
    pub(super) fn single_to_half(&mut self, d: &Di) {
        let value = self.register(&d.src[0], true, T[0]);
        self.put(T[0], value);
        self.narrow(T[0], 0);
        self.put_halves(d.dst, T[0], d.flags & flag::DST_HIGH != 0);
    }

    /// Two singles as halves, rounded towards zero.
    pub(super) fn singles_to_halves(&mut self, d: &Di) {
        for (source, t) in d.src[..2].iter().zip(T) {
            let value = self.register(source, true, t);
            self.put(t, value);
            self.narrow(t, 3);
        }
        self.a.vex_shift(VPSLLD.by(16), T[1], T[1]);
        self.a.vex(VPORD, T[0], T[0], T[1]);
        self.finish(d.dst, T[0]);
    }

    /// A function of one float: one to an integer, or its part after the point.
    pub(super) fn unary(&mut self, unary: Unary, float: Float, d: &Di) {
        let [t0, t1, t2, _] = T;
        match float {
            Float::Single => {
                let a = self.register(&d.src[0], true, t0);
                self.of_one(unary, float, a);
                self.finish(d.dst, t1);
            }
            Float::Half => {
                self.half_source(&d.src[0], t0);
                self.of_one(unary, float, t0);
                self.narrow(t1, 0);
                self.put_halves(d.dst, t1, d.flags & flag::DST_HIGH != 0);
            }
            Float::Double => {
                for upper in [false, true] {
                    self.four(&d.src[0], upper, t0);
                    self.of_one(unary, float, t0);
                    if !upper {
                        self.put(T[3], t1);
                    }
                }
                self.a.vex(VSHUFPS.by(0x88), t0, T[3], t1);
                self.a.vex(VSHUFPS.by(0xdd), t2, T[3], t1);
                self.finish(d.dst, t0);
                self.finish(d.dst + self.halves, t2);
            }
        }
    }

    /// A function of the floats in a register, which is neither temporary 1 nor 2, to 1; 2 is used.
    fn of_one(&mut self, unary: Unary, float: Float, a: Zmm) {
        let [_, to, t2, _] = T;
        let (round, subtract, least) = match float {
            Float::Double => (VROUNDPD, VSUBPD.narrow(), VMINPD.narrow()),
            Float::Half | Float::Single => (VROUNDPS, VSUBPS, VMINPS),
        };
        let how = if let Unary::Round(how) = unary { how } else { Rounding::Down };
        self.a.vex(round.by(opcodes::rounding(how)), to, Zmm(0), a);
        if unary == Unary::Fraction {
            self.a.vex(subtract, t2, a, to);
            // Where one is a NaN, the last operand is the less one.
            let below_one = 1f64.to_bits() - 1;
            let below_one = match float {
                Float::Half => constant((2047f32 / 2048.0).to_bits()),
                Float::Single => constant(1f32.to_bits() - 1),
                Float::Double => {
                    Operand::Eight(core::array::from_fn(|n| (below_one >> (32 * (n & 1))) as u32))
                }
            };
            self.a.vex(VMOVUPS_LOAD, to, Zmm(0), below_one);
            self.a.vex(least, to, to, t2);
        }
    }
}
