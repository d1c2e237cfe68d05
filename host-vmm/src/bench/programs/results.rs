//! Results of the programs, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::measure::Run;
use crate::bench::Machine;

/// Operations that are named for the time of their handlers.
const NAMED: usize = 10;

/// Everything that was measured; `--json` prints this.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Machine of the measurement.
    pub machine: Machine,
    /// Name of the chip.
    pub chip: String,
    /// Runs of each program that count.
    pub runs: usize,
    /// The other belfry, by its path and version.
    pub against: Option<String>,
    /// The programs in the order of the list.
    pub programs: Vec<Measured>,
    /// Programs that were left out, as they have no code for the chip.
    pub absent: Vec<String>,
    /// Programs that failed, with the reason.
    pub failed: BTreeMap<String, String>,
    /// Operations by the time of their handlers, over all programs.
    pub handlers: Vec<Handler>,
}

/// Figures of one program.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// The package it is of, with its version.
    pub version: Option<String>,
    /// The median of its runs by the clock, whole.
    pub run: Run,
    /// Times of all runs by the clock, in seconds.
    pub walls: Vec<f64>,
    /// Of the wave instructions, those in compiled code without handlers, in percent.
    pub compiled: Option<f64>,
    /// Of the workers' time, the part in compiled code without handlers, in percent.
    pub in_code: Option<f64>,
    /// Unit of the figure that it prints.
    pub unit: Option<String>,
    /// The same figure on the processor.
    pub cpu: Option<f64>,
    /// Times by the clock, divided by those of the other belfry, run by run.
    pub ratio: Option<Ratio>,
}

/// Ratios of runs in turns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

/// The handlers of one operation, over all programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Handler {
    /// The operation.
    pub operation: String,
    /// Calls.
    pub calls: u64,
    /// Seconds in them.
    pub time: f64,
}

impl Ratio {
    /// Of the times of one and those of the other, in the order of the turns; `None` if there are none.
    #[must_use]
    pub fn of(own: &[f64], other: &[f64]) -> Option<Self> {
        let mut all: Vec<f64> = own.iter().zip(other).map(|(own, other)| own / other).collect();
        all.sort_by(f64::total_cmp);
        Some(Self { median: *all.get(all.len() / 2)?, least: *all.first()?, most: *all.last()? })
    }
}

/// The run in the middle by the clock.
///
/// # Panics
///
/// There is no run.
pub(super) fn median(runs: &[Run]) -> &Run {
    let mut order: Vec<&Run> = runs.iter().collect();
    order.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    order[order.len() / 2]
}

/// Shares of compiled code of a run that has counted, in percent: of wave instructions, and of the workers' time.
pub(super) fn shares(run: &Run) -> (Option<f64>, Option<f64>) {
    let Some(code) = &run.code else { return (None, None) };
    let (calls, handlers) =
        code.handlers.values().fold((0, 0.0), |(calls, time), (more, also)| (calls + more, time + also));
    let percent = |part: f64, all: f64| (all > 0.0).then(|| (part / all * 100.0).clamp(0.0, 100.0));
    (
        percent(code.instructions.saturating_sub(calls) as f64, run.instructions as f64),
        percent(code.time - handlers, run.workers),
    )
}

/// Adds the handlers of all runs up, those with most time first.
pub(super) fn rank<'r>(runs: impl Iterator<Item = &'r Run>) -> Vec<Handler> {
    let mut sums = BTreeMap::<&str, (u64, f64)>::new();
    for (name, (calls, time)) in runs.filter_map(|run| run.code.as_ref()).flat_map(|code| &code.handlers) {
        let sum = sums.entry(name).or_default();
        sum.0 += calls;
        sum.1 += time;
    }
    let mut all: Vec<Handler> = sums
        .into_iter()
        .map(|(operation, (calls, time))| Handler { operation: operation.to_owned(), calls, time })
        .collect();
    all.sort_by(|a, b| b.time.total_cmp(&a.time));
    all
}

/// Head of the table, as Markdown.
pub const HEADER: &str = "\
| program | wall s | processor s | program | waits | workers | device | compiled % | in code % | peak MB | figure | cpu | ratio |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, run, compiled, in_code, unit, cpu, ratio, .. } = self;
        let or_none = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        write!(
            f,
            "| {name} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {} | {:.0} | ",
            run.wall,
            run.processor,
            run.program,
            run.waits,
            run.workers,
            run.device,
            or_none(*compiled, 1),
            or_none(*in_code, 1),
            run.peak as f64 / 1e6,
        )?;
        match (run.figure, unit) {
            (Some(figure), Some(unit)) => write!(f, "{figure:.3} {unit}")?,
            _ => write!(f, "-")?,
        }
        write!(f, " | {} | ", or_none(*cpu, 3))?;
        match ratio {
            Some(Ratio { median, least, most }) => write!(f, "{median:.2} ({least:.2} to {most:.2}) |"),
            None => write!(f, "- |"),
        }
    }
}

/// Everything after the table.
impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratios: Vec<f64> =
            self.programs.iter().filter_map(|program| program.ratio).map(|ratio| ratio.median).collect();
        if let (Some(against), false) = (&self.against, ratios.is_empty()) {
            let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let most = ratios.iter().copied().fold(0.0, f64::max);
            writeln!(f, "against {against}: geometric mean {mean:.2}, largest {most:.2}")?;
        }
        if !self.handlers.is_empty() {
            writeln!(f, "operations by the time of their handlers:")?;
            for Handler { operation, calls, time } in self.handlers.iter().take(NAMED) {
                writeln!(f, "  {operation:<28} {time:>8.3} s {calls:>12} calls")?;
            }
        }
        for name in &self.absent {
            writeln!(f, "absent: {name} (no code for {})", self.chip)?;
        }
        for (name, reason) in &self.failed {
            writeln!(f, "failed: {name}: {reason}")?;
        }
        write!(f, "{}, {} runs, {} failed; {}", self.chip, self.runs, self.failed.len(), self.machine)
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Code;
    use super::*;

    fn run(wall: f64) -> Run {
        let handlers = BTreeMap::from([("v_a".to_owned(), (20, 0.25)), ("v_b".to_owned(), (5, 0.5))]);
        let code = Some(Code { instructions: 100, time: 1.25, handlers });
        Run { wall, workers: 2.0, instructions: 150, code, ..Run::default() }
    }

    #[test]
    fn handlers_are_no_compiled_code() {
        let (compiled, in_code) = shares(&run(1.0));
        assert_eq!((compiled, in_code), (Some(50.0), Some(25.0)));
        assert_eq!(shares(&Run::default()), (None, None));
    }

    #[test]
    fn operations_are_ranked_by_time_over_all_programs() {
        let runs = [run(1.0), run(2.0)];
        let ranked = rank(runs.iter());
        let ranked: Vec<_> = ranked.iter().map(|handler| (&*handler.operation, handler.calls)).collect();
        assert_eq!(ranked, [("v_b", 10), ("v_a", 40)]);
    }

    #[test]
    fn ratios_are_of_turns_and_medians_are_whole_runs() {
        let ratio = Ratio::of(&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0]).unwrap();
        assert_eq!((ratio.least, ratio.median, ratio.most), (0.5, 1.0, 1.5));
        assert_eq!(Ratio::of(&[], &[]), None);
        assert_eq!(median(&[run(3.0), run(1.0), run(2.0)]).wall, 2.0);
    }
}
