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
#[cfg(target_arch = "x86_64")]
mod masm;
#[cfg(target_arch = "x86_64")]
mod scalar;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::exec::compiled::Compiler;

/// The compiler for the host's processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn compiler() -> Option<&'static dyn Compiler> {
    Some(&x86::run::X86)
}

/// Nothing is compiled for the host's processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn compiler() -> Option<&'static dyn Compiler> {
    None
}
