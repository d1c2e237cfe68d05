//! Operations on singles that are more than one instruction.

use crate::exec::di::Di;
use crate::exec::vector::reciprocal::Faithful;
use crate::tier1::analysis::template::{Extreme, Template};
use crate::tier1::x86::asm::{Assembler, Condition, Gpr, Label, Operand, Place, Zmm};
use crate::tier1::x86::avx512::masks::{EQUAL, UNORDERED};
use crate::tier1::x86::body::{SIGN, SPILL};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

use super::lanes::T;
use super::opcodes::*;
use super::pass::{Pass, constant};

/// Predicates of `vcmpps`, none of which signals for a quiet NaN.
const AT_LEAST: u8 = 0x1d;
const ORDERED: u8 = 7;
const GREATER: u8 = 0x1e;

const ONE: u32 = 0x3f80_0000;
const INFINITY: u32 = 0x7f80_0000;
/// The largest number whose reciprocal is a normal one.
const LARGEST_WITH_RECIPROCAL: u32 = 0x7e80_0000;

/// The bit by which quiet NaNs are told.
const QUIET: u32 = 0x0040_0000;

/// Eight lanes of a minimum or maximum with a NaN among them; temporary 2 has the results of the others.
pub(super) struct Aside {
    entry: Label,
    back: Label,
    a: Zmm,
    b: Zmm,
}

impl Aside {
    /// A number wins over a quiet NaN, and of two the first; a signalling one, the first of two, wins over all and is made quiet.
    pub(super) fn emit(&self, a: &mut Assembler) {
        let [_, _, to, t] = T;
        let blend = |a: &mut Assembler, from: Zmm| a.vex(VBLENDVPS.by(t.0 << 4), to, to, from);
        a.bind(self.entry);
        // Any register that is not looked at; it is kept in the frame.
        let Some(u) = (13..16).map(Zmm).find(|register| ![self.a, self.b].contains(register)) else {
            unreachable!("two of three registers are taken")
        };
        a.vex(VMOVUPS_STORE, u, Zmm(0), Operand::Memory(SPILL));
        for (nan, wins) in [(self.a, self.b), (self.b, self.a)] {
            a.vex(VCMPPS.by(UNORDERED), t, nan, nan);
            blend(a, wins);
        }
        for signalling in [self.b, self.a] {
            a.vex(VCMPPS.by(UNORDERED), t, signalling, signalling);
            a.vex_shift(VPSLLD.by(31 - QUIET.trailing_zeros() as u8), u, signalling);
            a.vex(VPANDN, t, u, t);
            blend(a, signalling);
        }
        a.vex(VCMPPS.by(UNORDERED), t, to, to);
        a.vex(VPANDD, t, t, constant(QUIET));
        a.vex(VPORD, to, to, t);
        a.vex(VMOVUPS_LOAD, u, Zmm(0), Operand::Memory(SPILL));
        a.jump(self.back);
    }
}

