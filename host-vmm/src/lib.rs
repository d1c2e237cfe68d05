//! The belfry binary's parts: guest images, the vfio-user server, guests in QEMU, the hosted mode, the benchmarks.

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
pub mod disasm;
pub mod doctor;
pub mod doorbell;
pub mod exec;
pub mod guest;
pub mod hosted;
pub mod isa_trace;
mod output;
pub mod own_machine;
pub mod run;
