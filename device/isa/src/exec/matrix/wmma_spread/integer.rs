//! Matrices of integers: A and B are signed where their `neg` bit is set.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::super::tile_integer::{self, halves, whole};
use super::shape::{Shape, index_bits};
use super::{MOST, MOST_KEPT, N, place, sixteen, sum_place};
use crate::exec::di::{Di, Flow, Handler, Kind, flag};
use crate::exec::vector::op::per_backend;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::{Chunk, Wave};

/// A matrix instruction that code is made for: the bits of an element, the columns of A, and the halves of a wave.
pub(crate) trait Form {
    const SPARSE: bool;
    const BITS: u32;
    const K: u32;
    const HALVES: u32;
    /// Elements of a word.
    const PER: u32 = 32 / Self::BITS;
}

struct Of<const SPARSE: bool, const BITS: u32, const K: u32, const HALVES: u32>;

impl<const SPARSE: bool, const BITS: u32, const K: u32, const HALVES: u32> Form
    for Of<SPARSE, BITS, K, HALVES>
{
    const SPARSE: bool = SPARSE;
    const BITS: u32 = BITS;
    const K: u32 = K;
    const HALVES: u32 = HALVES;
}

/// The word with element `k` of each row of A (`n` 0) or column of B, of `count` elements in all.
#[inline(always)]
fn word<L: Lanes, F: Form>(w: &Wave, d: &Di, n: usize, count: u32, k: u32) -> L::V {
    let (number, first) = place(F::BITS, count, F::HALVES, k);
    L::load(sixteen(w, d.src[n].value + number / F::PER * F::HALVES, first))
}

/// Pairs of elements of A (`n` 0) or B: all elements of a word are in one lane and follow each other.
#[inline(always)]
fn pairs<L: Lanes, F: Form, const P: usize>(w: &Wave, d: &Di, n: usize) -> [Chunk; P] {
    let mut pairs = [Chunk([0; N]); P];
    let half = F::PER / 2;
    for at in 0..P as u32 {
        let word = word::<L, F>(w, d, n, F::K, at / half * F::PER);
        L::store(&mut pairs[at as usize], halves::<L>(word, F::BITS, at % half, d.src[n].neg));
    }
    pairs
}

#[inline(always)]
fn dense<L: Lanes, F: Form, const P: usize>(w: &Wave, d: &Di, sums: &mut [Chunk; N]) {
    let a = pairs::<L, F, P>(w, d, 0);
    let b = pairs::<L, F, P>(w, d, 1);
    tile_integer::dense::<L, P>(&a, &b, sums);
}

/// Columns of the elements of each row of a sparse A.
#[inline(always)]
fn columns<L: Lanes, F: Form>(w: &Wave, d: &Di, columns: &mut [Chunk; MOST_KEPT]) {
    let index_bits = index_bits(F::BITS, F::K / 2, F::HALVES);
    let key = if index_bits < 32 { (d.imm >> 8) * index_bits } else { 0 };
    for k in 0..F::K / 2 {
        let (number, first) = place(F::BITS, F::K / 2, F::HALVES, k);
        let index = L::load(sixteen(w, d.src[2].value, first));
        let index = L::and(L::shr(index, L::splat(key + number * 2)), L::splat(3));
        L::store(&mut columns[k as usize % MOST_KEPT], L::add(index, L::splat(k / 2 * 4)));
    }
}

