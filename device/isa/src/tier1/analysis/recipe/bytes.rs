//! Bytes of registers.

use super::steps::*;
use crate::tier1::analysis::template::Shift;

/// The highest bit of each byte, and all others.
const TOPS: u32 = 0x8080_8080;
const BELOW: u32 = 0x7f7f_7f7f;
/// A byte that picks nothing.
const NOTHING: u8 = 0x80;

impl Steps<'_> {
    /// `v_perm_b32`: bytes of `b` (0 to 3) and `a` (to 7), signs of the halves of both (8 to 11), zeros (12) and ones.
    pub(super) fn permuted_bytes(&mut self) {
        match self.constant(2) {
            Some(select) => self.bytes_by(select.to_le_bytes()),
            None => self.bytes_by_lanes(),
        }
    }

    /// Bytes that are known when code is made.
    fn bytes_by(&mut self, select: [u8; 4]) {
        let picked = |from: u8, byte: fn(u8) -> u8| {
            let of = |n: u8| if n & !3 == from { byte(n & 3) } else { NOTHING };
            u32::from_le_bytes(select.map(of))
        };
        let none = u32::from_le_bytes([NOTHING; 4]);
        let ones = u32::from_le_bytes(select.map(|n| if n > 12 { u8::MAX } else { 0 }));
        self.two(T0, AND, A, number(0));
        for (from, source) in [(0, B), (4, A)] {
            let bytes = picked(from, |n| n);
            if bytes != none {
                self.two(T1, PICK, source, Place::Bytes(bytes));
                self.more(T0, OR, T1);
            }
        }
        // Of the signs, the first two are those of `b`.
        for (high, source) in [(false, B), (true, A)] {
            let of = |n: u8| match n {
                8..=11 if (n > 9) == high => n & 1,
                _ => NOTHING / 2,
            };
            let bytes = u32::from_le_bytes(select.map(|n| of(n) * 2));
            if bytes != none {
                self.shift_of(Elements::Words, T1, (Shift::Signed, 15), source);
                self.two(T1, PICK, T1, Place::Bytes(bytes));
                self.more(T0, OR, T1);
            }
        }
        self.more(T0, OR, number(ones));
    }

    /// Bytes that lanes or a scalar name.
    fn bytes_by_lanes(&mut self) {
        // Signs of the four halves side by side, and of them the one that each byte names.
        self.shift_of(Elements::Words, T0, (Shift::Signed, 15), B);
        self.more(T0, PICK, Place::Bytes(0x8080_0200));
        self.shift_of(Elements::Words, T1, (Shift::Signed, 15), A);
        self.more(T1, PICK, Place::Bytes(0x0200_8080));
        self.more(T0, OR, T1);
        self.own_numbers();
        self.more(T0, PICK, T2);
        self.at_least(12);
        self.two(T0, Act::AndNot, T1, T0);
        self.at_least(13);
        self.more(T0, OR, T1);
        self.at_least(8);
        self.more(T0, AND, T1);
        // Of other bytes, each is one of `b` or one of `a`.
        self.own_numbers();
        self.more(T1, AND, number(TOPS));
        self.more(T2, OR, T1);
        for (source, picks) in [(B, 0), (A, TOPS)] {
            self.shift(T1, Shift::Left, 5, C);
            self.more(T1, XOR, number(picks));
            self.more(T1, AND, number(TOPS));
            self.more(T1, OR, T2);
            self.two(T1, PICK, source, T1);
            self.more(T0, OR, T1);
        }
    }

    /// The low two bits of each byte of the third source as numbers of bytes, to temporary 2.
    fn own_numbers(&mut self) {
        self.two(T2, AND, C, number(0x0303_0303));
        self.more(T2, OR, Place::Bytes(0));
    }

    /// All bits of bytes of the third source that are not less than a number, to temporary 1; 2 is used.
    fn at_least(&mut self, least: u32) {
        self.two(T1, AND, C, number(BELOW));
        self.more(T1, ADD, number((0x80 - least) * 0x0101_0101));
        self.more(T1, OR, C);
        self.more(T1, AND, number(TOPS));
        self.shift(T2, Shift::Right, 7, T1);
        self.shift(T1, Shift::Left, 1, T1);
        self.more(T1, SUBTRACT, T2);
    }

    /// `v_lerp_u8`: means of bytes, rounded up where the lowest bit of `c` says so.
    pub(super) fn means_of_bytes(&mut self) {
        self.two(T0, XOR, A, B);
        self.two(T1, AND, T0, C);
        self.more(T1, AND, number(0x0101_0101));
        self.shift(T0, Shift::Right, 1, T0);
        self.more(T0, AND, number(BELOW));
        self.more(T0, ADD, T1);
        self.two(T1, AND, A, B);
        self.more(T0, ADD, T1);
    }
}
