//! `belfry trace diff`: the changes from one trace to another.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::summary::{Analysis, OfKernel, percentile};
use crate::time::Time;
use crate::trace::Trace;

/// Lists the kernels of two traces, side by side.
#[must_use]
pub fn diff(before: &Trace, after: &Trace) -> String {
    let (old, new) = (Analysis::of(before), Analysis::of(after));
    let names: BTreeSet<_> = old.kernels.keys().chain(new.kernels.keys()).collect();
    let mut out = String::new();
    // Text never fails.
    let _ = writeln!(
        out,
        "{:<40} {:>17} {:>23} {:>9} {:>27}",
        "kernel", "count", "median time", "change", "instructions"
    );
    for name in names {
        let (one, other) = (old.kernels.get(name), new.kernels.get(name));
        let count =
            |kernel: Option<&OfKernel>| kernel.map_or("-".to_owned(), |kernel| kernel.count.to_string());
        let instructions = |kernel: Option<&OfKernel>| {
            let recorded = kernel.map(|kernel| kernel.instructions).filter(|&count| count != 0);
            recorded.map_or("-".to_owned(), |count| count.to_string())
        };
        let text = |time: Option<u64>| time.map_or("-".to_owned(), |time| Time(time).to_string());
        let (first, second) = (median(one), median(other));
        let change = match (first, second) {
            (Some(first), Some(second)) if first != 0 => {
                format!("{:+.1} %", (second as f64 / first as f64 - 1.0) * 100.0)
            }
            _ => "-".to_owned(),
        };
        let _ = writeln!(
            out,
            "{name:<40} {:>7} > {:>7} {:>10} > {:>10} {change:>9} {:>12} > {:>12}",
            count(one),
            count(other),
            text(first),
            text(second),
            instructions(one),
            instructions(other)
        );
    }
    out
}

fn median(kernel: Option<&OfKernel>) -> Option<u64> {
    let mut times = kernel?.times.clone();
    times.sort_unstable();
    (!times.is_empty()).then(|| percentile(&times, 50))
}
