//! Locks, wait queues and work over the standard library.
#![expect(unsafe_code, reason = "the driver's lock trait has an unsafe method")]

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use belfry_device::time::TimeSource;
use belfry_kfd_core::os;

/// Locks a mutex whose data stays usable when another thread panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock with separate lock and unlock.
#[derive(Debug, Default)]
pub struct Lock {
    held: Mutex<bool>,
    free: Condvar,
}

impl os::RawLock for Lock {
    fn lock(&self) {
        let mut held = lock(&self.held);
        while *held {
            held = self.free.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        *held = true;
    }

    unsafe fn unlock(&self) {
        *lock(&self.held) = false;
        self.free.notify_one();
    }
}

/// A wait queue that counts its wake-ups.
#[derive(Debug)]
pub struct WaitQueue {
    generation: Mutex<u64>,
    woken: Condvar,
    time: TimeSource,
}

impl WaitQueue {
    /// How often a thread that waits looks at a time that the host's clock does not move.
    const LOOK: Duration = Duration::from_millis(1);

    /// A wait queue whose timeouts go by `time`.
    pub(crate) fn new(time: &TimeSource) -> Self {
        Self { generation: Mutex::default(), woken: Condvar::new(), time: time.clone() }
    }
}

impl os::WaitQueue for WaitQueue {
    fn ticket(&self) -> u64 {
        *lock(&self.generation)
    }

    fn wait(&self, ticket: u64, timeout_ns: Option<u64>) -> os::WaitOutcome {
        let deadline = timeout_ns.and_then(|ns| self.time.now().checked_add(Duration::from_nanos(ns)));
        let mut generation = lock(&self.generation);
        while *generation == ticket {
            generation = match deadline {
                None => self.woken.wait(generation).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let rest = deadline.saturating_sub(self.time.now());
                    if rest.is_zero() {
                        return os::WaitOutcome::TimedOut;
                    }
                    let rest = self.time.on_host(rest).unwrap_or(Self::LOOK);
                    self.woken.wait_timeout(generation, rest).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        os::WaitOutcome::Woken
    }

    fn wake_all(&self) {
        *lock(&self.generation) += 1;
        self.woken.notify_all();
    }
}

/// Work, of which every run has a thread of its own.
pub struct WorkItem(pub(crate) Arc<dyn os::Work>);

impl std::fmt::Debug for WorkItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkItem").finish_non_exhaustive()
    }
}

impl os::WorkItem for WorkItem {
    fn queue(&self) {
        let work = self.0.clone();
        let spawned = std::thread::Builder::new().name("belfry-work".to_owned()).spawn(move || work.run());
        if let Err(error) = spawned {
            log::error!(target: "kfd", "no thread for the driver's work: {error}");
        }
    }
}
