//! A folder that compiled code of kernels is kept in, from one process to the next: a [`CodeStore`] of files.
//!
//! A file has the code of one region, and its name is the key. It is written under a temporary name and then renamed, so that any
//! number of processes may share the folder: each of them finds whole files. The content is executed. Therefore the folder and its
//! files must belong to the user, and no other user may write to them. The engine checks that content is whole, and of that key.
//!
//! Files are opened by their paths each time: a program under `belfry exec` may close descriptors that it does not know.

use std::error::Error;
use std::fmt;
use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use belfry_isa::code_store::{CodeKey, CodeStore, Found, KeptCode};
use rustix::fs::OFlags;

/// Bytes that a folder has at most, more or less: processes that write at the same time know of each other only now and then.
pub const LIMIT: u64 = 256 << 20;

/// Elements that a region has at least whose code is kept: docs/tiers.md, "Code on disk", has the times of making and of finding it.
pub const LEAST_ELEMENTS: usize = 256;

/// Ending of the names of files, after a dot.
const ENDING: &str = "code";
/// Ending of the names of files that are being written.
const UNFINISHED: &str = "part";
/// Age from which an unfinished file is given up.
const GIVEN_UP: Duration = Duration::from_secs(60 * 60);
/// Bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Why a folder or a file of it is not used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system refuses something.
    #[error("{action} {path}: {source}")]
    Io {
        /// Action that failed.
        action: &'static str,
        /// Path that it was tried with.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The file or folder is of another kind.
    #[error("{0} is not a {1}")]
    Kind(PathBuf, &'static str),
    /// The file or folder is another user's.
    #[error("{0} belongs to somebody else")]
    Owner(PathBuf),
    /// Other users may write to it.
    #[error("{path} may be written to by others: its mode is {mode:03o}")]
    Mode {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file is larger than any code that is kept.
    #[error("{0} is too large")]
    Size(PathBuf),
    /// The file has no code, or not that of its key.
    #[error("{path}: {why}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Reason why it is refused.
        why: String,
    },
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    move |source| FolderError::Io { action, path: path.to_owned(), source }
}

/// Says something to the user.
type Tell = dyn Fn(fmt::Arguments<'_>) + Send + Sync;

/// Size of the folder's contents, as far as this process knows.
#[derive(Debug, Default)]
struct Known {
    /// Bytes of files, when it was looked at; nothing before.
    bytes: Option<u64>,
    /// Bytes written since.
    written: u64,
}

/// Code that is kept in the [`Folder`] at `path`. If the folder cannot be used, nothing is kept, and `tell` is told.
pub fn keep_in(
    path: &Path,
    tell: impl Fn(fmt::Arguments<'_>) + Send + Sync + 'static,
) -> Option<Arc<KeptCode>> {
    let tell = Arc::new(tell);
    let later = Arc::clone(&tell);
    match Folder::open(path, move |text| later(text)) {
        Ok(folder) => Some(Arc::new(KeptCode::new(folder, LEAST_ELEMENTS))),
        Err(why) => {
            tell(format_args!("no code is kept: {why}"));
            None
        }
    }
}

/// A folder of compiled code.
pub struct Folder {
    path: PathBuf,
    limit: u64,
    known: Mutex<Known>,
    /// Nothing is written any more, as something could not be.
    is_full: AtomicBool,
    /// The user was told of a file that was refused.
    has_told: AtomicBool,
    tell: Box<Tell>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder").field("path", &self.path).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl Folder {
    /// The folder at `path`, which is made if there is none. `tell` is told once of a later error.
    ///
    /// # Errors
    ///
    /// A folder that cannot be made, is another user's, or may be written to by others.
    pub fn open(
        path: impl Into<PathBuf>,
        tell: impl Fn(fmt::Arguments<'_>) + Send + Sync + 'static,
    ) -> Result<Folder, FolderError> {
        let path = path.into();
        DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(io_error("making", &path))?;
        let metadata = fs::metadata(&path).map_err(io_error("looking at", &path))?;
        if !metadata.is_dir() {
            return Err(FolderError::Kind(path, "folder"));
        }
        is_trusted(&metadata, &path)?;
        Ok(Folder {
            path,
            limit: LIMIT,
            known: Mutex::default(),
            is_full: AtomicBool::new(false),
            has_told: AtomicBool::new(false),
            tell: Box::new(tell),
        })
    }

    /// Sets another limit on its bytes.
    #[must_use]
    pub fn with_limit(self, limit: u64) -> Folder {
        Folder { limit, ..self }
    }

    /// Bytes of one file at most.
    fn most(&self) -> u64 {
        self.limit / 4
    }

    fn file(&self, key: &CodeKey) -> PathBuf {
        self.path.join(format!("{key}.{ENDING}"))
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, FolderError> {
        // A link leads elsewhere, and a pipe might never have anything.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        let file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("opening", path)(error)),
        };
        let metadata = file.metadata().map_err(io_error("looking at", path))?;
        if !metadata.is_file() {
            return Err(FolderError::Kind(path.to_owned(), "file"));
        }
        is_trusted(&metadata, path)?;
        if metadata.len() > self.most() {
            return Err(FolderError::Size(path.to_owned()));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
        file.take(self.most()).read_to_end(&mut bytes).map_err(io_error("reading", path))?;
        Ok(Some(bytes))
    }

    fn write(&self, key: &CodeKey, code: &[u8]) -> Result<(), FolderError> {
        // Processes of other machines and namespaces may have the same number.
        let number = RandomState::new().hash_one(std::process::id());
        let unfinished = self.path.join(format!("{number:016x}.{UNFINISHED}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished);
        let mut file = file.map_err(io_error("making", &unfinished))?;
        let written = file.write_all(code).map_err(io_error("writing", &unfinished)).and_then(|()| {
            let path = self.file(key);
            fs::rename(&unfinished, &path).map_err(io_error("making", &path))
        });
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        written
    }

    /// Counts bytes that were written, and makes room if there are too many.
    fn count(&self, bytes: u64) -> io::Result<()> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.written += bytes;
        // Others write, too: the size that was seen is right for a while only.
        let is_known = known.bytes.is_some_and(|seen| seen + known.written <= self.limit);
        if is_known && known.written <= self.limit / 16 {
            return Ok(());
        }
        *known = Known { bytes: Some(trim(&self.path, self.limit)?), written: 0 };
        Ok(())
    }

    /// Says why a file is not used, and removes it if it is this user's.
    fn refuse(&self, path: &Path, why: &FolderError) {
        if !self.has_told.swap(true, Ordering::Relaxed) {
            (self.tell)(format_args!("kept code was not used, and others like it without a word: {why}"));
        }
        let own = |metadata: &Metadata| metadata.uid() == user() && !metadata.is_dir();
        if fs::symlink_metadata(path).is_ok_and(|metadata| own(&metadata)) {
            let _ = fs::remove_file(path);
        }
    }
}

impl CodeStore for Folder {
    fn find(&self, key: &CodeKey) -> Found {
        let path = self.file(key);
        match self.read(&path) {
            Ok(Some(code)) => Found::Code(code),
            Ok(None) => Found::Nothing,
            Err(why) => {
                self.refuse(&path, &why);
                Found::Refused
            }
        }
    }

    fn keep(&self, key: &CodeKey, code: &[u8]) -> bool {
        let bytes = code.len() as u64;
        if self.is_full.load(Ordering::Relaxed) || bytes > self.most() {
            return false;
        }
        let kept = self.write(key, code);
        let is_kept = kept.is_ok();
        let counted = kept.and_then(|()| self.count(bytes).map_err(io_error("looking through", &self.path)));
        if let Err(why) = counted
            && !self.is_full.swap(true, Ordering::Relaxed)
        {
            (self.tell)(format_args!("no more code is kept: {why}"));
        }
        is_kept
    }

    fn discard(&self, key: &CodeKey, why: &dyn Error) {
        let path = self.file(key);
        self.refuse(&path, &FolderError::Content { path: path.clone(), why: why.to_string() });
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Checks that a folder is this user's, and that no other user may write to it: code that is executed may be kept
/// there.
///
/// # Errors
///
/// A folder that cannot be looked at, is another user's, or may be written to by others.
pub fn check(path: &Path) -> Result<(), FolderError> {
    is_trusted(&fs::metadata(path).map_err(io_error("looking at", path))?, path)
}

/// Checks that only this user may write to it.
fn is_trusted(metadata: &Metadata, path: &Path) -> Result<(), FolderError> {
    if metadata.uid() != user() {
        return Err(FolderError::Owner(path.to_owned()));
    }
    let mode = metadata.mode() & 0o777;
    if mode & OTHERS_WRITE != 0 {
        return Err(FolderError::Mode { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Removes the oldest files of a folder that has more than `limit` bytes, and unfinished files that are given up; the
/// bytes that are left.
///
/// Files that are not of such a folder are neither counted nor removed.
fn trim(folder: &Path, limit: u64) -> io::Result<u64> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Another process may remove it at any time.
        let Ok(metadata) = entry.metadata() else { continue };
        let Ok(modified) = metadata.modified() else { continue };
        let path = entry.path();
        if !metadata.is_file() || path.file_stem().is_none_or(|stem| !is_number(stem.as_encoded_bytes())) {
            continue;
        }
        match path.extension().and_then(|ending| ending.to_str()) {
            Some(ENDING) => files.push((modified, metadata.len(), path)),
            Some(UNFINISHED) => {
                let age = SystemTime::now().duration_since(modified).unwrap_or_default();
                if age > GIVEN_UP {
                    let _ = fs::remove_file(path);
                }
            }
            _ => {}
        }
    }
    let mut bytes = files.iter().map(|(_, len, _)| len).sum();
    if bytes <= limit {
        return Ok(bytes);
    }
    files.sort();
    // Some more than it has to be: the next file is not to begin all over.
    for (_, len, path) in files {
        if bytes <= limit - limit / 4 {
            break;
        }
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        bytes -= len;
    }
    Ok(bytes)
}

fn is_number(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests;
