//! Recipes: operations that are a few instructions which AVX-512 and AVX2 both have.
//!
//! A recipe says what is done with lanes of 32 bits, without a processor's registers. Each back end turns every step into an instruction of its
//! own, so that one description serves all of them.

mod bits;
mod bytes;
mod dots;
mod halves;
mod pairs;
mod steps;

pub(crate) use steps::{Act, Elements, Place, Step, Test, own_bytes};

use crate::exec::di::{Di, flag};
use crate::exec::vector::vop3p::halves::USUAL;
use crate::inst::Op;
use steps::Steps;

/// Content of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Operation(Op),
    /// As [`Operation`](Does::Operation), with a result that saturates.
    Saturating(Op),
    /// An operation on both halves of registers; results may saturate.
    Packed {
        op: Op,
        saturates: bool,
    },
    /// A result goes to its part of a register.
    Part,
}

/// An operation that is done by a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipe(Does);

/// Registers of an operation's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Word,
    Pair,
    /// Half of a register; the other one stays.
    Half,
}

/// Operands of an operation: the number of sources, those that are pairs, and the result.
struct Shape {
    arity: usize,
    pairs: &'static [usize],
    made: Made,
}

const fn words(arity: usize) -> Shape {
    Shape { arity, pairs: &[], made: Made::Word }
}

const fn halves(arity: usize) -> Shape {
    Shape { arity, pairs: &[], made: Made::Half }
}

/// Operands of an operation that has a recipe.
fn shape(op: Op) -> Option<Shape> {
    Some(match op {
        Op::V_DOT4_I32_IU8
        | Op::V_DOT4_I32_I8
        | Op::V_DOT4_U32_U8
        | Op::V_DOT8_I32_IU4
        | Op::V_DOT8_I32_I4
        | Op::V_DOT8_U32_U4
        | Op::V_DOT2_I32_I16
        | Op::V_DOT2_U32_U16
        | Op::V_DOT2C_I32_I16 => words(3),
        Op::V_BFE_U32
        | Op::V_BFE_I32
        | Op::V_ALIGNBIT_B32
        | Op::V_ALIGNBYTE_B32
        | Op::V_MAD_I32_I24
        | Op::V_MED3_U32
        | Op::V_MED3_I32
        | Op::V_SAD_U32
        | Op::V_MAD_U32_U16
        | Op::V_MAD_I32_I16
        | Op::V_PERM_B32
        | Op::V_LERP_U8 => words(3),
        Op::V_ADD_NC_U32
        | Op::V_SUB_NC_U32
        | Op::V_SUBREV_NC_U32
        | Op::V_XNOR_B32
        | Op::V_BFM_B32
        | Op::V_MUL_I32_I24
        | Op::V_BCNT_U32_B32
        | Op::V_CVT_PK_U16_U32
        | Op::V_CVT_PK_I16_I32
        | Op::V_PACK_B32_F16 => words(2),
        Op::V_BFREV_B32
        | Op::V_CLZ_I32_U32
        | Op::V_CTZ_I32_B32
        | Op::V_CLS_I32
        | Op::V_CVT_I32_I16
        | Op::V_CVT_U32_U16 => words(1),
        Op::V_MOV_B16 | Op::V_NOT_B16 => halves(1),
        Op::V_AND_B16
        | Op::V_OR_B16
        | Op::V_XOR_B16
        | Op::V_ADD_NC_U16
        | Op::V_ADD_NC_I16
        | Op::V_SUB_NC_U16
        | Op::V_SUB_NC_I16
        | Op::V_SUBREV_U16
        | Op::V_MUL_LO_U16
        | Op::V_LSHLREV_B16
        | Op::V_LSHRREV_B16
        | Op::V_ASHRREV_I16
        | Op::V_MIN_U16
        | Op::V_MAX_U16
        | Op::V_MIN_I16
        | Op::V_MAX_I16 => halves(2),
        Op::V_MAD_U16
        | Op::V_MAD_I16
        | Op::V_MIN3_U16
        | Op::V_MAX3_U16
        | Op::V_MED3_U16
        | Op::V_MIN3_I16
        | Op::V_MAX3_I16
        | Op::V_MED3_I16 => halves(3),
        Op::V_LSHLREV_B64 | Op::V_LSHRREV_B64 | Op::V_ASHRREV_I64 => {
            Shape { arity: 2, pairs: &[1], made: Made::Pair }
        }
        _ => return None,
    })
}

/// Returns true if the recipe is for these operands.
fn takes(op: Op, d: &Di) -> bool {
    match op {
        Op::V_DOT4_I32_IU8 | Op::V_DOT8_I32_IU4 => d.imm == USUAL,
        Op::V_DOT4_U32_U8 | Op::V_DOT8_U32_U4 => matches!(d.imm, 0 | USUAL),
        // The low halves for the first product, the high ones for the second.
        Op::V_DOT2_I32_I16 | Op::V_DOT2_U32_U16 => {
            !d.src[0].high && !d.src[1].high && d.imm & 3 == 3 && d.flags & flag::CLAMP == 0
        }
        Op::V_PACK_B32_F16 => d.src[..2].iter().all(|source| !source.neg && !source.abs),
        // Counts in a half of a register are another operation's.
        Op::V_ALIGNBIT_B32 | Op::V_ALIGNBYTE_B32 => !d.src[2].high,
        _ => true,
    }
}

