//! Tasks beyond cargo's own: the gate, table generation, the kernel module, header checks.

pub mod header_check;
pub mod tidy;
