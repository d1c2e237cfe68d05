//! Matrix instructions of gfx12: D = A × B + C on 16×16 tiles, where no two lanes hold the same, and A may be sparse.
//!
//! [`place`] gives the place of element (i, k) of A, and of element (k, j) of B with j for i, for *K* elements of a
//! given size. It follows the layouts that AMD's matrix instruction calculator prints. Row *r* of C and D in 32 bits
//! is in register *r* % 8, lanes 16(*r* / 8) to 16(*r* / 8) + 15 (wave64: register *r* % 4, sixteen lanes from 32(*r*
//! / 4 % 2) + 16(*r* / 8) on); in 16 bits two rows share a register.
//!
//! A of `V_SWMMAC_*` has two of each four elements of a row. The index register of the lane that has them says which: two bits
//! for each element, four for a pair, in the order of the elements in the lane.
//!
//! As for gfx11, every product is exact and added in ascending order of k, with one rounding to single precision for each: that is the
//! fast way. The sums of cards are in [`wmma_exact`](super::wmma_exact).

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

mod integer;
mod shape;

pub(crate) use integer::integer;
pub(crate) use shape::{Shape, of};

use super::tile::{self, Pairs};
use super::wmma::{FEW, both, first_row, narrowed, sums};
use super::wmma_exact::{Line, Matrices};
use crate::exec::di::{Di, Flow, Kind};
use crate::exec::vector::dot::sums::{Card, Factors};
use crate::exec::vector::float::{FP16_OVFL, single};
use crate::exec::vector::op::per_backend;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::{Chunk, Wave};
use shape::{Element, SHAPES, Sum, geometry};

const N: usize = 16;
/// Most elements of a row of A that are there, and of a column of B.
const MOST_KEPT: usize = 32;
const MOST: usize = 64;

/// Returns the place of element `k` of a row: its number in the lane, and the first of the sixteen lanes.
#[inline(always)]
fn place(bits: u32, count: u32, halves: u32, k: u32) -> (u32, u32) {
    let (per, own, lanes) = geometry(bits, count, halves);
    if bits == 16 {
        // Quarters, or eighths of 32, take turns.
        let q = count / 4;
        let low = q / 2;
        return match lanes {
            32 => ((low * (k / (2 * q)) + k / 2 % low) * 2 + k % 2, 16 * (k / q % 2)),
            _ => (k / 2 % low * 2 + k % 2, 32 * (k / (2 * q) % 2) + 16 * (k / q % 2)),
        };
    }
    let _ = per;
    match lanes {
        32 => (k % own, 16 * (k / own)),
        _ => (k % own, 32 * (k / own % 2) + 16 * (k / (2 * own))),
    }
}

/// Element `number` of lane `lane` of the registers from row `base` on.
#[inline(always)]
fn bits_at(w: &Wave, base: u32, bits: u32, number: u32, lane: u32) -> u32 {
    let per = 32 / bits;
    let word = w.v.lane(base + number / per * w.halves + lane / 32, lane & 31);
    word >> (number % per * bits) & (u32::MAX >> (32 - bits))
}

/// Sign of a float source's element, which `neg` has for even ones and `neg_hi` for odd ones.
#[inline(always)]
fn sign(shape: &Shape, d: &Di, n: usize, k: u32) -> u32 {
    let negated = if k & 1 == 0 { d.src[n].neg } else { d.imm >> n & 1 != 0 };
    if shape.is_float() && negated { single::SIGN } else { 0 }
}

/// Sixteen lanes of a register whose first row is `row`, from `first` on.
#[inline(always)]
fn sixteen(w: &Wave, row: u32, first: u32) -> &Chunk {
    &w.v.row(row + first / 32)[((first / 16) & 1) as usize]
}

/// The elements of A (`n` 0) that are there, or of B: element k of sixteen rows or columns.
#[inline(always)]
fn elements<L: Lanes, const MANY: usize>(w: &Wave, d: &Di, shape: &Shape, n: usize) -> [Chunk; MANY] {
    let (element, count) = if n == 0 { (shape.a, shape.kept()) } else { (shape.b, shape.k) };
    let bits = element.bits();
    let mut elements = [Chunk([0; N]); MANY];
    if bits == 16 {
        for k in (0..count).step_by(2) {
            // Both are in one register.
            let (number, first) = place(bits, count, w.halves, k);
            let word = L::load(sixteen(w, d.src[n].value + number / 2 * w.halves, first));
            let both = match element {
                Element::Brain => both::<L, true>(word),
                _ => both::<L, false>(word),
            };
            for part in 0..2 {
                let sign = L::splat(sign(shape, d, n, part));
                let value = L::xor(both[part as usize], sign);
                L::store(&mut elements[(k + part) as usize % MANY], value);
            }
        }
        return elements;
    }
    for k in 0..count {
        let (number, first) = place(bits, count, w.halves, k);
        for (line, value) in (0..).zip(&mut elements[k as usize % MANY].0) {
            let element_bits = bits_at(w, d.src[n].value, bits, number, first + line);
            *value = element.value(element_bits, d.src[n].neg) ^ sign(shape, d, n, k);
        }
    }
    elements
}

