//! `belfry torture` on the command line.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use belfry_image::Progress;
use clap::{Args, ValueEnum};

use super::device::DeviceArgs;
use crate::output::{note, say};
use crate::torture::{Bug, Machine, Place, TortureOptions, again, keep, prepare, serve, torture};

/// Place in which the program runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
enum TortureMode {
    /// In child processes, over the hosted driver.
    #[default]
    Hosted,
    /// In guests in QEMU, whose driver is loaded for each plan.
    Qemu,
    /// In guests on Belfry's own machine, whose driver is loaded for each plan.
    Kvm,
}

impl TortureMode {
    const fn name(self) -> &'static str {
        match self {
            Self::Hosted => "hosted",
            Self::Qemu => "qemu",
            Self::Kvm => "kvm",
        }
    }

    const fn machine(self) -> Option<Machine> {
        match self {
            Self::Hosted => None,
            Self::Qemu => Some(Machine::Qemu),
            Self::Kvm => Some(Machine::Kvm),
        }
    }
}

/// Time that a guest may take for a plan, beside the program's own: it boots, and the driver is loaded, waits for a
/// device that does not answer, and is loaded again.
const GUEST: Duration = Duration::from_secs(300);
/// Runs of the program in a guest for one plan, each of which may have to be killed.
const RUNS: u32 = 6;

/// Runs a bundled program under many plans of faults; exits with 1 if there was a hang, a wrong result, a panic, a leak, or a device
/// that did not work afterwards.
///
/// The plans are: every rule of `run --fault` alone, at the first moments that the run without faults has met; pairs
/// of rules; chaos. An error that the program ends with is no finding, unless all faults that have struck are
/// harmless to programs.
#[derive(Debug, Args)]
pub(super) struct TortureArgs {
    /// Plans to run.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    plans: u64,
    /// Seed of pairs and chaos.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Place in which the program runs.
    #[arg(long, value_enum, default_value_t)]
    mode: TortureMode,
    /// Children at a time; by default two for each processor, as most of a failing plan is waiting, or one for each
    /// with guests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
    /// Seconds after which a program that has not ended counts as hung.
    #[arg(long, value_name = "SECS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
    #[command(flatten)]
    device: DeviceArgs,
    /// Prints the summary as one JSON object.
    #[arg(long)]
    json: bool,
    /// Writes a file for each finding into this folder: `--replay` shows the finding again.
    #[arg(long, value_name = "DIR")]
    findings: Option<PathBuf>,
    /// Runs the plan of such a file, with the GPU and the program that it names; exits with 1 if its finding shows again.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["findings", "program"])]
    replay: Option<PathBuf>,
    /// Makes a mistake on purpose, for tests of the findings.
    #[arg(long, hide = true, value_enum)]
    bug: Option<Bug>,
    /// Answers plans on standard input.
    #[arg(long, hide = true)]
    child: bool,
    /// A bundled program and its arguments.
    #[arg(last = true, required_unless_present = "replay", value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Runs `belfry torture`.
pub(super) fn execute(args: &TortureArgs) -> anyhow::Result<u8> {
    if let Some(path) = &args.replay {
        return replay(path);
    }
    let names = belfry_examples::NAMES;
    let program = args.program.first().map_or("", String::as_str);
    ensure!(names.contains(&program), "{program} is none of the bundled programs: {}", names.join(", "));
    let mut gpu = args.device.config()?;
    gpu.workers = args.device.workers.unwrap_or_else(|| gpu.workers.min(2));
    let machine = args.mode.machine();
    ensure!(machine.is_none() || args.bug.is_none(), "--bug is for --mode hosted");
    let limit = Duration::from_secs(args.limit);
    if args.child {
        let place = machine.map_or(Place::Hosted(args.bug), |machine| Place::Guest(machine, limit));
        serve(&gpu, &args.program, place)?;
        return Ok(0);
    }
    if let Some(machine) = machine {
        prepare(machine, &Progress::new())?;
    }
    let processors = belfry_device::processors();
    let jobs = if machine.is_some() { processors } else { 2 * processors };
    let options = TortureOptions {
        gpu,
        program: args.program.clone(),
        mode: args.mode.name(),
        plans: args.plans,
        seed: args.seed,
        jobs: args.jobs.map_or(jobs, usize::from),
        limit: if machine.is_some() { GUEST + limit * RUNS } else { limit },
    };
    let shows = std::io::stderr().is_terminal();
    let summary = torture(&options, &|done, all| {
        if shows && (done.is_multiple_of(100) || machine.is_some()) {
            note!("{done} of {all} plans");
        }
    })?;
    if args.json {
        say!("{}", serde_json::to_string(&summary)?);
    } else {
        say!("{summary}");
    }
    if let Some(folder) = &args.findings {
        for path in keep(&summary, options.limit, folder)? {
            note!("wrote {}", path.display());
        }
    }
    Ok(u8::from(!summary.found.is_empty()))
}

/// Shows a finding again.
fn replay(path: &Path) -> anyhow::Result<u8> {
    let again = again(path)?;
    say!("plan     {}\nfound    {}", again.plan, again.finding);
    match &again.shown {
        Some((number, verdict)) => say!("again    in run {number}: {verdict}"),
        None => say!("again    no; in the last run: {}", again.last),
    }
    Ok(u8::from(again.shown.is_some()))
}
