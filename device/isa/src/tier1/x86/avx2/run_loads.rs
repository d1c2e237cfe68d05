//! Loads from LDS within runs, whose addresses are known before the run and [guessed](crate::tier1::analysis::guess) when code is made.
//!
//! Before the run it is looked whether all of them are as guessed and in range; where they are not, the elements are done as if loads
//! ended runs. So a load within a run is a few instructions, and has no way to its handler.

use core::mem::offset_of;

use crate::exec::di::Di;
use crate::exec::form::Form;
use crate::tier1::analysis::runs::{self, Run};
use crate::tier1::x86::asm::{At, Condition, Gpr, Integer, Label, Operand, Zmm};
use crate::tier1::x86::avx512::lds::HAS_LOADED;
use crate::tier1::x86::avx512::run_loads::{Addresses, ends, has_way, load};
use crate::tier1::x86::body::{Body, WAVE};
use crate::tier1::x86::encoding::*;
use crate::wave::Wave;

use super::cache::Key;
use super::lanes::T;
use super::opcodes::*;
use super::pass::{Pass, is_of_lanes};

/// Fewest elements of a run with loads, which is looked at beforehand.
const WORTH: usize = 8;

/// Registers for places in LDS that loads of the same row go from.
const POINTERS: [Gpr; 3] = [Gpr::Rsi, Gpr::Rdi, Gpr::R8];
/// LDS itself.
const LDS: Gpr = Gpr::R9;
/// Bytes of LDS, while it is looked at.
const SIZE: Gpr = Gpr::R11;

/// Addresses that a pass knows of its loads.
#[derive(Default)]
pub(super) struct Loads<'a> {
    addresses: Addresses,
    /// Rows of addresses, and the distance of neighbours' addresses.
    guesses: &'a [(u32, u32)],
    /// Rows whose first lanes' places are in [`POINTERS`].
    pointers: [Option<u32>; POINTERS.len()],
    /// The pointer that another row takes.
    next: usize,
}

impl<'a> Loads<'a> {
    pub(super) fn new(guesses: &'a [(u32, u32)]) -> Loads<'a> {
        Loads { guesses, ..Loads::default() }
    }

    /// Takes note of the registers that an element writes.
    pub(super) fn note(&mut self, form: Form, d: &Di, halves: u32) {
        if !self.guesses.is_empty() {
            self.addresses.note(form, d, halves);
        }
    }
}

/// The run from an element on, if one begins there; `elements` are those up to the end of the block. Loads are in it whose addresses are
/// known before it, and guessed: `steps` are the guesses for the elements.
pub(crate) fn run_of(
    elements: &[(Form, &Di)],
    steps: &[Option<u32>],
    (halves, masked): (u32, bool),
) -> Option<Run> {
    let mut addresses = Addresses::default();
    let mut loads = false;
    let run = runs::run_of(elements, halves, |at, form, d| {
        let loaded = !masked
            && addresses.end(form, d).is_some()
            && addresses.in_memory(d.src[0].value).is_some()
            && load(form, d).zip(steps[at]).is_some_and(|((dwords, _), step)| has_way(step, dwords));
        let taken = loaded || is_of_lanes(form, d);
        if taken {
            addresses.note(form, d, halves);
            loads |= loaded;
        }
        taken
    });
    if loads && run.as_ref().is_some_and(|run| run.lanes.len() < WORTH) {
        return without_loads(elements, halves);
    }
    run
}

/// As [`run_of`], without any load.
fn without_loads(elements: &[(Form, &Di)], halves: u32) -> Option<Run> {
    runs::run_of(elements, halves, |_, form, d| is_of_lanes(form, d))
}

impl Body<'_> {
    /// The elements of a run, which are the first of `elements`; instructions of all but the first one are still to be counted.
    pub(crate) fn go_through(&mut self, run: &Run, elements: &[(Form, &Di)]) {
        let elements = &elements[..run.elements];
        let guesses = self.guesses(elements);
        if guesses.is_empty() {
            return self.passes(run, elements, &[]);
        }
        let (slow, done) = (self.a.label(), self.a.label());
        self.leave_unless_loads_are_as_guessed(elements, &guesses, slow);
        self.passes(run, elements, &guesses);
        self.a.jump(done);
        self.a.bind(slow);
        let (start, uncounted) = (self.at, self.uncounted);
        let mut undone = 0;
        for (n, &(form, d)) in elements.iter().enumerate() {
            self.at = start + n;
            self.uncounted += if n > 0 { u32::from(d.count) } else { 0 };
            if n < undone {
                continue;
            }
            if let Some(run) = without_loads(&elements[n..], self.halves) {
                self.passes(&run, &elements[n..], &[]);
                undone = n + run.elements;
            } else if let Form::Scalar(op) = form {
                crate::tier1::scalar::emit(self.a, op, d);
            } else {
                self.one(form, d);
            }
        }
        (self.at, self.uncounted) = (start, uncounted);
        self.a.bind(done);
    }

