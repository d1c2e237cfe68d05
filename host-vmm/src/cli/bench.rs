//! `belfry bench`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use belfry_device::GpuConfig;
use belfry_device::chip::Model;
use belfry_image::Progress;
use clap::Subcommand;

use super::code_cache::CodeCacheArg;
use super::shape::ChipArg;
use super::size::parse_size;
use crate::bench::{self, programs};
use crate::output::say;

#[derive(Debug, Subcommand)]
pub(super) enum Suite {
    /// Executes the speed suite hosted, end to end.
    Isa {
        #[command(flatten)]
        chip: ChipArg,
        #[command(flatten)]
        code: CodeCacheArg,
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
        /// Numbers of worker threads to measure with.
        #[arg(long, value_name = "N,...", value_delimiter = ',', default_values_t = [1, 2])]
        workers: Vec<usize>,
        /// Kernels to measure; all by default.
        #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
        kernels: Vec<String>,
        /// Runs of each kernel.
        #[arg(long, value_name = "N", default_value_t = bench::RUNS)]
        runs: usize,
        /// Runs the same sources on as many processors through PoCL, and compares.
        #[arg(long)]
        vs_cpu: bool,
        /// Replaces the table in a document, for example `docs/performance.md`.
        #[arg(long, value_name = "FILE")]
        update: Option<PathBuf>,
    },
    /// Runs whole programs under `belfry exec`, most of them others': times, compiled code, memory. Packages are fetched
    /// on first use: some 3 GB on disk.
    Programs {
        /// Chip of the GPU; `belfry chips` lists the chips.
        #[arg(long, value_name = "NAME", default_value = belfry_device::chip::DEFAULT.name)]
        chip: String,
        /// Programs with one of these texts in their names; all by default.
        #[arg(long, value_name = "TEXT,...", value_delimiter = ',')]
        only: Vec<String>,
        /// Runs of each program.
        #[arg(long, value_name = "N", default_value_t = 3)]
        runs: usize,
        /// Threads that execute waves.
        #[arg(long, value_name = "N")]
        workers: Option<usize>,
        /// Another belfry that runs each program in turns; the table then has the ratio of the times.
        #[arg(long, value_name = "BINARY")]
        against: Option<PathBuf>,
        /// Prints the names of the programs and ends.
        #[arg(long)]
        list: bool,
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Copies and fills memory, by the SDMA engines of a hosted GPU and by the processor.
    Sdma {
        #[command(flatten)]
        chip: ChipArg,
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
        /// Bytes of each buffer: whole megabytes, up to 1G.
        #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
        size: u64,
        /// Runs of each row.
        #[arg(long, value_name = "N", default_value_t = bench::RUNS)]
        runs: usize,
    },
    /// Measures Belfry's own machine: exits, doorbells in every way they travel, interrupts, booting.
    Vmm {
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
        /// Samples of each figure.
        #[arg(long, value_name = "N", default_value_t = 1000)]
        samples: u64,
    },
    /// Lets several processes with several queues each share the GPU, and says how much of it each of them gets.
    Sharing {
        #[command(flatten)]
        chip: ChipArg,
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
        /// Processes.
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
        processes: u32,
        /// Queues of each process.
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=64))]
        queues: u32,
        /// Length of the measurement in seconds.
        #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: u64,
    },
}

/// Runs the measurement that is asked for; returns the exit status.
///
/// # Errors
///
/// Numbers out of range, and a measurement that fails.
pub(super) fn measure(what: Suite) -> anyhow::Result<u8> {
    match what {
        Suite::Isa { chip, code, json, workers, kernels, runs, vs_cpu, update } => {
            let gpu = GpuConfig { kept_code: code.keep()?, ..chip.config()? };
            measure_isa(json, update.as_deref(), &bench::Options { gpu, workers, kernels, runs, vs_cpu })
        }
        Suite::Sdma { chip, json, size, runs } => measure_copies(chip.config()?, json, size, runs),
        Suite::Programs { list: true, .. } => list_programs(),
        Suite::Programs { chip, only, runs, workers, against, list: _, json } => {
            measure_programs(json, &programs::Options { chip, only, runs, workers, against })
        }
        Suite::Vmm { json, samples } => measure_machine(json, samples),
        Suite::Sharing { chip, json, processes, queues, seconds } => {
            let time = Duration::from_secs(seconds);
            print(json, &bench::sharing::sharing(chip.config()?, processes, queues, time)?)
        }
    }
}

