//! Steps of recipes.

use crate::exec::di::{Di, Kind};
use crate::tier1::analysis::template::{Shift, Two};

/// A place that a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A source of 32 bits.
    Source(usize),
    /// The low and the high word of a source of 64 bits.
    Low(usize),
    High(usize),
    /// The content of the destination before the operation.
    Old,
    Temporary(u8),
    Number(u32),
    /// Numbers of bytes of the lane's own dword, for [`Act::PickBytes`].
    Bytes(u32),
}

/// Numbers of bytes of a lane's own dword, as they count in its four lanes.
pub(crate) const fn own_bytes(bytes: u32, lane: u32) -> u32 {
    bytes | ((lane & 3) * 0x0404_0404)
}

/// A function of two registers of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Two(Two),
    /// Bits of `b` that `a` has not.
    AndNot,
    /// `a` shifted by the lanes of `b`; by 32 and more, everything goes.
    Shift(Shift),
    /// The sum of the products of both signed halves.
    MultiplyHalves,
    /// The bytes of `a` that the bytes of `b` name, which count in four lanes; none for those with bit 7.
    PickBytes,
}

impl Act {
    /// Returns true if it is on elements of 32 bits.
    pub(crate) fn is_of_dwords(self) -> bool {
        !matches!(self, Act::MultiplyHalves | Act::PickBytes)
    }
}

/// Elements that are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    Words,
    Dwords,
}

/// A comparison of two registers of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    /// `a > b` as signed numbers.
    Greater,
}

/// An instruction, whose result goes to a temporary from 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Two {
        act: Act,
        to: u8,
        a: Place,
        b: Place,
    },
    /// A shift by a constant, which is less than the bits of an element.
    Shift {
        how: Shift,
        of: Elements,
        by: u8,
        to: u8,
        from: Place,
    },
    /// `from` in lanes where a test of `a` and `b` is true; other lanes stay.
    Choose {
        test: Test,
        to: u8,
        a: Place,
        b: Place,
        from: Place,
    },
}

/// Results so far.
pub(super) const T0: Place = Place::Temporary(0);
pub(super) const T1: Place = Place::Temporary(1);
pub(super) const T2: Place = Place::Temporary(2);

/// Sources of 32 bits.
pub(super) const A: Place = Place::Source(0);
pub(super) const B: Place = Place::Source(1);
pub(super) const C: Place = Place::Source(2);

pub(super) const ADD: Act = Act::Two(Two::Add);
pub(super) const SUBTRACT: Act = Act::Two(Two::Subtract);
pub(super) const MULTIPLY: Act = Act::Two(Two::Multiply);
pub(super) const AND: Act = Act::Two(Two::And);
pub(super) const OR: Act = Act::Two(Two::Or);
pub(super) const XOR: Act = Act::Two(Two::Xor);
pub(super) const MIN_SIGNED: Act = Act::Two(Two::MinSigned);
pub(super) const MAX_SIGNED: Act = Act::Two(Two::MaxSigned);
pub(super) const MIN_UNSIGNED: Act = Act::Two(Two::MinUnsigned);
pub(super) const MAX_UNSIGNED: Act = Act::Two(Two::MaxUnsigned);
pub(super) const PICK: Act = Act::PickBytes;
pub(super) const LEFT: Act = Act::Shift(Shift::Left);

pub(super) fn number(value: u32) -> Place {
    Place::Number(value)
}

/// A recipe in the making.
pub(super) struct Steps<'a> {
    pub(super) d: &'a Di,
    all: Vec<Step>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(d: &'a Di) -> Steps<'a> {
        Steps { d, all: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<Step> {
        self.all
    }

    /// Adds the steps of another one.
    pub(super) fn append(&mut self, other: Steps<'_>) {
        self.all.extend(other.all);
    }

    /// `to = act(a, b)`.
    pub(super) fn two(&mut self, to: Place, act: Act, a: Place, b: Place) {
        let Place::Temporary(to) = to else { unreachable!("results are in temporaries") };
        self.all.push(Step::Two { act, to, a, b });
    }

    /// `to = act(to, b)`.
    pub(super) fn more(&mut self, to: Place, act: Act, b: Place) {
        self.two(to, act, to, b);
    }

    /// `to = from`, shifted by a constant.
    pub(super) fn shift(&mut self, to: Place, how: Shift, by: u32, from: Place) {
        self.shift_of(Elements::Dwords, to, (how, by), from);
    }

    /// As [`Steps::shift`], of elements of this size.
    pub(super) fn shift_of(&mut self, of: Elements, to: Place, (how, by): (Shift, u32), from: Place) {
        let Place::Temporary(to) = to else { unreachable!("results are in temporaries") };
        self.all.push(Step::Shift { how, of, by: by as u8, to, from });
    }

    /// `to = from` where `test(a, b)`.
    pub(super) fn choose(&mut self, to: Place, from: Place, test: Test, a: Place, b: Place) {
        let Place::Temporary(to) = to else { unreachable!("results are in temporaries") };
        self.all.push(Step::Choose { test, to, a, b, from });
    }

    /// The constant that a source is, if it is one.
    pub(super) fn constant(&self, n: usize) -> Option<u32> {
        let source = &self.d.src[n];
        matches!(source.kind, Kind::Constant | Kind::Signed).then_some(source.value)
    }

    /// The low bits of a source: in a temporary, or a number if it is one.
    pub(super) fn low_bits(&mut self, n: usize, mask: u32, to: Place) -> Place {
        if let Some(value) = self.constant(n) {
            return number(value & mask);
        }
        self.two(to, AND, Place::Source(n), number(mask));
        to
    }

    /// A source shifted by a place of the lanes, or by a number.
    pub(super) fn shift_by(&mut self, to: Place, how: Shift, from: Place, by: Place) {
        match by {
            Place::Number(by) if by < 32 => self.shift(to, how, by, from),
            Place::Number(_) if how == Shift::Signed => self.shift(to, how, 31, from),
            Place::Number(_) => self.two(to, AND, from, number(0)),
            by => self.two(to, Act::Shift(how), from, by),
        }
    }
}
