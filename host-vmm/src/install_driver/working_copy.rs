//! The copy of a user's disk. The guest changes the copy, which becomes the disk if all goes well.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use belfry_image::Progress;
use belfry_machine::{DiskConfig, DiskError};
use rustix::fs::{FlockOperation, fcntl_lock, ioctl_ficlone};
use rustix::io::Errno;
use tempfile::{Builder, NamedTempFile};

/// Bytes that are read at a time.
const PIECE: u64 = 16 << 20;

/// Reason why a disk cannot be changed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Its file holds no disk.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Only a plain file can be replaced.
    #[error(
        "{0} is no file; the driver is put into disks that are files: copy it into one, with `dd` for example"
    )]
    NotAFile(PathBuf),
    /// The file is read only.
    #[error("{0} is read only; `chmod u+w` it, or leave `,ro` out")]
    ReadOnly(PathBuf),
    /// The file is empty.
    #[error("{0} is empty; it has to be a disk with a system on it")]
    Empty(PathBuf),
    /// The file has other names (hard links), which would keep the old disk.
    #[error(
        "{0} has other names (hard links), which would keep the disk as it was; remove them or copy the file first"
    )]
    HardLinks(PathBuf),
    /// Another process has it open.
    #[error("{0} is in use by another process, a QEMU perhaps; end that first")]
    InUse(PathBuf),
    /// Another process has changed it meanwhile.
    #[error("{0} was changed by another process meanwhile, and is left as that has made it; try again")]
    Changed(PathBuf),
    /// The copy needs space beside it.
    #[error(
        "cannot copy {path}: {source}; a copy of it beside it is changed first, which takes as much space again"
    )]
    Copy {
        /// The disk.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk could not be opened, or replaced.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// Action that failed.
        action: &'static str,
        /// The disk.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The copy. If it is dropped without [`WorkingCopy::replace`], it is deleted, and the disk is as it was.
#[derive(Debug)]
pub(super) struct WorkingCopy {
    /// The disk's file, locked against QEMU and against other processes of this kind.
    original: File,
    path: PathBuf,
    /// Length of the disk and time of its last change, at the time of the copy.
    state: (u64, SystemTime),
    copy: NamedTempFile,
}

impl WorkingCopy {
    /// Copies the disk's file beside it, without its holes; file systems that can share blocks share them.
    ///
    /// # Errors
    ///
    /// A file that is no disk, or that may not or cannot be replaced; no space for a second one.
    pub(super) fn of(disk: &DiskConfig, progress: &Progress) -> Result<Self, CopyError> {
        let asked = &disk.path;
        let io = |action| move |source| CopyError::Io { action, path: asked.clone(), source };
        let path = fs::canonicalize(asked).map_err(io("open"))?;
        let metadata = fs::metadata(&path).map_err(io("open"))?;
        if metadata.file_type().is_block_device() || !metadata.is_file() {
            return Err(CopyError::NotAFile(asked.clone()));
        }
        if disk.read_only || metadata.permissions().readonly() {
            return Err(CopyError::ReadOnly(asked.clone()));
        }
        if metadata.len() == 0 {
            return Err(CopyError::Empty(asked.clone()));
        }
        if metadata.nlink() > 1 {
            return Err(CopyError::HardLinks(asked.clone()));
        }
        // The check comes before the lock: such a lock ends when the process closes any of its descriptors of the
        // file.
        disk.check()?;
        let original =
            File::options().read(true).write(true).open(&path).map_err(|source| match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    CopyError::ReadOnly(asked.clone())
                }
                _ => io("open")(source),
            })?;
        match fcntl_lock(&original, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Err(CopyError::InUse(asked.clone())),
            Err(error) => return Err(io("lock")(error.into())),
        }
        let metadata = original.metadata().map_err(io("read"))?;
        let state = (metadata.len(), metadata.modified().map_err(io("read"))?);
        let copy = copy_beside(&original, &path, &metadata, progress)
            .map_err(|source| CopyError::Copy { path: asked.clone(), source })?;
        Ok(Self { original, path, state, copy })
    }

    /// Returns the copy's path.
    pub(super) fn path(&self) -> &Path {
        self.copy.path()
    }

    /// Puts the copy in the disk's place, in one step.
    ///
    /// # Errors
    ///
    /// A disk that was changed meanwhile; a copy that does not reach the storage. After an error the disk is as it
    /// was.
    pub(super) fn replace(self) -> Result<(), CopyError> {
        let Self { original, path, state, copy } = self;
        let io = |action| {
            let path = path.clone();
            move |source| CopyError::Io { action, path, source }
        };
        let now = original.metadata().map_err(io("read"))?;
        let named = fs::metadata(&path).map_err(io("read"))?;
        let is_the_same = (named.dev(), named.ino()) == (now.dev(), now.ino());
        if !is_the_same || (now.len(), now.modified().map_err(io("read"))?) != state {
            return Err(CopyError::Changed(path));
        }
        copy.as_file().sync_all().map_err(io("write"))?;
        copy.persist(&path).map_err(|error| io("replace")(error.error))?;
        // The new name reaches the storage with its folder.
        let folder = path.parent().unwrap_or(Path::new("/"));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("replace"))
    }
}

