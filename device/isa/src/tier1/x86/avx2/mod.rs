//! The AVX2 back end: eight lanes at a time.
//!
//! A row is four registers here, and there are sixteen. To keep the values that elements pass on in registers all the
//! same, code goes through a run of elements that have nothing to do with other lanes once for each eight lanes
//! ([`pass`]). Between runs everything is in memory.

mod atomic;
mod cache;
mod compare;
mod doubles;
mod elements;
mod halves;
mod lanes;
mod lds;
mod masks;
mod memory;
mod opcodes;
mod pass;
mod recipes;
mod rounds;
mod run_loads;
mod singles;
mod uses;

pub(crate) use pass::{has, is_shared};
pub(crate) use rounds::rounds_of;
pub(crate) use run_loads::run_of;
