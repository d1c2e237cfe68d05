//! Matrix instructions of CDNA3 and CDNA4 (`v_mfma_*`, `v_smfmac_*`): D = A × B + C in one block or several.
//!
//! All lanes take part, also those that are off in EXEC, and `MODE` has no effect: denormal numbers are kept, sums
//! are rounded to nearest even. [`shape`] has the places of elements. Singles and doubles are added by fused
//! multiply-adds in the order of k, other elements as [`fused`] says. `v_smfmac_*` adds the elements of A that exist,
//! in their order, as many at a time as if there were no others.
//!
//! All sources are read before D is written. `CBSZ` and `ABID` let several blocks share one block of A; they mean
//! nothing for instructions with one block. `BLGP` is a pattern of B's lanes, except for doubles, where it negates
//! sources.

mod block;
mod convert;
mod fused;
mod group;
mod kept;
pub(crate) mod scaled;
mod shape;
mod slow;
mod sum;
#[cfg(test)]
mod tests;

pub(crate) use shape::{Shape, named};

use core::cell::Cell;

use zerocopy::FromZeros;

use crate::exec::di::{Di, Flow, Handler, Kind};
use crate::exec::vector::op::per_backend;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::{Chunk, Wave};
use convert::{Block, Left, Matrix, Right, SIXTEEN, VECTORS};
use kept::Kept;
use shape::{Element, Rule, SHAPES, source_lanes};
use sum::{Quad, Term, group_of, rule};

/// Fields in `imm` of a lowered instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Control {
    pub(crate) cbsz: u32,
    pub(crate) abid: u32,
    pub(crate) blgp: u32,
}

impl Control {
    /// As in [`Inst::imm`](crate::inst::Inst::imm).
    pub(crate) const fn word(self) -> u32 {
        self.cbsz & 7 | (self.abid & 15) << 4 | (self.blgp & 7) << 8
    }

    /// The inverse of [`Control::word`].
    #[inline(always)]
    pub(crate) const fn encoded(word: u32) -> Control {
        Control { cbsz: word & 7, abid: word >> 4 & 15, blgp: word >> 8 & 7 }
    }

    #[inline(always)]
    const fn of(d: &Di) -> Control {
        Control::encoded(d.imm)
    }
}

impl Shape {
    /// Returns the handler that executes the shape.
    pub(crate) fn handler(&self, backend: BackendKind) -> Handler {
        match self.rule() {
            Rule::Chain if self.is_double() => doubles(backend),
            Rule::Chain => matrix::<{ rule::CHAIN }>(backend),
            Rule::Groups(8) => matrix::<{ rule::EIGHTS }>(backend),
            Rule::Groups(_) => matrix::<{ rule::FOURS }>(backend),
            Rule::Halves => matrix::<{ rule::HALVES }>(backend),
            Rule::Integers => matrix::<{ rule::INTEGERS }>(backend),
        }
    }
}

#[inline(always)]
fn shape(d: &Di) -> &'static Shape {
    &SHAPES[usize::from(d.aux) % SHAPES.len()]
}

/// Sixteen lanes of C's register `register`, or of a constant in its place.
#[inline(always)]
fn sum_lanes<L: Lanes>(w: &Wave, d: &Di, sparse: bool, register: usize, sixteen: usize) -> L::V {
    let base = match (sparse, d.src[2].kind) {
        (true, _) => d.dst,
        (false, Kind::Vector) => d.src[2].value,
        (false, _) => return L::splat(d.src[2].scalar(w)),
    };
    L::load(&w.v.row(base + (register * 2 + sixteen / 2) as u32)[sixteen & 1])
}

/// Buffers that instructions calculate with, kept from one to the next because clearing them takes as long as a small
/// matrix.
#[derive(FromZeros)]
struct Bench {
    a: Left,
    b: Right,
    /// D before it is written: four sixteens of lanes of each register.
    results: [[Chunk; 4]; REGISTERS],
    terms: [Term; TERMS],
    /// The powers of the groups of each quad of a [`block`].
    powers: [[Chunk; GROUPS]; QUADS],
    /// Converted matrices of a [`block`].
    lefts: [Kept<Left>; kept::PLACES],
    rights: [Kept<Right>; kept::PLACES],
}