/// Columns of the elements of each row of a sparse A.
fn columns(w: &Wave, d: &Di, shape: &Shape) -> [[u8; MOST_KEPT]; N] {
    let (bits, kept) = (shape.a.bits(), shape.kept());
    let mut columns = [[0; MOST_KEPT]; N];
    let index_bits = shape.index_bits(w.halves);
    let key = d.imm >> 8;
    for k in 0..kept {
        let (number, first) = place(bits, kept, w.halves, k);
        for i in 0..N as u32 {
            let lane = first + i;
            let index = w.v.lane(d.src[2].value + lane / 32, lane & 31);
            let at = if index_bits < 32 { key * index_bits } else { 0 } + number * 2;
            columns[i as usize][k as usize] = (k / 2 * 4 + (index >> (at & 31) & 3)) as u8;
        }
    }
    columns
}

/// Row `r` of C or D whose first register is `base`: its register, its half of it in 16 bits, and the first of its lanes.
#[inline(always)]
fn sum_place(narrow: bool, halves: u32, r: u32) -> (u32, u32, u32) {
    let lanes = match halves {
        1 => 16 * (r / 8),
        _ => 32 * (r / 4 % 2) + 16 * (r / 8),
    };
    let register = r % (8 / halves);
    if narrow { (register / 2, r % 2, lanes) } else { (register, 0, lanes) }
}

/// Row `r` of C, or of the old D.
#[inline(always)]
fn start<L: Lanes>(w: &Wave, d: &Di, shape: &Shape, halves: u32, r: u32) -> L::V {
    let (register, part, first) = sum_place(shape.is_narrow(), halves, r);
    let from_register = |base: u32| *sixteen(w, base + register * halves, first);
    let (word, part) = match (shape.sparse, d.src[2].kind) {
        (true, _) => (L::load(&from_register(d.dst)), part as usize),
        (false, Kind::Vector) => (L::load(&from_register(d.src[2].value)), part as usize),
        (false, _) => (L::splat(d.src[2].scalar(w)), 0),
    };
    let value = match shape.sum {
        Sum::Single => word,
        Sum::Integer => return word,
        Sum::Half => both::<L, false>(word)[part],
        Sum::Brain => both::<L, true>(word)[part],
    };
    // `neg_hi` is the absolute value, `neg` negates; a sparse one has no C to say it of.
    if shape.sparse {
        return value;
    }
    let value = if d.imm & 4 != 0 { L::and(value, L::splat(!single::SIGN)) } else { value };
    if d.src[2].neg { L::xor(value, L::splat(single::SIGN)) } else { value }
}

#[inline(always)]
fn write<L: Lanes>(w: &mut Wave, d: &Di, shape: &Shape, result: &[Chunk; N]) {
    for (r, values) in (0..).zip(result) {
        write_row::<L>(w, d, shape, w.halves, (r, L::load(values)));
    }
}

#[inline(always)]
fn write_row<L: Lanes>(w: &mut Wave, d: &Di, shape: &Shape, halves: u32, (r, value): (u32, L::V)) {
    let (register, part, first) = sum_place(shape.is_narrow(), halves, r);
    let row = d.dst + register * halves + first / 32;
    let to = &mut w.v.row_mut(row)[((first / 16) & 1) as usize];
    let bits = match shape.sum {
        Sum::Single | Sum::Integer => return L::store(to, value),
        Sum::Half => narrowed::<L, false>(value),
        Sum::Brain => narrowed::<L, true>(value),
    };
    let others = L::and(L::load(to), L::splat(!(0xffff << (16 * part))));
    L::store(to, L::or(others, L::shl(bits, L::splat(16 * part))));
}

#[inline(always)]
fn floats<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let shape = &SHAPES[usize::from(d.aux) % SHAPES.len()];
    match (shape.sparse, w.halves) {
        (true, _) => sparse_floats::<L>(w, d, shape),
        (_, 1) => dense_floats::<L, 1>(w, d, shape),
        _ => dense_floats::<L, 2>(w, d, shape),
    }
    Flow::NEXT
}

