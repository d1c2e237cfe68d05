//! Read-modify-write functions shared by LDS, global and flat atomics.

use crate::exec::vector::float::{brain, double, flush_input, flush_output, half, single};
use crate::exec::vector::op::Format;

/// An atomic function; [`Function::apply32`] and [`Function::apply64`] define it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Function {
    Add,
    Sub,
    ReverseSub,
    Increment,
    Decrement,
    MinSigned,
    MaxSigned,
    MinUnsigned,
    MaxUnsigned,
    And,
    Or,
    Xor,
    MaskOr,
    Exchange,
    CompareExchange,
    CompareExchangeFloat,
    AddFloat,
    MinFloat,
    MaxFloat,
    Wrap,
    ClampedSub,
    /// Subtracts where that gives no negative number.
    ConditionalSub,
    /// Minimum, where a number wins over any NaN.
    MinNumber,
    MaxNumber,
    /// Adds two halves of a word.
    AddHalves,
    /// Adds two `bfloat16` of a word.
    AddBrains,
    /// Adds to the high half and counts the low one on, if that is the low half of the data.
    OrderedAdd,
}

/// All, by number.
const FUNCTIONS: [Function; 27] = {
    use Function::*;
    [
        Add,
        Sub,
        ReverseSub,
        Increment,
        Decrement,
        MinSigned,
        MaxSigned,
        MinUnsigned,
        MaxUnsigned,
        And,
        Or,
        Xor,
        MaskOr,
        Exchange,
        CompareExchange,
        CompareExchangeFloat,
        AddFloat,
        MinFloat,
        MaxFloat,
        Wrap,
        ClampedSub,
        ConditionalSub,
        MinNumber,
        MaxNumber,
        AddHalves,
        AddBrains,
        OrderedAdd,
    ]
};

/// Applies a function to the 16-bit parts of a word.
fn pairs(a: u64, b: u64, f: impl Fn(u16, u16) -> u16) -> u64 {
    let part = |shift: u32| u64::from(f((a >> shift) as u16, (b >> shift) as u16)) << shift;
    part(0) | part(16)
}

fn add_brains(a: u16, b: u16) -> u16 {
    brain::from_single(single::binary(brain::to_single(a), brain::to_single(b), |a, b| a + b))
}

impl Function {
    /// As [`Function::apply32`], in LDS: sums of floats have denormals as `mode` says. They are to nearest in every mode.
    pub(crate) fn in_lds32(self, old: u32, data: u32, other: u32, mode: u32) -> u32 {
        if self != Function::AddFloat {
            return self.apply32(old, data, other);
        }
        let [old, data] = [old, data].map(|x| flush_input(x, Format::F32, mode));
        flush_output(self.apply32(old, data, other), Format::F32, mode)
    }
}

/// The last of the numbers that ordered additions count through: all bits of `VGT_GS_MAX_WAVE_ID`.
const MAX_ORDERED_ID: u32 = 0xfff;

/// Returns the new value of an ordered addition. The low word is the number whose turn it is, the high word the sum;
/// `data` has the number that adds, and the amount.
fn ordered_add(old: u64, data: u64) -> u64 {
    let (id, sum) = (old as u32, (old >> 32) as u32);
    if id != data as u32 {
        return old;
    }
    let next = id.wrapping_add(1) & MAX_ORDERED_ID;
    u64::from(sum.wrapping_add((data >> 32) as u32)) << 32 | u64::from(next)
}

/// Defines the new value for words of one width.
macro_rules! apply {
    ($(#[$doc:meta])* $name:ident, $word:ty, $format:ident) => {
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(self, old: $word, data: $word, other: $word) -> $word {
            match self {
                Function::Add => old.wrapping_add(data),
                Function::Sub => old.wrapping_sub(data),
                Function::ReverseSub => data.wrapping_sub(old),
                Function::Increment => {
                    if old >= data {
                        0
                    } else {
                        old + 1
                    }
                }
                Function::Decrement => {
                    if old == 0 || old > data {
                        data
                    } else {
                        old - 1
                    }
                }
                Function::MinSigned => old.cast_signed().min(data.cast_signed()).cast_unsigned(),
                Function::MaxSigned => old.cast_signed().max(data.cast_signed()).cast_unsigned(),
                Function::MinUnsigned => old.min(data),
                Function::MaxUnsigned => old.max(data),
                Function::And => old & data,
                Function::Or => old | data,
                Function::Xor => old ^ data,
                Function::MaskOr => old & !data | other,
                Function::Exchange => data,
                Function::CompareExchange => {
                    if old == other {
                        data
                    } else {
                        old
                    }
                }
                Function::CompareExchangeFloat => {
                    if $format::of(old) == $format::of(other) {
                        data
                    } else {
                        old
                    }
                }
                Function::AddFloat => $format::binary(old, data, |a, b| a + b),
                Function::MinFloat => $format::min(old, data),
                Function::MaxFloat => $format::max(old, data),
                Function::Wrap => {
                    if old >= data {
                        old - data
                    } else {
                        old.wrapping_add(other)
                    }
                }
                Function::ClampedSub => old.saturating_sub(data),
                Function::ConditionalSub => {
                    if old >= data {
                        old - data
                    } else {
                        old
                    }
                }
                Function::MinNumber => $format::min_num(old, data),
                Function::MaxNumber => $format::max_num(old, data),
                Function::AddHalves => pairs(old.into(), data.into(), |a, b| half::binary(a, b, |a, b| a + b)) as $word,
                Function::AddBrains => pairs(old.into(), data.into(), add_brains) as $word,
                Function::OrderedAdd => ordered_add(old.into(), data.into()) as $word,
            }
        }
    };
}

impl Function {
    /// The function with this number.
    #[inline(always)]
    pub(crate) fn from_number(number: u8) -> Function {
        FUNCTIONS[usize::from(number) % FUNCTIONS.len()]
    }

    /// Data operands beside the memory.
    pub(crate) fn operands(self) -> u32 {
        match self {
            Function::MaskOr
            | Function::CompareExchange
            | Function::CompareExchangeFloat
            | Function::Wrap => 2,
            _ => 1,
        }
    }

    apply! {
        /// The new 32-bit value. `other` is the second operand: what to compare with, the value to or in, the limit.
        apply32, u32, single
    }
    apply! {
        /// As [`Function::apply32`], of 64 bits.
        apply64, u64, double
    }
}
