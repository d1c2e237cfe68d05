//! `--record` of `belfry run`, `belfry serve` and `belfry exec`.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belfry_device::record::Recording;
use clap::Args;

use crate::exec::RecordOfProcess;
use crate::output::note;

/// A record of a run.
#[derive(Debug, Default, Args)]
pub(super) struct RecordArgs {
    /// Records to a file every input of the GPUs that is not determined; `belfry replay` then lets the GPUs do the same
    /// again, alone. While they are recorded, the GPUs do one thing after the other, as with --deterministic (seed 0 by
    /// default). With --mode kvm every doorbell traps meanwhile.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sanitize", "trace_isa", "inspect", "gdb", "warm"])]
    record: Option<PathBuf>,
}

/// A record of a server.
#[derive(Debug, Default, Args)]
pub(super) struct ServeRecordArgs {
    /// Records to a file every input of the GPUs that is not determined, from the start of the server to its end, for
    /// all clients that come and go. `belfry replay` then lets the GPUs do the same again, alone. While they are recorded,
    /// the GPUs do one thing after the other, as with --deterministic (seed 0 by default).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace_isa", "inspect", "gdb"])]
    record: Option<PathBuf>,
}

/// Records of programs.
#[derive(Debug, Default, Args)]
pub(super) struct ExecRecordArgs {
    /// Records every input of the GPUs of each process that is not determined to a file of that folder,
    /// `PROGRAM-PID.record`; `belfry replay` then lets the GPUs do the same again, alone. While they are recorded, the GPUs
    /// do one thing after the other, as with --deterministic (seed 0 by default).
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["sanitize", "inspect", "gdb"])]
    record: Option<PathBuf>,
}

impl ExecRecordArgs {
    /// Returns the folder for records, if they are asked for.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.record.as_deref()
    }
}

/// Reports the record of a process.
pub(super) fn tell_process(folder: &Path, record: &RecordOfProcess) {
    let path = folder.join(&record.file);
    let path = path.display();
    let RecordOfProcess { operations, inputs, events, bytes, complete, error, .. } = record;
    match error {
        Some(error) => {
            note!("belfry exec: the record {path} ends early, as it could not be written on: {error}");
        }
        None if *complete => note!(
            "belfry exec: recorded {operations} operations, {inputs} inputs and {events} events in {bytes} bytes: {path}"
        ),
        None => note!(
            "belfry exec: the record {path} has no end, as its process could not tell of its own; `belfry replay --until` replays \
             what there is"
        ),
    }
}

/// A run that is recorded.
pub(super) struct Recorded {
    path: PathBuf,
    recording: Recording,
}

impl RecordArgs {
    /// Begins to record a run, if asked to.
    pub(super) fn start(&self) -> anyhow::Result<Option<Recorded>> {
        self.record.as_deref().map(Recorded::begin).transpose()
    }
}

impl ServeRecordArgs {
    /// Begins to record a server's GPUs, if asked to.
    pub(super) fn start(&self) -> anyhow::Result<Option<Recorded>> {
        self.record.as_deref().map(Recorded::begin).transpose()
    }
}

impl Recorded {
    fn begin(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("making the record {}", path.display()))?;
        Ok(Self { path: path.to_owned(), recording: Recording::new(file) })
    }

    /// Returns the recording.
    pub(super) fn recording(&self) -> Recording {
        self.recording.clone()
    }

    /// Reports the record once the device is gone. A fault of the record is no failure of the run.
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
