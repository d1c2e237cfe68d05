//! SIGINT, SIGTERM, SIGHUP and SIGQUIT, as an event, for as long as a machine wants them.

#![expect(unsafe_code, reason = "signal handlers are installed, and run")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const NUMBERS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signalled by the handler; it stays open, so that a handler that runs late writes to nothing else.
static EVENT: OnceLock<EventFd> = OnceLock::new();
static CAUGHT: AtomicI32 = AtomicI32::new(0);
static TAKEN: AtomicBool = AtomicBool::new(false);

extern "C" fn handle(number: libc::c_int) {
    // SAFETY: the address of this thread's `errno`, which lives as long as the thread.
    let before = unsafe { *libc::__errno_location() };
    CAUGHT.store(number, Ordering::SeqCst);
    if let Some(event) = EVENT.get() {
        // Writing is one system call, which a handler may make; a counter that is full has been signalled.
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

/// The signals while they are caught; what they did before is back when this is dropped.
pub(super) struct Signals {
    event: &'static EventFd,
    before: Vec<(libc::c_int, libc::sigaction)>,
}

impl Signals {
    /// Catches the signals this process does not ignore; one machine at a time may.
    pub(super) fn catch() -> io::Result<Self> {
        let event = match EVENT.get() {
            Some(event) => event,
            None => {
                let event = EventFd::new(EFD_NONBLOCK)?;
                EVENT.get_or_init(|| event)
            }
        };
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(io::Error::other("another machine of this process has them"));
        }
        CAUGHT.store(0, Ordering::SeqCst);
        let _ = event.read();
        let mut signals = Self { event, before: Vec::new() };
        for number in NUMBERS {
            if get(number)?.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            // SAFETY: all zeros are a valid `sigaction`: no flags, an empty mask, the default action.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            signals.before.push((number, set(number, &action)?));
        }
        Ok(signals)
    }

    /// Ready when a signal has come.
    pub(super) fn event(&self) -> &EventFd {
        self.event
    }

    /// The last signal that has come.
    pub(super) fn caught(&self) -> Option<i32> {
        let _ = self.event.read();
        Some(CAUGHT.load(Ordering::SeqCst)).filter(|number| *number != 0)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (number, before) in &self.before {
            if let Err(error) = set(*number, before) {
                log::warn!(target: "kvm", "signal {number} stays caught: {error}");
            }
        }
        TAKEN.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_caught_and_given_back() {
        let before: Vec<_> = NUMBERS.map(|number| get(number).unwrap().sa_sigaction).into();
        let signals = Signals::catch().unwrap();
        assert!(Signals::catch().is_err(), "one at a time");
        assert_eq!(signals.caught(), None);
        // A shell's background jobs ignore some, and go on doing so.
        for number in NUMBERS.into_iter().filter(|number| get(*number).unwrap().sa_sigaction != libc::SIG_IGN)
        {
            // SAFETY: the handler is installed.
            assert_eq!(unsafe { libc::raise(number) }, 0);
            assert_eq!(signals.caught(), Some(number));
        }
        drop(signals);
        let after: Vec<_> = NUMBERS.map(|number| get(number).unwrap().sa_sigaction).into();
        assert_eq!(before, after);
        drop(Signals::catch().unwrap());
    }
}
