//! SIGINT, SIGTERM, SIGHUP and SIGQUIT, as an event, for as long as a machine or a server wants them.

#![expect(unsafe_code, reason = "signal handlers are installed, and run")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd as _;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const NUMBERS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signalled by the handler; it stays open, so that a late handler writes to no other file.
static EVENT: OnceLock<EventFd> = OnceLock::new();
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static CAUGHT_BY: Mutex<Catchers> = Mutex::new(Catchers { count: 0, before: Vec::new() });

/// Number of machines that want the signals, and the signals' actions before the first of them.
struct Catchers {
    count: u32,
    before: Vec<(libc::c_int, libc::sigaction)>,
}

/// Returns the signal that was caught last by any machine of this process.
pub fn interrupted() -> Option<i32> {
    Some(CAUGHT.load(Ordering::SeqCst)).filter(|number| *number != 0)
}

extern "C" fn handle(number: libc::c_int) {
    // SAFETY: the address of this thread's `errno`, which lives as long as the thread.
    let before = unsafe { *libc::__errno_location() };
    CAUGHT.store(number, Ordering::SeqCst);
    if let Some(event) = EVENT.get() {
        // Writing is one system call, which a handler may make; if the counter is full, it has been signalled.
        let _ = event.write(1);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = before };
}

fn set(number: libc::c_int, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = MaybeUninit::uninit();
    // SAFETY: both point to a `sigaction` of this frame, and the handler in `action` is either `handle`, which does only
    // what handlers may, or one that was installed before.
    if unsafe { libc::sigaction(number, action, before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded and filled it in.
    Ok(unsafe { before.assume_init() })
}

fn get(number: libc::c_int) -> io::Result<libc::sigaction> {
    let mut now = MaybeUninit::uninit();
    // SAFETY: a null action changes nothing; the other pointer is to a `sigaction` of this frame.
    if unsafe { libc::sigaction(number, ptr::null(), now.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded and filled it in.
    Ok(unsafe { now.assume_init() })
}

fn catch() -> io::Result<Vec<(libc::c_int, libc::sigaction)>> {
    let mut before = Vec::new();
    for number in NUMBERS {
        if get(number)?.sa_sigaction == libc::SIG_IGN {
            continue;
        }
        // SAFETY: all zeros are a valid `sigaction`: no flags, an empty mask, the default action.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        before.push((number, set(number, &action)?));
    }
    Ok(before)
}

/// The signals while a machine wants them; their old actions return when the last of these is dropped.
#[derive(Debug)]
pub struct Signals {
    event: &'static EventFd,
}

impl Signals {
    /// Catches the signals that this process does not ignore, for every machine that wants them.
    ///
    /// # Errors
    ///
    /// The host has no more descriptors, or refuses an action of a signal.
    pub fn catch() -> io::Result<Self> {
        let mut catchers = CAUGHT_BY.lock().unwrap_or_else(PoisonError::into_inner);
        let event = match EVENT.get() {
            Some(event) => event,
            None => {
                let event = EventFd::new(EFD_NONBLOCK)?;
                EVENT.get_or_init(|| event)
            }
        };
        if catchers.count == 0 {
            CAUGHT.store(0, Ordering::SeqCst);
            let _ = event.read();
            catchers.before = catch()?;
        }
        catchers.count += 1;
        Ok(Self { event })
    }

    /// Waits for the first signal.
    pub fn wait(&self) {
        let mut fd = libc::pollfd { fd: self.event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the one entry is in this frame.
        while unsafe { libc::poll(&raw mut fd, 1, -1) } < 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }

    /// Returns an event that is ready from the first signal on.
    pub fn event(&self) -> &EventFd {
        self.event
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut catchers = CAUGHT_BY.lock().unwrap_or_else(PoisonError::into_inner);
        catchers.count -= 1;
        if catchers.count > 0 {
            return;
        }
        for (number, before) in catchers.before.drain(..) {
            if let Err(error) = set(number, &before) {
                log::warn!(target: "kvm", "signal {number} stays caught: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_caught_and_given_back() {
        let before: Vec<_> = NUMBERS.map(|number| get(number).unwrap().sa_sigaction).into();
        let signals = Signals::catch().unwrap();
        drop(Signals::catch().unwrap());
        assert_eq!(interrupted(), None);
        // A shell's background jobs ignore some signals, and go on doing so.
        for number in NUMBERS.into_iter().filter(|number| get(*number).unwrap().sa_sigaction != libc::SIG_IGN)
        {
            // SAFETY: the handler is installed.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            assert_eq!((interrupted(), signals.event().read().is_ok()), (Some(number), true));
        }
        drop(signals);
        let after: Vec<_> = NUMBERS.map(|number| get(number).unwrap().sa_sigaction).into();
        assert_eq!(before, after);
    }
}
