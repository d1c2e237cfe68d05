//! The wake-up of a thread that sleeps when there is nothing to do.
//!
//! A thread with news stores them and wakes; the sleeper clears the wake-up and then looks for news. Clearing reads what it
//! clears: news whose wake-up it clears are seen by the look that follows. The tests run this code under loom's memory
//! model.

use std::time::Instant;

use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, PoisonError};

/// The wake-up of one thread.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    woken: AtomicBool,
    /// True if the thread sleeps, or is about to.
    asleep: Mutex<bool>,
    condvar: Condvar,
}

impl Wake {
    /// Makes the thread look, now or as soon as its current work is done.
    pub(crate) fn wake(&self) {
        // The thread sets `asleep` before it looks at `woken` for the last time, both under the lock.
        if !self.woken.swap(true, Ordering::SeqCst) && *self.lock() {
            self.condvar.notify_one();
        }
    }

    /// Returns true if the thread has been woken and has not looked since.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    /// Clears the wake-up; a look follows.
    pub(crate) fn clear(&self) {
        self.woken.swap(false, Ordering::SeqCst);
    }

    /// Sleeps until woken, or until a point in time, and clears the wake-up.
    pub(crate) fn sleep(&self, until: Option<Instant>) {
        let mut asleep = self.lock();
        *asleep = true;
        while !self.is_woken() {
            let Some(until) = until else {
                asleep = self.condvar.wait(asleep).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            asleep = self.condvar.wait_timeout(asleep, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *asleep = false;
        drop(asleep);
        self.clear();
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.asleep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