/// Makes a copy of `original` with owner and rights, in the folder of `path`; copies of killed processes are removed.
fn copy_beside(
    original: &File,
    path: &Path,
    metadata: &fs::Metadata,
    progress: &Progress,
) -> io::Result<NamedTempFile> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let prefix = format!(".{}.belfry-copy-", path.file_name().unwrap_or_default().to_string_lossy());
    // The process that made them had the lock that this process has now, so it has ended.
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let copy = Builder::new().prefix(&prefix).tempfile_in(folder)?;
    if ioctl_ficlone(&copy, original).is_err() {
        copy_sparse(original, copy.as_file(), metadata.len(), path, progress)?;
    }
    copy.as_file().set_permissions(metadata.permissions())?;
    // Only root can give files to other users; the files of an ordinary user already belong to that user.
    let _ = std::os::unix::fs::fchown(&copy, Some(metadata.uid()), Some(metadata.gid()));
    Ok(copy)
}

/// Copies the parts of a file that are no holes.
fn copy_sparse(from: &File, to: &File, length: u64, path: &Path, progress: &Progress) -> io::Result<()> {
    let step = progress.bytes(&format!("copying {}", path.display()), length);
    let (mut from, mut to) = (from, to);
    to.set_len(length)?;
    let mut end = 0;
    while let Some((start, stop)) = data_after(from, end, length)? {
        from.seek(SeekFrom::Start(start))?;
        to.seek(SeekFrom::Start(start))?;
        let mut at = start;
        while at < stop {
            let copied = io::copy(&mut from.take(PIECE.min(stop - at)), &mut to)?;
            if copied == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            at += copied;
            step.set(at);
        }
        end = stop;
    }
    step.done("copied");
    Ok(())
}

