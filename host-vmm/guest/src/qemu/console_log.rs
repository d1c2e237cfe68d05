//! The file that QEMU writes a guest's console to; only its end takes room on the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};

use super::super::host::CONSOLE;

/// Time between two checks of the file's length.
const EVERY: Duration = Duration::from_millis(200);
/// Holes are made of whole pages.
const PAGE: u64 = 4096;

/// The file, and the thread that frees the room of its beginning while QEMU goes on writing.
#[derive(Debug)]
pub(super) struct ConsoleLog {
    path: PathBuf,
    /// Dropped before the wait for the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ConsoleLog {
    /// Watches a file that QEMU is about to make.
    pub(super) fn new(path: PathBuf) -> io::Result<Self> {
        let (running, ended) = channel();
        let file = path.clone();
        let thread = std::thread::Builder::new().name("console log".into()).spawn(move || {
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                // If the file system has no holes, the whole file stays.
                if let Err(error) = trim(&file, CONSOLE)
                    && error.kind() != io::ErrorKind::NotFound
                {
                    log::warn!(target: "guest", "{}: {error}; the guest's console may fill the disk", file.display());
                    return;
                }
            }
        })?;
        Ok(Self { path, running: Some(running), thread: Some(thread) })
    }

    /// Returns the end of the console.
    pub(super) fn end(&self) -> Vec<u8> {
        end(&self.path, CONSOLE).unwrap_or_default()
    }
}

impl Drop for ConsoleLog {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            log::error!(target: "guest", "the thread of the console's log panicked; this is a bug in belfry");
        }
    }
}

/// Makes a hole of all but the last `kept` bytes once the file takes twice that.
fn trim(path: &Path, kept: u64) -> io::Result<()> {
    let metadata = path.metadata()?;
    if metadata.blocks() * 512 <= 2 * kept {
        return Ok(());
    }
    let hole = metadata.len().saturating_sub(kept) / PAGE * PAGE;
    if hole == 0 {
        return Ok(());
    }
    let file = OpenOptions::new().write(true).open(path)?;
    Ok(fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, hole)?)
}

/// Returns the last `kept` bytes of a file.
fn end(path: &Path, kept: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(kept)))?;
    let mut end = Vec::new();
    file.take(kept).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use belfry_process::scratch::Scratch;

    use super::*;

    #[test]
    fn endless_consoles_take_the_room_of_their_end() {
        let directory = Scratch::new().unwrap();
        let path = directory.path().join("console.log");
        let mut written = File::create(&path).unwrap();
        let kept = 64 << 10;
        for number in 0..20_000 {
            writeln!(written, "line {number:>44}").unwrap();
            if number % 500 == 0 {
                trim(&path, kept).unwrap();
            }
        }
        trim(&path, kept).unwrap();
        let metadata = path.metadata().unwrap();
        assert_eq!(metadata.len(), 20_000 * 50, "the writer's place stays");
        assert!(metadata.blocks() * 512 <= 2 * kept, "{} blocks", metadata.blocks());
        let end = end(&path, kept).unwrap();
        assert_eq!(end.len() as u64, kept);
        assert!(end.ends_with(format!("line {:>44}\n", 19_999).as_bytes()) && !end.contains(&0));
    }

    #[test]
    fn files_are_looked_after_until_their_machine_ends() {
        let directory = Scratch::new().unwrap();
        let path = directory.path().join("console.log");
        let log = ConsoleLog::new(path.clone()).unwrap();
        assert!(log.end().is_empty(), "QEMU has not made it");
        std::fs::write(&path, "Linux\n").unwrap();
        assert_eq!(log.end(), b"Linux\n");
    }
}
