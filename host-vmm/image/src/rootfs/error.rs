//! Errors of making a root file system.

use std::io;
use std::path::PathBuf;

use crate::fetch::FetchError;

/// Errors of making a root file system.
#[derive(Debug, thiserror::Error)]
pub enum RootFsError {
    /// The packages could not be fetched or unpacked, or the cache failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// There is no recipe of that name.
    #[error("no root file system is called {name:?}; there are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// A recipe cannot be read.
    #[error("recipe {name}: {reason}")]
    Recipe {
        /// Its name.
        name: String,
        /// Reason why it is refused.
        reason: String,
    },
    /// A file of the tree could not be used.
    #[error("root file system: {action} {path}: {source}")]
    Io {
        /// Action that failed.
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Two packages have different files where a merged `/usr` has one.
    #[error("root file system: {path} would overwrite a file that is below usr already")]
    Collision {
        /// The file that has no place.
        path: PathBuf,
    },
    /// `ldconfig` of the tree failed.
    #[error("root file system: {program} failed ({status}): {stderr}")]
    LinkerCache {
        /// The program.
        program: PathBuf,
        /// Its exit status.
        status: String,
        /// Its output on stderr.
        stderr: String,
    },
    /// The packages lack files that the recipe promises: the archive has changed.
    #[error(
        "recipe {name} promises {missing}, which its packages do not have; the recipe must follow the archive"
    )]
    Promise {
        /// Name of the recipe.
        name: String,
        /// The first path that is missing.
        missing: String,
    },
    /// A path has no root file system.
    #[error("{path} is no root file system: {why}")]
    NoRoot {
        /// The path.
        path: PathBuf,
        /// Part that is missing.
        why: &'static str,
    },
    /// A directory holds more than one file system.
    #[error(
        "no disk can be made of that directory: another file system is mounted at {path}; copy the directory without it \
         (cp -ax)"
    )]
    Mounted {
        /// Path of the other file system.
        path: PathBuf,
    },
    /// There is no space for a disk image.
    #[error(
        "no space left for {path}, some {needed} MB; make space, or set BELFRY_CACHE to a directory that has it"
    )]
    DiskFull {
        /// The image.
        path: PathBuf,
        /// Its size on disk, in MiB.
        needed: u64,
    },
    /// mke2fs failed.
    #[error("no disk can be made of {tree}: mke2fs failed ({status}): {stderr}")]
    MakeDisk {
        /// The root file system.
        tree: PathBuf,
        /// Its exit status.
        status: String,
        /// Its output on stderr.
        stderr: String,
    },
    /// A tree in the cache is not whole any more.
    #[error("{path} has no {missing} any more; remove that directory, and it is made again")]
    Damaged {
        /// Root of the tree.
        path: PathBuf,
        /// The first path that is missing.
        missing: String,
    },
}

/// Makes the closure that names the action and the path of an I/O error.
pub(super) fn io_error<'a>(
    action: &'static str,
    path: &'a std::path::Path,
) -> impl FnOnce(io::Error) -> RootFsError + use<'a> {
    move |source| RootFsError::Io { action, path: path.to_owned(), source }
}
