//! The belfry binary once more, for tests of this package: cargo builds it with them, and tells them where it is.

use std::process::ExitCode;

fn main() -> ExitCode {
    belfry_vmm::cli::process()
}