    /// Leaves unless all addresses of a run's loads are as guessed, and their elements in LDS, of which [`LDS`] is the address then.
    fn leave_unless_loads_are_as_guessed(
        &mut self,
        elements: &[(Form, &Di)],
        guesses: &[(u32, u32)],
        slow: Label,
    ) {
        let (highest, one, differs) = ([0, 1].map(Zmm), [2, 3].map(Zmm), [4, 5].map(Zmm));
        self.lds_storage(SIZE);
        let ends = ends(elements, self.halves);
        let mut looked = 0;
        for rows in ends.chunk_by(|a, b| a.1 == b.1) {
            let all = rows.iter().flat_map(|&(row, _)| self.eights().map(move |eight| (row, eight)));
            let all: Vec<(u32, i32)> = all.collect();
            for (n, &(row, eight)) in all.iter().enumerate() {
                let (at, turn) = (Self::eight(row, eight), n & 1);
                let (most, one, differs) = (highest[turn], one[turn], differs[turn]);
                match n {
                    0 | 1 => self.a.vex(VMOVUPS_LOAD, most, Zmm(0), Operand::Memory(at)),
                    _ => self.a.vex(VPMAXUD, most, most, Operand::Memory(at)),
                }
                self.a.vex(VPBROADCASTD_VEX, one, Zmm(0), Operand::Splat(at));
                let step = guesses.iter().find(|(known, _)| *known == row).map_or(0, |guess| guess.1);
                if step > 0 {
                    let apart = core::array::from_fn(|lane| lane as u32 * step);
                    self.a.vex(VPADDD, one, one, Operand::Eight(apart));
                }
                if looked < 2 {
                    self.a.vex(VPXORD, differs, one, Operand::Memory(at));
                } else {
                    self.a.vex(VPXORD, one, one, Operand::Memory(at));
                    self.a.vex(VPORD, differs, differs, one);
                }
                looked += 1;
            }
            self.a.vex(VPMAXUD, highest[0], highest[0], highest[1]);
            // The highest address of those that have as much behind them decides.
            self.a.integer(Integer::Mov, false, Gpr::R10, SIZE);
            self.a.immediate(Integer::Sub, false, Gpr::R10, rows[0].1);
            self.a.jump_if(Condition::Below, slow);
            let last = one[0];
            self.a.vex_number(VMOVD_FROM, last.0, Gpr::R10 as u8);
            self.a.vex(VPBROADCASTD_VEX, last, Zmm(0), last);
            self.a.vex(VPMAXUD, highest[0], highest[0], last);
            self.a.vex(VPXORD, highest[0], highest[0], last);
            self.leave_if_any_bit(highest[0], slow);
        }
        self.a.vex(VPORD, differs[0], differs[0], differs[1]);
        self.leave_if_any_bit(differs[0], slow);
        self.a.byte_immediate(1, At(WAVE, offset_of!(Wave, lds_order) as i32), HAS_LOADED);
    }
}

