//! userfaultfd: the kernel's way to tell a process of changes to its memory (linux/userfaultfd.h).
#![expect(unsafe_code, reason = "system calls")]

use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use crate::real::raw;

const UFFD_API: u64 = 0xaa;
const UFFDIO_API: usize = 0xc018_aa3f;
const UFFDIO_REGISTER: usize = 0xc020_aa00;
const UFFDIO_UNREGISTER: usize = 0x8010_aa01;
const UFFDIO_WRITEPROTECT: usize = 0xc018_aa06;
const REGISTER_MODE_WP: u64 = 1 << 1;
const WRITEPROTECT_MODE_WP: u64 = 1;
/// Only faults of programs, not of the kernel on their behalf: the mode that unprivileged processes may ask for.
const USER_MODE_ONLY: usize = 1;

/// Write protection works.
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
/// `mremap` is reported.
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
/// Unmapping is reported.
const FEATURE_EVENT_UNMAP: u64 = 1 << 6;
/// Faults name the address and not only the page.
const FEATURE_EXACT_ADDRESS: u64 = 1 << 11;
/// Write protection works on shared memory.
const FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;

const EVENT_PAGEFAULT: u8 = 0x12;
const EVENT_REMAP: u8 = 0x14;
const EVENT_REMOVE: u8 = 0x15;
const EVENT_UNMAP: u8 = 0x16;

/// Purpose of a userfaultfd.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// To be told that memory was unmapped.
    Unmapping,
    /// To be told before shared memory is written.
    Writing,
}

/// Event of a userfaultfd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A thread waits with a store to this address.
    Write(usize),
    /// A range is gone.
    Unmapped(Range<usize>),
    /// Something that was not asked for.
    Other,
}

/// Answer to the question of whether events of a range are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Registered {
    Yes,
    /// Not all of it.
    No,
    /// Unknown while there are events that were not read.
    Busy,
}

/// Result of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Event(Event),
    /// Nothing in the time given.
    Nothing,
    /// The program has closed the descriptor by a call that this library did not see.
    Gone,
}

/// A userfaultfd. Its descriptor stays out of the program's way: at a high number, and moved on if the program wants that.
#[derive(Debug)]
pub(crate) struct Userfault {
    slot: &'static AtomicI32,
}

/// Descriptors of this library, -1 where there is none.
static DESCRIPTORS: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];
/// Their inodes: a program that makes system calls of its own may have put something else under their numbers.
static INODES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Longest wait for an event. A wait keeps a userfaultfd alive after the program has closed its number by a system call
/// of its own, and with it the threads that wait for it to be read.
const LONGEST: Duration = Duration::from_millis(250);

/// Returns true if a descriptor is this library's.
pub(crate) fn is_ours(fd: i32) -> bool {
    fd >= 0
        && DESCRIPTORS.iter().zip(&INODES).any(|(slot, inode)| {
            slot.load(Ordering::Relaxed) == fd
                && raw::fstat(fd).is_some_and(|stat| stat.st_ino == inode.load(Ordering::Relaxed))
        })
}

/// The descriptors of this library.
pub(crate) fn descriptors() -> impl Iterator<Item = i32> {
    DESCRIPTORS.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|&fd| fd >= 0)
}

/// Makes a descriptor number free for the program, if it is this library's.
pub(crate) fn make_way(fd: i32) {
    // A child of `vfork` loses copies that it does not need: the numbers are the parent's.
    if !is_ours(fd) || crate::gpu::own().is_none() {
        return;
    }
    for slot in &DESCRIPTORS {
        if fd >= 0 && slot.load(Ordering::Relaxed) == fd {
            slot.store(high(fd), Ordering::Relaxed);
        }
    }
}

/// In a forked child the descriptors are of no use, and closed.
pub(crate) fn forget() {
    for slot in &DESCRIPTORS {
        let fd = slot.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            crate::identity::raw_close(fd);
        }
    }
}

/// A copy of a descriptor at a number that programs seldom reach.
fn high(fd: i32) -> i32 {
    for from in [960, 240, 100, 3] {
        // SAFETY: copies a descriptor to a free number.
        let copy = unsafe {
            raw::call(libc::SYS_fcntl, [fd as usize, libc::F_DUPFD_CLOEXEC as usize, from, 0, 0, 0])
        };
        if copy >= 0 {
            return copy as i32;
        }
    }
    -1
}

