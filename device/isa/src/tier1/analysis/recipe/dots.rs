//! Dot products of integers.

use super::steps::*;
use crate::inst::Op;
use crate::tier1::analysis::template::Shift;

impl Steps<'_> {
    /// A dot product; returns false if the operation is another one.
    pub(super) fn dot(&mut self, op: Op, saturates: bool) -> bool {
        let signs = [0, 1].map(|n: usize| self.d.src[n].neg);
        let (bits, signed) = match op {
            Op::V_DOT4_I32_IU8 => (8, signs),
            Op::V_DOT8_I32_IU4 => (4, signs),
            Op::V_DOT4_I32_I8 => (8, [true; 2]),
            Op::V_DOT8_I32_I4 => (4, [true; 2]),
            Op::V_DOT4_U32_U8 => (8, [false; 2]),
            Op::V_DOT8_U32_U4 => (4, [false; 2]),
            Op::V_DOT2_I32_I16 | Op::V_DOT2C_I32_I16 => (16, [true; 2]),
            Op::V_DOT2_U32_U16 => {
                self.unsigned_halves();
                return true;
            }
            _ => return false,
        };
        // Elements of the same place in both halves are a pair of products.
        for n in 0..16 / bits {
            let to = if n == 0 { T0 } else { T1 };
            let a = self.elements(0, (bits, n), signed[0], to);
            let b = self.elements(1, (bits, n), signed[1], T2);
            self.two(to, Act::MultiplyHalves, a, b);
            if n > 0 {
                self.more(T0, ADD, T1);
            }
        }
        let is_unsigned = matches!(op, Op::V_DOT4_U32_U8 | Op::V_DOT8_U32_U4);
        match (saturates, is_unsigned) {
            (false, _) => self.more(T0, ADD, C),
            (true, true) => self.add_saturating(C),
            (true, false) => self.add_saturating_signed(),
        }
        true
    }

    /// Elements of a source, one in each half of a register: number `n` of those with `bits` bits.
    fn elements(&mut self, source: usize, (bits, n): (u32, u32), signed: bool, to: Place) -> Place {
        let from = Place::Source(source);
        let above = 16 - bits - n * bits;
        let words = Elements::Words;
        if bits == 16 {
            return from;
        }
        if signed {
            if above > 0 {
                self.shift_of(words, to, (Shift::Left, above), from);
            }
            let from = if above > 0 { to } else { from };
            self.shift_of(words, to, (Shift::Signed, 16 - bits), from);
            return to;
        }
        if n > 0 {
            self.shift_of(words, to, (Shift::Right, n * bits), from);
        }
        if above > 0 {
            let from = if n > 0 { to } else { from };
            let mask = (1 << bits) - 1;
            self.two(to, AND, from, number(mask | mask << 16));
        }
        to
    }

    /// Both products of unsigned halves, which have no instruction.
    fn unsigned_halves(&mut self) {
        for (to, low) in [(T0, true), (T1, false)] {
            for (to, source) in [(to, A), (T2, B)] {
                if low {
                    self.two(to, AND, source, number(0xffff));
                } else {
                    self.shift(to, Shift::Right, 16, source);
                }
            }
            self.more(to, MULTIPLY, T2);
        }
        self.more(T0, ADD, T1);
        self.more(T0, ADD, C);
    }

    /// Adds a number to temporary 0, as far as there is room for it.
    pub(super) fn add_saturating(&mut self, added: Place) {
        self.two(T1, XOR, T0, number(u32::MAX));
        self.more(T1, MIN_UNSIGNED, added);
        self.more(T0, ADD, T1);
    }

    /// Adds the third source to temporary 0 as signed numbers: what is added is cut off where the sum would leave the range.
    fn add_saturating_signed(&mut self) {
        let (least, most) = (i32::MIN.cast_unsigned(), i32::MAX.cast_unsigned());
        self.two(T1, MAX_SIGNED, T0, number(0));
        self.two(T1, SUBTRACT, number(most), T1);
        self.more(T1, MIN_SIGNED, C);
        self.two(T2, MIN_SIGNED, T0, number(0));
        self.two(T2, SUBTRACT, number(least), T2);
        self.more(T1, MAX_SIGNED, T2);
        self.more(T0, ADD, T1);
    }
}
