//! How much memory lowered and compiled code takes, and how much it may: of an address space, and of all of the process.
//!
//! What a region takes is counted for as long as the region is there, also where its address space has forgotten it and a wave still runs
//! it.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// Most bytes of the regions of an address space.
pub(crate) const MOST_OF_A_SPACE: usize = 256 << 20;
/// Most bytes of all regions of the process.
pub(crate) const MOST_OF_ALL: usize = 1 << 30;

/// Bytes of all regions of the process.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// What the regions of an address space take.
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

    /// Bytes that the address space is to give back: down to three quarters of what it may have, once it has more than that.
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

/// What a region takes, as long as it is there.
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
