//! Locks of open files on bytes of their file (`F_OFD_SETLK`, fcntl(2)): they tell which shared memory is in use.
#![expect(unsafe_code, reason = "system calls about descriptors")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Takes a lock of the record at `at`; fails at once where another open file has one that excludes it.
fn lock(file: &File, kind: i32, at: u64) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at as libc::off_t,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the structure is this function's own.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes an open file one of the record at `at`: its position and its lock say so.
pub(crate) fn hold(file: &File, at: u64) -> io::Result<()> {
    lock(file, libc::F_RDLCK, at)?;
    // SAFETY: a position of a file that no other code has yet.
    match unsafe { libc::lseek(file.as_raw_fd(), at as libc::off_t, libc::SEEK_SET) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Keeps others from holding the record at `at` while `file` is open; fails where one does.
pub(super) fn claim(file: &File, at: u64) -> io::Result<()> {
    lock(file, libc::F_WRLCK, at)
}

/// Takes a claim back; also where a forked process has the open file as well.
pub(super) fn release(file: &File, at: u64) {
    // Nothing is left to do about a failure: the claim goes with the file.
    let _ = lock(file, libc::F_UNLCK, at);
}
