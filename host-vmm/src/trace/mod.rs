//! `--trace` and `belfry trace`: traces are recorded and kept in files, in the formats of `belfry-traces`.
//!
//! Recording while a program runs is in `recording.rs`, and in `rings.rs` if each of its processes has a GPU.

mod recording;
mod rings;

use std::io;
use std::path::{Path, PathBuf};

use belfry_device::trace::RingError;
use belfry_process::files;
use belfry_traces::{NoTrace, Trace, csv, json, perfetto};

pub use recording::{DEFAULT_SIZE, PROCESS_SIZE, Recording, TraceOptions};
pub use rings::ProcessesRecording;

/// Reason why a trace cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file failed.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is no trace.
    #[error("{path} is no trace of belfry's: {why}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Sign of that.
        why: String,
    },
    /// The file ends too early, or is damaged.
    #[error("{path} is truncated or damaged: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Sign of that.
        why: String,
    },
    /// There is no memory to record in.
    #[error("no memory to record a trace in: {0}")]
    Memory(String),
    /// The memory is no ring.
    #[error("--trace-size: {0}")]
    Size(#[from] RingError),
}

/// Formats of a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Format {
    /// Perfetto's, for its user interface.
    Pftrace,
    /// One JSON object.
    Json,
    /// A row for each event.
    Csv,
}

impl Format {
    /// Returns the format that a file's name asks for.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            _ => Self::Pftrace,
        }
    }
}

/// Writes a trace.
///
/// # Errors
///
/// When the file cannot be written.
pub fn write(trace: &Trace, format: Format, out: &mut impl io::Write) -> io::Result<()> {
    match format {
        Format::Pftrace => perfetto::write(trace, out),
        Format::Json => json::write(trace, out),
        Format::Csv => csv::write(trace, out),
    }
}

/// Largest trace that is read, in bytes.
const MAX_FILE: u64 = 4 << 30;

/// Reads a trace: in Perfetto's format, in JSON, a ring that a process has left, or a directory of such rings.
///
/// # Errors
///
/// A file that cannot be read, that is no trace, or that is damaged.
pub fn read(path: &Path) -> Result<Trace, TraceError> {
    let at = || path.to_owned();
    if path.is_dir() {
        return rings::read(path);
    }
    let bytes = files::read(path, MAX_FILE).map_err(|source| TraceError::File { path: at(), source })?;
    belfry_traces::read(&bytes).map_err(|bad| match bad {
        NoTrace::Foreign(why) => TraceError::Foreign { path: at(), why },
        NoTrace::Damaged(why) => TraceError::Damaged { path: at(), why },
    })
}
