//! The turns of queues when not all can be on a slot.

use std::time::Duration;

use belfry_abi::doorbell::DoorbellIndex;

use super::{POLL, Pool, Queue, Slots};
use crate::firmware::{Ports, Turn};
use crate::stats::count;
use crate::vm::AddressSpace;

impl Slots {
    /// Gives slots to queues that wait: free slots first, then those of queues without work, then those whose quantum
    /// is over.
    pub(super) fn take_turns(&mut self, ports: &Ports, kernel: &AddressSpace) -> Turn {
        let now = ports.env.clock.now();
        // A failed queue must not keep a slot from others.
        for queue in self.queues.values_mut().filter(|queue| queue.has_failed()) {
            let _off = queue.unmap(ports, Some(kernel));
        }
        self.fill_slots(ports, kernel);
        let mut pools: Vec<Pool> = Vec::new();
        for pool in self.waiting(ports, kernel).into_iter().filter_map(|doorbell| self.pool(doorbell)) {
            if !pools.contains(&pool) {
                pools.push(pool);
            }
        }
        let turns = pools.into_iter().map(|pool| self.take_turns_of(ports, kernel, pool, now));
        turns.min().unwrap_or(Turn::WhenWoken)
    }

    /// Returns the doorbells of the queues that want a slot of a pool, in the order of their turns.
    fn waiting_for(&self, ports: &Ports, kernel: &AddressSpace, pool: Pool) -> Vec<DoorbellIndex> {
        let mut waiting = self.waiting(ports, kernel);
        waiting.retain(|&doorbell| self.pool(doorbell) == Some(pool));
        waiting
    }

    /// Returns the queues on a slot of a pool that are not on their way off it.
    fn mapped_in(&self, pool: Pool) -> impl Iterator<Item = &Queue> {
        self.mapped().filter(move |queue| queue.pool == pool && !queue.is_leaving())
    }

    /// Gives turns to the queues that may be on the slots of one pool.
    fn take_turns_of(&mut self, ports: &Ports, kernel: &AddressSpace, pool: Pool, now: Duration) -> Turn {
        let waiting = self.waiting_for(ports, kernel, pool);
        let Some(&first) = waiting.first() else { return Turn::WhenWoken };
        // One slot for each queue that waits, or all of them.
        let slots = if self.is_kept_off(first) { self.mapped_in(pool).count() } else { waiting.len() };
        for _ in 0..slots {
            let at_rest =
                self.mapped_in(pool).filter(|queue| !queue.is_at_work()).min_by_key(|queue| queue.turn);
            let over = || self.mapped_in(pool).filter(|queue| self.quantum_left(ports, queue, now).is_zero());
            let victim = at_rest.or_else(|| over().min_by_key(|queue| queue.turn));
            let Some(doorbell) = victim.map(|queue| queue.doorbell) else { break };
            self.preempt(ports, kernel, doorbell);
            self.fill_slots(ports, kernel);
        }
        if self.waiting_for(ports, kernel, pool).is_empty() {
            return Turn::WhenWoken;
        }
        let left = self.mapped_in(pool).map(|queue| self.quantum_left(ports, queue, now)).min();
        // A device time that stands still has no time on the host: the device thread is woken when it is moved.
        let left = left.and_then(|left| ports.env.clock.on_host(left));
        left.map_or(Turn::WhenWoken, |left| Turn::After(left.max(POLL.0)))
    }

    /// Takes a queue off its slot; it goes after those that wait.
    fn preempt(&mut self, ports: &Ports, kernel: &AddressSpace, doorbell: DoorbellIndex) {
        let Some(queue) = self.queues.get_mut(&doorbell) else { return };
        // If the queue waits for pages, the slot becomes free when they are there.
        let _off = queue.unmap(ports, Some(kernel));
        self.turns += 1;
        queue.turn = self.turns;
        count(&ports.counters.queues_preempted);
    }

    /// Returns the time that a queue may still keep the slot it is on.
    fn quantum_left(&self, ports: &Ports, queue: &Queue, now: Duration) -> Duration {
        let slot = queue.on_slot();
        let since = slot.map_or(Duration::ZERO, |slot| now.saturating_sub(slot.since));
        let left = self.quanta.of(queue.asked, ports.quantum).saturating_sub(since);
        let stays = slot.is_some_and(|slot| slot.has_just_come(&ports.env.clock));
        if stays { left.max(POLL.0) } else { left }
    }
}
