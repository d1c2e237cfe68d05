//! Dispatches in flight, and the failure of a queue, as plain values.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_abi::aql::KernelDispatchPacket;
use serde::{Deserialize, Serialize};

use super::{InFlight, QueueState};
use crate::cp::error::{Cause, QueueError};

/// A dispatch between its launch and its retirement.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::cp) struct SavedInFlight {
    index: u64,
    packet: [u32; 16],
    start: Option<u64>,
    inactive_signal: u64,
    done: bool,
    waits: bool,
}

/// Packet and reason of a failure that the queue has not stopped for yet.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(in crate::cp) struct SavedFailure(u64, String);

impl QueueState {
    /// Returns the failure that a dispatch has left behind.
    pub(in crate::cp) fn save_failure(&self) -> Option<SavedFailure> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(|error| SavedFailure(error.packet, error.cause.to_string()))
    }

    /// Restores a failure that a dispatch has left behind.
    pub(in crate::cp) fn restore_failure(&self, saved: Option<&SavedFailure>) {
        let failure = saved.map(|SavedFailure(packet, why)| QueueError {
            packet: *packet,
            cause: Cause::Earlier(why.clone()),
        });
        self.leave_failure(failure);
    }
}

impl InFlight {
    pub(in crate::cp) fn save(&self) -> SavedInFlight {
        SavedInFlight {
            index: self.index,
            packet: zerocopy::transmute!(self.packet),
            start: self.start,
            inactive_signal: self.inactive_signal,
            done: self.is_done(),
            waits: self.waits(),
        }
    }

    pub(in crate::cp) fn restored(state: &Arc<QueueState>, saved: SavedInFlight) -> Self {
        let SavedInFlight { index, packet, start, inactive_signal, done, waits } = saved;
        let (state, packet): (_, KernelDispatchPacket) = (Arc::clone(state), zerocopy::transmute!(packet));
        let job = state.tools.job(state.identity.doorbell, index);
        Self {
            state,
            index,
            packet,
            start,
            inactive_signal,
            done: AtomicBool::new(done),
            waits: AtomicBool::new(waits),
            job,
            kept: None,
            late: Default::default(),
        }
    }

    /// Returns the index of its packet.
    pub(in crate::cp) fn index(&self) -> u64 {
        self.index
    }

    /// Returns true if it is of this packet, and not complete.
    pub(in crate::cp) fn is_of(&self, packet: u64) -> bool {
        self.index == packet && !self.done.load(Ordering::Acquire)
    }
}
