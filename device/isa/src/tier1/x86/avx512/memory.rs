//! Loads and stores of global memory, where the active lanes' elements follow each other, are the same one, or are all in one
//! span of the TLB's. Everything else is left to the handler: other places, pages that are not in the TLB.

use core::mem::offset_of;

use super::elements::apart;
use super::masks::{DIFFERENT, GREATER};
use super::rows::Pair;
use crate::exec::di::Di;
use crate::exec::properties::Moves;
use crate::mem::{PAGE_SIZE, Span, Tlb, TlbEntry};
use crate::tier1::analysis::alike::Alike;
use crate::tier1::analysis::elements::{bytes, registers};
use crate::tier1::x86::asm::{Assembler, At, Condition, Gpr, Integer, Label, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, EXEC, TLB, found, scalar};
use crate::tier1::x86::buffer::Through;
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::lane_stores::Targets;
use crate::tier1::x86::stretches::span_of_entry;

const PAGE: u32 = PAGE_SIZE as u32;

/// The TLB's entry of the page of the address in `Rdx`: in `R9`; its number in `R11`, the TLB in `R10`. Goes to a label if there is none.
pub(crate) fn page_entry(a: &mut Assembler, write: bool, missing: Label) {
    let (address, page, number, entry, other) = (Gpr::Rdx, Gpr::Rcx, Gpr::R11, Gpr::R9, Gpr::R10);
    a.integer(Integer::Mov, true, page, address);
    a.shift_by(5, true, page, 12);
    // As the TLB finds its entry of a page.
    a.immediate(Integer::Mov, false, entry, Tlb::MIX);
    a.multiply(false, entry, page);
    a.shift_by(5, false, entry, Tlb::MIX_SHIFT);
    const { assert!(size_of::<TlbEntry>() == 24, "an entry is three words") };
    a.integer(Integer::Mov, true, number, entry);
    a.integer(Integer::Add, true, entry, entry);
    a.integer(Integer::Add, true, entry, number);
    a.shift_by(4, true, entry, 3);
    a.load(Integer::Mov, true, other, TLB);
    a.load(Integer::Add, true, entry, At(other, offset_of!(Tlb, entries) as i32));
    let tag = if write { offset_of!(TlbEntry, write) } else { offset_of!(TlbEntry, read) };
    a.load(Integer::Cmp, true, page, At(entry, tag as i32));
    a.jump_if(Condition::NotEqual, missing);
}

