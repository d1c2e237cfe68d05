//! Operations that compiled code does itself, and their templates.

use super::floats::{Float, Unary, unary};
use super::recipe::Recipe;
pub(crate) use super::rows::{rows, written};
use crate::exec::di::{Di, Kind, Source};
use crate::exec::form::Form;
use crate::exec::vector::cmp::Operands;
use crate::inst::Op;

/// A function of two integers that back ends have an instruction for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Two {
    And,
    Or,
    Xor,
    Add,
    Subtract,
    /// The low half of the product.
    Multiply,
    MinUnsigned,
    MaxUnsigned,
    MinSigned,
    MaxSigned,
}

/// A shift of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Left,
    Right,
    /// To the right, with the sign.
    Signed,
}

/// The number that is chosen of two singles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extreme {
    Least,
    Most,
}

/// An integer that becomes a single.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    Signed,
    Unsigned,
}

/// A number of 32 bits that becomes a double, exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Signed,
    Unsigned,
    Single,
}

/// A function that has a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    Root,
    ReciprocalRoot,
    PowerOfTwo,
}

/// A function of doubles that has a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoubleRoot {
    Reciprocal,
    ReciprocalRoot,
    Root,
}

/// An operation on floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Multiply,
    /// `a - b`, the sum with `-b`.
    Subtract,
    /// `b - a`, the sum with `-a`.
    ReverseSubtract,
    Fused,
}

impl Arithmetic {
    pub(crate) fn arity(self) -> usize {
        if self == Arithmetic::Fused { 3 } else { 2 }
    }

    /// Returns sources whose sum a difference is: a NaN that is subtracted has the other sign.
    pub(crate) fn signed(self, sources: &[Source; 3]) -> [Source; 3] {
        let mut sources = *sources;
        match self {
            Arithmetic::Subtract => sources[1].neg = !sources[1].neg,
            Arithmetic::ReverseSubtract => sources[0].neg = !sources[0].neg,
            Arithmetic::Add | Arithmetic::Multiply | Arithmetic::Fused => {}
        }
        sources
    }
}

/// The operation on halves, if compiled code does it.
pub(crate) fn of_halves(op: Op) -> Option<Arithmetic> {
    Some(match op {
        Op::V_ADD_F16 | Op::V_PK_ADD_F16 => Arithmetic::Add,
        Op::V_SUB_F16 => Arithmetic::Subtract,
        Op::V_MUL_F16 | Op::V_PK_MUL_F16 => Arithmetic::Multiply,
        Op::V_SUBREV_F16 => Arithmetic::ReverseSubtract,
        Op::V_FMA_F16
        | Op::V_FMAC_F16
        | Op::V_FMAAK_F16
        | Op::V_FMAMK_F16
        | Op::V_PK_FMA_F16
        | Op::V_PK_FMAC_F16 => Arithmetic::Fused,
        _ => return None,
    })
}

/// The operation on doubles, if compiled code does it.
pub(crate) fn of_doubles(op: Op) -> Option<Arithmetic> {
    Some(match op {
        Op::V_ADD_F64 => Arithmetic::Add,
        Op::V_MUL_F64 => Arithmetic::Multiply,
        Op::V_FMA_F64 => Arithmetic::Fused,
        _ => return None,
    })
}

/// The minimum or maximum of halves or doubles, if compiled code does it.
fn extreme_of(op: Op) -> Option<Template> {
    use Extreme::{Least, Most};
    let (of, float) = match op {
        Op::V_MIN_F16 | Op::V_MIN_NUM_F16 | Op::V_MINIMUM_F16 => (Least, Float::Half),
        Op::V_MAX_F16 | Op::V_MAX_NUM_F16 | Op::V_MAXIMUM_F16 => (Most, Float::Half),
        Op::V_MIN_F64 | Op::V_MIN_NUM_F64 | Op::V_MINIMUM_F64 => (Least, Float::Double),
        Op::V_MAX_F64 | Op::V_MAX_NUM_F64 | Op::V_MAXIMUM_F64 => (Most, Float::Double),
        _ => return None,
    };
    Some(Template::ExtremeOf(of, float))
}

