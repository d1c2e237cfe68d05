//! Loads and stores of global memory, where elements follow each other, are the same one, or are all in one span of the TLB's; for
//! waves that have all lanes. Everything else is left to the handler: other places, pages that are not in the TLB.

use core::ops::Range;

use crate::exec::di::Di;
use crate::exec::form::Form;
use crate::exec::properties::Moves;
use crate::tier1::analysis::elements::{bytes, registers};
use crate::tier1::x86::asm::{Condition, Gpr, Integer, Label, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold};
use crate::tier1::x86::buffer::Through;
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::lane_stores::Targets;

use super::elements::{Places, SPAN_FROM};
use super::opcodes::*;

/// Returns true if there is code for a load or store.
pub(super) fn has(form: Form, d: &Di, masked: bool) -> bool {
    match form {
        Form::LdsAtomic(..) | Form::GlobalAtomic(..) => crate::tier1::analysis::elements::has(form),
        Form::GlobalStore(moves) | Form::FlatStore(moves) | Form::LdsStore(moves) => registers(moves) <= 4,
        Form::LdsStoreTwo(dwords) => dwords <= 2,
        _ if masked => false,
        Form::BufferStore(moves) => registers(moves) <= 4,
        Form::GlobalLoad(moves) | Form::FlatLoad(moves) | Form::BufferLoad(moves) | Form::LdsLoad(moves) => {
            registers(moves) <= 4
        }
        // Each element is done for eight lanes before the next one, which has the same addresses.
        Form::LdsLoadTwo(dwords) => dwords <= 2 && !super::lds::overlaps(d, dwords * 2),
        _ => false,
    }
}

