//! Recording while a program runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belfry_device::trace::{Contents, Ring, RingError, TraceSink};
use belfry_traces::{Only, Time, Trace};
use vm_memory::MmapRegion;

use super::{Format, TraceError, write};
use crate::output::note;

/// Default size of the kept events in bytes.
pub const DEFAULT_SIZE: u64 = 64 << 20;

/// Default size of the kept events of each process in bytes, if each has a GPU.
pub const PROCESS_SIZE: u64 = 16 << 20;

/// Choices of a trace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceOptions {
    /// File of the trace.
    pub path: PathBuf,
    /// Format of the file.
    pub format: Format,
    /// Choice of events.
    pub only: Only,
    /// Size of the kept events in bytes.
    pub size: u64,
}

/// A trace that is being recorded.
///
/// Events go into a ring in a file beside the trace. If this process is killed, the ring stays there; at the end it
/// becomes the trace. A trace that is no ordinary file has its ring in memory.
#[derive(Debug)]
pub struct Recording {
    options: TraceOptions,
    out: File,
    ring: Arc<Ring>,
    ring_path: Option<PathBuf>,
}

impl Recording {
    /// Makes the files.
    ///
    /// # Errors
    ///
    /// A file that cannot be made, or for which the disk has no room.
    pub fn start(options: TraceOptions) -> Result<Self, TraceError> {
        let size = ring_size(options.size)?;
        if size < Ring::LEAST {
            return Err(RingError::Size { bytes: size, least: Ring::LEAST }.into());
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TraceError::File { path, source }
        };
        let (out, is_file) = open_trace(&options.path)?;
        let (ring, ring_path) = if is_file {
            let ring_path = beside(&options.path, "ring");
            let mut making = OpenOptions::new();
            let ring = making.read(true).write(true).create(true).truncate(true).open(&ring_path);
            let ring = ring.map_err(failed(&ring_path))?;
            // All room is taken now: a disk that is full later must not end the program.
            rustix::fs::fallocate(&ring, rustix::fs::FallocateFlags::empty(), 0, size as u64).map_err(
                |error| {
                    let _ = fs::remove_file(&ring_path);
                    failed(&ring_path)(io::Error::from(error))
                },
            )?;
            (Ring::in_file(ring, size)?, Some(ring_path))
        } else {
            let memory = MmapRegion::new(size).map_err(|error| TraceError::Memory(error.to_string()))?;
            (Ring::new(memory)?, None)
        };
        Ok(Self { ring: Arc::new(ring), out, ring_path, options })
    }

    /// Returns the sink that takes events.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn TraceSink> {
        Arc::clone(&self.ring) as Arc<dyn TraceSink>
    }

    /// Writes the trace, and lists on stderr the events that are not in it. After a failure, stderr says so, and
    /// names the file of the events.
    pub fn finish(self) {
        let path = self.options.path.display();
        let contents = match Contents::read(&self.ring.bytes()) {
            Ok(contents) => contents,
            Err(error) => return note!("belfry: {path}: {error}"),
        };
        let is_written = save(&self.options, Trace::from(contents), &self.out);
        if let Some(ring) = &self.ring_path {
            if is_written {
                let _ = fs::remove_file(ring);
            } else {
                note!("belfry: its events are in {}, which `belfry trace` reads", ring.display());
            }
        }
    }
}

/// Returns the size of a ring of about this size, in bytes.
pub(super) fn ring_size(size: u64) -> Result<usize, TraceError> {
    let bytes = usize::try_from(size).unwrap_or(usize::MAX).checked_next_multiple_of(4096);
    bytes.ok_or_else(|| TraceError::Memory(format!("{size} bytes")))
}

/// Opens the file of a trace; returns true with it if it is an ordinary file.
pub(super) fn open_trace(path: &Path) -> Result<(File, bool), TraceError> {
    let out = OpenOptions::new().write(true).create(true).truncate(true).open(path);
    let out = out.map_err(|source| TraceError::File { path: path.to_owned(), source })?;
    let is_file = out.metadata().is_ok_and(|metadata| metadata.is_file());
    Ok((out, is_file))
}

/// Returns the path of a file that belongs to a trace.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.to_owned().into_os_string();
    beside.push(".");
    beside.push(ending);
    PathBuf::from(beside)
}

/// Writes the wanted events of a trace; returns true on success. Missing events and a failure are reported on stderr.
pub(super) fn save(options: &TraceOptions, mut trace: Trace, out: &File) -> bool {
    let path = options.path.display();
    if trace.dropped > 0 {
        let from = trace.records.first().map_or(0, |record| record.time);
        note!(
            "belfry: {path}: the first {} events are not in the trace, which begins at {}: --trace-size gives it \
             more room than {} bytes",
            trace.dropped,
            Time(from),
            options.size
        );
    }
    options.only.keep(&mut trace);
    let mut out = BufWriter::new(out);
    match write(&trace, options.format, &mut out).and_then(|()| out.flush()) {
        Ok(()) => true,
        Err(error) => {
            note!("belfry: the trace could not be written to {path}: {error}");
            false
        }
    }
}