/// Two minima or maxima of singles, the second one of the first one's result.
fn extremes(op: Op) -> Option<Template> {
    use Extreme::{Least, Most};
    let (first, second) = match op {
        Op::V_MIN3_F32 | Op::V_MIN3_NUM_F32 | Op::V_MINIMUM3_F32 => (Least, Least),
        Op::V_MAX3_F32 | Op::V_MAX3_NUM_F32 | Op::V_MAXIMUM3_F32 => (Most, Most),
        Op::V_MAXMIN_F32 | Op::V_MAXMIN_NUM_F32 | Op::V_MAXIMUMMINIMUM_F32 => (Most, Least),
        Op::V_MINMAX_F32 | Op::V_MINMAX_NUM_F32 | Op::V_MINIMUMMAXIMUM_F32 => (Least, Most),
        _ => return None,
    };
    Some(Template::Extremes(first, second))
}

/// Way in which a vector operation is done on sixteen lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Template {
    Move,
    Not,
    /// `op(a, b)`.
    Two(Two),
    /// `op(b, a)`.
    Swapped(Two),
    /// An operation on two singles.
    Float(Arithmetic),
    /// `a * b + c` of singles, rounded once.
    Fused,
    /// The smaller or larger of two singles: what a comparison chooses, and what zeros of both signs become.
    Extreme(Extreme),
    /// A function of the bits of `a`, `b` and `c`: bit `4 * a + 2 * b + c` of this number.
    Bits(u8),
    /// `second(first(a, b), c)`.
    Chain(Two, Two),
    /// `b` shifted by `a`.
    Shift(Shift),
    /// `op(a << b, c)`.
    ShiftThen(Two),
    /// `(a + b) << c`.
    AddShift,
    /// Bits of `a` from `b` on, as many as `c` says: both are constants.
    Extract,
    /// `b:a` (the first source is the high part) shifted right by the constant `c`.
    Align,
    /// The product of 24 bits each, and a sum with it.
    Multiply24,
    MultiplyAdd24,
    /// The high half of the product.
    MultiplyHigh,
    MultiplyHighSigned,
    /// Sources are integers, the result is a single.
    Convert(Integer),
    /// A pair shifted left by a constant.
    ShiftPair,
    /// A pair.
    MovePair,
    /// A pair shifted left by less than 8, a constant, and a sum with another.
    ShiftAddPair,
    /// A byte of the source, a count of them from the lowest on, as a single.
    ConvertByte(u8),
    /// A single as an integer, towards zero: a number that is too large becomes the largest one, a NaN zero.
    ToUnsigned,
    ToSigned,
    /// Arithmetic of halves, and of doubles.
    Halves(Arithmetic),
    Doubles(Arithmetic),
    HalfToSingle,
    SingleToHalf,
    /// Two singles to both halves, towards zero.
    SinglesToHalves,
    /// `1 / a` of singles, as cards have it.
    Reciprocal,
    /// A function of singles some of which are left to the handler.
    Curve(Curve),
    /// A few instructions that all back ends have.
    Recipe(Recipe),
    /// `second(first(a, b), c)` of singles.
    Extremes(Extreme, Extreme),
    /// The single in the middle.
    Median,
    /// A float scaled by a power of two, an integer.
    Scale(Float),
    Unary(Unary, Float),
    /// `v_div_fixup_f32`, whose unusual numbers are left to the handler, and that of doubles.
    DivideFixup,
    DivideFixupDoubles,
    /// The smaller or larger of two halves or doubles; NaNs are left to the handler.
    ExtremeOf(Extreme, Float),
    /// A function of doubles, of which unusual ones are left to the handler.
    DoubleRoot(DoubleRoot),
    ToDouble(Whole),
    DoubleToSingle,
}

impl Template {
    /// Sources it has.
    pub(crate) fn arity(self) -> usize {
        match self {
            Template::Move
            | Template::Not
            | Template::Convert(_)
            | Template::MovePair
            | Template::ConvertByte(_)
            | Template::ToUnsigned
            | Template::ToSigned
            | Template::HalfToSingle
            | Template::SingleToHalf
            | Template::ToDouble(_)
            | Template::DoubleToSingle
            | Template::Reciprocal
            | Template::Unary(..)
            | Template::DoubleRoot(_)
            | Template::Curve(_) => 1,
            Template::Halves(arithmetic) | Template::Doubles(arithmetic) => arithmetic.arity(),
            Template::Recipe(recipe) => recipe.arity(),
            Template::Two(_)
            | Template::Swapped(_)
            | Template::Float(_)
            | Template::Extreme(_)
            | Template::Shift(..)
            | Template::Multiply24
            | Template::MultiplyHigh
            | Template::MultiplyHighSigned
            | Template::ShiftPair
            | Template::Scale(_)
            | Template::ExtremeOf(..)
            | Template::SinglesToHalves => 2,
            _ => 3,
        }
    }

