//! Dense instructions with one block of 16-bit floats, whose sizes the compiler knows: 16x16x16 and 32x32x8.

use super::convert::{Left, Right};
use super::group::Group;
use super::kept;
use super::shape::Shape;
use super::sum::{Quad, Sums, group_of, rule};
use super::{Bench, Control, GROUPS, QUADS, slow};
use crate::exec::di::{Di, Kind};
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// Products of a group.
const GROUP: usize = group_of(rule::EIGHTS);
/// The powers of the groups of each quad.
type Powers = [[Chunk; GROUPS]; QUADS];

/// Returns true if an instruction is one of those here, with blocks of `SIXTEENS` times sixteen rows and columns.
#[inline(always)]
fn is_here<const SIXTEENS: usize>(d: &Di, shape: &Shape) -> bool {
    shape.blocks == 1
        && shape.n as usize == 16 * SIXTEENS
        && shape.k as usize == 16 / SIXTEENS
        && Control::of(d).blgp == 0
}

/// Returns true if D can be written piece by piece: no part of it is read later, except as C of the row in that
/// place.
#[inline(always)]
fn is_apart<const SIXTEENS: usize>(d: &Di) -> bool {
    let rows = 8 * (SIXTEENS * SIXTEENS) as u32;
    let is_apart = |from: u32, count: u32| from + count <= d.dst || d.dst + rows <= from;
    let c = d.src[2].kind != Kind::Vector || d.src[2].value == d.dst || is_apart(d.src[2].value, rows);
    c && is_apart(d.src[0].value, kept::ROWS as u32) && is_apart(d.src[1].value, kept::ROWS as u32)
}

/// Four rows and sixteen columns, by their number.
#[inline(always)]
fn quad<const SIXTEENS: usize>(n: usize) -> Quad {
    Quad { rows: n / SIXTEENS, columns: n % SIXTEENS, count: 16 / SIXTEENS }
}

/// The matrices of an instruction.
#[derive(Clone, Copy)]
struct Factors<'a> {
    a: &'a Left,
    b: &'a Right,
    powers: &'a Powers,
    may_be_empty: bool,
}

/// Does four rows and sixteen columns, whose number the compiler should know: `SUMS` sixteens are in C and in D.
#[inline(always)]
fn rows<L: Lanes, const SIXTEENS: usize, const SUMS: usize>(
    w: &mut Wave,
    d: &Di,
    shape: &Shape,
    factors: Factors<'_>,
    n: usize,
) {
    let Factors { a, b, may_be_empty, .. } = factors;
    let at = quad::<SIXTEENS>(n);
    let across = 4 / SIXTEENS;
    let (first, sixteen) = (at.rows / across * 4, at.rows % across * SIXTEENS + at.columns);
    let mut sums = Sums { value: [L::splat(0); 4], again: [0; 4] };
    match (d.src[2].kind, w.v.sixteens::<SUMS>(d.src[2].value)) {
        (Kind::Vector, Some(c)) => {
            for r in 0..4 {
                sums.value[r] = L::load(&c[((first + r) * 4 + sixteen) % SUMS]);
            }
        }
        _ => sums.value = [L::splat(d.src[2].scalar(w)); 4],
    }
    let powers = &factors.powers[n % QUADS];
    let group = Group { at, start: 0, may_be_empty };
    sums = group.add::<L, GROUP>(a, b, L::load(&powers[0]), sums);
    if SIXTEENS == 1 {
        let group = Group { start: GROUP, ..group };
        sums = group.add::<L, GROUP>(a, b, L::load(&powers[1]), sums);
    }
    if sums.again != [0; 4] {
        for r in 0..4 {
            let mut result = Chunk([0; 16]);
            L::store(&mut result, sums.value[r]);
            let place = slow::Sixteen { block: 0, register: first + r, sixteen };
            slow::again(w, d, shape, place, sums.again[r], &mut result.0);
            sums.value[r] = L::load(&result);
        }
    }
    if let Some(results) = w.v.sixteens_mut::<SUMS>(d.dst) {
        for r in 0..4 {
            L::store(&mut results[((first + r) * 4 + sixteen) % SUMS], sums.value[r]);
        }
    }
}

/// Does the instruction, if it is one of those here. Returns true if it did. `SUMS` sixteens are in D.
#[inline(always)]
pub(super) fn done<L: Lanes, const BRAIN: bool, const SIXTEENS: usize, const SUMS: usize>(
    w: &mut Wave,
    d: &Di,
    shape: &Shape,
) -> bool {
    const { assert!(SUMS == 16 * SIXTEENS * SIXTEENS) };
    if !is_here::<SIXTEENS>(d, shape) || !is_apart::<SIXTEENS>(d) {
        return false;
    }
    let has_c = d.src[2].kind != Kind::Vector || w.v.sixteens::<SUMS>(d.src[2].value).is_some();
    if !has_c || w.v.sixteens::<SUMS>(d.dst).is_none() {
        return false;
    }
    let mut bench = Bench::take();
    let Bench { lefts, rights, powers: all, .. } = &mut *bench;
    let (base_a, base_b) = (d.src[0].value, d.src[1].value);
    let a = kept::of(lefts, base_a).read::<L, BRAIN, SIXTEENS>(w, base_a);
    let b = kept::of(rights, base_b).read::<L, BRAIN, SIXTEENS>(w, base_b);
    let is_done = match (a, b) {
        (Some(a), Some(b)) => {
            // All of them first: sums would wait for theirs.
            let mut full = L::splat(u32::MAX);
            for n in 0..4 * SIXTEENS * SIXTEENS {
                for group in 0..2 / SIXTEENS {
                    let group = Group { at: quad::<SIXTEENS>(n), start: group * GROUP, may_be_empty: true };
                    let powers = group.powers::<L, GROUP>(a, b);
                    full = L::and(full, powers);
                    L::store(&mut all[n % QUADS][group.start / GROUP % GROUPS], powers);
                }
            }
            // The powers of all that have products have their highest bit set.
            let full = L::or(full, L::splat(!0x8080_8080));
            let may_be_empty = L::eq(full, L::splat(u32::MAX)) != u16::MAX;
            let factors = Factors { a, b, powers: all, may_be_empty };
            if SIXTEENS == 1 {
                rows::<L, SIXTEENS, SUMS>(w, d, shape, factors, 0);
                rows::<L, SIXTEENS, SUMS>(w, d, shape, factors, 1);
                rows::<L, SIXTEENS, SUMS>(w, d, shape, factors, 2);
                rows::<L, SIXTEENS, SUMS>(w, d, shape, factors, 3);
            } else {
                for n in 0..4 * SIXTEENS * SIXTEENS {
                    rows::<L, SIXTEENS, SUMS>(w, d, shape, factors, n);
                }
            }
            true
        }
        _ => false,
    };
    bench.put_back();
    is_done
}
