//! The firmware's state as plain values.

use serde::{Deserialize, Serialize};

use super::mes::SavedMes;
use super::rings::SavedRunning;
use crate::queue::HqdId;

/// The kernel's rings, and the MES.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedFirmware {
    pub(super) rings: Vec<(HqdId, SavedRunning)>,
    pub(super) queue_mask: u64,
    pub(super) mes: SavedMes,
}

impl SavedFirmware {
    /// Waves in progress.
    pub(crate) fn waves(&self) -> usize {
        self.mes.waves()
    }
}
