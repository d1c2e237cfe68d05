//! Ends of children with the processor time that they and their own children took.
#![expect(unsafe_code, reason = "wait4 and descriptors of processes have no wrapper in the standard library")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

/// End of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Exit status; 128 + the signal's number after a signal.
    pub status: i32,
    /// Processor time of the child and of all its descendants that were waited for.
    pub processor: Duration,
}

/// Waits for the end of a child; `None` if it takes longer than `limit`: then it is killed.
///
/// # Errors
///
/// Errors of the system; a child that was waited for already is one.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<Usage>> {
    let descriptor = open(child.id())?;
    let until = Instant::now() + limit;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let ms = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which is this function's own.
        let ready = unsafe { libc::poll(&raw mut poll, 1, ms) };
        match ready {
            1 => return reap(child.id()).map(Some),
            0 if left.is_zero() || until <= Instant::now() => {
                child.kill()?;
                reap(child.id())?;
                return Ok(None);
            }
            0 => {}
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn open(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes a number and flags; it touches no memory.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just made the descriptor for this call alone.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

fn reap(pid: u32) -> io::Result<Usage> {
    let mut status = 0;
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: status and usage are this function's own.
    if unsafe { libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let status =
        if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 128 + libc::WTERMSIG(status) };
    Ok(Usage { status, processor: time(usage.ru_utime) + time(usage.ru_stime) })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn shell(text: &str) -> Child {
        Command::new("sh").args(["-c", text]).spawn().unwrap()
    }

    #[test]
    fn times_of_grandchildren_count() {
        let mut child = shell("sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; exit 3");
        let usage = wait(&mut child, Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(usage.status, 3);
        assert!(usage.processor > Duration::ZERO);
    }

    #[test]
    fn signals_are_told_and_limits_kept() {
        let usage = wait(&mut shell("kill -9 $$"), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(usage.status, 128 + 9);
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(wait(&mut child, Duration::from_millis(20)).unwrap(), None);
        assert!(wait(&mut child, Duration::from_millis(20)).is_err(), "it is gone");
    }
}
