//! Templates of scalar operations.

use super::analysis::{EXEC, SCC};
use super::masm::Register::{A, B, C};
use super::masm::{Arithmetic, Condition, Masm, Register, Shift};
use crate::exec::di::{Di, Kind, Source};
use crate::exec::scalar::exec_mask::Function;
use crate::inst::Op;

/// Way in which a scalar operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Move,
    /// The destination keeps its value unless `SCC` is set.
    ConditionalMove,
    Not,
    /// `SCC` is the carry, or says that the result is not zero; the second source is inverted first.
    Two {
        op: Arithmetic,
        scc: Scc,
        inverts: bool,
    },
    /// The result of `Two`, inverted.
    Inverted(Arithmetic),
    Multiply,
    /// The high half of a product.
    MultiplyHigh {
        signed: bool,
    },
    /// `SCC` says whether a bit is this.
    TestBit(bool),
    Select,
    Shift(Shift),
    Compare(Condition),
    /// The smaller or larger; by the condition under which it is the first, which is `SCC`.
    Extreme(Condition),
}

/// Effect of an operation on `SCC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scc {
    Keeps,
    Set(Condition),
}

/// An operation's shape, whether it is of 64 bits, and which sources are its operands.
fn shape(op: Op) -> Option<(Shape, bool, [usize; 2])> {
    use Condition::{Above, AboveOrEqual, Below, BelowOrEqual, Equal, Greater, GreaterOrEqual};
    use Condition::{Less, LessOrEqual, NotEqual, Overflow};
    let two = |op, scc| Shape::Two { op, scc, inverts: false };
    let bits = |op| two(op, Scc::Set(NotEqual));
    let inverting = |op| Shape::Two { op, scc: Scc::Set(NotEqual), inverts: true };
    let ordinary = [0, 1];
    Some(match op {
        Op::S_MOV_B32 => (Shape::Move, false, ordinary),
        Op::S_MOV_B64 => (Shape::Move, true, ordinary),
        Op::S_MOVK_I32 => (Shape::Move, false, [1, 1]),
        Op::S_CMOV_B32 => (Shape::ConditionalMove, false, ordinary),
        Op::S_CMOV_B64 => (Shape::ConditionalMove, true, ordinary),
        Op::S_NOT_B32 => (Shape::Not, false, ordinary),
        Op::S_NOT_B64 => (Shape::Not, true, ordinary),
        Op::S_ADD_U32 => (two(Arithmetic::Add, Scc::Set(Below)), false, ordinary),
        Op::S_SUB_U32 => (two(Arithmetic::Subtract, Scc::Set(Below)), false, ordinary),
        Op::S_ADD_I32 => (two(Arithmetic::Add, Scc::Set(Overflow)), false, ordinary),
        Op::S_SUB_I32 => (two(Arithmetic::Subtract, Scc::Set(Overflow)), false, ordinary),
        Op::S_ADDC_U32 => (two(Arithmetic::AddCarry, Scc::Set(Below)), false, ordinary),
        Op::S_SUBB_U32 => (two(Arithmetic::SubtractCarry, Scc::Set(Below)), false, ordinary),
        Op::S_ADDK_I32 => (two(Arithmetic::Add, Scc::Set(Overflow)), false, [2, 1]),
        Op::S_ADD_NC_U64 => (two(Arithmetic::Add, Scc::Keeps), true, ordinary),
        Op::S_SUB_NC_U64 => (two(Arithmetic::Subtract, Scc::Keeps), true, ordinary),
        Op::S_AND_B32 => (bits(Arithmetic::And), false, ordinary),
        Op::S_AND_B64 => (bits(Arithmetic::And), true, ordinary),
        Op::S_OR_B32 => (bits(Arithmetic::Or), false, ordinary),
        Op::S_OR_B64 => (bits(Arithmetic::Or), true, ordinary),
        Op::S_XOR_B32 => (bits(Arithmetic::Xor), false, ordinary),
        Op::S_XOR_B64 => (bits(Arithmetic::Xor), true, ordinary),
        Op::S_AND_NOT1_B32 => (inverting(Arithmetic::And), false, ordinary),
        Op::S_AND_NOT1_B64 => (inverting(Arithmetic::And), true, ordinary),
        Op::S_OR_NOT1_B32 => (inverting(Arithmetic::Or), false, ordinary),
        Op::S_OR_NOT1_B64 => (inverting(Arithmetic::Or), true, ordinary),
        Op::S_NAND_B32 => (Shape::Inverted(Arithmetic::And), false, ordinary),
        Op::S_NAND_B64 => (Shape::Inverted(Arithmetic::And), true, ordinary),
        Op::S_NOR_B32 => (Shape::Inverted(Arithmetic::Or), false, ordinary),
        Op::S_NOR_B64 => (Shape::Inverted(Arithmetic::Or), true, ordinary),
        Op::S_XNOR_B32 => (Shape::Inverted(Arithmetic::Xor), false, ordinary),
        Op::S_XNOR_B64 => (Shape::Inverted(Arithmetic::Xor), true, ordinary),
        Op::S_MUL_I32 => (Shape::Multiply, false, ordinary),
        Op::S_MULK_I32 => (Shape::Multiply, false, [2, 1]),
        Op::S_MUL_HI_U32 => (Shape::MultiplyHigh { signed: false }, false, ordinary),
        Op::S_MUL_HI_I32 => (Shape::MultiplyHigh { signed: true }, false, ordinary),
        Op::S_BITCMP0_B32 => (Shape::TestBit(false), false, ordinary),
        Op::S_BITCMP1_B32 => (Shape::TestBit(true), false, ordinary),
        Op::S_BITCMP0_B64 => (Shape::TestBit(false), true, ordinary),
        Op::S_BITCMP1_B64 => (Shape::TestBit(true), true, ordinary),
        Op::S_CSELECT_B32 => (Shape::Select, false, ordinary),
        Op::S_CSELECT_B64 => (Shape::Select, true, ordinary),
        Op::S_LSHL_B32 => (Shape::Shift(Shift::Left), false, ordinary),
        Op::S_LSHL_B64 => (Shape::Shift(Shift::Left), true, ordinary),
        Op::S_LSHR_B32 => (Shape::Shift(Shift::Right), false, ordinary),
        Op::S_LSHR_B64 => (Shape::Shift(Shift::Right), true, ordinary),
        Op::S_ASHR_I32 => (Shape::Shift(Shift::Signed), false, ordinary),
        Op::S_ASHR_I64 => (Shape::Shift(Shift::Signed), true, ordinary),
        Op::S_MIN_I32 => (Shape::Extreme(Less), false, ordinary),
        Op::S_MIN_U32 => (Shape::Extreme(Below), false, ordinary),
        Op::S_MAX_I32 => (Shape::Extreme(GreaterOrEqual), false, ordinary),
        Op::S_MAX_U32 => (Shape::Extreme(AboveOrEqual), false, ordinary),
        Op::S_CMP_EQ_I32 | Op::S_CMP_EQ_U32 | Op::S_CMPK_EQ_I32 | Op::S_CMPK_EQ_U32 => {
            (Shape::Compare(Equal), false, ordinary)
        }
        Op::S_CMP_LG_I32 | Op::S_CMP_LG_U32 | Op::S_CMPK_LG_I32 | Op::S_CMPK_LG_U32 => {
            (Shape::Compare(NotEqual), false, ordinary)
        }
        Op::S_CMP_GT_I32 | Op::S_CMPK_GT_I32 => (Shape::Compare(Greater), false, ordinary),
        Op::S_CMP_GE_I32 | Op::S_CMPK_GE_I32 => (Shape::Compare(GreaterOrEqual), false, ordinary),
        Op::S_CMP_LT_I32 | Op::S_CMPK_LT_I32 => (Shape::Compare(Less), false, ordinary),
        Op::S_CMP_LE_I32 | Op::S_CMPK_LE_I32 => (Shape::Compare(LessOrEqual), false, ordinary),
        Op::S_CMP_GT_U32 | Op::S_CMPK_GT_U32 => (Shape::Compare(Above), false, ordinary),
        Op::S_CMP_GE_U32 | Op::S_CMPK_GE_U32 => (Shape::Compare(AboveOrEqual), false, ordinary),
        Op::S_CMP_LT_U32 | Op::S_CMPK_LT_U32 => (Shape::Compare(Below), false, ordinary),
        Op::S_CMP_LE_U32 | Op::S_CMPK_LE_U32 => (Shape::Compare(BelowOrEqual), false, ordinary),
        Op::S_CMP_EQ_U64 => (Shape::Compare(Equal), true, ordinary),
        Op::S_CMP_LG_U64 => (Shape::Compare(NotEqual), true, ordinary),
        _ => return None,
    })
}