    /// Returns true if a source is a pair of registers.
    pub(super) fn takes_pair(self, n: usize) -> bool {
        match self {
            Template::Doubles(_)
            | Template::MovePair
            | Template::DoubleToSingle
            | Template::Unary(_, Float::Double)
            | Template::DoubleRoot(_)
            | Template::ExtremeOf(_, Float::Double)
            | Template::DivideFixupDoubles => true,
            Template::Scale(Float::Double) => n == 0,
            Template::ShiftAddPair => n != 1,
            Template::ShiftPair => n == 1,
            Template::Recipe(recipe) => recipe.takes_pair(n),
            _ => false,
        }
    }

    /// Returns true if its result is a pair of registers.
    pub(super) fn makes_pair(self) -> bool {
        match self {
            Template::Doubles(_)
            | Template::MovePair
            | Template::ShiftAddPair
            | Template::ShiftPair
            | Template::ToDouble(_)
            | Template::Scale(Float::Double)
            | Template::DoubleRoot(_)
            | Template::ExtremeOf(_, Float::Double)
            | Template::DivideFixupDoubles => true,
            Template::Unary(unary, Float::Double) => unary != Unary::Exponent,
            Template::Recipe(recipe) => recipe.makes_pair(),
            _ => false,
        }
    }

    /// Returns true if its result is half of a register, in which the other half stays.
    pub(super) fn makes_half(self) -> bool {
        matches!(
            self,
            Template::Halves(_)
                | Template::SingleToHalf
                | Template::Unary(_, Float::Half)
                | Template::ExtremeOf(_, Float::Half)
                | Template::Scale(Float::Half)
        )
    }

    /// Returns true if some lanes are left to the handler.
    pub(crate) fn may_leave(self) -> bool {
        matches!(
            self,
            Template::Extreme(_)
                | Template::Curve(_)
                | Template::Extremes(..)
                | Template::Median
                | Template::DivideFixup
                | Template::DivideFixupDoubles
                | Template::DoubleRoot(_)
                | Template::ExtremeOf(..)
        )
    }
}

/// Returns true if an element has sources of 64 bits.
pub(crate) fn is_wide(form: Form, d: &Di) -> bool {
    match form {
        Form::Vector(_) | Form::Saturating(_) => template(form, d).is_some_and(|template| {
            template != Template::ShiftPair && (0..template.arity()).any(|n| template.takes_pair(n))
        }),
        Form::Carry(op) => is_product(op) || matches!(op, Op::V_DIV_SCALE_F64 | Op::V_DIV_FMAS_F64),
        Form::Compare(operands) => {
            matches!(operands, Operands::U64 | Operands::I64 | Operands::F64 | Operands::ClassF64)
        }
        _ => false,
    }
}

/// The template of a vector operation, or of one that saturates.
pub(crate) fn template(form: Form, d: &Di) -> Option<Template> {
    match form {
        Form::Vector(op) => vector(op, d),
        Form::Saturating(op) => Recipe::saturating(op, d).map(Template::Recipe),
        Form::Part => Some(Template::Recipe(Recipe::part())),
        _ => None,
    }
}

/// Returns true if an element leaves a part of what it writes, or reads it without naming it among its sources.
pub(crate) fn keeps(form: Form, d: &Di) -> bool {
    match form {
        Form::Vector(op) => match vector(op, d) {
            Some(Template::Recipe(recipe)) => recipe.keeps(),
            Some(template) => template.makes_half(),
            _ => false,
        },
        Form::Saturating(op) => Recipe::saturating(op, d).is_some_and(Recipe::keeps),
        Form::Pair(..) | Form::Keep | Form::Part | Form::SelectHalf | Form::Swap | Form::WriteLane => true,
        Form::Mixed(narrows) => narrows,
        _ => false,
    }
}

/// Returns true if an operation has a carry, or another mask, among its sources.
pub(crate) fn takes_carry(op: Op) -> bool {
    matches!(
        op,
        Op::V_ADD_CO_CI_U32
            | Op::V_SUB_CO_CI_U32
            | Op::V_SUBREV_CO_CI_U32
            | Op::V_DIV_FMAS_F32
            | Op::V_DIV_FMAS_F64
    )
}

