//! Dense instructions with one block of 16-bit floats, whose sizes the compiler knows: 16x16x16 and 32x32x8.

use super::super::di::{Di, Kind};
use super::convert::{self, Matrix, Range, SIXTEEN};
use super::shape::{Element, Shape};
use super::sum::{self, Group, Quad, Sums, group_of, rule};
use super::{Bench, Control, GROUPS, QUADS, slow, sum_lanes};
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// Products of a group.
const GROUP: usize = group_of(rule::EIGHTS);
/// Registers of A and of B.
const REGISTERS: u32 = 2;

/// Whether an instruction is one of those here; blocks of `SIXTEENS` times sixteen rows and columns.
#[inline(always)]
fn is_here<const SIXTEENS: usize>(d: &Di, shape: &Shape) -> bool {
    shape.blocks == 1
        && shape.n as usize == 16 * SIXTEENS
        && shape.k as usize == 16 / SIXTEENS
        && Control::of(d).blgp == 0
}

/// Whether D can be written bit by bit: nothing of it is read later, but by the row of the same place.
#[inline(always)]
fn is_apart<const SIXTEENS: usize>(d: &Di) -> bool {
    let rows = 8 * (SIXTEENS * SIXTEENS) as u32;
    let is_apart = |from: u32, count: u32| from + count <= d.dst || d.dst + rows <= from;
    let c = d.src[2].kind != Kind::Vector || d.src[2].value == d.dst || is_apart(d.src[2].value, rows);
    c && is_apart(d.src[0].value, 2 * REGISTERS) && is_apart(d.src[1].value, 2 * REGISTERS)
}

/// Reads A or B, and whether all elements have powers.
#[inline(always)]
fn read<L: Lanes, const BRAIN: bool, const SIXTEENS: usize>(
    w: &Wave,
    base: u32,
    mut into: Matrix<'_>,
) -> bool {
    let element = if BRAIN { Element::Brain } else { Element::Half };
    let mut range = Range::<L>::new();
    for sixteen in 0..4 {
        for register in 0..REGISTERS as usize {
            let row = w.v.row(base + (2 * register + sixteen / 2) as u32);
            let word = L::load(&row[sixteen & 1]);
            let first = sixteen % SIXTEENS * SIXTEEN + sixteen / SIXTEENS * 4 + register * 2;
            convert::put_pair::<L>(element, &mut into, first, word, &mut range);
        }
    }
    range.is_kept(element)
}

/// Four rows and sixteen columns, by their number.
#[inline(always)]
fn quad<const SIXTEENS: usize>(n: usize) -> Quad {
    Quad { rows: n / SIXTEENS, columns: n % SIXTEENS, count: 16 / SIXTEENS }
}

/// Does four rows and sixteen columns.
#[inline(always)]
fn rows<L: Lanes, const SIXTEENS: usize>(
    w: &mut Wave,
    d: &Di,
    shape: &Shape,
    (bench, may_be_empty): (&Bench, bool),
    n: usize,
) {
    let at = quad::<SIXTEENS>(n);
    let across = 4 / SIXTEENS;
    let (first, sixteen) = (at.rows / across * 4, at.rows % across * SIXTEENS + at.columns);
    let mut sums = Sums { value: [L::splat(0); 4], again: [0; 4] };
    for r in 0..4 {
        sums.value[r] = sum_lanes::<L>(w, d, shape, first + r, sixteen);
    }
    for group in 0..2 / SIXTEENS {
        let powers = L::load(&bench.powers[n % QUADS][group % GROUPS]);
        let group = Group { at, start: group * GROUP, may_be_empty };
        sums = group.add::<L, GROUP>(&bench.a, &bench.b, powers, sums);
    }
    for r in 0..4 {
        let mut result = Chunk([0; 16]);
        L::store(&mut result, sums.value[r]);
        if sums.again[r] != 0 {
            let place = slow::Sixteen { block: 0, register: first + r, sixteen };
            slow::again(w, d, shape, place, sums.again[r], &mut result.0);
        }
        let row = d.dst + ((first + r) * 2 + sixteen / 2) as u32;
        w.v.row_mut(row)[sixteen & 1] = result;
    }
}

/// Does the instruction, if it is one of those here; whether it did.
#[inline(always)]
pub(super) fn done<L: Lanes, const BRAIN: bool, const SIXTEENS: usize>(
    w: &mut Wave,
    d: &Di,
    shape: &Shape,
) -> bool {
    if !is_here::<SIXTEENS>(d, shape) || !is_apart::<SIXTEENS>(d) {
        return false;
    }
    let mut bench = Bench::take();
    let kept_a = read::<L, BRAIN, SIXTEENS>(w, d.src[0].value, Matrix::Left(&mut bench.a));
    let kept_b = read::<L, BRAIN, SIXTEENS>(w, d.src[1].value, Matrix::Right(&mut bench.b));
    if kept_a && kept_b {
        // All of them first: sums would wait for theirs.
        let mut least = L::splat(u32::MAX);
        for n in 0..4 * SIXTEENS * SIXTEENS {
            for group in 0..2 / SIXTEENS {
                let group = Group { at: quad::<SIXTEENS>(n), start: group * GROUP, may_be_empty: true };
                let powers = group.powers::<L, GROUP>(&bench.a, &bench.b);
                least = L::min_bytes(least, powers);
                L::store(&mut bench.powers[n % QUADS][group.start / GROUP % GROUPS], powers);
            }
        }
        let may_be_empty = sum::is_some_empty::<L>(least);
        for n in 0..4 * SIXTEENS * SIXTEENS {
            rows::<L, SIXTEENS>(w, d, shape, (&bench, may_be_empty), n);
        }
    }
    bench.put_back();
    kept_a && kept_b
}