/// Most groups of an element of a [`block`].
const GROUPS: usize = 2;
/// Most quads of a [`block`].
const QUADS: usize = 16;

/// Most registers of D.
const REGISTERS: usize = 32;
/// Most elements of a row of A that are there.
const TERMS: usize = 64;

thread_local! {
    static BENCH: Cell<Option<Box<Bench>>> = const { Cell::new(None) };
}

impl Bench {
    fn take() -> Box<Bench> {
        BENCH.take().unwrap_or_else(|| {
            // Not by way of the stack, which is small for it.
            match Bench::new_box_zeroed() {
                Ok(bench) => bench,
                Err(error) => panic!("no memory for matrices: {error:?}"),
            }
        })
    }

    #[inline(always)]
    fn write(self: Box<Self>, w: &mut Wave, d: &Di, registers: usize) {
        for register in 0..registers.min(REGISTERS) {
            for half in 0..2 {
                let [first, second] =
                    [self.results[register][half * 2], self.results[register][half * 2 + 1]];
                *w.v.row_mut(d.dst + (register * 2 + half) as u32) = [first, second];
            }
        }
        self.put_back();
    }

    #[inline(always)]
    fn put_back(self: Box<Self>) {
        BENCH.set(Some(self));
    }
}

/// Dense blocks of 16 or 32 rows and columns.
#[inline(always)]
fn dense<L: Lanes, const RULE: u8>(w: &mut Wave, d: &Di, shape: &Shape) {
    let control = Control::of(d);
    let mut bench = Bench::take();
    let across = if shape.n == 16 { 4 } else { 2 };
    for block in 0..shape.blocks {
        let left = Block {
            base: d.src[0].value,
            lines: shape.m,
            count: shape.k,
            block: shape.source_block(block, control.cbsz, control.abid),
            blocks: shape.blocks,
            pattern: 0,
        };
        let right = Block { base: d.src[1].value, lines: shape.n, block, pattern: control.blgp, ..left };
        let (mut kept_a, mut kept_b, mut count) = (true, true, shape.k as usize);
        if RULE == rule::INTEGERS {
            convert::read_pairs::<L>(w, &left, &mut bench.a.value);
            convert::read_pairs::<L>(w, &right, &mut bench.b.value);
            count /= 2;
        } else {
            kept_a = read_as::<L, RULE>(w, shape.a, &left, Matrix::Left(&mut bench.a));
            kept_b = read_as::<L, RULE>(w, shape.b, &right, Matrix::Right(&mut bench.b));
        }
        let sixteens = shape.n as usize / 16;
        for rows in 0..shape.m as usize / 4 {
            let first = rows / across * 4 + block as usize * shape.m as usize / across;
            for columns in 0..sixteens {
                let sixteen = rows % across * sixteens + columns;
                if !(kept_a && kept_b) {
                    for r in 0..4 {
                        let place = slow::Sixteen { block, register: first + r, sixteen };
                        bench.results[(first + r) % REGISTERS][sixteen % 4] = slow::lanes(w, d, shape, place);
                    }
                    continue;
                }
                let mut c = [L::splat(0); 4];
                for (r, c) in c.iter_mut().enumerate() {
                    *c = sum_lanes::<L>(w, d, shape.sparse, first + r, sixteen);
                }
                let at = Quad { rows, columns, count };
                let sums = sum::quad::<L, RULE>(&bench.a, &bench.b, at, c);
                for r in 0..4 {
                    let result = &mut bench.results[(first + r) % REGISTERS][sixteen % 4];
                    L::store(result, sums.value[r]);
                    if sums.again[r] != 0 {
                        let place = slow::Sixteen { block, register: first + r, sixteen };
                        slow::again(w, d, shape, place, sums.again[r], &mut result.0);
                    }
                }
            }
        }
    }
    bench.write(w, d, shape.registers()[2] as usize);
}