/// Returns true if an operation with a carry is a product that is added.
pub(crate) fn is_product(op: Op) -> bool {
    matches!(op, Op::V_MAD_U64_U32 | Op::V_MAD_I64_I32)
}

/// Returns true if an operation with masks is a step of a division, which leaves unusual numbers to its handler.
pub(crate) fn is_division(op: Op) -> bool {
    matches!(op, Op::V_DIV_SCALE_F32 | Op::V_DIV_FMAS_F32 | Op::V_DIV_SCALE_F64 | Op::V_DIV_FMAS_F64)
}

/// Both operations of a VOPD, as elements of their own.
pub(crate) fn pair(d: &Di) -> [Di; 2] {
    let vector = |value: u32| Source { value, kind: Kind::Vector, ..Source::ZERO };
    let first = Di { src: [d.src[0], vector(d.src[2].value), vector(d.dst)], ..*d };
    let second = Di { dst: d.dst2, src: [d.src[1], vector(d.imm), vector(d.dst2)], ..*d };
    [first, second]
}

fn is_constant(source: &Source) -> bool {
    matches!(source.kind, Kind::Constant | Kind::Signed)
}

/// Returns the template of the vector operation `op` with the operands of `d`; `None` leaves it to the handler.
pub(crate) fn vector(op: Op, d: &Di) -> Option<Template> {
    let constant = |n: usize| is_constant(&d.src[n]);
    Some(match op {
        Op::V_MOV_B32 => Template::Move,
        Op::V_NOT_B32 => Template::Not,
        Op::V_AND_B32 => Template::Two(Two::And),
        Op::V_OR_B32 => Template::Two(Two::Or),
        Op::V_XOR_B32 => Template::Two(Two::Xor),
        Op::V_OR3_B32 => Template::Bits(0xfe),
        Op::V_XOR3_B32 => Template::Bits(0x96),
        Op::V_AND_OR_B32 => Template::Bits(0xea),
        Op::V_BFI_B32 => Template::Bits(0xca),
        Op::V_ADD_NC_U32 | Op::V_ADD_NC_I32 => Template::Two(Two::Add),
        Op::V_SUB_NC_U32 | Op::V_SUB_NC_I32 => Template::Two(Two::Subtract),
        Op::V_SUBREV_NC_U32 => Template::Swapped(Two::Subtract),
        Op::V_MUL_LO_U32 => Template::Two(Two::Multiply),
        Op::V_MIN_U32 => Template::Two(Two::MinUnsigned),
        Op::V_MAX_U32 => Template::Two(Two::MaxUnsigned),
        Op::V_MIN_I32 => Template::Two(Two::MinSigned),
        Op::V_MAX_I32 => Template::Two(Two::MaxSigned),
        Op::V_ADD3_U32 => Template::Chain(Two::Add, Two::Add),
        Op::V_XAD_U32 => Template::Chain(Two::Xor, Two::Add),
        Op::V_MIN3_U32 => Template::Chain(Two::MinUnsigned, Two::MinUnsigned),
        Op::V_MAX3_U32 => Template::Chain(Two::MaxUnsigned, Two::MaxUnsigned),
        Op::V_MIN3_I32 => Template::Chain(Two::MinSigned, Two::MinSigned),
        Op::V_MAX3_I32 => Template::Chain(Two::MaxSigned, Two::MaxSigned),
        Op::V_MAXMIN_U32 => Template::Chain(Two::MaxUnsigned, Two::MinUnsigned),
        Op::V_MINMAX_U32 => Template::Chain(Two::MinUnsigned, Two::MaxUnsigned),
        Op::V_MAXMIN_I32 => Template::Chain(Two::MaxSigned, Two::MinSigned),
        Op::V_MINMAX_I32 => Template::Chain(Two::MinSigned, Two::MaxSigned),
        Op::V_LSHLREV_B32 => Template::Shift(Shift::Left),
        Op::V_LSHRREV_B32 => Template::Shift(Shift::Right),
        Op::V_ASHRREV_I32 => Template::Shift(Shift::Signed),
        Op::V_LSHL_ADD_U32 => Template::ShiftThen(Two::Add),
        Op::V_LSHL_OR_B32 => Template::ShiftThen(Two::Or),
        Op::V_ADD_LSHL_U32 => Template::AddShift,
        Op::V_BFE_U32 if constant(1) && constant(2) => Template::Extract,
        Op::V_ALIGNBIT_B32 if constant(2) => Template::Align,
        Op::V_MUL_U32_U24 => Template::Multiply24,
        Op::V_MAD_U32_U24 => Template::MultiplyAdd24,
        Op::V_MUL_HI_U32 => Template::MultiplyHigh,
        Op::V_MUL_HI_I32 => Template::MultiplyHighSigned,
        Op::V_CVT_F32_I32 => Template::Convert(Integer::Signed),
        Op::V_CVT_F32_U32 => Template::Convert(Integer::Unsigned),
        Op::V_ADD_F32 => Template::Float(Arithmetic::Add),
        Op::V_SUB_F32 => Template::Float(Arithmetic::Subtract),
        Op::V_MUL_F32 => Template::Float(Arithmetic::Multiply),
        Op::V_SUBREV_F32 => Template::Float(Arithmetic::ReverseSubtract),
        Op::V_FMA_F32 | Op::V_FMAC_F32 | Op::V_FMAAK_F32 | Op::V_FMAMK_F32 => Template::Fused,
        Op::V_MIN_F32 | Op::V_MIN_NUM_F32 | Op::V_MINIMUM_F32 => Template::Extreme(Extreme::Least),
        Op::V_MAX_F32 | Op::V_MAX_NUM_F32 | Op::V_MAXIMUM_F32 => Template::Extreme(Extreme::Most),
        Op::V_MED3_F32 | Op::V_MED3_NUM_F32 => Template::Median,
        Op::V_LDEXP_F16 => Template::Scale(Float::Half),
        Op::V_LDEXP_F32 => Template::Scale(Float::Single),
        Op::V_LDEXP_F64 => Template::Scale(Float::Double),
        Op::V_DIV_FIXUP_F32 => Template::DivideFixup,
        Op::V_DIV_FIXUP_F64 => Template::DivideFixupDoubles,
        Op::V_RCP_F64 => Template::DoubleRoot(DoubleRoot::Reciprocal),
        Op::V_RSQ_F64 => Template::DoubleRoot(DoubleRoot::ReciprocalRoot),
        Op::V_SQRT_F64 => Template::DoubleRoot(DoubleRoot::Root),
        Op::V_CVT_F64_I32 => Template::ToDouble(Whole::Signed),
        Op::V_CVT_F64_U32 => Template::ToDouble(Whole::Unsigned),
        Op::V_CVT_F64_F32 => Template::ToDouble(Whole::Single),
        Op::V_CVT_F32_F64 => Template::DoubleToSingle,
        Op::V_LSHLREV_B64 if constant(0) && d.src[1].is_plain_vector() => Template::ShiftPair,
        Op::V_MOV_B64 => Template::MovePair,
        Op::V_LSHL_ADD_U64 if constant(1) => Template::ShiftAddPair,
        Op::V_CVT_F32_UBYTE0 => Template::ConvertByte(0),
        Op::V_CVT_F32_UBYTE1 => Template::ConvertByte(1),
        Op::V_CVT_F32_UBYTE2 => Template::ConvertByte(2),
        Op::V_CVT_F32_UBYTE3 => Template::ConvertByte(3),
        Op::V_CVT_U32_F32 => Template::ToUnsigned,
        Op::V_CVT_I32_F32 => Template::ToSigned,
        Op::V_RCP_F32 | Op::V_RCP_IFLAG_F32 => Template::Reciprocal,
        Op::V_SQRT_F32 => Template::Curve(Curve::Root),
        Op::V_RSQ_F32 => Template::Curve(Curve::ReciprocalRoot),
        Op::V_EXP_F32 => Template::Curve(Curve::PowerOfTwo),
        Op::V_CVT_F32_F16 => Template::HalfToSingle,
        Op::V_CVT_F16_F32 => Template::SingleToHalf,
        Op::V_CVT_PK_RTZ_F16_F32 => Template::SinglesToHalves,
        _ => {
            return of_halves(op)
                .map(Template::Halves)
                .or_else(|| extremes(op))
                .or_else(|| extreme_of(op))
                .or_else(|| unary(op).map(|(unary, float)| Template::Unary(unary, float)))
                .or_else(|| of_doubles(op).map(Template::Doubles))
                .or_else(|| Recipe::of(op, d).map(Template::Recipe));
        }
    })
}
