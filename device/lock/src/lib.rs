//! Locks with a rank: the order in which threads take them, in one place.
//!
//! A thread may take a lock only if its rank is above those of all locks that the thread holds. Then no circle of threads
//! can wait for each other. Builds with debug assertions check that whenever a lock is taken, and end the process with the
//! names of both locks; other builds have the standard library's locks and nothing else.
//! `docs/threads-and-locks.md` says for each lock which state it guards, and where locks nest.
//!
//! The types stand in for those of [`std::sync`] and poison as they do.

pub mod rank;

use std::fmt;
use std::hint;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

pub use rank::{AnyRank, MAX_DEVICES, Rank};

/// Attempts at a lock before a thread sleeps, and the most pauses between two of them: 5 to 20 microseconds in all.
const SPIN_ROUNDS: u32 = 20;
const MOST_SPINS: u32 = 32;

/// The locks that the calling thread holds.
#[cfg(debug_assertions)]
mod held;

/// Work of the calling thread on one device, until dropped.
///
/// Locks of a device that are taken meanwhile are those of this device. The locks of a device come after all of a device
/// with a lower number. A thread that works on no named device works on number 0.
#[must_use]
#[derive(Debug)]
pub struct OnDevice {
    #[cfg(debug_assertions)]
    before: u8,
    /// Keeps the value on the thread that it began on.
    _thread: PhantomData<*const ()>,
}

impl OnDevice {
    /// Begins work on the device with this number; a number that is too large counts as the largest.
    #[inline]
    pub fn new(number: u8) -> Self {
        #[cfg(not(debug_assertions))]
        let _ = number;
        Self {
            #[cfg(debug_assertions)]
            before: held::enter(number.min(MAX_DEVICES - 1)),
            _thread: PhantomData,
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for OnDevice {
    fn drop(&mut self) {
        held::enter(self.before);
    }
}

/// The device that a thread works on, for a thread that it starts.
#[derive(Clone, Copy, Debug)]
pub struct ThisDevice {
    #[cfg(debug_assertions)]
    number: u8,
}

impl ThisDevice {
    /// The device that the calling thread works on.
    #[must_use]
    pub fn current() -> Self {
        Self {
            #[cfg(debug_assertions)]
            number: held::device(),
        }
    }

    /// Begins work on it on the calling thread.
    pub fn enter(self) -> OnDevice {
        #[cfg(debug_assertions)]
        return OnDevice::new(self.number);
        #[cfg(not(debug_assertions))]
        OnDevice::new(0)
    }
}

/// Fails if the thread holds a lock of this rank or one above: it is about to wait for a thread that takes them.
#[inline]
pub fn about_to_wait<R: Rank>() {
    #[cfg(debug_assertions)]
    AnyRank::of::<R>().check_for("is waited for");
}

impl AnyRank {
    /// A rank of the list.
    #[must_use]
    pub const fn of<R: Rank>() -> Self {
        Self { position: R::POSITION, of_device: R::OF_DEVICE }
    }

    /// Checks the order before the lock is taken, and perhaps waited for.
    #[inline]
    pub fn check(self) {
        #[cfg(debug_assertions)]
        self.check_for("is taken");
    }

    #[cfg(debug_assertions)]
    fn check_for(self, verb: &str) {
        held::check(self, verb);
    }

    /// Notes that the lock was taken.
    #[inline]
    pub fn taken(self) {
        #[cfg(debug_assertions)]
        held::add(self);
    }

    /// Notes that the lock is released, by the thread that took it.
    #[inline]
    pub fn given_back(self) {
        #[cfg(debug_assertions)]
        held::remove(self);
    }
}

/// Proof that this thread holds a lock.
struct Held<R: Rank>(PhantomData<(R, *const ())>);

impl<R: Rank> Held<R> {
    /// Checks the order before the lock is waited for.
    #[inline]
    fn check() {
        AnyRank::of::<R>().check();
    }

    /// Notes that the lock was taken.
    #[inline]
    fn new() -> Self {
        AnyRank::of::<R>().taken();
        Self(PhantomData)
    }
}

#[cfg(debug_assertions)]
impl<R: Rank> Drop for Held<R> {
    fn drop(&mut self) {
        AnyRank::of::<R>().given_back();
    }
}

fn map<G, H>(result: LockResult<G>, with: impl Fn(G) -> H) -> LockResult<H> {
    match result {
        Ok(guard) => Ok(with(guard)),
        Err(error) => Err(PoisonError::new(with(error.into_inner()))),
    }
}

macro_rules! guard {
    ($(#[$doc:meta])* $name:ident of $inner:ident $(, $mutable:ident)?) => {
        $(#[$doc])*
        #[must_use]
        pub struct $name<'a, T, R: Rank> {
            inner: sync::$inner<'a, T>,
            _held: Held<R>,
        }

        impl<'a, T, R: Rank> $name<'a, T, R> {
            fn of(inner: sync::$inner<'a, T>) -> Self {
                Self { inner, _held: Held::new() }
            }
        }

        impl<T, R: Rank> Deref for $name<'_, T, R> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                &self.inner
            }
        }

        $(
            impl<T, R: Rank> $mutable for $name<'_, T, R> {
                #[inline]
                fn deref_mut(&mut self) -> &mut T {
                    &mut self.inner
                }
            }
        )?

        impl<T: fmt::Debug, R: Rank> fmt::Debug for $name<'_, T, R> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.inner.fmt(f)
            }
        }
    };
}

