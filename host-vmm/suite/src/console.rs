//! The suite on a console: a line for each case, the output of failing cases, and the count as the last line.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belfry_junit::{Case, End};

use crate::plan::{Ready, Test};
use crate::runner::Runner;
use crate::verdict::{CaseError, Verdict};

/// Way in which cases run.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "runners need not have one")]
pub enum How<'a> {
    /// One after the other, on the calling thread.
    InTurn(&'a dyn Runner),
    /// As many at once as the number says.
    SideBySide(&'a (dyn Runner + Sync), usize),
}

/// Results of all cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cases that succeeded.
    pub passed: usize,
    /// Cases that are not as they should be.
    pub failed: usize,
    /// Cases that failed as the table of absent cases says.
    pub absent: usize,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} absent", self.passed, self.failed, self.absent)
    }
}

/// Everything that there is to say of the cases that have run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// The cases by their ends.
    pub counts: Counts,
    /// Each case, in the order of their ends.
    pub cases: Vec<Case>,
}

/// Results of the cases that have run.
struct Told<'a> {
    ready: &'a Ready,
    line: &'a mut (dyn FnMut(&str) + Send),
    counts: Counts,
    failures: Vec<(&'a str, CaseError)>,
    cases: Vec<Case>,
}

impl<'a> Told<'a> {
    fn tell(&mut self, test: &'a Test, (result, time): (Result<Verdict, CaseError>, Duration)) {
        let name = &test.name;
        let end = match &result {
            Ok(Verdict::Passed) => End::Passed,
            Ok(Verdict::Absent) => {
                let reason = self.ready.absent(test).map(|absent| absent.reason.clone());
                End::Skipped { message: reason.unwrap_or_default() }
            }
            Err(report) => {
                let details = report.to_string();
                End::Failed { message: details.lines().next().unwrap_or_default().to_owned(), details }
            }
        };
        let (class, case) = name.split_once("::").unwrap_or(("", name));
        self.cases.push(Case {
            class: class.to_owned(),
            name: case.to_owned(),
            seconds: Some(time.as_secs_f64()),
            end,
            output: String::new(),
        });
        match result {
            Ok(Verdict::Passed) => {
                self.counts.passed += 1;
                (self.line)(&format!("{name} ... pass"));
            }
            Ok(Verdict::Absent) => {
                self.counts.absent += 1;
                let reason = self.ready.absent(test).map_or("", |absent| absent.reason.as_str());
                (self.line)(&format!("{name} ... absent: {reason}"));
            }
            Err(report) => {
                self.counts.failed += 1;
                (self.line)(&format!("{name} ... FAIL"));
                self.failures.push((name, report));
            }
        }
    }
}

/// Runs `tests` and gives `line` each line to print; the last line is the count.
pub fn run(
    ready: &Ready,
    tests: &[&Test],
    how: How<'_>,
    limit: Duration,
    line: &mut (dyn FnMut(&str) + Send),
) -> Results {
    let mut told = Told { ready, line, counts: Counts::default(), failures: Vec::new(), cases: Vec::new() };
    let timed = |test, runner| {
        let begun = Instant::now();
        let result = ready.run(test, runner, limit);
        (result, begun.elapsed())
    };
    match how {
        How::InTurn(runner) => {
            for test in tests {
                told.tell(test, timed(test, runner));
            }
        }
        How::SideBySide(runner, jobs) => {
            let (next, shared) = (AtomicUsize::new(0), Mutex::new(&mut told));
            std::thread::scope(|scope| {
                for _ in 0..jobs.clamp(1, tests.len().max(1)) {
                    scope.spawn(|| {
                        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                            let result = timed(test, runner);
                            shared
                                .lock()
                                .unwrap_or_else(std::sync::PoisonError::into_inner)
                                .tell(test, result);
                        }
                    });
                }
            });
        }
    }
    let Told { line, counts, failures, cases, .. } = told;
    // Cases of a program that does not compile all have the same to say.
    let mut told = BTreeMap::new();
    for (name, report) in &failures {
        let first: &mut &str = told.entry(report).or_insert(name);
        match *first == *name {
            true => line(&format!("\n==== {name}: {report}")),
            false => line(&format!("\n==== {name}: as {first}")),
        }
    }
    if !failures.is_empty() {
        line("\nfailed:");
        for (name, _) in &failures {
            line(&format!("    {name}"));
        }
    }
    line(&counts.to_string());
    Results { counts, cases }
}

#[cfg(test)]
mod tests {
    use anyhow::{Result, bail};

    use super::*;
    use crate::absent::{Absent, Where};
    use crate::process::{Ended, Outcome};

    /// Ends as the program's name says.
    struct Fake;

    impl Runner for Fake {
        fn run(&self, argv: &[String], _: Duration) -> Result<Outcome> {
            let (ended, stderr) = match argv[0].as_str() {
                "good" => (Ended::Status(0), ""),
                "bad" => (Ended::Status(1), "FAILED bad: 1 is not 2"),
                "absent" => (Ended::Status(1), "hipErrorNotSupported"),
                other => bail!("there is no {other}"),
            };
            Ok(Outcome { ended, stdout: String::new(), stderr: stderr.into() })
        }
    }

    fn tests() -> Vec<Test> {
        let known = Absent {
            fails_with: "hipErrorNotSupported".into(),
            reason: "not there".into(),
            place: Where::default(),
        };
        [("good", vec![]), ("bad", vec![]), ("absent", vec![known]), ("missing", vec![])]
            .map(|(name, absent)| Test::of_command(name, &[name], absent))
            .into()
    }

    #[test]
    fn each_case_has_a_line_and_the_count_is_the_last() {
        let tests = tests();
        let tests: Vec<&Test> = tests.iter().collect();
        for how in [How::InTurn(&Fake), How::SideBySide(&Fake, 2)] {
            let mut lines = Vec::new();
            let ready = Ready::default();
            let results =
                run(&ready, &tests, how, Duration::from_secs(1), &mut |line| lines.push(line.to_owned()));
            assert_eq!(results.counts, Counts { passed: 1, failed: 2, absent: 1 });
            let end = |name| results.cases.iter().find(|case| case.name == name).map(|case| &case.end);
            assert_eq!(end("good"), Some(&End::Passed));
            assert_eq!(end("absent"), Some(&End::Skipped { message: "not there".into() }));
            assert!(
                matches!(end("bad"), Some(End::Failed { details, .. }) if details.contains("1 is not 2"))
            );
            assert_eq!(results.cases.len(), 4);
            for line in ["good ... pass", "bad ... FAIL", "absent ... absent: not there", "missing ... FAIL"]
            {
                assert!(lines.iter().any(|said| said == line), "{line} in {lines:?}");
            }
            assert!(lines.iter().any(|line| line.contains("1 is not 2")), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("there is no missing")), "{lines:?}");
            assert_eq!(lines.last().unwrap(), "1 passed, 2 failed, 1 absent");
        }
    }
}
