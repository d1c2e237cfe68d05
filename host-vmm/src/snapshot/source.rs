//! Things that can be saved: a machine with its GPU, or the GPU of a hosted program with the memory that it reaches.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Weak};

use belfry_device::SavedGpu;
use belfry_inspect::inspect::{NotSaved, Save};
use belfry_kfd_hosted::{HostedGpu, Part, SaveError, Saving, StoodStill};
use belfry_machine::snapshot::{HostedSaver, Saved, Saver, SnapshotError};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Part of a run that can be saved.
#[derive(Clone, Debug)]
pub enum Source {
    /// A machine, as long as it runs.
    Machine(Weak<Saver>),
    /// The GPU of a hosted program, as long as there is one.
    Hosted(Weak<HostedGpu>),
}

/// Reason for having saved nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The file, or the machine.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The GPU of a hosted program.
    #[error("{0}; the run goes on without a snapshot")]
    Hosted(#[from] SaveError),
    /// The machine or GPU is gone.
    #[error("there is nothing to save: the run has ended")]
    Ended,
}

impl Source {
    /// Returns the function that saves it when the user of the inspector asks for that.
    #[must_use]
    pub fn into_save(self) -> Save {
        Arc::new(move |path| match self.save(path) {
            Ok(saved) => Ok(super::describe(&saved)),
            Err(error) => Err(NotSaved(error.to_string())),
        })
    }

    /// Saves it as it is now to a file; the run goes on in any case.
    ///
    /// # Errors
    ///
    /// A state that cannot be saved, and a file that cannot be written. A file that was there stays as it was.
    pub fn save(&self, path: &Path) -> Result<Saved, SourceError> {
        match self {
            Self::Machine(saver) => Ok(saver.upgrade().ok_or(SourceError::Ended)?.save(path)?),
            Self::Hosted(gpu) => {
                let gpu = gpu.upgrade().ok_or(SourceError::Ended)?;
                let mut saving = ToFile { saver: HostedSaver::new(path)?, ranges: Vec::new(), vram: 0 };
                let stood_still = gpu.save(&mut saving)?;
                Ok(saving.saver.finish(stood_still)?)
            }
        }
    }
}

/// The memory of a hosted GPU on its way into a file.
struct ToFile {
    saver: HostedSaver,
    ranges: Vec<Range<u64>>,
    vram: u64,
}

/// Calls `each` for all pages of a range that may hold data, with their offsets in the range.
fn each_page(
    memory: &StoodStill<'_>,
    part: Part,
    range: &Range<u64>,
    mut each: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let mut from = range.start;
    while let Some(used) = memory.next_used(part, from..range.end)? {
        for at in used.clone().step_by(PAGE as usize) {
            each(at, (at - range.start) / PAGE)?;
        }
        from = used.end;
    }
    Ok(())
}

impl Saving for ToFile {
    type Error = SourceError;

    fn prepare(&mut self, saved: &SavedGpu, ranges: &[Range<u64>]) -> Result<(), SourceError> {
        self.saver.prepare(saved, ranges)?;
        self.ranges = ranges.to_vec();
        self.vram = saved.config().vram_size;
        Ok(())
    }

    fn write(&mut self, memory: &StoodStill<'_>) -> io::Result<()> {
        let pages = self.saver.pages()?;
        let mut first = 0;
        for range in &self.ranges {
            each_page(memory, Part::System, range, |at, number| {
                pages.system(first + number, |page| memory.read(Part::System, at, page))
            })?;
            first += (range.end - range.start) / PAGE;
        }
        each_page(memory, Part::Vram, &(0..self.vram), |at, number| {
            pages.vram(number, |page| memory.read(Part::Vram, at, page))
        })
    }
}
