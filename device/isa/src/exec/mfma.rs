//! Matrix instructions of CDNA3 (`v_mfma_*`, `v_smfmac_*`): D = A × B + C in one block or several.
//!
//! All lanes take part, whatever EXEC is, and `MODE` has no say: denormal numbers are kept, sums are rounded to nearest even.
//! Where elements are: [`shape`]. Singles and doubles are added by fused multiply-adds in the order of k, others as
//! [`fused`] has it; `v_smfmac_*` adds the elements of A that are there in their order, as many at a time as if the others did not exist.
//!
//! All sources are read before D is written. `CBSZ` and `ABID` let blocks share one of A's; of instructions with one block they
//! mean nothing. `BLGP` is a pattern of B's lanes for all but doubles, of which it negates sources.

mod convert;
mod fused;
mod shape;
mod slow;
mod sum;
#[cfg(test)]
mod tests;

pub(crate) use shape::{Shape, named};

use super::di::{Di, Flow, Handler, Kind};
use super::op::per_backend;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::{Chunk, Wave};
use convert::{Block, Matrix};
use shape::{Element, Rule, SHAPES, source_lanes};
use sum::{Quad, Term, group_of, rule};

/// What `imm` of a lowered instruction has.
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
    /// What executes it.
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
fn sum_lanes<L: Lanes>(w: &Wave, d: &Di, shape: &Shape, register: usize, sixteen: usize) -> L::V {
    let base = match (shape.sparse, d.src[2].kind) {
        (true, _) => d.dst,
        (false, Kind::Vector) => d.src[2].value,
        (false, _) => return L::splat(d.src[2].scalar(w)),
    };
    L::load(&w.v.row(base + (register * 2 + sixteen / 2) as u32)[sixteen & 1])
}

/// D before it is written: four sixteens of lanes of each register.
struct Results<const N: usize>([[Chunk; 4]; N]);

impl<const N: usize> Results<N> {
    #[inline(always)]
    fn write(&self, w: &mut Wave, d: &Di, registers: usize) {
        for register in 0..registers.min(N) {
            for half in 0..2 {
                let [first, second] = [self.0[register][half * 2], self.0[register][half * 2 + 1]];
                *w.v.row_mut(d.dst + (register * 2 + half) as u32) = [first, second];
            }
        }
    }
}

/// Dense blocks of 16 or 32 rows and columns.
#[inline(always)]
fn dense<L: Lanes, const RULE: u8, const N: usize, const R: usize>(w: &mut Wave, d: &Di, shape: &Shape) {
    let control = Control::of(d);
    let mut results = Results::<R>([[Chunk([0; 16]); 4]; R]);
    let (mut a, mut b) = (Matrix::<N>::ZERO, Matrix::<N>::ZERO);
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
        let kept_a = read_as::<L, RULE, N>(w, shape.a, &left, true, &mut a);
        let kept_b = read_as::<L, RULE, N>(w, shape.b, &right, false, &mut b);
        let strides = [shape.m as usize / 16, shape.n as usize / 16];
        for rows in 0..shape.m as usize / 4 {
            let first = rows / across * 4 + block as usize * shape.m as usize / across;
            for columns in 0..strides[1] {
                let sixteen = rows % across * strides[1] + columns;
                if !(kept_a && kept_b) {
                    for r in 0..4 {
                        let place = slow::Sixteen { block, register: first + r, sixteen };
                        results.0[(first + r) % R][sixteen] = slow::lanes(w, d, shape, place);
                    }
                    continue;
                }
                let mut c = [L::splat(0); 4];
                for r in 0..4 {
                    c[r] = sum_lanes::<L>(w, d, shape, first + r, sixteen);
                }
                let at = Quad { rows, columns, strides, count: shape.k as usize };
                let sums = sum::quad::<L, RULE, N>(&a, &b, at, c);
                for r in 0..4 {
                    let result = &mut results.0[(first + r) % R][sixteen];
                    L::store(result, sums.value[r]);
                    if sums.again[r] != 0 {
                        let place = slow::Sixteen { block, register: first + r, sixteen };
                        slow::again(w, d, shape, place, sums.again[r], &mut result.0);
                    }
                }
            }
        }
    }
    results.write(w, d, shape.registers()[2] as usize);
}

/// [`convert::read`] for the elements that a rule can have; whether all of them have powers.
#[inline(always)]
fn read_as<L: Lanes, const RULE: u8, const N: usize>(
    w: &Wave,
    element: Element,
    at: &Block,
    is_left: bool,
    into: &mut Matrix<N>,
) -> bool {
    use Element::{Bf8, Brain, Byte, Fp8, Half, Single, Xf32};
    match (RULE, element) {
        (rule::CHAIN, _) => {
            convert::read::<L, N>(w, Single, at, is_left, into);
            true
        }
        (rule::INTEGERS, _) => {
            convert::read::<L, N>(w, Byte, at, is_left, into);
            true
        }
        (rule::HALVES, Fp8) => convert::read::<L, N>(w, Fp8, at, is_left, into).is_kept(Fp8),
        (rule::HALVES, _) => convert::read::<L, N>(w, Bf8, at, is_left, into).is_kept(Bf8),
        (rule::FOURS, Xf32) => convert::read::<L, N>(w, Xf32, at, is_left, into).is_kept(Xf32),
        (_, Half) => convert::read::<L, N>(w, Half, at, is_left, into).is_kept(Half),
        _ => convert::read::<L, N>(w, Brain, at, is_left, into).is_kept(Brain),
    }
}

