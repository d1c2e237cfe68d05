//! `--trace` and `belfry trace`: events of the device and of the driver as files, and tables and pictures of them.
//!
//! | part | file |
//! | --- | --- |
//! | recording while a program runs | `recording.rs`; `rings.rs`, if each of its processes has a GPU |
//! | the choice of events that are kept | `only.rs` |
//! | reading any of the forms | this file |
//! | Perfetto's form | `perfetto.rs`, written and read with `schema.rs`, the part of the published schema that is used |
//! | JSON and CSV | `json.rs`, `csv.rs` |
//! | the packets that an event belongs to | `flow.rs` |
//! | `belfry trace summary` | `summary.rs` |
//! | `belfry trace svg`, `belfry trace diff` | `svg.rs`, `diff.rs` |

mod csv;
mod diff;
mod flow;
mod json;
mod only;
mod perfetto;
mod profiled;
mod recording;
mod rings;
mod schema;
mod summary;
pub(crate) mod svg;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use belfry_device::trace::{Contents, Kind, Record, RingError};
use belfry_process::files;
use serde::{Deserialize, Serialize};

pub use diff::diff;
pub use flow::Flows;
pub use only::{Only, OnlyError};
pub use recording::{DEFAULT_SIZE, PROCESS_SIZE, Recording, TraceOptions};
pub use rings::ProcessesRecording;
pub use summary::summary;
pub use svg::svg;

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

/// Contents of a trace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Trace {
    /// Events by time.
    pub records: Vec<Record>,
    /// Slots of the ring whose events were overwritten by later events.
    pub dropped: u64,
    /// Processes of the GPUs, by the number that events have; empty if there is only one GPU, which needs no name.
    pub gpus: Vec<GpuOf>,
}

/// The process that a GPU was made in.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct GpuOf {
    /// Its identifier.
    pub process: u32,
    /// Name of the process.
    pub name: String,
}

/// `NAME (PID)`.
impl fmt::Display for GpuOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.process)
    }
}

impl From<Contents> for Trace {
    fn from(contents: Contents) -> Self {
        let mut records = contents.records;
        for record in &mut records {
            if record.kind == Kind::DispatchStart && !record.text.is_empty() {
                record.text = demangled(&record.text);
            }
        }
        records.sort_by_key(|record| record.time);
        Self { records, dropped: contents.dropped, gpus: Vec::new() }
    }
}

impl Trace {
    /// Makes one trace of the rings of several processes, each with a GPU of its own, by the clock that they share.
    #[must_use]
    pub fn of_processes(rings: Vec<Contents>) -> Self {
        let first = rings.iter().map(|ring| ring.begins).filter(|&begins| begins != 0).min().unwrap_or(0);
        let mut whole = Self::default();
        let mut rings = rings;
        rings.sort_by_key(|ring| (ring.begins, ring.process));
        // Numbers of GPUs have 16 bits.
        for (gpu, mut ring) in (0..=u16::MAX).zip(rings) {
            let later = ring.begins.saturating_sub(first);
            whole.gpus.push(GpuOf { process: ring.process, name: std::mem::take(&mut ring.name) });
            let one = Self::from(ring);
            whole.dropped += one.dropped;
            whole.records.extend(one.records.into_iter().map(|mut record| {
                (record.owner.gpu, record.time) = (gpu, record.time.saturating_add(later));
                record
            }));
        }
        whole.records.sort_by_key(|record| record.time);
        whole
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
    if Contents::is_ring(&bytes) {
        let damaged = |error: RingError| TraceError::Damaged { path: at(), why: error.to_string() };
        return Contents::read(&bytes).map(Trace::from).map_err(damaged);
    }
    let result = match bytes.first() {
        None => Err(Bad::Damaged("it is empty".to_owned())),
        Some(b'{') => json::read(&bytes),
        Some(_) => perfetto::read(&bytes),
    };
    result.map_err(|bad| match bad {
        Bad::Foreign(why) => TraceError::Foreign { path: at(), why },
        Bad::Damaged(why) => TraceError::Damaged { path: at(), why },
    })
}

/// Reason why bytes are no trace.
#[derive(Debug, Eq, PartialEq)]
enum Bad {
    Foreign(String),
    Damaged(String),
}

/// Returns the names of processes, by GPU and PASID: the driver reports each one once.
fn processes(records: &[Record]) -> BTreeMap<(u16, u32), String> {
    let opened = records.iter().filter(|record| record.kind == Kind::ProcessOpened);
    let called = |record: &Record| format!("{} ({})", record.text, record.argument("pid").unwrap_or(0));
    opened.map(|record| ((record.owner.gpu, record.owner.pasid), called(record))).collect()
}

/// Returns a name for a kernel that has no known name: `kernel` and its address.
#[must_use]
pub fn kernel(address: u64) -> String {
    format!("kernel {address:#x}")
}

/// Returns the name of a function as its source has it: of a mangled C++ name (Itanium C++ ABI, chapter 5.1), or of
/// one that is not mangled.
pub(crate) fn demangled(name: &str) -> String {
    let symbol = cpp_demangle::Symbol::new(name).ok();
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}

/// A time in the unit that suits it.
pub(crate) struct Time(pub(crate) u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let text = match self.0 {
            0..1000 => format!("{} ns", self.0),
            1000..1_000_000 => format!("{:.1} us", ns / 1e3),
            1_000_000..1_000_000_000 => format!("{:.2} ms", ns / 1e6),
            _ => format!("{:.2} s", ns / 1e9),
        };
        f.pad(&text)
    }
}
