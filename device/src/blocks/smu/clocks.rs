//! Features, the levels of clocks, and the limits that a driver sets.

use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::sensors::{FABRIC_CLOCKS, IDLE_ENGINE_CLOCK, POWER_LIMIT, Peaks, SYSTEM_CLOCKS, Sensors};
use belfry_abi::smu::{Clock, Features};

use crate::guest_error::GuestError;

/// Features that run as soon as a driver allows them: those behind which there are figures.
pub(super) const MODELLED: Features = Features::DPM_GFXCLK
    .with(Features::DPM_UCLK)
    .with(Features::DPM_FCLK)
    .with(Features::DPM_SOCCLK)
    .with(Features::DPM_LINK)
    .with(Features::THROTTLERS)
    .with(Features::FAN_CONTROL);

/// Clocks that have levels.
pub(super) const CLOCKS: [Clock; 4] = [Clock::GFXCLK, Clock::SOCCLK, Clock::UCLK, Clock::FCLK];

/// Half of the features: bits 31:0 or bits 63:32.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(super) enum Half {
    Low = 0,
    High = 1,
}

/// Settings of a driver.
#[derive(Debug)]
pub(super) struct Settings {
    /// Features that it allows, by halves.
    allowed: [AtomicU32; 2],
    /// Features that run, by halves.
    running: [AtomicU32; 2],
    /// Lowest and highest frequency of each clock, in MHz.
    limits: [[AtomicU32; 2]; CLOCKS.len()],
}

/// Limit of a clock.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(super) enum Limit {
    Lowest = 0,
    Highest = 1,
}

/// The levels of a clock.
#[derive(Debug)]
pub(super) struct Levels {
    /// MHz, lowest first.
    pub(super) mhz: Vec<u32>,
    /// True if it takes any frequency between the first and the last.
    pub(super) fine: bool,
}

/// Returns the levels of a clock.
///
/// # Errors
///
/// A clock that has none here.
pub(super) fn levels(clock: Clock, peaks: Peaks) -> Result<Levels, GuestError> {
    let (mhz, fine) = match clock {
        Clock::GFXCLK => (vec![IDLE_ENGINE_CLOCK.min(peaks.engine), peaks.engine], true),
        Clock::SOCCLK => (SYSTEM_CLOCKS.to_vec(), false),
        Clock::UCLK => (peaks.memory_clocks().to_vec(), false),
        Clock::FCLK => (FABRIC_CLOCKS.to_vec(), false),
        _ => return Err(GuestError::SmuClock),
    };
    Ok(Levels { mhz, fine })
}

impl Levels {
    /// Returns the frequency of a level, or the number of levels.
    ///
    /// # Errors
    ///
    /// A level that does not exist.
    pub(super) fn at(&self, level: u32) -> Result<u32, GuestError> {
        if level == Clock::LEVELS {
            let fine = if self.fine { Clock::FINE_GRAINED } else { 0 };
            return Ok(self.mhz.len() as u32 | fine);
        }
        self.mhz.get(level as usize).copied().ok_or(GuestError::SmuClock)
    }

    /// Returns a frequency that the clock can have: this one, or the highest below it.
    fn near(&self, mhz: u32) -> u32 {
        let (first, last) = (self.mhz[0], self.mhz[self.mhz.len() - 1]);
        if self.fine {
            return mhz.clamp(first, last);
        }
        self.mhz.iter().rfind(|&&level| level <= mhz).copied().unwrap_or(first)
    }
}

impl Settings {
    pub(super) fn new() -> Self {
        let settings =
            Self { allowed: Default::default(), running: Default::default(), limits: Default::default() };
        settings.reset();
        settings
    }

    /// Values that are kept in a snapshot.
    pub(super) fn kept(&self) -> impl Iterator<Item = &AtomicU32> {
        self.allowed.iter().chain(&self.running).chain(self.limits.iter().flatten())
    }

    pub(super) fn reset(&self) {
        for half in self.allowed.iter().chain(&self.running) {
            half.store(0, Ordering::Release);
        }
        for [lowest, highest] in &self.limits {
            lowest.store(0, Ordering::Release);
            highest.store(u32::MAX, Ordering::Release);
        }
    }

    pub(super) fn allow(&self, half: Half, features: u32) {
        self.allowed[half as usize].store(features, Ordering::Release);
    }

    /// Starts features, as far as they are allowed and modelled.
    pub(super) fn start(&self, half: Half, features: u32) {
        let can = MODELLED.halves()[half as usize] & self.allowed[half as usize].load(Ordering::Acquire);
        self.running[half as usize].fetch_or(features & can, Ordering::AcqRel);
    }

    pub(super) fn stop(&self, half: Half, features: u32) {
        self.running[half as usize].fetch_and(!features, Ordering::AcqRel);
    }

