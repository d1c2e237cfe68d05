//! The belfry binary once more, for tests of this package: cargo builds it with them, and tells them where it is.

use std::process::ExitCode;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).init();
    ExitCode::from(belfry_vmm::cli::main(std::env::args_os()))
}
