//! Runs of elements, and loops of one block, that are done for sixteen lanes after the others, with AVX-512.
//!
//! Sixteen lanes of a row are one register: twice as many rows of a wave of 32 lanes are in registers so, and four times as many of
//! one of 64. That pays where a block uses more rows than fit whole. In between everything is in memory.

use core::mem::offset_of;

use super::asm::{Assembler, At, Condition, Gpr, Integer, K0, Label, Mask, Operand, Zmm};
use super::body::{Body, SCRATCH, WAVE};
use super::elements::apart;
use super::encoding::*;
use super::form::{Form, When};
use super::lds::HAS_LOADED;
use super::masks::{DIFFERENT, GREATER};
use super::rows::{Pair, Rows, SIXTEENS, in_memory};
use super::runs::{self, Loop, Run};
use super::template::{self, Template};
use crate::exec::di::{Di, Kind};
use crate::exec::properties::Moves;
use crate::inst::Op;
use crate::wave::Wave;

/// Fewest elements of a run that is worth it, and of one that loads from LDS, which is looked at beforehand.
const WORTH: usize = 4;
const WORTH_WITH_LOADS: usize = 8;

/// Bytes of LDS, while a run goes on.
const SIZE: Gpr = Gpr::R11;

/// Whether an element is one of those that are done for some lanes after the others: it has no way to its handler.
fn is_of_lanes(form: Form, d: &Di) -> bool {
    match form {
        Form::Vector(op) => template::vector(op, d)
            .is_some_and(|template| !matches!(template, Template::Extreme(..) | Template::Curve(_))),
        form => form.is_arithmetic(),
    }
}

/// The dwords of each element that a load from LDS has, and where from its address on they are.
fn load(form: Form, d: &Di) -> Option<(u32, Vec<u32>)> {
    match form {
        Form::LdsLoad(Moves::Dwords(dwords @ (1 | 2 | 4))) => Some((dwords, vec![d.imm])),
        Form::LdsLoadTwo(dwords @ (1 | 2)) => Some((dwords, vec![d.imm, d.dst2])),
        _ => None,
    }
}

/// What is known of addresses within a run: a row and a constant that is added to it, where the row is as it was before the run.
#[derive(Default)]
struct Addresses {
    written: Vec<u32>,
    sums: Vec<(u32, (u32, u32))>,
}

impl Addresses {
    fn of(&self, row: u32) -> Option<(u32, u32)> {
        let sum = self.sums.iter().find(|(sum, _)| *sum == row).map(|&(_, of)| of);
        sum.or_else(|| (!self.written.contains(&row)).then_some((row, 0)))
    }

    /// Takes note of what an element writes.
    fn note(&mut self, form: Form, d: &Di, halves: u32) {
        let [a, b, _] = &d.src;
        let sum = match (form, a.kind, b.kind) {
            (Form::Vector(Op::V_ADD_NC_U32), Kind::Constant, Kind::Vector) => {
                self.of(b.value).and_then(|(row, more)| Some((row, more.checked_add(a.value)?)))
            }
            _ => None,
        };
        let rows = template::written(form, d, halves);
        self.sums.retain(|(row, _)| !rows.contains(row));
        self.written.extend(rows);
        self.sums.extend(sum.map(|of| (d.dst, of)));
    }

    /// The row that a load from LDS has its addresses from, and the bytes that its elements end behind them.
    fn end(&self, form: Form, d: &Di) -> Option<(u32, u32)> {
        let (dwords, offsets) = load(form, d)?;
        let (row, more) = self.of(d.src[0].value)?;
        Some((row, offsets.into_iter().max()?.checked_add(dwords * 4)?.checked_add(more)?))
    }
}

/// The run from an element on, if one begins there that is worth it. Loads from LDS are in it if it is known beforehand where from.
pub(super) fn run_of(elements: &[(Form, &Di)], halves: u32, masked: bool) -> Option<Run> {
    for with_loads in [true, false] {
        let mut addresses = Addresses::default();
        let mut loads = 0;
        let run = runs::run_of(elements, halves, |form, d| {
            let loaded = with_loads && !masked && addresses.end(form, d).is_some();
            let taken = loaded || is_of_lanes(form, d);
            if taken {
                addresses.note(form, d, halves);
                loads += usize::from(loaded);
            }
            taken
        });
        let worth = if loads > 0 { WORTH_WITH_LOADS } else { WORTH };
        if let Some(run) = run.filter(|run| run.lanes.len() >= worth) {
            return Some(run);
        }
    }
    None
}

/// A loop of one block, all of whose rows fit into registers by sixteens; `touched` are the rows of its elements.
pub(super) fn loop_of(
    elements: &[(Form, &Di)],
    when: When,
    halves: u32,
    touched: &[Vec<u32>],
) -> Option<(Loop, Vec<u32>)> {
    let mut rows: Vec<u32> =
        touched.iter().flatten().copied().filter(|row| row.is_multiple_of(halves)).collect();
    rows.sort_unstable();
    rows.dedup();
    if rows.len() > SIXTEENS {
        return None;
    }
    Some((runs::loop_of(elements, when, halves, is_of_lanes)?, rows))
}

