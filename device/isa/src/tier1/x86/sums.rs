//! Fused sums whose product is invalid.
//!
//! Of infinity times zero a card makes the NaN of an invalid operation, and the number that is added has no effect. The processor's instruction gives a NaN that
//! is added. So the product is looked at, unless its factors say that it cannot be invalid.
//!
//! Runs add most of their products to rows that they do nothing else to. A NaN stays in such a row: if there is none in the end, there
//! never was one. So the row is looked at once, behind the run. If it has a NaN, the run is gone through once more, and puts the
//! product in its place wherever that is a NaN: from the last such product on nothing but the NaN that it made has been there.
//!
//! With AVX-512 other rows are looked at behind the element, while its factors are there, and corrected beside the usual way.

use super::asm::{Assembler, K0, Label, Mask, Operand, Zmm};
use super::avx512::masks::UNORDERED;
use super::avx512::rows::Pair;
use super::body::{Body, Cold, SCRATCH, SIGN};
use super::encoding::*;
use crate::exec::di::{Di, Kind, Source};
use crate::exec::form::Form;
use crate::inst::Op;
use crate::tier1::analysis::runs::mask_of;
use crate::tier1::analysis::template::{self, Template};

const INFINITY: u32 = 0x7f80_0000;
/// The NaN of an invalid operation.
const INVALID: u32 = 0xffc0_0000;
/// Predicate of `vcmpps`.
pub(crate) const ORDERED: u8 = 7;

/// Rows that fused sums of a run go to, and nothing else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// The first row of each register.
    pub(crate) rows: Vec<u32>,
    /// True while the run is gone through once more.
    pub(crate) again: bool,
}

/// Way in which a fused sum is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the processor's instruction alone.
    Plain,
    /// The product is looked at.
    Exact,
    /// The sum is there already; a product that is a NaN takes its place.
    Product,
}

impl Sums {
    /// The way in which the fused sum of these operands is done.
    pub(crate) fn way(&self, d: &Di) -> Way {
        match (self.rows.contains(&d.dst), self.again) {
            (true, true) => Way::Product,
            (true, false) => Way::Plain,
            (false, _) if may_be_invalid(&d.src) => Way::Exact,
            (false, _) => Way::Plain,
        }
    }
}

fn constant(source: &Source) -> Option<u32> {
    matches!(source.kind, Kind::Constant | Kind::Signed).then_some(source.value)
}

/// Returns true if the product of singles may be invalid while a NaN is added that an invalid product does not make.
fn may_be_invalid([x, y, z]: &[Source; 3]) -> bool {
    let special = |bits: u32| matches!(bits & !SIGN, 0 | INFINITY);
    let never = |source: &Source| constant(source).is_some_and(|bits| !special(bits));
    let is_same = x.kind == y.kind && x.value == y.value;
    let adds_number = constant(z).is_some_and(|bits| bits & !SIGN <= INFINITY);
    !(never(x) || never(y) || is_same || adds_number)
}

fn reads(source: &Source, row: u32) -> bool {
    source.kind == Kind::Vector && source.value == row
}

