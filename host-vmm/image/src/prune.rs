//! Parts of the cache that nothing uses any more, and those that can be had again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::cache::{Cache, CacheError, Manifest, io_error, is_unused};

/// Folders of the cache whose parts are made again at their next use, and marked by a use.
const MADE: [&str; 4] = ["disks", "logs", "module", "programs"];
/// Folder of the library and the files of `belfry exec`, which are not marked: programs that run use them.
const EXEC: &str = "exec";

/// A part of the cache that can go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removable {
    /// The file or directory.
    pub path: PathBuf,
    /// Bytes that it takes on the disk.
    pub bytes: u64,
    /// Reason why it can go.
    pub why: &'static str,
    /// Manifest that goes with it.
    manifest: Option<PathBuf>,
}

/// Returns the parts that can go: those that nothing names, and made ones without a use for a week. With `fetched`, also
/// everything that was fetched, root file systems among it: it is fetched again when it is needed.
///
/// # Errors
///
/// A cache that cannot be read.
pub fn removable(cache: &Cache, fetched: bool) -> Result<Vec<Removable>, CacheError> {
    let mut parts = Vec::new();
    let mut named = Vec::new();
    let mut others = Vec::new();
    for path in entries(cache.root())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match name.strip_suffix(".json").and_then(|artifact| cache.own(artifact)) {
            Some(manifest) => named.push((path, manifest)),
            None => others.push((path, name)),
        }
    }
    // Two manifests of one directory: it goes with the first.
    let mut gone: Vec<String> = Vec::new();
    for (path, Manifest { directory, .. }) in &named {
        if fetched && !gone.contains(directory) {
            gone.push(directory.clone());
            parts.push(part(
                cache.root().join(directory),
                "fetched; it is fetched again when it is needed",
                Some(path),
            ));
        }
    }
    for (path, name) in others {
        let part_of = name.strip_prefix("modules-").unwrap_or(&name);
        let is_named = named.iter().any(|(_, manifest)| manifest.directory == part_of);
        let is_old = is_unused(&path);
        let why = match () {
            () if is_temporary(&name) && is_old => "left by a process that was killed",
            () if path.is_dir() && is_artifact(part_of) && !is_named && is_old => "of an earlier version",
            () if path.is_dir() && part_of != name && fetched => "unpacked; it is unpacked again",
            () if path.is_dir() && name.starts_with("apt") && fetched => {
                "lists of packages; they are fetched again"
            }
            () => continue,
        };
        parts.push(part(path, why, None));
    }
    let made = MADE.into_iter().chain(fetched.then_some(EXEC)).map(|name| cache.root().join(name));
    for folder in made.filter(|folder| folder.is_dir()) {
        let old = entries(&folder)?.into_iter().filter(|path| fetched || is_unused(path));
        let why = if fetched { "made; it is made again" } else { "made, and without a use for a week" };
        parts.extend(old.map(|path| part(path, why, None)));
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    Ok(parts)
}

/// Removes a part.
///
/// # Errors
///
/// Files that cannot be removed: another user's.
pub fn remove(part: &Removable) -> Result<(), CacheError> {
    // Without its manifest first: a directory that is gone in part must not count as whole.
    if let Some(manifest) = &part.manifest {
        fs::remove_file(manifest).map_err(io_error("remove", manifest))?;
    }
    let removed =
        if part.path.is_dir() { fs::remove_dir_all(&part.path) } else { fs::remove_file(&part.path) };
    removed.map_err(io_error("remove", &part.path))
}

fn part(path: PathBuf, why: &'static str, manifest: Option<&PathBuf>) -> Removable {
    Removable { bytes: size(&path), path, why, manifest: manifest.cloned() }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let read = fs::read_dir(folder).map_err(io_error("read", folder))?;
    Ok(read.flatten().map(|entry| entry.path()).collect())
}

/// Returns true for names that end with a hash, as those of artifacts do.
fn is_artifact(name: &str) -> bool {
    name.rsplit_once('-')
        .is_some_and(|(_, hash)| hash.len() == 16 && hash.chars().all(|c| c.is_ascii_hexdigit()))
}

/// Returns true for names of files and directories that get another name when they are whole.
fn is_temporary(name: &str) -> bool {
    name.contains(".partial") || name.rsplit_once('.').is_some_and(|(_, end)| end.starts_with("tmp"))
}

/// Returns the bytes that a file or a tree takes. A file that has two names in it counts twice.
fn size(path: &Path) -> u64 {
    let Ok(there) = fs::symlink_metadata(path) else { return 0 };
    let below = if there.is_dir() { entries(path).unwrap_or_default() } else { Vec::new() };
    there.blocks() * 512 + below.iter().map(|path| size(path)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    const HASH: &str = "0123456789abcdef";

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        for directory in ["qemu-", "rootfs-rocm-1-", "old-", "modules-qemu-", "modules-old-"] {
            let directory = cache.root().join(format!("{directory}{HASH}"));
            fs::create_dir_all(directory.join("usr")).unwrap();
            fs::write(directory.join("usr/file"), [1; 10_000]).unwrap();
        }
        for folder in ["apt", "locks", "recipes", "exec", "programs", ".partial1"] {
            fs::create_dir(cache.root().join(folder)).unwrap();
        }
        fs::write(cache.root().join("exec/library"), "library").unwrap();
        fs::write(cache.root().join("programs/init"), "init").unwrap();
        for artifact in ["qemu", "rootfs-rocm-1"] {
            let directory = format!("{artifact}-{HASH}");
            let manifest = Manifest {
                artifact: artifact.into(),
                directory,
                packages: Vec::new(),
                facts: Default::default(),
            };
            cache.commit(&manifest).unwrap();
        }
        (folder, cache)
    }

    /// Makes everything in the cache eight days old.
    fn age(folder: &Path) {
        let then = SystemTime::now() - Duration::from_secs(8 * 24 * 60 * 60);
        for path in entries(folder).unwrap() {
            if path.is_dir() {
                age(&path);
            }
            fs::File::open(&path).unwrap().set_modified(then).unwrap();
        }
    }

    fn names(cache: &Cache, fetched: bool) -> Vec<String> {
        let parts = removable(cache, fetched).unwrap();
        let mut names: Vec<String> = parts
            .iter()
            .map(|part| part.path.strip_prefix(cache.root()).unwrap().to_string_lossy().replace(HASH, "H"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn parts_in_use_and_new_ones_stay() {
        let (folder, cache) = cache();
        assert!(names(&cache, false).is_empty(), "nothing is a week old");
        age(folder.path());
        assert_eq!(names(&cache, false), [".partial1", "modules-old-H", "old-H", "programs/init"]);
    }

    #[test]
    fn everything_that_can_be_had_again_goes_if_it_is_wanted() {
        let (folder, cache) = cache();
        age(folder.path());
        let parts = removable(&cache, true).unwrap();
        assert!(parts.is_sorted_by(|a, b| a.bytes >= b.bytes) && parts[0].bytes >= 10_000);
        parts.iter().for_each(|part| remove(part).unwrap());
        // The user's own lists stay.
        let mut left: Vec<_> = entries(cache.root()).unwrap();
        left.sort();
        let left: Vec<_> =
            left.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
        assert_eq!(left, ["exec", "locks", "programs", "recipes"]);
        assert_eq!(cache.own("qemu"), None);
    }
}
