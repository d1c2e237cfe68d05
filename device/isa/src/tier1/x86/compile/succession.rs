//! The end of a wave, and the start of the one that follows it in its storage.

use core::mem::offset_of;

use super::affine::Counting;
use super::{Compiler, EXECUTED, LIMIT};
use crate::exec::Follower;
use crate::exec::di::{Flow, Machine};
use crate::exec::waves::succession::Succession;
use crate::lanes::BackendKind;
use crate::tier1::analysis::source::Source;
use crate::tier1::analysis::touched::{LINE, Touched, ranges};
use crate::tier1::x86::asm::{Assembler, At, Condition, Gpr, Integer, Label, Operand, Zmm};
use crate::tier1::x86::avx512::rows::in_memory;
use crate::tier1::x86::body::{EXEC, MACHINE, WAVE, scalar};
use crate::tier1::x86::encoding::{VMOVUPS_LOAD, VMOVUPS_STORE, VPXORD};
use crate::wave::Wave;

/// Largest number of rows that code clears. With more of them, the caller starts waves one by one: clearing is most
/// of a start then.
const MOST_ROWS: usize = 32;

/// Address of the [`Succession`] that the next waves are started from.
const SUCCESSION: Gpr = Gpr::R10;
/// Address of the [`Follower`] with the next wave's own start state.
const FOLLOWER: Gpr = Gpr::Rsi;
/// A way out that stands ready.
const WAY_OUT: Gpr = Gpr::Rdi;
const BUDGET: Gpr = Gpr::Rax;
/// The X of the workgroup.
const X: Gpr = Gpr::Rcx;
const SCRATCH: Gpr = Gpr::Rdx;
/// Address at which the wave begins.
const BEGIN: Gpr = Gpr::R11;

/// Returns true if code of a region starts waves after others that have ended; `touched` has the registers that it
/// changes.
pub(crate) fn follows(source: &Source<'_>, touched: Option<&Touched>) -> bool {
    !source.waits && touched.is_some()
}

fn at(field: usize) -> At {
    At(SUCCESSION, field as i32)
}

pub(super) fn of_follower(field: usize) -> At {
    At(FOLLOWER, field as i32)
}

fn wave(field: usize) -> At {
    At(WAVE, field as i32)
}

/// Copies 64 bytes.
fn copy(a: &mut Assembler, kind: BackendKind, At(to, to_at): At, At(from, from_at): At) {
    match kind {
        BackendKind::Avx512 => {
            a.evex(VMOVUPS_LOAD, Zmm(0), Zmm(0), Operand::Memory(At(from, from_at)));
            a.evex(VMOVUPS_STORE, Zmm(0), Zmm(0), Operand::Memory(At(to, to_at)));
        }
        _ => {
            for part in [0, 32] {
                a.vex(VMOVUPS_LOAD, Zmm(0), Zmm(0), Operand::Memory(At(from, from_at + part)));
                a.vex(VMOVUPS_STORE, Zmm(0), Zmm(0), Operand::Memory(At(to, to_at + part)));
            }
        }
    }
}

