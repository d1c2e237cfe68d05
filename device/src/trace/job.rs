//! Jobs: a job ties the steps of one packet together.

use std::cell::Cell;

use belfry_abi::doorbell::DoorbellIndex;

/// Bits of the packet's place in its queue.
const INDEX_BITS: u32 = 32;
/// Bits of the doorbell: BAR2 has 2^19 dwords.
const DOORBELL_BITS: u32 = 19;

/// One packet of one queue, from the doorbell that announced it to the interrupt that reports its end.
///
/// A job is made of the queue's doorbell, the number of queues that have had that doorbell, and the packet's
/// place in the queue modulo 2^32. So each step of the device can compute it from the queue and the packet.
/// Places count packets in AQL queues, dwords in PM4 queues, and bytes in SDMA queues.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Job(u64);

impl Job {
    /// No packet.
    pub const NONE: Self = Self(0);

    /// The packet at `index` of the queue that was the `epoch`th at a doorbell, from 1 on.
    #[must_use]
    pub const fn new(doorbell: DoorbellIndex, epoch: u16, index: u64) -> Self {
        let queue =
            (epoch as u64 & 0xfff) << DOORBELL_BITS | doorbell.dwords() as u64 & ((1 << DOORBELL_BITS) - 1);
        Self(queue << INDEX_BITS | index & ((1 << INDEX_BITS) - 1))
    }

    /// The bits that are recorded.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The job of these bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns true for [`Job::NONE`].
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The queue: one number for all jobs of a queue, and for no others.
    #[must_use]
    pub const fn queue(self) -> u64 {
        self.0 >> INDEX_BITS
    }

    /// The packet's place in its queue, modulo 2^32.
    #[must_use]
    pub const fn index(self) -> u64 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }

    /// The doorbell of its queue, in dwords of BAR2.
    #[must_use]
    pub const fn doorbell(self) -> u32 {
        (self.queue() & ((1 << DOORBELL_BITS) - 1)) as u32
    }
}

thread_local! {
    static CURRENT: Cell<Job> = const { Cell::new(Job::NONE) };
}

/// The job that this thread works for.
pub(super) fn current() -> Job {
    CURRENT.get()
}

/// While it lives, records of this thread belong to a job.
#[derive(Debug)]
#[must_use]
pub struct JobScope {
    before: Option<Job>,
}

impl JobScope {
    pub(super) fn enter(job: Job) -> Self {
        Self { before: Some(CURRENT.replace(job)) }
    }

    /// A scope that changes nothing.
    pub(crate) const fn nothing() -> Self {
        Self { before: None }
    }
}

impl Drop for JobScope {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            CURRENT.set(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_names_its_queue_and_its_place() {
        let doorbell = DoorbellIndex::from_dwords(0x1002);
        let first = Job::new(doorbell, 1, 0);
        assert!(!first.is_none());
        assert_eq!((first.doorbell(), first.index()), (0x1002, 0));
        assert_eq!(Job::new(doorbell, 1, 7).queue(), first.queue());
        assert_ne!(Job::new(doorbell, 2, 0).queue(), first.queue());
        assert_eq!(Job::from_bits(first.bits()), first);
    }

    #[test]
    fn scopes_nest() {
        let job = |index| Job::new(DoorbellIndex::from_dwords(2), 1, index);
        let outer = JobScope::enter(job(1));
        {
            let _inner = JobScope::enter(job(2));
            let _nothing = JobScope::nothing();
            assert_eq!(current(), job(2));
        }
        assert_eq!(current(), job(1));
        drop(outer);
        assert!(current().is_none());
    }
}