impl Userfault {
    /// Makes a userfaultfd for a purpose; `None` if the kernel or a sandbox does not allow it.
    pub(crate) fn new(purpose: Purpose) -> Option<Self> {
        let (slot, features) = match purpose {
            Purpose::Unmapping => {
                (&DESCRIPTORS[0], FEATURE_PAGEFAULT_FLAG_WP | FEATURE_EVENT_UNMAP | FEATURE_EVENT_REMAP)
            }
            Purpose::Writing => (
                &DESCRIPTORS[1],
                FEATURE_PAGEFAULT_FLAG_WP | FEATURE_EXACT_ADDRESS | FEATURE_WP_HUGETLBFS_SHMEM,
            ),
        };
        let flags = libc::O_CLOEXEC as usize | libc::O_NONBLOCK as usize | USER_MODE_ONLY;
        // SAFETY: makes a descriptor.
        let fd = unsafe { raw::call(libc::SYS_userfaultfd, [flags, 0, 0, 0, 0, 0]) };
        if fd < 0 {
            return None;
        }
        let copy = high(fd as i32);
        crate::identity::raw_close(fd as i32);
        slot.store(copy, Ordering::Relaxed);
        let inode = raw::fstat(copy).map_or(0, |stat| stat.st_ino);
        INODES[purpose as usize].store(inode, Ordering::Relaxed);
        let userfault = Self { slot };
        let mut api = [UFFD_API, features, 0];
        let agreed = userfault.control(UFFDIO_API, &mut api) && api[1] & features == features;
        if !agreed {
            crate::identity::raw_close(slot.swap(-1, Ordering::Relaxed));
        }
        agreed.then_some(userfault)
    }

    fn fd(&self) -> usize {
        self.slot.load(Ordering::Relaxed) as usize
    }

    fn control<const N: usize>(&self, request: usize, argument: &mut [u64; N]) -> bool {
        self.request(request, argument) == 0
    }

    /// 0, or a negative errno.
    fn request<const N: usize>(&self, request: usize, argument: &mut [u64; N]) -> isize {
        let argument = argument.as_mut_ptr() as usize;
        // SAFETY: each request is given the words of its structure.
        unsafe { raw::call(libc::SYS_ioctl, [self.fd(), request, argument, 0, 0, 0]) }
    }

    /// Begins to tell of a range; fails where there is memory it cannot tell of.
    pub(crate) fn register(&self, range: &Range<usize>) -> bool {
        let mut argument = [range.start as u64, range.len() as u64, REGISTER_MODE_WP, 0];
        self.control(UFFDIO_REGISTER, &mut argument)
    }

    /// Tells no more of a range.
    pub(crate) fn unregister(&self, range: &Range<usize>) {
        self.control(UFFDIO_UNREGISTER, &mut [range.start as u64, range.len() as u64]);
    }

    /// Has the next store to a range wait, or lets all stores through.
    pub(crate) fn protect(&self, range: &Range<usize>, protected: bool) -> bool {
        self.write_protect(range, protected) == 0
    }

    fn write_protect(&self, range: &Range<usize>, protected: bool) -> isize {
        let mode = if protected { WRITEPROTECT_MODE_WP } else { 0 };
        self.request(UFFDIO_WRITEPROTECT, &mut [range.start as u64, range.len() as u64, mode])
    }

    /// Tells if events are reported for all of a range in which stores are let through.
    ///
    /// Letting them through once more changes nothing, and fails where something else was mapped meanwhile.
    pub(crate) fn is_registered(&self, range: &Range<usize>) -> Registered {
        match i32::try_from(-self.write_protect(range, false)) {
            Ok(0) => Registered::Yes,
            Ok(libc::EAGAIN) => Registered::Busy,
            _ => Registered::No,
        }
    }

    /// Returns true if the descriptor is this library's no more.
    pub(crate) fn is_gone(&self) -> bool {
        !is_ours(self.slot.load(Ordering::Relaxed))
    }

    /// Waits for an event, for a while at most.
    pub(crate) fn read(&self, patience: Option<Duration>) -> Read {
        loop {
            let fd = self.slot.load(Ordering::Relaxed);
            if !is_ours(fd) {
                return Read::Gone;
            }
            let mut message = [0u64; 4];
            let at = message.as_mut_ptr() as usize;
            // SAFETY: the buffer is live and as long as it says.
            let count = unsafe { raw::call(libc::SYS_read, [fd as usize, at, 32, 0, 0, 0]) };
            match i32::try_from(-count) {
                _ if count == 32 => return Read::Event(event(message)),
                Ok(libc::EINTR) => {}
                Ok(libc::EAGAIN) => {
                    if !self.wait(patience) {
                        return Read::Nothing;
                    }
                }
                _ => return Read::Gone,
            }
        }
    }

    /// Sleeps until there is something to read; `false` when the time is over, or for now.
    pub(crate) fn wait(&self, patience: Option<Duration>) -> bool {
        let patience = patience.unwrap_or(LONGEST).min(LONGEST);
        let mut poll = libc::pollfd { fd: self.fd() as i32, events: libc::POLLIN, revents: 0 };
        let time = libc::timespec {
            tv_sec: patience.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(patience.subsec_nanos()),
        };
        let time = (&raw const time) as usize;
        // SAFETY: one structure and a time, which live as long as the call.
        unsafe { raw::call(libc::SYS_ppoll, [(&raw mut poll) as usize, 1, time, 0, 0, 0]) != 0 }
    }
}

/// Decodes `struct uffd_msg`.
fn event(message: [u64; 4]) -> Event {
    match message[0] as u8 {
        EVENT_PAGEFAULT => Event::Write(message[2] as usize),
        EVENT_UNMAP | EVENT_REMOVE => Event::Unmapped(message[1] as usize..message[2] as usize),
        EVENT_REMAP => {
            let (from, len) = (message[1] as usize, message[3] as usize);
            Event::Unmapped(from..from.saturating_add(len))
        }
        _ => Event::Other,
    }
}
