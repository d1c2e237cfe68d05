//! Operations that templates are made of: a back end gives each of them the instructions of its processor.
//!
//! Templates over this trait say what is done, without a processor's registers and opcodes.

/// A working register of a template, of 64 bits. A result of 32 bits leaves its upper half empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    A,
    B,
    C,
}

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    /// `a + b`, and 1 if there is a carry.
    AddCarry,
    /// `a - b`, and 1 less if there is a carry.
    SubtractCarry,
    And,
    Or,
    Xor,
}

/// A shift, and the sign that it may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Left,
    Right,
    /// To the right, with the sign.
    Signed,
}

/// Outcome of the last operation that says so. After a comparison or a difference it is about `a` and `b`; after a sum `Below` says
/// that there is a carry, and `Overflow` that the sign is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Overflow,
    Below,
    AboveOrEqual,
    Equal,
    NotEqual,
    BelowOrEqual,
    Above,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Greater,
}

/// Emits operations on scalar registers. `wide` ones are of 64 bits, others of 32. Only operations that say so have an outcome, and
/// only [`Masm::flag`], [`Masm::choose`] and moves leave the last one as it is.
pub(crate) trait Masm {
    /// A scalar register of the wave, with the next one where wide, to a working register.
    fn load_scalar(&mut self, wide: bool, to: Register, scalar: u32);

    /// The opposite.
    fn store_scalar(&mut self, wide: bool, scalar: u32, from: Register);

    /// A number to a working register.
    fn number(&mut self, to: Register, value: u64);

    /// A working register to another one.
    fn copy(&mut self, wide: bool, to: Register, from: Register);

    /// Inverts each bit.
    fn invert(&mut self, wide: bool, register: Register);

    /// `a = op(a, b)`. There is an outcome: of sums and differences, and of bits whether they are [equal](Condition::Equal) to 0.
    fn arithmetic(&mut self, op: Arithmetic, wide: bool, a: Register, b: Register);

    /// The low half of a product of 32 bits each.
    fn multiply_low(&mut self, a: Register, b: Register);

    /// The low half of a product of 64 bits each.
    fn multiply_pairs(&mut self, a: Register, b: Register);

    /// Shifts by the low bits of a register, as many as there can be, which is [`Register::B`].
    fn shift_by_b(&mut self, how: Shift, wide: bool, register: Register);

    /// Shifts by a number that is less than the bits there are.
    fn shift_by_number(&mut self, how: Shift, wide: bool, register: Register, count: u8);

    /// Compares two numbers: there is an outcome.
    fn compare(&mut self, wide: bool, a: Register, b: Register);

    /// Compares a number with 0: the outcome is [`Condition::Equal`] or not.
    fn compare_with_zero(&mut self, wide: bool, register: Register);

    /// Compares a scalar register with 0: the outcome is [`Condition::Equal`] or not.
    fn compare_scalar_with_zero(&mut self, scalar: u32);

    /// Makes a carry for the next operation of a scalar register that is not 0; [`Register::C`] is used.
    fn carry_of_scalar(&mut self, scalar: u32);

    /// 1 if the last outcome is this one, else 0.
    fn flag(&mut self, condition: Condition, to: Register);

    /// `to = from`, all 64 bits, if the last outcome is this one.
    fn choose(&mut self, condition: Condition, to: Register, from: Register);
}

#[cfg(test)]
mod tests;