fn print<R: serde::Serialize + std::fmt::Display>(json: bool, results: &R) -> anyhow::Result<u8> {
    if json {
        say!("{}", serde_json::to_string(results)?);
    } else {
        say!("{results}");
    }
    Ok(0)
}

fn list_programs() -> anyhow::Result<u8> {
    for program in programs::all()? {
        say!("{:<20} {}", program.name, program.about);
    }
    Ok(0)
}

fn measure_programs(json: bool, options: &programs::Options) -> anyhow::Result<u8> {
    ensure!((1..=1000).contains(&options.runs), "runs: 1 to 1000");
    ensure!(options.workers.is_none_or(|count| (1..=256).contains(&count)), "workers: 1 to 256");
    Model::named(&options.chip)?;
    if !json {
        say!("{}", programs::HEADER);
    }
    let results = programs::programs(options, |measured| {
        if !json {
            say!("{measured}");
        }
    })?;
    if json {
        say!("{}", serde_json::to_string(&results)?);
    } else {
        say!("\n{results}");
    }
    Ok(u8::from(!results.failed.is_empty()))
}

fn measure_isa(json: bool, update: Option<&Path>, options: &bench::Options) -> anyhow::Result<u8> {
    ensure!(options.workers.iter().all(|count| (1..=256).contains(count)), "workers: 1 to 256");
    ensure!((1..=10_000).contains(&options.runs), "runs: 1 to 10000");
    if !json {
        say!("{}", bench::HEADER);
    }
    let results = bench::isa(options, |measurement| {
        if !json {
            say!("{measurement}");
        }
    })?;
    if json {
        say!("{}", serde_json::to_string(&results)?);
    } else {
        say!("\n{}", results.machine);
        results.kept_code.iter().for_each(|counts| say!("compiled code: {counts}"));
        results.scaling.iter().for_each(|scaling| say!("speedup {scaling}"));
        say!(
            "\n{} of {} targets met",
            results.targets.len() - results.missed().count(),
            results.targets.len()
        );
        results.targets.iter().for_each(|verdict| say!("{verdict}"));
        say_where_time_goes(&results);
        if results.missed().next().is_some() {
            say!("what limits them, and how much the machine's own speed varies: docs/performance.md");
        }
    }
    if let Some(file) = update {
        let place = || file.display().to_string();
        let document = std::fs::read_to_string(file).with_context(place)?;
        let document = bench::table::update(&document, &results).with_context(place)?;
        std::fs::write(file, document).with_context(place)?;
    }
    Ok(0)
}

/// Least share of a kernel's time, in percent, from which on an operation's handler is named.
const NAMED: f64 = 0.1;

/// Prints the division of each kernel's time, and the handlers that compiled code calls.
fn say_where_time_goes(results: &bench::Results) {
    // The division does not depend on the number of workers.
    let workers = results.kernels.first().map(|row| row.workers);
    say!("\nwhere time goes, in a run of code that counts, on one worker:");
    say!("kernel        compiled code  handlers  waves' starts, ends, changes");
    for row in results.kernels.iter().filter(|row| Some(row.workers) == workers) {
        let Some(spent) = &row.spent else { continue };
        let bench::Spent { code, handlers, waves, .. } = spent;
        say!("{:<12} {code:>13.1} % {handlers:>7.1} % {waves:>12.1} %", row.name);
        for call in spent.calls.iter().filter(|call| call.percent >= NAMED) {
            let bench::Called { operation, calls, ns, percent } = call;
            say!("  {percent:>5.1} % {operation}: {calls} calls of its handler, {ns:.1} ns each");
        }
    }
}

fn measure_copies(gpu: GpuConfig, json: bool, size: u64, runs: usize) -> anyhow::Result<u8> {
    ensure!(
        (1 << 20..=1 << 30).contains(&size) && size.is_multiple_of(1 << 20),
        "size: whole megabytes, up to 1G"
    );
    ensure!((1..=10_000).contains(&runs), "runs: 1 to 10000");
    let results = bench::sdma::sdma(gpu, usize::try_from(size)?, runs)?;
    print(json, &results)
}

fn measure_machine(json: bool, samples: u64) -> anyhow::Result<u8> {
    let results = bench::vmm::vmm(samples, &Progress::new())?;
    print(json, &results)
}
