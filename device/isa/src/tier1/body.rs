//! The code of one block's vector operations.

use super::asm::{Assembler, At, Condition, Gpr, Integer, K0, Label, Mask, Operand, Zmm};
use super::encoding::*;
use super::rows::{Pair, Rows};
use super::template::{self, Template};
use crate::exec::cmp::Operands;
use crate::exec::di::{Di, Kind, Source};
use crate::inst::Op;
use crate::registers::slot;

/// The wave.
pub(super) const WAVE: Gpr = Gpr::Rbx;

/// Masks for whatever an operation needs.
const SCRATCH: [Mask; 2] = [Mask(5), Mask(6)];
/// A mask of every other lane, while it is needed.
const ODD: Mask = Mask(7);

const SIGN: u32 = 0x8000_0000;

/// A scalar register.
pub(super) fn scalar(register: u32) -> At {
    At(WAVE, (register as i32 & 255) * 4)
}

/// Code beside the usual way: an element that its handler does after all.
pub(super) struct Cold {
    pub(super) entry: Label,
    pub(super) back: Label,
    pub(super) element: usize,
    /// Where rows are when it is entered, and where they are to be when it is left.
    pub(super) before: Rows,
    pub(super) after: Rows,
    pub(super) masked: bool,
    /// Instructions of the block that are not counted yet.
    pub(super) uncounted: u32,
}

/// A way out, with the flow in `Rax`.
pub(super) struct Exit {
    pub(super) label: Label,
    pub(super) element: usize,
    /// Instructions of the block that are not counted yet.
    pub(super) uncounted: u32,
    /// What `Rax` is to be, if it is not.
    pub(super) flow: Option<u32>,
}

/// The machine.
pub(super) const MACHINE: Gpr = Gpr::R12;
/// The region's elements.
pub(super) const ELEMENTS: Gpr = Gpr::R13;

/// Masks of EXEC, for blocks of waves with inactive lanes.
pub(super) fn load_exec(a: &mut Assembler, halves: u32) {
    for chunk in 0..halves * 2 {
        let At(base, displacement) = scalar(EXEC);
        a.mask_at(KMOVW, Mask(1 + chunk as u8), At(base, displacement + chunk as i32 * 2));
    }
}

/// Calls the handler of an element; its flow is in `Rax`, and the flags say whether the next element follows.
pub(super) fn invoke(a: &mut Assembler, element: usize, invoke: u64) {
    a.vzeroupper();
    a.integer(Integer::Mov, true, Gpr::Rdi, WAVE);
    a.integer(Integer::Mov, true, Gpr::Rsi, MACHINE);
    a.address(Gpr::Rdx, At(ELEMENTS, (element * size_of::<Di>()) as i32));
    a.constant64(Gpr::Rax, invoke);
    a.call(Gpr::Rax);
    a.test(false, Gpr::Rax);
}

/// A block in the making: straight code in which EXEC does not change.
pub(super) struct Body<'a> {
    pub(super) a: &'a mut Assembler,
    pub(super) rows: Rows,
    /// Lanes are chosen by EXEC, which is in masks 1 to 4; otherwise all are active.
    pub(super) masked: bool,
    pub(super) halves: u32,
    /// Rows of each element from this block's first on.
    pub(super) touched: &'a [Vec<u32>],
    /// The element at hand.
    pub(super) at: usize,
    pub(super) first: usize,
    /// Instructions of the block up to that one.
    pub(super) uncounted: u32,
    pub(super) cold: &'a mut Vec<Cold>,
    pub(super) exits: &'a mut Vec<Exit>,
    /// What calls handlers.
    pub(super) invoke: u64,
}

