//! Files of the driver's and the device's that may not grow (`ulimit -f`): code that is kept, records, traces, summaries.
//!
//! A write beyond the limit raises `SIGXFSZ` in the thread that writes (`generic_write_checks`, Linux `mm/filemap.c`). That signal is
//! the program's for its own writes alone; elsewhere it is blocked, and the write fails with `EFBIG`.
#![expect(unsafe_code, reason = "masks of signals")]

use std::mem::MaybeUninit;
use std::ptr;

fn the_signal() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initialises the set, which is this function's own.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ);
        set.assume_init()
    }
}

/// Blocks the signal for a thread of the driver or the device, for as long as it lives.
pub(crate) fn block() {
    // SAFETY: changes the mask of this thread; the set is whole.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &the_signal(), ptr::null_mut()) };
}

/// A thread of the program writes such files, until this is dropped.
pub(crate) struct Writes(libc::sigset_t);

impl Writes {
    pub(crate) fn begin() -> Self {
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both sets are this function's own; all zeros are an empty set, if the call should fail.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, &the_signal(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the sets are whole. What is pending is of a write of this value's time: the signal is raised in the thread that writes.
        unsafe {
            if libc::sigismember(&raw const self.0, libc::SIGXFSZ) == 0 {
                libc::sigtimedwait(&the_signal(), ptr::null_mut(), &raw const none);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked() -> bool {
        let mut now = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: asks for the mask alone.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), now.as_mut_ptr());
            libc::sigismember(now.as_ptr(), libc::SIGXFSZ) == 1
        }
    }

    #[test]
    fn signal_of_a_write_does_not_outlive_it() {
        let writes = Writes::begin();
        assert!(is_blocked());
        // SAFETY: the signal is blocked in this thread. Without `writes` it would end the process.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGXFSZ) };
        drop(writes);
        assert!(!is_blocked());
        std::thread::spawn(|| {
            block();
            drop(Writes::begin());
            assert!(is_blocked(), "as before");
        })
        .join()
        .unwrap();
        assert!(!is_blocked());
    }
}
