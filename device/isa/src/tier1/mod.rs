//! Tier 1: regions compiled to machine code of the host.
//!
//! The interpreter (tier 0) goes from handler to handler. A region that it has run often is compiled: code of its own
//! then does the work of its elements, with vector registers kept in registers of the processor. The code gives the
//! results of the handlers, to the bit, and stops where they stop. For an element without a template the code calls
//! its handler. See docs/tiers.md.
//!
//! There are two back ends, for x86-64 with AVX-512 and with AVX2. Other hosts stay in tier 0.

pub(crate) mod form;

#[cfg(target_arch = "x86_64")]
mod affine;
#[cfg(target_arch = "x86_64")]
mod alike;
#[cfg(target_arch = "x86_64")]
mod asm;
#[cfg(target_arch = "x86_64")]
mod atomic;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod body;
#[cfg(target_arch = "x86_64")]
mod code;
#[cfg(target_arch = "x86_64")]
mod code_memory;
#[cfg(target_arch = "x86_64")]
mod compile;
#[cfg(target_arch = "x86_64")]
mod covered;
#[cfg(target_arch = "x86_64")]
mod curves;
#[cfg(target_arch = "x86_64")]
mod elements;
#[cfg(target_arch = "x86_64")]
mod encoding;
#[cfg(target_arch = "x86_64")]
mod guess;
#[cfg(target_arch = "x86_64")]
mod half;
#[cfg(target_arch = "x86_64")]
mod kept;
#[cfg(target_arch = "x86_64")]
mod known;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lds;
#[cfg(target_arch = "x86_64")]
mod masks;
#[cfg(target_arch = "x86_64")]
mod memory;
#[cfg(not(target_arch = "x86_64"))]
mod none;
#[cfg(target_arch = "x86_64")]
mod permute;
#[cfg(target_arch = "x86_64")]
mod picks;
#[cfg(target_arch = "x86_64")]
mod polynomials;
#[cfg(target_arch = "x86_64")]
mod reciprocals;
mod rows;
#[cfg(target_arch = "x86_64")]
mod run;
#[cfg(target_arch = "x86_64")]
mod run_loads;
#[cfg(target_arch = "x86_64")]
mod runs;
#[cfg(target_arch = "x86_64")]
mod scalar;
#[cfg(target_arch = "x86_64")]
mod sixteens;
#[cfg(target_arch = "x86_64")]
mod smem;
#[cfg(target_arch = "x86_64")]
mod template;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
#[cfg(target_arch = "x86_64")]
mod times;
#[cfg(target_arch = "x86_64")]
mod touched;
#[cfg(target_arch = "x86_64")]
mod wanted;

#[cfg(not(target_arch = "x86_64"))]
pub use none::Touched;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{Compiled, EntryPoint, LINE, ticks};
#[cfg(target_arch = "x86_64")]
pub(crate) use run::{Compiled, EntryPoint};
#[cfg(target_arch = "x86_64")]
pub(crate) use times::ticks;
#[cfg(target_arch = "x86_64")]
pub(crate) use touched::LINE;
#[cfg(target_arch = "x86_64")]
pub use touched::Touched;

/// Uses of a region, and hundreds of instructions executed in it, after which it is compiled.
pub(crate) const HOT: u32 = 48;

/// Instructions that count as one more use.
pub(crate) const INSTRUCTIONS_OF_A_USE: u64 = 256;

/// Elements from which on a region is compiled beside the interpreter: some milliseconds.
pub(crate) const LARGE: usize = 2048;

/// Most elements that a region is compiled with: larger ones stay in tier 0.
pub(crate) const MAX_ELEMENTS: usize = 1 << 16;
