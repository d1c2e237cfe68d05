//! JUnit: a suite for each program, a case for each cell.

use std::fmt::Write as _;

use super::{Counts, Report, escaped, word};
use crate::results::Outcome;

/// Returns the report in the form that CI systems read.
#[must_use]
pub fn junit(report: &Report<'_>) -> String {
    let counts = report.counts();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        escaped(report.title),
        report.cells.len(),
        counts.failed,
        counts.missing,
        counts.absent
    );
    // The cells of a program lie together.
    for suite in report.cells.chunk_by(|(one, _), (other, _)| one.program == other.program) {
        let counts = Counts::of(suite);
        let _ = writeln!(
            text,
            "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">",
            escaped(&suite[0].0.program),
            suite.len(),
            counts.failed,
            counts.missing,
            counts.absent
        );
        for (cell, result) in suite {
            let name =
                if cell.rest.is_empty() { cell.chip.clone() } else { format!("{} {}", cell.chip, cell.rest) };
            let seconds = result.as_ref().map_or(0.0, |result| result.seconds);
            let _ = write!(
                text,
                "<testcase classname=\"{}\" name=\"{}\" time=\"{seconds:.3}\">",
                escaped(&cell.program),
                escaped(&name)
            );
            let why = result.as_ref().and_then(|result| result.why.as_deref());
            let why = escaped(why.unwrap_or(word(result.as_ref())));
            match result.as_ref().map(|result| result.outcome) {
                None => text.push_str("<error message=\"no result\"/>"),
                Some(Outcome::Passed) => {}
                Some(Outcome::Failed | Outcome::TimedOut) => {
                    let _ = write!(text, "<failure message=\"{why}\"/>");
                }
                Some(Outcome::Absent) => {
                    let _ = write!(text, "<skipped message=\"{why}\"/>");
                }
            }
            if let Some(result) = result.as_ref().filter(|result| !result.output.is_empty()) {
                let _ = write!(text, "<system-out>{}</system-out>", escaped(&result.output));
            }
            text.push_str("</testcase>\n");
        }
        text.push_str("</testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
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
