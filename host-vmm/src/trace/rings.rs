//! Recording programs whose processes each have a GPU: a ring for each process, in a directory beside the trace.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use belfry_device::trace::{Contents, Ring, RingError};
use belfry_kfd_hosted::prepared::RING_ENDING;
use belfry_process::files::read as read_file;
use belfry_traces::Trace;
use tempfile::TempDir;

use super::recording::{beside, open_trace, ring_size, save};
use super::{MAX_FILE, TraceError, TraceOptions};
use crate::output::note;

/// A trace that the processes of a program record.
///
/// They leave their rings in a directory beside the trace, which stays there if this process is killed. If the trace
/// is no ordinary file, the directory is a temporary one.
#[derive(Debug)]
pub struct ProcessesRecording {
    options: TraceOptions,
    size: usize,
    out: File,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Beside(PathBuf),
    Temporary(TempDir),
}

impl ProcessesRecording {
    /// Makes the file and the directory; rings that an earlier trace of this name has left are removed.
    ///
    /// # Errors
    ///
    /// A file or directory that cannot be made, and a size that is no ring's.
    pub fn start(options: TraceOptions) -> Result<Self, TraceError> {
        let size = ring_size(options.size)?;
        if size < Ring::LEAST {
            return Err(RingError::Size { bytes: size, least: Ring::LEAST }.into());
        }
        let (out, is_file) = open_trace(&options.path)?;
        let place = if is_file {
            let directory = std::path::absolute(beside(&options.path, "rings"))
                .map_err(|source| TraceError::File { path: options.path.clone(), source })?;
            empty(&directory).map_err(|source| TraceError::File { path: directory.clone(), source })?;
            Place::Beside(directory)
        } else {
            let failed = |source| TraceError::File { path: std::env::temp_dir(), source };
            Place::Temporary(tempfile::tempdir().map_err(failed)?)
        };
        Ok(Self { options, size, out, place })
    }

    /// Returns the directory of the rings.
    #[must_use]
    pub fn directory(&self) -> &Path {
        match &self.place {
            Place::Beside(directory) => directory,
            Place::Temporary(directory) => directory.path(),
        }
    }

    /// Returns the size of each ring in bytes.
    #[must_use]
    pub fn ring_size(&self) -> usize {
        self.size
    }

    /// Writes the trace of all processes, and lists on stderr the events that are not in it. After a failure, stderr
    /// says so, and names the place of the events.
    pub fn finish(self) {
        let path = self.options.path.display();
        let (rings, bad) = match rings(self.directory()) {
            Ok(found) => found,
            Err(error) => return note!("belfry: {path}: {}: {error}", self.directory().display()),
        };
        for (ring, error) in &bad {
            note!("belfry: {path}: {} is not in the trace: {error}", ring.display());
        }
        if rings.is_empty() && bad.is_empty() {
            note!("belfry: {path}: no process has opened the GPU: the trace has no events");
        }
        let trace = Trace::of_processes(rings);
        let is_written = save(&self.options, trace, &self.out);
        if let Place::Beside(directory) = &self.place {
            if is_written && bad.is_empty() {
                let _ = empty(directory).and_then(|()| fs::remove_dir(directory));
            } else if !is_written {
                note!("belfry: its events are in {}, which `belfry trace` reads", directory.display());
            }
        }
    }
}

/// Makes a directory without rings.
fn empty(directory: &Path) -> io::Result<()> {
    if let Err(error) = fs::create_dir(directory)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    for ring in files(directory)? {
        fs::remove_file(ring)?;
    }
    Ok(())
}

/// Lists the files of a directory that have the name of a ring.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == RING_ENDING) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Files that are no rings, each with the reason.
type Bad = Vec<(PathBuf, RingError)>;

/// Reads the rings of a directory, and lists the files that are none.
fn rings(directory: &Path) -> io::Result<(Vec<Contents>, Bad)> {
    let (mut all, mut bad) = (Vec::new(), Vec::new());
    for path in files(directory)? {
        let bytes = read_file(&path, MAX_FILE)?;
        match Contents::read(&bytes) {
            Ok(contents) => all.push(contents),
            Err(error) => bad.push((path, error)),
        }
    }
    Ok((all, bad))
}

/// Makes the trace of a directory of rings.
pub(super) fn read(directory: &Path) -> Result<Trace, TraceError> {
    let at = || directory.to_owned();
    let (rings, bad) = rings(directory).map_err(|source| TraceError::File { path: at(), source })?;
    if let Some((path, error)) = bad.into_iter().next() {
        return Err(TraceError::Damaged { path, why: error.to_string() });
    }
    if rings.is_empty() {
        return Err(TraceError::Foreign { path: at(), why: "it is a directory without rings".to_owned() });
    }
    Ok(Trace::of_processes(rings))
}

#[cfg(test)]
mod tests {
    use belfry_device::trace::{ARGUMENTS, Job, Kind, Owner, Record, TraceSink as _};
    use vm_memory::MmapRegion;

    use super::*;

    fn ring(name: &str, begins: u64, times: &[u64]) -> Contents {
        let ring = Ring::new(MmapRegion::new(Ring::LEAST).unwrap()).unwrap().named(name);
        ring.set_begin(begins);
        for &time in times {
            ring.record(&Record {
                sequence: 0,
                time,
                job: Job::NONE,
                owner: Owner::default(),
                kind: Kind::Reset,
                arguments: [0; ARGUMENTS],
                text: String::new(),
            });
        }
        Contents::read(&ring.bytes()).unwrap()
    }

    #[test]
    fn events_of_processes_are_in_the_order_of_the_hosts_clock() {
        let trace =
            Trace::of_processes(vec![ring("late", 1500, &[0, 100]), ring("early", 1000, &[0, 550, 700])]);
        let events: Vec<_> = trace.records.iter().map(|record| (record.owner.gpu, record.time)).collect();
        assert_eq!(events, [(0, 0), (1, 500), (0, 550), (1, 600), (0, 700)]);
        let names: Vec<_> = trace.gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        assert_eq!(names, ["early", "late"]);
    }

    #[test]
    fn forms_keep_whose_the_gpus_are() {
        let trace = Trace::of_processes(vec![ring("one", 1, &[1]), ring("other", 2, &[1])]);
        let directory = tempfile::tempdir().unwrap();
        for (name, format) in
            [("t.json", super::super::Format::Json), ("t.pftrace", super::super::Format::Pftrace)]
        {
            let path = directory.path().join(name);
            super::super::write(&trace, format, &mut File::create(&path).unwrap()).unwrap();
            let again = super::super::read(&path).unwrap();
            assert_eq!(again.gpus, trace.gpus, "{name}");
            let gpus =
                |trace: &Trace| trace.records.iter().map(|record| record.owner.gpu).collect::<Vec<_>>();
            assert_eq!(gpus(&again), gpus(&trace), "{name}");
        }
    }
}
