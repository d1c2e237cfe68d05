//! Dot products of two 16-bit floats whose results are those of gfx12.

use super::lanes;
use super::pairs;
use super::sums::{self, Card, Factors};
use crate::exec::vector::op::vector_ops;

vector_ops! {
    V_DOT2ACC_F32_F16: Bits -> F32, (a: u32, b: u32, c: u32) -> u32 { sums::single(Card::Gfx12, Factors::Halves, pairs(a, b), c) }, sixteen lanes::halves_of_gfx12
    V_DOT2ACC_F32_BF16: Bits -> F32, (a: u32, b: u32, c: u32) -> u32 { sums::single(Card::Gfx12, Factors::Brains, pairs(a, b), c) }
    V_DOT2_F16_F16: Bits -> F16, (a: u32, b: u32, c: u16) -> u16 { sums::narrow(Card::Gfx12, Factors::Halves, pairs(a, b), c) }
    V_DOT2_BF16_BF16: Bits -> Bits, (a: u32, b: u32, c: u16) -> u16 { sums::narrow(Card::Gfx12, Factors::Brains, pairs(a, b), c) }
}