#[inline(always)]
fn sparse_floats<L: Lanes>(w: &mut Wave, d: &Di, shape: &Shape) {
    let a = elements::<L, MOST_KEPT>(w, d, shape, 0);
    let b = elements::<L, MOST>(w, d, shape, 1);
    let kept = (shape.kept() as usize).min(MOST_KEPT);
    let mut result = [Chunk([0; N]); N];
    sparse_rows::<L>(w, d, shape, (&a[..kept], &b), &mut result);
    write::<L>(w, d, shape, &result);
}

/// The sixteen elements of each line of a dense matrix, in waves of `HALVES` halves.
#[inline(always)]
fn dense_elements<L: Lanes, const HALVES: u32>(
    w: &Wave,
    d: &Di,
    shape: &Shape,
    n: usize,
    into: &mut [Chunk; N],
) {
    match if n == 0 { shape.a } else { shape.b } {
        Element::Half => pairs::<L, false, HALVES>(w, d, shape, n, into),
        Element::Brain => pairs::<L, true, HALVES>(w, d, shape, n, into),
        _ => *into = elements::<L, N>(w, d, shape, n),
    }
}

/// [`elements`] of sixteen bits, whose places the compiler knows.
#[inline(always)]
fn pairs<L: Lanes, const BRAIN: bool, const HALVES: u32>(
    w: &Wave,
    d: &Di,
    shape: &Shape,
    n: usize,
    into: &mut [Chunk; N],
) {
    let signs = [sign(shape, d, n, 0), sign(shape, d, n, 1)];
    for pair in 0..N / 2 {
        let (number, first) = place(16, N as u32, HALVES, 2 * pair as u32);
        let word = L::load(sixteen(w, d.src[n].value + number / 2 * HALVES, first));
        let both = both::<L, BRAIN>(word);
        for part in 0..2 {
            L::store(&mut into[2 * pair + part], L::xor(both[part], L::splat(signs[part])));
        }
    }
}

/// All dense matrices of floats have sixteen elements in a line.
#[inline(always)]
fn dense_floats<L: Lanes, const HALVES: u32>(w: &mut Wave, d: &Di, shape: &Shape) {
    if L::KIND == BackendKind::Avx512 {
        let done = match (shape.a, shape.sum) {
            (Element::Half, Sum::Single) => at_once::<L, false, false, HALVES>(w, d),
            (Element::Half, _) => at_once::<L, false, true, HALVES>(w, d),
            (Element::Brain, Sum::Single) => at_once::<L, true, false, HALVES>(w, d),
            (Element::Brain, _) => at_once::<L, true, true, HALVES>(w, d),
            _ => false,
        };
        if done {
            return;
        }
    }
    let (mut a, mut b) = ([Chunk([0; N]); N], [Chunk([0; N]); N]);
    dense_elements::<L, HALVES>(w, d, shape, 0, &mut a);
    dense_elements::<L, HALVES>(w, d, shape, 1, &mut b);
    for n in 0..N / FEW {
        dense_rows::<L, HALVES, FEW>(w, d, shape, (&a, &b), first_row(d, FEW, n));
    }
}

/// Does all rows of D of 16-bit floats at a time. Returns true if they are done, which they are not with modifiers of
/// C or a NaN in D.
#[inline(always)]
fn at_once<L: Lanes, const BRAIN: bool, const NARROW: bool, const HALVES: u32>(w: &mut Wave, d: &Di) -> bool {
    if d.src[2].neg || d.imm & 4 != 0 {
        return false;
    }
    let mut c = [L::splat(0); N];
    if d.src[2].kind == Kind::Vector {
        for r in 0..N {
            let (register, part, first) = sum_place(NARROW, HALVES, r as u32);
            let word = L::load(sixteen(w, d.src[2].value + register * HALVES, first));
            c[r] = if NARROW { both::<L, BRAIN>(word)[part as usize] } else { word };
        }
    } else {
        let word = L::splat(d.src[2].scalar(w));
        c = [if NARROW { both::<L, BRAIN>(word)[0] } else { word }; N];
    }
    let (mut a, mut b) = ([&w.v.row(0)[0]; N / 2], [&w.v.row(0)[0]; N / 2]);
    for n in 0..N / 2 {
        let (number, first) = place(16, N as u32, HALVES, 2 * n as u32);
        a[n] = sixteen(w, d.src[0].value + number / 2 * HALVES, first);
        b[n] = sixteen(w, d.src[1].value + number / 2 * HALVES, first);
    }
    let (sums, nans) = tile::sums::<L, BRAIN>(d, &Pairs { a, b }, c);
    if nans {
        return false;
    }
    for r in (0..N).step_by(if NARROW { 2 } else { 1 }) {
        let (register, _, first) = sum_place(NARROW, HALVES, r as u32);
        let value = match NARROW {
            true => L::or(
                narrowed::<L, BRAIN>(sums[r]),
                L::shl(narrowed::<L, BRAIN>(sums[(r + 1) % N]), L::splat(16)),
            ),
            false => sums[r],
        };
        let row = w.v.row_mut(d.dst + register * HALVES + first / 32);
        L::store(&mut row[((first / 16) & 1) as usize], value);
    }
    true
}

