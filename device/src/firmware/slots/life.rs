//! The state of a queue between ADD_QUEUE and REMOVE_QUEUE.

use std::time::Duration;

use super::Place;
#[cfg(doc)]
use super::Queue;
use crate::queue::QueueEngine;
use crate::time::Clock;

/// State of a queue between ADD_QUEUE and REMOVE_QUEUE.
///
/// | from | to | by |
/// | --- | --- | --- |
/// | unmapped | mapped | [`Queue::map`] |
/// | unmapped | failed, on no slot | [`Queue::map`], which does not succeed |
/// | mapped | unmapped | [`Queue::unmap`] |
/// | mapped | leaving | [`Queue::unmap`], when pages are missing that its work is saved to |
/// | leaving | unmapped | [`Queue::unmap`], when they are there |
/// | leaving | failed, on no slot | [`Queue::unmap`], when its work cannot be saved |
/// | mapped | failed, still on its slot | [`Queue::serve`], when the engine stops |
/// | mapped | failed, on no slot | [`Queue::unmap`], when its work cannot be saved |
/// | failed | failed, on no slot | [`Queue::unmap`] |
#[derive(Debug)]
pub(super) enum Life {
    /// On no slot.
    Unmapped { wait: Wait, rest: Rest },
    /// On a slot, with an engine that runs unless the device is held.
    Mapped { slot: Slot, engine: Box<dyn QueueEngine>, activity: Activity },
    /// Still on its slot, with an engine that only waits for pages to save its work to; `then` is the wait after that.
    Leaving { slot: Slot, engine: Box<dyn QueueEngine>, then: Wait },
    /// Stopped for good; only REMOVE_QUEUE changes that. It has its slot until it is taken off.
    Failed { slot: Option<Slot>, read_index: u64 },
}

/// Least operations of a recorded device for which a queue stays on its slot.
const LEAST_OPERATIONS: u64 = 64;

/// The hardware queue that a queue is on.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(super) struct Slot {
    pub(super) id: Place,
    pub(super) since: Duration,
    /// Operations that a recorded device had done at that time; not known of a device that was restored.
    #[serde(skip)]
    pub(super) since_move: u64,
}

impl Slot {
    /// Makes a slot that a queue is on from now on.
    pub(super) fn now(id: Place, clock: &Clock) -> Self {
        Self { id, since: clock.now(), since_move: clock.moves().unwrap_or(0) }
    }

    /// Returns true if a recorded device has done so few operations since then that the queue stays there. To take it
    /// off and put it back may take that device longer than the quantum, which would leave no time for its work.
    pub(super) fn has_just_come(&self, clock: &Clock) -> bool {
        clock.moves().is_some_and(|moves| moves.saturating_sub(self.since_move) < LEAST_OPERATIONS)
    }
}

/// Event that a queue on no slot waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) enum Wait {
    /// A free slot: the queue has work, as far as is known.
    Slot,
    /// A ring of its doorbell.
    Doorbell,
    /// RESUME of its gang.
    Resume,
}

/// Values that the scheduler keeps of a queue that is on no slot; the rest is in its MQD and in its context save area.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(super) struct Rest {
    /// Read index at which the next engine begins.
    pub(super) read_index: u64,
    /// True if there is work in the context save area.
    pub(super) saved: bool,
}

/// Result of the last service of a queue on a slot.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) enum Activity {
    /// There was nothing to do.
    Idle,
    /// The queue has work, or has not been served yet.
    Working,
}

impl Life {
    /// Returns the hardware queue, while the queue is on one.
    pub(super) fn slot(&self) -> Option<Slot> {
        match self {
            Self::Mapped { slot, .. } | Self::Leaving { slot, .. } => Some(*slot),
            Self::Failed { slot, .. } => *slot,
            Self::Unmapped { .. } => None,
        }
    }

    /// Stops the engine, if there is one.
    pub(super) fn stop(self) {
        match self {
            Self::Mapped { mut engine, .. } | Self::Leaving { mut engine, .. } => engine.stop(),
            Self::Unmapped { .. } | Self::Failed { .. } => {}
        }
    }
}