/// Blocks of four rows and columns: four blocks are in sixteen lanes.
#[inline(always)]
fn tiny<L: Lanes, const RULE: u8>(w: &mut Wave, d: &Di, shape: &Shape) {
    let control = Control::of(d);
    let mut results = Results::<4>([[Chunk([0; 16]); 4]; 4]);
    let count = (shape.k as usize).min(4);
    let per = 32 / shape.b.bits();
    for sixteen in 0..4 {
        let mut b = Matrix::<4>::ZERO;
        let mut range = convert::Range::<L>::new();
        let source = source_lanes(control.blgp, sixteen);
        for k in 0..count {
            let (register, sub) = (k as u32 / per, k as u32 % per);
            let word = L::load(&w.v.row(d.src[1].value + register * 2 + source / 2)[(source & 1) as usize]);
            let value = convert::convert::<L>(shape.b, word, sub);
            L::store(&mut b.value[k], value);
            L::store(&mut b.power[k], convert::powers::<L>(shape.b, value, &mut range));
        }
        for r in 0..4 {
            let mut terms = [Term::ZERO; 4];
            for (k, term) in (0u32..).zip(&mut terms[..count]) {
                let mut words = Chunk([0; 16]);
                for (t, word) in (0u32..).zip(&mut words.0) {
                    let block = shape.source_block(sixteen * 4 + t / 4, control.cbsz, control.abid);
                    let lane = block * 4 + r;
                    *word = w.v.lane(d.src[0].value + k / per * 2 + lane / 32, lane & 31);
                }
                let value = convert::convert::<L>(shape.a, L::load(&words), k % per);
                L::store(&mut term.value, value);
                L::store(&mut term.power, convert::powers::<L>(shape.a, value, &mut range));
                term.column = k as usize;
            }
            let register = r as usize;
            let place = slow::Sixteen { block: sixteen * 4, register, sixteen: sixteen as usize };
            let result = &mut results.0[register][sixteen as usize];
            if !matches!(RULE, rule::CHAIN | rule::INTEGERS) && !range.is_kept(shape.a) {
                *result = slow::lanes(w, d, shape, place);
                continue;
            }
            let c = sum_lanes::<L>(w, d, shape, register, sixteen as usize);
            let sums = sum::line::<L, RULE, 4>(&terms[..count], &b, c);
            L::store(result, sums.value[0]);
            if sums.again[0] != 0 {
                slow::again(w, d, shape, place, sums.again[0], &mut result.0);
            }
        }
    }
    results.write(w, d, 4);
}

/// One block, of which A has two of each four elements.
#[inline(always)]
fn sparse<L: Lanes, const RULE: u8>(w: &mut Wave, d: &Di, shape: &Shape) {
    let mut results = Results::<16>([[Chunk([0; 16]); 4]; 16]);
    let (mut a, mut b) = (Matrix::<32>::ZERO, Matrix::<64>::ZERO);
    let left =
        Block { base: d.src[0].value, lines: shape.m, count: shape.kept(), block: 0, blocks: 1, pattern: 0 };
    let right = Block { base: d.src[1].value, lines: shape.n, count: shape.k, ..left };
    let kept_a = read_as::<L, RULE, 32>(w, shape.a, &left, false, &mut a);
    let kept_b = read_as::<L, RULE, 64>(w, shape.b, &right, false, &mut b);
    let strides = [shape.m as usize / 16, shape.n as usize / 16];
    for i in 0..shape.m {
        let mut terms = [Term::ZERO; 32];
        let count = shape.kept() as usize % 33;
        for (k, term) in terms[..count].iter_mut().enumerate() {
            let n = k * strides[0] + i as usize / 16;
            term.value = Chunk([a.value[n % 32].0[i as usize % 16]; 16]);
            term.power = Chunk([a.power[n % 32].0[i as usize % 16]; 16]);
            term.column = slow::column(w, d, shape, i, k as u32) as usize * strides[1];
        }
        for columns in 0..strides[1] {
            let (register, lane) = shape.sum_place(0, i, 16 * columns as u32);
            let (register, sixteen) = (register as usize, lane as usize / 16);
            let place = slow::Sixteen { block: 0, register, sixteen };
            let result = &mut results.0[register % 16][sixteen % 4];
            if !(kept_a && kept_b) {
                *result = slow::lanes(w, d, shape, place);
                continue;
            }
            let c = sum_lanes::<L>(w, d, shape, register, sixteen);
            let sums = sum::line::<L, RULE, 64>(&terms[..count], &b, c);
            L::store(result, sums.value[0]);
            if sums.again[0] != 0 {
                slow::again(w, d, shape, place, sums.again[0], &mut result.0);
            }
            for term in &mut terms[..count] {
                term.column += 1;
            }
        }
    }
    results.write(w, d, shape.registers()[2] as usize);
}

#[inline(always)]
fn run<L: Lanes, const RULE: u8>(w: &mut Wave, d: &Di) -> Flow {
    let shape = shape(d);
    debug_assert!(group_of(RULE) <= shape.kept() as usize);
    match (shape.sparse, shape.n, shape.registers()[2]) {
        (true, ..) if RULE != rule::CHAIN && RULE != rule::FOURS => sparse::<L, RULE>(w, d, shape),
        (false, 4, _) => tiny::<L, RULE>(w, d, shape),
        (_, _, 4) if shape.k <= 16 => dense::<L, RULE, 16, 4>(w, d, shape),
        (_, _, 4) => dense::<L, RULE, 32, 4>(w, d, shape),
        (_, _, 16) if shape.k <= 8 => dense::<L, RULE, 16, 16>(w, d, shape),
        _ => dense::<L, RULE, 32, 32>(w, d, shape),
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
