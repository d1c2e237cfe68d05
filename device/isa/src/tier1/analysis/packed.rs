//! Operations on both halves of registers.

use super::recipe::Recipe;
use super::template::{Arithmetic, Two, of_halves};
use crate::exec::di::{Di, Kind, flag};
use crate::exec::vector::vop3p::high;
use crate::inst::Op;

/// The operation on whole 16-bit integers side by side, if compiled code does it.
pub(crate) fn of_words(op: Op) -> Option<Two> {
    Some(match op {
        Op::V_PK_ADD_U16 | Op::V_PK_ADD_I16 => Two::Add,
        Op::V_PK_SUB_U16 | Op::V_PK_SUB_I16 => Two::Subtract,
        Op::V_PK_MUL_LO_U16 => Two::Multiply,
        Op::V_PK_MIN_U16 => Two::MinUnsigned,
        Op::V_PK_MAX_U16 => Two::MaxUnsigned,
        Op::V_PK_MIN_I16 => Two::MinSigned,
        Op::V_PK_MAX_I16 => Two::MaxSigned,
        _ => return None,
    })
}

/// Way in which an operation on both halves of registers is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packed {
    Halves(Arithmetic),
    /// Low halves of low ones and high halves of high ones, of registers.
    Words(Two),
    Recipe(Recipe),
}

impl Packed {
    /// Sources it has.
    pub(crate) fn arity(self) -> usize {
        match self {
            Packed::Halves(arithmetic) => arithmetic.arity(),
            Packed::Words(_) => 2,
            Packed::Recipe(recipe) => recipe.arity(),
        }
    }
}

/// The way of a packed operation, if compiled code does it with these operands.
pub(crate) fn packed(op: Op, d: &Di) -> Option<Packed> {
    let clamps = d.flags & flag::CLAMP != 0;
    if let Some(arithmetic) = of_halves(op) {
        return (!clamps).then_some(Packed::Halves(arithmetic));
    }
    let straight = (0..2).all(|n| {
        let source = &d.src[n];
        source.kind == Kind::Vector && !source.high && d.imm >> (high::SELECT + n as u32) & 1 != 0
    });
    match of_words(op) {
        Some(words) if straight && !clamps => Some(Packed::Words(words)),
        _ => Recipe::packed(op, d).map(Packed::Recipe),
    }
}
