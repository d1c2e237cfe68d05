//! The AVX2 back end: eight lanes at a time.
//!
//! A row is four registers here, of which there are sixteen. So that what elements pass on stays in registers all the same, a run of
//! elements that have nothing to do with other lanes is gone through once for each eight lanes ([`pass`]). Between runs
//! everything is in memory.

mod cache;
mod doubles;
mod lanes;
mod masks;
mod opcodes;
mod pass;
mod singles;

pub(super) use pass::{has, run_of};
