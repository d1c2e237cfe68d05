//! Waiting of the device's threads for work.

pub(crate) mod patience;
pub(crate) mod processors;
mod wake;

/// The parts that `wake.rs` is made of; under a model, others stand in for them.
mod sync {
    pub(super) use std::sync::PoisonError;
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};

    pub(super) use belfry_lock::Condvar;
    use belfry_lock::rank;

    pub(super) type Mutex<T> = belfry_lock::Mutex<T, rank::Wake>;
    pub(super) type MutexGuard<'a, T> = belfry_lock::MutexGuard<'a, T, rank::Wake>;
}

pub(crate) use wake::Wake;
