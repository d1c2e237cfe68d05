//! Loads from LDS within runs that are done for sixteen lanes after the others.
//!
//! Before the run it is looked whether everything is in range that they load, so that they have no way to their handler. Where addresses are
//! [guessed](crate::tier1::analysis::guess), it is looked beforehand too whether they are as guessed: each load is then a few instructions. Otherwise
//! each looks itself how its addresses are apart.

use core::mem::offset_of;

use super::elements::apart;
use super::lds::HAS_LOADED;
use super::masks::{DIFFERENT, GREATER};
use super::rows::{Pair, in_memory};
use crate::exec::di::{Di, Kind};
use crate::exec::form::Form;
use crate::exec::properties::Moves;
use crate::inst::Op;
use crate::tier1::analysis::template;
use crate::tier1::x86::asm::{At, Condition, Gpr, Integer, K0, Label, Mask, Operand, Zmm};
use crate::tier1::x86::body::{Body, Lanes, SCRATCH, WAVE};
use crate::tier1::x86::encoding::*;
use crate::wave::Wave;

/// Bytes of LDS, while it is looked at.
const SIZE: Gpr = Gpr::R11;

/// Registers for places in LDS that loads of the same row go from.
const POINTERS: [Gpr; 3] = [Gpr::Rsi, Gpr::Rdi, Gpr::R8];

/// `a` with the bits in which `b` and `c` differ, for `vpternlogd`.
const OR_DIFFERENT: u8 = 0xf6;

/// The dwords of each element that a load from LDS has, and where from its address on they are.
pub(crate) fn load(form: Form, d: &Di) -> Option<(u32, Vec<u32>)> {
    match form {
        Form::LdsLoad(Moves::Dwords(dwords @ (1 | 2 | 4))) => Some((dwords, vec![d.imm])),
        Form::LdsLoadTwo(dwords @ (1 | 2)) => Some((dwords, vec![d.imm, d.dst2])),
        _ => None,
    }
}

/// Addresses within a run: the row and the constant that make up each, where the row is as it was before the run.
#[derive(Default)]
pub(crate) struct Addresses {
    written: Vec<u32>,
    sums: Vec<(u32, (u32, u32))>,
}

impl Addresses {
    fn of(&self, row: u32) -> Option<(u32, u32)> {
        let sum = self.sums.iter().find(|(sum, _)| *sum == row).map(|&(_, of)| of);
        sum.or_else(|| (!self.written.contains(&row)).then_some((row, 0)))
    }

    /// As [`Addresses::of`], if memory still has the row as it was before the run.
    pub(crate) fn in_memory(&self, row: u32) -> Option<(u32, u32)> {
        self.of(row).filter(|(row, _)| !self.written.contains(row))
    }