impl Body<'_> {
    /// The rows of a register.
    pub(crate) fn register_rows(&mut self, row: u32) -> Vec<Pair> {
        (0..self.halves).map(|half| self.load_row(row + half)).collect()
    }

    /// Leaves where no lane is active: nothing is the first one's.
    pub(crate) fn leave_without_lanes(&mut self, cold: &Cold) {
        if self.masked {
            self.a.compare_immediate(self.halves == 2, scalar(EXEC), 0);
            self.a.jump_if(Condition::Equal, cold.entry);
        }
    }

    /// Goes to `to` unless elements of `bytes` bytes follow each other from the address in temporary 0 on.
    pub(crate) fn leave_unless_apart(&mut self, rows: &[Pair], bytes: u32, to: Label) {
        for (n, lanes) in (0..).zip(self.sixteens()) {
            let expected = Operand::Words(*apart(bytes));
            let (from, to) = if n == 0 { (Zmm(0), Zmm(1)) } else { (Zmm(1), Zmm(1)) };
            let step = if n == 0 { expected } else { Operand::Constant(bytes * 16) };
            self.a.evex(VPADDD, to, from, step);
            self.unlike(VPCMPUD.by(DIFFERENT), rows[lanes.0 as usize].chunk(lanes.1), to, lanes);
        }
        self.leave_if_unlike(to);
    }

    /// Goes to `to` unless all active lanes have the value of a temporary.
    pub(crate) fn leave_unless_same(&mut self, rows: &[Pair], value: Zmm, to: Label) {
        for lanes in self.sixteens() {
            self.unlike(VPCMPUD.by(DIFFERENT), rows[lanes.0 as usize].chunk(lanes.1), value, lanes);
        }
        self.leave_if_unlike(to);
    }

    /// The base of a global address, without the first lane's low half: in `Rdx`.
    pub(crate) fn global_base(&mut self, d: &Di, high: Option<&[Pair]>, cold: &Cold) {
        let Some(high) = high else {
            if let Some(Through::Buffer(buffer)) = self.through {
                return self.buffer_base(buffer, cold);
            }
            return self.scalar_base(d);
        };
        self.first_active(high, Zmm(0), Gpr::Rdx);
        self.leave_unless_global(cold);
        self.leave_unless_same(high, Zmm(0), cold.entry);
        self.a.shift_by(4, true, Gpr::Rdx, 32);
    }

    /// Leaves unless the active lanes' offsets are at most the number in `Rcx`.
    fn leave_unless_in_buffer(&mut self, low: &[Pair], cold: &Cold) {
        self.a.everywhere(Zmm(1), Gpr::Rcx);
        for lanes in self.sixteens() {
            self.unlike(VPCMPUD.by(GREATER), low[lanes.0 as usize].chunk(lanes.1), Zmm(1), lanes);
        }
        self.leave_if_unlike(cold.entry);
    }

    /// The same, and the low half of the first lane's address in `Rax` and temporary 0. Goes on at `known` with the numbers alone where it
    /// has been found that all elements follow each other.
    fn first_address(
        &mut self,
        d: &Di,
        (low, high): (&[Pair], Option<&[Pair]>),
        (alike, known): (Option<Alike>, Label),
        cold: &Cold,
    ) {
        let Some(Alike { slot, first: false }) = alike else {
            if let Some(alike) = alike {
                self.keep_found(alike, false);
            }
            self.global_base(d, high, cold);
            if let Some(Through::Buffer(_)) = self.through {
                self.leave_unless_in_buffer(low, cold);
            }
            return self.first_active(low, Zmm(0), Gpr::Rax);
        };
        match high {
            None => self.global_base(d, None, cold),
            Some(high) => {
                self.a.first_lane(Gpr::Rdx, high[0].chunk(0));
                self.a.shift_by(4, true, Gpr::Rdx, 32);
            }
        }
        self.a.first_lane(Gpr::Rax, low[0].chunk(0));
        self.a.compare_immediate(false, found(slot), 0);
        self.a.jump_if(Condition::NotEqual, known);
        if let Some(high) = high {
            self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), high[0].chunk(0));
            self.leave_unless_same(high, Zmm(0), cold.entry);
        }
        self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), low[0].chunk(0));
    }

    /// Keeps for accesses that lie alike whether elements follow each other.
    fn keep_found(&mut self, alike: Alike, follow: bool) {
        self.a.immediate(Integer::Mov, false, Gpr::Rcx, u32::from(follow));
        self.a.store(false, found(alike.slot), Gpr::Rcx);
    }

    /// Returns the group that the access lies alike with, if any, and a label for code that uses its finding.
    fn alike(&mut self) -> (Option<Alike>, Label) {
        let alike = if self.masked { None } else { self.alike[self.at - self.first] };
        (alike, self.a.label())
    }

    /// The host address for `bytes` at the GPU virtual address in `Rdx`, there.
    pub(crate) fn translate(&mut self, bytes: u32, write: bool, cold: &Cold) {
        if self.translate_in_stretch(bytes, write, cold) {
            return;
        }
        let (address, page, entry) = (Gpr::Rdx, Gpr::Rcx, Gpr::R9);
        let a = &mut self.a;
        a.integer(Integer::Mov, false, page, address);
        a.immediate(Integer::And, false, page, PAGE - 1);
        a.immediate(Integer::Cmp, false, page, PAGE - bytes);
        a.jump_if(Condition::Above, cold.entry);
        self.page_entry(write, cold);
        self.a.load(Integer::Add, true, address, At(entry, offset_of!(TlbEntry, delta) as i32));
    }

    /// As [`page_entry`], on the way to the handler where there is none.
    pub(crate) fn page_entry(&mut self, write: bool, cold: &Cold) {
        page_entry(self.a, write, cold.entry);
    }

    /// Finds the low halves of addresses whose elements of `bytes` are in one span with the first lane's. Takes the
    /// base of its address in `Rdx`, and its low half in `Rax`. Gives the first such low half in `R9`, the distance
    /// of the last one from it in `R10`, and the first lane's host address in `Rdx`. Leaves if its element is not in
    /// the TLB, or not in the span.
    pub(crate) fn span(&mut self, d: &Di, (bytes, write): (u32, bool), cold: &Cold) {
        self.add_offset(d);
        self.page_entry(write, cold);
        let (address, low, place, first, last) = (Gpr::Rdx, Gpr::Rax, Gpr::Rcx, Gpr::R9, Gpr::R10);
        let (entry, span) = (Gpr::R9, Gpr::R11);
        let a = &mut self.a;
        span_of_entry(a);
        a.integer(Integer::Mov, true, place, address);
        a.load(Integer::Sub, true, place, At(span, offset_of!(Span, start) as i32));
        a.load(Integer::Add, true, address, At(entry, offset_of!(TlbEntry, delta) as i32));
        // The low halves that the span's first byte and its last element would have.
        a.integer(Integer::Mov, true, first, low);
        a.integer(Integer::Sub, true, first, place);
        a.integer(Integer::Mov, true, last, first);
        a.load(Integer::Add, true, last, At(span, offset_of!(Span, len) as i32));
        a.immediate(Integer::Sub, true, last, bytes);
        a.integer(Integer::Cmp, true, last, low);
        a.jump_if(Condition::Less, cold.entry);
        // Those that there are: what is beyond would be on another side of 4 GiB.
        a.immediate(Integer::Mov, false, place, u32::MAX);
        a.integer(Integer::Cmp, true, last, place);
        a.choose(Condition::Above, last, place);
        a.immediate(Integer::Mov, false, place, 0);
        a.integer(Integer::Cmp, true, first, place);
        a.choose(Condition::Less, first, place);
        a.integer(Integer::Sub, true, last, first);
    }

    /// Adds the low half of the first lane's address, in `Rax`, and the offset of the instruction.
    pub(crate) fn add_offset(&mut self, d: &Di) {
        self.a.integer(Integer::Add, true, Gpr::Rdx, Gpr::Rax);
        if d.imm != 0 {
            self.a.immediate(Integer::Add, true, Gpr::Rdx, d.imm);
        }
    }

    /// Bytes of all lanes' elements.
    fn of_all(&self, bytes: u32) -> u32 {
        bytes * 32 * self.halves
    }

    /// The host address in `Rdx` of elements that have just been found to follow each other, as far as low halves of their addresses go;
    /// others that lie alike come in here. Leaves where a low half wraps, which each looks at for itself: its lanes are in two places of
    /// memory then. So what is kept for the others is that the elements follow each other as numbers of 64 bits.
    fn run(
        &mut self,
        d: &Di,
        (bytes, write): (u32, bool),
        (alike, known): (Option<Alike>, Label),
        cold: &Cold,
    ) {
        let all = self.of_all(bytes);
        if let Some(Alike { first: false, .. }) = alike {
            self.a.bind(known);
        }
        self.a.immediate(Integer::Cmp, false, Gpr::Rax, u32::MAX - all);
        self.a.jump_if(Condition::Above, cold.entry);
        if let Some(alike @ Alike { first: true, .. }) = alike {
            self.keep_found(alike, true);
        }
        self.add_offset(d);
        self.translate(all, write, cold);
    }

    /// Leaves unless the active lanes' elements are all in one span, of which the first one's host address is in `Rdx` then; what
    /// it is at in the low half of addresses stays in temporary 0.
    pub(crate) fn one_span(&mut self, d: &Di, low: &[Pair], (bytes, write): (u32, bool), cold: &Cold) {
        self.span(d, (bytes, write), cold);
        self.a.everywhere(Zmm(3), Gpr::R9);
        self.a.everywhere(Zmm(2), Gpr::R10);
        for lanes in self.sixteens() {
            self.a.evex(VPSUBD, Zmm(1), low[lanes.0 as usize].chunk(lanes.1), Zmm(3));
            self.unlike(VPCMPUD.by(GREATER), Zmm(1), Zmm(2), lanes);
        }
        self.leave_if_unlike(cold.entry);
    }

    /// The rows of both halves of addresses; there are no high ones with a scalar base.
    pub(crate) fn addresses(&mut self, d: &Di) -> (Vec<Pair>, Option<Vec<Pair>>) {
        let low = self.register_rows(d.src[0].value);
        let high = (d.dst2 != 2).then(|| self.register_rows(d.src[0].value + self.halves));
        (low, high)
    }

    /// Puts the distance of the second lane's address from the first one's, which is in `Rax`, into `Rsi`.
    pub(crate) fn first_distance(&mut self, low: &[Pair]) {
        self.a.first_two_lanes(Gpr::Rsi, low[0].chunk(0));
        self.a.shift_by(5, true, Gpr::Rsi, 32);
        self.a.integer(Integer::Sub, false, Gpr::Rsi, Gpr::Rax);
    }

    /// An element for each lane.
    pub(crate) fn global_load(&mut self, moves: Moves, d: &Di) {
        let (low, high) = self.addresses(d);
        self.load_kept(moves, d.dst, registers(moves));
        let cold = self.leave();
        let to = self.define_all(d.dst, registers(moves));
        self.leave_without_lanes(&cold);
        let alike = self.alike();
        self.first_address(d, (&low, high.as_deref()), alike, &cold);
        let done = self.a.label();
        if !self.masked {
            self.first_distance(&low);
        }
        if !self.masked && self.halves == 2 {
            self.load_halves(moves, d, (&low, &to), alike, (done, &cold));
        } else if !self.masked {
            let (same, others) = (self.a.label(), self.a.label());
            let may_be_same = matches!(moves, Moves::Dwords(_));
            if may_be_same {
                self.a.test(false, Gpr::Rsi);
                self.a.jump_if(Condition::Equal, same);
            }
            self.leave_unless_apart(&low, bytes(moves), others);
            self.run(d, (bytes(moves), false), alike, &cold);
            self.load_elements(Gpr::Rdx, moves, &to);
            if moves == Moves::Dwords(1) {
                self.fetch_ahead(false);
            }
            self.a.jump(done);
            if may_be_same {
                self.a.bind(same);
                self.leave_unless_same(&low, Zmm(0), others);
                self.add_offset(d);
                self.translate(bytes(moves), false, &cold);
                let lanes: Vec<_> = self.sixteens().collect();
                self.load_same_of(Gpr::Rdx, &to, &lanes);
                self.a.jump(done);
            }
            self.a.bind(others);
        }
        // Of parts whole dwords are read.
        self.one_span(d, &low, (bytes(moves).max(4), false), &cold);
        if !self.masked {
            self.load_sixteens(moves, (&low, &to), done);
        }
        for (n, lanes) in self.sixteens_down().into_iter().enumerate() {
            if n > 0 {
                self.a.everywhere(Zmm(0), Gpr::Rax);
            }
            self.a.evex(VPSUBD, Zmm(1), low[lanes.0 as usize].chunk(lanes.1), Zmm(0));
            let to = self.of_half(&to, lanes.0);
            self.gather_down(Gpr::Rdx, moves, &to, lanes);
        }
        self.a.bind(done);
        self.come_back(cold);
    }

    /// Elements that follow each other, or are the same one, in each half by itself or in both; goes on where they do not. The first
    /// lane's address is in `Rax`, what its base is in `Rdx`, and how far the second one is from it in `Rsi`.
    fn load_halves(
        &mut self,
        moves: Moves,
        d: &Di,
        (low, to): (&[Pair], &[Pair]),
        alike: (Option<Alike>, Label),
        (done, cold): (Label, &Cold),
    ) {
        let lanes: Vec<_> = self.sixteens().collect();
        let size = bytes(moves);
        let any = self.a.label();
        for same in [false, true] {
            if same && !matches!(moves, Moves::Dwords(_)) {
                continue;
            }
            let (others, apart) = (self.a.label(), self.a.label());
            let step = if same { 0 } else { size };
            self.a.immediate(Integer::Cmp, false, Gpr::Rsi, step);
            self.a.jump_if(Condition::NotEqual, others);
            self.leave_unless_halves(low, step, any);
            self.a.first_lane(Gpr::Rcx, low[1].chunk(0));
            self.a.integer(Integer::Sub, false, Gpr::Rcx, Gpr::Rax);
            self.a.immediate(Integer::Cmp, false, Gpr::Rcx, step * 32);
            self.a.jump_if(Condition::NotEqual, apart);
            if same {
                self.add_offset(d);
                self.translate(size, false, cold);
                self.load_same_of(Gpr::Rdx, to, &lanes);
            } else {
                self.run(d, (size, false), alike, cold);
                self.load_elements(Gpr::Rdx, moves, to);
            }
            self.a.jump(done);
            self.a.bind(apart);
            let all = if same { size } else { size * 32 };
            // Both are translated before any register changes.
            self.a.integer(Integer::Mov, true, Gpr::Rdi, Gpr::Rdx);
            for (half, row) in low.iter().enumerate() {
                self.a.first_lane(Gpr::Rax, row.chunk(0));
                self.a.immediate(Integer::Cmp, false, Gpr::Rax, u32::MAX - all);
                self.a.jump_if(Condition::Above, cold.entry);
                if half == 1 {
                    self.a.integer(Integer::Mov, true, Gpr::R8, Gpr::Rdx);
                    self.a.integer(Integer::Mov, true, Gpr::Rdx, Gpr::Rdi);
                }
                self.add_offset(d);
                self.translate(all, false, cold);
            }
            for (base, lanes) in [Gpr::R8, Gpr::Rdx].into_iter().zip(lanes.chunks(2)).rev() {
                if same {
                    self.load_same_of(base, to, lanes);
                } else {
                    self.load_run(base, moves, to, lanes);
                }
            }
            self.a.jump(done);
            self.a.bind(others);
        }
        self.a.bind(any);
    }

    /// Elements that follow each other, or are the same one, in each sixteen by itself; goes on where they do not. All are in one span,
    /// and registers are as [`Body::one_span`] leaves them.
    fn load_sixteens(&mut self, moves: Moves, (low, to): (&[Pair], &[Pair]), done: Label) {
        let size = bytes(moves);
        let any = self.a.label();
        for same in [false, true] {
            if same && !matches!(moves, Moves::Dwords(_)) {
                continue;
            }
            let others = self.a.label();
            let step = if same { 0 } else { size };
            self.a.immediate(Integer::Cmp, false, Gpr::Rsi, step);
            self.a.jump_if(Condition::NotEqual, others);
            for lanes in self.sixteens() {
                let address = low[lanes.0 as usize].chunk(lanes.1);
                self.a.evex(VPBROADCASTD, Zmm(1), Zmm(0), address);
                if step > 0 {
                    self.a.evex(VPADDD, Zmm(1), Zmm(1), Operand::Words(*apart(step)));
                }
                self.unlike(VPCMPUD.by(DIFFERENT), address, Zmm(1), lanes);
            }
            self.leave_if_unlike(any);
            for lanes in self.sixteens_down() {
                let base = Gpr::R8;
                self.a.first_lane(base, low[lanes.0 as usize].chunk(lanes.1));
                self.a.integer(Integer::Sub, false, base, Gpr::Rax);
                // Distances have a sign.
                self.a.shift_by(4, true, base, 32);
                self.a.shift_by(7, true, base, 32);
                self.a.integer(Integer::Add, true, base, Gpr::Rdx);
                if same {
                    self.load_same_of(base, to, &[lanes]);
                } else {
                    self.load_run(base, moves, to, &[lanes]);
                }
            }
            self.a.jump(done);
            self.a.bind(others);
        }
        self.a.bind(any);
    }

    /// Goes to `to` unless the addresses of each half are `step` bytes from each other.
    fn leave_unless_halves(&mut self, low: &[Pair], step: u32, to: Label) {
        for lanes in self.sixteens() {
            let row = low[lanes.0 as usize];
            if lanes.1 == 0 {
                self.a.evex(VPBROADCASTD, Zmm(2), Zmm(0), row.chunk(0));
            }
            if step > 0 {
                let further =
                    if lanes.1 == 0 { Operand::Words(*apart(step)) } else { Operand::Constant(step * 16) };
                self.a.evex(VPADDD, Zmm(2), Zmm(2), further);
            }
            self.unlike(VPCMPUD.by(DIFFERENT), row.chunk(lanes.1), Zmm(2), lanes);
        }
        self.leave_if_unlike(to);
    }

    /// An element of each lane.
    pub(crate) fn global_store(&mut self, moves: Moves, d: &Di) {
        let (low, high) = self.addresses(d);
        // Of some lanes, other elements than dwords are stored from memory.
        let rows = if self.masked && moves != Moves::Dwords(1) { 0 } else { registers(moves) * self.halves };
        let data: Vec<Pair> = (0..rows).map(|row| self.load_row(d.src[1].value + row)).collect();
        let cold = self.leave();
        let (others, done) = (self.a.label(), self.a.label());
        self.leave_out_none(done);
        let alike = self.alike();
        self.first_address(d, (&low, high.as_deref()), alike, &cold);
        let scatters = moves == Moves::Dwords(1);
        if !self.masked {
            self.leave_unless_apart(&low, bytes(moves), others);
            self.run(d, (bytes(moves), true), alike, &cold);
            self.store_elements(Gpr::Rdx, moves, &data);
            if scatters {
                self.fetch_ahead(true);
            }
            self.a.jump(done);
        }
        self.a.bind(others);
        if scatters {
            self.one_span(d, &low, (4, true), &cold);
            for (half, chunk) in self.sixteens() {
                self.a.evex(VPSUBD, Zmm(1), low[half as usize].chunk(chunk), Zmm(0));
                self.scatter_sixteen(Gpr::Rdx, Zmm(1), data[half as usize].chunk(chunk), (half, chunk));
            }
        } else {
            if moves == Moves::Dwords(4) && !self.masked {
                let others = self.a.label();
                self.store_fours_in_steps(d, (&low, &data), (others, &cold));
                self.a.jump(done);
                self.a.bind(others);
            }
            self.one_span(d, &low, (bytes(moves), true), &cold);
            self.copy_rows_to_memory();
            // The host address that an element of the span would have if the low half of its address were 0.
            self.a.integer(Integer::Mov, true, Gpr::R8, Gpr::Rdx);
            self.a.integer(Integer::Sub, true, Gpr::R8, Gpr::Rax);
            let targets = Targets { row: d.src[0].value, offset: 0, base: Gpr::R8 };
            self.store_each(moves, targets, d.src[1].value);
        }
        self.a.bind(done);
        self.come_back(cold);
    }

    /// Fetches what the third wave behind this one loads or stores with the dword instruction at hand, whose host address is in `Rdx`, if
    /// waves follow each other in memory.
    pub(crate) fn fetch_ahead(&mut self, write: bool) {
        for line in [384, 448] {
            self.a.prefetch(write, At(Gpr::Rdx, line));
        }
    }
}
