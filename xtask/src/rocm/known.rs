//! Cases of other projects that fail for a reason of their own, each with that reason.
//!
//! A case is here only once it has been shown that its program relies on behaviour that no specification promises;
//! docs/rocm-tests.md has the evidence. Every other failing case is a failure.

/// A case that is known to fail.
#[derive(Debug)]
struct Known {
    /// The step, by the end of its name.
    step: &'static str,
    case: &'static str,
    reason: &'static str,
}

const KNOWN: [Known; 3] = [
    Known {
        step: "rocsolver-test",
        case: "daily_lapack/STEIN.__double/0",
        reason: "its kernel reads work[sidx[0]] while other waves scale it, without a barrier in between",
    },
    Known {
        step: "rocThrust copy",
        case: "TestCopyIfNonTrivialDevice",
        reason: "rocPRIM assigns objects to LDS that nothing has written, where the assignment reads them first",
    },
    Known {
        step: "rocThrust copy",
        case: "TestCopyIfNonTrivial",
        reason: "rocPRIM assigns objects to LDS that nothing has written, where the assignment reads them first",
    },
];

/// The cases that failed in a step, each with its known reason. `None` if one of them is not known, or if the
/// program has not told the name of one.
pub(super) fn explained(step: &str, text: &str, failed: u64) -> Option<Vec<(&'static str, &'static str)>> {
    let names = failures(text);
    if failed == 0 || names.len() as u64 != failed {
        return None;
    }
    names
        .iter()
        .map(|name| {
            let known = KNOWN.iter().find(|known| step.ends_with(known.step) && known.case == *name)?;
            Some((known.case, known.reason))
        })
        .collect()
}

/// Names of failed cases as GoogleTest (`[  FAILED  ] suite.case`, told twice) and Thrust (`FAILURE: case`) print them.
fn failures(text: &str) -> Vec<&str> {
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            let name = match line.split_once("[  FAILED  ] ") {
                Some((_, name)) if name.contains('.') => name,
                _ => line.strip_prefix("FAILURE: ").or_else(|| line.strip_prefix("ERROR: "))?,
            };
            name.split([' ', ',']).next()
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEIN: &str = "[  FAILED  ] daily_lapack/STEIN.__double/0, where GetParam() = ({1}) (3 ms)\n";
    const END: &str = "[  PASSED  ] 32 tests.\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] daily_lapack/STEIN.__double/0, where\n";

    #[test]
    fn known_cases_of_a_program_are_explained() {
        let text = format!("[       OK ] a.b (1 ms)\n{STEIN}{END}");
        let known = explained("rocsolver-test", &text, 1).unwrap();
        assert_eq!(known[0].0, "daily_lapack/STEIN.__double/0");
        assert!(explained("rocThrust copy", "..F\n====\nFAILURE: TestCopyIfNonTrivial\n", 1).is_some());
    }

    #[test]
    fn others_are_not() {
        let other = format!("{STEIN}[  FAILED  ] daily_lapack/STEIN.__double/1 (3 ms)\n");
        assert!(explained("rocsolver-test", &other, 2).is_none(), "one more case");
        assert!(explained("rocblas-test", STEIN, 1).is_none(), "another program");
        assert!(explained("rocThrust copy", "..F", 1).is_none(), "no name");
        assert!(explained("rocThrust copy", "...", 0).is_none(), "nothing failed");
    }
}
