//! How the device's threads wait for news.

pub(crate) mod patience;
mod wake;

/// What `wake.rs` is made of; under a model, of other parts.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

pub(crate) use wake::Wake;
