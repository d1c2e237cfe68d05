//! `--trace` of commands that run programs, and `belfry trace`.

use std::path::PathBuf;

use belfry_traces::{Only, diff, summary, svg};
use clap::{Args, Subcommand};

use super::size::parse_size;
use crate::output;
use crate::trace::{self, DEFAULT_SIZE, Format, PROCESS_SIZE, ProcessesRecording, Recording, TraceOptions};

/// A timeline of a run.
#[derive(Debug, Default, Args)]
pub(super) struct TraceArgs {
    /// Writes what happened on the GPU, packet by packet, to a file at the end: for Perfetto, or as JSON or CSV.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Format of the trace [default: by the ending of the file's name, or for Perfetto].
    #[arg(long, value_enum, requires = "trace")]
    trace_format: Option<Format>,
    /// Keeps only events of a process (its PASID), queue (its doorbell), kernel or engine:
    /// process=P,queue=Q,kernel=K,engine=E; repeatable.
    #[arg(long, value_name = "WHAT", requires = "trace")]
    trace_only: Vec<Only>,
    /// Size of the trace: the last events are kept [default: 64M; under `exec` 16M of each process].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "trace")]
    trace_size: Option<u64>,
}

impl TraceArgs {
    /// Begins to record, if asked to.
    pub(super) fn start(&self) -> anyhow::Result<Option<Recording>> {
        Ok(self.options(DEFAULT_SIZE).map(Recording::start).transpose()?)
    }

    /// Begins to record programs whose processes each have a GPU, if asked to.
    pub(super) fn start_processes(&self) -> anyhow::Result<Option<ProcessesRecording>> {
        Ok(self.options(PROCESS_SIZE).map(ProcessesRecording::start).transpose()?)
    }

    /// Returns true if a trace is asked for.
    pub(super) fn is_asked_for(&self) -> bool {
        self.trace.is_some()
    }

    fn options(&self, size: u64) -> Option<TraceOptions> {
        let path = self.trace.clone()?;
        let mut only = Only::default();
        self.trace_only.iter().for_each(|other| only.and(other));
        let format = self.trace_format.unwrap_or_else(|| Format::of(&path));
        Some(TraceOptions { path, format, only, size: self.trace_size.unwrap_or(size) })
    }
}

/// Things to do with traces.
#[derive(Debug, Subcommand)]
pub(super) enum TraceVerb {
    /// Prints the contents of a trace: per kernel counts and times, and the times between the steps of a packet.
    Summary {
        /// A trace for Perfetto or of JSON, or a ring that a killed process has left.
        file: PathBuf,
    },
    /// Draws a picture of a trace.
    Svg {
        /// The trace.
        file: PathBuf,
        /// File for the picture [default: standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Compares the kernels of two traces.
    Diff {
        /// The first trace.
        before: PathBuf,
        /// The second trace.
        after: PathBuf,
    },
}

/// Runs `belfry trace`.
pub(super) fn trace(what: TraceVerb) -> anyhow::Result<u8> {
    match what {
        TraceVerb::Summary { file } => output::write(summary(&trace::read(&file)?).as_bytes()),
        TraceVerb::Svg { file, output: None } => output::write(svg(&trace::read(&file)?).as_bytes()),
        TraceVerb::Svg { file, output: Some(path) } => {
            let picture = svg(&trace::read(&file)?);
            std::fs::write(&path, picture).map_err(|source| trace::TraceError::File { path, source })?;
        }
        TraceVerb::Diff { before, after } => {
            let (before, after) = (trace::read(&before)?, trace::read(&after)?);
            output::write(diff(&before, &after).as_bytes());
        }
    }
    Ok(0)
}
