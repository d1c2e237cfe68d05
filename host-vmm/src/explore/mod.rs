//! `belfry explore`: a bundled program under many schedules; the program has to end well under each.
//!
//! | part | file |
//! | --- | --- |
//! | the choice of schedules | `search.rs` |
//! | one schedule, in a child | `attempt.rs` |
//! | the smallest schedule that shows a failure | `smallest.rs` |
//! | the summary of all | `summary.rs` |

mod attempt;
mod search;
mod smallest;
mod summary;

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use belfry_device::explore::Schedule;

pub use attempt::{Failure, Subject, Verdict, serve};
use search::Search;
pub use search::Strategy;
use smallest::Shrinking;
pub use summary::{Found, Summary};

use crate::trial::{Child, ChildError};

/// Default number of steps after which a run counts as hung.
pub const STEPS: u64 = 200_000;
/// Number of failures whose smallest schedule is looked for.
const AT_MOST: usize = 20;

/// Subject and size of an exploration.
#[derive(Clone, Debug)]
pub struct ExploreOptions {
    /// A bundled program, and its arguments.
    pub program: Vec<String>,
    /// Method of choosing schedules.
    pub strategy: Strategy,
    /// Number of schedules, beside the one without changes.
    pub schedules: u64,
    /// Seed of random schedules.
    pub seed: u64,
    /// For random schedules: number of events that have to come in a certain order.
    pub depth: u32,
    /// For bounded schedules: largest number of changes.
    pub preemptions: usize,
    /// True to end at the first failure.
    pub first: bool,
    /// Children at a time.
    pub jobs: usize,
    /// Time limit of a child for one schedule, on the host's clock.
    pub limit: Duration,
    /// Options of the device, as they are spelled.
    pub spelled: Vec<String>,
}

/// Lets a child run a schedule.
fn ask(child: &mut Child, schedule: &Schedule) -> Verdict {
    let verdict = child.ask(&schedule.to_string()).unwrap_or_else(|findings| {
        let text = findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Verdict { failure: Some(Failure::new("died", text)), ..Verdict::default() }
    });
    if verdict.ends
        && let Err(error) = child.replace()
    {
        log::error!("{error}");
    }
    verdict
}

/// A thread with a child, which ends with the thread that has started it.
struct Worker {
    schedules: Sender<Schedule>,
    verdicts: Receiver<Verdict>,
}

impl Worker {
    fn start(limit: Duration) -> Result<Self, ChildError> {
        let (schedules, asked) = channel::<Schedule>();
        let (answers, verdicts) = channel();
        let (started, starts) = channel();
        std::thread::spawn(move || {
            let mut child = match Child::start(limit) {
                Ok(child) => child,
                Err(error) => return started.send(Err(error)).is_ok(),
            };
            let told = started.send(Ok(())).is_ok();
            told && asked.iter().all(|schedule| answers.send(ask(&mut child, &schedule)).is_ok())
        });
        starts.recv().unwrap_or(Err(ChildError::Thread))?;
        Ok(Self { schedules, verdicts })
    }

    /// Starts a schedule; [`Self::verdict`] waits for its result.
    fn begin(&self, schedule: &Schedule) {
        // A thread that has panicked gives no verdict either.
        let _ = self.schedules.send(schedule.clone());
    }

    fn verdict(&self) -> Result<Verdict, ChildError> {
        self.verdicts.recv().map_err(|_| ChildError::Thread)
    }

    fn run(&self, schedule: &Schedule) -> Result<Verdict, ChildError> {
        self.begin(schedule);
        self.verdict()
    }
}

/// Runs the program under schedule after schedule; `progress` gets the number of those done, and of all.
///
/// # Errors
///
/// Children that cannot be started.
pub fn explore(options: &ExploreOptions, progress: &dyn Fn(u64, u64)) -> Result<Summary, ChildError> {
    let started = Instant::now();
    let first = Worker::start(options.limit)?;
    let others = (1..options.jobs).map(|_| Worker::start(options.limit));
    let workers = std::iter::once(Ok(first)).chain(others).collect::<Result<Vec<_>, _>>()?;
    let plain = Schedule::Preempt(Vec::new());
    let base = workers[0].run(&plain)?;
    let mut summary = Summary {
        program: options.program.clone(),
        points: base.explored.choices.len() as u64,
        options: options.spelled.clone(),
        ..Summary::default()
    };
    summary.add(0, &plain, &base);
    let mut digests = BTreeSet::from([base.explored.digest]);
    // If the run without changes fails, changes would show only that failure.
    let mut search = base.failure.is_none().then(|| {
        Search::new(&base.explored, options.strategy, (options.seed, options.depth, options.preemptions))
    });
    while let Some(search) = &mut search {
        // A round has as many schedules as there are workers; results are used one after the other.
        let left = options.schedules.saturating_sub(summary.schedules);
        let batch: Vec<Schedule> = (0..left.min(workers.len() as u64)).map_while(|_| search.next()).collect();
        if batch.is_empty() {
            summary.exhausted = left > 0;
            break;
        }
        workers.iter().zip(&batch).for_each(|(worker, schedule)| worker.begin(schedule));
        for (worker, schedule) in workers.iter().zip(&batch) {
            let verdict = worker.verdict()?;
            summary.schedules += 1;
            search.ran(schedule, &verdict.explored);
            digests.insert(verdict.explored.digest);
            summary.add(summary.schedules, schedule, &verdict);
            progress(summary.schedules, options.schedules);
        }
        if options.first && summary.failed > 0 {
            break;
        }
    }
    summary.different = digests.len() as u64;
    for index in 0..summary.found.len().min(AT_MOST) {
        let (changes, failure) = {
            let found = &summary.found[index];
            (found.changes.clone(), found.failure.clone())
        };
        let mut run = |schedule: &Schedule| workers[0].run(schedule).unwrap_or_default();
        let mut shrinking = Shrinking::new(&mut run, &base.explored, summary.schedules);
        if let Some((schedule, verdict)) = shrinking.smallest(&changes, &failure) {
            let text = schedule.to_string();
            let command = summary.command(&text);
            let found = &mut summary.found[index];
            found.failure = verdict.failure.unwrap_or(failure);
            (found.smallest, found.command) = (Some(text), Some(command));
        }
    }
    summary.took = started.elapsed();
    Ok(summary)
}
