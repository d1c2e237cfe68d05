//! `v_sqrt_f32` and `v_exp_f32` of sixteen lanes, as [`root`] and [`power`] have them.
//!
//! Products of 48 digits, of which no more than 24 are kept, are those of singles: what is rounded to whole numbers is so where 2^23 is
//! added before the product is rounded, and from there on singles have no other digits.

use super::curves::kept;
use super::masks::LESS;
use crate::exec::di::Di;
use crate::exec::vector::{power, root};
use crate::tier1::x86::asm::{K0, Operand, Zmm};
use crate::tier1::x86::body::{Body, SCRATCH, SIGN};
use crate::tier1::x86::encoding::*;

/// Less, without signalling for a quiet NaN.
const LESS_QUIET: u8 = 0x11;
/// Rounding down, and towards zero, without signalling that digits are lost.
const DOWN: u8 = 9;
const CUT: u8 = 11;
/// Of an instruction: towards zero.
const TOWARDS_ZERO: u8 = 3;

const ONE: u32 = 0x3f80_0000;
const EXPONENT: u32 = 23;

/// Numbers from which on, and up to which, powers are 0, and 1.
const LEAST: f32 = -126.0;
const TINY: u32 = 0x3380_0000;

/// From this number on singles are whole.
const WHOLE: f32 = 8_388_608.0;
/// Digits that products of 48 digits lose.
const LOST: i32 = 23;

/// One of the terms of 32 parts.
fn column(terms: &[[u32; 4]; 32], term: usize, of: impl Fn(u32) -> u32) -> [[u32; 16]; 2] {
    [0, 16].map(|first| core::array::from_fn(|part| of(terms[first + part][term])))
}

/// A term as a single without so many digits.
fn scaled(digits: i32) -> impl Fn(u32) -> u32 {
    move |term| (term as f32 * 2f32.powi(-digits)).to_bits()
}

