//! Vector operations on the lanes of registers.

use super::masks::{LESS, NOT_LESS, UNORDERED};
use crate::exec::di::{Di, Kind, Source};
use crate::inst::Op;
use crate::tier1::analysis::recipe::Recipe;
use crate::tier1::analysis::template::{self, Template};
use crate::tier1::x86::asm::{Condition, Gpr, Integer, K0, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, ODD, SCRATCH};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;

impl Body<'_> {
    /// A vector operation.
    pub(crate) fn vector(&mut self, op: Op, d: &Di) {
        let Some(template) = template::vector(op, d) else { unreachable!("only operations with a template") };
        match template {
            Template::DivideFixupDoubles => return self.fix_up_doubles(d),
            Template::DoubleRoot(of) => return self.double_roots(of, d),
            Template::ExtremeOf(of, float) => return self.extreme_of(of, float, d),
            _ => {}
        }
        let sources = &d.src[..template.arity()];
        let in_place = sources.iter().any(|source| source.kind == Kind::Vector && source.value == d.dst);
        let may_leave = template.may_leave();
        let mut left = Vec::new();
        for half in self.parts() {
            // Nothing of one half is used in the other.
            self.rows.unlock();
            if half == 0 && self.halves == 2 && in_place && may_leave {
                self.save(d.dst);
            }
            match template {
                Template::ShiftPair => self.shift_pair(d, half),
                Template::Extreme(of) => left.push(self.extreme(opcodes::extreme(of), d, half)),
                Template::MovePair => self.move_pair(d, half),
                Template::ShiftAddPair => self.shift_add_pair(d, half),
                Template::Halves(arithmetic) => self.of_halves(arithmetic, d, half),
                Template::Doubles(arithmetic) => self.of_doubles(arithmetic, d, half),
                Template::HalfToSingle => self.half_to_single(d, half),
                Template::SingleToHalf => self.single_to_half(d, half),
                Template::ToDouble(from) => self.make_doubles(from, d, half),
                Template::DoubleToSingle => self.make_singles(d, half),
                Template::SinglesToHalves => self.singles_to_halves(d, half),
                Template::Unary(unary, float) => self.unary(unary, float, d, half),
                Template::Scale(float) => self.scale(float, d, half),
                Template::Fused => self.fused_row(d, half),
                Template::Curve(curve) => left.push(self.curve(curve, d, half)),
                Template::Extremes(first, second) => {
                    left.push(self.extremes(opcodes::extreme(first), opcodes::extreme(second), d, half));
                }
                Template::Median => left.push(self.median(d, half)),
                Template::DivideFixup => left.push(self.divide_fixup(d, half)),
                Template::Recipe(recipe) => self.recipe(recipe, d, half),
                _ => {
                    self.load_sources(d, template.arity(), half);
                    let pair = self.define(d.dst + half);
                    for chunk in self.chunks() {
                        let (to, mask) = (pair.chunk(chunk), self.exec(half, chunk));
                        self.lanes(template, d, half, chunk, (to, mask));
                    }
                }
            }
        }
        self.restores = None;
        // The handler has done both halves.
        left.into_iter().for_each(|cold| self.come_back(cold));
    }

    /// An operation whose result saturates.
    pub(crate) fn saturating(&mut self, op: Op, d: &Di) {
        let Some(recipe) = Recipe::saturating(op, d) else { unreachable!("only operations with a recipe") };
        self.whole_recipe(recipe, d);
    }

    /// Sixteen lanes of an operation, to `to` where `mask` says.
    fn lanes(&mut self, template: Template, d: &Di, half: u32, chunk: u8, (to, mask): (Zmm, Mask)) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        match template {
            Template::Move => match self.operand(&d.src[0], false, half, chunk, t0) {
                Operand::Register(from) => self.put(to, from, mask),
                from => self.a.masked(VPBROADCASTD, to, Zmm(0), from, mask),
            },
            Template::Not => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                self.a.masked(VPXORD, to, a, Operand::Constant(u32::MAX), mask);
            }
            Template::Convert(op) => {
                let a = self.operand(&d.src[0], false, half, chunk, t0);
                self.a.masked(opcodes::integer(op), to, Zmm(0), a, mask);
            }
            Template::Two(op) => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                let b = self.operand(&d.src[1], false, half, chunk, t1);
                self.a.masked(opcodes::two(op), to, a, b, mask);
            }
            Template::Float(op) => {
                // Of several NaNs the first is the result.
                let sources = op.signed(&d.src);
                let a = self.register(&sources[0], true, half, chunk, t0);
                let b = self.operand(&sources[1], true, half, chunk, t1);
                self.a.masked(opcodes::arithmetic(op).0, to, a, b, mask);
            }
            Template::Swapped(op) => {
                let b = self.register(&d.src[1], false, half, chunk, t1);
                let a = self.operand(&d.src[0], false, half, chunk, t0);
                self.a.masked(opcodes::two(op), to, b, a, mask);
            }
            Template::Fused => {
                let way = self.sums.way(d);
                self.fused_to(d, (half, chunk), (to, mask), way);
            }
            Template::Bits(function) => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                let b = self.register(&d.src[1], false, half, chunk, t1);
                let c = self.operand(&d.src[2], false, half, chunk, t2);
                self.put(t0, a, K0);
                self.a.evex(VPTERNLOGD.by(function), t0, b, c);
                self.put(to, t0, mask);
            }
            Template::Chain(first, second) => {
                // What is the same for all lanes is still there behind the first sixteen.
                let same = d.src[..2].iter().all(|source| source.kind != Kind::Vector);
                if !same || chunk == self.chunks().start {
                    let a = self.register(&d.src[0], false, half, chunk, t0);
                    let b = self.operand(&d.src[1], false, half, chunk, t1);
                    self.a.evex(opcodes::two(first), t0, a, b);
                }
                let c = self.operand(&d.src[2], false, half, chunk, t2);
                self.a.masked(opcodes::two(second), to, t0, c, mask);
            }
            Template::Shift(how) => {
                let (by_lanes, by_constant) = opcodes::shift(how);
                if d.src[0].kind == Kind::Vector || d.src[0].kind == Kind::Scalar {
                    let count = self.count(&d.src[0], half, chunk, t0);
                    let b = self.register(&d.src[1], false, half, chunk, t1);
                    self.a.masked(by_lanes, to, b, count, mask);
                } else {
                    let b = self.register(&d.src[1], false, half, chunk, t1);
                    self.a.shift(by_constant.by(d.src[0].value as u8 & 31), to, b, mask);
                }
            }
            Template::ShiftThen(op) => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                self.shifted_left(&d.src[1], half, chunk, (t0, a));
                let c = self.operand(&d.src[2], false, half, chunk, t2);
                self.a.masked(opcodes::two(op), to, t0, c, mask);
            }
            Template::AddShift => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                let b = self.operand(&d.src[1], false, half, chunk, t1);
                self.a.evex(VPADDD, t0, a, b);
                self.shifted_left(&d.src[2], half, chunk, (t0, t0));
                self.put(to, t0, mask);
            }
            Template::Extract => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                self.a.shift(VPSRLD.by(d.src[1].value as u8 & 31), t0, a, K0);
                let ones = !(u32::MAX << (d.src[2].value & 31));
                self.a.masked(VPANDD, to, t0, Operand::Constant(ones), mask);
            }
            Template::Align => {
                let count = d.src[2].value as u8 & 31;
                let a = self.register(&d.src[0], false, half, chunk, t0);
                let b = self.register(&d.src[1], false, half, chunk, t1);
                if count == 0 {
                    return self.put(to, b, mask);
                }
                self.a.shift(VPSLLD.by(32 - count), t0, a, K0);
                self.a.shift(VPSRLD.by(count), t1, b, K0);
                self.a.masked(VPORD, to, t0, t1, mask);
            }
            Template::Multiply24 | Template::MultiplyAdd24 => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                let b = self.register(&d.src[1], false, half, chunk, t1);
                self.a.evex(VPANDD, t0, a, Operand::Constant(0xff_ffff));
                self.a.evex(VPANDD, t1, b, Operand::Constant(0xff_ffff));
                if template == Template::Multiply24 {
                    return self.a.masked(VPMULLD, to, t0, t1, mask);
                }
                self.a.evex(VPMULLD, t0, t0, t1);
                let c = self.operand(&d.src[2], false, half, chunk, t2);
                self.a.masked(VPADDD, to, t0, c, mask);
            }
            Template::ConvertByte(byte) => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                self.a.shift(VPSRLD.by(byte * 8), t0, a, K0);
                self.a.evex(VPANDD, t0, t0, Operand::Constant(0xff));
                self.a.masked(VCVTDQ2PS, to, Zmm(0), t0, mask);
            }
            Template::ToUnsigned => {
                let a = self.register(&d.src[0], true, half, chunk, t0);
                // Of a NaN and zero the second source is the larger one.
                self.a.evex(VMAXPS, t0, a, Operand::Constant(0));
                self.a.masked(VCVTTPS2UDQ, to, Zmm(0), t0, mask);
            }
            Template::Reciprocal => {
                self.reciprocals(d, half, chunk);
                self.put(to, Zmm(3), mask);
            }
            Template::ToSigned => {
                let (a, [k, l]) = (self.register(&d.src[0], true, half, chunk, t0), SCRATCH);
                // Not less than 2^31, or a NaN.
                self.a.compare(VCMPPS.by(NOT_LESS), k, a, Operand::Constant(0x4f00_0000), K0);
                self.a.compare(VCMPPS.by(UNORDERED), l, a, Operand::Register(a), K0);
                self.a.evex(VCVTTPS2DQ, t1, Zmm(0), a);
                self.a.masked(VPBROADCASTD, t1, Zmm(0), Operand::Constant(i32::MAX as u32), k);
                self.a.masked(VPXORD, t1, t1, t1, l);
                self.put(to, t1, mask);
            }
            Template::MultiplyHigh => {
                self.products(d, half, chunk);
                self.put(to, t1, mask);
            }
            Template::MultiplyHighSigned => {
                self.products(d, half, chunk);
                self.subtract_signs(d, half, chunk);
                self.put(to, t1, mask);
            }
            Template::ShiftPair
            | Template::Extreme(_)
            | Template::Extremes(..)
            | Template::Median
            | Template::DivideFixup
            | Template::MovePair
            | Template::ShiftAddPair
            | Template::Halves(_)
            | Template::Doubles(_)
            | Template::HalfToSingle
            | Template::SingleToHalf
            | Template::SinglesToHalves
            | Template::ToDouble(_)
            | Template::DoubleToSingle
            | Template::DivideFixupDoubles
            | Template::DoubleRoot(_)
            | Template::ExtremeOf(..)
            | Template::Curve(_)
            | Template::Unary(..)
            | Template::Scale(_)
            | Template::Recipe(_) => unreachable!("done by halves"),
        }
    }

    /// A shift count of five bits.
    fn count(&mut self, source: &Source, half: u32, chunk: u8, temporary: Zmm) -> Zmm {
        let count = self.register(source, false, half, chunk, temporary);
        self.a.evex(VPANDD, temporary, count, Operand::Constant(31));
        temporary
    }

    fn shifted_left(&mut self, count: &Source, half: u32, chunk: u8, (to, from): (Zmm, Zmm)) {
        if count.kind == Kind::Vector || count.kind == Kind::Scalar {
            let count = self.count(count, half, chunk, Zmm(3));
            self.a.evex(VPSLLVD, to, from, count);
        } else {
            self.a.shift(VPSLLD.by(count.value as u8 & 31), to, from, K0);
        }
    }

    /// Leaves the element to its handler if a lane is in either mask.
    pub(crate) fn leave_if_any(&mut self, k: Mask, l: Mask) -> Cold {
        let cold = self.leave();
        self.a.mask(KORTESTW, k, Mask(0), l);
        self.a.jump_if(Condition::NotEqual, cold.entry);
        cold
    }

    /// The low halves of 64-bit products to temporary 0, the high halves to 1; 2 and 3 are used.
    pub(crate) fn products(&mut self, d: &Di, half: u32, chunk: u8) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let a = self.register(&d.src[0], false, half, chunk, t0);
        let b = self.register(&d.src[1], false, half, chunk, t3);
        self.a.immediate(Integer::Mov, false, Gpr::Rax, 0xaaaa);
        self.a.mask(KMOVW_FROM, ODD, Mask(0), Mask(0));
        self.a.evex(VPMULUDQ, t1, a, b);
        self.a.shift(VPSRLQ.by(32), t2, a, K0);
        self.a.shift(VPSRLQ.by(32), t3, b, K0);
        self.a.evex(VPMULUDQ, t2, t2, t3);
        self.a.shift(VPSLLQ.by(32), t3, t2, K0);
        self.put(t0, t1, K0);
        self.put(t0, t3, ODD);
        self.a.shift(VPSRLQ.by(32), t1, t1, K0);
        self.put(t1, t2, ODD);
    }

    /// Makes the high halves in temporary 1 those of signed numbers; 2 and 3 are used.
    pub(crate) fn subtract_signs(&mut self, d: &Di, half: u32, chunk: u8) {
        let (t1, t2, t3) = (Zmm(1), Zmm(2), Zmm(3));
        for (negative, other) in [(0, 1), (1, 0)] {
            let from = self.register(&d.src[negative], false, half, chunk, t2);
            self.a.shift(VPSRAD.by(31), t2, from, K0);
            let other = self.operand(&d.src[other], false, half, chunk, t3);
            self.a.evex(VPANDD, t2, t2, other);
            self.a.evex(VPSUBD, t1, t1, t2);
        }
    }

    fn shift_pair(&mut self, d: &Di, half: u32) {
        let (t0, t1) = (Zmm(0), Zmm(1));
        let count = d.src[0].value as u8 & 63;
        let low = self.load_row(d.src[1].value + half);
        let high = self.load_row(d.src[1].value + half + self.halves);
        let (to_low, to_high) = (self.define(d.dst + half), self.define(d.dst + half + self.halves));
        for chunk in self.chunks() {
            let (low, high, mask) = (low.chunk(chunk), high.chunk(chunk), self.exec(half, chunk));
            let by = count & 31;
            let (to, to_up) = (to_low.chunk(chunk), to_high.chunk(chunk));
            if mask == K0 && (1..32).contains(&count) && to_up != low {
                self.a.shift(VPSRLD.by(32 - by), t0, low, K0);
                self.a.shift(VPSLLD.by(by), to_up, high, K0);
                self.a.evex(VPORD, to_up, to_up, t0);
                // The high half has been read.
                self.a.shift(VPSLLD.by(by), to, low, K0);
                continue;
            }
            self.a.shift(VPSLLD.by(by), t0, low, K0);
            if count < 32 {
                self.a.shift(VPSLLD.by(by), t1, high, K0);
                if by > 0 {
                    self.a.shift(VPSRLD.by(32 - by), Zmm(2), low, K0);
                    self.a.evex(VPORD, t1, t1, Zmm(2));
                }
                self.put(to, t0, mask);
                self.put(to_up, t1, mask);
            } else {
                self.put(to_up, t0, mask);
                self.a.evex(VPXORD, t1, t1, t1);
                self.put(to, t1, mask);
            }
        }
    }

    fn move_pair(&mut self, d: &Di, half: u32) {
        let words: Vec<_> = self.chunks().map(|chunk| (chunk, self.wide(&d.src[0], half, chunk))).collect();
        let (low, high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
        for (chunk, (from_low, from_high)) in words {
            let mask = self.exec(half, chunk);
            // One may be where the other goes.
            self.in_register(Zmm(0), from_low);
            self.in_register(Zmm(1), from_high);
            self.put(low.chunk(chunk), Zmm(0), mask);
            self.put(high.chunk(chunk), Zmm(1), mask);
        }
    }

    pub(super) fn in_register(&mut self, to: Zmm, from: Operand) {
        match from {
            Operand::Register(from) => self.put(to, from, K0),
            from => self.a.evex(VPBROADCASTD, to, Zmm(0), from),
        }
    }

    /// `v_lshl_add_u64` by a constant.
    fn shift_add_pair(&mut self, d: &Di, half: u32) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let count = d.src[1].value as u8 & 7;
        for source in [&d.src[0], &d.src[2]] {
            self.wide(source, half, 0);
        }
        let (to_low, to_high) = (self.define(d.dst + half), self.define(d.dst + self.halves + half));
        for chunk in self.chunks() {
            let mask = self.exec(half, chunk);
            let (low, high) = self.wide(&d.src[0], half, chunk);
            self.in_register(t0, low);
            self.in_register(t1, high);
            if count > 0 {
                self.a.shift(VPSRLD.by(32 - count), t2, t0, K0);
                self.a.shift(VPSLLD.by(count), t0, t0, K0);
                self.a.shift(VPSLLD.by(count), t1, t1, K0);
                self.a.evex(VPORD, t1, t1, t2);
            }
            let (low, high) = self.wide(&d.src[2], half, chunk);
            self.a.evex(VPADDD, t2, t0, low);
            self.a.compare(VPCMPUD.by(LESS), ODD, t2, t0, K0);
            self.a.evex(VPADDD, t1, t1, high);
            self.a.masked(VPADDD, t1, t1, Operand::Constant(1), ODD);
            self.put(to_low.chunk(chunk), t2, mask);
            self.put(to_high.chunk(chunk), t1, mask);
        }
    }

    /// Both operations of a VOPD: all sources are read before either result is written.
    pub(crate) fn pair(&mut self, (x, y): (Op, Op), d: &Di) {
        let [first, second] = template::pair(d);
        let reads = |d: &Di, row: u32| d.src.iter().any(|s| s.kind == Kind::Vector && s.value == row);
        let (Some(of_x), Some(of_y)) = (template::vector(x, &first), template::vector(y, &second)) else {
            unreachable!("only pairs with templates");
        };
        let clash = reads(&Di { src: [second.src[0], second.src[1], Source::ZERO], ..second }, d.dst);
        self.load_sources(&first, of_x.arity(), 0);
        self.load_sources(&second, of_y.arity(), 0);
        let (place_x, place_y) = (self.define(d.dst), self.define(d.dst2));
        let sums = of_x == Template::Fused && of_y == Template::Fused;
        if sums && self.fused_pair([&first, &second], [place_x, place_y]) {
            return;
        }
        for chunk in self.chunks() {
            let (to_x, to_y) = (place_x.chunk(chunk), place_y.chunk(chunk));
            let mask = self.exec(0, chunk);
            if clash {
                self.put(Zmm(3), to_x, K0);
                if of_x == Template::Fused {
                    let way = self.sums.way(&first);
                    self.fused_to(&first, (0, chunk), (Zmm(3), K0), way);
                } else {
                    self.lanes(of_x, &first, 0, chunk, (Zmm(3), K0));
                }
                self.lanes(of_y, &second, 0, chunk, (to_y, mask));
                self.put(to_x, Zmm(3), mask);
            } else {
                self.lanes(of_x, &first, 0, chunk, (to_x, mask));
                self.lanes(of_y, &second, 0, chunk, (to_y, mask));
            }
        }
    }
}
