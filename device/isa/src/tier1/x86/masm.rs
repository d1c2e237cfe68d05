//! [Operations of templates](crate::tier1::masm) as instructions.

use super::asm::{self, Assembler, Gpr, Integer};
use super::body::scalar;
use crate::tier1::masm::{Arithmetic, Condition, Masm, Register, Shift};

/// The general register; shifts have their counts in `cl`.
fn gpr(register: Register) -> Gpr {
    match register {
        Register::A => Gpr::Rax,
        Register::B => Gpr::Rcx,
        Register::C => Gpr::Rdx,
    }
}

fn integer(op: Arithmetic) -> Integer {
    match op {
        Arithmetic::Add => Integer::Add,
        Arithmetic::Subtract => Integer::Sub,
        Arithmetic::AddCarry => Integer::Adc,
        Arithmetic::SubtractCarry => Integer::Sbb,
        Arithmetic::And => Integer::And,
        Arithmetic::Or => Integer::Or,
        Arithmetic::Xor => Integer::Xor,
    }
}

/// The extension of the opcode.
fn extension(how: Shift) -> u8 {
    match how {
        Shift::Left => 4,
        Shift::Right => 5,
        Shift::Signed => 7,
    }
}

fn condition(of: Condition) -> asm::Condition {
    match of {
        Condition::Overflow => asm::Condition::Overflow,
        Condition::Below => asm::Condition::Below,
        Condition::AboveOrEqual => asm::Condition::AboveOrEqual,
        Condition::Equal => asm::Condition::Equal,
        Condition::NotEqual => asm::Condition::NotEqual,
        Condition::BelowOrEqual => asm::Condition::BelowOrEqual,
        Condition::Above => asm::Condition::Above,
        Condition::Less => asm::Condition::Less,
        Condition::GreaterOrEqual => asm::Condition::GreaterOrEqual,
        Condition::LessOrEqual => asm::Condition::LessOrEqual,
        Condition::Greater => asm::Condition::Greater,
    }
}

impl Masm for Assembler {
    fn load_scalar(&mut self, wide: bool, to: Register, register: u32) {
        self.load(Integer::Mov, wide, gpr(to), scalar(register));
    }

    fn store_scalar(&mut self, wide: bool, register: u32, from: Register) {
        self.store(wide, scalar(register), gpr(from));
    }

    fn number(&mut self, to: Register, value: u64) {
        match (u32::try_from(value), i32::try_from(value.cast_signed())) {
            (Ok(value), _) => self.immediate(Integer::Mov, false, gpr(to), value),
            // The sign is extended.
            (_, Ok(value)) => self.immediate(Integer::Mov, true, gpr(to), value.cast_unsigned()),
            _ => self.constant64(gpr(to), value),
        }
    }

    fn copy(&mut self, wide: bool, to: Register, from: Register) {
        self.integer(Integer::Mov, wide, gpr(to), gpr(from));
    }

    fn invert(&mut self, wide: bool, register: Register) {
        self.not(wide, gpr(register));
    }

    fn arithmetic(&mut self, op: Arithmetic, wide: bool, a: Register, b: Register) {
        self.integer(integer(op), wide, gpr(a), gpr(b));
    }

    fn multiply_low(&mut self, a: Register, b: Register) {
        self.multiply(false, gpr(a), gpr(b));
    }

    fn multiply_pairs(&mut self, a: Register, b: Register) {
        self.multiply(true, gpr(a), gpr(b));
    }

    fn shift_by_b(&mut self, how: Shift, wide: bool, register: Register) {
        self.shift_by_cl(extension(how), wide, gpr(register));
    }

    fn shift_by_number(&mut self, how: Shift, wide: bool, register: Register, count: u8) {
        self.shift_by(extension(how), wide, gpr(register), count);
    }

    fn compare(&mut self, wide: bool, a: Register, b: Register) {
        self.integer(Integer::Cmp, wide, gpr(a), gpr(b));
    }

    fn compare_with_zero(&mut self, wide: bool, register: Register) {
        self.test(wide, gpr(register));
    }

    fn compare_scalar_with_zero(&mut self, register: u32) {
        self.compare_immediate(false, scalar(register), 0);
    }

    fn carry_of_scalar(&mut self, register: u32) {
        self.immediate(Integer::Mov, false, gpr(Register::C), 0);
        self.load(Integer::Cmp, false, gpr(Register::C), scalar(register));
    }

    fn flag(&mut self, of: Condition, to: Register) {
        self.set(condition(of), gpr(to));
    }

    fn choose(&mut self, of: Condition, to: Register, from: Register) {
        Assembler::choose(self, condition(of), gpr(to), gpr(from));
    }
}
