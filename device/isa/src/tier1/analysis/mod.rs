//! Facts about a region that are known before code is made for it.
//!
//! Nothing here names a processor: back ends take what they need from here, never the other way round.

pub(super) mod alike;
pub(super) mod classes;
pub(super) mod covered;
pub(super) mod elements;
pub(super) mod floats;
pub(super) mod guess;
pub(super) mod known;
pub(super) mod packed;
pub(super) mod permuted;
pub(super) mod picks;
pub(super) mod recipe;
pub(super) mod rows;
pub(super) mod runs;
pub(super) mod source;
pub(super) mod template;
pub(super) mod touched;
pub(super) mod wanted;

use crate::registers::slot;

/// Register number of `EXEC`.
pub(super) const EXEC: u32 = slot::EXEC as u32;
/// Register number of `SCC`.
pub(super) const SCC: u32 = slot::SCC as u32;

#[cfg(test)]
mod one_lane_tests;
#[cfg(test)]
mod tests;