/// The fused sums in an element that add to their own row, and read it as nothing else.
fn own(form: Form, d: &Di) -> Vec<Di> {
    match form {
        Form::Vector(op) if template::vector(op, d) == Some(Template::Fused) => {
            let [x, y, z] = &d.src;
            let own = z.is_plain_vector() && z.value == d.dst && !reads(x, d.dst) && !reads(y, d.dst);
            if own { vec![*d] } else { Vec::new() }
        }
        Form::Pair(x, y) => {
            let factors = |row: u32| {
                reads(&d.src[0], row) || reads(&d.src[1], row) || d.src[2].value == row || d.imm == row
            };
            let both = template::pair(d);
            let fused = |op: Op, d: &Di| template::vector(op, d) == Some(Template::Fused) && !factors(d.dst);
            [x, y].into_iter().zip(both).filter(|(op, d)| fused(*op, d)).map(|(_, d)| d).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if an element may read what it writes without naming it among its sources.
fn keeps(form: Form, d: &Di) -> bool {
    let is_fused = |op: Op| op == Op::V_FMAC_F32;
    match form {
        Form::Vector(_) | Form::Saturating(_) => template::keeps(form, d),
        Form::Pair(x, y) => is_fused(x) || is_fused(y),
        Form::Select | Form::LdsLoad(_) | Form::LdsLoadTwo(_) => false,
        _ => true,
    }
}

/// The sums of a run that are looked at behind it, if any: those whose row nothing else touches, where the run can be gone through once
/// more because it leaves what it begins with.
pub(crate) fn of_run<'a>(elements: impl Iterator<Item = (Form, &'a Di)> + Clone, halves: u32) -> Sums {
    let mut rows = Vec::new();
    for (form, d) in elements.clone() {
        rows.extend(own(form, d).iter().filter(|d| may_be_invalid(&d.src)).map(|d| d.dst));
    }
    if rows.is_empty() {
        return Sums::default();
    }
    for (form, d) in elements.clone() {
        let own: Vec<u32> = own(form, d).iter().map(|d| d.dst).collect();
        let touched = template::rows(form, d, halves);
        rows.retain(|row| own.contains(row) || !touched.contains(row));
    }
    rows.sort_unstable();
    rows.dedup();
    let is_sum = |row: &u32| rows.binary_search(&(row - row % halves)).is_ok();
    let (mut begun_with, mut written) = (Vec::new(), Vec::new());
    for (form, d) in elements {
        let writes = template::written(form, d, halves);
        let all = template::rows(form, d, halves);
        let reads = if keeps(form, d) { &all[..] } else { &all[..all.len() - writes.len()] };
        begun_with.extend(reads.iter().copied().filter(|row| !is_sum(row) && !written.contains(row)));
        if mask_of(form, d).is_some() || writes.iter().any(|row| begun_with.contains(row)) {
            return Sums::default();
        }
        written.extend(writes);
    }
    Sums { rows, again: false }
}

/// A product of sixteen lanes that has been added to something, and the register with the sum.
pub(crate) struct Product {
    to: Zmm,
    a: Operand,
    b: Operand,
    mask: Mask,
}

/// Puts the NaN of an invalid operation where products of numbers are none.
pub(crate) fn correct(a: &mut Assembler, products: &[Product], back: Label) {
    let (t0, t1, [_, invalid]) = (Zmm(0), Zmm(1), SCRATCH);
    for product in products {
        let factor = match product.a {
            Operand::Register(factor) => factor,
            factor => {
                a.evex(VPBROADCASTD, t0, Zmm(0), factor);
                t0
            }
        };
        a.evex(VMULPS, t1, factor, product.b);
        a.compare(VCMPPS.by(UNORDERED), invalid, t1, t1, product.mask);
        a.compare(VCMPPS.by(ORDERED), invalid, factor, product.b, invalid);
        a.masked(VPBROADCASTD, product.to, Zmm(0), Operand::Constant(INVALID), invalid);
    }
    a.jump(back);
}

impl Body<'_> {
    /// `a * b + c` of rows. Where the row of the sum is none of a factor's, it is looked at rather than the product.
    pub(crate) fn fused_row(&mut self, d: &Di, half: u32) {
        self.load_sources(d, 3, half);
        let row = self.define(d.dst + half);
        let way = self.sums.way(d);
        let looks =
            way == Way::Exact && self.chunks().len() == 2 && d.src[..2].iter().all(|s| !reads(s, d.dst));
        for chunk in self.chunks() {
            let mask = self.exec(half, chunk);
            let way = if looks { Way::Plain } else { way };
            self.fused(d, (half, chunk), (row.chunk(chunk), mask), way);
        }
        if looks {
            self.look_at(&[(row, d)], half);
        }
    }

    /// Both sums of a pair, if it has two, whose rows are none of their factors'. Returns false if it has not.
    pub(crate) fn fused_pair(&mut self, both: [&Di; 2], [x, y]: [Pair; 2]) -> bool {
        let ways = both.map(|d| self.sums.way(d));
        let all = || both.iter().flat_map(|d| &d.src[..2]);
        let looks = ways.contains(&Way::Exact)
            && !ways.contains(&Way::Product)
            && self.chunks().len() == 2
            && !both.iter().any(|d| all().any(|source| reads(source, d.dst)));
        if looks {
            for chunk in self.chunks() {
                let mask = self.exec(0, chunk);
                for (d, row) in both.into_iter().zip([x, y]) {
                    self.fused_to(d, (0, chunk), (row.chunk(chunk), mask), Way::Plain);
                }
            }
            let exact = |n: usize| ways[n] == Way::Exact;
            let rows = [(x, both[0]), (y, both[1])];
            match [exact(0), exact(1)] {
                [true, true] => self.look_at(&rows, 0),
                [first, _] => self.look_at(&rows[usize::from(!first)..][..1], 0),
            }
        }
        looks
    }

    /// Looks at one sum or two, and corrects them beside the usual way where one is a NaN.
    fn look_at(&mut self, sums: &[(Pair, &Di)], half: u32) {
        let [k, l] = SCRATCH;
        let (first, last) = (sums[0].0, sums[sums.len() - 1].0);
        let cold = if sums.len() == 1 && !self.masked {
            self.a.compare(VCMPPS.by(UNORDERED), k, first.chunk(0), first.chunk(1), K0);
            self.leave_if_any(k, k)
        } else {
            for (chunk, to) in [(0, k), (1, l)] {
                let mask = self.exec(half, chunk);
                self.a.compare(VCMPPS.by(UNORDERED), to, first.chunk(chunk), last.chunk(chunk), mask);
            }
            self.leave_if_any(k, l)
        };
        let mut products = Vec::new();
        for (row, d) in sums {
            for chunk in self.chunks() {
                // As they are: their signs have no effect.
                let [a, b] = [0, 1].map(|n| self.operand(&d.src[n], false, half, chunk, Zmm(0)));
                products.push(Product { to: row.chunk(chunk), a, b, mask: self.exec(half, chunk) });
            }
        }
        self.come_back(Cold { products, ..cold });
    }

    /// `a * b + c` of sixteen lanes.
    fn fused(&mut self, d: &Di, lanes: (u32, u8), (to, mask): (Zmm, Mask), way: Way) {
        let (t0, t1, t2, t3) = (Zmm(0), Zmm(1), Zmm(2), Zmm(3));
        let [x, y, z] = &d.src;
        if z.is_plain_vector() && z.value == d.dst {
            return self.fused_to(d, lanes, (to, mask), way);
        }
        let (half, chunk) = lanes;
        let a = self.register(x, true, half, chunk, t0);
        let c = self.register(z, true, half, chunk, t2);
        let b = self.operand(y, true, half, chunk, t1);
        let invalid = (way == Way::Exact).then(|| self.factors(t3, (a, b), mask));
        // In place where that destroys no source, or where the source is the destination.
        let in_place = mask == K0 && c != to && b != Operand::Register(to);
        let at = if in_place || (mask == K0 && a == to) { to } else { t0 };
        self.put(at, a, K0);
        // The form of the instruction decides which NaN comes first: `a`, `b`, then `c` in each of these.
        self.a.evex(VFMADD132PS, at, c, b);
        self.put(to, at, mask);
        if let Some(invalid) = invalid {
            self.put(to, t3, invalid);
        }
    }

    /// A product that is added to a register, which has what is added; temporary 3 may be that.
    pub(crate) fn fused_to(&mut self, d: &Di, (half, chunk): (u32, u8), (to, mask): (Zmm, Mask), way: Way) {
        let (t0, t1, t2) = (Zmm(0), Zmm(1), Zmm(2));
        let a = self.register(&d.src[0], true, half, chunk, t0);
        let b = self.operand(&d.src[1], true, half, chunk, t1);
        let invalid = (way != Way::Plain).then(|| self.factors(t2, (a, b), mask));
        if way != Way::Product {
            self.a.masked(VFMADD231PS, to, a, b, mask);
        }
        if let Some(invalid) = invalid {
            self.put(to, t2, invalid);
        }
    }

    /// Puts a product into a register; returns the mask of those lanes where it is a NaN.
    fn factors(&mut self, to: Zmm, (a, b): (Zmm, Operand), mask: Mask) -> Mask {
        let [_, invalid] = SCRATCH;
        self.a.evex(VMULPS, to, a, b);
        self.a.compare(VCMPPS.by(UNORDERED), invalid, to, to, mask);
        invalid
    }
}
