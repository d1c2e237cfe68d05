//! Number of cases of a test program that passed, from its output.

use std::fmt;

use serde::Serialize;

/// Cases by result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// Skipped by the program, or absent by name.
    pub(super) skipped: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed")?;
        if *skipped > 0 { write!(f, ", {skipped} skipped") } else { Ok(()) }
    }
}

/// Result that a program must have.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// Its cases, exactly.
    Cases(Counts),
    /// A word that it prints.
    Word(String),
    /// Check of the output, which returns an error or nothing.
    Told(fn(&str) -> Option<String>),
}

impl Expected {
    /// Error of a program that has printed `text`, if its result is not the expected one.
    pub(super) fn unmet(&self, text: &str, counts: Option<&Counts>) -> Option<String> {
        match (self, counts) {
            (Self::Cases(cases), Some(counts)) if cases == counts => None,
            (Self::Cases(cases), Some(counts)) => Some(format!("{counts}, where {cases} are expected")),
            (Self::Cases(cases), None) => Some(format!("no end, where {cases} are expected")),
            (Self::Word(word), _) if text.split_whitespace().any(|found| found == word) => None,
            (Self::Told(wrong), _) => wrong(text),
            (Self::Word(word), _) => Some(format!("{word:?} is not in what it printed")),
        }
    }
}

/// Counts of the programs known here: Belfry's suites, GoogleTest, Thrust, ggml's operations, llama.cpp's architectures.
///
/// A program that is ended early has them up to there.
pub(super) fn counts(text: &str) -> Option<Counts> {
    suite(text)
        .or_else(|| googletest(text))
        .or_else(|| thrust(text))
        .or_else(|| ggml(text))
        .or_else(|| architectures(text))
}

/// `N passed, N failed, N absent`, the last such line: belfry may print a line of its own after it.
fn suite(text: &str) -> Option<Counts> {
    text.lines().rev().find_map(|line| {
        let words: Vec<&str> = line.split([' ', ',']).collect();
        match words[..] {
            [passed, "passed", "", failed, "failed", "", skipped, "absent"] => Some(Counts {
                passed: passed.parse().ok()?,
                failed: failed.parse().ok()?,
                skipped: skipped.parse().ok()?,
            }),
            _ => None,
        }
    })
}

/// A line for each case, and the failed ones once more at the end.
fn googletest(text: &str) -> Option<Counts> {
    // The name of a case follows; names that are repeated at the end come after the line of totals.
    let cases = text.split("[  PASSED  ]").next()?;
    let count = |mark: &str| cases.lines().filter(|line| line.contains(mark) && line.contains('.')).count();
    let counts = Counts {
        passed: count("[       OK ]") as u64,
        failed: count("[  FAILED  ]") as u64,
        skipped: count("[  SKIPPED ]") as u64,
    };
    (counts != Counts::default()).then_some(counts)
}

/// Returns true if a program of googletest had no case to run: a filter of ours fits none, and nothing has
/// been tested.
pub(super) fn chose_nothing(text: &str) -> bool {
    text.contains("] Running 0 tests ")
}

/// A mark for each case after `Running N unit tests.`; reports of failures have lines of their own. A known failure is
/// one of Thrust's own.
fn thrust(text: &str) -> Option<Counts> {
    let mut lines = text.lines().skip_while(|line| !line.ends_with(" unit tests.")).skip(1);
    let marks = lines.next()?;
    let count = |mark: char| marks.chars().filter(|&found| found == mark).count() as u64;
    let counts = Counts { passed: count('.'), failed: count('F') + count('E'), skipped: count('K') };
    (counts != Counts::default() && marks.chars().all(|mark| ".FEK".contains(mark))).then_some(counts)
}

/// A line for each case: `OP(parameters): OK`, `FAIL` or `not supported`, with colours.
fn ggml(text: &str) -> Option<Counts> {
    text.contains("\nBackend ").then_some(())?;
    let mut counts = Counts::default();
    for line in text.lines().filter(|line| line.starts_with("  ") || line.starts_with('[')) {
        let Some((case, result)) = line.rsplit_once("): ") else { continue };
        if !case.contains('(') {
            continue;
        }
        if result.contains("OK") {
            counts.passed += 1;
        } else if result.contains("FAIL") {
            counts.failed += 1;
        } else {
            counts.skipped += 1;
        }
    }
    (counts != Counts::default()).then_some(counts)
}

