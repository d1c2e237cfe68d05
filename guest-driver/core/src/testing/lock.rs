//! Locks of the bench, and a gate that holds threads.

use core::cell::Cell;
use std::sync::{Condvar, Mutex, PoisonError};

use super::{lock, std};
use crate::os::{RawLock, WaitOutcome, WaitQueue};

/// A place where threads wait while it is closed.
#[derive(Default)]
pub(crate) struct Gate {
    /// State of the gate: closed or not, and the number of threads that wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn close(&self) {
        lock(&self.state).0 = true;
    }

    pub(crate) fn open(&self) {
        lock(&self.state).0 = false;
        self.changed.notify_all();
    }

    /// Returns once a thread waits.
    pub(crate) fn wait_for_waiter(&self) {
        let mut state = lock(&self.state);
        while state.1 == 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn pass(&self) {
        let mut state = lock(&self.state);
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.1 -= 1;
    }
}

std::thread_local! {
    /// Locks this thread holds.
    pub(crate) static HELD: Cell<u32> = const { Cell::new(0) };
}

#[derive(Default)]
pub(crate) struct FakeLock {
    held: Mutex<bool>,
    free: Condvar,
}

impl RawLock for FakeLock {
    fn lock(&self) {
        let mut held = lock(&self.held);
        while *held {
            held = self.free.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        *held = true;
        HELD.set(HELD.get() + 1);
    }

    unsafe fn unlock(&self) {
        HELD.set(HELD.get() - 1);
        *lock(&self.held) = false;
        self.free.notify_one();
    }
}

pub(crate) struct FakeQueue;

impl WaitQueue for FakeQueue {
    fn ticket(&self) -> u64 {
        0
    }

    fn wait(&self, _: u64, timeout_ns: Option<u64>) -> WaitOutcome {
        if timeout_ns.is_some() { WaitOutcome::TimedOut } else { WaitOutcome::Interrupted }
    }

    fn wake_all(&self) {}
}
