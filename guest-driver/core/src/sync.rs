//! A mutex over the operating system's lock.
#![expect(unsafe_code, reason = "the one place that ties a raw lock to the value it protects")]

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::errno::Result;
use crate::os::{LockRank, Os, RawLock};

/// A value only one thread touches at a time; waiting sleeps.
pub(crate) struct Mutex<O: Os, T> {
    raw: O::Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a guard, of which there is one at a time.
unsafe impl<O: Os, T: Send> Send for Mutex<O, T> {}
// SAFETY: as above; `T: Send` suffices because guards hand the value from thread to thread, never share it.
unsafe impl<O: Os, T: Send> Sync for Mutex<O, T> {}

impl<O: Os, T> Mutex<O, T> {
    /// Makes an unlocked mutex.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(os: &O, rank: LockRank, value: T) -> Result<Self> {
        Ok(Self { raw: os.lock_new(rank)?, value: UnsafeCell::new(value) })
    }

    /// Sleeps until the value is the caller's.
    pub(crate) fn lock(&self) -> Guard<'_, O, T> {
        self.raw.lock();
        Guard { mutex: self }
    }
}

impl<O: Os, T> fmt::Debug for Mutex<O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex { .. }")
    }
}

/// The right to touch the value, given back when dropped.
pub(crate) struct Guard<'a, O: Os, T> {
    mutex: &'a Mutex<O, T>,
}

impl<O: Os, T> Deref for Guard<'_, O, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard's existence means that this thread holds the lock.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<O: Os, T> DerefMut for Guard<'_, O, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's existence means that this thread holds the lock, and `self` is borrowed exclusively.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<O: Os, T> Drop for Guard<'_, O, T> {
    fn drop(&mut self) {
        // SAFETY: the guard was made by `lock`, and this is its only drop.
        unsafe { self.mutex.raw.unlock() }
    }
}

/// A value that belongs to one thread at a time, which lends it out while it waits for something that others have to do with it.
pub(crate) struct Lendable<O: Os, T> {
    /// Held by the owner.
    owner: Mutex<O, ()>,
    value: Mutex<O, T>,
}

impl<O: Os, T> Lendable<O, T> {
    /// Makes one without an owner; the ranks are those of the two locks.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(os: &O, [owner, inner]: [LockRank; 2], value: T) -> Result<Self> {
        Ok(Self { owner: Mutex::new(os, owner, ())?, value: Mutex::new(os, inner, value)? })
    }

    /// Sleeps until the value is the caller's.
    pub(crate) fn lock(&self) -> Owner<'_, O, T> {
        let owner = self.owner.lock();
        Owner { value: self.value.lock(), _owner: owner }
    }

    /// Sleeps until the value is free, or its owner lends it out. A thread that takes it so must not wait for its owner.
    pub(crate) fn borrow(&self) -> Guard<'_, O, T> {
        self.value.lock()
    }
}

impl<O: Os, T> fmt::Debug for Lendable<O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lendable { .. }")
    }
}

/// The right to touch the value and to lend it, given back when dropped.
pub(crate) struct Owner<'a, O: Os, T> {
    value: Guard<'a, O, T>,
    _owner: Guard<'a, O, ()>,
}

impl<O: Os, T> Owner<'_, O, T> {
    /// Lends the value to those who [borrow](Lendable::borrow) it, until `wait` is over. No other thread gets it.
    pub(crate) fn lend<R>(&mut self, wait: impl FnOnce() -> R) -> R {
        /// Takes the lock again, however the wait ends.
        struct Again<'a, L: RawLock>(&'a L);
        impl<L: RawLock> Drop for Again<'_, L> {
            fn drop(&mut self) {
                self.0.lock();
            }
        }
        let raw = &self.value.mutex.raw;
        // SAFETY: `self` holds the lock, and is borrowed exclusively: nothing of the value is in use until the lock is taken again.
        unsafe { raw.unlock() };
        let _again = Again(raw);
        wait()
    }
}

impl<O: Os, T> Deref for Owner<'_, O, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<O: Os, T> DerefMut for Owner<'_, O, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<O: Os, T: fmt::Debug> fmt::Debug for Owner<'_, O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<O: Os, T: fmt::Debug> fmt::Debug for Guard<'_, O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
