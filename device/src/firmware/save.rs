//! The firmware's state as plain values.

use serde::{Deserialize, Serialize};

use super::rings::SavedRunning;
use super::slots::SavedSlots;
use crate::queue::{HqdId, Partition};

/// The kernel's rings, and the queues.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedFirmware {
    /// Rings by graphics core and hardware queue.
    pub(super) rings: Vec<(u8, HqdId, SavedRunning)>,
    /// Rings that are the HIQ of a partition, on chips that have one.
    pub(super) hiqs: Vec<(Partition, HqdId)>,
    pub(super) queue_mask: u64,
    pub(super) slots: SavedSlots,
}

impl SavedFirmware {
    /// Returns the number of waves in progress.
    pub(crate) fn waves(&self) -> usize {
        self.slots.waves()
    }
}