impl Body<'_> {
    pub(super) fn load_row(&mut self, row: u32) -> Pair {
        let mut rows = core::mem::take(&mut self.rows);
        let later = &self.touched[self.at - self.first + 1..];
        let pair = rows.load(self.a, row, distance(later));
        self.rows = rows;
        pair
    }

    /// The place of a row that is written.
    pub(super) fn define(&mut self, row: u32) -> Pair {
        let mut rows = core::mem::take(&mut self.rows);
        let later = &self.touched[self.at - self.first + 1..];
        let pair = rows.define(self.a, row, self.masked, distance(later));
        self.rows = rows;
        pair
    }

    /// Loads the rows of the first `count` sources, before a place is made for the result: it may be one of them.
    fn load_sources(&mut self, d: &Di, count: usize, half: u32) {
        for source in &d.src[..count] {
            if source.kind == Kind::Vector {
                self.load_row(source.value + half);
            }
        }
    }

    /// Lanes of a chunk that are written.
    fn exec(&self, half: u32, chunk: u8) -> Mask {
        if self.masked { Mask(1 + half as u8 * 2 + chunk) } else { K0 }
    }

    fn is_modified(source: &Source, float: bool) -> bool {
        float && (source.neg || source.abs)
    }

    /// A source as the last operand of an instruction; `temporary` is for one that has to be made.
    fn operand(&mut self, source: &Source, float: bool, half: u32, chunk: u8, temporary: Zmm) -> Operand {
        if Self::is_modified(source, float) {
            return self.register(source, float, half, chunk, temporary).into();
        }
        match source.kind {
            Kind::Vector => self.load_row(source.value + half).chunk(chunk).into(),
            Kind::Scalar => Operand::Splat(scalar(source.value)),
            _ => Operand::Constant(source.value),
        }
    }

    /// A source in a register.
    fn register(&mut self, source: &Source, float: bool, half: u32, chunk: u8, temporary: Zmm) -> Zmm {
        let plain = match source.kind {
            Kind::Vector => self.load_row(source.value + half).chunk(chunk),
            Kind::Scalar => {
                self.a.evex(VPBROADCASTD, temporary, Zmm(0), Operand::Splat(scalar(source.value)));
                temporary
            }
            _ => {
                self.a.evex(VPBROADCASTD, temporary, Zmm(0), Operand::Constant(source.value));
                temporary
            }
        };
        if !Self::is_modified(source, float) {
            return plain;
        }
        let mut from = plain;
        if source.abs {
            self.a.evex(VPANDD, temporary, from, Operand::Constant(!SIGN));
            from = temporary;
        }
        if source.neg {
            self.a.evex(VPXORD, temporary, from, Operand::Constant(SIGN));
        }
        temporary
    }

    /// Copies a result to its place, for the active lanes.
    fn put(&mut self, to: Zmm, from: Zmm, mask: Mask) {
        if to != from {
            self.a.masked(VMOVDQA32, to, Zmm(0), from, mask);
        }
    }

    /// A vector operation.
    pub(super) fn vector(&mut self, op: Op, d: &Di) {
        let Some(template) = template::vector(op, d) else { unreachable!("only operations with a template") };
        for half in 0..self.halves {
            match template {
                Template::ShiftPair => self.shift_pair(d, half),
                Template::Extreme(op, zeros) => self.extreme(op, zeros, d, half),
                _ => {
                    self.load_sources(d, template.arity(), half);
                    let pair = self.define(d.dst + half);
                    for chunk in 0..2 {
                        let (to, mask) = (pair.chunk(chunk), self.exec(half, chunk));
                        self.lanes(template, d, half, chunk, (to, mask));
                    }
                }
            }
        }
    }

    /// Sixteen lanes of an operation, to `to` where `mask` says.
    fn lanes(&mut self, template: Template, d: &Di, half: u32, chunk: u8, (to, mask): (Zmm, Mask)) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let float = template.is_float();
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
                self.a.masked(op, to, Zmm(0), a, mask);
            }
            Template::Two(op) | Template::Float(op) => {
                let a = self.register(&d.src[0], float, half, chunk, t0);
                let b = self.operand(&d.src[1], float, half, chunk, t1);
                self.a.masked(op, to, a, b, mask);
            }
            Template::Swapped(op) => {
                let b = self.register(&d.src[1], float, half, chunk, t1);
                let a = self.operand(&d.src[0], float, half, chunk, t0);
                self.a.masked(op, to, b, a, mask);
            }
            Template::ReverseSubtract => {
                // a * -1 + b: the same number, and a NaN of `a` comes first.
                let a = self.register(&d.src[0], float, half, chunk, t0);
                let b = self.register(&d.src[1], float, half, chunk, t1);
                self.put(t2, a, K0);
                self.a.evex(VFMADD132PS, t2, b, Operand::Constant(0xbf80_0000));
                self.put(to, t2, mask);
            }
            Template::Fused => self.fused(d, half, chunk, (to, mask)),
            Template::Bits(function) => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                let b = self.register(&d.src[1], false, half, chunk, t1);
                let c = self.operand(&d.src[2], false, half, chunk, t2);
                self.put(t0, a, K0);
                self.a.evex(VPTERNLOGD.by(function), t0, b, c);
                self.put(to, t0, mask);
            }
            Template::Chain(first, second) => {
                let a = self.register(&d.src[0], false, half, chunk, t0);
                let b = self.operand(&d.src[1], false, half, chunk, t1);
                self.a.evex(first, t0, a, b);
                let c = self.operand(&d.src[2], false, half, chunk, t2);
                self.a.masked(second, to, t0, c, mask);
            }
            Template::Shift(by_lanes, by_constant) => {
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
                self.a.masked(op, to, t0, c, mask);
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
            Template::MultiplyHigh => {
                self.products(d, half, chunk);
                self.put(to, t1, mask);
            }
            Template::ShiftPair | Template::Extreme(..) => unreachable!("done by halves"),
        }
    }

    /// `a * b + c`: the form of the instruction decides which NaN comes first, `a`, `b`, then `c` in each of these.
    fn fused(&mut self, d: &Di, half: u32, chunk: u8, (to, mask): (Zmm, Mask)) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let [x, y, z] = &d.src;
        let adds_to_itself = z.is_plain_vector() && z.value == d.dst;
        if adds_to_itself {
            let a = self.register(x, true, half, chunk, t0);
            let b = self.operand(y, true, half, chunk, t1);
            return self.a.masked(VFMADD231PS, to, a, b, mask);
        }
        let a = self.register(x, true, half, chunk, t0);
        let c = self.register(z, true, half, chunk, t2);
        let b = self.operand(y, true, half, chunk, t1);
        // In place where that destroys no source, or where the source is the destination.
        let in_place = mask == K0 && c != to && b != Operand::Register(to);
        let at = if in_place || (mask == K0 && a == to) { to } else { t0 };
        self.put(at, a, K0);
        self.a.evex(VFMADD132PS, at, c, b);
        self.put(to, at, mask);
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

    /// The smaller or larger of two: NaNs are left to the handler.
    fn extreme(&mut self, op: Evex, zeros: Evex, d: &Di, half: u32) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let [k, l] = SCRATCH;
        for (chunk, to) in [(0, k), (1, l)] {
            let a = self.register(&d.src[0], true, half, chunk, t0);
            let b = self.operand(&d.src[1], true, half, chunk, t1);
            self.a.compare(VCMPPS.by(UNORDERED), to, a, b, self.exec(half, chunk));
        }
        let cold = self.leave_if_any(k, l);
        let pair = self.define(d.dst + half);
        for chunk in 0..2 {
            let a = self.register(&d.src[0], true, half, chunk, t0);
            let b = self.operand(&d.src[1], true, half, chunk, t1);
            self.a.compare(VCMPPS.by(EQUAL), k, a, b, K0);
            self.a.evex(op, t2, a, b);
            self.a.masked(zeros, t2, a, b, k);
            let mask = self.exec(half, chunk);
            self.put(pair.chunk(chunk), t2, mask);
        }
        self.come_back(cold);
    }

    /// Leaves the element to its handler if a lane is in either mask.
    fn leave_if_any(&mut self, k: Mask, l: Mask) -> Cold {
        let cold = self.leave();
        self.a.mask(KORTESTW, k, Mask(0), l);
        self.a.jump_if(Condition::NotEqual, cold.entry);
        cold
    }

    /// A way out to the handler. Nothing that it reads may be written before its last use.
    pub(super) fn leave(&mut self) -> Cold {
        let (entry, back) = (self.a.label(), self.a.label());
        Cold {
            entry,
            back,
            element: self.at,
            before: self.rows.clone(),
            after: Rows::default(),
            masked: self.masked,
            uncounted: self.uncounted,
        }
    }

    /// The element by its handler, which leaves EXEC alone.
    pub(super) fn by_handler(&mut self) {
        self.rows.flush(self.a);
        invoke(self.a, self.at, self.invoke);
        let label = self.a.label();
        self.exits.push(Exit { label, element: self.at, uncounted: self.uncounted, flow: None });
        self.a.jump_if(Condition::NotEqual, label);
        if self.masked {
            load_exec(self.a, self.halves);
        }
    }

    pub(super) fn come_back(&mut self, mut cold: Cold) {
        cold.after = self.rows.clone();
        self.a.bind(cold.back);
        self.cold.push(cold);
    }

    /// The low halves of 64-bit products to temporary 0, the high halves to 1; 2 and 3 are used.
    fn products(&mut self, d: &Di, half: u32, chunk: u8) {
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

    fn shift_pair(&mut self, d: &Di, half: u32) {
        let (t0, t1) = (Zmm(0), Zmm(1));
        let count = d.src[0].value as u8 & 63;
        let low = self.load_row(d.src[1].value + half);
        let high = self.load_row(d.src[1].value + half + self.halves);
        let (to_low, to_high) = (self.define(d.dst + half), self.define(d.dst + half + self.halves));
        for chunk in 0..2 {
            let (low, high, mask) = (low.chunk(chunk), high.chunk(chunk), self.exec(half, chunk));
            let by = count & 31;
            self.a.shift(VPSLLD.by(by), t0, low, K0);
            if count < 32 {
                self.a.shift(VPSLLD.by(by), t1, high, K0);
                if by > 0 {
                    self.a.shift(VPSRLD.by(32 - by), Zmm(2), low, K0);
                    self.a.evex(VPORD, t1, t1, Zmm(2));
                }
                self.put(to_low.chunk(chunk), t0, mask);
                self.put(to_high.chunk(chunk), t1, mask);
            } else {
                self.put(to_high.chunk(chunk), t0, mask);
                self.a.evex(VPXORD, t1, t1, t1);
                self.put(to_low.chunk(chunk), t1, mask);
            }
        }
    }

    /// Both operations of a VOPD: all sources are read before either result is written.
    pub(super) fn pair(&mut self, (x, y): (Op, Op), d: &Di) {
        let vector = |value: u32| Source { value, kind: Kind::Vector, ..Source::ZERO };
        let first = Di { src: [d.src[0], vector(d.src[2].value), vector(d.dst)], ..*d };
        let second = Di { dst: d.dst2, src: [d.src[1], vector(d.imm), vector(d.dst2)], ..*d };
        let reads = |d: &Di, row: u32| d.src.iter().any(|s| s.kind == Kind::Vector && s.value == row);
        let (Some(of_x), Some(of_y)) = (template::vector(x, &first), template::vector(y, &second)) else {
            unreachable!("only pairs with templates");
        };
        let clash = reads(&Di { src: [second.src[0], second.src[1], Source::ZERO], ..second }, d.dst);
        self.load_sources(&first, of_x.arity(), 0);
        self.load_sources(&second, of_y.arity(), 0);
        let (place_x, place_y) = (self.define(d.dst), self.define(d.dst2));
        for chunk in 0..2 {
            let (to_x, to_y) = (place_x.chunk(chunk), place_y.chunk(chunk));
            let mask = self.exec(0, chunk);
            if clash {
                self.put(Zmm(3), to_x, K0);
                self.fused_or_two(of_x, &first, chunk, (Zmm(3), K0));
                self.lanes(of_y, &second, 0, chunk, (to_y, mask));
                self.put(to_x, Zmm(3), mask);
            } else {
                self.lanes(of_x, &first, 0, chunk, (to_x, mask));
                self.lanes(of_y, &second, 0, chunk, (to_y, mask));
            }
        }
    }

    /// As [`Body::lanes`] for an operation of a pair, to a register that is not its row's.
    fn fused_or_two(&mut self, template: Template, d: &Di, chunk: u8, to: (Zmm, Mask)) {
        if template == Template::Fused {
            let a = self.register(&d.src[0], true, 0, chunk, Zmm(0));
            let b = self.operand(&d.src[1], true, 0, chunk, Zmm(1));
            return self.a.masked(VFMADD231PS, to.0, a, b, to.1);
        }
        self.lanes(template, d, 0, chunk, to);
    }

    /// Joins the masks of two chunks in the first one.
    fn join(&mut self, low: Mask, high: Mask) {
        self.a.mask(KUNPCKWD, low, high, low);
    }

    /// A comparison.
    pub(super) fn compare(&mut self, operands: Operands, d: &Di) {
        let float = operands == Operands::F32;
        let op = match operands {
            Operands::F32 => VCMPPS.by(float_predicate(d.aux)),
            Operands::I32 => VPCMPD.by(integer_predicate(d.aux)),
            _ => VPCMPUD.by(integer_predicate(d.aux)),
        };
        let masks = [Mask(5), Mask(6), Mask(7)];
        for half in 0..self.halves {
            for chunk in 0..2 {
                let a = self.register(&d.src[0], float, half, chunk, Zmm(0));
                let b = self.operand(&d.src[1], float, half, chunk, Zmm(1));
                let to = masks[half as usize + usize::from(chunk)];
                self.a.compare(op, to, a, b, self.exec(half, chunk));
            }
            self.join(masks[half as usize], masks[half as usize + 1]);
        }
        if self.halves == 1 {
            self.a.mask_at(KMOVD_STORE, masks[0], scalar(d.dst));
        } else {
            self.a.mask(KUNPCKDQ, masks[0], masks[1], masks[0]);
            self.a.mask_at(KMOVQ_STORE, masks[0], scalar(d.dst));
        }
    }

    /// `v_cndmask_b32`.
    pub(super) fn select(&mut self, d: &Di) {
        let k = SCRATCH[0];
        for half in 0..self.halves {
            self.load_sources(d, 2, half);
            let pair = self.define(d.dst + half);
            for chunk in 0..2 {
                let At(base, displacement) = scalar(d.src[2].value + half);
                self.a.mask_at(KMOVW, k, At(base, displacement + i32::from(chunk) * 2));
                let a = self.register(&d.src[0], true, half, chunk, Zmm(0));
                let b = self.operand(&d.src[1], true, half, chunk, Zmm(1));
                let (to, mask) = (pair.chunk(chunk), self.exec(half, chunk));
                if mask == K0 {
                    self.a.masked(VPBLENDMD, to, a, b, k);
                } else {
                    self.a.masked(VPBLENDMD, Zmm(2), a, b, k);
                    self.put(to, Zmm(2), mask);
                }
            }
        }
    }

    /// A sum, difference or product with carry, in a wave with one half.
    pub(super) fn carry(&mut self, op: Op, d: &Di) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let [k, l] = SCRATCH;
        self.load_sources(d, if op == Op::V_MAD_U64_U32 { 3 } else { 2 }, 0);
        if op == Op::V_MAD_U64_U32 && d.src[2].kind == Kind::Vector {
            self.load_row(d.src[2].value + 1);
        }
        for chunk in 0..2 {
            let mask = self.exec(0, chunk);
            let out = [k, l][usize::from(chunk)];
            if op == Op::V_MAD_U64_U32 {
                self.products(d, 0, chunk);
                let (low, high) = self.wide(&d.src[2], chunk);
                self.a.evex(VPADDD, t2, t0, low);
                self.a.compare(VPCMPUD.by(LESS), ODD, t2, t0, K0);
                self.a.evex(VPADDD, t3, t1, high);
                self.a.masked(VPADDD, t3, t3, Operand::Constant(1), ODD);
                let (to_low, to_high) = (self.define(d.dst), self.define(d.dst + 1));
                self.put(to_low.chunk(chunk), t2, mask);
                self.put(to_high.chunk(chunk), t3, mask);
                continue;
            }
            let (swap, subtract) = match op {
                Op::V_SUBREV_CO_U32 | Op::V_SUBREV_CO_CI_U32 => (true, true),
                Op::V_SUB_CO_U32 | Op::V_SUB_CO_CI_U32 => (false, true),
                _ => (false, false),
            };
            let (first, second) = if swap { (1, 0) } else { (0, 1) };
            let a = self.register(&d.src[first], false, 0, chunk, t0);
            let b = self.operand(&d.src[second], false, 0, chunk, t1);
            let carries = matches!(op, Op::V_ADD_CO_CI_U32 | Op::V_SUB_CO_CI_U32 | Op::V_SUBREV_CO_CI_U32);
            self.a.evex(if subtract { VPSUBD } else { VPADDD }, t2, a, b);
            // A carry is where the sum is less than a source, a borrow where one source is less than the other.
            if subtract {
                self.a.compare(VPCMPUD.by(LESS), out, a, b, mask);
            } else {
                self.a.compare(VPCMPUD.by(LESS), out, t2, a, mask);
            }
            if carries {
                let At(base, displacement) = scalar(d.imm);
                self.a.mask_at(KMOVW, ODD, At(base, displacement + i32::from(chunk) * 2));
                let limit = if subtract { 0 } else { u32::MAX };
                self.a.evex(VPBROADCASTD, t3, Zmm(0), Operand::Constant(limit));
                // What the carry wraps.
                let wraps = Mask(if self.masked { 3 } else { 1 });
                self.a.compare(VPCMPUD.by(SAME), wraps, t2, t3, ODD);
                if mask != K0 {
                    self.a.mask(KANDW, wraps, wraps, mask);
                }
                self.a.mask(KORW, out, out, wraps);
                let op = if subtract { VPSUBD } else { VPADDD };
                self.a.masked(op, t2, t2, Operand::Constant(1), ODD);
            }
            let to = self.define(d.dst).chunk(chunk);
            self.put(to, t2, mask);
        }
        if op != Op::V_MAD_U64_U32 {
            self.join(k, l);
            self.a.mask_at(KMOVD_STORE, k, scalar(d.dst2));
        }
    }

    /// Both halves of a source of 64 bits in a wave with one half.
    fn wide(&mut self, source: &Source, chunk: u8) -> (Operand, Operand) {
        match source.kind {
            Kind::Vector => {
                let low = self.load_row(source.value).chunk(chunk);
                let high = self.load_row(source.value + 1).chunk(chunk);
                (low.into(), high.into())
            }
            Kind::Scalar => {
                let At(base, displacement) = scalar(source.value);
                (Operand::Splat(At(base, displacement)), Operand::Splat(At(base, displacement + 4)))
            }
            Kind::Signed => {
                let high = if source.value >> 31 != 0 { u32::MAX } else { 0 };
                (Operand::Constant(source.value), Operand::Constant(high))
            }
            Kind::High => (Operand::Constant(0), Operand::Constant(source.value)),
            Kind::Constant => (Operand::Constant(source.value), Operand::Constant(0)),
        }
    }
}

