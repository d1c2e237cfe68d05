//! Unmodified HIP, OpenCL and Python programs and ROCm's tools under `belfry exec`: one test for each case.
//!
//! The last line is `N passed, N failed, N absent`. Absent are the cases that fail exactly as `docs/exec-suite.md` says;
//! they run as well, and count as failed once that has changed.

use std::process::ExitCode;

use anyhow::Result;
use belfry_tests::suite::harness::{Mode, run};
use libtest_mimic::Arguments;

fn main() -> Result<ExitCode> {
    run(Mode::Exec, Arguments::from_args())
}