impl Body<'_> {
    fn constant(&mut self, op: Evex, to: Zmm, value: u32) {
        self.a.evex(op, to, to, Operand::Constant(value));
    }

    fn right(&mut self, to: Zmm, from: Zmm, by: u32) {
        self.a.shift(VPSRLD.by(by as u8), to, from, K0);
    }

    /// A term of the parts whose numbers are in a register, in their place; `t` is used.
    fn term(&mut self, [low, high]: [[u32; 16]; 2], parts: Zmm, t: Zmm) {
        self.a.evex(VMOVUPS_LOAD, t, Zmm(0), Operand::Words(low));
        self.a.evex(VPERMI2D, parts, t, Operand::Words(high));
    }

    /// Integers as singles, times a power of two.
    fn single(&mut self, to: Zmm, digits: i32) {
        self.a.evex(VCVTDQ2PS, to, Zmm(0), to);
        if digits != 0 {
            self.constant(VMULPS, to, 2f32.powi(-digits).to_bits());
        }
    }

    /// The square of an integer without so many digits, which are cut off, as a single; `t` is used.
    fn square(&mut self, x: Zmm, t: Zmm, digits: i32) {
        self.single(x, 0);
        self.a.evex(VMULPS, t, x, Operand::Constant(2f32.powi(-digits).to_bits()));
        self.a.evex(VMULPS.rounded(TOWARDS_ZERO), x, t, x);
        self.a.evex(VRNDSCALEPS.by(CUT), x, Zmm(0), x);
    }

    /// The product of two singles as an integer to the first of them: to nearest even, of 24 digits at most; `t` is used.
    fn product(&mut self, a: Zmm, b: Zmm, t: Zmm) {
        let [k, _] = SCRATCH;
        let whole = Operand::Constant(WHOLE.to_bits());
        self.a.evex(VPBROADCASTD, t, Zmm(0), whole);
        self.a.evex(VFMADD231PS, t, a, b);
        self.a.evex(VMULPS, a, a, b);
        self.a.compare(VCMPPS.by(LESS_QUIET), k, a, whole, K0);
        self.a.masked(VSUBPS, a, t, whole, k);
        self.a.evex(VCVTTPS2DQ, a, Zmm(0), a);
    }

    /// A sum of `whole` and, with seven or eight digits more, `fine`, rounded to nearest even without five digits of the former.
    fn nearest(&mut self, whole: Zmm, fine: Zmm, t: Zmm, digits: u32) {
        self.right(t, whole, 5);
        self.constant(VPANDD, t, 1);
        self.a.evex(VPADDD, fine, fine, t);
        self.constant(VPADDD, fine, (1 << digits) - 1);
        self.right(fine, fine, digits);
        self.a.evex(VPADDD, whole, whole, fine);
        self.constant(VPADDD, whole, 15);
        self.right(whole, whole, 5);
    }

    /// Two to the power of numbers below 128, in a temporary; all others are used.
    pub(crate) fn powers(&mut self, d: &Di, half: u32, chunk: u8) -> Zmm {
        let [t0, t1, t2, t3] = [0, 1, 2, 3].map(Zmm);
        let same = |term| term;
        self.parts_of_power(d, half, chunk);
        self.a.evex(VMOVUPS_STORE, t1, Zmm(0), kept(1));
        // The quadratic and the cubic term.
        self.right(t2, t1, 24);
        self.put(t0, t2, K0);
        self.term(column(&power::TERMS, 3, same), t0, t3);
        self.term(column(&power::TERMS, 2, same), t2, t3);
        self.a.shift(VPSLLD.by(8), t1, t1, K0);
        self.right(t1, t1, 14);
        self.a.evex(VPMULLD, t0, t0, t1);
        self.a.shift(VPSLLD.by(7), t2, t2, K0);
        self.a.evex(VPADDD, t2, t2, t0);
        self.right(t0, t2, 7);
        self.constant(VPANDD, t0, 1);
        self.a.evex(VPADDD, t2, t2, t0);
        self.constant(VPADDD, t2, 63);
        self.right(t2, t2, 7);
        self.single(t2, LOST);
        self.square(t1, t0, 12);
        self.product(t2, t1, t0);
        // The linear and the constant one.
        self.a.evex(VMOVUPS_LOAD, t1, Zmm(0), kept(1));
        self.right(t0, t1, 24);
        self.term(column(&power::TERMS, 1, scaled(LOST)), t0, t3);
        self.constant(VPANDD, t1, 0xff_ffff);
        self.single(t1, 0);
        self.product(t0, t1, t3);
        self.right(t0, t0, 1);
        self.a.evex(VMOVUPS_LOAD, t1, Zmm(0), kept(1));
        self.right(t1, t1, 24);
        self.term(column(&power::TERMS, 0, same), t1, t3);
        self.a.evex(VPADDD, t0, t0, t1);
        self.right(t1, t2, 8);
        self.a.evex(VPADDD, t0, t0, t1);
        self.constant(VPANDD, t2, 0xff);
        self.nearest(t0, t2, t1, 8);
        // With its exponent; the first digit is one more.
        self.a.evex(VMOVUPS_LOAD, t1, Zmm(0), kept(0));
        self.constant(VPADDD, t1, 126);
        self.a.shift(VPSLLD.by(EXPONENT as u8), t1, t1, K0);
        self.a.evex(VPADDD, t0, t0, t1);
        let (a, [k, _]) = (self.register(&d.src[0], true, half, chunk, t1), SCRATCH);
        self.a.compare(VCMPPS.by(LESS_QUIET), k, a, Operand::Constant(LEAST.to_bits()), K0);
        self.a.masked(VPXORD, t0, t0, t0, k);
        self.a.evex(VPANDD, t2, a, Operand::Constant(!SIGN));
        self.a.compare(VPCMPUD.by(LESS), k, t2, Operand::Constant(TINY), K0);
        self.a.masked(VPBROADCASTD, t0, Zmm(0), Operand::Constant(ONE), k);
        t0
    }

    /// Splits a number: the digits before the point go to where they are [`kept`], and 29 behind it to temporary 1; of negative numbers
    /// they are inverted.
    fn parts_of_power(&mut self, d: &Di, half: u32, chunk: u8) {
        let [t0, t1, t2, t3] = [0, 1, 2, 3].map(Zmm);
        let a = self.register(&d.src[0], true, half, chunk, t0);
        self.a.evex(VPANDD, t1, a, Operand::Constant(!SIGN));
        self.a.evex(VRNDSCALEPS.by(DOWN), t2, Zmm(0), t1);
        self.a.evex(VSUBPS, t1, t1, t2);
        self.constant(VMULPS, t1, 2f32.powi(29).to_bits());
        self.a.evex(VCVTTPS2DQ, t1, Zmm(0), t1);
        self.a.evex(VCVTTPS2DQ, t2, Zmm(0), t2);
        self.a.shift(VPSRAD.by(31), t3, a, K0);
        self.a.evex(VPXORD, t2, t2, t3);
        self.a.evex(VMOVUPS_STORE, t2, Zmm(0), kept(0));
        self.a.evex(VPXORD, t1, t1, t3);
        self.constant(VPANDD, t1, 0x1fff_ffff);
    }

    /// Roots of positive normal numbers, in a temporary; all others are used.
    pub(crate) fn roots(&mut self, d: &Di, half: u32, chunk: u8) -> Zmm {
        let [t0, t1, t2, t3] = [0, 1, 2, 3].map(Zmm);
        self.place_of_root(d, (half, chunk), t1, t2);
        self.a.evex(VMOVUPS_STORE, t1, Zmm(0), kept(0));
        self.a.evex(VMOVUPS_STORE, t2, Zmm(0), kept(1));
        // The quadratic and the cubic term.
        self.put(t0, t2, K0);
        self.term(column(&root::TERMS, 3, |term| term), t0, t3);
        self.a.evex(VPADDD, t3, t1, t1);
        self.constant(VPADDD, t3, 1);
        self.a.evex(VPMULLD, t0, t0, t3);
        self.a.evex(VPBROADCASTD, t3, Zmm(0), Operand::Constant(0x400));
        self.a.evex(VPSUBD, t0, t3, t0);
        self.a.shift(VPSRAD.by(11), t0, t0, K0);
        self.term(column(&root::TERMS, 2, |term| term << 8), t2, t3);
        self.a.evex(VPADDD, t2, t2, t0);
        self.single(t2, LOST);
        self.right(t1, t1, 2);
        self.square(t1, t0, 10);
        self.product(t2, t1, t0);
        // The linear and the constant one.
        self.a.evex(VMOVUPS_LOAD, t0, Zmm(0), kept(1));
        self.term(column(&root::TERMS, 1, scaled(16)), t0, t3);
        self.a.evex(VMOVUPS_LOAD, t1, Zmm(0), kept(0));
        self.single(t1, 0);
        self.product(t0, t1, t3);
        self.right(t0, t0, 1);
        self.a.evex(VMOVUPS_LOAD, t1, Zmm(0), kept(1));
        self.term(column(&root::TERMS, 0, |term| term << 3), t1, t3);
        self.a.evex(VPADDD, t0, t0, t1);
        // Less the former.
        self.a.evex(VPADDD, t1, t2, Operand::Constant(127));
        self.right(t1, t1, 7);
        self.a.evex(VPSUBD, t0, t0, t1);
        self.a.evex(VPXORD, t1, t1, t1);
        self.a.evex(VPSUBD, t2, t1, t2);
        self.constant(VPANDD, t2, 127);
        self.nearest(t0, t2, t1, 7);
        // Half of the even exponent that is not greater, biased; the first digit is one more.
        let a = self.register(&d.src[0], true, half, chunk, t1);
        self.a.evex(VPADDD, t1, a, Operand::Constant(ONE.wrapping_neg()));
        self.constant(VPANDD, t1, 0xff00_0000);
        self.a.shift(VPSRAD.by(1), t1, t1, K0);
        self.a.evex(VPADDD, t0, t0, t1);
        self.constant(VPADDD, t0, 126 << EXPONENT);
        t0
    }

    /// The part that a number is in, and its place there.
    fn place_of_root(&mut self, d: &Di, (half, chunk): (u32, u8), place: Zmm, part: Zmm) {
        let a = self.register(&d.src[0], true, half, chunk, part);
        // The mantissa, and whether the exponent is odd.
        self.a.evex(VPANDD, place, a, Operand::Constant(0xff_ffff));
        self.constant(VPXORD, place, 0x80_0000);
        self.right(part, place, 19);
        self.constant(VPANDD, place, 0x7_ffff);
    }
}
