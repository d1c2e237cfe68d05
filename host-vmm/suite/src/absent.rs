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

/// Expected failure of a case, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Text that its output has to contain: an error's name.
    pub fails_with: String,
    /// Reason, for people.
    pub reason: String,
    /// Conditions under which the case is absent.
    pub place: Where,
}

/// Conditions under which a case is absent; elsewhere it passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Where {
    /// In guests alone: `guest`.
    pub guests: bool,
    /// On chips with image instructions alone (`images`), or on those without alone (`no images`).
    pub images: Option<bool>,
    /// With this major version of HIP alone: `HIP 6` for example.
    pub hip: Option<u32>,
}

impl Where {
    /// Parses the rest of a row after the case's name: nothing, or conditions in parentheses with commas between them,
    /// each kind once.
    fn of(rest: &str) -> Option<Self> {
        let mut place = Self::default();
        let rest = rest.trim();
        if rest.is_empty() {
            return Some(place);
        }
        for condition in rest.strip_prefix('(')?.strip_suffix(')')?.split(',').map(str::trim) {
            let twice = match condition {
                "guest" => std::mem::replace(&mut place.guests, true),
                "images" => place.images.replace(true).is_some(),
                "no images" => place.images.replace(false).is_some(),
                version => {
                    let version = version.strip_prefix("HIP ")?.parse().ok()?;
                    place.hip.replace(version).is_some()
                }
            };
            if twice {
                return None;
            }
        }
        Some(place)
    }

    /// Returns true if the conditions hold on a chip with or without images, with this major version of HIP.
    pub(crate) fn holds(self, images: bool, hip: Option<u32>) -> bool {
        self.images.is_none_or(|wanted| wanted == images) && (self.hip.is_none() || self.hip == hip)
    }

    /// Returns true if both conditions can never hold together.
    fn excludes(self, other: Self) -> bool {
        fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        differ(self.images, other.images) || differ(self.hip, other.hip)
    }
}

/// Returns the major version of HIP in a root file system: the number after its library's name.
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
/// A document without such a table, rows that are not of three cells, and rows of one case that may both be true.
pub fn table() -> Result<BTreeMap<String, Vec<Absent>>> {
    parse(TEXT)
}

fn parse(text: &str) -> Result<BTreeMap<String, Vec<Absent>>> {
    let mut lines = text.lines().skip_while(|line| cells(line) != HEAD);
    lines.next().with_context(|| format!("{DOCUMENT} has no table {}", HEAD.join(", ")))?;
    let mut table = BTreeMap::<String, Vec<Absent>>::new();
    for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let cells = cells(line);
        ensure!(cells.len() == 3 && cells.iter().all(|cell| !cell.is_empty()), "{DOCUMENT}: row {line:?}");
        let (case, rest) = cells[0].split_once(' ').unwrap_or((cells[0], ""));
        let place = Where::of(rest).with_context(|| format!("{DOCUMENT}: where is row {line:?} true?"))?;
        // A reason is a sentence that may end with code.
        let [case, fails_with] = [case, cells[1]].map(|cell| cell.trim_matches('`').to_owned());
        let reason = cells[2].to_owned();
        let rows = table.entry(case).or_default();
        let alone = rows.iter().all(|row| row.place.excludes(place));
        ensure!(alone, "{DOCUMENT}: two rows for the case of {line:?} that are true in one place");
        rows.push(Absent { fails_with, reason, place });
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
                    | `hip::zz` (guest, HIP 5) | `hipErrorY` | no z |\n\
                    | `hip::i` (no images, HIP 5) | `hipErrorY` | no z |\n\
                    | `hip::i` (images) | `hipErrorY` | no z |\n\nend | of\n";
        let table = parse(text).unwrap();
        let absent = |case: &str, places: &[Where]| {
            let reason = if case == "hip::x" { "no `z`" } else { "no z" };
            let row = |&place| Absent { fails_with: "hipErrorY".into(), reason: reason.into(), place };
            (case.to_owned(), places.iter().map(row).collect())
        };
        let everywhere = Where::default();
        let guests = Where { guests: true, ..everywhere };
        let rows = [
            absent("hip::x", &[everywhere]),
            absent("hip::y", &[guests]),
            absent("hip::z", &[Where { hip: Some(6), ..everywhere }]),
            absent("hip::zz", &[Where { hip: Some(5), ..guests }]),
            absent(
                "hip::i",
                &[
                    Where { images: Some(false), hip: Some(5), ..everywhere },
                    Where { images: Some(true), ..everywhere },
                ],
            ),
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
        assert!(parse(&format!("{head}| `a` (HIP 5, HIP 6) | `b` | c |\n")).is_err());
        assert!(parse(&format!("{head}| `a` (images, no images) | `b` | c |\n")).is_err());
        assert!(parse(&format!("{head}| `a` | `b` | c |\n| `a` | `d` | e |\n")).is_err());
        assert!(parse(&format!("{head}| `a` (images) | `b` | c |\n| `a` (HIP 5) | `d` | e |\n")).is_err());
    }

    #[test]
    fn row_holds_where_all_its_conditions_do() {
        let of = |text| Where::of(text).unwrap();
        assert!(of("").holds(true, None) && of("").holds(false, Some(5)));
        assert!(of("(no images, HIP 5)").holds(false, Some(5)));
        for (images, hip) in [(true, Some(5)), (false, Some(6)), (false, None)] {
            assert!(!of("(no images, HIP 5)").holds(images, hip), "{images} {hip:?}");
        }
        assert!(of("(images)").holds(true, None) && !of("(images)").holds(false, None));
    }

    #[test]
    fn document_has_the_table() {
        table().unwrap();
    }
}
