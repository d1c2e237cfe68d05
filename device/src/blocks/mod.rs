//! The IP blocks: what silicon does when its registers are accessed.
//!
//! A block is one instance, owns its registers' state, and is given what it reaches beyond them. It never calls another
//! block.

mod gc;
mod invalidation;
mod mmhub;
mod mp;
mod nbif;
mod osssys;
mod smuio;

pub(crate) use gc::{Gc, GcPorts};
pub(crate) use mmhub::Mmhub;
pub(crate) use mp::Mp0;
pub(crate) use nbif::Nbif;
pub(crate) use osssys::Osssys;
pub(crate) use smuio::Smuio;
