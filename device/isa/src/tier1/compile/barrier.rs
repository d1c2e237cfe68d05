//! Barriers, and the way from a wave to the next one of its workgroup.

use core::mem::offset_of;

use super::{Compiler, EXECUTED, LIMIT};
use crate::exec::di::{Flow, Machine};
use crate::exec::round::{Round, Seat};
use crate::tier1::asm::{At, Condition, Gpr, Integer, Place};
use crate::tier1::body::{MACHINE, WAVE};
use crate::tier1::lds::AT_BARRIER;
use crate::tier1::rows::ROWS;
use crate::wave::Wave;

impl Compiler<'_> {
    /// As the handler of `s_barrier` does: the wave knows where it waits, and that it is at a barrier. Then the next one of the round
    /// goes on, if there is one.
    pub(super) fn barrier(&mut self, at: usize, uncounted: u32) {
        self.count(uncounted);
        let d = self.source.code[at];
        self.a.place(Gpr::Rax, Place::Guest(u64::from(d.dst) | u64::from(d.dst2) << 32));
        self.a.store(true, At(WAVE, offset_of!(Wave, stopped_at) as i32), Gpr::Rax);
        self.a.byte_immediate(4, At(WAVE, offset_of!(Wave, lds_order) as i32), AT_BARRIER);
        let exit = self.exit(at, 0, Some(Flow::BARRIER.number()));
        self.a.integer(Integer::Cmp, true, EXECUTED, LIMIT);
        self.a.jump_if(Condition::AboveOrEqual, exit);
        let round = |field: usize| At(MACHINE, (offset_of!(Machine<'_>, round) + field) as i32);
        let seat = |field: usize| At(Gpr::Rax, field as i32);
        let wave = |field: usize| At(WAVE, field as i32);
        let a = &mut self.a;
        a.load(Integer::Mov, true, Gpr::Rax, round(offset_of!(Round, at)));
        a.load(Integer::Cmp, true, Gpr::Rax, round(offset_of!(Round, last)));
        a.jump_if(Condition::Equal, exit);
        a.immediate(Integer::Mov, false, Gpr::Rcx, at as u32 + 1);
        a.store(false, seat(offset_of!(Seat, element)), Gpr::Rcx);
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
