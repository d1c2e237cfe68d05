//! Eventfds that hear of points of syncobjs (`drm_syncobj_eventfd_ioctl` of `drm_syncobj.c`).
#![expect(unsafe_code, reason = "system calls about a descriptor")]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd, RawFd};
use std::sync::{Arc, Weak};

use belfry_kfd_core::{Errno, Result};

use super::{Ends, Syncobj, are_over};

/// An eventfd of the program's, as a descriptor of the driver's own.
#[derive(Debug)]
struct EventFd {
    file: Option<File>,
    number: u64,
}

/// The kernel's number of an eventfd, which no other one has; `None` for another file.
fn number(fd: RawFd) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("eventfd-id:")?.trim().parse().ok())
}

impl EventFd {
    /// `EBADF` for no descriptor, `EINVAL` for one of anything else (`eventfd_ctx_fdget`).
    fn of(fd: RawFd) -> Result<Self> {
        // SAFETY: makes a descriptor, or nothing.
        let own = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) };
        if own < 0 {
            let errno = std::io::Error::last_os_error().raw_os_error();
            return Err(if errno == Some(libc::EMFILE) { Errno::EMFILE } else { Errno::EBADF });
        }
        // SAFETY: the descriptor is this function's own.
        let file = unsafe { File::from_raw_fd(own) };
        let number = number(own).ok_or(Errno::EINVAL)?;
        Ok(Self { file: Some(file), number })
    }

    /// Adds one, unless the program has closed this descriptor, as it may when it closes all of its own.
    fn add_one(&self) {
        let Some(mut file) = self.file.as_ref().filter(|file| number(file.as_raw_fd()) == Some(self.number))
        else {
            return;
        };
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // A full one would have the driver wait for the program.
        // SAFETY: one structure, which is this function's own.
        if unsafe { libc::poll(&raw mut poll, 1, 0) } == 1 && poll.revents & libc::POLLOUT != 0 {
            let _ = file.write(&1u64.to_ne_bytes());
        }
    }
}

impl Drop for EventFd {
    fn drop(&mut self) {
        // Closed by the program, the descriptor may be another file's by now.
        if self.file.as_ref().is_some_and(|file| number(file.as_raw_fd()) != Some(self.number)) {
            let _ = self.file.take().map(IntoRawFd::into_raw_fd);
        }
    }
}

/// Condition that an eventfd waits for.
#[derive(Debug)]
enum Awaited {
    /// A point to be there; forgotten with the syncobj.
    Point { syncobj: Weak<Syncobj>, point: u64, available: bool },
    /// The end of its work.
    Work(Ends),
}

/// An eventfd that is to hear of something.
#[derive(Debug)]
pub(crate) struct Event {
    fd: EventFd,
    awaited: Awaited,
}

/// Values to be dropped when no lock is held: the drop may report the end of work.
pub(crate) type Rest = (Vec<Event>, Vec<Arc<Syncobj>>);

impl Event {
    /// # Errors
    ///
    /// As [`EventFd::of`].
    pub(crate) fn new(fd: RawFd, syncobj: &Arc<Syncobj>, point: u64, available: bool) -> Result<Self> {
        let awaited = Awaited::Point { syncobj: Arc::downgrade(syncobj), point, available };
        Ok(Self { fd: EventFd::of(fd)?, awaited })
    }

    /// Returns true if there is nothing left to wait for; the eventfd has been told then.
    fn is_done(&mut self, held: &mut Vec<Arc<Syncobj>>) -> bool {
        if let Awaited::Point { syncobj, point, available } = &self.awaited {
            let Some(syncobj) = syncobj.upgrade() else { return true };
            let found = syncobj.find(*point);
            held.push(syncobj);
            let Some(ends) = found else { return false };
            if *available {
                self.fd.add_one();
                return true;
            }
            self.awaited = Awaited::Work(ends);
        }
        let over = matches!(&self.awaited, Awaited::Work(ends) if are_over(ends));
        if over {
            self.fd.add_one();
        }
        over
    }

    /// Tells the eventfds whose condition holds. Returns their events, and other values to drop without a lock.
    pub(crate) fn look(events: &mut Vec<Self>) -> Rest {
        let (mut done, mut held) = (Vec::new(), Vec::new());
        let mut at = 0;
        while let Some(event) = events.get_mut(at) {
            if event.is_done(&mut held) {
                done.push(events.swap_remove(at));
            } else {
                at += 1;
            }
        }
        (done, held)
    }
}
