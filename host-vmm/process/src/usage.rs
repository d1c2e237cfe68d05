//! Ends of children with the processor time that they and their own children took.
#![expect(unsafe_code, reason = "wait4 has no wrapper in the standard library")]

use std::io;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

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
    if ends_within(Pid::from_child(child), limit)? {
        return reap(child.id()).map(Some);
    }
    child.kill()?;
    reap(child.id())?;
    Ok(None)
}

/// Waits for the end of a child that is not reaped yet; false if it takes longer than `limit`.
///
/// # Errors
///
/// Errors of the system; a time limit that it has no form for.
pub fn ends_within(child: Pid, limit: Duration) -> io::Result<bool> {
    let process = pidfd_open(child, PidfdFlags::empty())?;
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
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
