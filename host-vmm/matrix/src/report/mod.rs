//! Reports: JUnit for CI systems, JSON for programs, a page with a grid for people.

mod html;
mod junit;

pub use html::html;
pub use junit::junit;

use std::fmt;

use serde_json::{Value, json};

use crate::cells::Cell;
use crate::results::{CellResult, Outcome};

/// All cells of a matrix, or of a shard, with the results that are there.
#[derive(Debug)]
pub struct Report<'a> {
    /// Title of the matrix.
    pub title: &'a str,
    /// The build that ran the cells.
    pub build: &'a str,
    /// Cells with their results; `None` for a cell that has none.
    pub cells: Vec<(&'a Cell, Option<CellResult>)>,
}

/// Cells by their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Cells that passed.
    pub passed: usize,
    /// Cells that failed or took too long.
    pub failed: usize,
    /// Cells that the matrix leaves out.
    pub absent: usize,
    /// Cells without a result.
    pub missing: usize,
}

impl Counts {
    /// Counts cells by their ends.
    fn of(cells: &[(&Cell, Option<CellResult>)]) -> Self {
        let mut counts = Self::default();
        for (_, result) in cells {
            let count = match result.as_ref().map(|result| result.outcome) {
                None => &mut counts.missing,
                Some(Outcome::Passed) => &mut counts.passed,
                Some(Outcome::Failed | Outcome::TimedOut) => &mut counts.failed,
                Some(Outcome::Absent) => &mut counts.absent,
            };
            *count += 1;
        }
        counts
    }

    /// Returns true if every cell has passed or is left out.
    #[must_use]
    pub const fn are_good(self) -> bool {
        self.failed == 0 && self.missing == 0
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, absent, missing } = self;
        write!(f, "{passed} passed, {failed} failed, {absent} absent")?;
        if *missing > 0 { write!(f, ", {missing} without a result") } else { Ok(()) }
    }
}

impl Report<'_> {
    /// Counts the cells by their ends.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::of(&self.cells)
    }

    /// Returns the report as one JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        let Counts { passed, failed, absent, missing } = self.counts();
        let cells: Vec<Value> = self
            .cells
            .iter()
            .map(|(cell, result)| {
                json!({ "program": cell.program, "chip": cell.chip, "axes": cell.rest, "arguments": cell.arguments,
                    "key": cell.key, "result": result, "kept": result.as_ref().is_some_and(|result| result.kept) })
            })
            .collect();
        json!({ "title": self.title, "build": self.build, "passed": passed, "failed": failed, "absent": absent,
            "missing": missing, "cells": cells })
    }
}

/// Returns a word for the end of a cell.
fn word(result: Option<&CellResult>) -> &'static str {
    match result.map(|result| result.outcome) {
        None => "no result",
        Some(Outcome::Passed) => "passed",
        Some(Outcome::Failed) => "failed",
        Some(Outcome::TimedOut) => "timed out",
        Some(Outcome::Absent) => "absent",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::{cell, result};

    /// One cell of each end.
    pub(super) fn with_report(look: impl FnOnce(&Report<'_>)) {
        let ends = [
            Some(Outcome::Passed),
            Some(Outcome::Failed),
            Some(Outcome::TimedOut),
            Some(Outcome::Absent),
            None,
        ];
        let cells: Vec<Cell> =
            (0..ends.len()).map(|n| Cell { rest: format!("seed={n}"), ..cell(&format!("k{n}")) }).collect();
        let results = ends.iter().enumerate().map(|(n, end)| {
            let mut result = result(&format!("k{n}"), (*end)?);
            result.output = "a<b>&\"c\"\u{1}\n".into();
            result.why = (result.outcome != Outcome::Passed).then(|| "no & reason".into());
            result.record = (result.outcome == Outcome::Failed).then(|| "k1.record".into());
            Some(result)
        });
        look(&Report { title: "t <1>", build: "0.1", cells: cells.iter().zip(results).collect() });
    }

    #[test]
    fn each_end_is_counted_once() {
        with_report(|report| {
            let counts = report.counts();
            assert_eq!(counts, Counts { passed: 1, failed: 2, absent: 1, missing: 1 });
            assert_eq!(counts.to_string(), "1 passed, 2 failed, 1 absent, 1 without a result");
            assert!(!counts.are_good());
            let json = report.json();
            assert_eq!(
                (&json["missing"], &json["cells"][1]["result"]["outcome"]),
                (&json!(1), &json!("failed"))
            );
        });
        assert!(Counts { passed: 1, absent: 1, ..Counts::default() }.are_good());
    }
}
