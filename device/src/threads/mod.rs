//! Waiting of the device's threads for work.

pub(crate) mod patience;
mod wake;

/// The parts that `wake.rs` is made of; under a model, others stand in for them.
mod sync {
    pub(super) use std::sync::PoisonError;
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};

    pub(super) use crate::lock::Condvar;
    use crate::lock::{self, rank};

    pub(super) type Mutex<T> = lock::Mutex<T, rank::Wake>;
    pub(super) type MutexGuard<'a, T> = lock::MutexGuard<'a, T, rank::Wake>;
}

pub(crate) use wake::Wake;
