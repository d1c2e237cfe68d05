//! Verdict about a case, from a program's outcome.

use crate::absent::{Absent, DOCUMENT};
use crate::process::{Ended, Outcome};

/// Most that is shown of one output, in bytes.
const SHOWN: usize = 8 << 10;

/// Output that a run must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Texts that its standard output has to contain; all of them.
    pub says: Vec<String>,
}

/// A case that is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The case succeeded.
    Passed,
    /// The case failed in the very way the table of absent cases says.
    Absent,
}

/// Report about a case that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum CaseError {
    /// The case failed; the failure with both outputs.
    #[error("{0}")]
    Failed(String),
    /// The case passed and should not have.
    #[error("it passes, yet {DOCUMENT} lists it as absent: the table is out of date, remove its row")]
    Passed,
    /// The program was not compiled, or does not compile.
    #[error("{0}")]
    NoProgram(String),
    /// The program could not be run.
    #[error("it could not be run: {0}")]
    NotRun(String),
}

/// Judges one run.
///
/// # Errors
///
/// A case that failed, or one that is in the table of absent cases and did not fail as that says.
pub fn judge(outcome: &Outcome, expected: &Expected, absent: Option<&Absent>) -> Result<Verdict, CaseError> {
    let failure = failure(outcome, expected);
    match (absent, failure) {
        (None, None) => Ok(Verdict::Passed),
        (None, Some(failure)) => Err(CaseError::Failed(report(&failure, outcome))),
        (Some(_), None) => Err(CaseError::Passed),
        (Some(absent), Some(failure)) => {
            // A time limit or a crash is never the expected failure, even if the error's name was written before.
            let ended_by_itself = matches!(outcome.ended, Ended::Status(_));
            let said = has_word(&outcome.stderr, &absent.fails_with)
                || has_word(&outcome.stdout, &absent.fails_with);
            if ended_by_itself && said {
                return Ok(Verdict::Absent);
            }
            let wanted = format!(
                "{DOCUMENT} says that it fails with {} ({}), but it fails differently: the table is out of date; {failure}",
                absent.fails_with, absent.reason
            );
            Err(CaseError::Failed(report(&wanted, outcome)))
        }
    }
}

/// Why a run is no success, if it is none.
fn failure(outcome: &Outcome, expected: &Expected) -> Option<String> {
    if outcome.ended != Ended::Status(0) {
        return Some(outcome.ended.to_string());
    }
    let missing = expected.says.iter().find(|part| !outcome.stdout.contains(part.as_str()))?;
    Some(format!("exit status 0, but its output has no {missing:?}"))
}

/// Returns true if `text` has `word` with nothing of a name around it: `hipErrorInvalid` is not in
/// `hipErrorInvalidValue`.
fn has_word(text: &str, word: &str) -> bool {
    let of_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(of_name)
            && !text[at + word.len()..].chars().next().is_some_and(of_name)
    })
}

/// The failure with both outputs.
fn report(failure: &str, outcome: &Outcome) -> String {
    let mut text = failure.to_owned();
    for (name, output) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        if output.trim().is_empty() {
            continue;
        }
        text.push_str(&format!("\n--- {name}"));
        let mut start = output.len().saturating_sub(SHOWN);
        while !output.is_char_boundary(start) {
            start += 1;
        }
        if start > 0 {
            text.push_str(&format!(" (the first {start} bytes are left out)"));
        }
        text.push('\n');
        text.push_str(output[start..].trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::absent::Where;

    fn outcome(ended: Ended, stdout: &str, stderr: &str) -> Outcome {
        Outcome { ended, stdout: stdout.into(), stderr: stderr.into() }
    }

    fn absent() -> Absent {
        Absent {
            fails_with: "hipErrorInvalid".into(),
            reason: "no such thing".into(),
            place: Where::default(),
        }
    }

    const NOTHING: Expected = Expected { says: vec![] };

    #[test]
    fn success_passes_and_anything_else_fails_with_its_output() {
        assert_eq!(judge(&outcome(Ended::Status(0), "", ""), &NOTHING, None), Ok(Verdict::Passed));
        let failed = judge(&outcome(Ended::Status(1), "one", "two"), &NOTHING, None).unwrap_err().to_string();
        assert_eq!(failed, "exit status 1\n--- stdout\none\n--- stderr\ntwo");
        for ended in [Ended::Signal(11), Ended::TimedOut(std::time::Duration::from_secs(60))] {
            judge(&outcome(ended, "", ""), &NOTHING, None).unwrap_err();
        }
    }

    #[test]
    fn success_that_does_not_say_what_it_should_fails() {
        let expected = Expected { says: vec!["gfx1100".to_owned(), "amdgcn".to_owned()] };
        assert_eq!(
            judge(&outcome(Ended::Status(0), "amdgcn gfx1100", ""), &expected, None),
            Ok(Verdict::Passed)
        );
        let failed =
            judge(&outcome(Ended::Status(0), "gfx1100", ""), &expected, None).unwrap_err().to_string();
        assert!(failed.contains("no \"amdgcn\""), "{failed}");
    }

    #[test]
    fn absent_case_has_to_fail_as_documented() {
        let says = "x gave hipErrorInvalid, not hipSuccess";
        assert_eq!(
            judge(&outcome(Ended::Status(1), "", says), &NOTHING, Some(&absent())),
            Ok(Verdict::Absent)
        );
        for (ended, stderr) in [
            (Ended::Status(0), says),
            (Ended::Status(1), "x gave hipErrorInvalidValue, not hipSuccess"),
            (Ended::Status(1), ""),
            (Ended::Signal(6), says),
            (Ended::TimedOut(std::time::Duration::from_secs(60)), says),
        ] {
            let failed =
                judge(&outcome(ended, "", stderr), &NOTHING, Some(&absent())).unwrap_err().to_string();
            assert!(failed.contains("the table is out of date"), "{failed}");
        }
    }

    #[test]
    fn long_output_is_cut_at_its_beginning() {
        let long = format!("{}the end", "ä".repeat(SHOWN));
        let failed = judge(&outcome(Ended::Status(1), &long, ""), &NOTHING, None).unwrap_err().to_string();
        assert!(failed.len() < SHOWN + 200 && failed.ends_with("the end"), "{}", failed.len());
    }
}
