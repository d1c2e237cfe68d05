//! Independent oracles for the instruction set: they compare `belfry-isa` with other sources.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "registers are cut into fields and taken as other types throughout"
)]

pub mod cards;
pub mod decode;
pub mod engine;
pub mod programs;
pub mod random;
pub mod reference;
pub mod semantics;
pub mod tally;
pub mod target;