guard! {
    /// A [`Mutex`] that is held.
    MutexGuard of MutexGuard, DerefMut
}
guard! {
    /// An [`RwLock`] that is held with others.
    ReadGuard of RwLockReadGuard
}
guard! {
    /// An [`RwLock`] that is held alone.
    WriteGuard of RwLockWriteGuard, DerefMut
}

/// A [`std::sync::Mutex`] with a rank.
pub struct Mutex<T, R: Rank> {
    inner: sync::Mutex<T>,
    rank: PhantomData<fn() -> R>,
}

impl<T, R: Rank> Mutex<T, R> {
    /// A free mutex with this value.
    pub const fn new(value: T) -> Self {
        Self { inner: sync::Mutex::new(value), rank: PhantomData }
    }

    /// Takes the lock.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it held the lock; the error has the guard.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T, R>> {
        Held::<R>::check();
        map(self.inner.lock(), MutexGuard::of)
    }

    /// Takes a lock that every thread holds for much less than a microsecond, and many threads take at once: tries for
    /// some microseconds before it sleeps.
    ///
    /// Once a thread sleeps, the standard library's lock has the next ones sleep at once, and each is woken by the one
    /// before it. With sixteen threads that takes longer than all they do under the lock.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    pub fn lock_spinning(&self) -> LockResult<MutexGuard<'_, T, R>> {
        Held::<R>::check();
        for round in 0..SPIN_ROUNDS {
            match self.inner.try_lock() {
                Ok(inner) => return Ok(MutexGuard::of(inner)),
                Err(TryLockError::Poisoned(error)) => {
                    return Err(PoisonError::new(MutexGuard::of(error.into_inner())));
                }
                Err(TryLockError::WouldBlock) => {
                    (0..MOST_SPINS.min(1 << round)).for_each(|_| hint::spin_loop());
                }
            }
        }
        map(self.inner.lock(), MutexGuard::of)
    }

    /// Takes the lock if it is free. It never waits, so it may be tried in any order; locks taken under it
    /// keep the order.
    ///
    /// # Errors
    ///
    /// The lock is held, or a thread has panicked while it held it.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T, R>> {
        match self.inner.try_lock() {
            Ok(guard) => Ok(MutexGuard::of(guard)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(error)) => {
                Err(TryLockError::Poisoned(PoisonError::new(MutexGuard::of(error.into_inner()))))
            }
        }
    }

    /// The value. It takes no lock, as the caller has the mutex to itself.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it held the lock.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }

    /// The value without the lock.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it held the lock.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: Default, R: Rank> Default for Mutex<T, R> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug, R: Rank> fmt::Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A [`std::sync::RwLock`] with a rank. A thread may not take it for reading twice: a writer in between would
