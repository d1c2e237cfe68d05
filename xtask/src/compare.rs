//! `cargo xtask compare OLD NEW`: two builds of belfry, measured in turns, and the rows in which they differ.
//!
//! A disturbance of the machine reaches both builds, as they take turns: old, new, new, old. The minimum over the rounds is the figure that
//! disturbances change least. A row's spread says how far the rounds of one build are apart; a ratio that is nearer to 1 than the
//! spread says nothing.

mod figures;
mod rows;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use figures::{Figures, Part};
use rows::Comparison;

/// Slowdown in percent from which a row counts as slower.
const SLOWER: f64 = 2.0;

/// The builds, and the figures to compare.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The belfry to compare with.
    old: PathBuf,
    /// The belfry that is compared.
    new: PathBuf,
    /// Rounds; each measures both once.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Parts to measure [default: all; `vmm` only where /dev/kvm can be used].
    #[arg(long, value_name = "PART,...", value_delimiter = ',', value_enum)]
    only: Vec<Part>,
    /// Prints one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measures both and prints the comparison.
///
/// # Errors
///
/// A program that cannot be run, that fails, or whose output is not that of belfry.
pub(crate) fn run(options: &Options) -> Result<()> {
    let parts = if options.only.is_empty() { usual() } else { options.only.clone() };
    let comparison = measure([&options.old, &options.new], &parts, options.rounds)?;
    ensure!(!comparison.rows.is_empty(), "both have no figure in common");
    if options.json {
        say!("{}", serde_json::to_string(&comparison)?);
    } else {
        say!("{comparison}");
    }
    Ok(())
}

/// All parts, but for the machine where there is no KVM.
fn usual() -> Vec<Part> {
    let kvm = std::fs::File::options().read(true).write(true).open("/dev/kvm");
    if let Err(error) = &kvm {
        note!("vmm is left out: /dev/kvm: {error}");
    }
    let is_possible = |part: &Part| *part != Part::Vmm || kvm.is_ok();
    Part::ALL.into_iter().filter(is_possible).collect()
}

/// Takes the figures of both builds in every round.
fn measure(builds: [&Path; 2], parts: &[Part], rounds: u32) -> Result<Comparison> {
    let mut taken: [Vec<Figures>; 2] = Default::default();
    for round in 0..rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let mut figures = Figures::new();
            for part in parts {
                let of_part = part.measure(builds[side]);
                figures.append(
                    &mut of_part.with_context(|| format!("{} of {}", part.name(), builds[side].display()))?,
                );
            }
            taken[side].push(figures);
        }
        note!("round {} of {rounds}", round + 1);
    }
    Ok(Comparison::new(&taken, SLOWER))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two programs that print fixed figures, as belfry prints them.
    fn builds() -> [PathBuf; 2] {
        ["old", "new"]
            .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("src/compare/fixtures").join(name))
    }

    #[test]
    fn rows_of_two_builds_are_compared_and_slower_ones_counted() {
        let [old, new] = builds();
        let parts = [Part::Isa, Part::Dispatch, Part::Vmm];
        let text = measure([&old, &new], &parts, 2).unwrap().to_string();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines,
            [
                vec!["row", "old", "new", "ratio", "spread"],
                vec![
                    "dispatch", "doorbell", "to", "signal", "us", "1.000", "1.021", "1.021", "0.0", "%",
                    "slower"
                ],
                vec!["dispatch", "launch", "ns", "1400.000", "1400.000", "1.000", "0.0", "%"],
                vec!["isa", "alu", "tier", "0", "ns", "2.000", "2.000", "1.000", "0.0", "%"],
                vec!["isa", "alu", "tier", "1", "ns", "0.500", "0.400", "0.800", "0.0", "%"],
                vec!["isa", "vadd", "tier", "0", "ns", "5.000", "5.500", "1.100", "0.0", "%", "slower"],
                vec!["isa", "vadd", "tier", "1", "ns", "0.800", "0.816", "1.020", "0.0", "%"],
                vec!["vmm", "doorbell", "trapped", "ring_ns", "600.000", "300.000", "0.500", "0.0", "%"],
                vec!["vmm", "exit", "port_write_ns", "800.000", "800.000", "1.000", "0.0", "%"],
                vec!["only", "in", "new:", "vmm", "exit", "hypercall_ns"],
                vec!["8", "rows,", "2", "slower", "by", "more", "than", "2", "%"],
            ]
        );
    }

    #[test]
    fn start_of_exec_is_a_time_of_its_own() {
        let [old, _] = builds();
        let figures = Part::Exec.measure(&old).unwrap();
        let names: Vec<_> = figures.keys().map(String::as_str).collect();
        assert_eq!(names, ["exec start ms"]);
        assert!(figures.values().all(|&time| time > 0.0));
    }

    #[test]
    fn program_that_fails_or_prints_something_else_is_named() {
        let measure = |program: &str| format!("{:#}", Part::Isa.measure(Path::new(program)).unwrap_err());
        assert!(measure("/no/such/belfry").contains("/no/such/belfry"));
        assert!(measure("false").contains("failed"), "{}", measure("false"));
        assert!(measure("echo").contains("no JSON"), "{}", measure("echo"));
    }

    #[test]
    fn spread_is_that_of_the_build_whose_rounds_differ_most() {
        let round = |value| Figures::from([("row".to_owned(), value)]);
        let taken = [vec![round(1.0), round(1.5)], vec![round(2.2), round(2.0)]];
        let comparison = Comparison::new(&taken, SLOWER);
        let row = &comparison.rows[0];
        assert_eq!((row.old, row.new, row.ratio, row.spread_percent), (1.0, 2.0, 2.0, 50.0));
        assert_eq!(comparison.slower, 1);
    }
}
