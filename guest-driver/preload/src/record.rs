//! The record of this process's GPU: a file in the directory that `belfry exec --record` has named.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use belfry_device::record::Recording;
use belfry_kfd_hosted::prepared::RECORD_ENDING;

use crate::{companion, new_file, notice, trace};

/// Name of this process's record; empty without one.
static NAME: Mutex<String> = Mutex::new(String::new());

/// Begins the record; none, which is said, where there can be no file.
pub(crate) fn start(directory: &Path) -> Option<Recording> {
    match file(directory) {
        Ok(path) => {
            *lock() = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Some(Recording::new(Appended(path)))
        }
        Err(error) => {
            let directory = directory.display();
            notice::say(format_args!("this process is not recorded: a file in {directory}: {error}"));
            None
        }
    }
}

/// Name of this process's record in the directory.
pub(crate) fn name() -> String {
    lock().clone()
}

fn lock() -> std::sync::MutexGuard<'static, String> {
    NAME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a file: `PROGRAM-PID.record`, or with a number behind the PID for what has become another program.
fn file(directory: &Path) -> io::Result<PathBuf> {
    let begin = format!("{}-{}", trace::program(), companion::process());
    let name = |number| match number {
        0 => format!("{begin}.{RECORD_ENDING}"),
        _ => format!("{begin}-{number}.{RECORD_ENDING}"),
    };
    new_file::create(directory, name).map(|(_, path)| path)
}

/// A file that is opened for each write: a program may close descriptors that it does not know.
struct Appended(PathBuf);

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = OpenOptions::new().append(true).custom_flags(libc::O_CLOEXEC).open(&self.0);
        file?.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