/// stop both.
pub struct RwLock<T, R: Rank> {
    inner: sync::RwLock<T>,
    rank: PhantomData<fn() -> R>,
}

impl<T, R: Rank> RwLock<T, R> {
    /// A free lock with this value.
    pub const fn new(value: T) -> Self {
        Self { inner: sync::RwLock::new(value), rank: PhantomData }
    }

    /// Takes the lock for reading; other threads may read as well.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it wrote; the error has the guard.
    #[inline]
    pub fn read(&self) -> LockResult<ReadGuard<'_, T, R>> {
        Held::<R>::check();
        map(self.inner.read(), ReadGuard::of)
    }

    /// Takes the lock for writing, alone.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it wrote; the error has the guard.
    #[inline]
    pub fn write(&self) -> LockResult<WriteGuard<'_, T, R>> {
        Held::<R>::check();
        map(self.inner.write(), WriteGuard::of)
    }
}

impl<T: Default, R: Rank> Default for RwLock<T, R> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug, R: Rank> fmt::Debug for RwLock<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A [`std::sync::Condvar`] that counts its waiters. Notifying makes no system call if there are none.
///
/// A condition that a thread waits for has to change under the lock that it waits with.
#[derive(Debug, Default)]
pub struct CountingCondvar {
    condvar: sync::Condvar,
    /// Threads that sleep, or are about to: they are counted before they release the lock.
    sleepers: AtomicUsize,
}

impl CountingCondvar {
    /// A condition without waiting threads.
    pub const fn new() -> Self {
        Self { condvar: sync::Condvar::new(), sleepers: AtomicUsize::new(0) }
    }

    /// Releases the lock and sleeps until notified, or for no reason.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it held the lock; the error has the guard.
    pub fn wait<'a, T>(&self, guard: sync::MutexGuard<'a, T>) -> LockResult<sync::MutexGuard<'a, T>> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let result = self.condvar.wait(guard);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// As [`CountingCondvar::wait`], for a time at most; also returns true if that time is over.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it held the lock; the error has the guard.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: sync::MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(sync::MutexGuard<'a, T>, sync::WaitTimeoutResult)> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let result = self.condvar.wait_timeout(guard, limit);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        if self.has_sleepers() {
            self.condvar.notify_one();
        }
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        if self.has_sleepers() {
            self.condvar.notify_all();
        }
    }

    fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) != 0
    }
}

/// A [`CountingCondvar`] for mutexes with a rank. A thread that sleeps keeps the rank: it takes the lock again.
#[derive(Debug, Default)]
pub struct Condvar(CountingCondvar);

impl Condvar {
    /// A condition without waiting threads.
    pub const fn new() -> Self {
        Self(CountingCondvar::new())
    }

    /// Releases the lock and sleeps until notified, or for no reason.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it held the lock; the error has the guard.
    pub fn wait<'a, T, R: Rank>(&self, guard: MutexGuard<'a, T, R>) -> LockResult<MutexGuard<'a, T, R>> {
        let MutexGuard { inner, _held: held } = guard;
        let result = self.0.wait(inner);
        drop(held);
        map(result, MutexGuard::of)
    }

    /// As [`Condvar::wait`], for a time at most; also returns true if that time is over.
    ///
    /// # Errors
    ///
    /// A thread has panicked while it held the lock; the error has the guard.
    pub fn wait_timeout<'a, T, R: Rank>(
        &self,
        guard: MutexGuard<'a, T, R>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T, R>, sync::WaitTimeoutResult)> {
        let MutexGuard { inner, _held: held } = guard;
        let result = self.0.wait_timeout(inner, limit);
        drop(held);
        map(result, |(inner, over)| (MutexGuard::of(inner), over))
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(all(test, debug_assertions))]
mod tests;
