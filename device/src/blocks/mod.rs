//! The IP blocks: the behaviour of registers when they are accessed.
//!
//! A block is one instance, owns its registers' state, and is given the other parts of the device that it
//! uses. It never calls another block.

/// Shows a block as its registers; state outside the block is shown where it lives.
macro_rules! shows_registers {
    ($block:ident, $storage:tt) => {
        impl std::fmt::Debug for $block {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($block)).field(&self.$storage).finish()
            }
        }
    };
}

mod athub;
mod gc;
mod invalidation;
mod mmhub;
mod nbif;
mod osssys;
mod psp;
mod sdma;
mod smu;
mod smuio;
mod umc;

pub(crate) use athub::Athub;
pub(crate) use gc::{Gc, GcCore, GcPorts};
pub(crate) use mmhub::Mmhub;
pub(crate) use nbif::Nbif;
pub(crate) use osssys::Osssys;
pub(crate) use psp::Psp;
pub(crate) use sdma::Sdma;
pub(crate) use smu::{ResetRequest, Smu, SmuPorts};
pub(crate) use smuio::Smuio;
pub(crate) use umc::Umc;
