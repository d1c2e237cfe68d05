//! Matrix instructions: D = A × B + C on 16×16 tiles.
//!
//! Lane *l* of the first sixteen holds row *l* of A, and column *l* of B, in consecutive registers; the other lanes hold
//! copies, which are not looked at. Row *r* of C and D is in register *r* / 2, lanes 0-15 for even rows and 16-31 for odd
//! ones (wave64: register *r* / 4, sixteen lanes each).
//!
//! How hardware orders and rounds the sum is not public. Here every product is exact and added to C in ascending order
//! of k, with one rounding to single precision for each.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::di::{Di, Flow, Machine, flag};
use super::float::{half, single};
use super::op::per_backend;
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

const N: usize = 16;

/// Row and chunk index of row `r` of C or D whose first register is `base`.
#[inline(always)]
fn place(w: &Wave, base: u32, r: u32) -> (u32, usize) {
    if w.halves == 1 {
        (base + r / 2, (r & 1) as usize)
    } else {
        (base + r / 4 * 2 + (r >> 1 & 1), (r & 1) as usize)
    }
}

/// Row `r` of C: a register, or a constant in all places.
#[inline(always)]
fn c_row(w: &Wave, d: &Di, r: u32) -> [u32; N] {
    if d.src[2].kind == super::di::Kind::Vector {
        let (row, chunk) = place(w, d.src[2].value, r);
        w.v.row(row)[chunk].0
    } else {
        [d.src[2].scalar(w); N]
    }
}

/// Both 16-bit elements of each word as singles: halves, or `bfloat16`.
#[inline(always)]
pub(super) fn both<L: Lanes, const BRAIN: bool>(word: L::V) -> [L::V; 2] {
    if BRAIN {
        return [L::shl(word, L::splat(16)), L::and(word, L::splat(0xffff_0000))];
    }
    if let Some(both) = L::wide_halves(word) {
        return both;
    }
    let words = L::to_array(word);
    let mut both = [[0; N]; 2];
    for i in 0..N {
        both[0][i] = half::to_single(words[i] as u16);
        both[1][i] = half::to_single((words[i] >> 16) as u16);
    }
    [L::from_array(both[0]), L::from_array(both[1])]
}

/// Singles as 16-bit elements in the low halves of words.
#[inline(always)]
pub(super) fn narrowed<L: Lanes, const BRAIN: bool>(value: L::V) -> L::V {
    if BRAIN {
        let last = L::and(L::shr(value, L::splat(16)), L::splat(1));
        let rounded = L::add(value, L::add(last, L::splat(0x7fff)));
        let quiet = L::or(value, L::splat(0x40_0000));
        return L::shr(L::select(L::unordered(value, value), quiet, rounded), L::splat(16));
    }
    if let Some(halves) = L::narrow_halves(value) {
        return halves;
    }
    let mut words = L::to_array(value);
    for word in &mut words {
        *word = half::from_single(*word).into();
    }
    L::from_array(words)
}

/// The elements of A (`n` 0) or B as singles: element k of sixteen rows or columns.
#[inline(always)]
fn elements<L: Lanes, const BRAIN: bool>(w: &Wave, d: &Di, n: usize) -> [Chunk; N] {
    // `neg` is for the elements in low halves, `neg_hi` for those in high ones.
    let sign = |negate: bool| if negate { single::SIGN } else { 0 };
    let signs = [sign(d.src[n].neg), sign(d.imm >> n & 1 != 0)];
    let mut elements = [Chunk([0; N]); N];
    for k in 0..N / 2 {
        let word = L::load(&w.v.row(d.src[n].value + k as u32 * w.halves)[0]);
        let both = both::<L, BRAIN>(word);
        for part in 0..2 {
            L::store(&mut elements[2 * k + part], L::xor(both[part], L::splat(signs[part])));
        }
    }
    elements
}

/// The rows of D from those of C, of elements of A and B with the same k.
#[inline(always)]
pub(super) fn sums<L: Lanes>(a: &[Chunk; N], b: &[Chunk; N], c: [L::V; N]) -> [L::V; N] {
    let mut sums = c;
    for (a, b) in a.iter().zip(b) {
        let b = L::load(b);
        for r in 0..N {
            sums[r] = L::fma(L::splat(a.0[r]), b, sums[r]);
        }
    }
    let mut nans = 0;
    for r in 0..N {
        nans |= L::unordered(sums[r], sums[r]);
    }
    if nans != 0 {
        for r in 0..N {
            sums[r] = with_nans::<L>(a, b, r, c[r]);
        }
    }
    sums
}

