//! Owners of doorbells.

use std::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::doorbell::DoorbellOffset;

use super::{Doorbells, number};

/// The part of the device that listens to a doorbell. Only [`Doorbells`] keeps it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Owner {
    Nobody,
    /// The interrupt handler.
    Interrupts(InterruptDoorbell),
    /// A ring of the kernel's own, which takes the written value as its write pointer.
    Ring,
    /// A process's queue, which has its write pointer in memory.
    Queue,
}

/// A doorbell of the interrupt handler, which takes the value that is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum InterruptDoorbell {
    /// Read pointer of ring 0.
    Rptr,
    /// Read pointer of ring 1.
    RetryRptr,
    /// Number of an entry of the retry filter that is given back.
    RetryAcknowledge,
}

/// The doorbells of the interrupt handler, each by its offset to 32 bits.
#[derive(Debug)]
pub(super) struct InterruptDoorbells([AtomicU64; InterruptDoorbell::ALL.len()]);

/// Offset that no doorbell has.
const NONE: u64 = u64::MAX;

impl InterruptDoorbell {
    const ALL: [Self; 3] = [Self::Rptr, Self::RetryRptr, Self::RetryAcknowledge];
}

impl Default for InterruptDoorbells {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(NONE)))
    }
}

impl InterruptDoorbells {
    fn at(&self, which: InterruptDoorbell) -> &AtomicU64 {
        &self.0[which as usize]
    }

    fn get(&self, which: InterruptDoorbell) -> Option<DoorbellOffset> {
        let offset = self.at(which).load(Ordering::Acquire);
        (offset != NONE).then(|| DoorbellOffset::from_bytes(offset))
    }
}

impl Doorbells {
    /// Returns the owner of the doorbell at an offset. One that belongs to the interrupt handler and to a queue is the
    /// interrupt handler's.
    pub(crate) fn owner(&self, offset: DoorbellOffset) -> Owner {
        let mut all = InterruptDoorbell::ALL.into_iter();
        if let Some(which) = all.find(|&which| self.interrupts.get(which) == Some(offset)) {
            return Owner::Interrupts(which);
        }
        match number(offset) {
            Some(at) if self.announced.get(at) => Owner::Queue,
            Some(at) if self.owned.get(at) => Owner::Ring,
            _ => Owner::Nobody,
        }
    }

    /// Sets the interrupt handler's doorbells, in the order read pointer, read pointer of ring 1, retry filter. They
    /// stay over a reset of the doorbells: the handler's registers name them.
    pub(crate) fn set_interrupts(&self, doorbells: [Option<DoorbellOffset>; 3]) {
        for (which, offset) in InterruptDoorbell::ALL.into_iter().zip(doorbells) {
            self.interrupts.at(which).store(offset.map_or(NONE, DoorbellOffset::bytes), Ordering::Release);
        }
    }

    /// Returns one of the interrupt handler's doorbells, if it has that one.
    pub(crate) fn interrupt(&self, which: InterruptDoorbell) -> Option<DoorbellOffset> {
        self.interrupts.get(which)
    }

    /// Returns the numbers of the interrupt handler's doorbells.
    pub(super) fn of_interrupts(&self) -> impl Iterator<Item = u64> {
        InterruptDoorbell::ALL.into_iter().filter_map(|which| self.interrupts.get(which)).filter_map(number)
    }
}
