//! Tools that look at a running GPU: the socket of `belfry inspect`, the stub for GDB, and symbols of code objects.
//!
//! The binary has it beside the devices of `run` and `serve`, and the library of `belfry exec` beside the devices of
//! programs.

pub mod gdb;
pub mod inspect;
pub mod questions;
pub mod symbols;
mod windows;
