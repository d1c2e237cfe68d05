//! A page: a grid with a row for each program and its axes and a column for each chip, and what there is to say of each cell.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use belfry_junit::escaped;

use super::{Report, word};
use crate::results::Outcome;

/// Style of the page. Ends differ by their words, not by colour alone.
const STYLE: &str = include_str!("page.css");

/// Returns the report as one page that needs no other file.
#[must_use]
pub fn html(report: &Report<'_>) -> String {
    let title = escaped(report.title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}: {counts}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{counts} – {}</p>\n",
        escaped(report.build),
        counts = report.counts()
    );
    grid(report, &mut page);
    details(report, &mut page);
    page.push_str("</body>\n</html>\n");
    page
}

fn grid(report: &Report<'_>, page: &mut String) {
    let mut chips: Vec<&str> = Vec::new();
    // In the order of the matrix.
    let mut rows: Vec<[&str; 2]> = Vec::new();
    let mut places: BTreeMap<[&str; 2], BTreeMap<&str, usize>> = BTreeMap::new();
    for (at, (cell, _)) in report.cells.iter().enumerate() {
        if !chips.contains(&cell.chip.as_str()) {
            chips.push(&cell.chip);
        }
        let row = [cell.program.as_str(), cell.rest.as_str()];
        let places = places.entry(row).or_insert_with(|| {
            rows.push(row);
            BTreeMap::new()
        });
        places.insert(&cell.chip, at);
    }
    page.push_str("<table>\n<thead><tr><th scope=\"col\">program</th>");
    for chip in &chips {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(chip));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let [program, rest] = row.map(escaped);
        let _ = write!(page, "<tr><th scope=\"row\">{program} <small>{rest}</small></th>");
        for chip in &chips {
            let Some(&at) = places[&row].get(chip) else {
                page.push_str("<td></td>");
                continue;
            };
            let result = report.cells[at].1.as_ref();
            let word = word(result);
            let time = result
                .filter(|result| result.outcome != Outcome::Absent)
                .map(|result| format!("{:.1} s", result.seconds));
            let kept = if result.is_some_and(|result| result.kept) { " kept" } else { "" };
            let _ = write!(
                page,
                "<td class=\"{}\"><a href=\"#c{at}\">{word}</a> <small>{}{kept}</small></td>",
                word.replace(' ', "-"),
                time.unwrap_or_default()
            );
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n");
}

fn details(report: &Report<'_>, page: &mut String) {
    page.push_str("<h2>Cells</h2>\n");
    for (at, (cell, result)) in report.cells.iter().enumerate() {
        let open =
            if result.as_ref().is_some_and(|r| matches!(r.outcome, Outcome::Failed | Outcome::TimedOut)) {
                " open"
            } else {
                ""
            };
        let _ = writeln!(
            page,
            "<details id=\"c{at}\"{open}><summary>{}: {}</summary>\n<p><code>belfry {}</code></p>",
            escaped(&cell.name()),
            word(result.as_ref()),
            escaped(&cell.arguments.join(" "))
        );
        if let Some(result) = result {
            if let Some(why) = &result.why {
                let _ = writeln!(page, "<p>{}</p>", escaped(why));
            }
            if let Some(record) = &result.record {
                let _ = writeln!(
                    page,
                    "<p>Record: <code>{}</code>, for <code>belfry replay</code></p>",
                    escaped(record)
                );
            }
            if !result.output.is_empty() {
                let _ = writeln!(page, "<pre>{}</pre>", escaped(&result.output));
            }
            let _ = writeln!(page, "<p><small>on {}</small></p>", escaped(&result.machine));
        }
        page.push_str("</details>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::with_report;
    use super::*;

    #[test]
    fn page_has_a_place_for_each_cell_and_no_markup_of_programs() {
        with_report(|report| {
            let page = html(report);
            assert!(page.contains("<h1>t &lt;1&gt;</h1>"), "{page}");
            for word in ["passed", "failed", "timed out", "absent", "no result"] {
                assert!(page.contains(&format!("\">{word}</a>")), "{word} is not in {page}");
            }
            assert_eq!(page.matches("<details").count(), 5);
            assert_eq!(page.matches(" open>").count(), 2);
            assert!(page.contains("k1.record") && page.contains("a&lt;b&gt;"), "{page}");
        });
    }
}