/// Rows of D from `first` on, which share no register with other such rows, or with the rows before and after them.
#[inline(always)]
fn dense_rows<L: Lanes, const HALVES: u32, const ROWS: usize>(
    w: &mut Wave,
    d: &Di,
    shape: &Shape,
    (a, b): (&[Chunk; N], &[Chunk; N]),
    first: usize,
) {
    let mut c = [L::splat(0); ROWS];
    for r in 0..ROWS {
        c[r] = start::<L>(w, d, shape, HALVES, (first + r) as u32);
    }
    let sums = sums::<L, ROWS>(a, b, first, c);
    for r in 0..ROWS {
        write_row::<L>(w, d, shape, HALVES, ((first + r) as u32, sums[r]));
    }
}

/// One row after the other, each of which is multiplied with other elements of B.
#[inline(always)]
fn sparse_rows<L: Lanes>(
    w: &Wave,
    d: &Di,
    shape: &Shape,
    (a, b): (&[Chunk], &[Chunk; MOST]),
    result: &mut [Chunk; N],
) {
    let columns = columns(w, d, shape);
    for r in 0..N {
        let c = start::<L>(w, d, shape, w.halves, r as u32);
        let mut sum = c;
        for k in 0..a.len() {
            let column = usize::from(columns[r][k]) % MOST;
            sum = L::fma(L::splat(a[k].0[r]), L::load(&b[column]), sum);
        }
        if L::unordered(sum, sum) != 0 {
            // NaNs by the policy of the scalar operations.
            let mut words = L::to_array(c);
            for (j, word) in words.iter_mut().enumerate() {
                *word = (0..a.len()).fold(*word, |sum, k| {
                    single::fma(a[k].0[r], b[usize::from(columns[r][k]) % MOST].0[j], sum)
                });
            }
            sum = L::from_array(words);
        }
        L::store(&mut result[r], sum);
    }
}

per_backend! {
    /// Handler of a matrix instruction of floats, `aux` its number.
    float [] [] |w, _m, d, L| floats::<L>(w, d)
}

/// The factors of a matrix instruction whose sums cards were seen to form: dense ones of 16-bit floats.
fn factors(shape: &Shape) -> Option<Factors> {
    match (shape.sparse, shape.a) {
        (false, Element::Half) => Some(Factors::Halves),
        (false, Element::Brain) => Some(Factors::Brains),
        _ => None,
    }
}

/// Returns true if [`exact`] has the sums of a shape.
pub(crate) fn has_exact(shape: &Shape) -> bool {
    factors(shape).is_some()
}

#[inline(always)]
fn exactly<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let shape = &SHAPES[usize::from(d.aux) % SHAPES.len()];
    let Some(of) = factors(shape) else { unreachable!("other shapes have another handler") };
    let (narrow, limited) = (shape.is_narrow(), w.mode & FP16_OVFL != 0);
    let matrices = Matrices { card: Card::Gfx12, of, narrow, limited };
    let line = |n: usize, i: usize| -> Line {
        core::array::from_fn(|k| {
            let (number, first) = place(16, N as u32, w.halves, k as u32);
            let bits = bits_at(w, d.src[n].value, 16, number, first + i as u32);
            bits as u16 ^ (sign(shape, d, n, k as u32) >> 16) as u16
        })
    };
    let lines = |n: usize| -> [Line; N] { core::array::from_fn(|i| line(n, i)) };
    let mut c = [[0; N]; N];
    for (r, row) in c.iter_mut().enumerate() {
        *row = L::to_array(start::<L>(w, d, shape, w.halves, r as u32));
    }
    let (a, b) = (lines(0), lines(1));
    matrices.sums(&a, &b, &mut c);
    write::<L>(w, d, shape, &c.map(Chunk));
    Flow::NEXT
}

per_backend! {
    /// Handler of a matrix instruction that [`has_exact`] sums, `aux` its number.
    exact [] [] |w, _m, d, L| exactly::<L>(w, d)
}
