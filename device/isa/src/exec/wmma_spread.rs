//! Matrix instructions of gfx12: D = A × B + C on 16×16 tiles, where no two lanes hold the same, and A may be sparse.
//!
//! Where element (i, k) of A is, and (k, j) of B with j for i, of *K* elements of so many bits: [`place`], from the layouts
//! that AMD's matrix instruction calculator prints. Row *r* of C and D in 32 bits is in register *r* % 8, lanes 16(*r* / 8) to
//! 16(*r* / 8) + 15 (wave64: register *r* % 4, sixteen lanes from 32(*r* / 4 % 2) + 16(*r* / 8) on); in 16 bits two rows share
//! a register.
//!
//! A of `V_SWMMAC_*` has two of each four elements of a row. The index register of the lane that has them says which: two bits
//! for each element, four for a pair, in the order of the elements in the lane.
//!
//! How hardware orders and rounds the sum is not public. As for gfx11, every product is exact and added in ascending order of
//! k, with one rounding to single precision for each.

use super::di::{Di, Flow, Kind, Machine, flag};
use super::float::byte::Byte;
use super::float::{brain, half, single};
use super::op::per_backend;
use crate::inst::Op;
use crate::lanes::Lanes;
use crate::wave::Wave;

const N: usize = 16;
/// Most elements of a row of A that are there, and of a column of B.
const MOST_KEPT: usize = 32;
const MOST: usize = 64;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Half,
    Brain,
    Byte(Byte),
    /// An integer of so many bits.
    Integer(u32),
}

impl Element {
    const fn bits(self) -> u32 {
        match self {
            Element::Half | Element::Brain => 16,
            Element::Byte(_) => 8,
            Element::Integer(bits) => bits,
        }
    }

    /// As a single; an integer is extended with its sign if it is signed.
    #[inline(always)]
    fn value(self, bits: u32, signed: bool) -> u32 {
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

/// What C and D consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sum {
    Single,
    Half,
    Brain,
    Integer,
}

/// A matrix instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    op: Op,
    a: Element,
    b: Element,
    sum: Sum,
    /// Columns of A.
    k: u32,
    sparse: bool,
}

impl Shape {
    /// Elements of a row of A that are there.
    const fn kept(&self) -> u32 {
        if self.sparse { self.k / 2 } else { self.k }
    }

    /// Registers of A, B, and of C and D in waves of so many halves.
    pub(crate) fn registers(&self, halves: u32) -> [u32; 3] {
        let registers = |elements: u32, bits: u32| (elements * bits / 2 / 32 / halves).max(1);
        let sum = match self.sum {
            Sum::Single | Sum::Integer => 8,
            Sum::Half | Sum::Brain => 4,
        };
        [registers(self.kept(), self.a.bits()), registers(self.k, self.b.bits()), sum / halves]
    }

    /// Whether the third source is an index, and not C.
    pub(crate) const fn is_sparse(&self) -> bool {
        self.sparse
    }

    /// Whether it calculates with floats.
    pub(crate) const fn is_float(&self) -> bool {
        !matches!(self.sum, Sum::Integer)
    }

