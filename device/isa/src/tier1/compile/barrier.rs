//! Barriers, stores to LDS that wait, and the way from a wave to the next one of its workgroup.

use core::mem::offset_of;

use super::{Compiler, EXECUTED, LIMIT};
use crate::exec::di::{Flow, Machine};
use crate::exec::round::{Round, Seat};
use crate::tier1::asm::{At, Condition, Gpr, Integer, Label, Place};
use crate::tier1::body::{MACHINE, WAVE};
use crate::tier1::form::Form;
use crate::tier1::lds::{AT_BARRIER, HAS_STOPPED, MUST_STOP};
use crate::tier1::rows::ROWS;
use crate::wave::Wave;

/// A block that begins with a store to LDS, in a wave that is to let others have their turn before it (`exec/ds/order.rs`).
pub(super) struct Wait {
    entry: Label,
    back: Label,
    element: usize,
}

/// What is at a displacement from the seat in `Rax`.
fn seat(field: usize) -> At {
    At(Gpr::Rax, field as i32)
}

fn wave(field: usize) -> At {
    At(WAVE, field as i32)
}

fn round(field: usize) -> At {
    At(MACHINE, (offset_of!(Machine<'_>, round) + field) as i32)
}

impl Compiler<'_> {
    /// As the handler of `s_barrier` does: the wave knows where it waits, and that it is at a barrier. Then the next one of the round
    /// goes on, if there is one.
    pub(super) fn barrier(&mut self, at: usize, uncounted: u32) {
        self.count(uncounted);
        let d = self.source.code[at];
        self.a.place(Gpr::Rax, Place::Guest(u64::from(d.dst) | u64::from(d.dst2) << 32));
        self.a.store(true, wave(offset_of!(Wave, stopped_at)), Gpr::Rax);
        self.a.byte_immediate(4, wave(offset_of!(Wave, lds_order)), AT_BARRIER);
        let exit = self.exit(at, 0, Some(Flow::BARRIER.number()));
        self.seat_of_others(exit);
        self.a.immediate(Integer::Mov, false, Gpr::Rcx, at as u32 + 1);
        // It is not over, which is in the upper half.
        self.a.store(true, seat(offset_of!(Seat, element)), Gpr::Rcx);
        self.next_wave();
    }

    /// The beginning of a block: where it is a store to LDS that the wave has to wait before, the next one of the round goes on.
    /// Where there is none, the store's own code sees to it.
    pub(super) fn wait_at(&mut self, element: usize) {
        if !matches!(self.form(element), Form::LdsStore(_) | Form::LdsStoreTwo(_)) {
            return;
        }
        let wait = Wait { entry: self.a.label(), back: self.a.label(), element };
        self.a.byte_immediate(7, wave(offset_of!(Wave, lds_order)), MUST_STOP);
        self.a.jump_if(Condition::Equal, wait.entry);
        self.a.bind(wait.back);
        self.waits.push(wait);
    }

    pub(super) fn wait(&mut self, wait: &Wait) {
        self.a.bind(wait.entry);
        self.seat_of_others(wait.back);
        self.a.byte_immediate(1, wave(offset_of!(Wave, lds_order)), HAS_STOPPED);
        self.a.immediate(Integer::Mov, false, Gpr::Rcx, wait.element as u32);
        self.a.store(false, seat(offset_of!(Seat, element)), Gpr::Rcx);
        self.a.immediate(Integer::Mov, false, Gpr::Rcx, 1);
        self.a.store(false, seat(offset_of!(Seat, is_over)), Gpr::Rcx);
        self.next_wave();
    }

    /// The seat of the wave that runs in `Rax`; goes elsewhere if its turn is over anyway, or it is the round's last one.
    fn seat_of_others(&mut self, last: Label) {
        self.a.integer(Integer::Cmp, true, EXECUTED, LIMIT);
        self.a.jump_if(Condition::AboveOrEqual, last);
        self.a.load(Integer::Mov, true, Gpr::Rax, round(offset_of!(Round, at)));
        self.a.load(Integer::Cmp, true, Gpr::Rax, round(offset_of!(Round, last)));
        self.a.jump_if(Condition::Equal, last);
    }

    /// Has the wave behind the one whose seat is in `Rax` go on.
    fn next_wave(&mut self) {
        let a = &mut self.a;
        a.store(true, wave(offset_of!(Wave, instructions)), EXECUTED);
        // What is left of the limit is the next one's.
        a.integer(Integer::Sub, true, LIMIT, EXECUTED);
        a.immediate(Integer::Add, true, Gpr::Rax, size_of::<Seat>() as u32);
        a.store(true, round(offset_of!(Round, at)), Gpr::Rax);
        a.load(Integer::Mov, true, WAVE, seat(offset_of!(Seat, wave)));
        a.load(Integer::Mov, true, ROWS, wave(offset_of!(Wave, v)));
        a.load(Integer::Mov, true, EXECUTED, wave(offset_of!(Wave, instructions)));
        a.integer(Integer::Add, true, LIMIT, EXECUTED);
        a.store(true, round(offset_of!(Round, limit)), LIMIT);
        a.load(Integer::Mov, true, Gpr::Rcx, seat(offset_of!(Seat, entry)));
        a.jump_register(Gpr::Rcx);
    }
}
