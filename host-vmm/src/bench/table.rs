//! The results as the table of a document.

use std::fmt::Write as _;

use super::{Measurement, Results, targets};

/// Lines before and after the table in a document.
const BEGIN: &str = "<!-- belfry bench isa: begin -->";
const END: &str = "<!-- belfry bench isa: end -->";

/// Why a document could not be updated.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The document has no place for the table.
    #[error("the document has no lines `{BEGIN}` and `{END}` in this order")]
    NoPlace,
}

/// Returns a document with its table replaced by one of these results.
///
/// # Errors
///
/// [`TableError::NoPlace`] without the two lines that enclose the table.
pub fn update(document: &str, results: &Results) -> Result<String, TableError> {
    let (before, rest) = document.split_once(BEGIN).ok_or(TableError::NoPlace)?;
    let (_, after) = rest.split_once(END).ok_or(TableError::NoPlace)?;
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", table(results)))
}

fn table(results: &Results) -> String {
    let mut text = format!("Machine: {}.\n", results.machine);
    for scaling in &results.scaling {
        let _infallible = writeln!(text, "Speedup {scaling}.");
    }
    text.push('\n');
    let mut line = |cells: &[String]| {
        let _infallible = writeln!(text, "| {} |", cells.join(" | "));
    };
    let titles = [
        "kernel",
        "workers",
        "runs",
        "median ms",
        "min ms",
        "ns",
        "tier 1",
        "tier 0",
        "target",
        "speedup",
        "by worker time",
        "vs CPU",
        "time",
    ];
    line(&titles.map(str::to_owned));
    line(&titles.map(|_| "---".to_owned()));
    for row in &results.kernels {
        line(&cells(row));
    }
    text
}

fn cells(row: &Measurement) -> [String; 13] {
    let optional =
        |value: Option<f64>, unit: &str| value.map_or(String::new(), |value| format!("{value:.2}{unit}"));
    // A single dispatch has its own figure.
    let worker = match row.doorbell_to_signal_us {
        Some(time) => format!("doorbell to signal {time:.2} us"),
        None => format!("{:.2}", row.worker_ns_per_wave_instruction),
    };
    [
        format!("`{}`", row.name),
        row.workers.to_string(),
        row.runs.to_string(),
        format!("{:.3}", row.median_ms),
        format!("{:.3}", row.min_ms),
        format!("{:.2}", row.ns_per_wave_instruction),
        worker,
        format!("{:.2}", row.interpreted_worker_ns),
        targets::of_time(row),
        optional(row.speedup, ""),
        optional(row.speedup_by_worker_time, ""),
        optional(row.vs_cpu.map(|cpu| cpu.ratio), " x"),
        row.spent.as_ref().map_or(String::new(), ToString::to_string),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::{Scaling, machine};
    use super::*;

    #[test]
    fn only_the_place_of_the_table_changes() {
        let scaling = vec![Scaling { threads: 2, arithmetic: 2.0, streaming: 1.5 }];
        let results = Results::new(machine([0.5, 1.0]), scaling, Vec::new());
        let document = format!("# A\n\n{BEGIN}\nold\n{END}\n\nafter\n");
        let updated = update(&document, &results).unwrap();
        assert!(updated.starts_with(&format!("# A\n\n{BEGIN}\nMachine: ")), "{updated}");
        assert!(updated.ends_with(&format!("| --- |\n{END}\n\nafter\n")), "{updated}");
        assert!(
            updated.contains("2 threads: 2.00 at arithmetic, 1.50 at streaming.\n\n| kernel"),
            "{updated}"
        );
        assert!(!updated.contains("old"));
        assert_eq!(update(&updated, &results).unwrap(), updated);
        assert!(update("no place", &results).is_err());
    }
}
