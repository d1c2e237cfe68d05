//! Work that was submitted, and waiting for its end.

use std::time::Duration;

use super::error::QueueError;
use super::{Queue, Uses};
use crate::signal::Signal;

/// Work on its way: a dispatch or a barrier that was submitted.
///
/// Dropping it does not wait; the resources of the work live on until it is done.
#[must_use = "wait for the work, or drop this on purpose with `let _ =`"]
#[derive(Debug)]
pub struct Completion {
    queue: Queue,
    signal: Signal,
    uses: Uses,
}

impl Completion {
    pub(super) fn new(queue: &Queue, signal: Signal, uses: Uses) -> Self {
        Self { queue: queue.clone(), signal, uses }
    }

    /// Waits until the work is done.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stopped`] and [`QueueError::MemoryFault`] when it failed.
    pub fn wait(&self) -> Result<(), QueueError> {
        self.queue.inner.wait(&self.signal, None)
    }

    /// Waits until the work is done, or for the given time.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait), and [`QueueError::Timeout`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), QueueError> {
        self.queue.inner.wait(&self.signal, Some(timeout))
    }

    /// True once the work is done.
    pub fn is_done(&self) -> bool {
        self.signal.load() <= 0
    }

    /// The completion signal, 1 until the work is done and then 0: a dependency for barriers.
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// Time for which the GPU worked, by its own clock; `None` until it is done.
    pub fn gpu_time(&self) -> Option<Duration> {
        let (start, end) = self.signal.timestamps();
        let ticks = end.checked_sub(start).filter(|_| self.is_done())?;
        Some(Duration::from_nanos(ticks.saturating_mul(10)))
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if !self.is_done() {
            self.queue.inner.park(self.signal.clone(), std::mem::take(&mut self.uses));
        }
    }
}
