//! Branches, within a region and out of it.

use core::mem::offset_of;

use super::{Compiler, EXECUTED, LIMIT};
use crate::exec::di::Flow;
use crate::exec::form::When;
use crate::tier1::x86::asm::{Assembler, At, Condition, Gpr, Integer, Label, Place};
use crate::tier1::x86::body::{WAVE, jump_unless};
use crate::wave::Wave;

/// Labels at which blocks begin; `None` for elements within blocks.
pub(super) struct Ways {
    /// Label of each block's entry for any EXEC, which looks at it.
    pub(super) looks: Vec<Option<Label>>,
    /// The blocks themselves, for all lanes and for some.
    pub(super) bodies: [Vec<Option<Label>>; 2],
}

impl Ways {
    pub(super) fn new(elements: usize) -> Self {
        Ways { looks: vec![None; elements], bodies: [vec![None; elements], vec![None; elements]] }
    }

    pub(super) fn begin(&mut self, a: &mut Assembler, at: usize) {
        self.looks[at] = Some(a.label());
        self.bodies.iter_mut().for_each(|bodies| bodies[at] = Some(a.label()));
    }
}

impl Compiler<'_> {
    pub(super) fn jump_unless(&mut self, when: When, not_taken: Label) {
        jump_unless(&mut self.a, when, self.source.halves, not_taken);
    }

    pub(super) fn branch(&mut self, when: When, at: usize, uncounted: u32, masked: bool) {
        self.count(uncounted);
        let not_taken = self.a.label();
        self.jump_unless(when, not_taken);
        let d = self.source.code[at];
        if d.aux == 0 {
            self.a.integer(Integer::Cmp, true, EXECUTED, LIMIT);
            let budget = self.exit(at, 0, Some(Flow::to(d.imm).number()));
            self.a.jump_if(Condition::AboveOrEqual, budget);
            self.go(d.imm as usize, Some(masked));
        } else {
            self.a.place(Gpr::Rax, Place::Guest(u64::from(d.dst) | u64::from(d.dst2) << 32));
            self.a.store(true, At(WAVE, offset_of!(Wave, pc) as i32), Gpr::Rax);
            let leave = self.exit(at, 0, Some(Flow::LEAVE.number()));
            self.a.jump(leave);
        }
        self.a.bind(not_taken);
        if when != When::Always {
            self.go_on(at + 1, Some(masked));
        }
    }
}
