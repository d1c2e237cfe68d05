//! The guest's output, on its way from a vCPU to the thread that shows it.

use std::io;
use std::sync::{Arc, PoisonError};

use belfry_lock::{Condvar, Mutex, MutexGuard, rank};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

/// Bytes that are kept for a reader before the guest has to wait.
const LIMIT: usize = 64 << 10;

#[derive(Debug, Default)]
struct State {
    pending: Vec<u8>,
    closed: bool,
}

/// A bounded buffer with an event for its reader.
#[derive(Debug)]
pub(super) struct Console {
    state: Mutex<State, rank::Console>,
    taken: Condvar,
    /// Signalled when there is output to take.
    pub(super) ready: EventFd,
}

impl Console {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let ready = EventFd::new(EFD_NONBLOCK)?;
        Ok(Arc::new(Self { state: Mutex::default(), taken: Condvar::new(), ready }))
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Console> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all output.
    pub(super) fn take(&self) -> Vec<u8> {
        let pending = std::mem::take(&mut self.lock().pending);
        self.taken.notify_all();
        pending
    }

    /// Marks that there is no reader any more: writers do not wait.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.taken.notify_all();
    }
}

/// The writing side, for the serial port.
#[derive(Debug)]
pub(super) struct ConsoleWriter(pub(super) Arc<Console>);

impl io::Write for ConsoleWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        while state.pending.len() >= LIMIT && !state.closed {
            state = self.0.taken.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed && state.pending.len() >= LIMIT {
            return Ok(data.len());
        }
        if state.pending.is_empty() {
            self.0.ready.write(1)?;
        }
        state.pending.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
