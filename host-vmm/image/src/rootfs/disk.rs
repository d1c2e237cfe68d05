//! Disks with a root file system: ext4 images made of a tree, kept in the cache as long as the tree stays as it is.
//!
//! An image is made by `mke2fs -d` as an ordinary user, beside its place, and moved there when it is whole. It is
//! sparse, has [`ROOM`] for a guest's writes, and is never written to: guests write to an overlay.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use super::error::{RootFsError, io_error};
use super::survey::Survey;
use super::{RootFs, obtain, own};
use crate::cache::{Cache, create_dir};
use crate::fetch::{FetchError, run_command};
use crate::freshness::Freshness;
use crate::obtain::publish;
use crate::progress::Progress;
use crate::tools::{Tool, mke2fs};

/// Modules of the stock kernel that a guest needs for these disks, in load order: ext4 asks the kernel for checksums, and
/// does not name the module that has them.
pub const MODULES: [&str; 2] = ["crc32c_generic", "ext4"];
/// Free space of a disk, in bytes; the image is sparse there.
pub const ROOM: u64 = 4 << 30;
/// Raised when the way disks are made changes, so that old ones are not taken for new ones.
const FORMAT: u32 = 1;
/// The image's name in its directory of the cache.
const IMAGE: &str = "root.ext4";
/// Arguments of mke2fs: a guest's writes are forgotten, so a journal would only cost time.
const MAKE: [&str; 9] = ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m0", "-E", "root_owner=0:0"];
/// Files a guest may add, beside as many as the tree has.
const MORE_FILES: u64 = 1 << 18;
/// Offset of the magic number of ext2, ext3 and ext4 (`struct ext2_super_block`, `s_magic`).
const MAGIC_OFFSET: u64 = 0x438;
/// The magic number.
const MAGIC: [u8; 2] = 0xef53_u16.to_le_bytes();
/// First bytes of a qcow2 image.
const QCOW2_MAGIC: [u8; 4] = *b"QFI\xfb";

/// Root file system that a guest is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// The one a recipe makes, by its name.
    Named(String),
    /// A directory, or an image with an ext4 file system.
    Path(PathBuf),
}

/// A disk image with a root file system; not removed by other processes of belfry as long as this lives.
#[derive(Debug)]
pub struct RootDisk {
    /// The image: a raw one, or a user's qcow2 image.
    pub path: PathBuf,
    /// True if `path` is qcow2.
    pub qcow2: bool,
    /// Shared lock; a process that wants to remove the image needs it alone. A user's own image has none.
    _used: Option<File>,
}

impl std::fmt::Display for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Root {
    /// Refuses a root that no disk can be made of, without fetching or making anything.
    ///
    /// # Errors
    ///
    /// An unknown name, a path that is not there, a directory that has no programs, a file that is no ext4 image.
    pub fn check(&self, cache: &Cache) -> Result<(), RootFsError> {
        match self {
            Self::Named(name) => own::find(cache, name).map(drop),
            Self::Path(path) if fs::metadata(path).map_err(io_error("open", path))?.is_dir() => {
                check_directory(path)
            }
            Self::Path(path) => check_image(path).map(drop),
        }
    }

    /// The disk, made when the cache has none of the tree as it is now.
    ///
    /// Safe against other processes doing the same: one makes it, the others wait.
    ///
    /// # Errors
    ///
    /// As for [`Self::check`] and [`obtain`]; a tree that mke2fs cannot copy, or a full disk: the cache then has no new
    /// image.
    pub fn disk(&self, cache: &Cache, progress: &Progress) -> Result<RootDisk, RootFsError> {
        self.check(cache)?;
        match self {
            Self::Named(name) => {
                let RootFs { path, .. } = obtain(cache, name, Freshness::Cached, progress)?;
                let identity = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                make(cache, name, &identity, &path, None, progress)
            }
            Self::Path(path) if path.is_dir() => {
                let tree = fs::canonicalize(path).map_err(io_error("open", path))?;
                let survey = Survey::of(&tree)?;
                let name = format!("directory-{}", short_hash(tree.as_os_str().as_encoded_bytes()));
                let identity = survey.identity.clone();
                make(cache, &name, &identity, &tree, Some(survey), progress)
            }
            Self::Path(path) => Ok(RootDisk { path: path.clone(), qcow2: check_image(path)?, _used: None }),
        }
    }
}

