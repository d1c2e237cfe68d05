//! Rows of a comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::figures::Figures;

/// A figure of both builds.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// The smallest figure of each build.
    pub(super) old: f64,
    pub(super) new: f64,
    /// `new` divided by `old`.
    pub(super) ratio: f64,
    /// Largest figure of a build over its smallest one, less 1, in percent: of the build with more.
    pub(super) spread_percent: f64,
    /// True if the new build is slower by more than the limit.
    pub(super) slower: bool,
}

/// All rows.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) rows: Vec<Row>,
    /// Figures that one build alone has.
    only_old: Vec<String>,
    only_new: Vec<String>,
    /// Rows that are slower by more than [`limit_percent`](Self::limit_percent).
    pub(super) slower: usize,
    limit_percent: f64,
}

/// Figures of all rounds of a build, by the name of the row.
fn by_row(rounds: &[Figures]) -> BTreeMap<&str, Vec<f64>> {
    let mut rows: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (name, &figure) in rounds.iter().flatten() {
        rows.entry(name).or_default().push(figure);
    }
    rows
}

fn smallest(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

fn spread_percent(figures: &[f64]) -> f64 {
    let largest = figures.iter().copied().fold(0.0, f64::max);
    (largest / smallest(figures) - 1.0) * 100.0
}

impl Comparison {
    /// Compares the figures of all rounds of the old build with those of the new one.
    pub(super) fn new([old, new]: &[Vec<Figures>; 2], limit_percent: f64) -> Self {
        let (old, new) = (by_row(old), by_row(new));
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let (mut rows, mut only_old, mut only_new) = (Vec::new(), Vec::new(), Vec::new());
        for name in names {
            match (old.get(name), new.get(name)) {
                (Some(old), Some(new)) => rows.push(Row::new(name, old, new, limit_percent)),
                (Some(_), None) => only_old.push(name.to_owned()),
                _ => only_new.push(name.to_owned()),
            }
        }
        let slower = rows.iter().filter(|row| row.slower).count();
        Self { rows, only_old, only_new, slower, limit_percent }
    }
}

impl Row {
    fn new(name: &str, old: &[f64], new: &[f64], limit_percent: f64) -> Self {
        let spread_percent = spread_percent(old).max(spread_percent(new));
        let (old, new) = (smallest(old), smallest(new));
        let ratio = new / old;
        // A thousandth of a percent, so that the limit itself is not over the limit.
        let slower = (ratio - 1.0) * 100.0 > limit_percent + 0.001;
        Self { name: name.to_owned(), old, new, ratio, spread_percent, slower }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.name.len()).max().unwrap_or_default().max(3);
        writeln!(f, "{:width$} {:>12} {:>12} {:>7} {:>9}", "row", "old", "new", "ratio", "spread")?;
        for Row { name, old, new, ratio, spread_percent, slower } in &self.rows {
            let mark = if *slower { " slower" } else { "" };
            writeln!(f, "{name:width$} {old:12.3} {new:12.3} {ratio:7.3} {spread_percent:7.1} %{mark}")?;
        }
        for (build, names) in [("old", &self.only_old), ("new", &self.only_new)] {
            for name in names {
                writeln!(f, "only in {build}: {name}")?;
            }
        }
        write!(f, "{} rows, {} slower by more than {} %", self.rows.len(), self.slower, self.limit_percent)
    }
}
