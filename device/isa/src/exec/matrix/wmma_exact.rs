//! Matrix instructions of 16-bit floats whose sums are those of cards: in steps of two products on gfx11 and of four on gfx12, each
//! step a [sum](sums) on a grid of its own. They take many times as long as exact products that are added one by one.
//!
//! Source: as for [`sums`]. A step of gfx12 takes a pair of registers of sixteen lanes; all lanes come before the next pair of registers.

use super::wmma::{source_row, write_row};
use crate::exec::di::{Di, Flow};
use crate::exec::vector::dot::lanes::{self, Prepared, Words};
use crate::exec::vector::dot::sums::{self, Card, Factors};
use crate::exec::vector::float::{FP16_OVFL, half};
use crate::exec::vector::op::per_backend;
use crate::lanes::Lanes;
use crate::wave::Wave;

const N: usize = 16;

/// The elements of a row of A or of a column of B, their signs as modifiers leave them.
pub(crate) type Line = [u16; N];

/// An instruction.
#[derive(Clone, Copy)]
pub(crate) struct Matrices {
    pub(crate) card: Card,
    pub(crate) of: Factors,
    /// C and D are as narrow as A and B.
    pub(crate) narrow: bool,
    /// `MODE.FP16_OVFL`.
    pub(crate) limited: bool,
}

impl Matrices {
    /// A narrow element of D from that of C, both as singles.
    fn element(self, a: &Line, b: &Line, c: u32) -> u32 {
        let c = match self.of {
            Factors::Halves => half::from_single(c),
            Factors::Brains => (c >> 16) as u16,
        };
        let sum = match self.card {
            Card::Gfx11 => (0..N).step_by(2).fold(c, |c, k| {
                let pairs = core::array::from_fn(|n| [a[k + n], b[k + n]]);
                self.limit(sums::narrow::<2>(self.card, self.of, pairs, c), pairs.as_flattened(), c)
            }),
            Card::Gfx12 => (0..N).step_by(4).fold(c, |c, k| {
                let pairs = core::array::from_fn(|n| [a[k + n], b[k + n]]);
                self.limit(sums::narrow::<4>(self.card, self.of, pairs, c), pairs.as_flattened(), c)
            }),
        };
        self.of.widened(sum)
    }

    /// All elements of D in the place of those of C, as singles.
    #[inline(always)]
    pub(crate) fn sums(self, a: &[Line; N], b: &[Line; N], c: &mut [Words; N]) {
        match self.card {
            _ if self.narrow => {
                for (a, row) in a.iter().zip(c) {
                    for (b, c) in b.iter().zip(row) {
                        *c = self.element(a, b, *c);
                    }
                }
            }
            Card::Gfx11 => self.steps_of::<2>((a, b), [0, 2, 4, 6, 8, 10, 12, 14], c),
            Card::Gfx12 => self.steps_of::<4>((a, b), [0, 4, 8, 12], c),
        }
    }

    /// Steps of `M` products from the elements `firsts` on, for whole rows.
    #[inline(always)]
    fn steps_of<const M: usize>(
        self,
        (a, b): (&[Line; N], &[Line; N]),
        firsts: impl IntoIterator<Item = usize> + Copy,
        c: &mut [Words; N],
    ) {
        let prepared = |lines: &[Line; N]| -> [Prepared; N] {
            core::array::from_fn(|k| Prepared::of(self.of, &core::array::from_fn(|n| lines[n][k])))
        };
        let (rows, columns) = (prepared(a), prepared(b));
        for (r, sum) in c.iter_mut().enumerate() {
            for first in firsts {
                let x: [Prepared; M] = core::array::from_fn(|n| rows[first + n].everywhere(r));
                let y: [&Prepared; M] = core::array::from_fn(|n| &columns[first + n]);
                let mut next = [0; N];
                let others = lanes::singles(self.card, [x.each_ref(), y], sum, &mut next);
                if others.iter().fold(0, |any, lane| any | lane) != 0 {
                    for (lane, _) in others.iter().enumerate().filter(|(_, other)| **other != 0) {
                        let pairs = core::array::from_fn(|n| [a[r][first + n], b[lane][first + n]]);
                        next[lane] = sums::single::<M>(self.card, self.of, pairs, sum[lane]);
                    }
                }
                *sum = next;
            }
        }
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

#[inline(always)]
fn matrices<L: Lanes, const BRAIN: bool, const NARROW: bool>(w: &mut Wave, d: &Di) -> Flow {
    let of = if BRAIN { Factors::Brains } else { Factors::Halves };
    let limited = w.mode & FP16_OVFL != 0;
    let matrices = Matrices { card: Card::Gfx11, of, narrow: NARROW, limited };
    let lines = |n: usize| -> [Line; N] { core::array::from_fn(|lane| line(w, d, n, lane)) };
    let mut c = [[0; N]; N];
    for (r, row) in c.iter_mut().enumerate() {
        *row = L::to_array(source_row::<L, BRAIN, NARROW>(w, d, r));
    }
    let (a, b) = (lines(0), lines(1));
    matrices.sums(&a, &b, &mut c);
    for (r, row) in c.into_iter().enumerate() {
        write_row::<L, BRAIN, NARROW>(w, d, r, L::from_array(row));
    }
    Flow::NEXT
}

per_backend! {
    /// `v_wmma_f32_16x16x16_f16` and its relatives of gfx11.
    exact [const BRAIN: bool, const NARROW: bool] [BRAIN, NARROW] |w, _m, d, L| matrices::<L, BRAIN, NARROW>(w, d)
}
