//! The end of a machine: the first reason for it, and the event that wakes the threads which wait for it.

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

use belfry_lock::{Mutex, rank};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// End of a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum End {
    /// The guest wrote a status to the debug-exit port.
    Exit(u8),
    /// The guest asked for a reset.
    Reset,
    /// The guest switched itself off.
    PowerOff,
    /// A vCPU cannot go on.
    Crash(String),
    /// The time limit has passed.
    Timeout(Duration),
    /// Its [`Handle`](crate::Handle) was used.
    Stopped,
    /// This process was sent a signal.
    Signal(i32),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "status {status}"),
            Self::PowerOff => f.write_str("it switched itself off"),
            Self::Stopped => f.write_str("it was stopped"),
            Self::Signal(number) => write!(f, "signal {number} ended it"),
            Self::Reset => f.write_str("it asked for a reset"),
            Self::Crash(what) => f.write_str(what),
            Self::Timeout(limit) => write!(f, "it was stopped after {limit:?}"),
        }
    }
}

/// The first reason to end, and the event that signals it.
#[derive(Debug)]
pub(crate) struct Ending {
    reason: Mutex<Option<End>, rank::Ending>,
    pub(crate) event: EventFd,
}

impl Ending {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { reason: Mutex::new(None), event: EventFd::new(EFD_NONBLOCK)? })
    }

    pub(crate) fn end(&self, end: End) {
        let mut reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if reason.is_none() {
            *reason = Some(end);
            // If the counter is full, it has been signalled.
            let _ = self.event.write(1);
        }
    }

    pub(crate) fn reason(&self) -> Option<End> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
