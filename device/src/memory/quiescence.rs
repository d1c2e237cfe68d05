//! Waiting until no thread uses a resource that has been withdrawn.
//!
//! Engines work in slices: they enter, translate and touch memory for a bounded number of instructions, and leave.
//! A thread that withdraws a mapping publishes the withdrawal first and then waits here until every slice that may have seen
//! the old state is over. Slices that begin meanwhile see the new state and are not waited for.
//!
//! The withdrawn resource may be the last owner of memory that slices point into (a mapping of guest RAM,
//! say), so it is dropped after the wait and not before. `tests/models` runs this file under loom's memory
//! model.

use super::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, Ordering, PoisonError, TurnMutex};

/// Counts slices in two generations, the current and the one being waited for.
///
/// In cache lines of its own: every slice writes to it, and the fields beside it are read all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Quiescence {
    epoch: AtomicU64,
    inside: [AtomicUsize; 2],
    waiting: AtomicUsize,
    /// Held for the whole of a wait: only one generation is ever waited for.
    turn: TurnMutex<()>,
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

    /// Withdraws something, and returns it once every slice that had begun before is over.
    ///
    /// `withdraw` runs first, in one thread at a time, and returns the resource that slices may still use. A
    /// thread inside a slice must not call this.
    pub(crate) fn wait_after<T>(&self, withdraw: impl FnOnce() -> T) -> T {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let withdrawn = withdraw();
        let old = self.epoch.fetch_add(1, Ordering::SeqCst);
        let parity = usize::from(old & 1 == 1);
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.inside[parity].load(Ordering::SeqCst) != 0 {
            lock = self.left.wait(lock).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(lock);
        withdrawn
    }

    /// Returns true if a wait is asleep because slices are in progress.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests alone ask"))]
    pub(crate) fn is_asleep(&self) -> bool {
        // A wait holds the lock from before it counts itself until after it, except while it sleeps.
        let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.load(Ordering::SeqCst) != 0
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

impl Inside<'_> {
    /// Returns true if a thread waits for the end of this slice.
    ///
    /// A slice that goes on for long asks from time to time, and ends when it has to. Leaving and entering instead would
    /// move the counters from processor to processor each time.
    pub(crate) fn is_awaited(&self) -> bool {
        // A wait moves the epoch on by one and then stays there until this slice is over.
        usize::from(self.quiescence.epoch.load(Ordering::SeqCst) & 1 == 1) != self.parity
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.quiescence.leave(self.parity);
    }
}
