//! Results of cells, in a folder.
//!
//! Each cell has a file of its own, `KEY.json`, which is there as a whole or not at all, so that no result is lost with the
//! process that made others. `KEY.log` is the cell's output, `KEY.record` the record of a cell that failed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cells::Cell;

/// Bytes of a cell's result; larger files are not of this program.
const MOST_BYTES: u64 = 1 << 20;

/// Errors of the folder of results.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// A file or folder cannot be made, read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// Another matrix runs in the folder.
    #[error("{}: another `belfry matrix` runs in this folder; wait for it, or take another folder with --out", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
}

/// End of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The program ended with the status that was expected.
    Passed,
    /// The program ended in another way.
    Failed,
    /// The program took longer than the limit, and was killed.
    TimedOut,
    /// The matrix leaves it out.
    Absent,
}

/// The result of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Hash of everything that the result depends on.
    pub key: String,
    /// Name of the cell.
    pub name: String,
    /// End of the cell.
    pub outcome: Outcome,
    /// Reason for a cell that failed, in a few words, or for one that is absent.
    #[serde(default)]
    pub why: Option<String>,
    /// Seconds that it took.
    pub seconds: f64,
    /// Name of the machine that ran it.
    pub machine: String,
    /// Last lines of the output.
    #[serde(default)]
    pub output: String,
    /// Record that `belfry replay` opens, relative to the folder.
    #[serde(default)]
    pub record: Option<String>,
    /// True if the result was there before this run; it is not written.
    #[serde(skip)]
    pub kept: bool,
}

/// A folder of results.
#[derive(Debug, Clone)]
pub struct Results {
    folder: PathBuf,
}

/// The right to run a matrix in a folder, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

impl Results {
    /// Opens a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`ResultsError::Io`].
    pub fn open(folder: &Path) -> Result<Self, ResultsError> {
        let at = |error| ResultsError::Io { path: folder.to_owned(), error };
        fs::create_dir_all(folder).map_err(at)?;
        Ok(Self { folder: folder.canonicalize().map_err(at)? })
    }

    /// Claims a part of the folder for one matrix at a time: the whole, or a shard. Processes that run single cells claim none.
    ///
    /// # Errors
    ///
    /// [`ResultsError::Busy`] if another process has claimed it; [`ResultsError::Io`].
    pub fn claim(&self, part: &str) -> Result<Claim, ResultsError> {
        let path = self.folder.join(format!("{part}.lock"));
        let lock = File::create(&path).map_err(|error| ResultsError::Io { path: path.clone(), error })?;
        match lock.try_lock() {
            Ok(()) => Ok(Claim { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(ResultsError::Busy { path: self.folder.clone() }),
            Err(TryLockError::Error(error)) => Err(ResultsError::Io { path, error }),
        }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the file of a cell with an ending.
    #[must_use]
    pub fn file(&self, cell: &Cell, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", cell.key))
    }

    /// Returns the result of a cell, if it is there. A file that is none is taken as missing: the cell runs again.
    #[must_use]
    pub fn of(&self, cell: &Cell) -> Option<CellResult> {
        let path = self.file(cell, "json");
        if fs::metadata(&path).ok()?.len() > MOST_BYTES {
            return None;
        }
        let mut result: CellResult = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        result.kept = true;
        // The name is no part of the key: programs may be named anew.
        result.name = cell.name();
        (result.key == cell.key).then_some(result)
    }

    /// Keeps the result of a cell.
    ///
    /// # Errors
    ///
    /// [`ResultsError::Io`]; then the folder has the result of before, or none.
    pub fn keep(&self, cell: &Cell, result: &CellResult) -> Result<(), ResultsError> {
        let path = self.file(cell, "json");
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            serde_json::to_writer_pretty(&mut file, result)?;
            file.write_all(b"\n")?;
            file.as_file().sync_data()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| ResultsError::Io { path: path.clone(), error })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cells::Again;

    pub(crate) fn cell(key: &str) -> Cell {
        Cell {
            index: 0,
            program: "p".into(),
            chip: "gfx1100".into(),
            rest: String::new(),
            arguments: Vec::new(),
            options_end: 0,
            again: Again::Record,
            expect: 0,
            absent: None,
            key: key.into(),
        }
    }

    pub(crate) fn result(key: &str, outcome: Outcome) -> CellResult {
        CellResult {
            key: key.into(),
            name: "p gfx1100".into(),
            outcome,
            why: None,
            seconds: 1.5,
            machine: "here".into(),
            output: String::new(),
            record: None,
            kept: false,
        }
    }

    #[test]
    fn result_is_kept_and_a_damaged_one_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::open(&folder.path().join("new/one")).unwrap();
        let cell = cell("a");
        assert_eq!(results.of(&cell), None);
        results.keep(&cell, &result("a", Outcome::TimedOut)).unwrap();
        let kept = results.of(&cell).unwrap();
        assert_eq!((kept.outcome, kept.kept), (Outcome::TimedOut, true));
        fs::write(results.file(&cell, "json"), "{\"key\":\"a\"").unwrap();
        assert_eq!(results.of(&cell), None);
        results.keep(&cell, &result("b", Outcome::Passed)).unwrap();
        assert_eq!(results.of(&cell), None, "a result of another cell");
    }

    #[test]
    fn folder_is_one_matrixs_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::open(folder.path()).unwrap();
        let claim = results.claim("all").unwrap();
        assert!(matches!(results.claim("all"), Err(ResultsError::Busy { .. })));
        results.claim("shard-1-of-2").unwrap();
        drop(claim);
        results.claim("all").unwrap();
    }
}