/// [`convert::read`] for the elements that a rule can have. Returns true if all of them have powers.
#[inline(always)]
fn read_as<L: Lanes, const RULE: u8>(w: &Wave, element: Element, at: &Block, into: Matrix<'_>) -> bool {
    use Element::{Bf8, Brain, Byte, E4m3, E5m2, Fp8, Half, Single, Xf32};
    match (RULE, element) {
        (rule::CHAIN, _) => convert::read::<L>(w, Single, at, into),
        (rule::INTEGERS, _) => convert::read::<L>(w, Byte, at, into),
        (rule::HALVES, Fp8) => convert::read::<L>(w, Fp8, at, into),
        (rule::HALVES, E4m3) => convert::read::<L>(w, E4m3, at, into),
        (rule::HALVES, E5m2) => convert::read::<L>(w, E5m2, at, into),
        (rule::HALVES, _) => convert::read::<L>(w, Bf8, at, into),
        (rule::FOURS, Xf32) => convert::read::<L>(w, Xf32, at, into),
        (_, Half) => convert::read::<L>(w, Half, at, into),
        _ => convert::read::<L>(w, Brain, at, into),
    }
}

/// Blocks of four rows and columns: four blocks are in sixteen lanes.
#[inline(always)]
fn tiny<L: Lanes, const RULE: u8>(w: &mut Wave, d: &Di, shape: &Shape) {
    let control = Control::of(d);
    let mut bench = Bench::take();
    let count = (shape.k as usize).min(4);
    let per = 32 / shape.b.bits();
    for sixteen in 0..4 {
        let mut range = convert::Range::<L>::new();
        let source = source_lanes(control.blgp, sixteen);
        for k in 0..count {
            let (register, sub) = (k as u32 / per, k as u32 % per);
            let word = L::load(&w.v.row(d.src[1].value + register * 2 + source / 2)[(source & 1) as usize]);
            let value = convert::convert::<L>(shape.b, word, sub);
            L::store(&mut bench.b.power[k], convert::powers::<L>(shape.b, value, &mut range));
            let value = match RULE {
                rule::CHAIN | rule::INTEGERS => value,
                _ => convert::smaller::<L>(value),
            };
            L::store(&mut bench.b.value[k], value);
        }
        for r in 0..4 {
            for k in 0..count as u32 {
                let mut words = Chunk([0; 16]);
                for (t, word) in (0u32..).zip(&mut words.0) {
                    let block = shape.source_block(sixteen * 4 + t / 4, control.cbsz, control.abid);
                    let lane = block * 4 + r;
                    *word = w.v.lane(d.src[0].value + k / per * 2 + lane / 32, lane & 31);
                }
                let value = convert::convert::<L>(shape.a, L::load(&words), k % per);
                let term = &mut bench.terms[k as usize % 4];
                L::store(&mut term.value, value);
                L::store(&mut term.power, convert::powers::<L>(shape.a, value, &mut range));
                term.column = k as usize;
            }
            let register = r as usize;
            let place = slow::Sixteen { block: sixteen * 4, register, sixteen: sixteen as usize };
            let result = &mut bench.results[register][sixteen as usize];
            if !matches!(RULE, rule::CHAIN | rule::INTEGERS) && !range.is_kept(shape.a) {
                *result = slow::lanes(w, d, shape, place);
                continue;
            }
            let c = sum_lanes::<L>(w, d, shape.sparse, register, sixteen as usize);
            let sums = sum::line::<L, RULE>(&bench.terms[..count], &bench.b, c);
            L::store(result, sums.value[0]);
            if sums.again[0] != 0 {
                slow::again(w, d, shape, place, sums.again[0], &mut result.0);
            }
        }
    }
    bench.write(w, d, shape.registers()[2] as usize);
}

