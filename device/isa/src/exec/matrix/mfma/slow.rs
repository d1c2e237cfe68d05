//! Elements of D one at a time: doubles, and the cases that the vectors leave out.

use super::shape::{Element, Rule, Shape, source_lanes};
use super::{Control, fused};
use crate::exec::di::{Di, Flow, Kind};
use crate::exec::vector::float::byte::Byte;
use crate::exec::vector::float::{brain, double, half, single};
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

/// Sixteen lanes of a register of D, which are a row of a block, or one row of four blocks beginning with that.
#[derive(Clone, Copy)]
pub(super) struct Sixteen {
    pub(super) block: u32,
    pub(super) register: usize,
    pub(super) sixteen: usize,
}

impl Sixteen {
    /// Block, row and column of a lane.
    pub(super) fn element(self, shape: &Shape, lane: u32) -> (u32, u32, u32) {
        if shape.n == 4 {
            return (self.block + lane / 4, self.register as u32, lane % 4);
        }
        let down = self.register as u32 % (shape.m * shape.n / 64);
        let across = 64 / shape.n;
        let all = self.sixteen as u32 * 16 + lane;
        (self.block, down % 4 + 4 * (all / shape.n + across * (down / 4)), all % shape.n)
    }
}

/// Most elements of a row of A that are there.
const MOST: usize = 64;

/// The elements that make one of D, in the order in which they are added.
struct Terms {
    a: [u32; MOST],
    b: [u32; MOST],
    count: usize,
}

/// An element's bits, of the word of a lane that begins at `row`.
fn bits(w: &Wave, base: u32, bits: u32, number: u32, lane: u32) -> u32 {
    let per = 32 / bits;
    let word = w.v.lane(base + number / per * 2 + lane / 32, lane & 31);
    word >> (number % per * bits) & (u32::MAX >> (32 - bits))
}

/// As a single, or an integer.
fn value(element: Element, bits: u32) -> u32 {
    match element {
        Element::Half => half::to_single(bits as u16),
        Element::Brain => brain::to_single(bits as u16),
        Element::Fp8 => Byte::Fp8Fnuz.to_single(bits as u8),
        Element::Bf8 => Byte::Bf8Fnuz.to_single(bits as u8),
        Element::E4m3 => Byte::Fp8.to_single(bits as u8),
        Element::E5m2 => Byte::Bf8.to_single(bits as u8),
        Element::Byte => i32::from((bits as u8).cast_signed()).cast_unsigned(),
        // A NaN stays a NaN, even if all the digits that it has would be cut off.
        Element::Xf32 if single::is_nan(bits) => bits | single::QUIET,
        Element::Xf32 => bits & 0xffff_e000,
        Element::Single | Element::Double => bits,
    }
}

/// Returns which two of each four elements of a row of A exist, for the elements that a lane has: two bits for each.
#[inline(always)]
pub(super) fn columns(w: &Wave, d: &Di, shape: &Shape, lane: u32) -> u32 {
    let control = Control::of(d);
    let own = shape.in_lane(shape.m, shape.kept());
    // Without CBSZ, ABID chooses among as many indices as there is room for.
    let set = if control.cbsz == 0 { control.abid % (16 / own) } else { 0 };
    w.v.lane(d.src[2].value + lane / 32, lane & 31) >> (set * own * 2)
}

/// The column of A that has element `k` of those of row `i` that are there.
fn column(w: &Wave, d: &Di, shape: &Shape, i: u32, k: u32) -> u32 {
    let (number, lane) = shape.factor_place(shape.m, shape.kept(), 0, i, k);
    k / 2 * 4 + (columns(w, d, shape, lane) >> (number * 2) & 3)
}

fn terms(w: &Wave, d: &Di, shape: &Shape, (block, i, j): (u32, u32, u32)) -> Terms {
    let control = Control::of(d);
    let mut terms = Terms { a: [0; MOST], b: [0; MOST], count: shape.kept() as usize % (MOST + 1) };
    for k in 0..terms.count {
        let source = shape.source_block(block, control.cbsz, control.abid);
        let (number, lane) = shape.factor_place(shape.m, shape.kept(), source, i, k as u32);
        terms.a[k] = value(shape.a, bits(w, d.src[0].value, shape.a.bits(), number, lane));
        let row = if shape.sparse { column(w, d, shape, i, k as u32) } else { k as u32 };
        let (number, lane) = shape.factor_place(shape.n, shape.k, block, j, row);
        let pattern = if shape.sparse { 0 } else { control.blgp };
        let lane = source_lanes(pattern, lane / 16) * 16 + lane % 16;
        terms.b[k] = value(shape.b, bits(w, d.src[1].value, shape.b.bits(), number, lane));
    }
    terms
}

