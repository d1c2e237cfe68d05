//! `--record` of `belfry run`, and `belfry replay`.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use belfry_device::record::{RecordError, Recording, Until};
use belfry_device::trace::TraceSink;
use belfry_device::{Replay, Replayed};
use belfry_machine::signals::Signals;
use clap::Args;

use super::inspect::InspectFlags;
use super::trace::TraceArgs;
use crate::inspect::look_at;
use crate::output::{note, say};
use crate::run::Mode;

/// A record of a run.
#[derive(Debug, Default, Args)]
pub(super) struct RecordArgs {
    /// Records every input of the GPU that is not determined to a file, from which `belfry replay` has the GPU do the same again,
    /// alone. The GPU does one thing after the other meanwhile, as with --deterministic (seed 0 by default). For --mode hosted and
    /// --mode qemu.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sanitize", "trace_isa", "inspect", "gdb"])]
    record: Option<PathBuf>,
}

/// A run that is recorded.
pub(super) struct Recorded {
    path: PathBuf,
    recording: Recording,
}

impl RecordArgs {
    /// Begins to record a run in this mode, if that is asked for.
    pub(super) fn start(&self, mode: Mode) -> anyhow::Result<Option<Recorded>> {
        let Some(path) = self.record.clone() else { return Ok(None) };
        anyhow::ensure!(
            matches!(mode, Mode::Hosted | Mode::Qemu),
            "--record is for --mode hosted and --mode qemu: say one of them"
        );
        let file = File::create(&path).with_context(|| format!("making the record {}", path.display()))?;
        Ok(Some(Recorded { path, recording: Recording::new(file) }))
    }
}

impl Recorded {
    /// What records.
    pub(super) fn recording(&self) -> Recording {
        self.recording.clone()
    }

    /// Tells what was recorded, once the device is gone. What is wrong with the record is no failure of the run.
    pub(super) fn finish(self) {
        let path = self.path.display();
        match self.recording.recorded() {
            Err(error) => note!(
                "belfry: the record {path} ends early, as it could not be written on: {error}. The run was not affected"
            ),
            Ok(said) if !said.complete => note!(
                "belfry: the record {path} has no end, as the device was not stopped; `belfry replay --until` replays what there \
                 is"
            ),
            Ok(said) => note!(
                "belfry: recorded {} operations, {} inputs and {} events in {} bytes ({} before packing): {path}",
                said.operations,
                said.inputs,
                said.events,
                said.bytes,
                said.unpacked
            ),
        }
    }
}

/// Has the GPU of a record do the same again, alone: without a guest and without a driver.
///
/// It compares itself with the record all the time, and ends with status 1 where it differs: the first difference is told.
#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// What `belfry run --record` has written.
    record: PathBuf,
    /// Stops behind the turn or call that an event is in, and prints the state of the device: NUMBER, or KIND:NUMBER as in
    /// dispatch:3 or interrupt:5. A kind that is none lists them.
    #[arg(long, value_name = "EVENT")]
    until: Option<Until>,
    /// Goes back so many events from there, or from the end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    back: Option<u64>,
    /// Does it so many times, each of which has to come to the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with_all = ["trace", "inspect", "gdb"])]
    times: u32,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    inspect: InspectFlags,
}

fn replay_to(
    path: &Path,
    until: Option<Until>,
    trace: Option<Arc<dyn TraceSink>>,
) -> anyhow::Result<(Replay, Replayed)> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    anyhow::ensure!(!file.metadata()?.is_dir(), "{} is a folder, and no record", path.display());
    let mut replay = Replay::open(BufReader::new(file), trace).with_context(|| path.display().to_string())?;
    let replayed = replay.run(until).with_context(|| path.display().to_string())?;
    Ok((replay, replayed))
}

/// Replays as the arguments say, to the event that they name.
fn replay_as(
    args: &ReplayArgs,
    trace: impl Fn() -> Option<Arc<dyn TraceSink>>,
) -> anyhow::Result<(Replay, Replayed)> {
    let Some(back) = args.back else { return replay_to(&args.record, args.until, trace()) };
    // Nothing is undone: it is done again, but for the last events.
    let (first, there) = replay_to(&args.record, args.until, None)?;
    drop(first);
    let number = there.event.checked_sub(back).filter(|&number| number > 0);
    let number =
        number.with_context(|| format!("--back {back} is before the first of {} events", there.event))?;
    replay_to(&args.record, Some(Until { kind: None, number }), trace())
}

/// Runs `belfry replay`.
pub(super) fn replay(args: &ReplayArgs) -> anyhow::Result<u8> {
    let recording = args.trace.start()?;
    let sink = || recording.as_ref().map(|recording| recording.sink());
    let mut result = replay_as(args, sink);
    for _ in 1..args.times {
        let Ok((_, first)) = &result else { break };
        let again = replay_as(args, || None)?;
        anyhow::ensure!(again.1 == *first, "a replay came to {:?}, and another one to {first:?}", again.1);
        result = Ok(again);
    }
    if let Some(recording) = recording {
        recording.finish();
    }
    let (replay, replayed) = match result {
        Ok(result) => result,
        Err(error) if matches!(error.downcast_ref(), Some(RecordError::Diverged(_))) => {
            note!("belfry: {error:#}");
            return Ok(1);
        }
        Err(error) => return Err(error),
    };
    for strike in &replay.gpu().faults().report().strikes {
        say!("fault: {strike}");
    }
    let Replayed { operations, event, last, memory, at_end, .. } = &replayed;
    if *at_end {
        let times = if args.times > 1 { format!(", {} times", args.times) } else { String::new() };
        say!("the same{times}: {operations} operations, {event} events, memory {memory:016x}");
    } else {
        say!("event {event} in operation {operations}, memory {memory:016x}: {last}");
        say!("{:#x?}", replay.gpu());
    }
    if let Some(options) = args.inspect.options(&[]) {
        let signals = Signals::catch().context("cannot catch signals")?;
        let _onlookers = look_at(replay.gpu(), &options)?;
        note!("belfry: look at it with `belfry inspect {}`; Ctrl-C ends this", std::process::id());
        signals.wait();
    }
    Ok(0)
}
