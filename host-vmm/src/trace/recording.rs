//! Recording while a program runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use belfry_device::trace::{Contents, Ring, RingError, TraceSink};
use vm_memory::{FileOffset, MmapRegion};

use super::{Format, Only, Time, Trace, TraceError, write};
use crate::output::note;

/// Bytes of events that are kept if nothing else is said.
pub const DEFAULT_SIZE: u64 = 64 << 20;

/// What is asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceOptions {
    /// Where the trace goes.
    pub path: PathBuf,
    /// How it is written.
    pub format: Format,
    /// Which events are in it.
    pub only: Only,
    /// Bytes of events that are kept.
    pub size: u64,
}

/// A trace that is being recorded.
///
/// Events go into a ring in a file beside the trace, which stays there if this process is killed, and become the trace at
/// the end. A trace that is no ordinary file has its ring in memory.
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
    /// A file that cannot be made, or that there is no room for.
    pub fn start(options: TraceOptions) -> Result<Self, TraceError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| TraceError::File { path, source }
        };
        let size = usize::try_from(options.size).unwrap_or(usize::MAX).checked_next_multiple_of(4096);
        let size = size.ok_or_else(|| TraceError::Memory(format!("{} bytes", options.size)))?;
        if size < Ring::LEAST {
            return Err(RingError::Size { bytes: size, least: Ring::LEAST }.into());
        }
        let path = &options.path;
        let out =
            OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(failed(path))?;
        let is_file = out.metadata().is_ok_and(|metadata| metadata.is_file());
        let (memory, ring_path) = if is_file {
            let mut ring_path = path.clone().into_os_string();
            ring_path.push(".ring");
            let ring_path = PathBuf::from(ring_path);
            let mut options = OpenOptions::new();
            let ring = options.read(true).write(true).create(true).truncate(true).open(&ring_path);
            let ring = ring.map_err(failed(&ring_path))?;
            // All of it now: a disk that is full later must not end the program.
            rustix::fs::fallocate(&ring, rustix::fs::FallocateFlags::empty(), 0, size as u64).map_err(
                |error| {
                    let _ = fs::remove_file(&ring_path);
                    failed(&ring_path)(io::Error::from(error))
                },
            )?;
            (MmapRegion::from_file(FileOffset::new(ring, 0), size), Some(ring_path))
        } else {
            (MmapRegion::new(size), None)
        };
        let memory = memory.map_err(|error| TraceError::Memory(error.to_string()))?;
        Ok(Self { ring: Arc::new(Ring::new(memory)?), out, ring_path, options })
    }

    /// Where events go.
    #[must_use]
    pub fn sink(&self) -> Arc<dyn TraceSink> {
        Arc::clone(&self.ring) as Arc<dyn TraceSink>
    }

    /// Writes the trace, and says on stderr what is not in it. A failure is said there, too, and where the events are then.
    pub fn finish(self) {
        let path = self.options.path.display();
        let contents = match Contents::read(&self.ring.bytes()) {
            Ok(contents) => contents,
            Err(error) => return note!("belfry: {path}: {error}"),
        };
        let mut trace = Trace::from(contents);
        if trace.dropped > 0 {
            let from = trace.records.first().map_or(0, |record| record.time);
            note!(
                "belfry: {path}: the first {} events are not in the trace, which begins at {}: --trace-size gives it \
                 more room than {} bytes",
                trace.dropped,
                Time(from),
                self.options.size
            );
        }
        self.options.only.keep(&mut trace);
        let mut out = BufWriter::new(&self.out);
        match write(&trace, self.options.format, &mut out).and_then(|()| out.flush()) {
            Ok(()) => {
                if let Some(ring) = &self.ring_path {
                    let _ = fs::remove_file(ring);
                }
            }
            Err(error) => {
                note!("belfry: the trace could not be written to {path}: {error}");
                if let Some(ring) = &self.ring_path {
                    note!("belfry: its events are in {}, which `belfry trace` reads", ring.display());
                }
            }
        }
    }
}
