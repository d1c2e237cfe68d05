//! Size and identity of a tree, by a look at its files.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::error::{RootFsError, io_error};

/// Bytes of a block of ext4.
const BLOCK: u64 = 4096;
/// A disk with more is none that is made here: a tree that has it has files of holes.
const MOST: u64 = 8 << 40;
/// Deeper trees are none that a program would use.
const DEEPEST: u32 = 256;

/// One look at every file of a tree; no file is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survey {
    /// Files, directories and links.
    pub(super) files: u64,
    /// Bytes they take on a disk.
    pub(super) bytes: u64,
    /// Another one after any change: a hash of names, modes, owners, sizes and times of change.
    pub(super) identity: String,
}

impl Survey {
    /// Looks at the tree `root`.
    ///
    /// # Errors
    ///
    /// A directory that cannot be read; another file system mounted in the tree, `/proc` for example.
    pub(super) fn of(root: &Path) -> Result<Self, RootFsError> {
        let root = fs::canonicalize(root).map_err(io_error("open", root))?;
        let device = fs::metadata(&root).map_err(io_error("open", &root))?.dev();
        let mut look = Look { device, files: 0, bytes: 0, hash: Sha256::new() };
        look.at(&root, 0)?;
        let identity = look.hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { files: look.files, bytes: look.bytes, identity })
    }
}

struct Look {
    device: u64,
    files: u64,
    bytes: u64,
    hash: Sha256,
}

impl Look {
    fn at(&mut self, path: &Path, depth: u32) -> Result<(), RootFsError> {
        let meta = fs::symlink_metadata(path).map_err(io_error("look at", path))?;
        // Files of an overlay may say that they are of one of its layers.
        if meta.is_dir() && meta.dev() != self.device {
            return Err(RootFsError::Mounted { path: path.to_owned() });
        }
        self.files += 1;
        // A directory has a block at least; inodes and long links are counted as half of one.
        let bytes = meta.len().checked_next_multiple_of(BLOCK).and_then(|len| len.checked_add(BLOCK / 2));
        let sum = bytes.and_then(|bytes| self.bytes.checked_add(bytes)).filter(|&sum| sum <= MOST);
        self.bytes = sum.ok_or_else(|| {
            let why = "with it, its files have more than 8 TiB, holes included, which is too much for a disk";
            RootFsError::NoRoot { path: path.to_owned(), why }
        })?;
        self.hash.update((path.as_os_str().len() as u64).to_le_bytes());
        self.hash.update(path.as_os_str().as_bytes());
        let facts = [
            meta.mode().into(),
            meta.uid().into(),
            meta.gid().into(),
            meta.len(),
            meta.ino(),
            meta.mtime().cast_unsigned(),
            meta.mtime_nsec().cast_unsigned(),
            // It changes with everything, and programs cannot set it.
            meta.ctime().cast_unsigned(),
            meta.ctime_nsec().cast_unsigned(),
        ];
        facts.into_iter().for_each(|fact: u64| self.hash.update(fact.to_le_bytes()));
        if !meta.is_dir() {
            return Ok(());
        }
        if depth == DEEPEST {
            return Err(RootFsError::NoRoot {
                path: path.to_owned(),
                why: "it is too many directories deep",
            });
        }
        let entries = fs::read_dir(path).map_err(io_error("read", path))?;
        let mut names = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(io_error("read", path))?;
        names.sort();
        names.iter().try_for_each(|path| self.at(path, depth + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_changes_with_the_tree_and_with_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("bin")).unwrap();
        fs::write(root.join("bin/a"), [1; 5000]).unwrap();
        let first = Survey::of(root).unwrap();
        assert_eq!((first.files, first.bytes >= 8192 + 3 * BLOCK / 2), (3, true));
        assert_eq!(Survey::of(root).unwrap(), first);
        fs::write(root.join("bin/a"), [2; 5000]).unwrap();
        let second = Survey::of(root).unwrap();
        assert_ne!(second.identity, first.identity, "other content of the same size");
        fs::rename(root.join("bin/a"), root.join("bin/b")).unwrap();
        let third = Survey::of(root).unwrap();
        assert_ne!(third.identity, second.identity);
        std::os::unix::fs::symlink("b", root.join("bin/a")).unwrap();
        assert_ne!(Survey::of(root).unwrap().identity, third.identity);
    }

    #[test]
    fn link_to_a_tree_is_the_tree() {
        let directory = tempfile::tempdir().unwrap();
        let (tree, link) = (directory.path().join("tree"), directory.path().join("link"));
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("a"), b"a").unwrap();
        std::os::unix::fs::symlink("tree", &link).unwrap();
        assert_eq!(Survey::of(&link).unwrap(), Survey::of(&tree).unwrap());
    }

    #[test]
    fn tree_of_more_than_fits_any_disk_is_refused_by_the_file() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            fs::File::create(directory.path().join(name)).unwrap().set_len(3 << 40).unwrap();
        }
        let error = Survey::of(directory.path()).unwrap_err().to_string();
        assert!(error.contains("/c") && error.contains("8 TiB"), "{error}");
    }

    #[test]
    fn tree_with_another_file_system_in_it_is_refused_by_its_place() {
        let error = Survey::of(Path::new("/")).unwrap_err();
        assert!(matches!(error, RootFsError::Mounted { .. }), "{error}");
        assert!(error.to_string().contains("mounted at /"), "{error}");
    }
}
