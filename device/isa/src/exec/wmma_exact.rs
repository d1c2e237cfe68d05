//! Matrix instructions of 16-bit floats whose sums are those of cards: in steps of two products on gfx11 and of four on gfx12, each
//! step a [sum](sums) on a grid of its own. They take many times as long as exact products that are added one by one.
//!
//! Source: as for [`sums`]. On gfx12 a wave32 goes through the elements that its lower lanes hold first.

use super::di::{Di, Flow, Machine};
use super::dot::sums::{self, Card, Factors};
use super::float::{FP16_OVFL, half};
use super::wmma::{source_row, write_row};
use crate::lanes::Portable;
use crate::wave::Wave;

const N: usize = 16;

/// The elements of a row of A or of a column of B, their signs as modifiers leave them.
pub(super) type Line = [u16; N];

/// An instruction.
#[derive(Clone, Copy)]
pub(super) struct Matrices {
    pub(super) card: Card,
    pub(super) of: Factors,
    /// C and D are as narrow as A and B.
    pub(super) narrow: bool,
    pub(super) halves: u32,
    /// `MODE.FP16_OVFL`.
    pub(super) limited: bool,
}

impl Matrices {
    /// Elements that steps of gfx12 begin with.
    fn steps(self) -> [usize; 4] {
        if self.halves == 1 { [0, 8, 4, 12] } else { [0, 4, 8, 12] }
    }

    /// An element of D from that of C, both as singles.
    pub(super) fn element(self, a: &Line, b: &Line, c: u32) -> u32 {
        if !self.narrow {
            return match self.card {
                Card::Gfx11 => (0..N).step_by(2).fold(c, |c, k| {
                    sums::single::<2>(self.card, self.of, core::array::from_fn(|n| [a[k + n], b[k + n]]), c)
                }),
                Card::Gfx12 => self.steps().into_iter().fold(c, |c, k| {
                    sums::single::<4>(self.card, self.of, core::array::from_fn(|n| [a[k + n], b[k + n]]), c)
                }),
            };
        }
        let c = match self.of {
            Factors::Halves => half::from_single(c),
            Factors::Brains => (c >> 16) as u16,
        };
        let sum = match self.card {
            Card::Gfx11 => (0..N).step_by(2).fold(c, |c, k| {
                let pairs = core::array::from_fn(|n| [a[k + n], b[k + n]]);
                self.limit(sums::narrow::<2>(self.card, self.of, pairs, c), pairs.as_flattened(), c)
            }),
            Card::Gfx12 => self.steps().into_iter().fold(c, |c, k| {
                let pairs = core::array::from_fn(|n| [a[k + n], b[k + n]]);
                self.limit(sums::narrow::<4>(self.card, self.of, pairs, c), pairs.as_flattened(), c)
            }),
        };
        self.of.widened(sum)
    }

    /// A step's result as `MODE.FP16_OVFL` has it: the largest number in place of an infinity that no operand is.
    fn limit(self, sum: u16, factors: &[u16], c: u16) -> u16 {
        let infinite = |x: u16| x & 0x7fff == 0x7c00;
        let limits = self.limited && self.of == Factors::Halves && infinite(sum);
        if limits && !infinite(c) && !factors.iter().any(|&x| infinite(x)) { sum - 1 } else { sum }
    }
}

/// Elements of a row of A (`n` 0) or a column of B, as they are.
fn line(w: &Wave, d: &Di, n: usize, lane: usize) -> Line {
    let sign = |negate: bool| if negate { 0x8000 } else { 0 };
    let signs = [sign(d.src[n].neg), sign(d.imm >> n & 1 != 0)];
    core::array::from_fn(|k| {
        let word = w.v.row(d.src[n].value + (k / 2) as u32 * w.halves)[0].0[lane];
        (word >> (16 * (k % 2))) as u16 ^ signs[k % 2]
    })
}

/// `v_wmma_f32_16x16x16_f16` and its relatives of gfx11.
pub(crate) fn exact<const BRAIN: bool, const NARROW: bool>(
    w: &mut Wave,
    _m: &mut Machine<'_>,
    d: &Di,
) -> Flow {
    let of = if BRAIN { Factors::Brains } else { Factors::Halves };
    let limited = w.mode & FP16_OVFL != 0;
    let matrices = Matrices { card: Card::Gfx11, of, narrow: NARROW, halves: w.halves, limited };
    let lines = |n: usize| -> [Line; N] { core::array::from_fn(|lane| line(w, d, n, lane)) };
    let (a, b) = (lines(0), lines(1));
    let c: [[u32; N]; N] = core::array::from_fn(|r| source_row::<Portable, BRAIN, NARROW>(w, d, r));
    for r in 0..N {
        let row = core::array::from_fn(|column| matrices.element(&a[r], &b[column], c[r][column]));
        write_row::<Portable, BRAIN, NARROW>(w, d, r, row);
    }
    Flow::NEXT
}