/// One block in which A has two of each four elements.
#[inline(always)]
fn sparse<L: Lanes, const RULE: u8>(w: &mut Wave, d: &Di, shape: &Shape) {
    let mut bench = Bench::take();
    let left =
        Block { base: d.src[0].value, lines: shape.m, count: shape.kept(), block: 0, blocks: 1, pattern: 0 };
    let right = Block { base: d.src[1].value, lines: shape.n, count: shape.k, ..left };
    let kept_a = read_as::<L, RULE>(w, shape.a, &left, Matrix::Left(&mut bench.a));
    let kept_b = read_as::<L, RULE>(w, shape.b, &right, Matrix::Right(&mut bench.b));
    let count = (shape.kept() as usize).min(TERMS);
    let own = shape.in_lane(shape.m, shape.kept()) as usize;
    for i in 0..shape.m as usize {
        for group in 0..count / own {
            let columns = slow::columns(w, d, shape, (i + shape.m as usize * group) as u32);
            for number in 0..own {
                let k = group * own + number;
                let n = (i / 16 * SIXTEEN + k) % VECTORS;
                let term = &mut bench.terms[k % TERMS];
                L::store(&mut term.value, L::splat(bench.a.value[n].0[i % 16]));
                L::store(&mut term.power, L::splat(bench.a.power[n][i / 4 % 4] >> (i % 4 * 8) & 0xff));
                term.column = k / 2 * 4 + (columns >> (number * 2) & 3) as usize;
            }
        }
        for columns in 0..shape.n as usize / 16 {
            let (register, lane) = shape.sum_place(0, i as u32, 16 * columns as u32);
            let (register, sixteen) = (register as usize, lane as usize / 16);
            let place = slow::Sixteen { block: 0, register, sixteen };
            let result = &mut bench.results[register % REGISTERS][sixteen % 4];
            if !(kept_a && kept_b) {
                *result = slow::lanes(w, d, shape, place);
                continue;
            }
            let c = sum_lanes::<L>(w, d, shape.sparse, register, sixteen);
            let sums = sum::line::<L, RULE>(&bench.terms[..count], &bench.b, c);
            L::store(result, sums.value[0]);
            if sums.again[0] != 0 {
                slow::again(w, d, shape, place, sums.again[0], &mut result.0);
            }
            for term in &mut bench.terms[..count] {
                term.column += SIXTEEN;
            }
        }
    }
    bench.write(w, d, shape.registers()[2] as usize);
}

/// Executes the instruction as a [single block](block::done), if it is one; returns true if it did.
#[inline(always)]
fn is_block<L: Lanes>(w: &mut Wave, d: &Di, shape: &Shape) -> bool {
    match (shape.a, shape.n) {
        (Element::Half, 16) => block::done::<L, false, 1, 16>(w, d, shape),
        (Element::Half, _) => block::done::<L, false, 2, 64>(w, d, shape),
        (_, 16) => block::done::<L, true, 1, 16>(w, d, shape),
        _ => block::done::<L, true, 2, 64>(w, d, shape),
    }
}

#[inline(always)]
fn run<L: Lanes, const RULE: u8>(w: &mut Wave, d: &Di) -> Flow {
    let shape = shape(d);
    debug_assert!(group_of(RULE) <= shape.kept() as usize);
    match (shape.sparse, shape.n) {
        (true, _) if RULE != rule::CHAIN && RULE != rule::FOURS => sparse::<L, RULE>(w, d, shape),
        (_, 4) => tiny::<L, RULE>(w, d, shape),
        _ if RULE == rule::EIGHTS && L::ROUNDS && is_block::<L>(w, d, shape) => {}
        _ => dense::<L, RULE>(w, d, shape),
    }
    Flow::NEXT
}

per_backend! {
    /// Handler of all instructions with a rule but those of doubles; `aux` is the shape's number, `imm` a [`Control`].
    matrix [const RULE: u8] [RULE] |w, _m, d, L| run::<L, RULE>(w, d)
}

per_backend! {
    /// Handler of the instructions with doubles.
    doubles [] [] |w, _m, d, L| slow::doubles::<L>(w, d, shape(d))
}