/// A row of a table for each model on each device; a cell of it is `OK`, `FAIL` or `SKIP`.
fn architectures(text: &str) -> Option<Counts> {
    text.contains("Model arch.|").then_some(())?;
    let mut counts = Counts::default();
    for row in text.lines().filter(|line| line.starts_with('|')) {
        if row.contains("FAIL") {
            counts.failed += 1;
        } else if row.contains("OK") {
            counts.passed += 1;
        } else if row.contains("SKIP") {
            counts.skipped += 1;
        }
    }
    (counts != Counts::default()).then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    #[test]
    fn last_lines_of_suites_are_read() {
        assert_eq!(counts("vadd ... pass\n\n226 passed, 0 failed, 1 absent\n"), counted(226, 0, 1));
        assert_eq!(counts("nothing of the kind\n  Max clock (MHz): 2500\n  (size): none\n| a | b |\n"), None);
    }

    #[test]
    fn what_is_otherwise_than_expected_is_said() {
        let cases = Expected::Cases(counted(28, 0, 2).unwrap());
        assert_eq!(cases.unmet("", counted(28, 0, 2).as_ref()), None);
        for found in [counted(27, 0, 3), counted(29, 0, 1), counted(28, 1, 2)] {
            let said = cases.unmet("", found.as_ref()).unwrap();
            assert!(said.ends_with("where 28 passed, 0 failed, 2 skipped are expected"), "{said}");
        }
        assert!(cases.unmet("", None).unwrap().starts_with("no end"));
        let word = Expected::Word("gfx942".to_owned());
        assert_eq!(word.unmet("  Name:    gfx942  \n", None), None);
        assert!(word.unmet("  Name:    gfx9421\n", None).is_some());
    }

    #[test]
    fn cases_of_googletest_are_counted_once_and_also_without_an_end() {
        let part =
            "[ RUN      ] a.b\n[       OK ] a.b (1 ms)\n[  SKIPPED ] a.c (0 ms)\n[  FAILED  ] a.d (3 ms)\n";
        let end = "[  PASSED  ] 1 test.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] a.d\n";
        assert_eq!(counts(part), counted(1, 1, 1));
        assert_eq!(counts(&format!("{part}{end}")), counted(1, 1, 1));
    }

    #[test]
    fn program_without_a_case_has_chosen_nothing() {
        let text = "[==========] Running 0 tests from 0 test suites.\n[  PASSED  ] 0 tests.\n";
        assert!(chose_nothing(text) && counts(text).is_none());
        assert!(!chose_nothing("[==========] Running 10 tests from 1 test suite.\n"));
    }

    #[test]
    fn marks_of_thrust_are_counted_also_without_an_end() {
        let part = "Testing Device 0: \"AMD\"\nRunning 9 unit tests.\n..F.E..K";
        assert_eq!(counts(part), counted(5, 2, 1));
        let end = ".\n====\nFAILURE: reduce\nTotals: 1 failures, 1 known failures, 1 errors, and 6 passes.\n";
        assert_eq!(counts(&format!("{part}{end}")), counted(6, 2, 1));
        assert_eq!(counts("Running 9 unit tests.\nSegmentation fault\n"), None);
    }

    #[test]
    fn operations_of_ggml_are_counted() {
        let text = "Testing 2 devices\n\nBackend 1/2: ROCm0\n  ABS(type=f16,v=0): \x1b[1;32mOK\x1b[0m\n  ABS(type=f32): not supported [ROCm0]\n\
                    [ABS] ERR = 0.1 > 0.0   ABS(type=f16,v=1): \x1b[1;31mFAIL\x1b[0m\n  Backend ROCm0: FAIL\n";
        assert_eq!(counts(text), counted(1, 1, 1));
    }

    #[test]
    fn rows_of_architectures_are_counted() {
        let text =
            "|  Model arch.| Device|\n|---|---|\n|  llama|  Navi| OK (4.99e-09)| OK|\n|  llama| CPU| FAIL|\n";
        assert_eq!(counts(text), counted(1, 1, 0));
    }
}