    /// Takes note of the rows that an element writes.
    pub(crate) fn note(&mut self, form: Form, d: &Di, halves: u32) {
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

    /// The row that a load from LDS has its addresses from, and the distance in bytes from these to the end of its
    /// elements.
    pub(crate) fn end(&self, form: Form, d: &Di) -> Option<(u32, u32)> {
        let (dwords, offsets) = load(form, d)?;
        let (row, more) = self.of(d.src[0].value)?;
        Some((row, offsets.into_iter().max()?.checked_add(dwords * 4)?.checked_add(more)?))
    }
}

/// Returns true if loads whose addresses are `step` bytes apart have code of their own.
pub(crate) fn has_way(step: u32, dwords: u32) -> bool {
    step == 0 || step == dwords * 4 || step == 16 && dwords == 2
}

/// Rows that loads of a run take their addresses from, and the distances from these to the ends of their elements;
/// the nearest end first.
pub(crate) fn ends(elements: &[(Form, &Di)], halves: u32) -> Vec<(u32, u32)> {
    let mut addresses = Addresses::default();
    let mut ends: Vec<(u32, u32)> = Vec::new();
    for &(form, d) in elements {
        if let Some((row, end)) = addresses.end(form, d) {
            match ends.iter_mut().find(|(known, _)| *known == row) {
                Some((_, known)) => *known = end.max(*known),
                None => ends.push((row, end)),
            }
        }
        addresses.note(form, d, halves);
    }
    ends.sort_by_key(|&(_, end)| end);
    ends
}

/// Registers of one of several sums that do not wait for each other; no row is in a register before a run.
#[derive(Clone, Copy)]
struct Chain {
    sum: Zmm,
    one: Zmm,
}

const CHAINS: [Chain; 4] = [
    Chain { sum: Zmm(4), one: Zmm(8) },
    Chain { sum: Zmm(5), one: Zmm(9) },
    Chain { sum: Zmm(6), one: Zmm(10) },
    Chain { sum: Zmm(7), one: Zmm(11) },
];

/// Loads of one sixteen whose addresses are as guessed.
#[derive(Default)]
pub(crate) struct Guessed {
    pub(crate) addresses: Addresses,
    /// Rows whose first lanes' places are in [`POINTERS`].
    pointers: [Option<u32>; POINTERS.len()],
    /// The pointer that another row takes.
    next: usize,
}

impl Body<'_> {
    /// Rows that loads of a run take their addresses from, and how far apart these are guessed to be.
    pub(crate) fn guesses(&self, elements: &[(Form, &Di)]) -> Vec<(u32, u32)> {
        let mut addresses = Addresses::default();
        let mut guesses: Vec<(u32, u32)> = Vec::new();
        for (n, &(form, d)) in elements.iter().enumerate() {
            if let (Some((dwords, _)), Some(step)) = (load(form, d), self.steps[self.at + n])
                && let Some((row, _)) = addresses.in_memory(d.src[0].value)
                && has_way(step, dwords)
                && !guesses.iter().any(|(known, _)| *known == row)
            {
                guesses.push((row, step));
            }
            addresses.note(form, d, self.halves);
        }
        guesses
    }

    /// Combines the first `chains` sums.
    fn joined(&mut self, op: Evex, chains: usize) -> Zmm {
        for chain in &CHAINS[1..chains] {
            self.a.evex(op, CHAINS[0].sum, CHAINS[0].sum, chain.sum);
        }
        CHAINS[0].sum
    }

    /// Leaves unless addresses are as guessed.
    pub(crate) fn leave_unless_guessed(&mut self, guesses: &[(u32, u32)], to: Label) {
        let ([differs, _], sixteens) = (SCRATCH, self.sixteens().collect::<Vec<_>>());
        let all = guesses.iter().flat_map(|guess| sixteens.iter().map(move |lanes| (*guess, *lanes)));
        for turn in CHAINS {
            self.a.evex(VPXORD, turn.sum, turn.sum, turn.sum);
        }
        for (((row, step), (half, chunk)), Chain { sum, one }) in all.zip(CHAINS.into_iter().cycle()) {
            let at = in_memory(row + half, chunk);
            self.a.evex(VPBROADCASTD, one, Zmm(0), Operand::Splat(at));
            if step > 0 {
                self.a.evex(VPADDD, one, one, Operand::Words(*apart(step)));
            }
            self.a.evex(VPTERNLOGD.by(OR_DIFFERENT), sum, one, Operand::Memory(at));
        }
        let unlike = self.joined(VPORD, CHAINS.len());
        self.a.compare(VPCMPUD.by(DIFFERENT), differs, unlike, Operand::Constant(0), K0);
        self.a.mask(KORTESTW, differs, Mask(0), differs);
        self.a.jump_if(Condition::NotEqual, to);
    }

