//! All queues of a process together: evicted for good, or off the scheduler for a while.

use alloc::vec::Vec;

use crate::errno::{Errno, Result};
use crate::os::{Clock, DriverEvent, Os};
use crate::process::{Locked, Phase, Process};
use crate::queue::Life;

impl<O: Os> Process<O> {
    /// Takes all queues off the scheduler for good, after a memory fault.
    pub(crate) fn evict(&self) {
        self.evict_queues(&mut self.state.lock());
    }

    /// The same, of a process whose state is at hand.
    pub(crate) fn evict_queues(&self, state: &mut Locked<'_, O>) {
        if state.phase != Phase::Alive {
            return;
        }
        state.phase = Phase::Evicted;
        self.suspend_all(state);
        for queue in state.queues.values_mut().filter(|queue| queue.life == Life::Off) {
            queue.life = Life::Evicted;
        }
    }

    /// Takes all queues off the scheduler.
    pub(crate) fn suspend_all(&self, state: &mut Locked<'_, O>) {
        self.device.trace(self.pasid, DriverEvent::Evicted);
        state.count_eviction(self.device.hw.os().clock_ns(Clock::Monotonic));
        self.for_queues(state, Self::suspend_queue);
    }

    /// Hands all queues that should run to the scheduler.
    pub(crate) fn resume_all(&self, state: &mut Locked<'_, O>) {
        self.for_queues(state, Self::resume_queue);
        self.device.trace(self.pasid, DriverEvent::Restored);
        state.end_eviction(self.device.hw.os().clock_ns(Clock::Monotonic));
    }

    /// Does something with each queue, until the device does not answer.
    fn for_queues(
        &self,
        state: &mut Locked<'_, O>,
        one: impl Fn(&Self, &mut Locked<'_, O>, u32) -> Result<()>,
    ) {
        let ids: Vec<u32> = state.queues.keys().copied().collect();
        for id in ids {
            // A queue that was lost stays so; the others are served all the same.
            if one(self, state, id) == Err(Errno::ETIME) {
                return self.recover_after(Errno::ETIME);
            }
        }
    }
}
