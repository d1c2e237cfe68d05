//! Files that stay open although the program closes all of its descriptors.
//!
//! A thread has a table of descriptors of its own, and the files in it. Others open them anew by way of `/proc`, so that each
//! opening has a position and locks of its own.
#![expect(unsafe_code, reason = "system calls about descriptors")]

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use crate::ofd;

/// Bytes of the thread's stack: it opens and closes.
const STACK: usize = 64 << 10;

/// Request to the thread.
enum Request {
    /// Opens descriptor `fd` of thread `task` anew, and holds the record at `record`, if there is one, with it.
    Keep { task: i32, fd: RawFd, record: Option<u64>, answer: SyncSender<io::Result<RawFd>> },
    /// Closes one of its own.
    Release { fd: RawFd, answer: SyncSender<()> },
}

/// The thread, which ends when nothing refers to this any more.
#[derive(Debug)]
pub(crate) struct Keeper {
    task: i32,
    requests: Sender<Request>,
}

/// A file that stays open until this is dropped.
#[derive(Debug)]
pub(crate) struct Kept {
    keeper: Arc<Keeper>,
    fd: RawFd,
}

fn own_task() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Opens a descriptor of a thread of this process once more, for reading and writing.
fn open(task: i32, fd: RawFd) -> io::Result<File> {
    File::options().read(true).write(true).open(format!("/proc/self/task/{task}/fd/{fd}"))
}

/// Gives the calling thread a table of descriptors of its own, with nothing in it; threads that it starts share that.
///
/// # Errors
///
/// A kernel or a filter that does not allow it.
pub fn leave_descriptors() -> io::Result<()> {
    let last = libc::c_uint::MAX;
    // This is the system call itself: the C library's function may be replaced by a tool that keeps its own
    // descriptors open.
    // SAFETY: this thread uses no descriptor from before.
    let result = unsafe { libc::syscall(libc::SYS_close_range, 0, last, libc::CLOSE_RANGE_UNSHARE) };
    if result == 0 { Ok(()) } else { leave_one_by_one() }
}

/// Closes descriptors one by one, if the kernel is older than Linux 5.9 or a filter does not know the call.
fn leave_one_by_one() -> io::Result<()> {
    // SAFETY: takes no pointer; from here on this thread's table is its own.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let held = std::fs::read_dir("/proc/thread-self/fd")?;
    let held: Vec<RawFd> = held.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for fd in held {
        // SAFETY: this thread uses no descriptor from before. One that is closed already, the directory's, is no error.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
    Ok(())
}

fn serve(requests: &Receiver<Request>) {
    while let Ok(request) = requests.recv() {
        match request {
            // Who asks waits for the answer.
            Request::Keep { task, fd, record, answer } => {
                let kept = open(task, fd).and_then(|file| {
                    record.map_or(Ok(()), |at| ofd::hold(&file, at)).map(|()| file.into_raw_fd())
                });
                let _ = answer.send(kept);
            }
            Request::Release { fd, answer } => {
                // SAFETY: the number is one of this thread's table, given back once.
                drop(unsafe { OwnedFd::from_raw_fd(fd) });
                let _ = answer.send(());
            }
        }
    }
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// No thread, or a system that gives a thread no descriptors of its own.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let (requests, received) = channel();
        let (started, start) = sync_channel(1);
        std::thread::Builder::new().name("belfry-files".to_owned()).stack_size(STACK).spawn(move || {
            let ready = leave_descriptors().map(|()| own_task());
            let serves = ready.is_ok();
            // Who started it waits for the answer.
            let _ = started.send(ready);
            if serves {
                serve(&received);
            }
        })?;
        let task = start.recv().map_err(io::Error::other)??;
        Ok(Arc::new(Self { task, requests }))
    }

    /// Keeps the file behind a descriptor of the calling thread.
    ///
    /// # Errors
    ///
    /// When it cannot be opened once more.
    pub(crate) fn keep(self: &Arc<Self>, fd: RawFd) -> io::Result<Kept> {
        self.keep_with(fd, None)
    }

    /// Keeps the file as [`Keeper::keep`] does, and with it holds the shared memory whose record is at `record`.
    ///
    /// # Errors
    ///
    /// As for [`Keeper::keep`].
    pub(crate) fn keep_record(self: &Arc<Self>, fd: RawFd, record: u64) -> io::Result<Kept> {
        self.keep_with(fd, Some(record))
    }

    fn keep_with(self: &Arc<Self>, fd: RawFd, record: Option<u64>) -> io::Result<Kept> {
        let (answer, answered) = sync_channel(1);
        let request = Request::Keep { task: own_task(), fd, record, answer };
        self.requests.send(request).map_err(io::Error::other)?;
        let fd = answered.recv().map_err(io::Error::other)??;
        Ok(Kept { keeper: self.clone(), fd })
    }
}

impl Kept {
    /// Opens the file once more, closed by `execve`.
    ///
    /// # Errors
    ///
    /// As for any file: too many are open.
    pub(crate) fn open(&self) -> io::Result<File> {
        open(self.keeper.task, self.fd)
    }

    /// The thread and the number by which other processes find it in `/proc`.
    pub(crate) fn place(&self) -> (i32, RawFd) {
        (self.keeper.task, self.fd)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let (answer, answered) = sync_channel(1);
        if self.keeper.requests.send(Request::Release { fd: self.fd, answer }).is_ok() {
            // A thread that has ended has closed it.
            let _ = answered.recv();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn memory() -> File {
        // SAFETY: the name is a C string, and the descriptor new.
        unsafe { File::from_raw_fd(libc::memfd_create(c"belfry-test".as_ptr(), libc::MFD_CLOEXEC)) }
    }

    #[test]
    fn file_stays_open_when_its_descriptor_is_closed_and_each_opening_has_a_position() {
        let keeper = Keeper::start().unwrap();
        let mut file = memory();
        let kept = keeper.keep(file.as_raw_fd()).unwrap();
        file.write_all(b"kept").unwrap();
        drop(file);
        for _ in 0..2 {
            let mut text = String::new();
            kept.open().unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "kept");
        }
        let mut again = kept.open().unwrap();
        again.seek(io::SeekFrom::Start(2)).unwrap();
        assert_eq!(kept.open().unwrap().stream_position().unwrap(), 0);
    }

    #[test]
    fn older_kernels_do_without_the_range() {
        let (file, held) = (memory(), || std::fs::read_dir("/proc/thread-self/fd").unwrap().count());
        let left = std::thread::spawn(move || leave_one_by_one().map(|()| held())).join().unwrap();
        // The one that looks.
        assert_eq!(left.unwrap(), 1);
        assert!(file.metadata().is_ok(), "it is this thread's still");
    }

    #[test]
    fn the_thread_holds_nothing_of_the_process() {
        let keeper = Keeper::start().unwrap();
        let held = || std::fs::read_dir(format!("/proc/self/task/{}/fd", keeper.task)).unwrap().count();
        assert_eq!(held(), 0);
        let kept = keeper.keep(memory().as_raw_fd()).unwrap();
        assert_eq!(held(), 1);
        drop(kept);
        assert_eq!(held(), 0);
    }
}
