//! The record of this process's GPUs: a file in the directory that `belfry exec --record` has named.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use belfry_device::record::Recording;
use belfry_kfd_hosted::prepared::RECORD_ENDING;

use crate::{companion, new_file, notice, trace};

/// Name of this process's record; null without one, and never freed. A lock would be in the way of children that are forked.
static NAME: AtomicPtr<String> = AtomicPtr::new(null_mut());

/// Begins the record; `None` if there can be no file, of which the user is told.
pub(crate) fn start(directory: &Path) -> Option<Recording> {
    match file(directory) {
        Ok(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            NAME.store(Box::into_raw(Box::new(name)), Ordering::Release);
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
#[expect(unsafe_code, reason = "reads what was leaked")]
pub(crate) fn name() -> String {
    // SAFETY: null, or a box that `start` has leaked.
    unsafe { NAME.load(Ordering::Acquire).as_ref() }.cloned().unwrap_or_default()
}

/// Makes a file: `PROGRAM-PID.record`, with a number after the PID if the process has become another program.
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