/// A row with NaNs by the policy of the scalar operations.
#[inline(never)]
fn row_with_nans(a: &[Chunk; N], b: &[Chunk; N], row: usize, c: &mut [u32; N]) {
    for (column, sum) in c.iter_mut().enumerate() {
        *sum = a.iter().zip(b).fold(*sum, |sum, (a, b)| single::fma(a.0[row % N], b.0[column], sum));
    }
}

#[inline(always)]
fn with_nans<L: Lanes>(a: &[Chunk; N], b: &[Chunk; N], row: usize, c: L::V) -> L::V {
    let mut words = L::to_array(c);
    row_with_nans(a, b, row, &mut words);
    L::from_array(words)
}

/// C as its modifiers leave it: `neg_hi` is the absolute value, `neg` negates.
#[inline(always)]
fn modified<L: Lanes>(d: &Di, value: L::V) -> L::V {
    let value = if d.imm & 4 != 0 { L::and(value, L::splat(!single::SIGN)) } else { value };
    if d.src[2].neg { L::xor(value, L::splat(single::SIGN)) } else { value }
}

#[inline(always)]
fn write(w: &mut Wave, d: &Di, result: &[[u32; N]; N]) {
    for (r, values) in (0u32..).zip(result) {
        let (row, chunk) = place(w, d.dst, r);
        w.v.row_mut(row)[chunk] = Chunk(*values);
    }
}

/// With `NARROW`, C and D have 16 bits: in the low halves of their registers, or the high ones with `op_sel[2]`.
#[inline(always)]
fn floats<L: Lanes, const BRAIN: bool, const NARROW: bool>(w: &mut Wave, d: &Di) -> Flow {
    let (a, b) = (elements::<L, BRAIN>(w, d, 0), elements::<L, BRAIN>(w, d, 1));
    let high = d.flags & flag::DST_HIGH != 0;
    let mut c = [L::splat(0); N];
    for r in 0..N {
        let word = L::from_array(c_row(w, d, r as u32));
        let value = if NARROW { both::<L, BRAIN>(word)[usize::from(high)] } else { word };
        c[r] = modified::<L>(d, value);
    }
    let sums = sums::<L>(&a, &b, c);
    for r in 0..N {
        let (row, chunk) = place(w, d.dst, r as u32);
        let to = &mut w.v.row_mut(row)[chunk];
        let mut value = sums[r];
        if NARROW {
            value = narrowed::<L, BRAIN>(value);
            let old = L::load(to);
            value = match high {
                true => L::or(L::and(old, L::splat(0xffff)), L::shl(value, L::splat(16))),
                false => L::or(L::and(old, L::splat(0xffff_0000)), value),
            };
        }
        L::store(to, value);
    }
    Flow::NEXT
}

per_backend! {
    /// `v_wmma_f32_16x16x16_f16` and, with `BRAIN`, `_bf16`.
    f32_result [const BRAIN: bool] [BRAIN] |w, _m, d, L| floats::<L, BRAIN, false>(w, d)
}
per_backend! {
    /// `v_wmma_f16_16x16x16_f16`, `v_wmma_bf16_16x16x16_bf16`.
    half_result [const BRAIN: bool] [BRAIN] |w, _m, d, L| floats::<L, BRAIN, true>(w, d)
}

/// `v_wmma_i32_16x16x16_iu8` (`aux` 8) and `_iu4` (`aux` 4): A and B signed where their `neg` bit is set.
pub(crate) fn integer(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let bits = u32::from(d.aux);
    let per_register = 32 / bits;
    let element = |w: &Wave, n: usize, lane: usize, k: u32| {
        let word = w.v.row(d.src[n].value + k / per_register * w.halves)[0].0[lane];
        let shifted = word << (32 - bits - k % per_register * bits);
        if d.src[n].neg {
            i64::from(shifted.cast_signed() >> (32 - bits))
        } else {
            i64::from(shifted >> (32 - bits))
        }
    };
    let mut result = [[0; N]; N];
    for (r, row) in result.iter_mut().enumerate() {
        let start = c_row(w, d, r as u32);
        for (column, value) in row.iter_mut().enumerate() {
            let sum: i64 = (0..16).map(|k| element(w, 0, r, k) * element(w, 1, column, k)).sum();
            let total = sum + i64::from(start[column].cast_signed());
            let clamped = total.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            *value = if d.flags & flag::CLAMP != 0 { clamped } else { total } as u32;
        }
    }
    write(w, d, &result);
    Flow::NEXT
}