impl Body<'_> {
    /// A load or store that there is code for.
    pub(crate) fn memory(&mut self, form: Form, d: &Di) {
        match form {
            Form::GlobalLoad(moves) | Form::FlatLoad(moves) | Form::BufferLoad(moves) => {
                let plain = self.global_element(form, moves, d);
                self.load_global(moves, &plain);
                self.through = None;
            }
            Form::GlobalStore(moves) | Form::FlatStore(moves) | Form::BufferStore(moves) => {
                let plain = self.global_element(form, moves, d);
                self.store_global(moves, &plain);
                self.through = None;
            }
            Form::LdsLoad(moves) => self.load_lds(moves, d, &[d.imm]),
            Form::LdsLoadTwo(dwords) => self.load_lds(Moves::Dwords(dwords), d, &[d.imm, d.dst2]),
            Form::LdsStore(moves) => self.store_lds(moves, d, &[(d.imm, d.src[1].value)]),
            Form::LdsStoreTwo(dwords) => {
                let parts = [(d.imm, d.src[1].value), (d.dst2, d.src[2].value)];
                self.store_lds(Moves::Dwords(dwords), d, &parts);
            }
            Form::LdsAtomic(..) | Form::GlobalAtomic(..) => self.atomic(form, d),
            _ => unreachable!("only loads, stores and atomics"),
        }
    }

    /// The first lane of a row in all lanes of a temporary.
    pub(super) fn first_of(&mut self, to: Zmm, row: u32, eight: i32) {
        self.a.vex(VPBROADCASTD_VEX, to, Zmm(0), Operand::Splat(Self::eight(row, eight)));
    }

    /// Leaves for a place unless some eights of a row are what is in temporary 0, or in 1, 2 and so on, which are one `step` apart;
    /// without one they are all the same. Temporaries from 1 on are used.
    pub(super) fn leave_unless_like(&mut self, row: u32, eights: Range<i32>, step: Option<u32>, to: Label) {
        let (expected, differs, one) = (Zmm(1), Zmm(2), Zmm(3));
        for (n, eight) in eights.enumerate() {
            let at = Operand::Memory(Self::eight(row, eight));
            let like = match step {
                None => Zmm(0),
                Some(bytes) => {
                    let (from, step) = if n == 0 {
                        let steps = core::array::from_fn(|lane| lane as u32 * bytes);
                        (Zmm(0), Operand::Eight(steps))
                    } else {
                        (expected, Operand::Eight([bytes * 8; 8]))
                    };
                    self.a.vex(VPADDD, expected, from, step);
                    expected
                }
            };
            if n == 0 {
                self.a.vex(VPXORD, differs, like, at);
            } else {
                self.a.vex(VPXORD, one, like, at);
                self.a.vex(VPORD, differs, differs, one);
            }
        }
        self.leave_if_any_bit(differs, to);
    }

    pub(super) fn leave_if_any_bit(&mut self, value: Zmm, to: Label) {
        self.a.vex(VPTEST, value, Zmm(0), value);
        self.a.jump_if(Condition::NotEqual, to);
    }

    /// The base of a global address, without the first lane's low half: in `Rdx`.
    pub(super) fn base_of(&mut self, d: &Di, cold: &Cold) {
        if let Some(Through::Buffer(buffer)) = self.through {
            self.buffer_base(buffer, cold);
            return self.leave_unless_eights_inside(d.src[0].value, cold);
        }
        if d.dst2 == 2 {
            return self.scalar_base(d);
        }
        let high = d.src[0].value + self.halves;
        self.a.load(Integer::Mov, false, Gpr::Rdx, Self::eight(high, 0));
        self.leave_unless_global(cold);
        self.first_of(Zmm(0), high, 0);
        self.leave_unless_like(high, self.eights(), None, cold.entry);
        self.a.shift_by(4, true, Gpr::Rdx, 32);
    }

    /// Leaves unless all lanes' offsets are at most the number in `Rcx`.
    fn leave_unless_eights_inside(&mut self, low: u32, cold: &Cold) {
        let [highest, last] = [1, 2].map(Zmm);
        self.a.vex_number(VMOVD_FROM, last.0, Gpr::Rcx as u8);
        self.a.vex(VPBROADCASTD_VEX, last, Zmm(0), last);
        self.a.vex(VMOVUPS_LOAD, highest, Zmm(0), Operand::Memory(Self::eight(low, 0)));
        for eight in self.eights().skip(1) {
            self.a.vex(VPMAXUD, highest, highest, Operand::Memory(Self::eight(low, eight)));
        }
        self.a.vex(VPMAXUD, highest, highest, last);
        self.a.vex(VPXORD, highest, highest, last);
        self.leave_if_any_bit(highest, cold.entry);
    }

    /// Leaves unless the elements are all in one span of the TLB's; then they are at [`Places::Span`].
    pub(super) fn in_one_span(&mut self, d: &Di, low: u32, (bytes, write): (u32, bool), cold: &Cold) {
        self.span(d, (bytes, write), cold);
        self.a.integer(Integer::Mov, true, SPAN_FROM, Gpr::Rdx);
        self.a.integer(Integer::Sub, true, SPAN_FROM, Gpr::Rax);
        let [first, highest, one] = [1, 2, 3].map(Zmm);
        self.a.vex_number(VMOVD_FROM, 1, Gpr::R9 as u8);
        self.a.vex(VPBROADCASTD_VEX, first, Zmm(0), first);
        self.a.vex(VPXORD, highest, highest, highest);
        for eight in self.eights() {
            let at = Operand::Memory(Self::eight(low, eight));
            self.a.vex(VMOVUPS_LOAD, one, Zmm(0), at);
            self.a.vex(VPSUBD, one, one, first);
            self.a.vex(VPMAXUD, highest, highest, one);
        }
        let last = first;
        self.a.vex_number(VMOVD_FROM, 1, Gpr::R10 as u8);
        self.a.vex(VPBROADCASTD_VEX, last, Zmm(0), last);
        self.a.vex(VPMAXUD, highest, highest, last);
        self.a.vex(VPXORD, highest, highest, last);
        self.leave_if_any_bit(highest, cold.entry);
    }

    /// Goes on where the elements of all lanes follow each other, and to `others` where they do not: the bytes of all. The first one's
    /// address is made for [`Self::translate`].
    fn in_a_row(&mut self, d: &Di, (low, size): (u32, u32), others: Label, cold: &Cold) -> u32 {
        self.base_of(d, cold);
        self.a.load(Integer::Mov, false, Gpr::Rax, Self::eight(low, 0));
        self.first_of(Zmm(0), low, 0);
        self.leave_unless_like(low, self.eights(), Some(size), others);
        let all = size * 32 * self.halves;
        self.a.immediate(Integer::Cmp, false, Gpr::Rax, u32::MAX - all);
        self.a.jump_if(Condition::Above, cold.entry);
        self.add_offset(d);
        all
    }

    /// An element for each lane.
    fn load_global(&mut self, moves: Moves, d: &Di) {
        let (low, size) = (d.src[0].value, bytes(moves));
        let cold = self.leave();
        let (done, others) = (self.a.label(), self.a.label());
        let all = self.in_a_row(d, (low, size), others, &cold);
        // Of three dwords four are read.
        self.translate(all + if size == 12 { 4 } else { 0 }, false, &cold);
        for eight in self.eights().rev() {
            self.load_eight(moves, Places::Run(Gpr::Rdx, 0, size as i32), d.dst, eight);
        }
        self.a.jump(done);
        self.a.bind(others);
        if let Moves::Dwords(dwords) = moves {
            let others = self.a.label();
            self.leave_unless_like(low, self.eights(), None, others);
            self.add_offset(d);
            self.translate(size, false, &cold);
            self.load_everywhere(Gpr::Rdx, dwords, d.dst, self.eights());
            self.a.jump(done);
            self.a.bind(others);
        }
        if self.halves == 2 {
            self.load_by_halves(moves, d, (done, &cold));
        }
        // Of three dwords four are read, of parts whole ones.
        let read = if size == 12 { 16 } else { size.max(4) };
        self.in_one_span(d, low, (read, false), &cold);
        for eight in self.eights().rev() {
            self.load_eight(moves, Places::Span(low), d.dst, eight);
        }
        self.a.bind(done);
        self.come_back(cold);
    }

    /// Elements that follow each other, or are one element, in each half by itself; code goes on after this if they
    /// do not.
    fn load_by_halves(&mut self, moves: Moves, d: &Di, (done, cold): (Label, &Cold)) {
        let (low, size) = (d.src[0].value, bytes(moves));
        for same in [false, true] {
            let dwords = match moves {
                Moves::Dwords(dwords) => dwords,
                _ if same => continue,
                _ => 1,
            };
            let others = self.a.label();
            for half in 0..2 {
                self.first_of(Zmm(0), low, half * 4);
                let step = (!same).then_some(size);
                self.leave_unless_like(low, half * 4..half * 4 + 4, step, others);
            }
            let all = if same { size } else { size * 32 };
            // Both are translated before any register changes.
            self.a.integer(Integer::Mov, true, Gpr::Rsi, Gpr::Rdx);
            for half in 0..2 {
                self.a.load(Integer::Mov, false, Gpr::Rax, Self::eight(low, half * 4));
                self.a.immediate(Integer::Cmp, false, Gpr::Rax, u32::MAX - all);
                self.a.jump_if(Condition::Above, cold.entry);
                if half == 1 {
                    self.a.integer(Integer::Mov, true, Gpr::R8, Gpr::Rdx);
                    self.a.integer(Integer::Mov, true, Gpr::Rdx, Gpr::Rsi);
                }
                self.add_offset(d);
                self.translate(all + if size == 12 && !same { 4 } else { 0 }, false, cold);
            }
            for (base, half) in [(Gpr::Rdx, 1), (Gpr::R8, 0)] {
                let eights = half * 4..half * 4 + 4;
                if same {
                    self.load_everywhere(base, dwords, d.dst, eights);
                } else {
                    for eight in eights.rev() {
                        let places = Places::Run(base, half * 4, size as i32);
                        self.load_eight(moves, places, d.dst, eight);
                    }
                }
            }
            self.a.jump(done);
            self.a.bind(others);
        }
    }

    /// An element of each lane.
    fn store_global(&mut self, moves: Moves, d: &Di) {
        let (low, size) = (d.src[0].value, bytes(moves));
        let cold = self.leave();
        let (done, others) = (self.a.label(), self.a.label());
        match moves {
            Moves::Dwords(dwords) if !self.masked => {
                let all = self.in_a_row(d, (low, size), others, &cold);
                self.translate(all, true, &cold);
                for eight in self.eights() {
                    self.store_eight(dwords, Places::Run(Gpr::Rdx, 0, size as i32), d.src[1].value, eight);
                }
                self.a.jump(done);
                self.a.bind(others);
                self.in_one_span(d, low, (size, true), &cold);
                for eight in self.eights() {
                    self.store_eight(dwords, Places::Span(low), d.src[1].value, eight);
                }
            }
            _ => {
                if self.masked {
                    self.leave_out_none(done);
                    self.look_at_each_in_span(d, (size, 1), &cold);
                } else {
                    self.base_of(d, &cold);
                    self.a.load(Integer::Mov, false, Gpr::Rax, Self::eight(low, 0));
                    self.in_one_span(d, low, (size, true), &cold);
                }
                self.a.integer(Integer::Mov, true, Gpr::R8, Gpr::Rdx);
                self.a.integer(Integer::Sub, true, Gpr::R8, Gpr::Rax);
                let targets = Targets { row: low, offset: 0, base: Gpr::R8 };
                self.store_each(moves, targets, d.src[1].value);
            }
        }
        self.a.bind(done);
        self.come_back(cold);
    }
}