impl Pass<'_> {
    /// Reciprocals to temporary 2, as for [sixteen lanes](crate::tier1::x86::avx512::reciprocals); all others are used.
    fn reciprocals(&mut self, d: &Di) {
        let [t0, t1, t2, t3] = T;
        let a = self.register(&d.src[0], true, t0);
        // Denormals are zeros.
        self.a.vex(VPANDD, t1, a, constant(INFINITY));
        self.a.vex(VPCMPEQD, t3, t1, constant(0));
        self.a.vex(VPANDD, t3, t3, constant(0x7f_ffff));
        self.a.vex(VPANDN, t1, t3, a);
        self.a.vex(VPANDD, t0, t1, constant(0x7f_ffff));
        self.a.vex_shift(VPSRLD.by(3), t0, t0);
        self.a.place(Gpr::Rax, Place::Bits(Faithful::Reciprocal));
        self.a.vex(VPCMPEQD, t3, t3, t3);
        self.a.vex(VPGATHERDD, t2, t3, Operand::Indexed(Gpr::Rax, t0));
        self.a.vex(VPANDD, t0, t1, constant(7));
        self.a.vex(VPSRLVD, t2, t2, t0);
        self.a.vex(VPANDD, t2, t2, constant(1));
        // Less one where the quotient is too large.
        self.a.vex(VMOVUPS_LOAD, t0, Zmm(0), constant(ONE));
        self.a.vex(VDIVPS, t0, t0, t1);
        self.a.vex(VMOVUPS_LOAD, t3, Zmm(0), t0);
        self.a.vex(VFNMADD213PS, t3, t1, constant(ONE));
        self.a.vex_shift(VPSRAD.by(31), t3, t3);
        self.a.vex(VPADDD, t2, t2, t3);
        // Nothing is added to zeros, infinities and NaNs: as signed numbers magnitudes go from the smallest normal one on.
        self.a.vex(VPANDD, t3, t1, constant(!SIGN));
        self.a.vex(VPADDD, t3, t3, constant(INFINITY));
        self.a.vex(VPCMPGTD, t3, t3, constant(LARGEST_WITH_RECIPROCAL.wrapping_add(INFINITY)));
        self.a.vex(VPANDN, t2, t3, t2);
        self.a.vex(VPADDD, t0, t0, t2);
        // Denormal results are zeros.
        self.a.vex(VPANDD, t3, t1, constant(!SIGN));
        self.a.vex(VCMPPS.by(GREATER), t3, t3, constant(LARGEST_WITH_RECIPROCAL));
        self.a.vex(VPANDD, t3, t3, constant(!SIGN));
        self.a.vex(VPANDN, t2, t3, t0);
    }

    /// An operation on singles, its result in temporary 2; all others are used.
    pub(super) fn of_singles(&mut self, template: Template, d: &Di) {
        let [t0, t1, t2, t3] = T;
        let [x, y, _] = &d.src;
        match template {
            Template::Reciprocal => self.reciprocals(d),
            Template::ToUnsigned => {
                let a = self.register(x, true, t0);
                let (half, all) = (2f32.powi(31).to_bits(), 2f32.powi(32).to_bits());
                // Of a NaN and zero the second source is the larger one.
                self.a.vex(VMAXPS, t1, a, constant(0));
                self.a.vex(VCVTTPS2DQ, t2, Zmm(0), t1);
                self.a.vex(VCMPPS.by(AT_LEAST), t3, t1, constant(half));
                self.a.vex(VSUBPS, t0, t1, constant(half));
                self.a.vex(VCVTTPS2DQ, t0, Zmm(0), t0);
                self.a.vex(VPANDD, t0, t0, t3);
                // What is too large is the number with the highest bit alone.
                self.a.vex(VPADDD, t2, t2, t0);
                self.a.vex(VCMPPS.by(AT_LEAST), t3, t1, constant(all));
                self.a.vex(VPORD, t2, t2, t3);
            }
            Template::ToSigned => {
                let a = self.register(x, true, t0);
                self.a.vex(VCVTTPS2DQ, t2, Zmm(0), a);
                self.a.vex(VCMPPS.by(AT_LEAST), t3, a, constant(2f32.powi(31).to_bits()));
                self.a.vex(VPXORD, t2, t2, t3);
                self.a.vex(VCMPPS.by(ORDERED), t3, a, a);
                self.a.vex(VPANDD, t2, t2, t3);
            }
            Template::Extreme(of) => {
                let a = self.register(x, true, t0);
                let b = self.register(y, true, t1);
                self.a.vex(opcodes::extreme(of).0, t2, a, b);
                // Equal ones are the second one here; of zeros one may be negative.
                self.a.vex(VCMPPS.by(EQUAL), t3, a, b);
                if of == Extreme::Least {
                    self.a.vex(VPANDD, t3, t3, a);
                    self.a.vex(VPORD, t2, t2, t3);
                } else {
                    self.a.vex(VPANDN, t3, a, t3);
                    self.a.vex(VPANDN, t2, t3, t2);
                }
                self.a.vex(VCMPPS.by(UNORDERED), t3, a, b);
                self.a.vex_number(VMOVMSKPS, Gpr::Rax as u8, t3.0);
                self.a.test(false, Gpr::Rax);
                let (entry, back) = (self.a.label(), self.a.label());
                self.a.jump_if(Condition::NotEqual, entry);
                self.a.bind(back);
                self.asides.push(Aside { entry, back, a, b });
            }
            _ => unreachable!("other operations are done elsewhere"),
        }
    }
}