/// Returns true if compiled code does the operation itself.
pub(crate) fn has(op: Op) -> bool {
    shape(op).is_some()
}

/// A source to a register; `wide` ones of 64 bits.
fn read(m: &mut impl Masm, to: Register, source: &Source, wide: bool) {
    match source.kind {
        Kind::Scalar | Kind::Vector => m.load_scalar(wide, to, source.value),
        Kind::Signed if wide => m.number(to, i64::from(source.value.cast_signed()).cast_unsigned()),
        Kind::High if wide => m.number(to, u64::from(source.value) << 32),
        Kind::Constant | Kind::High | Kind::Signed => m.number(to, source.value.into()),
    }
}

fn write(m: &mut impl Masm, d: &Di, from: Register, wide: bool) {
    m.store_scalar(wide, d.dst, from);
}

fn set_scc(m: &mut impl Masm, condition: Condition) {
    m.flag(condition, B);
    m.store_scalar(false, SCC, B);
}

/// Shifts A by a source.
fn shift(m: &mut impl Masm, (how, wide): (Shift, bool), count: &Source) {
    if count.kind == Kind::Scalar {
        read(m, B, count, false);
        return m.shift_by_b(how, wide, A);
    }
    let bits = if wide { 63 } else { 31 };
    m.shift_by_number(how, wide, A, count.value as u8 & bits);
}

