//! `belfry explore`, and `--schedule` of `belfry run`.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::ensure;
use belfry_device::GpuConfig;
use belfry_device::explore::{Explorer, Schedule};
use clap::Args;

use super::device::DeviceArgs;
use super::sanitize::{SanitizeArgs, Sanitizing};
use crate::explore::{ExploreOptions, STEPS, Strategy, Subject, explore, serve};
use crate::output::{note, say};
use crate::racy;
use crate::run::Mode;

/// A schedule that a run goes by.
#[derive(Debug, Default, Args)]
pub(super) struct ScheduleArgs {
    /// Runs device, driver and program in this order, as `belfry explore` prints it: preempt:N,N=K,... or
    /// pct:SEED:DEPTH:POINTS; seed:SEED is --deterministic. For --mode hosted.
    #[arg(long, value_name = "SCHEDULE", conflicts_with_all = ["record", "inspect", "gdb", "deterministic"])]
    schedule: Option<Schedule>,
    /// Steps after which the run counts as hung.
    #[arg(long, value_name = "N", default_value_t = STEPS, requires = "schedule", value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
}

impl ScheduleArgs {
    /// Returns true if a schedule is given.
    pub(super) fn is_asked_for(&self) -> bool {
        self.schedule.is_some()
    }

    /// Makes a device follow the schedule, if one is given.
    pub(super) fn apply(&self, mode: Mode, gpu: &mut GpuConfig) -> anyhow::Result<()> {
        match &self.schedule {
            None => {}
            Some(Schedule::Seeded(seed)) => gpu.deterministic = Some(*seed),
            Some(schedule) => {
                ensure!(mode == Mode::Hosted, "--schedule is for --mode hosted: say so");
                gpu.explorer = Some(Explorer::new(schedule, self.steps));
            }
        }
        Ok(())
    }
}

/// Runs a bundled program under many schedules of its waves, of the device, of interrupts and of the driver's work, and finds those
/// under which it fails; exits with 1 if there are any.
///
/// A failure is a wrong result, an error, a hang, a panic, and with --sanitize a broken rule. For each one the
/// smallest schedule that shows it is printed, and the command that repeats it. The programs `racy:NAME` have a race,
/// to try this on.
#[derive(Debug, Args)]
pub(super) struct ExploreArgs {
    /// Schedules to run.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    schedules: u64,
    /// Method of choosing schedules.
    #[arg(long, value_enum, default_value_t)]
    strategy: Strategy,
    /// For random schedules: number of events that have to come in a certain order.
    #[arg(long, value_name = "D", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    depth: u32,
    /// For bounded schedules: largest number of changes to the usual course.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    preemptions: u16,
    /// Seed of random schedules.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Ends at the first failure.
    #[arg(long)]
    first: bool,
    /// Steps after which a run counts as hung: accesses of memory by waves, turns of the device, points of the
    /// driver.
    #[arg(long, value_name = "N", default_value_t = STEPS, value_parser = clap::value_parser!(u64).range(1..))]
    steps: u64,
    /// Children at a time.
    #[arg(long, value_name = "N", default_value_t = belfry_device::processors() as u16, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Seconds of host time after which a child that has not answered is ended.
    #[arg(long, value_name = "SECS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    sanitize: SanitizeArgs,
    /// Prints the summary as one JSON object.
    #[arg(long)]
    json: bool,
    /// Answers schedules on standard input.
    #[arg(long, hide = true)]
    child: bool,
    /// A bundled program and its arguments.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Spells the options of `run` for this device and these checks.
fn spelled(args: &ExploreArgs, gpu: &GpuConfig) -> Vec<String> {
    let mut words = Vec::new();
    let usual = GpuConfig::default();
    if let Some(chip) = args.device.chip.first().filter(|chip| *chip != usual.chip.name) {
        words.push(format!("--chip {chip}"));
    }
    if args.device.cus != usual.cus {
        words.push(format!("--cus {}", args.device.cus));
    }
    if args.device.vram != usual.vram_size {
        words.push(format!("--vram {}", gpu.vram_size));
    }
    if args.steps != STEPS {
        words.push(format!("--steps {}", args.steps));
    }
    words.extend(args.sanitize.spelled().iter().map(|word| word.to_string_lossy().into_owned()));
    words
}

/// Runs `belfry explore`.
pub(super) fn execute(args: &ExploreArgs) -> anyhow::Result<u8> {
    let program = args.program.first().map_or("", String::as_str);
    let examples = belfry_examples::NAMES;
    if !examples.contains(&program) && !racy::is_one(program) {
        let racy: Vec<String> =
            racy::summaries().map(|(name, summary)| format!("\n  {name}: {summary}")).collect();
        anyhow::bail!(
            "{program} is none of the bundled programs: {}; or, with a race (and repaired with -repaired behind it):{}",
            examples.join(", "),
            racy.concat()
        );
    }
    let gpu = args.device.config()?;
    ensure!(gpu.deterministic.is_none(), "--deterministic is a schedule, and there are many here");
    args.sanitize.check_with(&[("explore", true)])?;
    let sanitizing = args.sanitize.start(&[])?;
    if args.child {
        let sanitize = sanitizing.as_ref().map(Sanitizing::options).cloned();
        serve(&Subject { gpu, program: args.program.clone(), steps: args.steps, sanitize })?;
        return Ok(0);
    }
    let options = ExploreOptions {
        program: args.program.clone(),
        strategy: args.strategy,
        schedules: args.schedules,
        seed: args.seed,
        depth: args.depth,
        preemptions: args.preemptions.into(),
        first: args.first,
        jobs: args.jobs.into(),
        limit: Duration::from_secs(args.limit),
        spelled: spelled(args, &gpu),
    };
    let shows = std::io::stderr().is_terminal();
    let summary = explore(&options, &|done, all| {
        if shows && done.is_multiple_of(100) {
            note!("{done} of {all} schedules");
        }
    })?;
    if args.json {
        say!("{}", serde_json::to_string(&summary)?);
    } else {
        say!("{summary}");
    }
    Ok(u8::from(summary.failed > 0))
}
