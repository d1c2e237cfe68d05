//! Unmodified HIP, OpenCL and Python programs and ROCm's tools under `belfry exec`: one test for each case.
//!
//! The last line is `N passed, N failed, N absent`. Absent are the cases that fail exactly as `docs/exec-suite.md` says;
//! they run as well, and count as failed once that has changed.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Result;
use belfry_tests::suite::plan::tree;
use belfry_tests::suite::verdict::Verdict;
use belfry_tests::suite::{Exec, Plan, Ready, Test};
use belfry_vmm::image::Progress;
use libtest_mimic::{Arguments, Failed, Trial};

/// How long one case may take; many times what it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What every case needs, there once the first one runs.
static SUITE: OnceLock<(Ready, Exec)> = OnceLock::new();
static ABSENT: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<ExitCode> {
    let arguments = Arguments::from_args();
    let plan = Plan::new()?;
    let mut trials = vec![table_names_cases(plan.unknown.clone())];
    let mut wanted = Vec::new();
    for test in &plan.tests {
        let trial = trial(test.clone());
        if !arguments.is_filtered_out(&trial) {
            wanted.push(test);
        }
        trials.push(trial);
    }
    if !arguments.list && !wanted.is_empty() {
        let progress = Progress::new();
        let tree = tree(&progress)?;
        let ready = plan.prepare(wanted, &tree, &progress)?;
        let _ = SUITE.set((ready, Exec::new(&tree)?));
    }
    let list = arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !list {
        let absent = ABSENT.load(Ordering::Relaxed);
        println!(
            "{} passed, {} failed, {absent} absent",
            conclusion.num_passed - absent,
            conclusion.num_failed
        );
    }
    Ok(conclusion.exit_code())
}

fn trial(test: Test) -> Trial {
    let kind = if test.absent.is_some() { "absent" } else { "" };
    let test = Arc::new(test);
    Trial::test(format!("exec::{}", test.name), move || {
        let (ready, exec) = SUITE.get().ok_or("the suite was not prepared")?;
        match ready.run(&test, exec, LIMIT)? {
            Verdict::Passed => {}
            Verdict::Absent => drop(ABSENT.fetch_add(1, Ordering::Relaxed)),
        }
        Ok(())
    })
    .with_kind(kind)
}

fn table_names_cases(unknown: Vec<String>) -> Trial {
    Trial::test("exec::table::every_row_names_a_case", move || {
        if unknown.is_empty() {
            Ok(())
        } else {
            Err(Failed::from(format!("no such cases: {}", unknown.join(", "))))
        }
    })
}
