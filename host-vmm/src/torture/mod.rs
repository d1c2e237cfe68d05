//! `belfry torture`: a bundled program under many plans of faults. Under each it has to end well or with a clean
//! error, and the device has to work afterwards.
//!
//! | part | file |
//! | --- | --- |
//! | the choice of plans | `plans.rs` |
//! | one plan, in a child | `attempt.rs` |
//! | the verdict on a plan | `verdict.rs` |
//! | one plan, in a guest | `in_guest.rs` |
//! | the smallest plan that shows a finding | `smallest.rs` |
//! | the summary of all | `summary.rs` |
//! | a finding as a file, and having it shown again | `again.rs` |

mod again;
mod attempt;
mod in_guest;
mod plans;
mod smallest;
mod summary;
mod verdict;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use belfry_device::GpuConfig;
use belfry_device::faults::Plan;
use belfry_device::time::TimeSource;

pub use again::{Again, AgainError, again, keep};
pub use attempt::{Bug, Place, serve};
pub use in_guest::{InGuestError, Machine, prepare};
pub use summary::{Found, Summary};
pub use verdict::{Ending, Verdict};

use crate::trial::Child;
pub use crate::trial::{ChildError, Finding};

/// Factor by which time passes faster for device and driver: a ten-second wait of a driver is over in a fifth of a
/// second.
pub const TIME_FACTOR: f64 = 50.0;

/// Subject and size of a torture.
#[derive(Clone, Debug)]
pub struct TortureOptions {
    /// The device.
    pub gpu: GpuConfig,
    /// A bundled program, and its arguments.
    pub program: Vec<String>,
    /// Place in which it runs, as `--mode` names it.
    pub mode: &'static str,
    /// Number of plans.
    pub plans: u64,
    /// Seed of pairs of rules and of chaos.
    pub seed: u64,
    /// Children at a time.
    pub jobs: usize,
    /// Time limit of a child for a plan.
    pub limit: Duration,
}

/// Reason for having no torture.
#[derive(Debug, thiserror::Error)]
pub enum TortureError {
    /// No child is available.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The program does not work without faults.
    #[error("{program} does not end well where nothing fails, so that faults would show nothing: {verdict}")]
    Clean {
        /// Its name.
        program: String,
        /// Verdict on the run without faults.
        verdict: String,
    },
}

/// Lets a child run the program under a plan.
fn ask(child: &mut Child, plan: &Plan) -> Verdict {
    let text = if *plan == Plan::counting() { "count".to_owned() } else { plan.to_string() };
    child.ask(&text).unwrap_or_else(|findings| Verdict { findings, ..Verdict::default() })
}

/// Returns a configuration in which a driver's waits are soon over.
#[must_use]
pub fn hasty(config: &GpuConfig) -> GpuConfig {
    GpuConfig { time: TimeSource::scaled(TIME_FACTOR), ..config.clone() }
}

/// Runs the program under plan after plan; `progress` gets the number of those done, and of all.
///
/// # Errors
///
/// Children that cannot be started, or a program that fails without faults.
pub fn torture(
    options: &TortureOptions,
    progress: &(dyn Fn(u64, u64) + Sync),
) -> Result<Summary, TortureError> {
    let started = Instant::now();
    let mut first = Child::start(options.limit)?;
    let clean = ask(&mut first, &Plan::counting());
    if clean.ending != Ending::Well || !clean.findings.is_empty() {
        let program = options.program.join(" ");
        return Err(TortureError::Clean { program, verdict: clean.to_string() });
    }
    // The first child has its guest already, if there are guests.
    let first = Mutex::new(Some(first));
    let plans = plans::Plans::new((&clean.loading, &clean.met), options.seed, options.plans);
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let summary = Mutex::new(Summary::default());
    let note = |plan: &Plan, verdict: &Verdict| {
        summary.lock().unwrap_or_else(PoisonError::into_inner).add(plan, verdict);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, options.plans);
    };
    let work = || -> Result<(), ChildError> {
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut child = first.map_or_else(|| Child::start(options.limit), Ok)?;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.plans {
                return Ok(());
            }
            let plan = plans.plan(number);
            let verdict = ask(&mut child, &plan);
            note(&plan, &verdict);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or(Err(ChildError::Thread)))
    })?;
    let mut summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.took = started.elapsed();
    summary.program.clone_from(&options.program);
    summary.mode = options.mode;
    summary.met =
        clean.met.iter().map(|(&hook, &count)| (hook.name().to_owned(), count)).collect::<BTreeMap<_, _>>();
    if !summary.found.is_empty() {
        let mut child = Child::start(options.limit)?;
        for found in summary.found.iter_mut().take(smallest::AT_MOST) {
            found.smallest = smallest::smallest(&mut child, found);
        }
    }
    Ok(summary)
}
