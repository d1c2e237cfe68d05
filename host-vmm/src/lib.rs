//! The belfry binary's parts: its command line, runs in guests and in this process, programs under `exec`, benchmarks.
//!
//! Its building blocks are crates beside it: `guest`, `image`, `machine`, `process`, `vfio-user`.

#![cfg_attr(
    not(test),
    warn(
        clippy::print_stdout,
        clippy::print_stderr,
        reason = "`output` writes, and survives readers that leave"
    )
)]

pub mod bench;
pub mod cli;
pub mod doctor;
pub mod doorbell;
pub mod exec;
pub mod explore;
pub mod flame;
pub mod hosted;
pub mod inspect;
pub mod install_driver;
pub mod isa_trace;
mod output;
pub mod own_machine;
pub mod profile;
pub mod racy;
pub mod run;
pub mod sanitize;
pub mod snapshot;
pub mod suite;
pub mod torture;
pub mod trace;
pub mod trial;

pub use belfry_inspect::{gdb, symbols};
