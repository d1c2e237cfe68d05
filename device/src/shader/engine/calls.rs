//! Calls of workers that have nothing to do.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// A value in cache lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Numbers of calls that no worker has taken yet, in bits 31:0, and of workers that have taken one and are on their way
/// to the engine's lock, in bits 63:32.
///
/// Idle workers look at it without the lock, so that as many come to the lock as there is work for.
#[derive(Debug, Default)]
pub(super) struct Calls(AtomicU64);

const COMING: u64 = 1 << 32;

impl Calls {
    /// Makes `more` calls, but not more in all than `idle` workers can take, of whom some are `asleep`, and not more
    /// than `wakes` beyond those that the others can take. The caller holds the engine's lock. Returns how many sleepers
    /// it has to wake.
    pub(super) fn add(&self, more: usize, (idle, asleep): (usize, usize), wakes: usize) -> usize {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let (coming, open) = (now / COMING, now % COMING);
            // None of those that are coming sleeps.
            let free = (idle as u64).saturating_sub(coming);
            let awake = free.saturating_sub(asleep as u64);
            let most = free.min(awake.saturating_add(wakes as u64));
            // Sleepers have been woken for the open ones that those who are awake cannot take.
            let next = open.saturating_add(more as u64).min(most).max(open);
            if next == open {
                return 0;
            }
            let word = coming * COMING + next;
            match self.0.compare_exchange_weak(now, word, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return next.saturating_sub(open.max(awake)) as usize,
                Err(other) => now = other,
            }
        }
    }

    /// Takes a call, if there is one. The worker then goes to the lock and [arrives](Calls::arrive).
    pub(super) fn take(&self) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        while !now.is_multiple_of(COMING) {
            match self.0.compare_exchange_weak(now, now - 1 + COMING, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Notes that a worker that has taken a call is not idle any more. The caller holds the engine's lock.
    pub(super) fn arrive(&self) {
        self.0.fetch_sub(COMING, Ordering::Relaxed);
    }

    /// Takes back all calls that are open. The caller holds the engine's lock.
    pub(super) fn withdraw(&self) {
        if !self.0.load(Ordering::Relaxed).is_multiple_of(COMING) {
            self.0.fetch_and(!(COMING - 1), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_called_than_are_idle() {
        let calls = Calls::default();
        assert!(!calls.take());
        assert_eq!(calls.add(2, (3, 0), ALL), 0);
        assert!(calls.take());
        // One of the three is on its way.
        assert_eq!(calls.add(5, (3, 0), ALL), 0);
        assert_eq!(open(&calls), 2);
        calls.arrive();
        assert_eq!(calls.add(1, (2, 0), ALL), 0);
        assert!(calls.take() && calls.take() && !calls.take());
        calls.add(1, (2, 0), ALL);
        assert_eq!(open(&calls), 0, "both are on their way");
        calls.arrive();
        calls.arrive();
        calls.add(1, (0, 0), ALL);
        assert_eq!(open(&calls), 0);
        calls.add(1, (1, 0), ALL);
        assert_eq!(open(&calls), 1);
        calls.withdraw();
        assert!(!calls.take());
    }

    #[test]
    fn sleepers_are_woken_for_calls_that_the_others_cannot_take() {
        let calls = Calls::default();
        assert_eq!(calls.add(1, (4, 2), ALL), 0);
        assert_eq!(calls.add(2, (4, 2), ALL), 1);
        assert_eq!(calls.add(ALL, (4, 2), ALL), 1);
        assert!(calls.take() && calls.take());
        // Those that were awake are on their way, and the others are woken already.
        assert_eq!(calls.add(ALL, (4, 2), ALL), 0);
        assert_eq!(open(&calls), 2);
    }

    #[test]
    fn no_more_sleepers_are_woken_than_a_caller_wants() {
        let calls = Calls::default();
        assert_eq!(calls.add(ALL, (16, 14), 2), 2);
        assert_eq!(open(&calls), 4);
        assert_eq!(calls.add(2, (16, 14), 2), 0, "two of them are still to come");
        assert!((0..4).all(|_| calls.take()));
        (0..4).for_each(|_| calls.arrive());
        assert_eq!(calls.add(2, (12, 12), 2), 2);
        assert_eq!(calls.add(ALL, (12, 12), ALL), 10);
    }

    const ALL: usize = usize::MAX;

    fn open(calls: &Calls) -> u64 {
        calls.0.load(Ordering::Relaxed) % COMING
    }
}