    pub(super) fn running(&self, half: Half) -> u32 {
        self.running[half as usize].load(Ordering::Acquire)
    }

    /// Limits a clock.
    ///
    /// # Errors
    ///
    /// A clock without levels.
    pub(super) fn limit(&self, clock: Clock, limit: Limit, mhz: u32) -> Result<(), GuestError> {
        let place = CLOCKS.iter().position(|&known| known == clock).ok_or(GuestError::SmuClock)?;
        self.limits[place][limit as usize].store(mhz, Ordering::Release);
        Ok(())
    }

    /// Returns the frequency of a clock now: that of the model, within the limits.
    pub(super) fn now(&self, clock: Clock, sensors: Sensors) -> u32 {
        let mhz = match clock {
            Clock::GFXCLK => sensors.engine_clock(),
            Clock::SOCCLK => sensors.system_clock(),
            Clock::UCLK => sensors.memory_clock(),
            Clock::FCLK => sensors.fabric_clock(),
            _ => return 0,
        };
        let (Some(place), Ok(levels)) =
            (CLOCKS.iter().position(|&known| known == clock), levels(clock, sensors.peaks))
        else {
            return 0;
        };
        let [lowest, highest] = self.limits[place].each_ref().map(|limit| limit.load(Ordering::Acquire));
        // The highest wins where a driver sets limits that exclude each other.
        levels.near(mhz.max(lowest).min(highest))
    }
}

/// Takes a limit of power: it is the only one that the card can have.
///
/// # Errors
///
/// Any other limit.
pub(super) fn check_power_limit(watts: u32) -> Result<(), GuestError> {
    if watts == POWER_LIMIT { Ok(()) } else { Err(GuestError::SmuPowerLimit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEAKS: Peaks = Peaks::GFX1100;

    #[test]
    fn clocks_have_the_levels_of_the_model() {
        assert_eq!(levels(Clock::GFXCLK, PEAKS).unwrap().at(Clock::LEVELS), Ok(2 | Clock::FINE_GRAINED));
        let memory = levels(Clock::UCLK, PEAKS).unwrap();
        assert_eq!(memory.at(Clock::LEVELS), Ok(4));
        assert_eq!([0, 1, 2, 3].map(|level| memory.at(level).unwrap()), [96, 456, 772, 1249]);
        assert_eq!(memory.at(4), Err(GuestError::SmuClock));
        assert_eq!(levels(Clock(4), PEAKS).unwrap_err(), GuestError::SmuClock);
    }

    #[test]
    fn clocks_follow_the_load_within_their_limits() {
        let settings = Settings::new();
        let busy = |busy_percent| Sensors { peaks: PEAKS, busy_percent };
        assert_eq!(settings.now(Clock::GFXCLK, busy(0)), 500);
        assert_eq!(settings.now(Clock::GFXCLK, busy(100)), 2482);
        settings.limit(Clock::GFXCLK, Limit::Lowest, 2000).unwrap();
        assert_eq!(settings.now(Clock::GFXCLK, busy(0)), 2000);
        settings.limit(Clock::GFXCLK, Limit::Highest, u32::MAX).unwrap();
        settings.limit(Clock::GFXCLK, Limit::Lowest, u32::MAX).unwrap();
        assert_eq!(settings.now(Clock::GFXCLK, busy(0)), 2482, "no more than the highest level");
        settings.limit(Clock::UCLK, Limit::Highest, 800).unwrap();
        assert_eq!(settings.now(Clock::UCLK, busy(50)), 772, "a level");
        settings.limit(Clock::UCLK, Limit::Highest, 0).unwrap();
        assert_eq!(settings.now(Clock::UCLK, busy(50)), 96);
        assert_eq!(settings.limit(Clock(7), Limit::Lowest, 1), Err(GuestError::SmuClock));
        settings.reset();
        assert_eq!(settings.now(Clock::UCLK, busy(50)), 1249);
    }

    #[test]
    fn features_run_once_they_are_allowed() {
        let settings = Settings::new();
        settings.start(Half::Low, u32::MAX);
        assert_eq!(settings.running(Half::Low), 0, "none was allowed");
        settings.allow(Half::Low, !(Features::DPM_UCLK.0 as u32));
        settings.start(Half::Low, u32::MAX);
        assert_eq!(settings.running(Half::Low), MODELLED.0 as u32 & !(Features::DPM_UCLK.0 as u32));
        settings.stop(Half::Low, Features::DPM_GFXCLK.0 as u32);
        assert_eq!(settings.running(Half::Low) & Features::DPM_GFXCLK.0 as u32, 0);
        assert_eq!(settings.running(Half::High), 0);
    }
}
