//! The suite of unmodified programs by hand, in either mode; `cargo xtask suite` is its front.
//!
//! `suite exec|guest ARGUMENTS`, with the arguments of any test program: a filter, `--list`, `--skip`, `--exact`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use belfry_tests::suite::harness::{Mode, run};
use libtest_mimic::Arguments;

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let mode = match arguments.next().as_deref() {
        Some("exec") => Mode::Exec,
        Some("guest") => Mode::Guest,
        other => bail!("which mode: exec or guest, not {other:?}"),
    };
    run(mode, Arguments::from_iter(std::iter::once(program).chain(arguments)))
}
