//! Tier 1: regions compiled to machine code of the host.
//!
//! The interpreter (tier 0) goes from handler to handler. A region that it has run often is compiled: code of its own
//! then does the work of its elements, with vector registers kept in registers of the processor. The code gives the
//! results of the handlers, to the bit, and stops where they stop. For an element without a template the code calls
//! its handler. See docs/tiers.md.
//!
//! There are two back ends, for x86-64 with AVX-512 and with AVX2. Other hosts stay in tier 0.

#[cfg(target_arch = "x86_64")]
mod analysis;
#[cfg(not(target_arch = "x86_64"))]
mod none;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(crate) use analysis::touched::LINE;
#[cfg(target_arch = "x86_64")]
pub use analysis::touched::Touched;
#[cfg(not(target_arch = "x86_64"))]
pub use none::Touched;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::{Compiled, EntryPoint, LINE, ticks};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::run::{Compiled, EntryPoint};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::times::ticks;

/// Uses of a region, and hundreds of instructions executed in it, after which it is compiled.
pub(crate) const HOT: u32 = 48;

/// Instructions that count as one more use.
pub(crate) const INSTRUCTIONS_OF_A_USE: u64 = 256;

/// Elements from which on a region is compiled beside the interpreter: some milliseconds.
pub(crate) const LARGE: usize = 2048;

/// Most elements that a region is compiled with: larger ones stay in tier 0.
pub(crate) const MAX_ELEMENTS: usize = 1 << 16;
