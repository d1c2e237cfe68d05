//! Waiting until nobody uses what has been taken away.
//!
//! Engines work in slices: they enter, translate and touch memory for a bounded number of instructions, and leave.
//! Whoever withdraws a mapping publishes the withdrawal first and then waits here until every slice that may have seen
//! the old state is over. Slices that begin meanwhile see the new state and are not waited for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Counts slices in two generations, the current and the one being waited for.
///
/// In cache lines of its own: every slice writes to it, and what lies beside it is read all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Quiescence {
    epoch: AtomicU64,
    inside: [AtomicUsize; 2],
    waiting: AtomicUsize,
    /// Held for the whole of a wait: only one generation is ever waited for.
    turn: Mutex<()>,
    lock: Mutex<()>,
    left: Condvar,
}

impl Quiescence {
    /// Begins a slice; it ends when the guard is dropped.
    pub(crate) fn enter(&self) -> Inside<'_> {
        loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            let parity = usize::from(epoch & 1 == 1);
            self.inside[parity].fetch_add(1, Ordering::SeqCst);
            // A wait that began between the two loads may have counted before we did: it must see us or we it.
            if self.epoch.load(Ordering::SeqCst) == epoch {
                return Inside { quiescence: self, parity };
            }
            self.leave(parity);
        }
    }

    /// Returns once every slice that had begun before the call is over.
    ///
    /// `withdraw` runs first, exclusively of other waits. A thread inside a slice must not call this.
    pub(crate) fn wait_after(&self, withdraw: impl FnOnce()) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        withdraw();
        let old = self.epoch.fetch_add(1, Ordering::SeqCst);
        let parity = usize::from(old & 1 == 1);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.inside[parity].load(Ordering::SeqCst) != 0 {
            lock = self.left.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        drop(lock);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn leave(&self, parity: usize) {
        let before = self.inside[parity].fetch_sub(1, Ordering::SeqCst);
        if before == 1 && self.waiting.load(Ordering::SeqCst) != 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.left.notify_all();
        }
    }
}

/// A slice in progress.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    quiescence: &'a Quiescence,
    parity: usize,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.quiescence.leave(self.parity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn wait_with_nobody_inside_returns() {
        let quiescence = Quiescence::default();
        let mut ran = false;
        quiescence.wait_after(|| ran = true);
        assert!(ran);
    }

    #[test]
    fn wait_ignores_slices_begun_after_the_withdrawal() {
        let quiescence = Arc::new(Quiescence::default());
        for _ in 0..3 {
            quiescence.wait_after(|| ());
            let _inside = quiescence.enter();
        }
        let inside = quiescence.enter();
        let done = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (quiescence, done) = (Arc::clone(&quiescence), Arc::clone(&done));
            std::thread::spawn(move || {
                quiescence.wait_after(|| ());
                done.store(true, Ordering::SeqCst);
            })
        };
        // The waiter counts its epoch before it sleeps; from then on new slices belong to the next one.
        while quiescence.waiting.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        let later = quiescence.enter();
        assert!(!done.load(Ordering::SeqCst));
        drop(inside);
        waiter.join().expect("the waiter returns while a later slice is still open");
        drop(later);
    }

    #[test]
    fn withdrawn_state_is_never_seen_after_the_wait() {
        let quiescence = Quiescence::default();
        let published = AtomicUsize::new(0);
        let freed = AtomicUsize::new(usize::MAX);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        let _inside = quiescence.enter();
                        let seen = published.load(Ordering::SeqCst);
                        for _ in 0..64 {
                            let freed = freed.load(Ordering::SeqCst);
                            assert!(
                                freed == usize::MAX || freed < seen,
                                "using {seen} after {freed} was freed"
                            );
                        }
                    }
                });
            }
            for next in 1..2000 {
                quiescence.wait_after(|| published.store(next, Ordering::SeqCst));
                freed.store(next - 1, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
        });
    }
}
