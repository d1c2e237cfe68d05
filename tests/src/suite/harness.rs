//! The suite as a test program: a test for each case, and the count as the last line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use belfry_image::Progress;
use belfry_image::rootfs::{self, Root};
use libtest_mimic::{Arguments, Failed, Trial};

use crate::suite::guest::InGuest;
use crate::suite::verdict::Verdict;
use crate::suite::{Exec, Plan, Ready, Runner, Test, belfry};

/// Way in which the suite runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Each case as a process of this machine, under `belfry exec`; several at once.
    Exec,
    /// All cases in one guest, one after the other.
    Guest,
}

impl Mode {
    /// Its name, which the names of its tests begin with.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Guest => "guest",
        }
    }

    /// Time limit of one case: many times what it needs even on a loaded machine.
    fn limit(self) -> Duration {
        match self {
            Self::Exec => Duration::from_secs(60),
            Self::Guest => Duration::from_secs(600),
        }
    }
}

/// The runner of a run; a guest is switched off at its end.
enum Runs {
    Exec(Exec),
    Guest(InGuest),
}

impl Runs {
    fn runner(&self) -> &dyn Runner {
        match self {
            Self::Exec(exec) => exec,
            Self::Guest(guest) => guest,
        }
    }
}

/// State that every case needs.
struct Suite {
    ready: Ready,
    runs: Runs,
    absent: AtomicU64,
}

/// Runs the cases that `arguments` choose and prints `N passed, N failed, N absent` as the last line.
///
/// # Errors
///
/// A part that cannot be prepared: sources, the root tree, compilers, belfry, the guest.
pub fn run(mode: Mode, mut arguments: Arguments) -> Result<ExitCode> {
    let mut plan = Plan::new()?;
    plan.keep_those_of_rocm();
    match mode {
        Mode::Exec => plan.leave_guests_out(),
        Mode::Guest => plan.keep_those_of_guests(1),
    }
    let named = |name: &str| format!("{}::{name}", mode.name());
    let wanted: Vec<&Test> = plan
        .tests
        .iter()
        .filter(|test| !arguments.is_filtered_out(&Trial::test(named(&test.name), || Ok(()))))
        .collect();
    let suite = if arguments.list || wanted.is_empty() { None } else { Some(prepare(mode, &plan, &wanted)?) };
    let suite = suite.map(Arc::new);
    let mut trials = vec![table_names_cases(named("table::every_row_names_a_case"), plan.unknown.clone())];
    for test in plan.tests {
        let suite = suite.clone();
        trials.push(Trial::test(named(&test.name), move || {
            let suite = suite.ok_or("the suite was not prepared")?;
            match suite.ready.run(&test, suite.runs.runner(), mode.limit())? {
                Verdict::Passed => {}
                Verdict::Absent => drop(suite.absent.fetch_add(1, Ordering::Relaxed)),
            }
            Ok(())
        }));
    }
    if mode == Mode::Guest {
        arguments.test_threads = Some(1);
    }
    let list = arguments.list;
    let conclusion = libtest_mimic::run(&arguments, trials);
    let absent = suite.as_ref().map_or(0, |suite| suite.absent.load(Ordering::Relaxed));
    if let Some(Suite { runs: Runs::Guest(guest), .. }) = suite.and_then(Arc::into_inner) {
        guest.power_off()?;
    }
    if !list {
        let passed = conclusion.num_passed - absent;
        println!("{passed} passed, {} failed, {absent} absent", conclusion.num_failed);
    }
    Ok(conclusion.exit_code())
}

fn prepare(mode: Mode, plan: &Plan, wanted: &[&Test]) -> Result<Suite> {
    let progress = Progress::new();
    let (root, tree) = match std::env::var_os("BELFRY_SUITE_ROOT").filter(|path| !path.is_empty()) {
        Some(path) => (Root::Path(PathBuf::from(&path)), PathBuf::from(path)),
        None => (Root::Named("rocm".to_owned()), rootfs::rocm(&progress)?),
    };
    let ready = plan.prepare(wanted.iter().copied(), &tree, &progress)?;
    let runs = match mode {
        Mode::Exec => Runs::Exec(Exec::new(belfry()?, &tree)),
        Mode::Guest => Runs::Guest(InGuest::boot(root, ready.programs(), &progress)?),
    };
    Ok(Suite { ready, runs, absent: AtomicU64::new(0) })
}

fn table_names_cases(name: String, unknown: Vec<String>) -> Trial {
    Trial::test(name, move || {
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Failed::from(format!("rows that name no case: {}", unknown.join(", "))))
    })
}