/// What a loop counts and where it goes.
pub(super) struct Counts {
    /// Instructions of a round.
    pub(super) round: u32,
    pub(super) executed: Gpr,
    pub(super) limit: Gpr,
}

impl Body<'_> {
    /// The elements of a run, which are the first of `elements`; instructions of all but the first one are still to be counted.
    pub(super) fn run_by_sixteens(&mut self, run: &Run, elements: &[(Form, &Di)]) {
        self.rows.flush(self.a);
        let start = self.at;
        let elements = &elements[..run.elements];
        let slow = self.look_at_loads(elements);
        for &at in &run.scalars {
            self.straight(elements[at].0, elements[at].1);
        }
        for (half, chunk) in self.sixteens() {
            self.begin_sixteen((half, chunk));
            for &at in &run.lanes {
                self.of_sixteen(start + at, elements[at]);
            }
            self.rows.flush(self.a);
        }
        self.end_sixteens(start);
        let Some(slow) = slow else { return };
        let done = self.a.label();
        self.a.jump(done);
        self.a.bind(slow);
        let uncounted = self.uncounted;
        for (n, &(form, d)) in elements.iter().enumerate() {
            self.at = start + n;
            self.uncounted += if n > 0 { u32::from(d.count) } else { 0 };
            self.rows.unlock();
            self.straight(form, d);
        }
        self.rows.flush(self.a);
        self.at = start;
        self.uncounted = uncounted;
        self.a.bind(done);
    }

    fn begin_sixteen(&mut self, lanes: (u32, u8)) {
        self.only = Some(lanes);
        self.rows = Rows::of_sixteen(lanes.1);
    }

    fn end_sixteens(&mut self, at: usize) {
        self.only = None;
        self.rows = Rows::default();
        self.at = at;
    }

    fn of_sixteen(&mut self, at: usize, (form, d): (Form, &Di)) {
        self.at = at;
        self.rows.unlock();
        match load(form, d) {
            Some((dwords, offsets)) => self.load_by_sixteens(dwords, d, &offsets),
            None => self.straight(form, d),
        }
    }

    /// A loop whose elements are those of the block but for its branch: all rounds for each sixteen. `unless` jumps where the branch is
    /// not taken; ends with a jump to a label if instructions were used up, and otherwise goes on.
    pub(super) fn rounds_by_sixteens(
        &mut self,
        (of, rows): &(Loop, Vec<u32>),
        elements: &[(Form, &Di)],
        counts: &Counts,
        (unless, used_up): (impl Fn(&mut Assembler, Label), Label),
    ) {
        runs::keep(self.a, &of.written, counts.executed);
        let first = self.at;
        let sixteens: Vec<_> = self.sixteens().collect();
        for (n, &(half, chunk)) in sixteens.iter().enumerate() {
            if n > 0 {
                runs::set_back(self.a, &of.written, counts.executed);
            }
            self.begin_sixteen((half, chunk));
            let held: Vec<u32> = rows.iter().map(|row| row + half).collect();
            self.rows.hold(self.a, &held);
            let (next_round, last_round) = (self.a.label(), self.a.label());
            self.a.bind(next_round);
            for (at, &element) in elements.iter().enumerate() {
                self.of_sixteen(first + at, element);
            }
            if counts.round > 0 {
                self.a.immediate(Integer::Add, true, counts.executed, counts.round);
            }
            unless(self.a, last_round);
            self.a.integer(Integer::Cmp, true, counts.executed, counts.limit);
            self.a.jump_if(Condition::Below, next_round);
            // All sixteens have as many rounds: the last one goes where all do.
            if n + 1 == sixteens.len() {
                self.rows.write_back(self.a);
                self.a.jump(used_up);
            }
            self.a.bind(last_round);
            self.rows.write_back(self.a);
        }
        self.end_sixteens(first);
    }

    /// Looks whether everything is in range that elements load from LDS, of which `R9` is the address then; there is another way if it
    /// is not.
    fn look_at_loads(&mut self, elements: &[(Form, &Di)]) -> Option<Label> {
        let mut addresses = Addresses::default();
        let mut ends: Vec<(u32, u32)> = Vec::new();
        for &(form, d) in elements {
            if let Some((row, end)) = addresses.end(form, d) {
                match ends.iter_mut().find(|(known, _)| *known == row) {
                    Some((_, known)) => *known = end.max(*known),
                    None => ends.push((row, end)),
                }
            }
            addresses.note(form, d, self.halves);
        }
        if ends.is_empty() {
            return None;
        }
        let slow = self.a.label();
        self.lds_storage(SIZE);
        // The highest address of those that have as much behind them decides.
        ends.sort_by_key(|&(_, end)| end);
        for rows in ends.chunk_by(|a, b| a.1 == b.1) {
            let (highest, limit, end) = (Zmm(0), Zmm(1), rows[0].1);
            let sixteens: Vec<_> = self.sixteens().collect();
            let all =
                rows.iter().flat_map(|(row, _)| sixteens.iter().map(move |lanes| (row + lanes.0, lanes.1)));
            for (n, (row, chunk)) in all.enumerate() {
                let address = Operand::Memory(in_memory(row, chunk));
                if n == 0 {
                    self.a.evex(VMOVUPS_LOAD, highest, Zmm(0), address);
                } else {
                    self.a.evex(VPMAXUD, highest, highest, address);
                }
            }
            self.a.integer(Integer::Mov, false, Gpr::R10, SIZE);
            self.a.immediate(Integer::Sub, false, Gpr::R10, end);
            self.a.jump_if(Condition::Below, slow);
            self.a.everywhere(limit, Gpr::R10);
            let [beyond, _] = SCRATCH;
            self.a.compare(VPCMPUD.by(GREATER), beyond, highest, limit, K0);
            self.a.mask(KORTESTW, beyond, Mask(0), beyond);
            self.a.jump_if(Condition::NotEqual, slow);
        }
        self.a.byte_immediate(1, At(WAVE, offset_of!(Wave, lds_order) as i32), HAS_LOADED);
        Some(slow)
    }

    /// Sixteen lanes of a load from LDS that is in range: elements that follow each other, the same one, the first pairs of fours, or
    /// any.
    fn load_by_sixteens(&mut self, dwords: u32, d: &Di, offsets: &[u32]) {
        let Some((half, chunk)) = self.only else { unreachable!("sixteen lanes are at hand") };
        let mut address = self.load_row(d.src[0].value + half).chunk(chunk);
        let all = dwords * offsets.len() as u32;
        let to: Vec<Pair> =
            (0..all).map(|register| self.define(d.dst + register * self.halves + half)).collect();
        if to.iter().any(|to| to.chunk(chunk) == address) {
            self.put(Zmm(3), address, K0);
            address = Zmm(3);
        }
        let parts: Vec<(u32, &[Pair])> = offsets.iter().copied().zip(to.chunks(dwords as usize)).collect();
        let (distance, place) = (Gpr::Rcx, Gpr::Rdx);
        self.a.first_two_lanes(Gpr::Rax, address);
        self.a.integer(Integer::Mov, true, distance, Gpr::Rax);
        self.a.shift_by(5, true, distance, 32);
        self.a.integer(Integer::Sub, false, distance, Gpr::Rax);
        self.a.integer(Integer::Mov, false, Gpr::Rax, Gpr::Rax);
        self.a.integer(Integer::Add, true, Gpr::Rax, Gpr::R9);
        let (any, done) = (self.a.label(), self.a.label());
        let bytes = dwords * 4;
        let fours = if dwords == 2 { Some(16) } else { None };
        for step in [Some(bytes), Some(0), fours].into_iter().flatten() {
            let others = self.a.label();
            self.a.immediate(Integer::Cmp, false, distance, step);
            self.a.jump_if(Condition::NotEqual, others);
            self.leave_unless_steps(address, step, any);
            for &(offset, to) in &parts {
                self.a.address(place, At(Gpr::Rax, offset as i32));
                if step == 0 {
                    self.load_same(place, to, chunk);
                } else if step == bytes {
                    self.load_sixteen(place, 0, chunk, to);
                } else if let [first, second] = *to {
                    // Whole fours are read.
                    self.a.address(Gpr::Rcx, At(place, 256));
                    self.a.integer(Integer::Sub, true, Gpr::Rcx, Gpr::R9);
                    self.a.integer(Integer::Cmp, true, Gpr::Rcx, SIZE);
                    self.a.jump_if(Condition::Above, any);
                    self.load_pairs_of_fours(place, [first, second], chunk);
                }
            }
            self.a.jump(done);
            self.a.bind(others);
        }
        self.a.bind(any);
        for &(offset, to) in &parts {
            self.gather_sixteen((Gpr::R9, offset, address), Moves::Dwords(dwords), to, (half, chunk));
        }
        self.a.bind(done);
    }

    /// Leaves unless sixteen addresses are so many bytes from each other.
    fn leave_unless_steps(&mut self, address: Zmm, step: u32, to: Label) {
        let [unlike, _] = SCRATCH;
        self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), address);
        if step > 0 {
            self.a.evex(VPADDD, Zmm(0), Zmm(0), Operand::Words(*apart(step)));
        }
        self.a.compare(VPCMPUD.by(DIFFERENT), unlike, address, Zmm(0), K0);
        self.a.mask(KORTESTW, unlike, Mask(0), unlike);
        self.a.jump_if(Condition::NotEqual, to);
    }
}
