//! Dot products of two floats of 16 bits on gfx9.

use super::{exact, exact_brains, pairs};
use crate::exec::vector::op::vector_ops;

vector_ops! {
    V_DOT2ACC_F32_F16: Bits -> F32, (a: u32, b: u32, c: u32) -> u32 { exact(pairs(a, b), c) }
    V_DOT2ACC_F32_BF16: Bits -> F32, (a: u32, b: u32, c: u32) -> u32 { exact_brains(pairs(a, b), c) }
}
