//! The summary of all schedules.

use std::fmt;
use std::time::Duration;

use belfry_device::explore::{Change, Schedule};
use serde::Serialize;

use super::attempt::{Failure, Verdict};

/// Failures of one signature.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The first failure.
    pub failure: Failure,
    /// Number of schedules that have shown it.
    pub count: u64,
    /// The first schedule that has shown it.
    pub schedule: String,
    /// Number of that schedule, from 1 on; 0 is the run without changes.
    pub number: u64,
    /// The smallest schedule that shows it; `None` if it has not shown again.
    pub smallest: Option<String>,
    /// The command that repeats the smallest schedule.
    pub command: Option<String>,
    #[serde(skip)]
    pub(super) changes: Vec<Change>,
}

/// Results of a program under all schedules.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Number of schedules, beside the one without changes.
    pub schedules: u64,
    /// Number of schedules that differed in their steps or in the order of their steps.
    pub different: u64,
    /// Number of points in the run without changes at which it could go on in several ways.
    pub points: u64,
    /// Number of schedules under which something failed.
    pub failed: u64,
    /// Failures, by signature.
    pub found: Vec<Found>,
    /// True if all schedules within the bound were run.
    pub exhausted: bool,
    /// Length of the exploration.
    #[serde(skip)]
    pub took: Duration,
    /// Options of the device, for commands.
    #[serde(skip)]
    pub(super) options: Vec<String>,
}

impl Summary {
    /// Adds the verdict of a schedule.
    pub(super) fn add(&mut self, number: u64, schedule: &Schedule, verdict: &Verdict) {
        let Some(failure) = &verdict.failure else { return };
        self.failed += 1;
        let signature = failure.signature();
        match self.found.iter_mut().find(|found| found.failure.signature() == signature) {
            Some(found) => found.count += 1,
            None => self.found.push(Found {
                failure: failure.clone(),
                count: 1,
                schedule: schedule.to_string(),
                number,
                smallest: None,
                command: None,
                changes: verdict.explored.changes.clone(),
            }),
        }
    }

    /// Returns the command that repeats a schedule.
    pub(super) fn command(&self, schedule: &str) -> String {
        let options: String = self.options.iter().map(|option| format!(" {option}")).collect();
        format!("belfry run --mode hosted{options} --schedule {schedule} -- {}", self.program.join(" "))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64().max(1e-9);
        let all = if self.exhausted { ", all there are within the bound" } else { "" };
        writeln!(
            f,
            "{}: {} schedules{all}, {:.1} a second",
            self.program.join(" "),
            self.schedules,
            self.schedules as f64 / seconds
        )?;
        writeln!(f, "  different  {} runs, of {} points without changes", self.different, self.points)?;
        write!(f, "  failed     {}", self.failed)?;
        for found in &self.found {
            write!(f, "\n    {:>6} x {}", found.count, found.failure)?;
            match found.number {
                0 => write!(f, "\n             without any change")?,
                number => write!(f, "\n             seen first with schedule {number}, {}", found.schedule)?,
            }
            match &found.command {
                Some(command) => write!(f, "\n             {command}")?,
                None => write!(f, "\n             it has not shown again")?,
            }
        }
        Ok(())
    }
}