/// Returns true if an operation on halves is one whose result may saturate.
fn saturates(op: Op) -> bool {
    matches!(
        op,
        Op::V_ADD_NC_U16
            | Op::V_ADD_NC_I16
            | Op::V_SUB_NC_U16
            | Op::V_SUB_NC_I16
            | Op::V_SUBREV_U16
            | Op::V_MAD_U16
            | Op::V_MAD_I16
    )
}

/// The operation that a packed one does with both halves.
fn of_packed(op: Op) -> Option<Op> {
    Some(match op {
        Op::V_PK_ADD_U16 => Op::V_ADD_NC_U16,
        Op::V_PK_ADD_I16 => Op::V_ADD_NC_I16,
        Op::V_PK_SUB_U16 => Op::V_SUB_NC_U16,
        Op::V_PK_SUB_I16 => Op::V_SUB_NC_I16,
        Op::V_PK_MUL_LO_U16 => Op::V_MUL_LO_U16,
        Op::V_PK_MAD_U16 => Op::V_MAD_U16,
        Op::V_PK_MAD_I16 => Op::V_MAD_I16,
        Op::V_PK_MIN_U16 => Op::V_MIN_U16,
        Op::V_PK_MAX_U16 => Op::V_MAX_U16,
        Op::V_PK_MIN_I16 => Op::V_MIN_I16,
        Op::V_PK_MAX_I16 => Op::V_MAX_I16,
        Op::V_PK_LSHLREV_B16 => Op::V_LSHLREV_B16,
        Op::V_PK_LSHRREV_B16 => Op::V_LSHRREV_B16,
        Op::V_PK_ASHRREV_I16 => Op::V_ASHRREV_I16,
        _ => return None,
    })
}

impl Recipe {
    /// The recipe of an operation with these operands, if there is one.
    pub(crate) fn of(op: Op, d: &Di) -> Option<Recipe> {
        shape(op)?;
        let only_saturates = matches!(op, Op::V_ADD_NC_U32 | Op::V_SUB_NC_U32 | Op::V_SUBREV_NC_U32);
        (takes(op, d) && !only_saturates).then_some(Recipe(Does::Operation(op)))
    }

    /// The recipe that brings a result to its part of a register.
    pub(crate) fn part() -> Recipe {
        Recipe(Does::Part)
    }

    /// The recipe of an operation whose result saturates.
    pub(crate) fn saturating(op: Op, d: &Di) -> Option<Recipe> {
        let has = matches!(
            op,
            Op::V_ADD_NC_U32
                | Op::V_SUB_NC_U32
                | Op::V_SUBREV_NC_U32
                | Op::V_DOT4_I32_IU8
                | Op::V_DOT4_I32_I8
                | Op::V_DOT4_U32_U8
                | Op::V_DOT8_I32_IU4
                | Op::V_DOT8_I32_I4
                | Op::V_DOT8_U32_U4
        ) || saturates(op);
        (has && takes(op, d)).then_some(Recipe(Does::Saturating(op)))
    }

    /// The recipe of an operation on integers in both halves of registers.
    pub(crate) fn packed(op: Op, d: &Di) -> Option<Recipe> {
        let clamps = d.flags & flag::CLAMP != 0;
        let op = of_packed(op)?;
        // Where nothing could saturate, nothing does.
        Some(Recipe(Does::Packed { op, saturates: clamps && saturates(op) }))
    }

    fn shape(self) -> Option<Shape> {
        match self.0 {
            Does::Operation(op) | Does::Saturating(op) => shape(op),
            Does::Packed { op, .. } => Some(words(shape(op)?.arity)),
            Does::Part => Some(halves(1)),
        }
    }

    /// Sources it has.
    pub(crate) fn arity(self) -> usize {
        self.shape().map_or(0, |shape| shape.arity)
    }

    /// Returns true if a source is a pair of registers.
    pub(crate) fn takes_pair(self, n: usize) -> bool {
        self.shape().is_some_and(|shape| shape.pairs.contains(&n))
    }

    /// Returns true if its result is a pair of registers.
    pub(crate) fn makes_pair(self) -> bool {
        self.shape().is_some_and(|shape| shape.made == Made::Pair)
    }

    /// Returns true if half of the destination stays.
    pub(crate) fn keeps(self) -> bool {
        self.shape().is_some_and(|shape| shape.made == Made::Half)
    }

    /// The steps to the result in temporary 0, whose high word is in 1 if it is a pair.
    pub(crate) fn steps(self, d: &Di) -> Vec<Step> {
        let mut steps = Steps::new(d);
        match self.0 {
            Does::Part => steps.part(),
            Does::Packed { op, saturates } => steps.packed(op, saturates),
            Does::Operation(op) if self.keeps() => steps.halves(op, false),
            Does::Saturating(op) if self.keeps() => steps.halves(op, true),
            Does::Operation(op) if self.makes_pair() => steps.pairs(op),
            Does::Operation(op) | Does::Saturating(op) => {
                if !steps.dot(op, matches!(self.0, Does::Saturating(_))) {
                    steps.bits(op);
                }
            }
        }
        steps.finish()
    }
}
