//! The instructions that operations of [templates](crate::tier1::analysis::template) are.

use super::encoding::*;
use crate::tier1::analysis::floats::Rounding;
use crate::tier1::analysis::recipe::{Act, Elements};
use crate::tier1::analysis::template::{Arithmetic, Extreme, Integer, Shift, Two};

pub(crate) fn two(op: Two) -> Evex {
    match op {
        Two::And => VPANDD,
        Two::Or => VPORD,
        Two::Xor => VPXORD,
        Two::Add => VPADDD,
        Two::Subtract => VPSUBD,
        Two::Multiply => VPMULLD,
        Two::MinUnsigned => VPMINUD,
        Two::MaxUnsigned => VPMAXUD,
        Two::MinSigned => VPMINSD,
        Two::MaxSigned => VPMAXSD,
    }
}

pub(crate) fn act(act: Act) -> Evex {
    match act {
        Act::Two(op) => two(op),
        Act::AndNot => VPANDND,
        Act::Shift(how) => shift(how).0,
        Act::MultiplyHalves => VPMADDWD,
        Act::PickBytes => VPSHUFB,
    }
}

/// A shift of elements by a constant.
pub(crate) fn shift_of(of: Elements, how: Shift) -> Evex {
    match (of, how) {
        (Elements::Dwords, how) => shift(how).1,
        (Elements::Words, Shift::Left) => VPSLLW,
        (Elements::Words, Shift::Right) => VPSRLW,
        (Elements::Words, Shift::Signed) => VPSRAW,
    }
}

/// A shift by lanes, and one by a constant.
pub(crate) fn shift(how: Shift) -> (Evex, Evex) {
    match how {
        Shift::Left => (VPSLLVD, VPSLLD),
        Shift::Right => (VPSRLVD, VPSRLD),
        Shift::Signed => (VPSRAVD, VPSRAD),
    }
}

/// A choice of two singles, and what zeros of both signs become by.
pub(crate) fn extreme(of: Extreme) -> (Evex, Evex) {
    match of {
        Extreme::Least => (VMINPS, VPORD),
        Extreme::Most => (VMAXPS, VPANDD),
    }
}

pub(crate) fn integer(of: Integer) -> Evex {
    match of {
        Integer::Signed => VCVTDQ2PS,
        Integer::Unsigned => VCVTUDQ2PS,
    }
}

/// The instruction on words side by side.
pub(crate) fn words(op: Two) -> Evex {
    match op {
        Two::And | Two::Or | Two::Xor => two(op),
        Two::Add => VPADDW,
        Two::Subtract => VPSUBW,
        Two::Multiply => VPMULLW,
        Two::MinUnsigned => VPMINUW,
        Two::MaxUnsigned => VPMAXUW,
        Two::MinSigned => VPMINSW,
        Two::MaxSigned => VPMAXSW,
    }
}

/// A product or sum of singles, and of doubles; differences are sums, as one source is negated.
pub(crate) fn arithmetic(op: Arithmetic) -> (Evex, Evex) {
    match op {
        Arithmetic::Multiply => (VMULPS, VMULPD),
        Arithmetic::Add | Arithmetic::Subtract | Arithmetic::ReverseSubtract => (VADDPS, VADDPD),
        Arithmetic::Fused => (VFMADD132PS, VFMADD132PD),
    }
}

/// The constant of `vrndscaleps` and `vroundps`, by which no inexact result is told.
pub(crate) fn rounding(how: Rounding) -> u8 {
    8 | match how {
        Rounding::Nearest => 0,
        Rounding::Down => 1,
        Rounding::Up => 2,
        Rounding::ToZero => 3,
    }
}
