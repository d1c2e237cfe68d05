//! The belfry binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    belfry_vmm::cli::process()
}
