//! Figures that a card of silicon measures, and that one of software has not: clocks, power, temperatures, voltage and fan.
//!
//! All of them follow how busy the card is, which is measured, between what a Radeon RX 7900 XTX has at rest and under full
//! load. The driver's files and the SMU's tables are two views of this one model. `docs/sysfs.md` says of every file whether
//! its figure is measured or comes from here.

mod load;

pub use load::{Load, measure};

/// Engine clock at rest, MHz.
pub const IDLE_ENGINE_CLOCK: u32 = 500;
/// Memory clocks below the highest, MHz.
pub const MEMORY_CLOCKS: [u32; 3] = [96, 456, 772];
/// Clocks of the data fabric, MHz.
pub const FABRIC_CLOCKS: [u32; 2] = [500, 2000];
/// Clocks of the system hub, MHz.
pub const SYSTEM_CLOCKS: [u32; 2] = [489, 1200];
/// The power limit in watts, which cannot be changed.
pub const POWER_LIMIT: u32 = 339;
/// Power at rest in watts.
const IDLE_POWER: u32 = 16;
/// Voltage of the engine in millivolts, at rest and under full load.
const VOLTAGE: (u32, u32) = (700, 1100);
/// The fan's highest speed in RPM; it stands still, as real ones do at such temperatures.
pub const MAX_FAN_SPEED: u32 = 3200;
/// Lanes of the link.
pub const LINK_LANES: u32 = 16;
/// Speed of the link in tenths of GT/s.
pub const LINK_SPEED: u32 = 160;

/// Highest clocks of a card, in MHz.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Of the engine.
    pub engine: u32,
    /// Of the memory.
    pub memory: u32,
}

impl Peaks {
    /// Clocks of a Radeon RX 7900 XTX.
    pub const GFX1100: Self = Self { engine: 2482, memory: 1249 };

    /// Clocks of the memory, lowest first.
    #[must_use]
    pub const fn memory_clocks(self) -> [u32; 4] {
        let [first, second, third] = MEMORY_CLOCKS;
        [first, second, third, self.memory]
    }
}

/// One place where the temperature is measured, all in degrees Celsius.
#[derive(Clone, Copy, Debug)]
pub struct Sensor {
    at_rest: u32,
    under_load: u32,
    /// Limit that the card is kept below.
    pub critical: u32,
    /// Limit from which on it is switched off.
    pub emergency: u32,
}

/// Edge of the chip.
pub const EDGE: Sensor = Sensor { at_rest: 36, under_load: 60, critical: 100, emergency: 105 };
/// Hottest place of the chip.
pub const JUNCTION: Sensor = Sensor { at_rest: 40, under_load: 78, critical: 110, emergency: 115 };
/// Memory.
pub const MEMORY: Sensor = Sensor { at_rest: 42, under_load: 70, critical: 108, emergency: 113 };

/// Figures of a card that is so busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sensors {
    /// Its highest clocks.
    pub peaks: Peaks,
    /// Hundredths of the time that it has executed waves lately.
    pub busy_percent: u8,
}

impl Sensors {
    /// The value as far between two as the card is busy.
    fn between(self, at_rest: u32, under_load: u32) -> u32 {
        at_rest + (under_load - at_rest) * u32::from(self.busy_percent.min(100)) / 100
    }

    /// Returns true if the clocks that only have levels are at their highest.
    fn works(self) -> bool {
        self.busy_percent > 0
    }

    /// Engine clock in MHz.
    #[must_use]
    pub fn engine_clock(self) -> u32 {
        self.between(IDLE_ENGINE_CLOCK.min(self.peaks.engine), self.peaks.engine)
    }

    /// Memory clock in MHz.
    #[must_use]
    pub fn memory_clock(self) -> u32 {
        if self.works() { self.peaks.memory } else { MEMORY_CLOCKS[0] }
    }

    /// Clock of the data fabric in MHz.
    #[must_use]
    pub fn fabric_clock(self) -> u32 {
        FABRIC_CLOCKS[usize::from(self.works())]
    }

    /// Clock of the system hub in MHz.
    #[must_use]
    pub fn system_clock(self) -> u32 {
        SYSTEM_CLOCKS[usize::from(self.works())]
    }

    /// Power in watts.
    #[must_use]
    pub fn power(self) -> u32 {
        self.between(IDLE_POWER, POWER_LIMIT)
    }

    /// Voltage of the engine in millivolts.
    #[must_use]
    pub fn voltage(self) -> u32 {
        self.between(VOLTAGE.0, VOLTAGE.1)
    }

    /// Temperature at a place in degrees Celsius.
    #[must_use]
    pub fn temperature(self, sensor: &Sensor) -> u32 {
        self.between(sensor.at_rest, sensor.under_load)
    }
}

/// Energy in microjoules since the machine was started: what the power comes to, over the time that the card was busy and
/// over all other time. Both times are in nanoseconds.
#[must_use]
pub fn energy(boot_ns: u64, busy_ns: u64) -> u64 {
    // Watts times microseconds; a kernel has no division of 128 bits.
    let microjoules = |ns: u64, watts: u32| (ns / 1000).saturating_mul(watts.into());
    microjoules(boot_ns, IDLE_POWER).saturating_add(microjoules(busy_ns, POWER_LIMIT - IDLE_POWER))
}
