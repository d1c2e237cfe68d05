//! Jumps, calls and the stack.

use super::{Assembler, Condition, Gpr, Label, Target};

impl Assembler {
    pub(crate) fn jump(&mut self, to: Label) {
        self.byte(0xe9);
        self.displacement(to);
    }

    pub(crate) fn jump_if(&mut self, condition: Condition, to: Label) {
        self.code.extend([0x0f, 0x80 | condition as u8]);
        self.displacement(to);
    }

    fn displacement(&mut self, to: Label) {
        let at = self.code.len();
        self.code.extend([0; 4]);
        self.open.push((at, at + 4, Target::Label(to)));
    }

    /// `jmp register`.
    pub(crate) fn jump_register(&mut self, register: Gpr) {
        self.rex(false, 0, register as u8);
        self.code.extend([0xff, 0xe0 | register as u8 & 7]);
    }

    /// `call register`.
    pub(crate) fn call(&mut self, register: Gpr) {
        self.rex(false, 0, register as u8);
        self.code.extend([0xff, 0xd0 | register as u8 & 7]);
    }

    pub(crate) fn push(&mut self, register: Gpr) {
        self.rex(false, 0, register as u8);
        self.byte(0x50 | register as u8 & 7);
    }

    pub(crate) fn pop(&mut self, register: Gpr) {
        self.rex(false, 0, register as u8);
        self.byte(0x58 | register as u8 & 7);
    }

    pub(crate) fn ret(&mut self) {
        self.byte(0xc3);
    }

    pub(crate) fn vzeroupper(&mut self) {
        self.code.extend([0xc5, 0xf8, 0x77]);
    }
}
