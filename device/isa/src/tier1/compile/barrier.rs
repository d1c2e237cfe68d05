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

/// What is rare where waves of a round follow each other; it is beside the usual way.
pub(super) enum Rare {
    /// A block that begins with a store to LDS, in a wave that is to let others have their turn before it (`exec/ds/order.rs`).
    Wait { entry: Label, back: Label, before: (u32, Label) },
    /// The last wave of a round at a barrier, and the way out.
    Last { entry: Label, exit: Label, behind: (u32, Label) },
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
        let Some(behind) = self.place(at + 1) else { return self.a.jump(exit) };
        let last = self.a.label();
        self.seat_of_others(exit, last);
        self.sits(behind, false);
        self.next_wave();
        self.rare.push(Rare::Last { entry: last, exit, behind });
    }

    /// The beginning of a block: where it is a store to LDS that the wave has to wait before, the next one of the round goes on.
    /// Where there is none, the store's own code sees to it.
    pub(super) fn wait_at(&mut self, element: usize) {
        if !matches!(self.form(element), Form::LdsStore(_) | Form::LdsStoreTwo(_)) {
            return;
        }
        let Some(before) = self.place(element) else { return };
        let (entry, back) = (self.a.label(), self.a.label());
        self.a.byte_immediate(7, wave(offset_of!(Wave, lds_order)), MUST_STOP);
        self.a.jump_if(Condition::Equal, entry);
        self.a.bind(back);
        self.rare.push(Rare::Wait { entry, back, before });
    }

    pub(super) fn rare(&mut self, rare: &Rare) {
        match *rare {
            Rare::Wait { entry, back, before } => self.wait((entry, back), before),
            Rare::Last { entry, exit, behind } => self.opens((entry, exit), behind),
        }
    }

    fn wait(&mut self, (entry, back): (Label, Label), before: (u32, Label)) {
        self.a.bind(entry);
        let last = self.a.label();
        self.seat_of_others(back, last);
        self.stops(before);
        self.a.load(Integer::Mov, false, Gpr::Rcx, round(offset_of!(Round, over)));
        self.a.immediate(Integer::Add, false, Gpr::Rcx, 1);
        self.a.store(false, round(offset_of!(Round, over)), Gpr::Rcx);
        self.next_wave();
        // All of them wait: all go on.
        self.a.bind(last);
        self.another_round(back);
        self.a.load(Integer::Mov, false, Gpr::Rdx, round(offset_of!(Round, over)));
        self.a.load(Integer::Cmp, false, Gpr::Rdx, round(offset_of!(Round, others)));
        self.a.jump_if(Condition::NotEqual, back);
        self.stops(before);
        self.a.immediate(Integer::Mov, false, Gpr::Rdx, 0);
        self.a.store(false, round(offset_of!(Round, over)), Gpr::Rdx);
        self.first_wave();
    }

    /// The last wave is at the barrier. If all others are, and the caller leaves it to the code, it opens, and they go on.
    fn opens(&mut self, (entry, exit): (Label, Label), behind: (u32, Label)) {
        self.a.bind(entry);
        self.another_round(exit);
        self.a.compare_immediate(false, round(offset_of!(Round, over)), 0);
        self.a.jump_if(Condition::NotEqual, exit);
        self.sits(behind, false);
        self.a.load(Integer::Mov, true, Gpr::Rdx, round(offset_of!(Round, opened)));
        self.a.immediate(Integer::Add, true, Gpr::Rdx, 1);
        self.a.store(true, round(offset_of!(Round, opened)), Gpr::Rdx);
        self.first_wave();
    }

    /// The rounds that may still follow in `Rcx`; goes elsewhere if there are none. There are none without a round, either.
    fn another_round(&mut self, none: Label) {
        self.a.load(Integer::Mov, true, Gpr::Rcx, round(offset_of!(Round, more)));
        self.a.immediate(Integer::Sub, true, Gpr::Rcx, 1);
        self.a.jump_if(Condition::Below, none);
    }

    /// It has stopped before a store.
    fn stops(&mut self, before: (u32, Label)) {
        self.a.byte_immediate(1, wave(offset_of!(Wave, lds_order)), HAS_STOPPED);
        self.sits(before, true);
    }

    /// Says in the seat in `Rax` where its wave goes on; `Rdx` is used.
    fn sits(&mut self, (element, entry): (u32, Label), is_over: bool) {
        self.a.immediate(Integer::Mov, false, Gpr::Rdx, element);
        // What follows the element's number says that it is not over.
        self.a.store(true, seat(offset_of!(Seat, element)), Gpr::Rdx);
        if is_over {
            self.a.immediate(Integer::Mov, false, Gpr::Rdx, 1);
            self.a.store(false, seat(offset_of!(Seat, is_over)), Gpr::Rdx);
        }
        self.a.address_of_label(Gpr::Rdx, entry);
        self.a.store(true, seat(offset_of!(Seat, entry)), Gpr::Rdx);
    }

    /// Where waves come in at an element, if they can.
    fn place(&self, element: usize) -> Option<(u32, Label)> {
        let look = self.ways[0].looks.get(element).copied().flatten();
        look.map(|look| (element as u32, look))
    }

    /// The seat of the wave that runs in `Rax`; goes elsewhere if its turn is over anyway, or if it is the round's last one.
    fn seat_of_others(&mut self, over: Label, last: Label) {
        self.a.integer(Integer::Cmp, true, EXECUTED, LIMIT);
        self.a.jump_if(Condition::AboveOrEqual, over);
        self.a.load(Integer::Mov, true, Gpr::Rax, round(offset_of!(Round, at)));
        self.a.load(Integer::Cmp, true, Gpr::Rax, round(offset_of!(Round, last)));
        self.a.jump_if(Condition::Equal, last);
    }

    /// Has the wave behind the one whose seat is in `Rax` go on.
    fn next_wave(&mut self) {
        self.a.immediate(Integer::Add, true, Gpr::Rax, size_of::<Seat>() as u32);
        self.go_on_as();
    }

    /// Has the first wave go on, in a round less than what is in `Rcx` and one.
    fn first_wave(&mut self) {
        self.a.store(true, round(offset_of!(Round, more)), Gpr::Rcx);
        self.a.load(Integer::Mov, true, Gpr::Rax, round(offset_of!(Round, first)));
        self.go_on_as();
    }

    /// Goes on as the wave whose seat is in `Rax`.
    fn go_on_as(&mut self) {
        let a = &mut self.a;
        a.store(true, wave(offset_of!(Wave, instructions)), EXECUTED);
        // What is left of the limit is the next one's.
        a.integer(Integer::Sub, true, LIMIT, EXECUTED);
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
