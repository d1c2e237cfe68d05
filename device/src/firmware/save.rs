//! The state of firmware as plain values.

use serde::{Deserialize, Serialize};

use super::rings::SavedRings;
use super::sdma_rings::SavedEngine;
use super::slots::SavedSlots;
use crate::queue::{HqdId, Partition};
use crate::save::Broken;

/// The state of one firmware.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) enum SavedFirmware {
    Mes(SavedMes),
    Hws(SavedHws),
    /// Rings of the SDMA engines, by engine.
    SdmaRings(Vec<SavedEngine>),
}

/// KIQ and MES: the kernel's rings, and the queues.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedMes {
    /// Rings by graphics core and hardware queue.
    pub(super) rings: SavedRings,
    /// Compute queues that the KIQ may map.
    pub(super) queue_mask: u64,
    pub(super) slots: SavedSlots,
}

/// KIQs and the HIQ of each partition, and the queues.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedHws {
    /// Rings by graphics core and hardware queue.
    pub(super) rings: SavedRings,
    /// Rings that are the HIQ of a partition.
    pub(super) hiqs: Vec<(Partition, HqdId)>,
    pub(super) slots: SavedSlots,
}

impl SavedFirmware {
    /// The error of a state that another firmware has.
    pub(super) const OF_ANOTHER_KIND: Broken = Broken { field: "kind of a firmware", value: 0 };

    /// Returns the number of waves in progress.
    pub(crate) fn waves(&self) -> usize {
        match self {
            Self::Mes(SavedMes { slots, .. }) | Self::Hws(SavedHws { slots, .. }) => slots.waves(),
            Self::SdmaRings(_) => 0,
        }
    }
}
