//! The matrix instructions of gfx12, and the types of their elements.

use crate::exec::vector::float::byte::Byte;
use crate::exec::vector::float::{brain, half};
use crate::inst::Op;

/// Type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Half,
    Brain,
    Byte(Byte),
    /// An integer of this many bits.
    Integer(u32),
}

impl Element {
    pub(super) const fn bits(self) -> u32 {
        match self {
            Element::Half | Element::Brain => 16,
            Element::Byte(_) => 8,
            Element::Integer(bits) => bits,
        }
    }

    /// As a single; an integer is extended with its sign if it is signed.
    #[inline(always)]
    pub(super) fn value(self, bits: u32, signed: bool) -> u32 {
        match self {
            Element::Half => half::to_single(bits as u16),
            Element::Brain => brain::to_single(bits as u16),
            Element::Byte(format) => format.to_single(bits as u8),
            Element::Integer(count) => {
                let shift = 32 - count;
                if signed {
                    ((bits << shift).cast_signed() >> shift).cast_unsigned()
                } else {
                    bits << shift >> shift
                }
            }
        }
    }
}

/// Type of the elements of C and D.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Single,
    Half,
    Brain,
    Integer,
}

/// A matrix instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    op: Op,
    pub(super) a: Element,
    pub(super) b: Element,
    pub(super) sum: Sum,
    /// Columns of A.
    pub(super) k: u32,
    pub(super) sparse: bool,
}

impl Shape {
    /// Elements of a row of A that are there.
    pub(super) const fn kept(&self) -> u32 {
        if self.sparse { self.k / 2 } else { self.k }
    }

    /// Registers of A, B, and of C and D in waves of `halves` halves.
    pub(crate) fn registers(&self, halves: u32) -> [u32; 3] {
        let registers = |elements: u32, bits: u32| (elements * bits / 2 / 32 / halves).max(1);
        let sum = match self.sum {
            Sum::Single | Sum::Integer => 8,
            Sum::Half | Sum::Brain => 4,
        };
        [registers(self.kept(), self.a.bits()), registers(self.k, self.b.bits()), sum / halves]
    }

    /// Returns true if the third source is an index, and not C.
    pub(crate) const fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Returns true if C and D have 16 bits.
    pub(super) const fn is_narrow(&self) -> bool {
        matches!(self.sum, Sum::Half | Sum::Brain)
    }

    /// Returns true if the shape calculates with floats.
    pub(crate) const fn is_float(&self) -> bool {
        !matches!(self.sum, Sum::Integer)
    }

    /// Bits of a lane's index that a wave of `halves` halves takes.
    pub(super) const fn index_bits(&self, halves: u32) -> u32 {
        index_bits(self.a.bits(), self.kept(), halves)
    }
}

/// Bits of a lane's index for `kept` elements of a row of A, of `bits` bits each.
pub(super) const fn index_bits(bits: u32, kept: u32, halves: u32) -> u32 {
    let (_, _, lanes) = geometry(bits, kept, halves);
    kept * 16 / lanes * 2
}

const fn shape(op: Op, [a, b]: [Element; 2], sum: Sum, k: u32) -> Shape {
    Shape { op, a, b, sum, k, sparse: false }
}

const fn sparse(op: Op, elements: [Element; 2], sum: Sum, k: u32) -> Shape {
    Shape { sparse: true, ..shape(op, elements, sum, k) }
}

const FP8: Element = Element::Byte(Byte::Fp8);
const BF8: Element = Element::Byte(Byte::Bf8);
const IU8: [Element; 2] = [Element::Integer(8); 2];
const IU4: [Element; 2] = [Element::Integer(4); 2];
const HALVES: [Element; 2] = [Element::Half; 2];
const BRAINS: [Element; 2] = [Element::Brain; 2];

pub(super) static SHAPES: [Shape; 22] = [
    shape(Op::V_WMMA_F32_16X16X16_F16, HALVES, Sum::Single, 16),
    shape(Op::V_WMMA_F32_16X16X16_BF16, BRAINS, Sum::Single, 16),
    shape(Op::V_WMMA_F16_16X16X16_F16, HALVES, Sum::Half, 16),
    shape(Op::V_WMMA_BF16_16X16X16_BF16, BRAINS, Sum::Brain, 16),
    shape(Op::V_WMMA_F32_16X16X16_FP8_FP8, [FP8, FP8], Sum::Single, 16),
    shape(Op::V_WMMA_F32_16X16X16_FP8_BF8, [FP8, BF8], Sum::Single, 16),
    shape(Op::V_WMMA_F32_16X16X16_BF8_FP8, [BF8, FP8], Sum::Single, 16),
    shape(Op::V_WMMA_F32_16X16X16_BF8_BF8, [BF8, BF8], Sum::Single, 16),
    shape(Op::V_WMMA_I32_16X16X16_IU8, IU8, Sum::Integer, 16),
    shape(Op::V_WMMA_I32_16X16X16_IU4, IU4, Sum::Integer, 16),
    shape(Op::V_WMMA_I32_16X16X32_IU4, IU4, Sum::Integer, 32),
    sparse(Op::V_SWMMAC_F32_16X16X32_F16, HALVES, Sum::Single, 32),
    sparse(Op::V_SWMMAC_F32_16X16X32_BF16, BRAINS, Sum::Single, 32),
    sparse(Op::V_SWMMAC_F16_16X16X32_F16, HALVES, Sum::Half, 32),
    sparse(Op::V_SWMMAC_BF16_16X16X32_BF16, BRAINS, Sum::Brain, 32),
    sparse(Op::V_SWMMAC_F32_16X16X32_FP8_FP8, [FP8, FP8], Sum::Single, 32),
    sparse(Op::V_SWMMAC_F32_16X16X32_FP8_BF8, [FP8, BF8], Sum::Single, 32),
    sparse(Op::V_SWMMAC_F32_16X16X32_BF8_FP8, [BF8, FP8], Sum::Single, 32),
    sparse(Op::V_SWMMAC_F32_16X16X32_BF8_BF8, [BF8, BF8], Sum::Single, 32),
    sparse(Op::V_SWMMAC_I32_16X16X32_IU8, IU8, Sum::Integer, 32),
    sparse(Op::V_SWMMAC_I32_16X16X32_IU4, IU4, Sum::Integer, 32),
    sparse(Op::V_SWMMAC_I32_16X16X64_IU4, IU4, Sum::Integer, 64),
];

/// An operation's shape, and its number in lowered instructions.
pub(crate) fn of(op: Op) -> Option<(u8, &'static Shape)> {
    (0..).zip(&SHAPES).find(|(_, shape)| shape.op == op)
}

/// Returns the distribution of elements of `bits` bits: elements of a register, elements of a row in sixteen lanes,
/// and the number of lanes that have any.
pub(super) const fn geometry(bits: u32, k: u32, halves: u32) -> (u32, u32, u32) {
    let per = 32 / bits;
    // Fewer than a register's worth in each of 64 lanes: half of the lanes have none.
    let lanes = if halves == 2 && k / 4 >= per { 64 } else { 32 };
    (per, k / (lanes / 16), lanes)
}
