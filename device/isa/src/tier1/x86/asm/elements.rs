//! Integer instructions on elements that a register chooses, and those that are atomic.

use super::{Assembler, Gpr, Integer};

/// Memory at the sum of a base, of an index times a power of two, and of a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) base: Gpr,
    pub(crate) index: Gpr,
    /// The power of two.
    pub(crate) scale: u8,
    pub(crate) displacement: i32,
}

/// The prefix by which an instruction is atomic.
const LOCK: u8 = 0xf0;

impl Assembler {
    fn on_element(&mut self, wide: bool, opcode: &[u8], reg: Gpr, at: Element) {
        let Element { base, index, scale, displacement } = at;
        let rex =
            0x40 | u8::from(wide) << 3 | (reg as u8 >> 3) << 2 | (index as u8 >> 3) << 1 | base as u8 >> 3;
        if rex != 0x40 {
            self.byte(rex);
        }
        self.code.extend(opcode);
        let short = i8::try_from(displacement).ok();
        let mode = if short.is_some() { 0x40 } else { 0x80 };
        self.code
            .extend([mode | (reg as u8 & 7) << 3 | 4, scale << 6 | (index as u8 & 7) << 3 | base as u8 & 7]);
        match short {
            Some(byte) => self.byte(byte.cast_unsigned()),
            None => self.code.extend(displacement.to_le_bytes()),
        }
    }

    /// `op to, [at]`.
    pub(crate) fn load_element(&mut self, op: Integer, wide: bool, to: Gpr, at: Element) {
        self.on_element(wide, &[op as u8], to, at);
    }

    /// `op [at], from`, or `mov`.
    pub(crate) fn change_element(&mut self, op: Integer, wide: bool, at: Element, from: Gpr) {
        // The same opcode but for the bit that says which operand is the destination.
        self.on_element(wide, &[op as u8 & !2], from, at);
    }

    /// `mov [at], from` of one or two bytes, the lowest ones of `Rax` to `Rdx`.
    pub(crate) fn store_part(&mut self, bytes: u32, at: Element, from: Gpr) {
        if bytes == 1 {
            return self.on_element(false, &[0x88], from, at);
        }
        self.byte(0x66);
        self.on_element(false, &[0x89], from, at);
    }

    /// `lock op [at], from`.
    pub(crate) fn change_atomically(&mut self, op: Integer, wide: bool, at: Element, from: Gpr) {
        self.byte(LOCK);
        self.change_element(op, wide, at, from);
    }

    /// `lock xadd [at], with`: the register has the old value then.
    pub(crate) fn exchange_and_add(&mut self, wide: bool, at: Element, with: Gpr) {
        self.byte(LOCK);
        self.on_element(wide, &[0x0f, 0xc1], with, at);
    }

    /// `lock cmpxchg [at], new`: `Rax` has the old value then, and the flags say whether it was there before, too.
    pub(crate) fn compare_and_exchange(&mut self, wide: bool, at: Element, new: Gpr) {
        self.byte(LOCK);
        self.on_element(wide, &[0x0f, 0xb1], new, at);
    }

    /// `xchg [at], with`, which is atomic anyway.
    pub(crate) fn exchange(&mut self, wide: bool, at: Element, with: Gpr) {
        self.on_element(wide, &[0x87], with, at);
    }

    /// `tzcnt to, from`: the number of the lowest bit that is set, of 64; there is one.
    pub(crate) fn lowest_bit(&mut self, to: Gpr, from: Gpr) {
        self.byte(0xf3);
        self.rex(true, to as u8, from as u8);
        self.code.extend([0x0f, 0xbc, 0xc0 | (to as u8 & 7) << 3 | from as u8 & 7]);
    }
}