/// The code of a scalar operation.
pub(crate) fn emit(m: &mut impl Masm, op: Op, d: &Di) {
    let Some((shape, wide, [first, second])) = shape(op) else {
        unreachable!("only operations with a shape")
    };
    let (x, y) = (&d.src[first], &d.src[second]);
    match shape {
        Shape::Move => {
            read(m, A, x, wide);
            write(m, d, A, wide);
        }
        Shape::ConditionalMove => {
            read(m, A, x, wide);
            m.load_scalar(wide, B, d.dst);
            m.compare_scalar_with_zero(SCC);
            m.choose(Condition::Equal, A, B);
            write(m, d, A, wide);
        }
        Shape::Not => {
            read(m, A, x, wide);
            m.invert(wide, A);
            m.compare_with_zero(wide, A);
            write(m, d, A, wide);
            set_scc(m, Condition::NotEqual);
        }
        Shape::Two { op, scc, inverts } => {
            read(m, A, x, wide);
            read(m, B, y, wide);
            if inverts {
                m.invert(wide, B);
            }
            if matches!(op, Arithmetic::AddCarry | Arithmetic::SubtractCarry) {
                m.carry_of_scalar(SCC);
            }
            m.arithmetic(op, wide, A, B);
            write(m, d, A, wide);
            if let Scc::Set(condition) = scc {
                set_scc(m, condition);
            }
        }
        Shape::Inverted(op) => {
            read(m, A, x, wide);
            read(m, B, y, wide);
            m.arithmetic(op, wide, A, B);
            m.invert(wide, A);
            m.compare_with_zero(wide, A);
            write(m, d, A, wide);
            set_scc(m, Condition::NotEqual);
        }
        Shape::Multiply => {
            read(m, A, x, false);
            read(m, B, y, false);
            m.multiply_low(A, B);
            write(m, d, A, false);
        }
        Shape::MultiplyHigh { signed } => {
            for (to, source) in [(A, x), (B, y)] {
                read(m, to, source, false);
                if signed {
                    m.shift_by_number(Shift::Left, true, to, 32);
                    m.shift_by_number(Shift::Signed, true, to, 32);
                }
            }
            m.multiply_pairs(A, B);
            m.shift_by_number(Shift::Right, true, A, 32);
            write(m, d, A, false);
        }
        Shape::TestBit(is_set) => {
            read(m, A, x, wide);
            shift(m, (Shift::Right, wide), y);
            m.number(B, 1);
            m.arithmetic(Arithmetic::And, wide, A, B);
            set_scc(m, if is_set { Condition::NotEqual } else { Condition::Equal });
        }
        Shape::Select => {
            read(m, A, x, wide);
            read(m, B, y, wide);
            m.compare_scalar_with_zero(SCC);
            m.choose(Condition::Equal, A, B);
            write(m, d, A, wide);
        }
        Shape::Shift(how) => {
            read(m, A, x, wide);
            shift(m, (how, wide), y);
            // A shift by nothing leaves the flags alone.
            m.compare_with_zero(wide, A);
            write(m, d, A, wide);
            set_scc(m, Condition::NotEqual);
        }
        Shape::Compare(condition) => {
            read(m, A, x, wide);
            read(m, B, y, wide);
            m.compare(wide, A, B);
            set_scc(m, condition);
        }
        Shape::Extreme(condition) => {
            read(m, A, x, false);
            read(m, C, y, false);
            m.compare(false, A, C);
            m.flag(condition, B);
            m.compare_with_zero(false, B);
            m.choose(Condition::Equal, A, C);
            write(m, d, A, false);
            m.store_scalar(false, SCC, B);
        }
    }
}

