//! Scalar operations, on scalar registers in memory.

use super::asm::{Assembler, At, Condition, Gpr, Integer};
use super::body::{EXEC, SCC, scalar};
use crate::exec::di::{Di, Kind, Source};
use crate::exec::scalar::exec_mask::Function;
use crate::inst::Op;

const A: Gpr = Gpr::Rax;
const B: Gpr = Gpr::Rcx;
const OTHER: Gpr = Gpr::Rdx;

/// Way in which a scalar operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Move,
    /// The destination keeps its value unless `SCC` is set.
    ConditionalMove,
    Not,
    /// `SCC` is the carry, or says that the result is not zero; the second source is inverted first.
    Two {
        op: Integer,
        scc: Scc,
        inverts: bool,
    },
    /// The result of `Two`, inverted.
    Inverted(Integer),
    Multiply,
    Select,
    /// By the extension of the opcode.
    Shift(u8),
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
        Op::S_ADD_U32 => (two(Integer::Add, Scc::Set(Below)), false, ordinary),
        Op::S_SUB_U32 => (two(Integer::Sub, Scc::Set(Below)), false, ordinary),
        Op::S_ADD_I32 => (two(Integer::Add, Scc::Set(Overflow)), false, ordinary),
        Op::S_SUB_I32 => (two(Integer::Sub, Scc::Set(Overflow)), false, ordinary),
        Op::S_ADDC_U32 => (two(Integer::Adc, Scc::Set(Below)), false, ordinary),
        Op::S_SUBB_U32 => (two(Integer::Sbb, Scc::Set(Below)), false, ordinary),
        Op::S_ADDK_I32 => (two(Integer::Add, Scc::Set(Overflow)), false, [2, 1]),
        Op::S_ADD_NC_U64 => (two(Integer::Add, Scc::Keeps), true, ordinary),
        Op::S_SUB_NC_U64 => (two(Integer::Sub, Scc::Keeps), true, ordinary),
        Op::S_AND_B32 => (bits(Integer::And), false, ordinary),
        Op::S_AND_B64 => (bits(Integer::And), true, ordinary),
        Op::S_OR_B32 => (bits(Integer::Or), false, ordinary),
        Op::S_OR_B64 => (bits(Integer::Or), true, ordinary),
        Op::S_XOR_B32 => (bits(Integer::Xor), false, ordinary),
        Op::S_XOR_B64 => (bits(Integer::Xor), true, ordinary),
        Op::S_AND_NOT1_B32 => (inverting(Integer::And), false, ordinary),
        Op::S_AND_NOT1_B64 => (inverting(Integer::And), true, ordinary),
        Op::S_OR_NOT1_B32 => (inverting(Integer::Or), false, ordinary),
        Op::S_OR_NOT1_B64 => (inverting(Integer::Or), true, ordinary),
        Op::S_NAND_B32 => (Shape::Inverted(Integer::And), false, ordinary),
        Op::S_NAND_B64 => (Shape::Inverted(Integer::And), true, ordinary),
        Op::S_NOR_B32 => (Shape::Inverted(Integer::Or), false, ordinary),
        Op::S_NOR_B64 => (Shape::Inverted(Integer::Or), true, ordinary),
        Op::S_XNOR_B32 => (Shape::Inverted(Integer::Xor), false, ordinary),
        Op::S_XNOR_B64 => (Shape::Inverted(Integer::Xor), true, ordinary),
        Op::S_MUL_I32 => (Shape::Multiply, false, ordinary),
        Op::S_MULK_I32 => (Shape::Multiply, false, [2, 1]),
        Op::S_CSELECT_B32 => (Shape::Select, false, ordinary),
        Op::S_CSELECT_B64 => (Shape::Select, true, ordinary),
        Op::S_LSHL_B32 => (Shape::Shift(4), false, ordinary),
        Op::S_LSHL_B64 => (Shape::Shift(4), true, ordinary),
        Op::S_LSHR_B32 => (Shape::Shift(5), false, ordinary),
        Op::S_LSHR_B64 => (Shape::Shift(5), true, ordinary),
        Op::S_ASHR_I32 => (Shape::Shift(7), false, ordinary),
        Op::S_ASHR_I64 => (Shape::Shift(7), true, ordinary),
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
fn read(a: &mut Assembler, to: Gpr, source: &Source, wide: bool) {
    match source.kind {
        Kind::Scalar | Kind::Vector => a.load(Integer::Mov, wide, to, scalar(source.value)),
        Kind::Signed => a.immediate(Integer::Mov, wide, to, source.value),
        Kind::High if wide => a.constant64(to, u64::from(source.value) << 32),
        Kind::Constant | Kind::High => {
            // Without the extension of the sign that a move of 64 bits has.
            a.immediate(Integer::Mov, false, to, source.value);
        }
    }
}

fn write(a: &mut Assembler, d: &Di, from: Gpr, wide: bool) {
    let At(base, displacement) = scalar(d.dst);
    a.store(wide, At(base, displacement), from);
}