fn distance(later: &[Vec<u32>]) -> impl Fn(u32) -> u32 + use<'_> {
    move |row| {
        let found = later.iter().take(64).position(|rows| rows.contains(&row));
        found.map_or(u32::MAX, |distance| distance as u32)
    }
}

/// Predicates of `vpcmpd` and `vcmpps`.
const SAME: u8 = 0;
const LESS: u8 = 1;
const EQUAL: u8 = 0;
const UNORDERED: u8 = 3;

/// The predicate of integers for the outcomes less, equal and greater.
fn integer_predicate(outcomes: u8) -> u8 {
    [3, 1, 0, 2, 6, 4, 5, 7][usize::from(outcomes & 7)]
}

/// The predicate of singles, none of which signals for a quiet NaN, for these and unordered.
fn float_predicate(outcomes: u8) -> u8 {
    const PREDICATES: [u8; 16] =
        [0x0b, 0x11, 0x00, 0x12, 0x1e, 0x0c, 0x1d, 0x07, 0x03, 0x19, 0x08, 0x1a, 0x16, 0x04, 0x15, 0x0f];
    PREDICATES[usize::from(outcomes & 15)]
}

/// Where `VCC` is, for a branch.
pub(super) const VCC: u32 = slot::VCC as u32;
/// Where `EXEC` is.
pub(super) const EXEC: u32 = slot::EXEC as u32;
/// Where `SCC` is.
pub(super) const SCC: u32 = slot::SCC as u32;
