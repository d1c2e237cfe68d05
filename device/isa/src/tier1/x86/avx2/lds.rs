//! Loads and stores of LDS in waves that have all lanes, where all elements are in range. Everything else is left to the handler.

use core::mem::offset_of;

use crate::exec::di::{Di, Kind};
use crate::exec::properties::Moves;
use crate::tier1::analysis::elements::{bytes, registers};
use crate::tier1::x86::asm::{At, Condition, Gpr, Integer, Operand, Zmm};
use crate::tier1::x86::avx512::lds::{HAS_LOADED, MUST_STOP};
use crate::tier1::x86::body::{Body, Cold, WAVE};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::lane_stores::Targets;
use crate::wave::Wave;

use super::elements::Places;
use super::opcodes::*;

/// Returns true if the `registers` registers that an element writes may overlap those of its address.
pub(super) fn overlaps(d: &Di, registers: u32) -> bool {
    let address = &d.src[0];
    // Registers of waves of 64 lanes take two rows.
    address.kind == Kind::Vector && address.value < d.dst + 2 * registers && d.dst < address.value + 2
}

impl Body<'_> {
    /// Leaves if an element is out of range, or at an address that wraps.
    pub(super) fn leave_unless_in_lds(&mut self, row: u32, offsets: &[u32], cold: &Cold) {
        let (last, most) = (Zmm(0), Zmm(1));
        let furthest = offsets.iter().copied().max().unwrap_or_default();
        if furthest > 0 {
            self.a.immediate(Integer::Sub, false, Gpr::R10, furthest);
            self.a.jump_if(Condition::Below, cold.entry);
        }
        self.a.vex_number(VMOVD_FROM, last.0, Gpr::R10 as u8);
        self.a.vex(VPBROADCASTD_VEX, last, Zmm(0), last);
        for eight in self.eights() {
            let from = if eight == 0 { last } else { most };
            self.a.vex(VPMAXUD, most, from, Operand::Memory(Self::eight(row, eight)));
        }
        self.a.vex(VPXORD, most, most, last);
        self.leave_if_any_bit(most, cold.entry);
    }

    /// The host address in `Rdx` of what is at an offset from the first of eight lanes.
    fn lds_at(&mut self, row: u32, eight: i32, offset: u32) {
        self.a.load(Integer::Mov, false, Gpr::Rax, Self::eight(row, eight));
        self.lds_place(Gpr::Rdx, offset);
        self.a.integer(Integer::Add, true, Gpr::Rdx, Gpr::R9);
    }

    /// An element for each lane, or several of them.
    pub(super) fn load_lds(&mut self, moves: Moves, d: &Di, offsets: &[u32]) {
        let (row, size) = (d.src[0].value, bytes(moves));
        let cold = self.leave();
        self.a.byte_immediate(1, At(WAVE, offset_of!(Wave, lds_order) as i32), HAS_LOADED);
        self.lds(size, &cold);
        self.leave_unless_in_lds(row, offsets, &cold);
        let part = registers(moves) * self.halves;
        let to = |n: usize| d.dst + n as u32 * part;
        let (done, others) = (self.a.label(), self.a.label());
        self.first_of(Zmm(0), row, 0);
        self.leave_unless_like(row, self.eights(), Some(size), others);
        for (n, &offset) in offsets.iter().enumerate() {
            self.lds_at(row, 0, offset);
            for eight in self.eights() {
                self.load_eight(moves, Places::Run(Gpr::Rdx, 0, size as i32), to(n), eight);
            }
        }
        self.a.jump(done);
        self.a.bind(others);
        if let Moves::Dwords(dwords) = moves {
            // One element for all lanes of each eight.
            let others = self.a.label();
            let (differs, one) = (Zmm(1), Zmm(2));
            for eight in self.eights() {
                let to = if eight == 0 { differs } else { one };
                self.first_of(to, row, eight);
                self.a.vex(VPXORD, to, to, Operand::Memory(Self::eight(row, eight)));
                if eight > 0 {
                    self.a.vex(VPORD, differs, differs, one);
                }
            }
            self.leave_if_any_bit(differs, others);
            for eight in self.eights() {
                for (n, &offset) in offsets.iter().enumerate() {
                    self.lds_at(row, eight, offset);
                    self.load_everywhere(Gpr::Rdx, dwords, to(n), eight..eight + 1);
                }
            }
            self.a.jump(done);
            self.a.bind(others);
        }
        if let Moves::Dwords(dwords) = moves {
            // The same elements for each sixteen lanes, as matrix kernels have them.
            let others = self.a.label();
            let (differs, one) = (Zmm(1), Zmm(2));
            for eight in self.eights().skip(2) {
                let to = if eight == 2 { differs } else { one };
                self.a.vex(VMOVUPS_LOAD, to, Zmm(0), Operand::Memory(Self::eight(row, eight)));
                self.a.vex(VPXORD, to, to, Operand::Memory(Self::eight(row, eight & 1)));
                if eight > 2 {
                    self.a.vex(VPORD, differs, differs, one);
                }
            }
            self.leave_if_any_bit(differs, others);
            for eight in [0, 1] {
                for (n, &offset) in offsets.iter().enumerate() {
                    self.a.address(Gpr::R8, At(Gpr::R9, offset as i32));
                    self.load_eight(moves, Places::Lds(Gpr::R8, row), to(n), eight);
                    for register in 0..dwords {
                        for other in self.eights().skip(2).filter(|other| other & 1 == eight) {
                            let at = Self::eight(to(n) + register * self.halves, other);
                            let from = Zmm(register as u8);
                            self.a.vex(VMOVUPS_STORE, from, Zmm(0), Operand::Memory(at));
                        }
                    }
                }
            }
            self.a.jump(done);
            self.a.bind(others);
        }
        for (n, &offset) in offsets.iter().enumerate() {
            self.a.address(Gpr::R8, At(Gpr::R9, offset as i32));
            for eight in self.eights() {
                self.load_eight(moves, Places::Lds(Gpr::R8, row), to(n), eight);
            }
        }
        self.a.bind(done);
        self.come_back(cold);
    }

    /// Elements of each lane at offsets, from rows; all of the first ones are stored before any second one.
    pub(super) fn store_lds(&mut self, moves: Moves, d: &Di, parts: &[(u32, u32)]) {
        let (row, size) = (d.src[0].value, bytes(moves));
        let offsets: Vec<u32> = parts.iter().map(|&(offset, _)| offset).collect();
        let cold = self.leave();
        self.a.byte_immediate(7, At(WAVE, offset_of!(Wave, lds_order) as i32), MUST_STOP);
        self.a.jump_if(Condition::Equal, cold.entry);
        let (done, others) = (self.a.label(), self.a.label());
        self.leave_out_none(done);
        self.lds(size, &cold);
        match moves {
            Moves::Dwords(dwords) if !self.masked => {
                self.leave_unless_in_lds(row, &offsets, &cold);
                self.first_of(Zmm(0), row, 0);
                self.leave_unless_like(row, self.eights(), Some(size), others);
                for &(offset, src) in parts {
                    self.lds_at(row, 0, offset);
                    for eight in self.eights() {
                        self.store_eight(dwords, Places::Run(Gpr::Rdx, 0, size as i32), src, eight);
                    }
                }
                self.a.jump(done);
                self.a.bind(others);
                for &(offset, src) in parts {
                    self.a.address(Gpr::R8, At(Gpr::R9, offset as i32));
                    for eight in self.eights() {
                        self.store_eight(dwords, Places::Lds(Gpr::R8, row), src, eight);
                    }
                }
            }
            _ => {
                if self.masked {
                    offsets.iter().for_each(|&offset| self.look_at_each_in_lds(d, (offset, 1), &cold));
                } else {
                    self.leave_unless_in_lds(row, &offsets, &cold);
                }
                for &(offset, src) in parts {
                    self.store_each(moves, Targets { row, offset, base: Gpr::R9 }, src);
                }
            }
        }
        self.a.bind(done);
        self.come_back(cold);
    }
}
