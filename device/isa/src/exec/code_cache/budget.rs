//! Memory that lowered and compiled code takes, and the limits of it: of an address space, and of the whole process.
//!
//! The bytes of a region are counted for as long as it exists, also while a wave still runs it after its address
//! space has forgotten it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Most bytes of the regions of an address space.
pub(crate) const MOST_OF_A_SPACE: usize = 256 << 20;
/// Most bytes of all regions of the process.
pub(crate) const MOST_OF_ALL: usize = 1 << 30;

/// Bytes of all regions of the process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Bytes that the regions of an address space take.
#[derive(Debug)]
pub(crate) struct Budget {
    taken: AtomicUsize,
    most: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Budget> {
        Arc::new(Budget { taken: AtomicUsize::new(0), most })
    }

    /// Bytes taken now.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes that the address space has to give back: once it has more than it may have, down to three quarters of
    /// that.
    pub(crate) fn excess(&self) -> usize {
        excess(self.taken(), self.most)
    }
}

/// As [`Budget::excess`], of all of the process.
pub(crate) fn excess_of_all() -> usize {
    excess(ALL.load(Ordering::Relaxed), MOST_OF_ALL)
}

fn excess(taken: usize, most: usize) -> usize {
    if taken > most { taken - most / 4 * 3 } else { 0 }
}

/// Bytes that a region takes, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    of: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Charge {
    pub(crate) fn new(of: &Arc<Budget>, bytes: usize) -> Charge {
        let charge = Charge { of: Arc::clone(of), bytes: AtomicUsize::new(0) };
        charge.add(bytes);
        charge
    }

    /// Counts more of it.
    pub(crate) fn add(&self, bytes: usize) {
        for sum in [&self.bytes, &self.of.taken, &ALL] {
            sum.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        for sum in [&self.of.taken, &ALL] {
            sum.fetch_sub(self.bytes(), Ordering::Relaxed);
        }
    }
}
