//! All queues of a process on some nodes together: evicted for good, or off the scheduler for a while.

use alloc::vec::Vec;

use crate::errno::{Errno, Result};
use crate::os::{Clock, DriverEvent, Os};
use crate::process::{Locked, Phase, Process};
use crate::process_device::NodeBits;
use crate::queue::Life;

/// Takes all queues of some nodes off the scheduler for good, after memory faults there (`kfd_evict_process_device`).
pub(crate) fn evict<O: Os>(process: &Process<O>, nodes: NodeBits) {
    evict_queues(process, &mut process.state.lock(), nodes);
}

/// The same, of a process whose state is at hand.
pub(crate) fn evict_queues<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>, nodes: NodeBits) {
    let nodes = nodes & state.devices.running();
    if state.phase == Phase::Dead || nodes == 0 {
        return;
    }
    state.devices.stop(nodes);
    suspend(process, state, nodes);
    for queue in state.queues.values_mut().filter(|queue| queue.life == Life::Off) {
        if process.nodes.get(queue.node).bit() & nodes != 0 {
            queue.life = Life::Evicted;
        }
    }
}

/// Takes all queues off the scheduler, until [`resume_all`].
pub(crate) fn suspend_all<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    suspend(process, state, NodeBits::MAX);
}

/// Takes the queues of some nodes off the scheduler.
fn suspend<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>, nodes: NodeBits) {
    process.trace_on(DriverEvent::Evicted, nodes);
    let now = process.os().clock_ns(Clock::Monotonic);
    state.devices.among(nodes, |part| part.count_eviction(now));
    for_queues(process, state, nodes, super::suspend_queue);
}

/// Hands all queues that should run to the scheduler.
pub(crate) fn resume_all<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    let nodes = state.devices.running();
    for_queues(process, state, nodes, super::resume_queue);
    process.trace_on(DriverEvent::Restored, nodes);
    let now = process.os().clock_ns(Clock::Monotonic);
    state.devices.among(nodes, |part| part.end_eviction(now));
}

/// Does something with each queue of some nodes, until its device does not answer.
fn for_queues<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    nodes: NodeBits,
    one: impl Fn(&Process<O>, &mut Locked<'_, O>, u32) -> Result<()>,
) {
    let ids: Vec<(u32, u32)> = state.queues.iter().map(|(id, queue)| (*id, queue.node)).collect();
    let mut left = nodes;
    for (id, node) in ids {
        let node = process.nodes.get(node);
        // A queue that was lost stays so; the others are served all the same.
        if left & node.bit() != 0 && one(process, state, id) == Err(Errno::ETIME) {
            left &= !process.nodes.of(&node.device).fold(0, |all, sibling| all | sibling.bit());
            node.recover_after(Errno::ETIME);
        }
    }
}
