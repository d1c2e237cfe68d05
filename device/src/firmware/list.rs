//! The firmware of a chip, in the order in which it is served.

use std::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;

use super::hws::HwsScheduler;
use super::mes::MesScheduler;
use super::sdma_rings::SdmaRings;
use super::{Firmware, Ports, SavedFirmware, SeenQueue, Served, Turn};
use crate::chip;
use crate::save::{Broken, count};
use crate::shader::Restoring;
use crate::vm::{SpaceList, Spaces};

/// All firmware of a device.
#[derive(Debug)]
pub(crate) struct FirmwareList(Vec<Box<dyn Firmware>>);

impl FirmwareList {
    /// Makes the firmware of the chip.
    pub(crate) fn new(ports: Ports) -> Self {
        let ports = Arc::new(ports);
        let make = |firmware: &chip::Firmware| -> Box<dyn Firmware> {
            let ports = Arc::clone(&ports);
            match *firmware {
                chip::Firmware::Mes(mes) => Box::new(MesScheduler::new(ports, mes)),
                chip::Firmware::Hws(_) => Box::new(HwsScheduler::new(ports)),
                chip::Firmware::SdmaRings => Box::new(SdmaRings::new(ports)),
            }
        };
        Self(ports.chip.firmware.iter().map(make).collect())
    }

    /// Serves all. Returns the time of the next call.
    pub(crate) fn pass(&mut self) -> Turn {
        // Each has its turn, also if one before it has more to do at once.
        self.0.iter_mut().map(|firmware| firmware.pass()).min().unwrap_or(Turn::WhenWoken)
    }

    /// Serves the queue of a doorbell; `None` if only [`pass`](Self::pass) may do that.
    pub(crate) fn serve(&mut self, doorbell: DoorbellIndex) -> Option<Served> {
        self.0.iter_mut().find_map(|firmware| firmware.serve(doorbell))
    }

    /// Returns true if any ring or queue listens to a doorbell.
    pub(crate) fn listens(&self) -> bool {
        self.0.iter().any(|firmware| firmware.listens())
    }

    /// Keeps waves where they are, or lets them go on.
    pub(crate) fn hold(&mut self, held: bool) {
        self.0.iter_mut().for_each(|firmware| firmware.hold(held));
    }

    /// Stops everything and forgets everything. What was started last is stopped first.
    pub(crate) fn reset(&mut self) {
        self.0.iter_mut().rev().for_each(|firmware| firmware.reset());
    }

    /// Returns all queues, those of one firmware after those of another.
    pub(crate) fn queues(&self) -> Vec<SeenQueue> {
        self.0.iter().flat_map(|firmware| firmware.queues()).collect()
    }

    /// Returns the state of each, while the shader engine is held.
    pub(crate) fn save(&self, spaces: &mut SpaceList) -> Vec<SavedFirmware> {
        self.0.iter().map(|firmware| firmware.save(spaces)).collect()
    }

    /// Takes over the state of another device's firmware, with its queues suspended.
    ///
    /// # Errors
    ///
    /// The state of other firmware, or a value that no device has.
    pub(crate) fn restore(
        &mut self,
        saved: &[SavedFirmware],
        spaces: &Spaces,
        restoring: &mut Restoring,
    ) -> Result<(), Broken> {
        count("firmware", saved.len(), saved.len() == self.0.len())?;
        let mut pairs = self.0.iter_mut().zip(saved);
        pairs.try_for_each(|(firmware, saved)| firmware.restore(saved, spaces, restoring))
    }
}
