//! `belfry replay`: runs a record again, to an event or to its end, and from there back or on.

mod looking_on;

use std::io::BufReader;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use belfry_device::record::{RecordError, Until};
use belfry_device::trace::{Timeline, TraceSink};
use belfry_device::{Gpu, Replay, Replayed, TraceSinks};
use belfry_process::files;
use clap::Args;

use super::inspect::InspectFlags;
use super::size::parse_size;
use super::trace::TraceArgs;
use crate::output::{note, say};

/// Lets the GPUs of a record do the same again, alone: without a guest and without a driver.
///
/// The replay compares itself with the record all the time. At a difference it ends with status 1 and prints the
/// first one.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// File that `--record` of `belfry run`, `belfry serve` or `belfry exec` has written.
    record: PathBuf,
    /// Stops after the turn or call that holds an event, and prints the state of the device: NUMBER, or KIND:NUMBER
    /// as in dispatch:3 or interrupt:5. An unknown kind lists the kinds.
    #[arg(long, value_name = "EVENT")]
    until: Option<Until>,
    /// Goes back N events from there, or from the end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    back: Option<u64>,
    /// Memory for checkpoints of the device; a way back begins at the nearest one. With 0 there is none, and the
    /// replay begins again.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    checkpoints: u64,
    /// Number of replays; all must have one result.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["trace", "inspect", "gdb"])]
    times: u32,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    inspect: InspectFlags,
}

/// A replay with its arguments; its errors have the file's name.
struct Replaying<'a> {
    args: &'a ReplayArgs,
    replay: Replay,
}

impl<'a> Replaying<'a> {
    fn open(args: &'a ReplayArgs, trace: Option<Arc<dyn TraceSink>>) -> anyhow::Result<Self> {
        let path = &args.record;
        let name = || path.display().to_string();
        let file = files::open(path).with_context(name)?;
        let replay = Replay::open(BufReader::new(file), sinks(trace)).with_context(name)?;
        Ok(Self { args, replay })
    }

    /// Returns the GPU that `--gpu` names.
    fn looked_at(&self, number: usize) -> anyhow::Result<&Arc<Gpu>> {
        let gpus = self.replay.gpus();
        gpus.get(number).with_context(|| {
            format!("--gpu {number}: {} GPUs, from 0 on, have begun at this point of the record", gpus.len())
        })
    }

    fn run(&mut self, until: Option<Until>) -> anyhow::Result<Replayed> {
        self.replay.run(until).with_context(|| self.args.record.display().to_string())
    }

    /// Goes `back` events back from where the replay is.
    fn back(&mut self, there: &Replayed, back: u64) -> anyhow::Result<Replayed> {
        let number = before(there, back)?;
        self.replay.back_to(number).with_context(|| self.args.record.display().to_string())
    }
}

/// Returns the sinks of all GPUs, for one trace.
fn sinks(trace: Option<Arc<dyn TraceSink>>) -> TraceSinks {
    let timeline = trace.map(Timeline::new);
    Box::new(move |number| timeline.as_ref().map(|timeline| timeline.of_gpu(number)))
}

/// Returns the number of the event that is `back` events before the replay's.
fn before(there: &Replayed, back: u64) -> anyhow::Result<u64> {
    let number = there.event.checked_sub(back).filter(|&number| number > 0);
    number.with_context(|| format!("--back {back} is before the first of {} events", there.event))
}

/// Replays as the arguments say, to the event that they name.
fn replay_as(
    args: &ReplayArgs,
    trace: Option<Arc<dyn TraceSink>>,
) -> anyhow::Result<(Replaying<'_>, Replayed)> {
    let Some(back) = args.back else {
        let goes_back = trace.is_none() && args.inspect.options(&[]).is_some();
        let mut replaying = Replaying::open(args, trace)?;
        replaying.replay.keep_checkpoints(if goes_back { args.checkpoints } else { 0 });
        let replayed = replaying.run(args.until)?;
        return Ok((replaying, replayed));
    };
    let mut first = Replaying::open(args, None)?;
    first.replay.keep_checkpoints(if trace.is_none() { args.checkpoints } else { 0 });
    let there = first.run(args.until)?;
    if trace.is_none() {
        let replayed = first.back(&there, back)?;
        return Ok((first, replayed));
    }
    // A trace has everything from the beginning to this event, once.
    let until = Until { kind: None, number: before(&there, back)? };
    let mut replaying = Replaying::open(args, trace)?;
    let replayed = replaying.run(Some(until))?;
    Ok((replaying, replayed))
}

/// Prints the difference of a replay from its record, and returns the status; other errors are passed on.
fn difference(error: anyhow::Error) -> anyhow::Result<u8> {
    if matches!(error.downcast_ref(), Some(RecordError::Diverged(_))) {
        note!("belfry: {error:#}");
        return Ok(1);
    }
    Err(error)
}

/// Describes the place of a replay in one line.
fn place(Replayed { operations, event, memory, last, at_end, .. }: &Replayed, times: u32) -> String {
    if *at_end {
        let times = if times > 1 { format!(", {times} times") } else { String::new() };
        return format!("the same{times}: {operations} operations, {event} events, memory {memory:016x}");
    }
    format!("event {event} in operation {operations}, memory {memory:016x}: {last}")
}

/// Runs `belfry replay`.
pub(super) fn replay(args: &ReplayArgs) -> anyhow::Result<u8> {
    let recording = args.trace.start()?;
    let mut result = replay_as(args, recording.as_ref().map(|recording| recording.sink()));
    for _ in 1..args.times {
        let Ok((_, first)) = &result else { break };
        let again = replay_as(args, None)?;
        anyhow::ensure!(again.1 == *first, "a replay came to {:?}, and another one to {first:?}", again.1);
        result = Ok(again);
    }
    let is_traced = recording.is_some();
    if let Some(recording) = recording {
        recording.finish();
    }
    let (mut replaying, replayed) = match result {
        Ok(result) => result,
        Err(error) => return difference(error),
    };
    for gpu in replaying.replay.gpus() {
        for strike in &gpu.faults().report().strikes {
            say!("fault: {strike}");
        }
    }
    say!("{}", place(&replayed, args.times));
    if !replayed.at_end {
        for gpu in replaying.replay.gpus() {
            say!("{gpu:#x?}");
        }
    }
    match args.inspect.options(&[]) {
        Some(options) => looking_on::look_on(&mut replaying, replayed, &options, !is_traced),
        None => Ok(0),
    }
}
