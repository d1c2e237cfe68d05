//! JUnit: a suite for each program, a case for each cell.

use belfry_junit::{Case, End, Suite};

use super::{Report, word};
use crate::cells::Cell;
use crate::results::{CellResult, Outcome};

/// Returns the report in the form that CI systems read.
#[must_use]
pub fn junit(report: &Report<'_>) -> String {
    // The cells of a program lie together.
    let suites =
        report.cells.chunk_by(|(one, _), (other, _)| one.program == other.program).map(|cells| Suite {
            name: cells[0].0.program.clone(),
            cases: cells.iter().map(|(cell, result)| case(cell, result.as_ref())).collect(),
        });
    belfry_junit::file(report.title, &suites.collect::<Vec<_>>())
}

fn case(cell: &Cell, result: Option<&CellResult>) -> Case {
    let why = || result.and_then(|result| result.why.clone()).unwrap_or_else(|| word(result).to_owned());
    let end = match result.map(|result| result.outcome) {
        None => End::Missing { message: why() },
        Some(Outcome::Passed) => End::Passed,
        Some(Outcome::Failed | Outcome::TimedOut) => End::Failed { message: why(), details: String::new() },
        Some(Outcome::Absent) => End::Skipped { message: why() },
    };
    Case {
        class: cell.program.clone(),
        name: if cell.rest.is_empty() { cell.chip.clone() } else { format!("{} {}", cell.chip, cell.rest) },
        seconds: Some(result.map_or(0.0, |result| result.seconds)),
        end,
        output: result.map(|result| result.output.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_report;
    use super::*;

    #[test]
    fn each_cell_is_a_case_with_its_end() {
        with_report(|report| {
            let text = junit(report);
            assert!(
                text.contains("<testsuite name=\"p\" tests=\"5\" failures=\"2\" errors=\"1\" skipped=\"1\">"),
                "{text}"
            );
            assert!(
                text.contains(
                    "name=\"gfx1100 seed=1\" time=\"1.500\"><failure message=\"no &amp; reason\"/>"
                ),
                "{text}"
            );
            assert!(text.contains("a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}\n</system-out>"), "{text}");
            assert_eq!(text.matches("<testcase").count(), 5);
        });
    }
}
