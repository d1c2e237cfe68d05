//! Matrices of integers: A and B are signed where their `neg` bit is set.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::super::di::{Di, Flow, flag};
use super::super::op::per_backend;
use super::super::tile_integer::{self, halves, whole};
use super::shape::{SHAPES, Shape};
use super::{MOST, MOST_KEPT, N, place, sixteen, start, write};
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// The word with element `k` of each row of A (`n` 0) or column of B, of so many in all.
#[inline(always)]
fn word<L: Lanes>(w: &Wave, d: &Di, n: usize, (bits, count): (u32, u32), k: u32) -> L::V {
    let (number, first) = place(bits, count, w.halves, k);
    L::load(sixteen(w, d.src[n].value + number * bits / 32 * w.halves, first))
}

/// Pairs of elements of A (`n` 0) or B: all elements of a word are in one lane and follow each other.
#[inline(always)]
fn pairs<L: Lanes, const P: usize>(w: &Wave, d: &Di, bits: u32, n: usize) -> [Chunk; P] {
    let mut pairs = [Chunk([0; N]); P];
    let per = 16 / bits;
    for at in 0..P as u32 {
        let word = word::<L>(w, d, n, (bits, 2 * P as u32), at / per * 2 * per);
        L::store(&mut pairs[at as usize], halves::<L>(word, bits, at % per, d.src[n].neg));
    }
    pairs
}

#[inline(always)]
fn dense<L: Lanes, const P: usize>(w: &Wave, d: &Di, bits: u32, sums: &mut [Chunk; N]) {
    let a = pairs::<L, P>(w, d, bits, 0);
    let b = pairs::<L, P>(w, d, bits, 1);
    tile_integer::dense::<L, P>(&a, &b, sums);
}

/// Of each row of a sparse A the columns of its elements.
#[inline(always)]
fn columns<L: Lanes>(w: &Wave, d: &Di, shape: &Shape, columns: &mut [Chunk; MOST_KEPT]) {
    let (bits, kept, index_bits) = (shape.a.bits(), shape.kept(), shape.index_bits(w.halves));
    let key = if index_bits < 32 { (d.imm >> 8) * index_bits } else { 0 };
    for k in 0..kept {
        let (number, first) = place(bits, kept, w.halves, k);
        let index = L::load(sixteen(w, d.src[2].value, first));
        let index = L::and(L::shr(index, L::splat(key + number * 2)), L::splat(3));
        L::store(&mut columns[k as usize % MOST_KEPT], L::add(index, L::splat(k / 2 * 4)));
    }
}

#[inline(always)]
fn sparse<L: Lanes>(w: &Wave, d: &Di, shape: &Shape, sums: &mut [Chunk; N]) {
    let (bits, kept) = (shape.a.bits(), shape.kept());
    let per = 32 / bits;
    let mut chosen = [Chunk([0; N]); MOST_KEPT];
    columns::<L>(w, d, shape, &mut chosen);
    // Elements of B in low halves, and in high ones.
    let mut b = [[Chunk([0; N]); MOST]; 2];
    for k in 0..shape.k {
        let word = word::<L>(w, d, 1, (bits, shape.k), k);
        let value = whole::<L>(word, bits, k % per, d.src[1].neg);
        L::store(&mut b[0][k as usize % MOST], L::and(value, L::splat(0xffff)));
        L::store(&mut b[1][k as usize % MOST], L::shl(value, L::splat(16)));
    }
    let mut a = [Chunk([0; N]); MOST_KEPT / 2];
    for p in 0..kept / 2 {
        let word = word::<L>(w, d, 0, (bits, kept), 2 * p);
        let low = L::and(whole::<L>(word, bits, 2 * p % per, d.src[0].neg), L::splat(0xffff));
        let high = L::shl(whole::<L>(word, bits, (2 * p + 1) % per, d.src[0].neg), L::splat(16));
        L::store(&mut a[p as usize % (MOST_KEPT / 2)], L::or(low, high));
    }
    for r in 0..N {
        let mut sum = L::splat(0);
        for p in 0..(kept as usize / 2).min(MOST_KEPT / 2) {
            let [first, second] = [0, 1].map(|n| chosen[2 * p + n].0[r] as usize % MOST);
            let both = L::or(L::load(&b[0][first]), L::load(&b[1][second]));
            sum = L::add(sum, L::dot_halves(L::splat(a[p].0[r]), both));
        }
        L::store(&mut sums[r], sum);
    }
}

#[inline(always)]
fn integers<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let shape = &SHAPES[usize::from(d.aux) % SHAPES.len()];
    let mut sums = [Chunk([0; N]); N];
    match (shape.sparse, shape.k, shape.a.bits()) {
        (true, ..) => sparse::<L>(w, d, shape, &mut sums),
        (_, 16, 8) => dense::<L, 8>(w, d, 8, &mut sums),
        (_, 16, _) => dense::<L, 8>(w, d, 4, &mut sums),
        _ => dense::<L, 16>(w, d, 4, &mut sums),
    }
    let clamp = d.flags & flag::CLAMP != 0;
    for r in 0..N {
        let c = start::<L>(w, d, shape, w.halves, r as u32);
        let sum = tile_integer::added::<L>(c, L::load(&sums[r]), clamp);
        L::store(&mut sums[r], sum);
    }
    write::<L>(w, d, shape, &sums);
    Flow::NEXT
}

per_backend! {
    /// Handler of a matrix instruction of integers, `aux` its number.
    integer [] [] |w, _m, d, L| integers::<L>(w, d)
}
