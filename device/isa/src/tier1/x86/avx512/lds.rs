//! Loads and stores of LDS, where all active lanes' elements are in range. Everything else is left to the handler.

use core::mem::offset_of;

use super::elements::apart;
use super::masks::{DIFFERENT, GREATER};
use super::rows::Pair;
use crate::exec::Lds;
use crate::exec::di::{Di, Machine};
use crate::exec::properties::Moves;
use crate::tier1::analysis::elements::{bytes, registers};
use crate::tier1::x86::asm::{At, Condition, Gpr, Integer, K0, Label, Operand, Zmm};
use crate::tier1::x86::body::{Body, Cold, MACHINE, WAVE};
use crate::tier1::x86::encoding::*;
use crate::tier1::x86::lane_stores::Targets;
use crate::wave::Wave;

/// Bit of the wave's order of LDS accesses.
pub(crate) const HAS_LOADED: u8 = 2;
/// Bits of the order that stay at a barrier: whether the wave takes turns.
pub(crate) const AT_BARRIER: u8 = 1;
/// State in which the wave takes turns, and has loaded and not stopped since.
pub(crate) const MUST_STOP: u8 = 3;
/// Set if the wave has stopped since the last barrier.
pub(crate) const HAS_STOPPED: u8 = 4;

impl Body<'_> {
    /// The last address in LDS that `bytes` fit at in `R10`, LDS itself in `R9`.
    pub(crate) fn lds(&mut self, bytes: u32, cold: &Cold) {
        self.lds_storage(Gpr::R10);
        self.a.immediate(Integer::Sub, false, Gpr::R10, bytes);
        self.a.jump_if(Condition::Below, cold.entry);
    }

    /// LDS itself in `R9`, its bytes in another register; `R8` is used.
    pub(crate) fn lds_storage(&mut self, size: Gpr) {
        self.a.load(Integer::Mov, true, Gpr::R8, At(MACHINE, offset_of!(Machine<'_>, lds) as i32));
        self.a.load(Integer::Mov, true, Gpr::R9, At(Gpr::R8, Lds::STORAGE as i32));
        self.a.load(Integer::Mov, false, size, At(Gpr::R8, Lds::SIZE as i32));
    }

    /// The address of a chunk's first lane in `to`; leaves if that is out of range.
    fn lds_address(&mut self, (to, from): (Gpr, Zmm), d: &Di, cold: &Cold) {
        self.a.first_lane(to, from);
        if d.imm != 0 {
            self.a.immediate(Integer::Add, false, to, d.imm);
        }
        self.a.integer(Integer::Cmp, false, to, Gpr::R10);
        self.a.jump_if(Condition::Above, cold.entry);
    }

    /// Leaves if the place `bytes` after the address in a register is out of range.
    fn leave_out_of_range(&mut self, from: Gpr, bytes: i32, cold: &Cold) {
        self.a.address(Gpr::Rcx, At(from, bytes));
        self.a.integer(Integer::Cmp, false, Gpr::Rcx, Gpr::R10);
        self.a.jump_if(Condition::Above, cold.entry);
    }

    /// Leaves if an element of an active lane is out of range.
    fn leave_unless_inside(&mut self, address: &[Pair], offsets: &[u32], cold: &Cold) {
        self.a.everywhere(Zmm(3), Gpr::R10);
        for &offset in offsets {
            for (half, chunk) in self.sixteens() {
                self.a.evex(VPADDD, Zmm(1), address[half as usize].chunk(chunk), Operand::Constant(offset));
                self.unlike(VPCMPUD.by(GREATER), Zmm(1), Zmm(3), (half, chunk));
            }
            self.leave_if_unlike(cold.entry);
        }
    }

    /// The host address of an element in `to`, of the address in `Rax`.
    pub(crate) fn lds_place(&mut self, to: Gpr, offset: u32) {
        self.a.integer(Integer::Mov, false, to, Gpr::Rax);
        if offset != 0 {
            self.a.immediate(Integer::Add, false, to, offset);
        }
    }

    /// Leaves for `others` unless elements follow each other, and if they do, the way for good if any is out of range.
    fn lds_run(&mut self, address: &[Pair], bytes: u32, offsets: &[u32], (others, cold): (Label, &Cold)) {
        self.first_active(address, Zmm(0), Gpr::Rax);
        self.leave_unless_apart(address, bytes, others);
        for &offset in offsets {
            self.lds_place(Gpr::Rdx, offset);
            self.a.integer(Integer::Cmp, false, Gpr::Rdx, Gpr::R10);
            self.a.jump_if(Condition::Above, cold.entry);
            let last = (32 * self.halves - 1) * bytes;
            self.leave_out_of_range(Gpr::Rdx, last as i32, cold);
        }
    }

    /// An element for each lane.
    pub(crate) fn lds_load(&mut self, moves: Moves, d: &Di) {
        self.lds_loads(moves, d, &[d.imm]);
    }

    /// Two elements for each lane.
    pub(crate) fn lds_load_two(&mut self, dwords: u32, d: &Di) {
        self.lds_loads(Moves::Dwords(dwords), d, &[d.imm, d.dst2]);
    }

    fn lds_loads(&mut self, moves: Moves, d: &Di, offsets: &[u32]) {
        let address = self.register_rows(d.src[0].value);
        let all = registers(moves) * offsets.len() as u32;
        self.load_kept(moves, d.dst, all);
        let cold = self.leave();
        let to = self.define_all(d.dst, all);
        self.a.byte_immediate(1, At(WAVE, offset_of!(Wave, lds_order) as i32), HAS_LOADED);
        self.lds(bytes(moves), &cold);
        let (others, done) = (self.a.label(), self.a.label());
        let one = offsets.len() == 1 && self.halves == 1;
        let parts = to.len() / offsets.len();
        let sixteens: Vec<_> = self.sixteens().collect();
        if self.masked {
            self.leave_unless_inside(&address, offsets, &cold);
        } else if let (true, Moves::Dwords(dwords)) = (one, moves) {
            self.lds_load_one(dwords, d, (address[0], &to), (others, done, &cold));
            self.a.bind(others);
            self.leave_unless_inside(&address, offsets, &cold);
        } else {
            self.lds_run(&address, bytes(moves), offsets, (others, &cold));
            for (to, &offset) in to.chunks(parts).zip(offsets) {
                self.lds_place(Gpr::Rdx, offset);
                self.a.integer(Integer::Add, true, Gpr::Rdx, Gpr::R9);
                self.load_elements(Gpr::Rdx, moves, to);
            }
            self.a.jump(done);
            self.a.bind(others);
            self.leave_unless_inside(&address, offsets, &cold);
            if let Moves::Dwords(_) = moves {
                // One element for all lanes of each sixteen.
                let others = self.a.label();
                for &lanes in &sixteens {
                    let row = address[lanes.0 as usize].chunk(lanes.1);
                    self.a.evex(VPBROADCASTD, Zmm(1), Zmm(0), row);
                    self.unlike(VPCMPUD.by(DIFFERENT), row, Zmm(1), lanes);
                }
                self.leave_if_unlike(others);
                for &lanes in &sixteens {
                    self.a.first_lane(Gpr::Rax, address[lanes.0 as usize].chunk(lanes.1));
                    for (to, &offset) in to.chunks(parts).zip(offsets) {
                        self.lds_place(Gpr::Rdx, offset);
                        self.a.integer(Integer::Add, true, Gpr::Rdx, Gpr::R9);
                        self.load_same_of(Gpr::Rdx, to, &[lanes]);
                    }
                }
                self.a.jump(done);
                self.a.bind(others);
                self.lds_repeated(moves, (&address, &to), offsets, done);
            }
        }
        for &lanes in &sixteens {
            // The address may be in a register that is loaded.
            self.a.evex(VMOVDQA32, Zmm(1), Zmm(0), address[lanes.0 as usize].chunk(lanes.1));
            for (to, &offset) in to.chunks(parts).zip(offsets) {
                let to = self.of_half(to, lanes.0);
                self.gather_sixteen((Gpr::R9, offset, Zmm(1)), moves, &to, lanes);
            }
        }
        self.a.bind(done);
        self.come_back(cold);
    }

    /// The same elements for each sixteen, which are gathered once; goes on elsewhere where they are not.
    fn lds_repeated(
        &mut self,
        moves: Moves,
        (address, to): (&[Pair], &[Pair]),
        offsets: &[u32],
        done: Label,
    ) {
        let others = self.a.label();
        let first = address[0].chunk(0);
        for lanes in self.sixteens() {
            self.unlike(VPCMPUD.by(DIFFERENT), address[lanes.0 as usize].chunk(lanes.1), first, lanes);
        }
        self.leave_if_unlike(others);
        // The address may be in a register that is loaded.
        self.a.evex(VMOVDQA32, Zmm(1), Zmm(0), first);
        for (to, &offset) in to.chunks(to.len() / offsets.len()).zip(offsets) {
            let own = self.of_half(to, 0);
            self.gather_sixteen((Gpr::R9, offset, Zmm(1)), moves, &own, (0, 0));
            for (half, chunk) in self.sixteens().skip(1) {
                for (to, from) in self.of_half(to, half).into_iter().zip(&own) {
                    self.put(to.chunk(chunk), from.chunk(0), K0);
                }
            }
        }
        self.a.jump(done);
        self.a.bind(others);
    }

    /// Dwords for each of 32 lanes: the same for all lanes of a chunk, or as matrix kernels have them; `others` is for the rest.
    fn lds_load_one(
        &mut self,
        dwords: u32,
        d: &Di,
        (address, to): (Pair, &[Pair]),
        (others, done, cold): (Label, Label, &Cold),
    ) {
        self.lds_address((Gpr::Rax, address.chunk(0)), d, cold);
        self.lds_address((Gpr::Rdx, address.chunk(1)), d, cold);
        self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), address.chunk(0));
        self.a.evex(VPBROADCASTD, Zmm(1), Zmm(0), address.chunk(1));
        for (lanes, first) in [((0, 0), Zmm(0)), ((0, 1), Zmm(1))] {
            self.unlike(VPCMPUD.by(DIFFERENT), address.chunk(lanes.1), first, lanes);
        }
        let different = self.a.label();
        self.leave_if_unlike(different);
        for (chunk, base) in [(0, Gpr::Rax), (1, Gpr::Rdx)] {
            self.a.integer(Integer::Add, true, base, Gpr::R9);
            self.load_same_of(base, to, &[(0, chunk)]);
        }
        self.a.jump(done);
        self.a.bind(different);
        if dwords == 3 {
            return;
        }
        let pairs = if dwords == 2 { self.a.label() } else { others };
        self.leave_unless_apart(&[address], dwords * 4, pairs);
        self.leave_out_of_range(Gpr::Rax, dwords as i32 * 124, cold);
        self.a.integer(Integer::Add, true, Gpr::Rax, Gpr::R9);
        self.load_elements(Gpr::Rax, Moves::Dwords(dwords), to);
        self.a.jump(done);
        if let [first, second] = *to {
            self.a.bind(pairs);
            // Both chunks the same pairs, sixteen bytes apart.
            self.a.evex(VPADDD, Zmm(1), Zmm(0), Operand::Words(*apart(16)));
            for lanes in [(0, 0), (0, 1)] {
                self.unlike(VPCMPUD.by(DIFFERENT), address.chunk(lanes.1), Zmm(1), lanes);
            }
            self.leave_if_unlike(others);
            self.leave_out_of_range(Gpr::Rax, 240, cold);
            self.a.integer(Integer::Add, true, Gpr::Rax, Gpr::R9);
            self.load_pairs_of_fours(Gpr::Rax, [first, second], 0);
            for to in [first, second] {
                self.put(to.chunk(1), to.chunk(0), K0);
            }
            self.a.jump(done);
        }
    }

    /// An element of each lane.
    pub(crate) fn lds_store(&mut self, moves: Moves, d: &Di) {
        self.lds_stores(moves, d, &[(d.imm, d.src[1].value)]);
    }

    /// Two elements of each lane, the first ones first.
    pub(crate) fn lds_store_two(&mut self, dwords: u32, d: &Di) {
        let parts = [(d.imm, d.src[1].value), (d.dst2, d.src[2].value)];
        self.lds_stores(Moves::Dwords(dwords), d, &parts);
    }

    fn lds_stores(&mut self, moves: Moves, d: &Di, parts: &[(u32, u32)]) {
        let address = self.register_rows(d.src[0].value);
        let scatters = moves == Moves::Dwords(1);
        let mut data: Vec<Vec<Pair>> = Vec::new();
        // Of some lanes, other elements than dwords are stored from memory.
        let from_registers = scatters || !self.masked;
        for &(_, row) in parts.iter().filter(|_| from_registers) {
            data.push((0..registers(moves) * self.halves).map(|n| self.load_row(row + n)).collect());
        }
        let offsets: Vec<u32> = parts.iter().map(|&(offset, _)| offset).collect();
        let cold = self.leave();
        self.a.byte_immediate(7, At(WAVE, offset_of!(Wave, lds_order) as i32), MUST_STOP);
        self.a.jump_if(Condition::Equal, cold.entry);
        let (others, done) = (self.a.label(), self.a.label());
        if !scatters {
            self.leave_out_none(done);
        }
        self.lds(bytes(moves), &cold);
        if !self.masked {
            self.lds_run(&address, bytes(moves), &offsets, (others, &cold));
            for (from, &offset) in data.iter().zip(&offsets) {
                self.lds_place(Gpr::Rdx, offset);
                self.a.integer(Integer::Add, true, Gpr::Rdx, Gpr::R9);
                self.store_elements(Gpr::Rdx, moves, from);
            }
            self.a.jump(done);
        }
        self.a.bind(others);
        self.leave_unless_inside(&address, &offsets, &cold);
        if scatters {
            for (from, &offset) in data.iter().zip(&offsets) {
                self.a.address(Gpr::Rdx, At(Gpr::R9, offset as i32));
                for (half, chunk) in self.sixteens() {
                    let index = address[half as usize].chunk(chunk);
                    self.scatter_sixteen(Gpr::Rdx, index, from[half as usize].chunk(chunk), (half, chunk));
                }
            }
        } else {
            // Where elements overlap, all of the highest lane's is left.
            self.copy_rows_to_memory();
            for &(offset, from) in parts {
                self.store_each(moves, Targets { row: d.src[0].value, offset, base: Gpr::R9 }, from);
            }
        }
        self.a.bind(done);
        self.come_back(cold);
    }
}
