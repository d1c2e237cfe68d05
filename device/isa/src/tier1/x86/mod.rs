//! Code for x86-64, with AVX-512 or AVX2.

pub(super) mod affine;
pub(super) mod asm;
pub(super) mod atomic;
pub(super) mod avx2;
pub(super) mod avx512;
pub(super) mod body;
mod buffer;
pub(super) mod code;
pub(super) mod compile;
pub(super) mod encoding;
pub(super) mod kept;
pub(super) mod known;
mod lane_stores;
mod loops;
mod masm;
mod opcodes;
pub(super) mod run;
pub(super) mod smem;
mod stretches;
pub(super) mod sums;
#[cfg(test)]
pub(super) mod tests;
pub(super) mod times;