/// Returns the next part of a file that has data, from `position` on, if there is one.
fn data_after(file: &File, position: u64, length: u64) -> io::Result<Option<(u64, u64)>> {
    if position >= length {
        return Ok(None);
    }
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(position)) {
        Ok(start) => {
            Ok(Some((start, rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?.min(length))))
        }
        Err(Errno::NXIO) => Ok(None),
        // This file system has no holes.
        Err(Errno::INVAL) => Ok(Some((position, length))),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt as _, PermissionsExt as _};

    const LENGTH: u64 = 64 << 20;

    /// Makes a file with data at its beginning and near its end.
    fn disk(folder: &Path) -> DiskConfig {
        let path = folder.join("disk.raw");
        let file = File::create(&path).unwrap();
        file.set_len(LENGTH).unwrap();
        file.write_all_at(b"first", 0).unwrap();
        file.write_all_at(b"last", LENGTH - 4096).unwrap();
        DiskConfig::new(path)
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn copy_of(disk: &DiskConfig) -> Result<WorkingCopy, CopyError> {
        WorkingCopy::of(disk, &Progress::silent())
    }

    #[test]
    fn copy_has_content_holes_and_rights_and_replaces_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path());
        fs::set_permissions(&disk.path, fs::Permissions::from_mode(0o640)).unwrap();
        // A copy of a killed process.
        fs::write(folder.path().join(".disk.raw.belfry-copy-abc"), b"old").unwrap();
        let copy = copy_of(&disk).unwrap();
        let content = fs::read(&disk.path).unwrap();
        assert!(fs::read(copy.path()).unwrap() == content);
        let metadata = fs::metadata(copy.path()).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o640);
        assert!(metadata.blocks() * 512 < LENGTH / 2, "{} blocks", metadata.blocks());
        copy.copy.as_file().write_all_at(b"FIRST", 0).unwrap();
        copy.replace().unwrap();
        assert!(fs::read(&disk.path).unwrap().starts_with(b"FIRST"));
        assert_eq!(names(folder.path()), ["disk.raw"]);
    }

    #[test]
    fn copy_that_is_dropped_leaves_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path());
        let copy = copy_of(&disk).unwrap();
        copy.copy.as_file().write_all_at(b"FIRST", 0).unwrap();
        drop(copy);
        assert!(fs::read(&disk.path).unwrap().starts_with(b"first"));
        assert_eq!(names(folder.path()), ["disk.raw"]);
    }

    #[test]
    fn disk_that_changes_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path());
        let copy = copy_of(&disk).unwrap();
        File::options().write(true).open(&disk.path).unwrap().set_len(LENGTH + 4096).unwrap();
        assert!(matches!(copy.replace(), Err(CopyError::Changed(_))));
        assert_eq!(fs::metadata(&disk.path).unwrap().len(), LENGTH + 4096);
        assert_eq!(names(folder.path()), ["disk.raw"]);
        // Another file under the disk's name is not replaced either.
        let copy = copy_of(&disk).unwrap();
        fs::rename(&disk.path, folder.path().join("other")).unwrap();
        fs::write(&disk.path, vec![1; 4096]).unwrap();
        assert!(matches!(copy.replace(), Err(CopyError::Changed(_))));
        assert_eq!(fs::read(&disk.path).unwrap(), [1; 4096]);
    }

    #[test]
    fn what_is_no_disk_or_may_not_change_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |disk: &DiskConfig| copy_of(disk).unwrap_err().to_string();
        assert!(refused(&DiskConfig::new(folder.path())).contains("is no file"));
        assert!(refused(&DiskConfig::new("/dev/null")).contains("is no file"));
        assert!(refused(&DiskConfig::new("/nowhere/disk")).contains("/nowhere/disk"));
        let path = folder.path().join("some.img");
        for (content, why) in [(&b""[..], "is empty"), (b"a text", "whole sectors"), (b"QFI\xfb", "some.img")]
        {
            fs::write(&path, content).unwrap();
            let error = refused(&DiskConfig::new(&path));
            assert!(error.contains(why), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let disk = disk(folder.path());
        assert!(refused(&DiskConfig { read_only: true, ..disk.clone() }).contains("read only"));
        fs::set_permissions(&disk.path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(refused(&disk).contains("chmod"));
        fs::set_permissions(&disk.path, fs::Permissions::from_mode(0o644)).unwrap();
        fs::hard_link(&disk.path, folder.path().join("link")).unwrap();
        assert!(refused(&disk).contains("hard links"));
        fs::remove_file(folder.path().join("link")).unwrap();
        // A link to the disk stays a link.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&disk.path, &link).unwrap();
        copy_of(&DiskConfig::new(&link)).unwrap().replace().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn disk_in_use_is_refused() {
        /// Variable that makes the test the other process; its value is the disk.
        const ROLE: &str = "BELFRY_TEST_COPY_DISK";
        if let Some(path) = std::env::var_os(ROLE) {
            let error = copy_of(&DiskConfig::new(path)).unwrap_err();
            assert!(matches!(error, CopyError::InUse(_)), "{error}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path());
        let _copy = copy_of(&disk).unwrap();
        let mut other = std::process::Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "install_driver::working_copy::tests::disk_in_use_is_refused"]);
        assert!(other.env(ROLE, &disk.path).status().unwrap().success());
    }
}
