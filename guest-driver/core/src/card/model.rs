//! Clocks, power, temperatures, voltage and fan: a card of silicon measures them, this one has none.
//!
//! All of them follow how busy the card is, which is measured, between what a Radeon RX 7900 XTX has at rest and under
//! full load. `docs/sysfs.md` says of every file whether its figure is measured or comes from here.

use super::{Card, Figures};

/// Engine clock at rest, MHz.
pub(super) const IDLE_ENGINE_CLOCK: u32 = 500;
/// Memory clocks below the highest, MHz.
pub(super) const MEMORY_CLOCKS: [u32; 3] = [96, 456, 772];
/// Clocks of the data fabric, MHz.
pub(super) const FABRIC_CLOCKS: [u32; 2] = [500, 2000];
/// Clocks of the system hub, MHz.
pub(super) const SYSTEM_CLOCKS: [u32; 2] = [489, 1200];
/// The power limit in watts, which cannot be changed.
pub(super) const POWER_LIMIT: u32 = 339;
/// Power at rest in watts.
const IDLE_POWER: u32 = 16;
/// Voltage of the engine in millivolts, at rest and under full load.
const VOLTAGE: (u32, u32) = (700, 1100);
/// The fan's highest speed in RPM; it stands still, as real ones do at such temperatures.
pub(super) const MAX_FAN_SPEED: u32 = 3200;
/// Width of the link in lanes, and its speed in tenths of GT/s.
pub(super) const LINK: (u32, u32) = (16, 160);

/// One place where the temperature is measured, all in degrees Celsius.
pub(super) struct Sensor {
    at_rest: u32,
    under_load: u32,
    pub(super) critical: u32,
    pub(super) emergency: u32,
}

pub(super) const EDGE: Sensor = Sensor { at_rest: 36, under_load: 60, critical: 100, emergency: 105 };
pub(super) const JUNCTION: Sensor = Sensor { at_rest: 40, under_load: 78, critical: 110, emergency: 115 };
pub(super) const MEMORY: Sensor = Sensor { at_rest: 42, under_load: 70, critical: 108, emergency: 113 };

/// The value as far between two as the card is busy.
fn between(at_rest: u32, under_load: u32, figures: &Figures) -> u32 {
    at_rest + (under_load - at_rest) * u32::from(figures.busy_percent) / 100
}

impl Sensor {
    /// Degrees Celsius.
    pub(super) fn temperature(&self, figures: &Figures) -> u32 {
        between(self.at_rest, self.under_load, figures)
    }
}

/// Engine clock in MHz.
pub(super) fn engine_clock(card: &Card, figures: &Figures) -> u32 {
    between(IDLE_ENGINE_CLOCK.min(card.max_engine_clock), card.max_engine_clock, figures)
}

/// Returns whether the clocks that only have levels are at their highest.
fn works(figures: &Figures) -> bool {
    figures.busy_percent > 0
}

/// Memory clock in MHz.
pub(super) fn memory_clock(card: &Card, figures: &Figures) -> u32 {
    if works(figures) { card.max_memory_clock } else { MEMORY_CLOCKS[0] }
}

/// The lower or the higher of two clocks.
pub(super) fn one_of(clocks: [u32; 2], figures: &Figures) -> u32 {
    clocks[usize::from(works(figures))]
}

/// Power in watts.
pub(super) fn power(figures: &Figures) -> u32 {
    between(IDLE_POWER, POWER_LIMIT, figures)
}

/// Energy in microjoules since the machine was started: what the power comes to, over the time that the card was busy and over all other
/// time.
pub(super) fn energy(figures: &Figures) -> u64 {
    // Watts times microseconds; a kernel has no division of 128 bits.
    let microjoules = |ns: u64, watts: u32| (ns / 1000).saturating_mul(watts.into());
    microjoules(figures.boot_ns, IDLE_POWER)
        .saturating_add(microjoules(figures.busy_ns, POWER_LIMIT - IDLE_POWER))
}

/// Voltage of the engine in millivolts.
pub(super) fn voltage(figures: &Figures) -> u32 {
    between(VOLTAGE.0, VOLTAGE.1, figures)
}
