//! The cache directory: artifacts by name and content, lock files, and the record of what is in each.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// Cache that is read where `BELFRY_SHARED_CACHE` does not say otherwise, if it is there.
const SHARED: &str = "/var/cache/belfry";
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

/// An artifact that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Directory of its files.
    pub path: PathBuf,
    /// Its record.
    pub manifest: Manifest,
}

/// The cache directory, `~/.cache/belfry` unless `BELFRY_CACHE` names another, and caches that are only read.
///
/// Parts that a shared cache has are not fetched again. Shared are the directories of `BELFRY_SHARED_CACHE`, which colons divide, or
/// `/var/cache/belfry` if the variable is not set.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
    shared: Vec<PathBuf>,
}

/// An exclusive lock on one name of the cache, held until dropped.
#[derive(Debug)]
pub struct CacheLock {
    _file: File,
}

impl Cache {
    /// Opens the cache, creating the directory when it is not there, and the shared ones.
    ///
    /// # Errors
    ///
    /// [`CacheError::NoDirectory`] when no variable names a directory, a shared directory that is named and is not there, and as
    /// for [`Self::at`].
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
        let cache = Self::at(root)?;
        match std::env::var_os("BELFRY_SHARED_CACHE") {
            Some(named) => {
                let named = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
                named.into_iter().try_fold(cache, |cache, path| cache.with_shared(&path))
            }
            None if Path::new(SHARED).is_dir() => cache.with_shared(Path::new(SHARED)),
            None => Ok(cache),
        }
    }

    /// Reads a cache as well, after the ones that are there: nothing is written to it.
    ///
    /// # Errors
    ///
    /// A directory that is not there.
    pub fn with_shared(mut self, path: &Path) -> Result<Self, CacheError> {
        let path = fs::canonicalize(path).map_err(io_error("read the shared", path))?;
        if path != self.root && !self.shared.contains(&path) {
            self.shared.push(path);
        }
        Ok(self)
    }

    /// Opens the cache at `root` alone, creating the directory when it is not there.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made.
    pub fn at(root: impl Into<PathBuf>) -> Result<Self, CacheError> {
        let root = root.into();
        create_dir(&root)?;
        let root = fs::canonicalize(&root).map_err(io_error("resolve", &root))?;
        Ok(Self { root, shared: Vec::new() })
    }

    /// The directory everything is below that is made or fetched.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directories that are only read, in the order in which they are asked.
    #[must_use]
    pub fn shared(&self) -> &[PathBuf] {
        &self.shared
    }

    /// All directories, the one that is written to first.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.root.as_path()).chain(self.shared.iter().map(PathBuf::as_path))
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

    /// Returns the complete artifact of this name: the cache's own, or the first of the shared ones.
    #[must_use]
    pub fn find(&self, artifact: &str) -> Option<Found> {
        self.roots().find_map(|root| find_below(root, artifact))
    }

    /// Returns the record of a complete artifact of the cache's own.
    pub(crate) fn own(&self, artifact: &str) -> Option<Manifest> {
        find_below(&self.root, artifact).map(|found| found.manifest)
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

/// Returns the complete artifact of this name below the directory of a cache.
fn find_below(root: &Path, artifact: &str) -> Option<Found> {
    let text = fs::read(root.join(format!("{artifact}.json"))).ok()?;
    let manifest: Manifest = serde_json::from_slice(&text).ok()?;
    let path = root.join(&manifest.directory);
    (manifest.artifact == artifact && path.is_dir()).then_some(Found { path, manifest })
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
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) && is_unused(&entry.path()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns true if a file or directory has not changed, or been marked as used, for a week.
pub(crate) fn is_unused(path: &Path) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|there| there.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > KEPT))
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
        assert_eq!(cache.own("qemu"), None);
        cache.commit(&manifest("qemu-1")).unwrap();
        assert_eq!(cache.own("qemu"), None, "no directory yet");
        fs::create_dir(cache.root().join("qemu-1")).unwrap();
        assert_eq!(cache.own("qemu"), Some(manifest("qemu-1")));
        fs::write(cache.manifest_path("qemu"), b"{broken").unwrap();
        assert_eq!(cache.own("qemu"), None, "a damaged record means: fetch again");
    }

    #[test]
    fn shared_cache_has_what_ones_own_lacks_and_is_not_written_to() {
        let folders = ["own", "first", "second"].map(|_| tempfile::tempdir().unwrap());
        let [own, first, second] = folders.each_ref().map(|folder| Cache::at(folder.path()).unwrap());
        for (cache, artifact) in [(&first, "qemu"), (&second, "qemu"), (&second, "kernel")] {
            let directory = format!("{artifact}-1");
            fs::create_dir(cache.root().join(&directory)).unwrap();
            cache.commit(&Manifest { artifact: artifact.into(), ..manifest(&directory) }).unwrap();
        }
        // A record without its directory is no artifact.
        own.commit(&manifest("qemu-1")).unwrap();
        let both = own.with_shared(first.root()).unwrap().with_shared(second.root()).unwrap();
        assert_eq!(both.shared(), [first.root(), second.root()]);
        assert_eq!(both.find("qemu").unwrap().path, first.root().join("qemu-1"));
        assert_eq!(both.find("kernel").unwrap().path, second.root().join("kernel-1"));
        assert_eq!((both.find("headers"), both.own("kernel")), (None, None));
        fs::create_dir(both.root().join("qemu-1")).unwrap();
        assert_eq!(both.find("qemu").unwrap().path, both.root().join("qemu-1"), "one's own comes first");
        let error = both.with_shared(Path::new("/no/such/cache")).unwrap_err().to_string();
        assert!(error.contains("/no/such/cache"), "{error}");
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