/// A function of a mask and EXEC to EXEC; the destination gets the old EXEC, or else the new one.
pub(crate) fn exec_mask(m: &mut impl Masm, d: &Di, saves: bool, wide: bool) {
    let (op, [inverts_mask, inverts_exec, inverts_result]) = match Function::from_number(d.aux) {
        Function::And => (Arithmetic::And, [false, false, false]),
        Function::Or => (Arithmetic::Or, [false, false, false]),
        Function::Xor => (Arithmetic::Xor, [false, false, false]),
        Function::Nand => (Arithmetic::And, [false, false, true]),
        Function::Nor => (Arithmetic::Or, [false, false, true]),
        Function::Xnor => (Arithmetic::Xor, [false, false, true]),
        Function::AndNot0 => (Arithmetic::And, [true, false, false]),
        Function::AndNot1 => (Arithmetic::And, [false, true, false]),
        Function::OrNot0 => (Arithmetic::Or, [true, false, false]),
        Function::OrNot1 => (Arithmetic::Or, [false, true, false]),
    };
    read(m, A, &d.src[0], wide);
    m.load_scalar(wide, B, EXEC);
    m.copy(wide, C, B);
    for (inverts, register) in [(inverts_mask, A), (inverts_exec, B)] {
        if inverts {
            m.invert(wide, register);
        }
    }
    m.arithmetic(op, wide, A, B);
    if inverts_result {
        m.invert(wide, A);
    }
    if saves {
        write(m, d, C, wide);
        m.store_scalar(wide, EXEC, A);
    } else {
        m.store_scalar(wide, EXEC, A);
        write(m, d, A, wide);
    }
    m.compare_with_zero(wide, A);
    set_scc(m, Condition::NotEqual);
}
