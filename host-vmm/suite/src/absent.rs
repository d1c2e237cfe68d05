//! The table of cases that are known to fail, in `docs/exec-suite.md`.
//!
//! Such a case runs like any other and has to fail in the way the table says. When it passes, or fails in another way,
//! the table is out of date.

use std::collections::BTreeMap;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// The document, as it is named in messages.
pub const DOCUMENT: &str = "docs/exec-suite.md";
/// The document as it was when this was compiled.
const TEXT: &str = include_str!("../../../docs/exec-suite.md");
/// The line above the rows.
const HEAD: [&str; 3] = ["case", "fails with", "reason"];

/// How a case fails, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// What its output has to contain: an error's name.
    pub fails_with: String,
    /// Why, for people.
    pub reason: String,
    /// Where it is so.
    pub place: Where,
}

/// Where a case is absent; elsewhere it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Everywhere.
    Everywhere,
    /// In a guest: `(guest)` behind the case's name.
    Guests,
    /// With this major version of HIP: `(HIP 6)` for example.
    Hip(u32),
    /// In a guest with this major version of HIP: `(guest, HIP 5)` for example.
    GuestsWithHip(u32),
}

impl Where {
    /// Takes what a row has behind the case's name.
    fn of(rest: &str) -> Option<Self> {
        match rest.trim() {
            "" => Some(Self::Everywhere),
            "(guest)" => Some(Self::Guests),
            place => {
                let version = |before| place.strip_prefix(before)?.strip_suffix(')')?.parse().ok();
                version("(HIP ").map(Self::Hip).or_else(|| version("(guest, HIP ").map(Self::GuestsWithHip))
            }
        }
    }

    /// Whether it is so in guests alone.
    pub(crate) fn is_of_guests(self) -> bool {
        matches!(self, Self::Guests | Self::GuestsWithHip(_))
    }
}

/// Returns the major version of HIP in a root file system: the number behind its library's name.
#[must_use]
pub fn hip_of(tree: &Path) -> Option<u32> {
    let folder = tree.join("usr/lib/x86_64-linux-gnu").read_dir().ok()?;
    folder.flatten().find_map(|entry| {
        entry.file_name().to_str().and_then(|name| name.strip_prefix("libamdhip64.so."))?.parse().ok()
    })
}

/// The document's table, by the names of the cases.
///
/// # Errors
///
/// A document without such a table, and rows that are not of three cells.
pub fn table() -> Result<BTreeMap<String, Absent>> {
    parse(TEXT)
}

fn parse(text: &str) -> Result<BTreeMap<String, Absent>> {
    let mut lines = text.lines().skip_while(|line| cells(line) != HEAD);
    lines.next().with_context(|| format!("{DOCUMENT} has no table {}", HEAD.join(", ")))?;
    let mut table = BTreeMap::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let cells = cells(line);
        ensure!(cells.len() == 3 && cells.iter().all(|cell| !cell.is_empty()), "{DOCUMENT}: row {line:?}");
        let (case, rest) = cells[0].split_once(' ').unwrap_or((cells[0], ""));
        let place = Where::of(rest).with_context(|| format!("{DOCUMENT}: where is row {line:?} true?"))?;
        // A reason is a sentence that may end with code.
        let [case, fails_with] = [case, cells[1]].map(|cell| cell.trim_matches('`').to_owned());
        let reason = cells[2].to_owned();
        let twice = table.insert(case, Absent { fails_with, reason, place });
        ensure!(twice.is_none(), "{DOCUMENT}: two rows for the case of {line:?}");
    }
    Ok(table)
}

fn cells(line: &str) -> Vec<&str> {
    let line = line.trim();
    let inner = line.strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map_or_else(Vec::new, |inner| inner.split('|').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_right_table() {
        let text = "| case | other |\n| --- | --- |\n| `a` | b |\n\n\
                    | case | fails with | reason |\n| --- | --- | --- |\n| `hip::x` | `hipErrorY` | no `z` |\n\
                    | `hip::y` (guest) | `hipErrorY` | no z |\n\
                    | `hip::z` (HIP 6) | `hipErrorY` | no z |\n\
                    | `hip::zz` (guest, HIP 5) | `hipErrorY` | no z |\n\nend | of\n";
        let table = parse(text).unwrap();
        let absent = |case: &str, place| {
            let reason = if case == "hip::x" { "no `z`" } else { "no z" };
            let absent = Absent { fails_with: "hipErrorY".into(), reason: reason.into(), place };
            (case.to_owned(), absent)
        };
        let rows = [
            absent("hip::x", Where::Everywhere),
            absent("hip::y", Where::Guests),
            absent("hip::z", Where::Hip(6)),
            absent("hip::zz", Where::GuestsWithHip(5)),
        ];
        assert_eq!(table, rows.into());
    }

    #[test]
    fn table_that_is_missing_or_broken_is_refused() {
        let head = "| case | fails with | reason |\n| --- | --- | --- |\n";
        assert!(parse("no table").is_err());
        assert!(parse(&format!("{head}| `a` | `b` |\n")).is_err());
        assert!(parse(&format!("{head}| `a` |  | c |\n")).is_err());
        assert!(parse(&format!("{head}| `a` (HIP) | `b` | c |\n")).is_err());
        assert!(parse(&format!("{head}| `a` | `b` | c |\n| `a` | `d` | e |\n")).is_err());
    }

    #[test]
    fn document_has_the_table() {
        table().unwrap();
    }
}
