//! Readings of a kernel's profile: its basic blocks, and an estimate of its time on the card.

mod blocks;
mod estimate;

pub use blocks::{Block, blocks};
pub use estimate::{Bound, Estimate, LATENCY, estimate};