impl Compiler<'_> {
    /// A wave has ended: another one follows, if there is one.
    pub(super) fn end(&mut self, element: usize, uncounted: u32) {
        self.count(uncounted);
        let exit = self.exit(element, 0, Some(Flow::END_PROGRAM.number()));
        let Some(ends) = self.ends else { return self.a.jump(exit) };
        self.a.load(Integer::Mov, true, SUCCESSION, At(MACHINE, offset_of!(Machine<'_>, succession) as i32));
        self.a.test(true, SUCCESSION);
        self.a.jump_if(Condition::Equal, exit);
        self.a.address_of_label(WAY_OUT, exit);
        self.a.jump(ends);
    }

    /// Emits the code that a wave which has ended comes to: it starts the next wave, and resets the registers that
    /// `touched` has.
    pub(super) fn succession(&mut self, touched: &Touched) {
        let Some(ends) = self.ends else { return };
        self.a.bind(ends);
        let stored = ranges(self.a.stored.clone());
        let ranges = if self.source.kind == BackendKind::Avx512 { &stored } else { &touched.rows };
        let rows: Vec<u32> = ranges.iter().flat_map(|&(first, end)| first..end).collect();
        let (out, set) = (self.a.label(), self.a.label());
        if rows.len() > MOST_ROWS {
            self.a.jump(out);
        } else {
            self.choose_follower(out);
            self.count_on(touched.lines);
            self.a.load(Integer::Mov, true, BEGIN, at(offset_of!(Succession, entry)));
        }
        self.a.bind(set);
        let (kind, halves) = (self.source.kind, self.source.halves);
        let a = &mut self.a;
        clear(a, kind, &rows);
        for chunk in 0..halves as usize * 2 {
            let to = in_memory(chunk as u32 / 2, chunk as u8 & 1);
            copy(a, kind, to, of_follower(offset_of!(Follower, v0) + chunk * 64));
        }
        a.load(Integer::Mov, true, SCRATCH, of_follower(offset_of!(Follower, hw_ids)));
        a.store(true, wave(offset_of!(Wave, hw_id)), SCRATCH);
        set_scalars(a, (kind, halves), touched.lines);
        // `and`: it has not looked for what others write.
        a.byte_immediate(4, wave(offset_of!(Wave, looked)), 0);
        let order = offset_of!(Succession, lds_order);
        a.load(Integer::Mov, false, Gpr::Rax, at(order));
        a.store_al(wave(offset_of!(Wave, lds_order)));
        a.jump_register(BEGIN);
        a.bind(out);
        a.jump_register(WAY_OUT);
        if let Some(Counting { refuses, usual, .. }) = self.counting {
            self.start_again(refuses, usual, set);
        }
    }

    /// Goes to the program for waves that count addresses on, if the next one is such, and the program is there. It has scalar registers alone set:
    /// nothing else is looked at there.
    fn count_on(&mut self, lines: u16) {
        let Some(Counting { entry, usual: known, .. }) = self.counting else { return };
        let Source { kind, halves, .. } = self.source;
        let usual = self.a.label();
        let a = &mut self.a;
        a.compare_immediate(false, of_follower(offset_of!(Follower, counted)), halves as i8);
        a.jump_if(Condition::Below, usual);
        a.address_of_label(BEGIN, known);
        a.load(Integer::Cmp, true, BEGIN, at(offset_of!(Succession, entry)));
        a.jump_if(Condition::NotEqual, usual);
        set_scalars(a, (kind, halves), lines);
        a.jump(entry);
        a.bind(usual);
    }

    /// Emits the code for a wave that is to go the usual way, from its start on.
    fn start_again(&mut self, refuses: Label, begin: Label, set: Label) {
        let a = &mut self.a;
        a.bind(refuses);
        a.load(Integer::Mov, true, SUCCESSION, At(MACHINE, offset_of!(Machine<'_>, succession) as i32));
        a.load(Integer::Mov, true, FOLLOWER, at(offset_of!(Succession, at)));
        a.load(Integer::Mov, false, X, at(offset_of!(Succession, x)));
        a.address_of_label(BEGIN, begin);
        a.jump(set);
    }

    /// Chooses the next wave of the workgroup, or the first one of the next workgroup. Goes out if there is none, or
    /// if so little of the budget is left that it has to be looked at. The wave's instructions begin at zero.
    fn choose_follower(&mut self, out: Label) {
        let same = self.a.label();
        let a = &mut self.a;
        a.byte_immediate(7, At(MACHINE, offset_of!(Machine<'_>, wrote_more) as i32), 0);
        a.jump_if(Condition::NotEqual, out);
        a.load(Integer::Mov, true, BUDGET, at(offset_of!(Succession, budget)));
        a.integer(Integer::Sub, true, BUDGET, EXECUTED);
        a.load(Integer::Sub, true, BUDGET, at(offset_of!(Succession, wave_cost)));
        a.load(Integer::Cmp, true, BUDGET, at(offset_of!(Succession, floor)));
        a.jump_if(Condition::LessOrEqual, out);
        a.load(Integer::Mov, true, FOLLOWER, at(offset_of!(Succession, at)));
        a.load(Integer::Mov, false, X, at(offset_of!(Succession, x)));
        a.immediate(Integer::Add, true, FOLLOWER, size_of::<Follower>() as u32);
        a.load(Integer::Cmp, true, FOLLOWER, at(offset_of!(Succession, last)));
        a.jump_if(Condition::NotEqual, same);
        a.immediate(Integer::Add, false, X, 1);
        a.load(Integer::Cmp, false, X, at(offset_of!(Succession, end)));
        a.jump_if(Condition::AboveOrEqual, out);
        a.load(Integer::Cmp, true, BUDGET, at(offset_of!(Succession, workgroup_floor)));
        a.jump_if(Condition::Less, out);
        a.load(Integer::Sub, true, BUDGET, at(offset_of!(Succession, workgroup_cost)));
        a.jump_if(Condition::LessOrEqual, out);
        a.load(Integer::Mov, true, FOLLOWER, at(offset_of!(Succession, first)));
        a.store(false, at(offset_of!(Succession, x)), X);
        a.bind(same);
        a.store(true, at(offset_of!(Succession, at)), FOLLOWER);
        a.store(true, at(offset_of!(Succession, budget)), BUDGET);
        a.load(Integer::Add, true, EXECUTED, at(offset_of!(Succession, instructions)));
        a.store(true, at(offset_of!(Succession, instructions)), EXECUTED);
        a.immediate(Integer::Mov, false, EXECUTED, 0);
        a.load(Integer::Mov, true, LIMIT, at(offset_of!(Succession, quantum)));
        a.integer(Integer::Cmp, true, BUDGET, LIMIT);
        a.choose(Condition::Less, LIMIT, BUDGET);
        a.store(true, at(offset_of!(Succession, limit)), LIMIT);
    }
}

/// Sets the scalar registers of a wave; the X of its workgroup is in [`X`], which is used.
fn set_scalars(a: &mut Assembler, (kind, halves): (BackendKind, u32), lines: u16) {
    for line in (0..16).filter(|line| lines >> line & 1 != 0) {
        let distance = line * LINE * size_of::<u32>();
        let At(base, first) = scalar(0);
        let from = at(offset_of!(Succession, lines) + distance);
        copy(a, kind, At(base, first + distance as i32), from);
    }
    // A wave32 has no high half of EXEC.
    a.load(Integer::Mov, halves == 2, SCRATCH, of_follower(offset_of!(Follower, exec)));
    a.store(true, scalar(EXEC), SCRATCH);
    for place in [0, size_of::<u32>()] {
        a.load(Integer::Mov, false, SCRATCH, at(offset_of!(Succession, x_at) + place));
        a.store_indexed(WAVE, SCRATCH, X);
    }
    a.load(Integer::Mov, false, X, of_follower(offset_of!(Follower, ttmp)));
    a.load(Integer::Mov, false, SCRATCH, at(offset_of!(Succession, ttmp_at)));
    a.store_indexed(WAVE, SCRATCH, X);
}

/// Clears rows in memory.
fn clear(a: &mut Assembler, kind: BackendKind, rows: &[u32]) {
    if rows.is_empty() {
        return;
    }
    match kind {
        BackendKind::Avx512 => a.evex(VPXORD, Zmm(0), Zmm(0), Zmm(0)),
        _ => a.vex(VPXORD, Zmm(0), Zmm(0), Zmm(0)),
    }
    for (row, chunk) in rows.iter().flat_map(|&row| [(row, 0), (row, 1)]) {
        let At(base, first) = in_memory(row, chunk);
        match kind {
            BackendKind::Avx512 => {
                a.evex(VMOVUPS_STORE, Zmm(0), Zmm(0), Operand::Memory(At(base, first)));
            }
            _ => [0, 32].into_iter().for_each(|part| {
                a.vex(VMOVUPS_STORE, Zmm(0), Zmm(0), Operand::Memory(At(base, first + part)));
            }),
        }
    }
}
