//! Counts per encoding, as the commands print them.

use std::collections::BTreeMap;
use std::fmt;

/// Mismatches that are kept for printing, per row.
const LISTED: usize = 6;

/// Checks under one name, and their failures.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Checks made.
    pub checked: usize,
    /// Checks that failed.
    pub wrong: usize,
    /// Some of the failures.
    pub examples: Vec<String>,
}

/// A table of [`Row`]s by name.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// The rows, by name.
    pub rows: BTreeMap<String, Row>,
}

impl Tally {
    /// Counts one check; `failure` says what is wrong, if anything.
    pub fn count(&mut self, name: &str, failure: Option<String>) {
        if !self.rows.contains_key(name) {
            self.rows.insert(name.to_owned(), Row::default());
        }
        let Some(row) = self.rows.get_mut(name) else { return };
        row.checked += 1;
        if let Some(example) = failure {
            row.wrong += 1;
            if row.examples.len() < LISTED {
                row.examples.push(example);
            }
        }
    }

    /// Failures of all rows.
    pub fn wrong(&self) -> usize {
        self.rows.values().map(|row| row.wrong).sum()
    }

    /// Checks of all rows.
    pub fn checked(&self) -> usize {
        self.rows.values().map(|row| row.checked).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, row) in &self.rows {
            writeln!(out, "  {name:<28} {:>9} checked {:>7} wrong", row.checked, row.wrong)?;
            for example in &row.examples {
                writeln!(out, "      {example}")?;
            }
        }
        write!(out, "  {:<28} {:>9} checked {:>7} wrong", "all", self.checked(), self.wrong())
    }
}
