//! Halting the device, and going on by hand.

use std::time::Duration;

use serde::Serialize;

pub use belfry_device::look::{AccessRange, BreakOn};
use belfry_device::look::{Steps, WaveKey, Why};

use super::{Hex, InspectError, Inspector, WaveId};

/// Most instructions of one step.
const MAX_STEP: u32 = 1 << 20;

/// State of a device that may be halted.
#[derive(Clone, Debug, Serialize)]
pub struct StatusView {
    /// True if the device is halted.
    pub halted: bool,
    /// Reason: `paused`, or the breakpoint.
    pub why: Option<String>,
    /// The breakpoint's number.
    pub breakpoint: Option<u32>,
    /// The wave that has come to it.
    pub wave: Option<WaveId>,
    /// All waves that stay at a breakpoint, with their address: several may come to one at the same time.
    pub at: Vec<(WaveId, Hex)>,
    /// Waves that have made an access that a breakpoint waits for: the wave, the breakpoint's number, the
    /// first byte.
    pub accesses: Vec<(WaveId, u32, Hex)>,
    /// All breakpoints: number and description.
    pub breakpoints: Vec<(u32, String)>,
}

pub(super) fn key(wave: WaveId) -> WaveKey {
    (wave.dispatch, wave.workgroup, wave.wave)
}

impl Inspector<'_> {
    /// Returns the state of the device.
    #[must_use]
    pub fn status(&self) -> StatusView {
        let stops = self.device.stops();
        let id = |(dispatch, workgroup, wave)| WaveId { dispatch, workgroup, wave };
        let at = stops.at().into_iter().map(|(wave, pc)| (id(wave), Hex(pc))).collect();
        let (why, breakpoint, wave) = match stops.why() {
            None => (None, None, None),
            Some(Why::Paused) => (Some("paused".to_owned()), None, None),
            Some(Why::Looking) => (None, None, None),
            Some(Why::Wave(number, what, wave)) => (Some(what), Some(number), Some(id(wave))),
            Some(Why::Other(number, what)) => (Some(what), Some(number), None),
        };
        let breakpoints = stops.breaks().into_iter().map(|(number, on)| (number, on.to_string())).collect();
        let accesses = stops.accesses().into_iter();
        let accesses = accesses.map(|(wave, number, byte)| (id(wave), number, Hex(byte))).collect();
        StatusView { halted: why.is_some(), why, breakpoint, wave, at, accesses, breakpoints }
    }

    /// Halts the device; when this returns, no wave runs and no packet is processed.
    ///
    /// # Errors
    ///
    /// A device that is stopped.
    pub fn halt(&self) -> Result<StatusView, InspectError> {
        self.device.stops().pause();
        self.settle()?;
        Ok(self.status())
    }

    /// Asks the device to halt, and does not wait until it has; [`Inspector::halt`] does. It may be called from within
    /// [`TraceSink::record`](belfry_device::trace::TraceSink::record), where a wait would never end.
    pub fn halt_soon(&self) {
        self.device.stops().pause();
    }

    /// Waits until everything that was told to halt stands still.
    fn settle(&self) -> Result<(), InspectError> {
        self.device.settle().map_err(|_| InspectError::Stopped)
    }

    /// Lets a halted device go on; returns true if it was halted.
    pub fn proceed(&self) -> bool {
        self.device.proceed()
    }

    /// Waits until a breakpoint or another client halts the device, for at most `limit`.
    ///
    /// # Errors
    ///
    /// A device that is stopped.
    pub fn wait(&self, limit: Duration) -> Result<StatusView, InspectError> {
        if self.device.stops().wait(limit) {
            self.settle()?;
        }
        Ok(self.status())
    }

    /// Runs a wave of a halted device for `count` instructions, or until it waits.
    ///
    /// # Errors
    ///
    /// A device that is not halted, no such wave, one whose queue is held.
    pub fn step(&self, wave: WaveId, count: u32) -> Result<(), InspectError> {
        self.by_hand(wave, Steps::Wave(count.min(MAX_STEP)))
    }

    /// Runs the workgroup of a wave of a halted device until all of its waves have ended or wait at a barrier.
    ///
    /// # Errors
    ///
    /// As [`Inspector::step`].
    pub fn step_to_barrier(&self, wave: WaveId) -> Result<(), InspectError> {
        self.by_hand(wave, Steps::ToBarrier)
    }

    fn by_hand(&self, wave: WaveId, steps: Steps) -> Result<(), InspectError> {
        self.device.step(key(wave), steps).map_err(|error| InspectError::of_wave(error, wave))
    }

    /// Adds a breakpoint; returns its number.
    ///
    /// # Errors
    ///
    /// Too many.
    pub fn add_break(&self, on: BreakOn) -> Result<u32, InspectError> {
        self.device.stops().add(on).ok_or(InspectError::TooManyBreaks)
    }

    /// Adds a breakpoint for writes of a register.
    ///
    /// # Errors
    ///
    /// No register of that name, or too many breakpoints.
    pub fn break_on_register(&self, name: &str) -> Result<u32, InspectError> {
        let found = self.device.register(name);
        let (name, dword) = found.ok_or_else(|| InspectError::Register(name.to_owned()))?;
        self.add_break(BreakOn::Register(name, dword))
    }

    /// Breakpoints for lines of sources that have no code yet, [`BreakOn::Line`]: their numbers and lines.
    #[must_use]
    pub fn lines_without_code(&self) -> Vec<(u32, String)> {
        let line = |(number, on)| match on {
            BreakOn::Line(place) => Some((number, place)),
            _ => None,
        };
        self.device.stops().breaks().into_iter().filter_map(line).collect()
    }

    /// Replaces a breakpoint with others, the first of which takes its number; returns false if there is no
    /// such breakpoint, or no room.
    pub fn replace_break(&self, number: u32, with: Vec<BreakOn>) -> bool {
        self.device.stops().replace(number, with)
    }

    /// Waits until a packet is about to dispatch while there are [lines without
    /// code](Self::lines_without_code), for at most `limit`. Returns true if one is: then everything stands
    /// still until [`Inspector::looked`].
    ///
    /// # Errors
    ///
    /// A device that is stopped.
    pub fn wait_for_look(&self, limit: Duration) -> Result<bool, InspectError> {
        let wanted = self.device.stops().wait_for_look(limit);
        if wanted {
            self.settle()?;
        }
        Ok(wanted)
    }

    /// Lets that packet go on, unless the device is halted for another reason by now.
    pub fn looked(&self) {
        self.device.looked();
    }

    /// Removes a breakpoint; returns true if there was one.
    pub fn remove_break(&self, number: u32) -> bool {
        self.device.stops().remove(Some(number))
    }

    /// Removes all breakpoints.
    pub fn clear_breaks(&self) {
        self.device.stops().remove(None);
    }
}
