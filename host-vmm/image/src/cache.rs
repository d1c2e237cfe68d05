//! The cache directory: artifacts by name and content, lock files, and the record of what is in each.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Time after its last use from which an artifact is removed when another version of it is made.
pub(crate) const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Errors of the cache directory.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Neither `BELFRY_CACHE` nor a home directory is set.
    #[error("no cache directory: set BELFRY_CACHE or HOME")]
    NoDirectory,
    /// A file or directory of the cache could not be used.
    #[error("cache: {action} {path}: {source}")]
    Io {
        /// Action that failed.
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A manifest could not be written as JSON.
    #[error("cache: cannot encode a manifest: {0}")]
    Encode(#[from] serde_json::Error),
}

/// One Debian package as it was fetched: the identity the cache is keyed by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PackageRecord {
    /// Binary package name.
    pub name: String,
    /// Full Debian version, epoch included.
    pub version: String,
    /// SHA-256 of the `.deb` in lower-case hexadecimal, as apt's signed index gives it.
    pub sha256: String,
}

/// Contents of one artifact; written last, so that its presence means the artifact is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Artifact name, `qemu` or `kernel` for example.
    pub artifact: String,
    /// Directory of the unpacked files, relative to the cache root.
    pub directory: String,
    /// Every package unpacked into it.
    pub packages: Vec<PackageRecord>,
    /// Artifact-specific facts, such as the kernel release.
    #[serde(default)]
    pub facts: std::collections::BTreeMap<String, String>,
}

/// The cache directory, `~/.cache/belfry` unless `BELFRY_CACHE` names another.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// An exclusive lock on one name of the cache, held until dropped.
#[derive(Debug)]
pub struct CacheLock {
    _file: File,
}

impl Cache {
    /// Opens the cache, creating the directory when it is not there.
    ///
    /// # Errors
    ///
    /// [`CacheError::NoDirectory`] when no variable names a directory, and as for [`Self::at`].
    pub fn open() -> Result<Self, CacheError> {
        let root = match std::env::var_os("BELFRY_CACHE").filter(|value| !value.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => std::env::var_os("XDG_CACHE_HOME")
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
                .ok_or(CacheError::NoDirectory)?
                .join("belfry"),
        };
        Self::at(root)
    }

    /// Opens the cache at `root`, creating the directory when it is not there.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self, CacheError> {
        let root = root.into();
        create_dir(&root)?;
        let root = fs::canonicalize(&root).map_err(io_error("resolve", &root))?;
        Ok(Self { root })
    }

    /// The directory everything is below.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes the lock `name`, calling `waiting` once when another process holds it.
    ///
    /// # Errors
    ///
    /// A file of the lock that cannot be made or locked.
    pub fn lock(&self, name: &str, waiting: impl FnOnce()) -> Result<CacheLock, CacheError> {
        let directory = self.root.join("locks");
        create_dir(&directory)?;
        let path = directory.join(format!("{name}.lock"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(io_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                waiting();
                file.lock().map_err(io_error("lock", &path))?;
            }
            Err(fs::TryLockError::Error(source)) => {
                return Err(CacheError::Io { action: "lock", path, source });
            }
        }
        Ok(CacheLock { _file: file })
    }

    /// The manifest of `artifact`, when a complete one with its directory is in the cache.
    #[must_use]
    pub fn manifest(&self, artifact: &str) -> Option<Manifest> {
        let text = fs::read(self.manifest_path(artifact)).ok()?;
        let manifest: Manifest = serde_json::from_slice(&text).ok()?;
        (manifest.artifact == artifact && self.root.join(&manifest.directory).is_dir()).then_some(manifest)
    }

    /// Writes the manifest of an artifact whose directory is complete.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn commit(&self, manifest: &Manifest) -> Result<(), CacheError> {
        write_atomically(&self.manifest_path(&manifest.artifact), &serde_json::to_vec_pretty(manifest)?)
    }

    fn manifest_path(&self, artifact: &str) -> PathBuf {
        self.root.join(format!("{artifact}.json"))
    }
}

