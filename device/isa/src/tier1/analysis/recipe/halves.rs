//! Integers of 16 bits, in halves of registers.

use super::steps::*;
use crate::exec::di::{Di, Source, flag};
use crate::exec::vector::sdwa;
use crate::exec::vector::vop3p::high;
use crate::inst::Op;
use crate::tier1::analysis::template::Shift;

/// Bits above a half that is brought to the low end of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extended {
    /// Any.
    No,
    Unsigned,
    Signed,
}

impl Steps<'_> {
    /// A half of a source.
    pub(super) fn half(&mut self, n: usize, extended: Extended, to: Place) -> Place {
        let high = self.d.src[n].high;
        if let Some(value) = self.constant(n) {
            let half = (if high { value >> 16 } else { value }) as u16;
            return number(match extended {
                Extended::Signed => i32::from(half.cast_signed()).cast_unsigned(),
                _ => half.into(),
            });
        }
        let from = Place::Source(n);
        match (extended, high) {
            (Extended::No, false) => return from,
            (Extended::No | Extended::Unsigned, true) => self.shift(to, Shift::Right, 16, from),
            (Extended::Unsigned, false) => self.two(to, AND, from, number(0xffff)),
            (Extended::Signed, true) => self.shift(to, Shift::Signed, 16, from),
            (Extended::Signed, false) => {
                self.shift(to, Shift::Left, 16, from);
                self.shift(to, Shift::Signed, 16, to);
            }
        }
        to
    }

    /// A result goes to its part of a register, as `aux` says, see [`merge`](sdwa::merge).
    pub(super) fn part(&mut self) {
        let (first, bits) = sdwa::place(self.d.aux);
        let mask = u32::MAX >> (32 - bits);
        let rest = self.d.aux >> sdwa::UNUSED;
        if rest == 1 {
            // The sign fills the register from there on.
            self.shift(T0, Shift::Left, 32 - bits, A);
            return self.shift(T0, Shift::Signed, 32 - bits - first, T0);
        }
        self.two(T0, AND, A, number(mask));
        self.shift(T0, Shift::Left, first, T0);
        if rest > 1 {
            self.two(T1, AND, Place::Old, number(!(mask << first)));
            self.more(T0, OR, T1);
        }
    }

    /// An operation on both halves of registers.
    pub(super) fn packed(&mut self, op: Op, saturates: bool) {
        let bit = |at: u32, n: usize| self.d.imm >> (at + n as u32) & 1 != 0;
        let src = core::array::from_fn(|n| Source { high: bit(high::SELECT, n), ..self.d.src[n] });
        let d = Di { src, ..*self.d };
        let mut upper = Steps::new(&d);
        let result = upper.half_of(op, saturates);
        upper.shift(T2, Shift::Left, 16, result);
        self.append(upper);
        let result = self.half_of(op, saturates);
        self.two(T0, AND, result, number(0xffff));
        self.more(T0, OR, T2);
    }

    fn half_of(&mut self, op: Op, saturates: bool) -> Place {
        if saturates { self.saturating_half(op) } else { self.low_half(op) }
    }

    /// As [`Steps::low_half`], of a result that saturates: it has room in 32 bits before.
    fn saturating_half(&mut self, op: Op) -> Place {
        let signed = matches!(op, Op::V_ADD_NC_I16 | Op::V_SUB_NC_I16 | Op::V_MAD_I16);
        let extended = if signed { Extended::Signed } else { Extended::Unsigned };
        let [a, b] = [(0, T0), (1, T1)].map(|(n, to)| self.half(n, extended, to));
        match op {
            Op::V_ADD_NC_U16 | Op::V_ADD_NC_I16 => self.two(T0, ADD, a, b),
            Op::V_SUB_NC_I16 => self.two(T0, SUBTRACT, a, b),
            Op::V_SUB_NC_U16 => {
                self.two(T0, MAX_UNSIGNED, a, b);
                self.more(T0, SUBTRACT, b);
            }
            Op::V_SUBREV_U16 => {
                self.two(T1, MAX_UNSIGNED, b, a);
                self.two(T0, SUBTRACT, T1, a);
            }
            _ => {
                self.two(T0, MULTIPLY, a, b);
                let c = self.half(2, extended, T1);
                self.more(T0, ADD, c);
            }
        }
        if signed {
            self.more(T0, MIN_SIGNED, number(0x7fff));
            self.more(T0, MAX_SIGNED, number(0xffff_8000));
        } else {
            self.more(T0, MIN_UNSIGNED, number(0xffff));
        }
        T0
    }

    /// An operation whose result is a half.
    pub(super) fn halves(&mut self, op: Op, saturates: bool) {
        let result = self.half_of(op, saturates);
        let (moved, stays) = if self.d.flags & flag::DST_HIGH != 0 {
            self.shift(T0, Shift::Left, 16, result);
            (T0, 0xffff)
        } else {
            self.two(T0, AND, result, number(0xffff));
            (T0, 0xffff_0000)
        };
        self.two(T1, AND, Place::Old, number(stays));
        self.two(T0, OR, moved, T1);
    }

    /// The result in the low half of a place, with anything above it.
    fn low_half(&mut self, op: Op) -> Place {
        use Extended::{No, Signed, Unsigned};
        let both = |steps: &mut Self, extended| [(0, T0), (1, T1)].map(|(n, to)| steps.half(n, extended, to));
        let two = |steps: &mut Self, act: Act, extended| {
            let [a, b] = both(steps, extended);
            steps.two(T0, act, a, b);
        };
        match op {
            Op::V_MOV_B16 => return self.half(0, No, T0),
            Op::V_NOT_B16 => {
                let a = self.half(0, No, T0);
                self.two(T0, XOR, a, number(u32::MAX));
            }
            Op::V_AND_B16 => two(self, AND, No),
            Op::V_OR_B16 => two(self, OR, No),
            Op::V_XOR_B16 => two(self, XOR, No),
            Op::V_ADD_NC_U16 | Op::V_ADD_NC_I16 => two(self, ADD, No),
            Op::V_SUB_NC_U16 | Op::V_SUB_NC_I16 => two(self, SUBTRACT, No),
            Op::V_SUBREV_U16 => {
                let [a, b] = both(self, No);
                self.two(T0, SUBTRACT, b, a);
            }
            Op::V_MUL_LO_U16 => two(self, MULTIPLY, No),
            Op::V_MIN_U16 => two(self, MIN_UNSIGNED, Unsigned),
            Op::V_MAX_U16 => two(self, MAX_UNSIGNED, Unsigned),
            Op::V_MIN_I16 => two(self, MIN_SIGNED, Signed),
            Op::V_MAX_I16 => two(self, MAX_SIGNED, Signed),
            Op::V_LSHLREV_B16 => self.shift_half(Shift::Left, No),
            Op::V_LSHRREV_B16 => self.shift_half(Shift::Right, Unsigned),
            Op::V_ASHRREV_I16 => self.shift_half(Shift::Signed, Signed),
            Op::V_MAD_U16 | Op::V_MAD_I16 => {
                two(self, MULTIPLY, No);
                let c = self.half(2, No, T1);
                self.more(T0, ADD, c);
            }
            Op::V_MIN3_U16 => self.two_of_three(MIN_UNSIGNED, Unsigned),
            Op::V_MAX3_U16 => self.two_of_three(MAX_UNSIGNED, Unsigned),
            Op::V_MIN3_I16 => self.two_of_three(MIN_SIGNED, Signed),
            Op::V_MAX3_I16 => self.two_of_three(MAX_SIGNED, Signed),
            Op::V_MED3_U16 | Op::V_MED3_I16 => {
                let (min, max, extended) = match op {
                    Op::V_MED3_U16 => (MIN_UNSIGNED, MAX_UNSIGNED, Unsigned),
                    _ => (MIN_SIGNED, MAX_SIGNED, Signed),
                };
                let [a, b] = both(self, extended);
                self.two(T2, max, a, b);
                self.two(T0, min, a, b);
                let c = self.half(2, extended, T1);
                self.more(T2, min, c);
                self.more(T0, max, T2);
            }
            _ => unreachable!("only operations with a recipe"),
        }
        T0
    }

    fn two_of_three(&mut self, act: Act, extended: Extended) {
        for n in 0..3 {
            let half = self.half(n, extended, if n == 0 { T0 } else { T1 });
            match n {
                0 if half != T0 => self.two(T0, OR, half, number(0)),
                0 => {}
                _ => self.more(T0, act, half),
            }
        }
    }

    /// The second source shifted by the first.
    fn shift_half(&mut self, how: Shift, extended: Extended) {
        let count = match self.half(0, Extended::No, T1) {
            Place::Number(count) => number(count & 15),
            count => {
                self.two(T1, AND, count, number(15));
                T1
            }
        };
        let from = self.half(1, extended, T0);
        self.shift_by(T0, how, from, count);
    }
}