impl Pass<'_> {
    /// The place that a row's first lane of the eight says, in a register.
    fn pointer(&mut self, row: u32) -> Gpr {
        if let Some(known) = self.loads.pointers.iter().position(|known| *known == Some(row)) {
            return POINTERS[known];
        }
        let (pointer, place) = (self.loads.next, POINTERS[self.loads.next]);
        self.loads.pointers[pointer] = Some(row);
        self.loads.next = (pointer + 1) % POINTERS.len();
        self.a.load(Integer::Mov, false, place, self.cache.lanes.row(row));
        self.a.integer(Integer::Add, true, place, LDS);
        place
    }

    /// A load of LDS whose addresses are as guessed and in range.
    pub(super) fn load_lds(&mut self, form: Form, d: &Di) {
        let known = load(form, d).zip(self.loads.addresses.in_memory(d.src[0].value));
        let Some(((dwords, offsets), (row, more))) = known else { unreachable!("only loads that are known") };
        let guess = self.loads.guesses.iter().find(|(known, _)| *known == row);
        let Some(&(_, step)) = guess else { unreachable!("only loads that are guessed") };
        let base = self.pointer(row);
        let all = dwords * offsets.len() as u32;
        let to: Vec<Zmm> =
            (0..all).map(|register| self.define(Key::Row(d.dst + register * self.halves))).collect();
        // Two pairs that are next to each other are whole fours.
        let fours = matches!(*offsets, [low, high] if step == 16 && dwords == 2 && high == low + 8);
        let (size, offsets) = if fours { (4, &offsets[..1]) } else { (dwords, &*offsets) };
        for (&offset, to) in offsets.iter().zip(to.chunks(size as usize)) {
            self.load_apart((base, (more + offset) as i32), step, to);
        }
    }

    /// Loads elements of eight lanes, `step` bytes apart, the first one at a place. Bytes after their ends may be
    /// read as well, no further than the storage after LDS goes.
    fn load_apart(&mut self, (base, from): (Gpr, i32), step: u32, to: &[Zmm]) {
        let [t0, t1, t2, t3] = T;
        let at = |bytes: i32| Operand::Memory(At(base, from + bytes));
        let a = &mut *self.a;
        match *to {
            _ if step == 0 => {
                for (n, &to) in to.iter().enumerate() {
                    a.vex(VPBROADCASTD_VEX, to, Zmm(0), Operand::Splat(At(base, from + n as i32 * 4)));
                }
            }
            [to] => a.vex(VMOVUPS_LOAD, to, Zmm(0), at(0)),
            [first, second] if step == 8 => {
                a.vex(VMOVUPS_LOAD, t0, Zmm(0), at(0));
                for (to, pick) in [(first, 0x88), (second, 0xdd)] {
                    a.vex(VSHUFPS.by(pick), to, t0, at(32));
                    a.vex(VPERMPD.by(0b11_01_10_00), to, Zmm(0), to);
                }
            }
            [first, second] => {
                // Pairs of lanes 0, 1, 4, 5, and of the others.
                for (pairs, other, bytes) in [(t0, t1, 0), (t1, t2, 32)] {
                    a.vex(VPERMPD.by(0b10_00_10_00), pairs, Zmm(0), at(bytes));
                    a.vex(VPERMPD.by(0b10_00_10_00), other, Zmm(0), at(bytes + 64));
                    a.vex(VPBLENDD.by(0xf0), pairs, pairs, other);
                }
                a.vex(VSHUFPS.by(0x88), first, t0, t1);
                a.vex(VSHUFPS.by(0xdd), second, t0, t1);
            }
            [x, y, z, w] => {
                for (lane, t) in T.into_iter().enumerate() {
                    a.vex(VMOVUPS_SHORT_LOAD, t, Zmm(0), at(lane as i32 * 16));
                    a.vex(VINSERTF128.by(1), t, t, at(lane as i32 * 16 + 64));
                }
                a.vex(VUNPCKLPS, x, t0, t1);
                a.vex(VUNPCKHPS, t0, t0, t1);
                a.vex(VUNPCKLPS, z, t2, t3);
                a.vex(VUNPCKHPS, t2, t2, t3);
                a.vex(VUNPCKHPD, y, x, z);
                a.vex(VUNPCKLPD, x, x, z);
                a.vex(VUNPCKLPD, z, t0, t2);
                a.vex(VUNPCKHPD, w, t0, t2);
            }
            _ => unreachable!("loads have a way"),
        }
    }
}
