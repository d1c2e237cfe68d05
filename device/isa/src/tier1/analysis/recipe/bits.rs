//! Integers and bits of 32 bits.

use super::halves::Extended;
use super::steps::*;
use crate::inst::Op;
use crate::tier1::analysis::template::Shift;

const ALL: u32 = u32::MAX;

impl Steps<'_> {
    /// An operation whose result is a word.
    pub(super) fn bits(&mut self, op: Op) {
        match op {
            Op::V_ADD_NC_U32 => {
                // No more than there is room for.
                self.two(T0, XOR, B, number(ALL));
                self.two(T0, MIN_UNSIGNED, A, T0);
                self.more(T0, ADD, B);
            }
            Op::V_SUB_NC_U32 | Op::V_SUBREV_NC_U32 => {
                self.two(T0, MAX_UNSIGNED, A, B);
                self.more(T0, SUBTRACT, if op == Op::V_SUB_NC_U32 { B } else { A });
            }
            Op::V_BFE_U32 => self.field(),
            Op::V_BFE_I32 => self.signed_field(),
            Op::V_BFM_B32 => {
                let ones = match self.low_bits(0, 31, T0) {
                    Place::Number(count) => number(!(ALL << count)),
                    count => {
                        self.two(T0, LEFT, number(ALL), count);
                        self.more(T0, XOR, number(ALL));
                        T0
                    }
                };
                let by = self.low_bits(1, 31, T1);
                self.shift_by(T0, Shift::Left, ones, by);
            }
            Op::V_ALIGNBIT_B32 => self.align(31, 0),
            Op::V_ALIGNBYTE_B32 => self.align(3, 3),
            Op::V_MUL_I32_I24 | Op::V_MAD_I32_I24 => {
                for (to, from) in [(T0, A), (T1, B)] {
                    self.shift(to, Shift::Left, 8, from);
                    self.shift(to, Shift::Signed, 8, to);
                }
                self.more(T0, MULTIPLY, T1);
                if op == Op::V_MAD_I32_I24 {
                    self.more(T0, ADD, C);
                }
            }
            Op::V_MED3_U32 => self.median(MIN_UNSIGNED, MAX_UNSIGNED, [A, B, C]),
            Op::V_MED3_I32 => self.median(MIN_SIGNED, MAX_SIGNED, [A, B, C]),
            Op::V_SAD_U32 => {
                self.two(T0, MAX_UNSIGNED, A, B);
                self.two(T1, MIN_UNSIGNED, A, B);
                self.more(T0, SUBTRACT, T1);
                self.more(T0, ADD, C);
            }
            Op::V_MAD_U32_U16 | Op::V_MAD_I32_I16 => {
                let extended = if op == Op::V_MAD_I32_I16 { Extended::Signed } else { Extended::Unsigned };
                let a = self.half(0, extended, T0);
                let b = self.half(1, extended, T1);
                self.two(T0, MULTIPLY, a, b);
                self.more(T0, ADD, C);
            }
            Op::V_XNOR_B32 => {
                self.two(T0, XOR, A, B);
                self.more(T0, XOR, number(ALL));
            }
            Op::V_BCNT_U32_B32 => {
                self.count_ones(A);
                self.more(T0, ADD, B);
            }
            Op::V_CVT_PK_U16_U32 => {
                self.two(T0, MIN_UNSIGNED, B, number(0xffff));
                self.shift(T0, Shift::Left, 16, T0);
                self.two(T1, MIN_UNSIGNED, A, number(0xffff));
                self.more(T0, OR, T1);
            }
            Op::V_CVT_PK_I16_I32 => {
                for (to, from) in [(T0, B), (T1, A)] {
                    self.two(to, MIN_SIGNED, from, number(0x7fff));
                    self.more(to, MAX_SIGNED, number(0xffff_8000));
                }
                self.shift(T0, Shift::Left, 16, T0);
                self.more(T1, AND, number(0xffff));
                self.more(T0, OR, T1);
            }
            Op::V_PACK_B32_F16 => {
                let high = self.half(1, Extended::No, T0);
                self.shift(T0, Shift::Left, 16, high);
                let low = self.half(0, Extended::Unsigned, T1);
                self.more(T0, OR, low);
            }
            Op::V_PERM_B32 => self.permuted_bytes(),
            Op::V_LERP_U8 => self.means_of_bytes(),
            Op::V_BFREV_B32 => self.reverse(),
            Op::V_CLZ_I32_U32 => self.leading_zeros(A),
            Op::V_CLS_I32 => {
                self.shift(T0, Shift::Signed, 31, A);
                self.more(T0, XOR, A);
                self.leading_zeros(T0);
            }
            Op::V_CTZ_I32_B32 => {
                self.two(T0, ADD, A, number(ALL));
                self.two(T0, Act::AndNot, A, T0);
                self.count_ones(T0);
                self.none_of_32();
            }
            Op::V_CVT_I32_I16 | Op::V_CVT_U32_U16 => {
                let extended = if op == Op::V_CVT_I32_I16 { Extended::Signed } else { Extended::Unsigned };
                let half = self.half(0, extended, T0);
                if half != T0 {
                    self.two(T0, OR, half, number(0));
                }
            }
            _ => unreachable!("only operations with a recipe"),
        }
    }

    /// `v_bfe_u32`.
    fn field(&mut self) {
        let by = self.low_bits(1, 31, T1);
        self.shift_by(T0, Shift::Right, A, by);
        match self.low_bits(2, 31, T1) {
            Place::Number(width) => self.more(T0, AND, number(!(ALL << width))),
            width => {
                self.two(T1, LEFT, number(ALL), width);
                self.two(T0, Act::AndNot, T1, T0);
            }
        }
    }

    /// `v_bfe_i32`: the field is shifted to the upper end and back. If it has no bits, that is by 32, after which nothing is left.
    fn signed_field(&mut self) {
        let by = self.low_bits(1, 31, T1);
        self.shift_by(T0, Shift::Signed, A, by);
        let above = match self.low_bits(2, 31, T1) {
            Place::Number(0) => return self.more(T0, AND, number(0)),
            Place::Number(width) => number(32 - width),
            width => {
                self.two(T1, SUBTRACT, number(32), width);
                T1
            }
        };
        self.shift_by(T0, Shift::Left, T0, above);
        self.shift_by(T0, Shift::Signed, T0, above);
    }

    /// `a:b` shifted right by the bits `mask` of the third source, which count in units of two to the power of `unit`.
    fn align(&mut self, mask: u32, unit: u32) {
        match self.low_bits(2, mask, T1) {
            Place::Number(count) => {
                let count = count << unit;
                self.shift_by(T0, Shift::Right, B, number(count));
                self.shift_by(T1, Shift::Left, A, number(32 - count));
                self.more(T0, OR, T1);
            }
            count => {
                if unit > 0 {
                    self.shift(count, Shift::Left, unit, count);
                }
                self.shift_by(T0, Shift::Right, B, count);
                // By 32, nothing is left.
                self.two(T1, SUBTRACT, number(32), count);
                self.two(T1, LEFT, A, T1);
                self.more(T0, OR, T1);
            }
        }
    }

    /// The number in the middle.
    pub(super) fn median(&mut self, min: Act, max: Act, [a, b, c]: [Place; 3]) {
        self.two(T2, max, a, b);
        self.more(T2, min, c);
        self.two(T0, min, a, b);
        self.more(T0, max, T2);
    }

    /// The number of ones, in fields that become larger; temporary 1 is used.
    fn count_ones(&mut self, from: Place) {
        self.shift(T1, Shift::Right, 1, from);
        self.more(T1, AND, number(0x5555_5555));
        self.two(T0, SUBTRACT, from, T1);
        self.shift(T1, Shift::Right, 2, T0);
        self.more(T1, AND, number(0x3333_3333));
        self.more(T0, AND, number(0x3333_3333));
        self.more(T0, ADD, T1);
        self.shift(T1, Shift::Right, 4, T0);
        self.more(T0, ADD, T1);
        self.more(T0, AND, number(0x0f0f_0f0f));
        // The highest byte of the product is the sum of all.
        self.more(T0, MULTIPLY, number(0x0101_0101));
        self.shift(T0, Shift::Right, 24, T0);
    }

    /// A count of 32 is none.
    fn none_of_32(&mut self) {
        self.choose(T0, number(ALL), Test::Equal, T0, number(32));
    }

    /// Zeros above the highest one, or all bits if there is no one.
    fn leading_zeros(&mut self, from: Place) {
        self.shift(T1, Shift::Right, 1, from);
        self.two(T0, OR, from, T1);
        for by in [2, 4, 8, 16] {
            self.shift(T1, Shift::Right, by, T0);
            self.more(T0, OR, T1);
        }
        self.more(T0, XOR, number(ALL));
        self.count_ones(T0);
        self.none_of_32();
    }

    /// Bits in reverse: neighbours change places, then pairs of them, and so on.
    fn reverse(&mut self) {
        let masks = [0x5555_5555, 0x3333_3333, 0x0f0f_0f0f, 0x00ff_00ff];
        let mut from = A;
        for (n, mask) in masks.into_iter().enumerate() {
            self.shift(T1, Shift::Right, 1 << n, from);
            self.more(T1, AND, number(mask));
            self.two(T0, AND, from, number(mask));
            self.shift(T0, Shift::Left, 1 << n, T0);
            self.more(T0, OR, T1);
            from = T0;
        }
        self.shift(T1, Shift::Right, 16, T0);
        self.shift(T0, Shift::Left, 16, T0);
        self.more(T0, OR, T1);
    }
}
