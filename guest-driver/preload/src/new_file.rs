//! Files that a process leaves in a directory of several programs.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Programs that one process can be, one after the other, with a file each.
const MOST: u32 = 1000;

/// Makes the file of the first number from 0 on whose name is free.
///
/// # Errors
///
/// The error that keeps a file from being made; also a thousand names that are taken.
pub(crate) fn create(directory: &Path, name: impl Fn(u32) -> String) -> io::Result<(File, PathBuf)> {
    for number in 0..MOST {
        let path = directory.join(name(number));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, path)),
        }
    }
    Err(io::Error::other("there are files of a thousand programs of this process"))
}