#[inline(always)]
fn sparse<L: Lanes, F: Form>(w: &Wave, d: &Di, sums: &mut [Chunk; N]) {
    let kept = F::K / 2;
    let mut chosen = [Chunk([0; N]); MOST_KEPT];
    columns::<L, F>(w, d, &mut chosen);
    // Elements of B in low halves, and in high ones.
    let mut b = [[Chunk([0; N]); MOST]; 2];
    for k in 0..F::K {
        let value = whole::<L>(word::<L, F>(w, d, 1, F::K, k), F::BITS, k % F::PER, d.src[1].neg);
        L::store(&mut b[0][k as usize % MOST], L::and(value, L::splat(0xffff)));
        L::store(&mut b[1][k as usize % MOST], L::shl(value, L::splat(16)));
    }
    let mut a = [Chunk([0; N]); MOST_KEPT / 2];
    for p in 0..kept / 2 {
        let word = word::<L, F>(w, d, 0, kept, 2 * p);
        let low = whole::<L>(word, F::BITS, 2 * p % F::PER, d.src[0].neg);
        let high = whole::<L>(word, F::BITS, (2 * p + 1) % F::PER, d.src[0].neg);
        let both = L::or(L::and(low, L::splat(0xffff)), L::shl(high, L::splat(16)));
        L::store(&mut a[p as usize % (MOST_KEPT / 2)], both);
    }
    for r in 0..N {
        let mut sum = L::splat(0);
        for p in 0..kept as usize / 2 {
            let first = chosen[2 * p].0[r] as usize % MOST;
            let second = chosen[2 * p + 1].0[r] as usize % MOST;
            let both = L::or(L::load(&b[0][first]), L::load(&b[1][second]));
            sum = L::add(sum, L::dot_halves(L::splat(a[p].0[r]), both));
        }
        L::store(&mut sums[r], sum);
    }
}

/// The registers and lanes of row `r` of C or D whose first register is `base`.
#[inline(always)]
fn sum_row<F: Form>(base: u32, r: usize) -> (u32, u32) {
    let (register, _, first) = sum_place(false, F::HALVES, r as u32);
    (base + register * F::HALVES, first)
}

/// Row `r` of C, or of the matrix that a sparse instruction adds to.
#[inline(always)]
fn c_row<L: Lanes, F: Form>(w: &Wave, d: &Di, r: usize) -> L::V {
    let base = match (F::SPARSE, d.src[2].kind) {
        (true, _) => d.dst,
        (false, Kind::Vector) => d.src[2].value,
        (false, _) => return L::splat(d.src[2].scalar(w)),
    };
    let (row, first) = sum_row::<F>(base, r);
    L::load(sixteen(w, row, first))
}

#[inline(always)]
fn run<L: Lanes, F: Form>(w: &mut Wave, d: &Di) -> Flow {
    let mut sums = [Chunk([0; N]); N];
    match (F::SPARSE, F::K) {
        (true, _) => sparse::<L, F>(w, d, &mut sums),
        (false, 16) => dense::<L, F, 8>(w, d, &mut sums),
        (false, _) => dense::<L, F, 16>(w, d, &mut sums),
    }
    let clamp = d.flags & flag::CLAMP != 0;
    // All of C before any of D: they may be the same registers.
    for r in 0..N {
        let sum = tile_integer::added::<L>(c_row::<L, F>(w, d, r), L::load(&sums[r]), clamp);
        L::store(&mut sums[r], sum);
    }
    for r in 0..N {
        let (row, first) = sum_row::<F>(d.dst, r);
        w.v.row_mut(row + first / 32)[((first / 16) & 1) as usize] = sums[r];
    }
    Flow::NEXT
}

per_backend! {
    /// Handler of one form.
    handler [F: Form] [F] |w, _m, d, L| run::<L, F>(w, d)
}

fn in_halves<const HALVES: u32>(shape: &Shape, backend: BackendKind) -> Handler {
    match (shape.sparse, shape.a.bits(), shape.k) {
        (false, 8, _) => handler::<Of<false, 8, 16, HALVES>>(backend),
        (false, _, 16) => handler::<Of<false, 4, 16, HALVES>>(backend),
        (false, ..) => handler::<Of<false, 4, 32, HALVES>>(backend),
        (true, 8, _) => handler::<Of<true, 8, 32, HALVES>>(backend),
        (true, _, 32) => handler::<Of<true, 4, 32, HALVES>>(backend),
        (true, ..) => handler::<Of<true, 4, 64, HALVES>>(backend),
    }
}

/// Handler of a matrix instruction of integers in waves of `halves` halves.
pub(crate) fn integer(backend: BackendKind, shape: &Shape, halves: u32) -> Handler {
    match halves {
        1 => in_halves::<1>(shape, backend),
        _ => in_halves::<2>(shape, backend),
    }
}
