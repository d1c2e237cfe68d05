//! Loads and stores of all lanes of a wave with one half, where the lanes' addresses lie as they mostly do. Everything else is
//! left to the handler: other patterns, pages that are not in the TLB, addresses out of range.

use core::mem::offset_of;

use super::asm::{At, Condition, Gpr, Integer, K0, Label, Mask, Operand, Zmm};
use super::body::{Body, Cold, MACHINE, WAVE, scalar};
use super::encoding::*;
use super::masks::SAME;
use super::rows::Pair;
use crate::exec::Lds;
use crate::exec::di::{Di, Machine};
use crate::mem::{Global, Tlb, TlbEntry};
use crate::wave::Wave;

/// Masks for comparisons of both chunks.
const FIRST: Mask = Mask(5);
const SECOND: Mask = Mask(6);

const fn steps(first: u32, step: u32) -> [u32; 16] {
    let mut steps = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        steps[lane] = first + lane as u32 * step;
        lane += 1;
    }
    steps
}

/// Addresses of 32 dwords, relative to the first.
static DWORDS: [[u32; 16]; 2] = [steps(0, 4), steps(64, 4)];
/// The same of elements of two dwords.
static PAIRS: [[u32; 16]; 2] = [steps(0, 8), steps(128, 8)];
/// The same of elements of four dwords.
static FOURS: [[u32; 16]; 2] = [steps(0, 16), steps(256, 16)];

/// Addresses of 32 elements of so many dwords.
fn apart(dwords: u32) -> [&'static [u32; 16]; 2] {
    match dwords {
        1 => DWORDS.each_ref(),
        2 => PAIRS.each_ref(),
        _ => FOURS.each_ref(),
    }
}

/// Of eight elements of four dwords in two registers, the first and the second dwords, or the third and the fourth ones.
static PICK_OF_FOUR: [[u32; 16]; 2] = [two_of_four(0), two_of_four(2)];
/// Of sixteen pairs in two registers, the first dwords, or the second ones.
static PICK: [[u32; 16]; 2] = [steps(0, 2), steps(1, 2)];
/// Dwords of two registers in turn: of the first eight lanes, or the others.
static MIX: [[u32; 16]; 2] = [in_turn(0, 1), in_turn(8, 1)];
/// Pairs of dwords of two registers in turn.
static MIX_PAIRS: [[u32; 16]; 2] = [in_turn(0, 2), in_turn(8, 2)];

const fn two_of_four(first: u32) -> [u32; 16] {
    let mut pick = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        pick[lane] = first + (lane as u32 & 7) * 4 + lane as u32 / 8;
        lane += 1;
    }
    pick
}

/// Groups of `size` dwords in turn of two registers, from a lane on.
const fn in_turn(from: u32, size: u32) -> [u32; 16] {
    let mut pick = [0; 16];
    let mut lane = 0;
    while lane < 16 {
        let (group, within) = (lane as u32 / size, lane as u32 % size);
        pick[lane] = from + group / 2 * size + within + (group & 1) * 16;
        lane += 1;
    }
    pick
}

/// Bit of the wave's order of LDS accesses.
const HAS_LOADED: u8 = 2;
/// It takes turns, and has loaded and not stopped since.
const MUST_STOP: u8 = 3;