fn set_scc(a: &mut Assembler, condition: Condition) {
    a.set(condition, B);
    a.store(false, scalar(SCC), B);
}

/// The code of a scalar operation.
pub(crate) fn emit(a: &mut Assembler, op: Op, d: &Di) {
    let Some((shape, wide, [first, second])) = shape(op) else {
        unreachable!("only operations with a shape")
    };
    let (x, y) = (&d.src[first], &d.src[second]);
    match shape {
        Shape::Move => {
            read(a, A, x, wide);
            write(a, d, A, wide);
        }
        Shape::ConditionalMove => {
            read(a, A, x, wide);
            a.load(Integer::Mov, wide, B, scalar(d.dst));
            a.compare_immediate(false, scalar(SCC), 0);
            a.choose(Condition::Equal, A, B);
            write(a, d, A, wide);
        }
        Shape::Not => {
            read(a, A, x, wide);
            a.not(wide, A);
            a.test(wide, A);
            write(a, d, A, wide);
            set_scc(a, Condition::NotEqual);
        }
        Shape::Two { op, scc, inverts } => {
            read(a, A, x, wide);
            read(a, B, y, wide);
            if inverts {
                a.not(wide, B);
            }
            if matches!(op, Integer::Adc | Integer::Sbb) {
                // The carry is set where `SCC` is not zero.
                a.immediate(Integer::Mov, false, OTHER, 0);
                a.load(Integer::Cmp, false, OTHER, scalar(SCC));
            }
            a.integer(op, wide, A, B);
            write(a, d, A, wide);
            if let Scc::Set(condition) = scc {
                set_scc(a, condition);
            }
        }
        Shape::Inverted(op) => {
            read(a, A, x, wide);
            read(a, B, y, wide);
            a.integer(op, wide, A, B);
            a.not(wide, A);
            a.test(wide, A);
            write(a, d, A, wide);
            set_scc(a, Condition::NotEqual);
        }
        Shape::Multiply => {
            read(a, A, x, false);
            read(a, B, y, false);
            a.multiply(A, B);
            write(a, d, A, false);
        }
        Shape::Select => {
            read(a, A, x, wide);
            read(a, B, y, wide);
            a.compare_immediate(false, scalar(SCC), 0);
            a.choose(Condition::Equal, A, B);
            write(a, d, A, wide);
        }
        Shape::Shift(extension) => {
            read(a, A, x, wide);
            if y.kind == Kind::Scalar {
                read(a, B, y, false);
                a.shift_by_cl(extension, wide, A);
            } else {
                let bits = if wide { 63 } else { 31 };
                a.shift_by(extension, wide, A, y.value as u8 & bits);
            }
            // A shift by nothing leaves the flags alone.
            a.test(wide, A);
            write(a, d, A, wide);
            set_scc(a, Condition::NotEqual);
        }
        Shape::Compare(condition) => {
            read(a, A, x, wide);
            read(a, B, y, wide);
            a.integer(Integer::Cmp, wide, A, B);
            set_scc(a, condition);
        }
        Shape::Extreme(condition) => {
            read(a, A, x, false);
            read(a, OTHER, y, false);
            a.integer(Integer::Cmp, false, A, OTHER);
            a.set(condition, B);
            a.test(false, B);
            a.choose(Condition::Equal, A, OTHER);
            write(a, d, A, false);
            a.store(false, scalar(SCC), B);
        }
    }
}

/// A function of a mask and EXEC to EXEC; the destination gets the old EXEC, or else the new one.
pub(crate) fn exec_mask(a: &mut Assembler, d: &Di, saves: bool, wide: bool) {
    let (op, [inverts_mask, inverts_exec, inverts_result]) = match Function::from_number(d.aux) {
        Function::And => (Integer::And, [false, false, false]),
        Function::Or => (Integer::Or, [false, false, false]),
        Function::Xor => (Integer::Xor, [false, false, false]),
        Function::Nand => (Integer::And, [false, false, true]),
        Function::Nor => (Integer::Or, [false, false, true]),
        Function::Xnor => (Integer::Xor, [false, false, true]),
        Function::AndNot0 => (Integer::And, [true, false, false]),
        Function::AndNot1 => (Integer::And, [false, true, false]),
        Function::OrNot0 => (Integer::Or, [true, false, false]),
        Function::OrNot1 => (Integer::Or, [false, true, false]),
    };
    read(a, A, &d.src[0], wide);
    a.load(Integer::Mov, wide, B, scalar(EXEC));
    a.integer(Integer::Mov, wide, OTHER, B);
    for (inverts, register) in [(inverts_mask, A), (inverts_exec, B)] {
        if inverts {
            a.not(wide, register);
        }
    }
    a.integer(op, wide, A, B);
    if inverts_result {
        a.not(wide, A);
    }
    if saves {
        write(a, d, OTHER, wide);
        a.store(wide, scalar(EXEC), A);
    } else {
        a.store(wide, scalar(EXEC), A);
        write(a, d, A, wide);
    }
    a.test(wide, A);
    set_scc(a, Condition::NotEqual);
}