/// Creates `path` and its parents.
pub(crate) fn create_dir(path: &Path) -> Result<(), CacheError> {
    fs::create_dir_all(path).map_err(io_error("create", path))
}

/// Writes a file so that a reader sees the old content or the new, never a part. Several processes and threads may write the same file.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> Result<(), CacheError> {
    // Threads of this process may write the same file.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("tmp{}-{number}", std::process::id()));
    fs::write(&temporary, content).map_err(io_error("write", &temporary))?;
    fs::rename(&temporary, path).map_err(io_error("rename", &temporary))
}

/// Says by the age of a file that it is in use. A cache that may only be read serves as well.
pub(crate) fn mark_used(path: &Path) {
    let _ = File::options().append(true).open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

/// Removes the files of `directory` whose names begin with `prefix`, unless they were in use lately: several versions of
/// belfry may run side by side, each with its own.
pub(crate) fn remove_unused(directory: &Path, prefix: &str) {
    let old = |path: &Path| {
        let modified = fs::metadata(path).and_then(|there| there.modified()).ok()?;
        Some(modified.elapsed().ok()? > KEPT)
    };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) && old(&entry.path()) == Some(true) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the closure that names the action and the path of an I/O error.
pub fn io_error<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> CacheError + use<'a> {
    move |source| CacheError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_write_one_file_at_the_same_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("module.ko");
        let content = [vec![1; 1 << 16], vec![2; 1 << 16]];
        std::thread::scope(|scope| {
            for content in &content {
                scope.spawn(|| (0..200).for_each(|_| write_atomically(&path, content).unwrap()));
            }
        });
        assert!(content.contains(&fs::read(&path).unwrap()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    fn manifest(directory: &str) -> Manifest {
        Manifest {
            artifact: "qemu".into(),
            directory: directory.into(),
            packages: vec![PackageRecord { name: "a".into(), version: "1:2".into(), sha256: "00".into() }],
            facts: [("release".to_owned(), "6.12".to_owned())].into(),
        }
    }

    #[test]
    fn manifest_survives_and_needs_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        assert_eq!(cache.manifest("qemu"), None);
        cache.commit(&manifest("qemu-1")).unwrap();
        assert_eq!(cache.manifest("qemu"), None, "no directory yet");
        fs::create_dir(cache.root().join("qemu-1")).unwrap();
        assert_eq!(cache.manifest("qemu"), Some(manifest("qemu-1")));
        fs::write(cache.manifest_path("qemu"), b"{broken").unwrap();
        assert_eq!(cache.manifest("qemu"), None, "a damaged record means: fetch again");
    }

    #[test]
    fn files_of_other_versions_stay_until_nobody_has_used_them_for_long() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a-old", "a-used", "a-new", "b-old"].map(|name| directory.path().join(name));
        for path in &paths {
            fs::write(path, b"").unwrap();
            let long_ago = SystemTime::now() - 2 * KEPT;
            if !path.ends_with("a-new") {
                File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
            }
        }
        mark_used(&paths[1]);
        remove_unused(directory.path(), "a-");
        assert_eq!(paths.map(|path| path.exists()), [false, true, true, true]);
    }

    #[test]
    fn lock_excludes_a_second_holder_until_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let held = cache.lock("fetch", || panic!("nobody else holds it")).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let other = cache.clone();
        let thread = std::thread::spawn(move || {
            let waiting = sender.clone();
            let _second = other.lock("fetch", move || waiting.send("waits").unwrap()).unwrap();
            sender.send("holds").unwrap();
        });
        assert_eq!(receiver.recv().unwrap(), "waits");
        assert!(receiver.try_recv().is_err());
        drop(held);
        assert_eq!(receiver.recv().unwrap(), "holds");
        thread.join().unwrap();
    }
}