    /// Bits of a lane's index that a wave of so many halves takes.
    const fn index_bits(&self, halves: u32) -> u32 {
        let (_, _, lanes) = geometry(self.a.bits(), self.kept(), halves);
        self.kept() * 16 / lanes * 2
    }
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

static SHAPES: [Shape; 22] = [
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

/// How elements of so many bits are spread: elements of a register, elements of a row in sixteen lanes, and the lanes that
/// have any.
const fn geometry(bits: u32, k: u32, halves: u32) -> (u32, u32, u32) {
    let per = 32 / bits;
    // Fewer than a register's worth in each of 64 lanes: half of the lanes have none.
    let lanes = if halves == 2 && k / 4 >= per { 64 } else { 32 };
    (per, k / (lanes / 16), lanes)
}

/// Where element `k` of a row is: number in its lane, and the first of the sixteen lanes.
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

/// The elements of A that are there: of each row the column and the value, and how many.
struct Rows {
    columns: [[u8; MOST_KEPT]; N],
    values: [[u32; MOST_KEPT]; N],
}

/// Sign of a float source's element, which `neg` has for even ones and `neg_hi` for odd ones.
#[inline(always)]
fn sign(shape: &Shape, d: &Di, n: usize, k: u32) -> u32 {
    let negated = if k & 1 == 0 { d.src[n].neg } else { d.imm >> n & 1 != 0 };
    if shape.is_float() && negated { single::SIGN } else { 0 }
}

fn rows(w: &Wave, d: &Di, shape: &Shape) -> Rows {
    let (bits, kept) = (shape.a.bits(), shape.kept());
    let mut rows = Rows { columns: [[0; MOST_KEPT]; N], values: [[0; MOST_KEPT]; N] };
    let index_bits = if shape.sparse { shape.index_bits(w.halves) } else { 0 };
    let key = d.imm >> 8;
    for k in 0..kept {
        let (number, first) = place(bits, kept, w.halves, k);
        for i in 0..N as u32 {
            let lane = first + i;
            let element = bits_at(w, d.src[0].value, bits, number, lane);
            let value = shape.a.value(element, d.src[0].neg) ^ sign(shape, d, 0, k);
            let column = if shape.sparse {
                let index = w.v.lane(d.src[2].value + lane / 32, lane & 31);
                let at = if index_bits < 32 { key * index_bits } else { 0 } + number * 2;
                k / 2 * 4 + (index >> (at & 31) & 3)
            } else {
                k
            };
            rows.columns[i as usize][k as usize] = column as u8;
            rows.values[i as usize][k as usize] = value;
        }
    }
    rows
}

/// Rows of B: element (k, j) of sixteen columns.
fn columns(w: &Wave, d: &Di, shape: &Shape) -> [[u32; N]; MOST] {
    let bits = shape.b.bits();
    let mut b = [[0; N]; MOST];
    for k in 0..shape.k {
        let (number, first) = place(bits, shape.k, w.halves, k);
        for (j, value) in (0..).zip(&mut b[k as usize]) {
            let element = bits_at(w, d.src[1].value, bits, number, first + j);
            *value = shape.b.value(element, d.src[1].neg) ^ sign(shape, d, 1, k);
        }
    }
    b
}

/// Row `r` of C or D whose first register is `base`: its register, its half of it in 16 bits, and the first of its lanes.
#[inline(always)]
fn sum_place(shape: &Shape, halves: u32, r: u32) -> (u32, u32, u32) {
    let lanes = match halves {
        1 => 16 * (r / 8),
        _ => 32 * (r / 4 % 2) + 16 * (r / 8),
    };
    let register = r % (8 / halves);
    match shape.sum {
        Sum::Single | Sum::Integer => (register, 0, lanes),
        Sum::Half | Sum::Brain => (register / 2, r % 2, lanes),
    }
}

/// Row `r` of C, or of what D was before.
fn start(w: &Wave, d: &Di, shape: &Shape, r: u32) -> [u32; N] {
    let (register, part, first) = sum_place(shape, w.halves, r);
    let from_register = |base: u32, j: u32| {
        let lane = first + j;
        w.v.lane(base + register * w.halves + lane / 32, lane & 31) >> (16 * part)
    };
    core::array::from_fn(|j| {
        let word = match (shape.sparse, d.src[2].kind) {
            (true, _) => from_register(d.dst, j as u32),
            (false, Kind::Vector) => from_register(d.src[2].value, j as u32),
            (false, _) => d.src[2].scalar(w),
        };
        let value = match shape.sum {
            Sum::Single => word,
            Sum::Integer => return word,
            Sum::Half => half::to_single(word as u16),
            Sum::Brain => brain::to_single(word as u16),
        };
        // `neg_hi` is the absolute value, `neg` negates; a sparse one has no C to say it of.
        let value = if !shape.sparse && d.imm & 4 != 0 { value & !single::SIGN } else { value };
        if !shape.sparse && d.src[2].neg { value ^ single::SIGN } else { value }
    })
}

fn write(w: &mut Wave, d: &Di, shape: &Shape, result: &[[u32; N]; N]) {
    for (r, values) in (0..).zip(result) {
        let (register, part, first) = sum_place(shape, w.halves, r);
        for (j, value) in (0..).zip(values) {
            let lane = first + j;
            let row = d.dst + register * w.halves + lane / 32;
            let word = match shape.sum {
                Sum::Single | Sum::Integer => *value,
                Sum::Half | Sum::Brain => {
                    let bits = match shape.sum {
                        Sum::Half => half::from_single(*value),
                        _ => brain::from_single(*value),
                    };
                    w.v.lane(row, lane & 31) & !(0xffff << (16 * part)) | u32::from(bits) << (16 * part)
                }
            };
            w.v.set_lane(row, lane & 31, word);
        }
    }
}

#[inline(always)]
fn floats<L: Lanes>(w: &mut Wave, d: &Di) -> Flow {
    let shape = &SHAPES[usize::from(d.aux) % SHAPES.len()];
    let (rows, b) = (rows(w, d, shape), columns(w, d, shape));
    let kept = shape.kept() as usize;
    let mut result = [[0; N]; N];
    for (r, result) in result.iter_mut().enumerate() {
        let start = start(w, d, shape, r as u32);
        let terms = || rows.columns[r].iter().zip(&rows.values[r]).take(kept);
        let mut sum = L::from_array(start);
        for (column, value) in terms() {
            sum = L::fma(L::splat(*value), L::from_array(b[usize::from(*column) % MOST]), sum);
        }
        *result = L::to_array(sum);
        if L::unordered(sum, sum) != 0 {
            // NaNs by the policy of the scalar operations.
            for (j, result) in result.iter_mut().enumerate() {
                *result = terms().fold(start[j], |sum, (column, value)| {
                    single::fma(*value, b[usize::from(*column) % MOST][j], sum)
                });
            }
        }
    }
    write(w, d, shape, &result);
    Flow::NEXT
}

per_backend! {
    /// Handler of a matrix instruction of floats, `aux` its number.
    float [] [] |w, _m, d, L| floats::<L>(w, d)
}

/// Handler of a matrix instruction of integers, `aux` its number: A and B are signed where their `neg` bit is set.
pub(crate) fn integer(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let shape = &SHAPES[usize::from(d.aux) % SHAPES.len()];
    let (rows, b) = (rows(w, d, shape), columns(w, d, shape));
    let kept = shape.kept() as usize;
    let wide = |value: u32| i64::from(value.cast_signed());
    let mut result = [[0; N]; N];
    for (r, result) in result.iter_mut().enumerate() {
        let start = start(w, d, shape, r as u32);
        for (j, result) in result.iter_mut().enumerate() {
            let terms = rows.columns[r].iter().zip(&rows.values[r]).take(kept);
            let sum: i64 =
                terms.map(|(column, value)| wide(*value) * wide(b[usize::from(*column) % MOST][j])).sum();
            let total = sum + wide(start[j]);
            let clamped = total.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            *result = if d.flags & flag::CLAMP != 0 { clamped } else { total } as u32;
        }
    }
    write(w, d, shape, &result);
    Flow::NEXT
}
