//! Debuggers of hosted processes.
//!
//! All processes of a hosted driver are one process of the system, and each of them reports that process's
//! identity as its own. To others, a process gives a number that no process of the system has: a process that
//! names it by this number counts as its tracer.
//!
//! A debugger in another process of the system is represented by a process of the hosted driver. Its
//! descriptor for notices does not belong to this process, so the representative is told instead
//! ([`Notices`]).
#![expect(unsafe_code, reason = "writes to a debugger's descriptor without a signal")]

use std::cell::RefCell;
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{EventFile, ProcessKey, Target};

/// Above the identities that Linux gives processes (`PID_MAX_LIMIT`).
const FIRST_PID: u32 = 1 << 30;

/// A process that may be debugged.
#[derive(Debug)]
pub struct HostedTarget {
    key: ProcessKey,
    traced: bool,
}

/// Number by which other processes of the hosted driver name a process.
pub(crate) fn pid(key: ProcessKey) -> u32 {
    FIRST_PID | (key.0 as u32 & (FIRST_PID - 1))
}

impl HostedTarget {
    /// The process that `caller` means, whose own number is `own`.
    pub(crate) fn of(pid: u32, own: u32, caller: Option<u64>) -> Result<Self> {
        match caller {
            Some(caller) if pid == own => Ok(Self { key: ProcessKey(caller), traced: false }),
            _ if pid >= FIRST_PID => Ok(Self { key: ProcessKey(u64::from(pid - FIRST_PID)), traced: true }),
            _ => Err(Errno::ESRCH),
        }
    }
}

impl Target for HostedTarget {
    fn key(&self) -> ProcessKey {
        self.key
    }

    fn is_traced(&self) -> bool {
        self.traced
    }

    /// Only processes that have the driver open can be named, and they close it.
    fn hold(&self) -> Result<()> {
        Ok(())
    }
}

/// Told instead of a descriptor that there is an event for the debugger to ask for.
pub trait Notices: Send + Sync {
    /// Says so. Called with locks of the driver held: it waits for nothing.
    fn notify(&self);
}

thread_local! {
    /// Receiver of notices while this thread calls the driver for a debugger in another process.
    static NOTICES: RefCell<Option<Arc<dyn Notices>>> = const { RefCell::new(None) };
}

/// Runs `call` as one of a debugger whose notices go there.
pub(crate) fn telling<R>(notices: &Arc<dyn Notices>, call: impl FnOnce() -> R) -> R {
    let before = NOTICES.replace(Some(notices.clone()));
    let result = call();
    NOTICES.set(before);
    result
}

/// Destination of a debugger's notices.
pub enum HostedEventFile {
    /// Duplicate of the debugger's descriptor.
    Descriptor(File),
    /// Representative of a debugger in another process.
    Notices(Arc<dyn Notices>),
}

impl std::fmt::Debug for HostedEventFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Descriptor(file) => f.debug_tuple("Descriptor").field(file).finish(),
            Self::Notices(_) => f.write_str("Notices"),
        }
    }
}

impl HostedEventFile {
    pub(crate) fn of(fd: i32) -> Result<Self> {
        if let Some(notices) = NOTICES.with_borrow(Clone::clone) {
            return Ok(Self::Notices(notices));
        }
        if fd < 0 {
            return Err(Errno::EBADF);
        }
        // SAFETY: the number is only duplicated, at once: one that is no descriptor's is refused by the kernel.
        let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
        file.map(|fd| Self::Descriptor(fd.into())).map_err(|_| Errno::EBADF)
    }
}

/// Returns true if there is room for a byte.
fn has_room(file: &File) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure, which is this function's own.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLOUT != 0 }
}

/// Writes a byte to a debugger's descriptor, if there is room for one.
pub fn write_notice(file: &File) {
    if !has_room(file) {
        return;
    }
    // A write to a pipe without a reader raises SIGPIPE. The program is to get this signal for its own writes
    // only.
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the sets are this function's own and initialised by the first calls; the byte is static; the descriptor is open.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
        let written = libc::write(file.as_raw_fd(), b".".as_ptr().cast(), 1);
        let was_blocked = libc::sigismember(before.as_ptr(), libc::SIGPIPE) == 1;
        if written < 0 && !was_blocked {
            libc::sigtimedwait(set.as_ptr(), std::ptr::null_mut(), &raw const none);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
    }
}

impl EventFile for HostedEventFile {
    fn notify(&self) {
        match self {
            Self::Descriptor(file) => write_notice(file),
            Self::Notices(notices) => notices.notify(),
        }
    }
}

/// Returns true if this process has `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN` (capabilities(7)).
pub(crate) fn may_checkpoint() -> bool {
    const ADMIN: u32 = 21;
    const CHECKPOINT_RESTORE: u32 = 40;
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    effective & (1 << ADMIN | 1 << CHECKPOINT_RESTORE) != 0
}