impl Body<'_> {
    /// Leaves unless both masks have all lanes.
    fn leave_unless_all(&mut self, to: Label) {
        self.a.mask(KANDW, FIRST, FIRST, SECOND);
        self.a.mask(KORTESTW, FIRST, Mask(0), FIRST);
        self.a.jump_if(Condition::AboveOrEqual, to);
    }

    fn leave_if(&mut self, condition: Condition, cold: &Cold) {
        self.a.jump_if(condition, cold.entry);
    }

    /// Compares both chunks of a row with `first` (all lanes the row's first) plus `steps`.
    fn compare_steps(&mut self, row: Pair, first: Zmm, steps: [&'static [u32; 16]; 2]) {
        for (chunk, mask) in [(0, FIRST), (1, SECOND)] {
            self.a.evex(VPADDD, Zmm(1), first, Operand::Words(steps[usize::from(chunk)]));
            self.a.compare(VPCMPUD.by(SAME), mask, row.chunk(chunk), Zmm(1), K0);
        }
    }

    fn compare_all(&mut self, row: Pair, first: Zmm) {
        for (chunk, mask) in [(0, FIRST), (1, SECOND)] {
            self.a.compare(VPCMPUD.by(SAME), mask, row.chunk(chunk), first, K0);
        }
    }

    /// The base of a global address, without the row's first lane: in `Rdx`.
    fn global_base(&mut self, d: &Di, cold: &Cold) {
        if d.dst2 == 2 {
            // GLOBAL with SADDR.
            match d.src[2].kind {
                crate::exec::di::Kind::Scalar => {
                    self.a.load(Integer::Mov, true, Gpr::Rdx, scalar(d.src[2].value));
                }
                _ => self.a.immediate(Integer::Mov, false, Gpr::Rdx, d.src[2].value),
            }
        } else {
            let high = self.load_row(d.src[0].value + 1);
            self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), high.chunk(0));
            self.compare_all(high, Zmm(0));
            self.leave_unless_all(cold.entry);
            self.a.first_lane(Gpr::Rdx, high.chunk(0));
            self.a.shift_by(4, true, Gpr::Rdx, 32);
        }
    }

    /// The host address for `bytes` at the GPU virtual address in `Rdx`, there.
    pub(super) fn translate(&mut self, bytes: u32, write: bool, cold: &Cold) {
        let (address, page, entry, other) = (Gpr::Rdx, Gpr::Rcx, Gpr::R9, Gpr::R10);
        let a = &mut self.a;
        a.integer(Integer::Mov, false, page, address);
        a.immediate(Integer::And, false, page, 0xfff);
        a.immediate(Integer::Cmp, false, page, 0x1000 - bytes);
        a.jump_if(Condition::Above, cold.entry);
        a.integer(Integer::Mov, true, page, address);
        a.shift_by(5, true, page, 12);
        // As the TLB finds its entry of a page.
        a.integer(Integer::Mov, true, entry, page);
        for shift in Tlb::MIX {
            a.integer(Integer::Mov, true, other, page);
            a.shift_by(5, true, other, shift);
            a.integer(Integer::Xor, true, entry, other);
        }
        a.immediate(Integer::And, false, entry, Tlb::ENTRIES as u32 - 1);
        const { assert!(size_of::<TlbEntry>() == 24, "an entry is three words") };
        a.integer(Integer::Mov, true, other, entry);
        a.integer(Integer::Add, true, entry, entry);
        a.integer(Integer::Add, true, entry, other);
        a.shift_by(4, true, entry, 3);
        let tlb = offset_of!(Machine<'_>, global) + offset_of!(Global<'_>, tlb);
        a.load(Integer::Mov, true, other, At(MACHINE, tlb as i32));
        a.load(Integer::Add, true, entry, At(other, offset_of!(Tlb, entries) as i32));
        let tag = if write { offset_of!(TlbEntry, write) } else { offset_of!(TlbEntry, read) };
        a.load(Integer::Cmp, true, page, At(entry, tag as i32));
        a.jump_if(Condition::NotEqual, cold.entry);
        a.load(Integer::Add, true, address, At(entry, offset_of!(TlbEntry, delta) as i32));
    }

    /// Adds the row's first lane, in `Rax`, and the offset of the instruction.
    fn add_offset(&mut self, d: &Di) {
        self.a.integer(Integer::Add, true, Gpr::Rdx, Gpr::Rax);
        if d.imm != 0 {
            self.a.immediate(Integer::Add, true, Gpr::Rdx, d.imm);
        }
    }

    /// Leaves where 32 elements from the row's first address on wrap its low half.
    fn leave_where_low_half_wraps(&mut self, dwords: u32, cold: &Cold) {
        self.a.immediate(Integer::Cmp, false, Gpr::Rax, u32::MAX - dwords * 128);
        self.leave_if(Condition::Above, cold);
    }

    /// An element of so many dwords for each lane, one after the other or all the same.
    pub(super) fn global_load(&mut self, dwords: u32, d: &Di) {
        let low = self.load_row(d.src[0].value);
        if d.dst2 != 2 {
            self.load_row(d.src[0].value + 1);
        }
        let cold = self.leave();
        let to: Vec<Pair> = (0..dwords).map(|n| self.define(d.dst + n)).collect();
        self.global_base(d, &cold);
        self.a.first_lane(Gpr::Rax, low.chunk(0));
        self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), low.chunk(0));
        self.compare_steps(low, Zmm(0), apart(dwords));
        let (same, done) = (self.a.label(), self.a.label());
        self.leave_unless_all(same);
        self.leave_where_low_half_wraps(dwords, &cold);
        self.add_offset(d);
        self.translate(dwords * 128, false, &cold);
        self.load_elements(Gpr::Rdx, &to);
        if dwords == 1 {
            // What the next wave loads with this instruction.
            self.a.prefetch(At(Gpr::Rdx, 128));
            self.a.prefetch(At(Gpr::Rdx, 192));
        }
        self.a.jump(done);
        self.a.bind(same);
        self.compare_all(low, Zmm(0));
        self.leave_unless_all(cold.entry);
        self.add_offset(d);
        self.translate(dwords * 4, false, &cold);
        for (n, to) in to.iter().enumerate() {
            self.a.evex(VPBROADCASTD, to.chunk(0), Zmm(0), Operand::Splat(At(Gpr::Rdx, n as i32 * 4)));
            self.a.evex(VMOVDQA32, to.chunk(1), Zmm(0), to.chunk(0));
        }
        self.a.bind(done);
        self.come_back(cold);
    }

    /// Rows from elements that follow each other from `base` on.
    fn load_elements(&mut self, base: Gpr, to: &[Pair]) {
        let at = |n: usize| Operand::Memory(At(base, n as i32 * 64));
        for chunk in 0..2 {
            let first = usize::from(chunk) * to.len();
            match *to {
                [to] => self.a.evex(VMOVUPS_LOAD, to.chunk(chunk), Zmm(0), at(first)),
                [even, odd] => {
                    self.a.evex(VMOVUPS_LOAD, Zmm(0), Zmm(0), at(first));
                    for (to, pick) in [(even, &PICK[0]), (odd, &PICK[1])] {
                        self.a.evex(VMOVUPS_LOAD, Zmm(1), Zmm(0), Operand::Words(pick));
                        self.a.evex(VPERMI2D, Zmm(1), Zmm(0), at(first + 1));
                        self.a.evex(VMOVDQA32, to.chunk(chunk), Zmm(0), Zmm(1));
                    }
                }
                [a, b, c, e] => {
                    for (low, high, pick) in [(a, b, &PICK_OF_FOUR[0]), (c, e, &PICK_OF_FOUR[1])] {
                        for (n, half) in [(0, Zmm(1)), (2, Zmm(2))] {
                            self.a.evex(VMOVUPS_LOAD, Zmm(0), Zmm(0), at(first + n));
                            self.a.evex(VMOVUPS_LOAD, half, Zmm(0), Operand::Words(pick));
                            self.a.evex(VPERMI2D, half, Zmm(0), at(first + n + 1));
                        }
                        self.a.evex(VSHUFI64X2.by(0x44), low.chunk(chunk), Zmm(1), Zmm(2));
                        self.a.evex(VSHUFI64X2.by(0xee), high.chunk(chunk), Zmm(1), Zmm(2));
                    }
                }
                _ => unreachable!("elements have one, two or four dwords"),
            }
        }
    }

    /// Rows to elements that follow each other from `base` on.
    fn store_elements(&mut self, base: Gpr, from: &[Pair]) {
        let at = |n: usize| Operand::Memory(At(base, n as i32 * 64));
        for chunk in 0..2 {
            let first = usize::from(chunk) * from.len();
            match *from {
                [from] => self.a.evex(VMOVUPS_STORE, from.chunk(chunk), Zmm(0), at(first)),
                [even, odd] => {
                    for (n, pick) in MIX.iter().enumerate() {
                        self.mix(Zmm(0), pick, even.chunk(chunk), odd.chunk(chunk));
                        self.a.evex(VMOVUPS_STORE, Zmm(0), Zmm(0), at(first + n));
                    }
                }
                [a, b, c, e] => {
                    for (half, pick) in MIX.iter().enumerate() {
                        self.mix(Zmm(0), pick, a.chunk(chunk), b.chunk(chunk));
                        self.mix(Zmm(1), pick, c.chunk(chunk), e.chunk(chunk));
                        for (n, pairs) in MIX_PAIRS.iter().enumerate() {
                            self.mix(Zmm(2), pairs, Zmm(0), Zmm(1));
                            self.a.evex(VMOVUPS_STORE, Zmm(2), Zmm(0), at(first + half * 2 + n));
                        }
                    }
                }
                _ => unreachable!("elements have one, two or four dwords"),
            }
        }
    }

    /// Dwords of two registers, as `pick` numbers them.
    fn mix(&mut self, to: Zmm, pick: &'static [u32; 16], first: Zmm, second: Zmm) {
        self.a.evex(VMOVUPS_LOAD, to, Zmm(0), Operand::Words(pick));
        self.a.evex(VPERMI2D, to, first, second);
    }

    /// An element of so many dwords of each lane, one after the other.
    pub(super) fn global_store(&mut self, dwords: u32, d: &Di) {
        let low = self.load_row(d.src[0].value);
        if d.dst2 != 2 {
            self.load_row(d.src[0].value + 1);
        }
        let data: Vec<Pair> = (0..dwords).map(|n| self.load_row(d.src[1].value + n)).collect();
        let cold = self.leave();
        self.global_base(d, &cold);
        self.a.first_lane(Gpr::Rax, low.chunk(0));
        self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), low.chunk(0));
        self.compare_steps(low, Zmm(0), apart(dwords));
        self.leave_unless_all(cold.entry);
        self.leave_where_low_half_wraps(dwords, &cold);
        self.add_offset(d);
        self.translate(dwords * 128, true, &cold);
        self.store_elements(Gpr::Rdx, &data);
        self.come_back(cold);
    }

    /// The last address in LDS that `bytes` fit at in `R10`, LDS itself in `R9`.
    fn lds(&mut self, bytes: u32, cold: &Cold) {
        let a = &mut self.a;
        a.load(Integer::Mov, true, Gpr::R8, At(MACHINE, offset_of!(Machine<'_>, lds) as i32));
        a.load(Integer::Mov, true, Gpr::R9, At(Gpr::R8, Lds::STORAGE as i32));
        a.load(Integer::Mov, false, Gpr::R10, At(Gpr::R8, Lds::SIZE as i32));
        a.immediate(Integer::Sub, false, Gpr::R10, bytes);
        a.jump_if(Condition::Below, cold.entry);
    }

    /// The address of a chunk's first lane in `to`; leaves if that is out of range.
    fn lds_address(&mut self, (to, from): (Gpr, Zmm), d: &Di, cold: &Cold) {
        self.a.first_lane(to, from);
        if d.imm != 0 {
            self.a.immediate(Integer::Add, false, to, d.imm);
        }
        self.a.integer(Integer::Cmp, false, to, Gpr::R10);
        self.leave_if(Condition::Above, cold);
    }

    /// Leaves if what is `bytes` behind the address in `Rax` is out of range.
    fn leave_out_of_range(&mut self, bytes: i32, cold: &Cold) {
        self.a.address(Gpr::Rcx, At(Gpr::Rax, bytes));
        self.a.integer(Integer::Cmp, false, Gpr::Rcx, Gpr::R10);
        self.leave_if(Condition::Above, cold);
    }

    /// One or two dwords for each lane of LDS: the same for all lanes of a chunk, or as matrix kernels have them.
    pub(super) fn lds_load(&mut self, dwords: u32, d: &Di) {
        let address = self.load_row(d.src[0].value);
        let cold = self.leave();
        let to: Vec<Pair> = (0..dwords).map(|n| self.define(d.dst + n)).collect();
        self.a.byte_immediate(1, At(WAVE, offset_of!(Wave, lds_order) as i32), HAS_LOADED);
        self.lds(dwords * 4, &cold);
        self.lds_address((Gpr::Rax, address.chunk(0)), d, &cold);
        self.lds_address((Gpr::Rcx, address.chunk(1)), d, &cold);
        self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), address.chunk(0));
        self.a.evex(VPBROADCASTD, Zmm(1), Zmm(0), address.chunk(1));
        self.a.compare(VPCMPUD.by(SAME), FIRST, address.chunk(0), Zmm(0), K0);
        self.a.compare(VPCMPUD.by(SAME), SECOND, address.chunk(1), Zmm(1), K0);
        let (different, done) = (self.a.label(), self.a.label());
        self.leave_unless_all(different);
        for (chunk, base) in [(0, Gpr::Rax), (1, Gpr::Rcx)] {
            self.a.integer(Integer::Add, true, base, Gpr::R9);
            for (n, to) in to.iter().enumerate() {
                let at = At(base, n as i32 * 4);
                self.a.evex(VPBROADCASTD, to.chunk(chunk), Zmm(0), Operand::Splat(at));
            }
        }
        self.a.jump(done);
        self.a.bind(different);
        let others = if dwords == 2 { self.a.label() } else { cold.entry };
        self.compare_steps(address, Zmm(0), apart(dwords));
        self.leave_unless_all(others);
        self.leave_out_of_range(dwords as i32 * 124, &cold);
        self.a.integer(Integer::Add, true, Gpr::Rax, Gpr::R9);
        self.load_elements(Gpr::Rax, &to);
        if let [first, second] = *to {
            self.a.jump(done);
            self.a.bind(others);
            // Both chunks the same pairs, sixteen bytes apart.
            self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), address.chunk(0));
            self.compare_steps(address, Zmm(0), [&FOURS[0], &FOURS[0]]);
            self.leave_unless_all(cold.entry);
            self.leave_out_of_range(240, &cold);
            self.a.integer(Integer::Add, true, Gpr::Rax, Gpr::R9);
            for (n, half) in [(0, Zmm(1)), (2, Zmm(2))] {
                self.a.evex(VMOVUPS_LOAD, Zmm(0), Zmm(0), Operand::Memory(At(Gpr::Rax, n * 64)));
                self.a.evex(VMOVUPS_LOAD, half, Zmm(0), Operand::Words(&PICK_OF_FOUR[0]));
                self.a.evex(VPERMI2D, half, Zmm(0), Operand::Memory(At(Gpr::Rax, n * 64 + 64)));
            }
            self.a.evex(VSHUFI64X2.by(0x44), first.chunk(0), Zmm(1), Zmm(2));
            self.a.evex(VSHUFI64X2.by(0xee), second.chunk(0), Zmm(1), Zmm(2));
            for to in [first, second] {
                self.a.evex(VMOVDQA32, to.chunk(1), Zmm(0), to.chunk(0));
            }
        }
        self.a.bind(done);
        self.come_back(cold);
    }

    /// An element of so many dwords of each lane to LDS, one after the other.
    pub(super) fn lds_store(&mut self, dwords: u32, d: &Di) {
        let address = self.load_row(d.src[0].value);
        let data: Vec<Pair> = (0..dwords).map(|n| self.load_row(d.src[1].value + n)).collect();
        let cold = self.leave();
        self.a.byte_immediate(7, At(WAVE, offset_of!(Wave, lds_order) as i32), MUST_STOP);
        self.leave_if(Condition::Equal, &cold);
        self.lds(dwords * 4, &cold);
        self.lds_address((Gpr::Rax, address.chunk(0)), d, &cold);
        self.a.evex(VPBROADCASTD, Zmm(0), Zmm(0), address.chunk(0));
        self.compare_steps(address, Zmm(0), apart(dwords));
        self.leave_unless_all(cold.entry);
        self.leave_out_of_range(dwords as i32 * 124, &cold);
        self.a.integer(Integer::Add, true, Gpr::Rax, Gpr::R9);
        self.store_elements(Gpr::Rax, &data);
        self.come_back(cold);
    }
}

/// Whether compiled code does a load or store of global memory or LDS itself.
pub(super) fn has(dwords: u32, halves: u32) -> bool {
    (dwords == 1 || dwords == 2 || dwords == 4) && halves == 1
}