/// Element `lane` of sixteen of D.
fn one(w: &Wave, d: &Di, shape: &Shape, at: Sixteen, lane: u32) -> u32 {
    let terms = terms(w, d, shape, at.element(shape, lane));
    let all = at.sixteen as u32 * 16 + lane;
    let c = match (shape.sparse, d.src[2].kind) {
        (false, kind) if kind != Kind::Vector => d.src[2].scalar(w),
        (is_sparse, _) => {
            let base = if is_sparse { d.dst } else { d.src[2].value };
            w.v.lane(base + at.register as u32 * 2 + all / 32, all & 31)
        }
    };
    let (a, b) = (&terms.a[..terms.count], &terms.b[..terms.count]);
    let elements = [shape.a, shape.b];
    match shape.rule() {
        Rule::Chain => a.iter().zip(b).fold(c, |sum, (a, b)| single::fma(*a, *b, sum)),
        Rule::Integers => a.iter().zip(b).fold(c, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(*b))),
        Rule::Groups(_) | Rule::Halves => {
            let (count, halves) = match shape.rule() {
                Rule::Groups(count) => (count as usize, false),
                _ => (16, true),
            };
            let groups = a.chunks(count).zip(b.chunks(count));
            groups.fold(c, |sum, (a, b)| fused::group(elements, halves, [a, b], sum))
        }
    }
}

/// Sixteen lanes of D.
#[cold]
#[inline(never)]
pub(super) fn lanes(w: &Wave, d: &Di, shape: &Shape, at: Sixteen) -> Chunk {
    Chunk(core::array::from_fn(|lane| one(w, d, shape, at, lane as u32)))
}

/// Calculates the lanes in `mask` again.
#[cold]
#[inline(never)]
pub(super) fn again(w: &Wave, d: &Di, shape: &Shape, at: Sixteen, mask: u16, values: &mut [u32; 16]) {
    for (lane, value) in (0..).zip(values) {
        if mask >> lane & 1 != 0 {
            *value = one(w, d, shape, at, lane);
        }
    }
}

/// A double of a lane, of registers that begin at row `base`.
#[inline(always)]
fn double_at(w: &Wave, base: u32, number: u32, lane: u32) -> u64 {
    let row = base + number * 4 + lane / 32;
    u64::from(w.v.lane(row, lane & 31)) | u64::from(w.v.lane(row + 2, lane & 31)) << 32
}

/// A row of D: chains of fused multiply-adds, of which those that end in a NaN are done again for its bits.
#[inline(always)]
fn row_of_doubles(a: &[[u64; 16]; 4], b: &[[u64; 16]; 4], i: usize, start: [u64; 16]) -> [u64; 16] {
    let mut sums = start.map(f64::from_bits);
    for k in 0..4 {
        let a = f64::from_bits(a[k][i]);
        for j in 0..16 {
            sums[j] = a.mul_add(f64::from_bits(b[k][j]), sums[j]);
        }
    }
    let mut results = [0; 16];
    for j in 0..16 {
        results[j] = sums[j].to_bits();
        if sums[j].is_nan() {
            results[j] = (0..4).fold(start[j], |sum, k| double::fma(a[k][i], b[k][j], sum));
        }
    }
    results
}

/// `v_mfma_f64_*`.
#[inline(always)]
pub(super) fn doubles<L: Lanes>(w: &mut Wave, d: &Di, shape: &Shape) -> Flow {
    let control = Control::of(d);
    let sign = |n: usize| if d.src[n].neg { double::SIGN } else { 0 };
    let signs = [sign(0), sign(1), sign(2)];
    let mut results = [[0u64; 64]; 4];
    let (m, n) = (shape.m.min(16), shape.n.min(16));
    for block in 0..shape.blocks {
        let source = shape.source_block(block, control.cbsz, control.abid);
        let (mut a, mut b) = ([[0u64; 16]; 4], [[0u64; 16]; 4]);
        for k in 0..shape.k.min(4) {
            for i in 0..m {
                let (at, of) = shape.factor_place(shape.m, shape.k, source, i, k);
                a[k as usize][i as usize] = double_at(w, d.src[0].value, at, of) ^ signs[0];
            }
            for j in 0..n {
                let (at, of) = shape.factor_place(shape.n, shape.k, block, j, k);
                b[k as usize][j as usize] = double_at(w, d.src[1].value, at, of) ^ signs[1];
            }
        }
        for i in 0..m {
            let mut sums = [0u64; 16];
            for j in 0..n {
                let (number, lane) = shape.sum_place(block, i, j);
                let c = match d.src[2].kind {
                    Kind::Vector => double_at(w, d.src[2].value, number, lane),
                    _ => d.src[2].scalar64(w),
                };
                sums[j as usize] = c ^ signs[2];
            }
            let sums = row_of_doubles(&a, &b, i as usize, sums);
            for j in 0..n {
                let (number, lane) = shape.sum_place(block, i, j);
                results[number as usize % 4][lane as usize % 64] = sums[j as usize];
            }
        }
    }
    for (number, lanes) in (0..shape.registers()[2] / 2).zip(&results) {
        for (lane, value) in (0..).zip(lanes) {
            let row = d.dst + number * 4 + lane / 32;
            w.v.set_lane(row, lane & 31, *value as u32);
            w.v.set_lane(row + 2, lane & 31, (*value >> 32) as u32);
        }
    }
    Flow::NEXT
}
