//! Vector operations on eight lanes.

use crate::exec::di::{Di, Kind, Source};
use crate::inst::Op;
use crate::tier1::analysis::template::{self, Integer, Template};
use crate::tier1::x86::asm::{Operand, Zmm};
use crate::tier1::x86::avx512::masks::UNORDERED;
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::opcodes;
use crate::tier1::x86::sums::Way;

use super::cache::{Key, RESULT};
use super::opcodes::*;
use super::pass::{Pass, constant};

/// Temporaries.
pub(super) const T: [Zmm; 4] = [Zmm(0), Zmm(1), Zmm(2), Zmm(3)];
const ZERO: Zmm = Zmm(0);

impl Pass<'_> {
    /// A vector operation.
    pub(super) fn vector(&mut self, op: Op, d: &Di) {
        let Some(template) = template::vector(op, d) else { unreachable!("only operations with a template") };
        match template {
            Template::ShiftPair => self.shift_pair(d),
            Template::MovePair => self.move_pair(d),
            Template::ShiftAddPair => self.shift_add_pair(d),
            Template::Doubles(arithmetic) => self.of_doubles(arithmetic, d),
            Template::Halves(arithmetic) => self.of_halves(arithmetic, d),
            Template::HalfToSingle => self.half_to_single(d),
            Template::SingleToHalf => self.single_to_half(d),
            Template::SinglesToHalves => self.singles_to_halves(d),
            Template::Unary(unary, float) => self.unary(unary, float, d),
            Template::ToDouble(from) => self.make_doubles(from, d),
            Template::DoubleToSingle => self.make_singles(d),
            Template::Recipe(recipe) => self.recipe(recipe, d),
            _ => {
                let result = self.lanes(template, d, None);
                self.finish(d.dst, result);
            }
        }
    }

    /// Both operations of a VOPD: all sources are read before either result is written.
    pub(super) fn pair(&mut self, (x, y): (Op, Op), d: &Di) {
        let [first, second] = template::pair(d);
        let (Some(of_x), Some(of_y)) = (template::vector(x, &first), template::vector(y, &second)) else {
            unreachable!("only pairs with templates");
        };
        let clash = second.src[..2].iter().any(|s| s.kind == Kind::Vector && s.value == d.dst);
        if clash || self.masked {
            let of_first = self.lanes(of_x, &first, Some(Zmm(3)));
            let of_second = self.lanes(of_y, &second, None);
            self.finish(d.dst2, of_second);
            self.finish(d.dst, of_first);
        } else {
            let result = self.lanes(of_x, &first, None);
            self.finish(d.dst, result);
            let result = self.lanes(of_y, &second, None);
            self.finish(d.dst2, result);
        }
    }

    /// An operation's result, in `at` or else in a register for its row; temporaries 0 to 2 are used, and 3 if `at` does not say so.
    fn lanes(&mut self, template: Template, d: &Di, at: Option<Zmm>) -> Zmm {
        let [t0, t1, t2, _] = T;
        let [x, y, z] = &d.src;
        // The place is made after the sources are loaded: it may be that of one of them.
        let place = |pass: &mut Self| at.unwrap_or_else(|| pass.result(d.dst));
        match template {
            Template::Move => match self.operand(x, false, t0) {
                Operand::Register(from) if at.is_none() => return from,
                from => {
                    let to = place(self);
                    self.a.vex(VMOVUPS_LOAD, to, ZERO, from);
                    return to;
                }
            },
            Template::Not => {
                let a = self.register(x, false, t0);
                let to = place(self);
                self.a.vex(VPXORD, to, a, constant(u32::MAX));
                return to;
            }
            Template::Convert(Integer::Unsigned) => {
                // Both halves are exact, their sum is rounded once.
                let a = self.register(x, false, t0);
                self.a.vex_shift(VPSRLD.by(16), t1, a);
                self.a.vex(VPBLENDW.by(0xaa), t0, a, constant(0));
                self.a.vex(VCVTDQ2PS, t1, ZERO, t1);
                self.a.vex(VCVTDQ2PS, t0, ZERO, t0);
                self.a.vex(VMULPS, t1, t1, constant(65536f32.to_bits()));
                let to = place(self);
                self.a.vex(VADDPS, to, t1, t0);
                return to;
            }
            Template::Convert(op) => {
                let a = self.operand(x, false, t0);
                let to = place(self);
                self.a.vex(opcodes::integer(op), to, ZERO, a);
                return to;
            }
            Template::Two(op) => {
                let a = self.register(x, false, t0);
                let b = self.operand(y, false, t1);
                let to = place(self);
                self.a.vex(opcodes::two(op), to, a, b);
                return to;
            }
            Template::Float(op) => {
                // Of several NaNs the first is the result.
                let sources = op.signed(&d.src);
                let a = self.register(&sources[0], true, t0);
                let b = self.operand(&sources[1], true, t1);
                let to = place(self);
                self.a.vex(opcodes::arithmetic(op).0, to, a, b);
                return to;
            }
            Template::Swapped(op) => {
                let b = self.register(y, false, t1);
                let a = self.operand(x, false, t0);
                let to = place(self);
                self.a.vex(opcodes::two(op), to, b, a);
                return to;
            }
            Template::Fused => return self.fused(d, at),
            Template::Bits(function) => {
                let a = self.register(x, false, t0);
                let b = self.operand(y, false, t1);
                match function {
                    0xfe => self.a.vex(VPORD, t2, a, b),
                    0x96 => self.a.vex(VPXORD, t2, a, b),
                    _ => self.a.vex(VPANDD, t2, a, b),
                }
                // The mask of `v_bfi_b32` takes other bits of the third source.
                let c = self.operand(z, false, t1);
                let c = if function == 0xca {
                    self.a.vex(VPANDN, t1, a, c);
                    t1.into()
                } else {
                    c
                };
                let to = place(self);
                self.a.vex(if function == 0x96 { VPXORD } else { VPORD }, to, t2, c);
                return to;
            }
            Template::Chain(first, second) => {
                let a = self.register(x, false, t0);
                let b = self.operand(y, false, t1);
                self.a.vex(opcodes::two(first), t0, a, b);
                let c = self.operand(z, false, t2);
                let to = place(self);
                self.a.vex(opcodes::two(second), to, t0, c);
                return to;
            }
            Template::Shift(how) => {
                let (by_lanes, by_constant) = opcodes::shift(how);
                if x.kind == Kind::Vector || x.kind == Kind::Scalar {
                    self.count(x, t0);
                    let b = self.register(y, false, t1);
                    let to = place(self);
                    self.a.vex(by_lanes, to, b, t0);
                    return to;
                }
                let b = self.register(y, false, t1);
                let to = place(self);
                self.a.vex_shift(by_constant.by(x.value as u8 & 31), to, b);
                return to;
            }
            Template::ShiftThen(op) => {
                let a = self.register(x, false, t0);
                self.shifted_left(y, t0, a);
                let c = self.operand(z, false, t2);
                let to = place(self);
                self.a.vex(opcodes::two(op), to, t0, c);
                return to;
            }
            Template::AddShift => {
                let a = self.register(x, false, t0);
                let b = self.operand(y, false, t1);
                self.a.vex(VPADDD, t0, a, b);
                self.shifted_left(z, t2, t0);
            }
            Template::Extract => {
                let a = self.register(x, false, t0);
                self.a.vex_shift(VPSRLD.by(y.value as u8 & 31), t0, a);
                let to = place(self);
                self.a.vex(VPANDD, to, t0, constant(!(u32::MAX << (z.value & 31))));
                return to;
            }
            Template::Align => {
                let count = z.value as u8 & 31;
                let a = self.register(x, false, t0);
                let b = self.register(y, false, t1);
                if count == 0 {
                    self.put(t2, b);
                } else {
                    self.a.vex_shift(VPSLLD.by(32 - count), t0, a);
                    self.a.vex_shift(VPSRLD.by(count), t1, b);
                    let to = place(self);
                    self.a.vex(VPORD, to, t0, t1);
                    return to;
                }
            }
            Template::Multiply24 | Template::MultiplyAdd24 => {
                let a = self.register(x, false, t0);
                let b = self.register(y, false, t1);
                self.a.vex(VPANDD, t0, a, constant(0xff_ffff));
                self.a.vex(VPANDD, t1, b, constant(0xff_ffff));
                self.a.vex(VPMULLD, t2, t0, t1);
                if template == Template::MultiplyAdd24 {
                    let c = self.operand(z, false, t0);
                    let to = place(self);
                    self.a.vex(VPADDD, to, t2, c);
                    return to;
                }
            }
            Template::ConvertByte(byte) => {
                let a = self.register(x, false, t0);
                self.a.vex_shift(VPSRLD.by(byte * 8), t0, a);
                self.a.vex(VPANDD, t0, t0, constant(0xff));
                let to = place(self);
                self.a.vex(VCVTDQ2PS, to, ZERO, t0);
                return to;
            }
            Template::MultiplyHigh | Template::MultiplyHighSigned => {
                self.products(d);
                if template == Template::MultiplyHighSigned {
                    self.subtract_signs(d);
                }
                self.put(t2, t1);
            }
            Template::ToUnsigned | Template::ToSigned | Template::Reciprocal | Template::Extreme(_) => {
                self.of_singles(template, d);
            }
            _ => unreachable!("done elsewhere, or by the handler"),
        }
        let to = place(self);
        self.put(to, t2);
        to
    }

    /// `a * b + c`: the form of the instruction decides which NaN comes first, `a`, `b`, then `c` in each of these.
    fn fused(&mut self, d: &Di, at: Option<Zmm>) -> Zmm {
        let [t0, t1, t2, _] = T;
        let [x, y, z] = &d.src;
        let a = self.register(x, true, t0);
        let c = self.register(z, true, t2);
        let b = self.operand(y, true, t1);
        let to = at.unwrap_or_else(|| self.result(d.dst));
        let free = |taken: &[Operand]| {
            let free = [to, t2, t1, t0, T[3]]
                .into_iter()
                .find(|register| !taken.contains(&Operand::Register(*register)));
            free.unwrap_or_else(|| unreachable!("there are more of them than are taken"))
        };
        match self.sums.way(d) {
            Way::Plain if c == to => self.a.vex(VFMADD231PS, to, a, b),
            Way::Plain if a == to || b != Operand::Register(to) => {
                self.put(to, a);
                self.a.vex(VFMADD132PS, to, c, b);
            }
            Way::Plain => {
                self.put(t0, a);
                self.a.vex(VFMADD132PS, t0, c, b);
                self.put(to, t0);
            }
            Way::Exact => {
                // What is added to an invalid product does not matter.
                let sum = free(&[a.into(), b, c.into()]);
                self.a.vex(VMULPS, sum, a, b);
                self.a.vex(VCMPPS.by(UNORDERED), sum, sum, sum);
                self.a.vex(VPANDN, sum, sum, c);
                self.a.vex(VFMADD231PS, sum, a, b);
                self.put(to, sum);
            }
            Way::Product => {
                let product = free(&[a.into(), b, c.into(), to.into()]);
                let invalid = free(&[a.into(), b, c.into(), to.into(), product.into()]);
                self.a.vex(VMULPS, product, a, b);
                self.a.vex(VCMPPS.by(UNORDERED), invalid, product, product);
                self.blend(to, c, product, invalid);
            }
        }
        to
    }

    /// A shift count of five bits.
    fn count(&mut self, source: &Source, to: Zmm) {
        let count = self.register(source, false, to);
        self.a.vex(VPANDD, to, count, constant(31));
    }

    /// Shifted left; temporary 1 is used.
    fn shifted_left(&mut self, count: &Source, to: Zmm, from: Zmm) {
        if count.kind == Kind::Vector || count.kind == Kind::Scalar {
            self.count(count, T[1]);
            self.a.vex(VPSLLVD, to, from, T[1]);
        } else {
            self.a.vex_shift(VPSLLD.by(count.value as u8 & 31), to, from);
        }
    }

    /// The low halves of 64-bit products to temporary 0, the high halves to 1; 2 and 3 are used.
    pub(super) fn products(&mut self, d: &Di) {
        let [t0, t1, t2, t3] = T;
        let a = self.register(&d.src[0], false, t0);
        let b = self.register(&d.src[1], false, t3);
        self.a.vex_shift(VPSRLQ.by(32).narrow(), t2, a);
        self.a.vex(VPMULUDQ_VEX, t1, a, b);
        self.a.vex_shift(VPSRLQ.by(32).narrow(), t3, b);
        self.a.vex(VPMULUDQ_VEX, t2, t2, t3);
        self.a.vex_shift(VPSLLQ.by(32).narrow(), t3, t2);
        self.a.vex(VPBLENDD.by(0xaa), t0, t1, t3);
        self.a.vex_shift(VPSRLQ.by(32).narrow(), t1, t1);
        self.a.vex(VPBLENDD.by(0xaa), t1, t1, t2);
    }

    /// Makes the high halves in temporary 1 those of signed numbers; 2 and 3 are used.
    pub(super) fn subtract_signs(&mut self, d: &Di) {
        let [_, t1, t2, t3] = T;
        for (negative, other) in [(0, 1), (1, 0)] {
            let from = self.register(&d.src[negative], false, t2);
            self.a.vex_shift(VPSRAD.by(31), t2, from);
            let other = self.operand(&d.src[other], false, t3);
            self.a.vex(VPANDD, t2, t2, other);
            self.a.vex(VPSUBD, t1, t1, t2);
        }
    }

    /// Bits of a register that stay.
    pub(super) fn keep(&mut self, d: &Di) {
        let from = self.row(d.dst);
        let to = self.result(d.dst);
        self.a.vex(VPANDD, to, from, constant(d.imm));
        self.finish(d.dst, to);
    }

    /// Both words of a source of 64 bits, in registers.
    pub(super) fn wide(&mut self, source: &Source) -> [Zmm; 2] {
        let high = |low: Key| match (source.kind, low) {
            (Kind::Vector, _) => Key::Row(source.value + self.halves),
            (Kind::Scalar, _) => Key::Splat(source.value + 1),
            (Kind::Signed, _) => Key::Constant(if source.value >> 31 != 0 { u32::MAX } else { 0 }),
            (Kind::High, _) => Key::Constant(source.value),
            (Kind::Constant, _) => Key::Constant(0),
        };
        let low = match source.kind {
            Kind::Vector => Key::Row(source.value),
            Kind::Scalar => Key::Splat(source.value),
            Kind::High => Key::Constant(0),
            Kind::Signed | Kind::Constant => Key::Constant(source.value),
        };
        let high = high(low);
        [low, high].map(|key| self.load(key))
    }

    /// Results of 64 bits from registers that are no row's.
    pub(super) fn finish_pair(&mut self, d: &Di, low: Zmm, high: Zmm) {
        self.finish(d.dst, low);
        self.finish(d.dst + self.halves, high);
    }

    fn shift_pair(&mut self, d: &Di) {
        let [t0, t1, t2, _] = T;
        let count = d.src[0].value as u8 & 63;
        let low = self.row(d.src[1].value);
        let high = self.row(d.src[1].value + self.halves);
        let by = count & 31;
        self.a.vex_shift(VPSLLD.by(by), t0, low);
        if count < 32 {
            self.a.vex_shift(VPSLLD.by(by), t1, high);
            if by > 0 {
                self.a.vex_shift(VPSRLD.by(32 - by), t2, low);
                self.a.vex(VPORD, t1, t1, t2);
            }
            self.finish_pair(d, t0, t1);
        } else {
            self.a.vex(VPXORD, t1, t1, t1);
            self.finish_pair(d, t1, t0);
        }
    }

    fn move_pair(&mut self, d: &Di) {
        let [low, high] = self.wide(&d.src[0]);
        // One may be where the other goes.
        self.put(T[0], low);
        self.put(T[1], high);
        self.finish_pair(d, T[0], T[1]);
    }

    /// `v_lshl_add_u64` by a constant.
    fn shift_add_pair(&mut self, d: &Di) {
        let [t0, t1, t2, t3] = T;
        let count = d.src[1].value as u8 & 7;
        let [low, high] = self.wide(&d.src[0]);
        let [low, high] = if count > 0 {
            self.a.vex_shift(VPSRLD.by(32 - count), t2, low);
            self.a.vex_shift(VPSLLD.by(count), t0, low);
            self.a.vex_shift(VPSLLD.by(count), t1, high);
            self.a.vex(VPORD, t1, t1, t2);
            [t0, t1]
        } else {
            [low, high]
        };
        let [add_low, add_high] = self.wide(&d.src[2]);
        self.a.vex(VPADDD, t2, low, add_low);
        // All bits where the low words carry, less one.
        self.a.vex(VPMAXUD, t3, t2, low);
        self.a.vex(VPCMPEQD, t3, t3, t2);
        self.a.vex(VPADDD, t1, high, add_high);
        self.a.vex(VPADDD, t1, t1, t3);
        self.a.vex(VPADDD, t1, t1, constant(1));
        self.finish_pair(d, t2, t1);
    }
}

/// Checks that nothing is kept in the register of results.
const _: () = assert!(RESULT.0 > 3);
