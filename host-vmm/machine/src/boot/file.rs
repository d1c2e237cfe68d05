//! Files of the host, read whole, with a limit.

use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::KernelError;

/// Largest kernel in bytes.
const KERNEL_LIMIT: u64 = 1 << 30;

/// Reason why a file was not read.
pub(super) enum ReadError {
    Io(io::Error),
    TooLarge,
}

/// Reads a regular file of at most `limit` bytes.
pub(super) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    // Opening a pipe without a writer must not wait, hence O_NONBLOCK.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(ReadError::Io)?;
    let metadata = file.metadata().map_err(ReadError::Io)?;
    if !metadata.is_file() {
        return Err(ReadError::Io(io::Error::other("it is not a regular file")));
    }
    if metadata.len() > limit {
        return Err(ReadError::TooLarge);
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content).map_err(ReadError::Io)?;
    if content.len() as u64 > limit { Err(ReadError::TooLarge) } else { Ok(content) }
}

/// A file that may be a kernel.
pub(super) struct Image {
    path: PathBuf,
    pub(super) content: Vec<u8>,
}

impl Image {
    pub(super) fn open(path: &Path) -> Result<Self, KernelError> {
        let content = read(path, KERNEL_LIMIT).map_err(|error| match error {
            ReadError::Io(source) => KernelError::Read { path: path.to_owned(), source },
            ReadError::TooLarge => {
                KernelError::NotAKernel { path: path.to_owned(), why: "it has more than 1 GiB".to_owned() }
            }
        })?;
        Ok(Self { path: path.to_owned(), content })
    }

    pub(super) fn is_elf(&self) -> bool {
        self.content.starts_with(b"\x7fELF")
    }

    /// Makes the error for a mistake in the file.
    pub(super) fn bad(&self, why: impl Into<String>) -> KernelError {
        KernelError::NotAKernel { path: self.path.clone(), why: why.into() }
    }
}