/// Checks that a directory has one of the folders of programs that any root file system has; links count, even if their
/// target is not there from outside.
fn check_directory(path: &Path) -> Result<(), RootFsError> {
    let programs = ["bin", "usr/bin"].map(|name| path.join(name));
    if programs.iter().any(|path| fs::symlink_metadata(path).is_ok()) {
        return Ok(());
    }
    Err(RootFsError::NoRoot { path: path.to_owned(), why: "it has neither bin nor usr/bin" })
}

/// Returns true if a file is a qcow2 image, and false if it is ext4; an error otherwise.
fn check_image(path: &Path) -> Result<bool, RootFsError> {
    use std::os::unix::fs::FileExt as _;
    let kind = fs::metadata(path).map_err(io_error("open", path))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(RootFsError::NoRoot {
            path: path.to_owned(),
            why: "it is neither a directory nor a file",
        });
    }
    let file = File::open(path).map_err(io_error("open", path))?;
    let holds = |expected: &[u8], offset| {
        let mut found = vec![0; expected.len()];
        match file.read_exact_at(&mut found, offset) {
            Ok(()) => Ok(found == expected),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(io_error("read", path)(error)),
        }
    };
    if holds(&QCOW2_MAGIC, 0)? {
        return Ok(true);
    }
    match holds(&MAGIC, MAGIC_OFFSET)? {
        true => Ok(false),
        false => {
            let why = "the file has no ext4 file system at its beginning; one in a partition must be copied out of it";
            Err(RootFsError::NoRoot { path: path.to_owned(), why })
        }
    }
}

/// Finds or makes the image of `tree`; other images called `name` that are not in use are removed then.
fn make(
    cache: &Cache,
    name: &str,
    identity: &str,
    tree: &Path,
    survey: Option<Survey>,
    progress: &Progress,
) -> Result<RootDisk, RootFsError> {
    let folder = cache.root().join("disks").join(name);
    create_dir(&folder).map_err(FetchError::from)?;
    let made_of = format!("{FORMAT} {ROOM} {MORE_FILES} {identity} {}", MAKE.join(" "));
    let target = folder.join(short_hash(made_of.as_bytes()));
    let waits = || progress.line("another belfry makes the disk of this root file system; waiting for it");
    let _lock = cache.lock(&format!("disk-{name}"), waits).map_err(FetchError::from)?;
    if !target.is_dir() {
        let survey = survey.map_or_else(|| Survey::of(tree), Ok)?;
        let mke2fs = mke2fs(cache, progress)?;
        let step = progress.bytes(&format!("making a disk of {name}"), survey.bytes);
        publish(&target, &|partial| {
            let image = partial.join(IMAGE);
            let on_disk = || fs::metadata(&image).map_or(0, |there| there.blocks() * 512);
            fill(&mke2fs, tree, &survey, &image, &mut || step.set(on_disk().min(survey.bytes)))
        })?;
        step.done("done");
        remove_others(&folder, &target);
    }
    let path = target.join(IMAGE);
    let used = File::open(&path).map_err(io_error("open", &path))?;
    used.lock_shared().map_err(io_error("lock", &path))?;
    Ok(RootDisk { path, qcow2: false, _used: Some(used) })
}

/// Has mke2fs copy the tree into the image.
fn fill(
    mke2fs: &Tool,
    tree: &Path,
    survey: &Survey,
    image: &Path,
    watch: &mut dyn FnMut(),
) -> Result<(), RootFsError> {
    // The file system itself needs less than a tenth of the bytes in it.
    let size = (survey.bytes + survey.bytes / 10 + ROOM).next_multiple_of(1 << 20);
    let mut command = Command::new(&mke2fs.program);
    command.args(&mke2fs.arguments).args(MAKE);
    command.args(["-N", &(survey.files + MORE_FILES).to_string(), "-d"]).arg(tree);
    command.arg(image).arg(format!("{}K", size >> 10)).env("LC_ALL", "C");
    match run_command(command, "mke2fs", "-d", watch) {
        Ok(_) => Ok(()),
        Err(FetchError::DiskFull { .. }) => {
            Err(RootFsError::DiskFull { path: image.to_owned(), needed: survey.bytes >> 20 })
        }
        Err(FetchError::Command { status, stderr, .. }) => {
            Err(RootFsError::MakeDisk { tree: tree.to_owned(), status, stderr })
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes older images in `folder`; those that a guest uses stay.
fn remove_others(folder: &Path, newest: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let unused = |image: File| image.try_lock().is_ok();
        if path != newest && File::open(path.join(IMAGE)).map_or(true, unused) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn short_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
