//! All queues of a process together: evicted for good, or off the scheduler for a while.

use alloc::vec::Vec;

use crate::errno::{Errno, Result};
use crate::os::{Clock, DriverEvent, Os};
use crate::process::{Locked, Phase, Process};
use crate::process_device::NodeBits;
use crate::queue::Life;

/// Takes all queues off the scheduler for good, after a memory fault.
pub(crate) fn evict<O: Os>(process: &Process<O>) {
    evict_queues(process, &mut process.state.lock());
}

/// The same, of a process whose state is at hand.
pub(crate) fn evict_queues<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    if state.phase != Phase::Alive {
        return;
    }
    state.phase = Phase::Evicted;
    suspend_all(process, state);
    for queue in state.queues.values_mut().filter(|queue| queue.life == Life::Off) {
        queue.life = Life::Evicted;
    }
}

/// Takes all queues off the scheduler.
pub(crate) fn suspend_all<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    process.trace(DriverEvent::Evicted);
    let now = process.os().clock_ns(Clock::Monotonic);
    state.devices.each_part(|part| part.count_eviction(now));
    for_queues(process, state, super::suspend_queue);
}

/// Hands all queues that should run to the scheduler.
pub(crate) fn resume_all<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    for_queues(process, state, super::resume_queue);
    process.trace(DriverEvent::Restored);
    let now = process.os().clock_ns(Clock::Monotonic);
    state.devices.each_part(|part| part.end_eviction(now));
}

/// Does something with each queue, until its device does not answer.
fn for_queues<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    one: impl Fn(&Process<O>, &mut Locked<'_, O>, u32) -> Result<()>,
) {
    let ids: Vec<(u32, u32)> = state.queues.iter().map(|(id, queue)| (*id, queue.node)).collect();
    let mut deaf: NodeBits = 0;
    for (id, node) in ids {
        let node = process.nodes.get(node);
        // A queue that was lost stays so; the others are served all the same.
        if deaf & node.bit() == 0 && one(process, state, id) == Err(Errno::ETIME) {
            deaf |= process.nodes.of(&node.device).fold(0, |all, sibling| all | sibling.bit());
            node.recover_after(Errno::ETIME);
        }
    }
}