    /// The place that a row's first lane says, in a register.
    fn pointer(&mut self, of: &mut Guessed, row: u32, (half, chunk): (u32, u8)) -> Gpr {
        if let Some(known) = of.pointers.iter().position(|known| *known == Some(row)) {
            return POINTERS[known];
        }
        let (pointer, place) = (of.next, POINTERS[of.next]);
        of.pointers[pointer] = Some(row);
        of.next = (pointer + 1) % POINTERS.len();
        self.a.load(Integer::Mov, false, place, in_memory(row + half, chunk));
        self.a.integer(Integer::Add, true, place, Gpr::R9);
        place
    }

    /// Sixteen lanes of a load whose addresses are as guessed; `false` if there is no guess for it.
    pub(crate) fn load_guessed(
        &mut self,
        (of, guesses): (&mut Guessed, &[(u32, u32)]),
        (dwords, offsets): (u32, &[u32]),
        d: &Di,
    ) -> bool {
        let Some(Lanes { half, sixteen: Some(chunk) }) = self.only else {
            unreachable!("sixteen lanes are at hand")
        };
        let Some((row, more)) = of.addresses.in_memory(d.src[0].value) else { return false };
        let Some(&(_, step)) = guesses.iter().find(|(known, _)| *known == row) else { return false };
        if !has_way(step, dwords) {
            return false;
        }
        let base = self.pointer(of, row, (half, chunk));
        let all = dwords * offsets.len() as u32;
        let to: Vec<Pair> =
            (0..all).map(|register| self.define(d.dst + register * self.halves + half)).collect();
        // Two pairs that are next to each other are whole fours.
        let fours = matches!(*offsets, [low, high] if step == 16 && high == low + 8);
        let (size, offsets) = if fours { (4, &offsets[..1]) } else { (dwords, offsets) };
        for (&offset, to) in offsets.iter().zip(to.chunks(size as usize)) {
            let from = (more + offset) as i32;
            if step == 0 {
                for (to, n) in to.iter().zip(0..) {
                    let at = Operand::Splat(At(base, from + n * 4));
                    self.a.evex(VPBROADCASTD, to.chunk(chunk), Zmm(0), at);
                }
                continue;
            }
            self.a.address(Gpr::Rdx, At(base, from));
            match *to {
                [first, second] if step == 16 => {
                    self.load_pairs_of_fours(Gpr::Rdx, [first, second], chunk);
                }
                _ => self.load_sixteen(Gpr::Rdx, 0, chunk, to),
            }
        }
        true
    }

    /// Looks whether everything is in range that elements load from LDS, of which `R9` is the address then; there is another way if it
    /// is not.
    pub(crate) fn look_at_loads(&mut self, elements: &[(Form, &Di)]) -> Option<Label> {
        let ends = ends(elements, self.halves);
        if ends.is_empty() {
            return None;
        }
        let slow = self.a.label();
        self.lds_storage(SIZE);
        // The highest address of those that have as much behind them decides.
        for rows in ends.chunk_by(|a, b| a.1 == b.1) {
            let (limit, end) = (Zmm(1), rows[0].1);
            let sixteens: Vec<_> = self.sixteens().collect();
            let all =
                rows.iter().flat_map(|(row, _)| sixteens.iter().map(move |lanes| (row + lanes.0, lanes.1)));
            for (n, (row, chunk)) in all.enumerate() {
                let (address, sum) = (Operand::Memory(in_memory(row, chunk)), CHAINS[n % CHAINS.len()].sum);
                if n < CHAINS.len() {
                    self.a.evex(VMOVUPS_LOAD, sum, Zmm(0), address);
                } else {
                    self.a.evex(VPMAXUD, sum, sum, address);
                }
            }
            let chains = (rows.len() * sixteens.len()).min(CHAINS.len());
            let highest = self.joined(VPMAXUD, chains);
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
    pub(crate) fn load_by_sixteens(&mut self, dwords: u32, d: &Di, offsets: &[u32]) {
        let Some(Lanes { half, sixteen: Some(chunk) }) = self.only else {
            unreachable!("sixteen lanes are at hand")
        };
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

    /// Leaves unless sixteen addresses are `step` bytes from each other.
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
