//! Temporary folders that do not outlive the run they belong to, however that ends.
//!
//! Each folder holds a lock file that its run keeps locked. A killed run cannot remove its folder, but its lock is free
//! then, and the next run to start takes it and removes the folder.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "belfry-run-";
const LOCK: &str = ".belfry-lock";

/// A folder for the files of one run; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    // Fields are dropped in this order: the lock is held until the folder is gone.
    folder: TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes a folder among the temporary ones, and removes the folders of dead runs.
    ///
    /// # Errors
    ///
    /// A folder or its lock that cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> io::Result<Self> {
        sweep_in(parent);
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            if let Some(lock) = lock_new(folder.path())? {
                return Ok(Self { folder, _lock: lock });
            }
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks a folder that was just made; none where a sweep came in between.
fn lock_new(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let lock = match File::create_new(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        created => created?,
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // A sweep may have had the lock for a moment, and have removed everything.
    Ok(path.exists().then_some(lock))
}

/// Removes the folders of dead runs; folders that cannot be removed are left alone.
pub fn sweep() {
    sweep_in(&std::env::temp_dir());
}

fn sweep_in(parent: &Path) {
    let Ok(own) = fs::metadata("/proc/self").map(|process| process.uid()) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // Others' folders, and links to anywhere, are none of ours.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() && metadata.uid() == own {
            let _ = remove_dead(&entry.path());
        }
    }
}

/// Removes a folder whose lock is free, or that was made and never locked.
fn remove_dead(folder: &Path) -> io::Result<()> {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => {
            if lock.try_lock().is_ok() {
                log::debug!(target: "scratch", "{} is of a dead run", folder.display());
                fs::remove_dir_all(folder)?;
            }
            Ok(())
        }
        // Only an empty folder can be removed so; its maker, if it lives, makes another one.
        Err(_) => fs::remove_dir(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parent: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(parent)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn folders_of_dead_runs_go_and_all_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let living = Scratch::within(parent.path()).unwrap();
        fs::write(living.path().join("file"), b"x").unwrap();
        for name in ["belfry-run-dead", "belfry-run-unlocked", "belfry-run-without", "other"] {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("belfry-run-dead").join(LOCK), b"").unwrap();
        fs::create_dir(at("belfry-run-dead").join("folder")).unwrap();
        // The owner of this folder is not known.
        fs::write(at("belfry-run-without").join("file"), b"x").unwrap();
        std::os::unix::fs::symlink(at("other"), at("belfry-run-link")).unwrap();
        sweep_in(parent.path());
        let living_name = living.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut expected =
            vec![living_name, "belfry-run-link".into(), "belfry-run-without".into(), "other".into()];
        expected.sort();
        assert_eq!(names(parent.path()), expected);
        assert!(living.path().join("file").exists());
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }

    #[test]
    fn runs_that_start_together_get_a_folder_each() {
        let parent = tempfile::tempdir().unwrap();
        let folders: Vec<Scratch> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        (1..50).for_each(|_| drop(Scratch::within(parent.path()).unwrap()));
                        Scratch::within(parent.path()).unwrap()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(folders.iter().all(|folder| folder.path().join(LOCK).exists()));
        assert_eq!(names(parent.path()).len(), folders.len());
    }
}
