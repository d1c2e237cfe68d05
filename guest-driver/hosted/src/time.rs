//! The driver's clocks: the kernel's, or those of a device with a time of its own.
#![expect(unsafe_code, reason = "reads the kernel's clocks")]

use belfry_device::time::TimeSource;
use belfry_kfd_core::os::Clock;

/// Clocks that pass as the device's time does.
#[derive(Debug, Clone)]
pub(crate) struct DriverTime {
    source: TimeSource,
    /// Values of the source and of the kernel's clocks when this was made; of the latter in nanoseconds.
    start: (std::time::Duration, u64, u64),
}

impl DriverTime {
    pub(crate) fn new(source: &TimeSource) -> Self {
        let start = (source.now(), kernel_clock(Clock::MonotonicRaw), kernel_clock(Clock::Boot));
        Self { source: source.clone(), start }
    }

    pub(crate) fn source(&self) -> &TimeSource {
        &self.source
    }

    /// Nanoseconds.
    pub(crate) fn clock_ns(&self, clock: Clock) -> u64 {
        if self.source.is_real() {
            return kernel_clock(clock);
        }
        let (from, raw, boot) = self.start;
        let start = match clock {
            // Programs that take the clock themselves have real time.
            Clock::Monotonic => return kernel_clock(clock),
            Clock::MonotonicRaw => raw,
            Clock::Boot => boot,
        };
        let passed = self.source.now().saturating_sub(from).as_nanos();
        start.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }
}

/// The kernel's monotonic clock, which programs compare times of theirs with.
pub(crate) fn monotonic_ns() -> u64 {
    kernel_clock(Clock::Monotonic)
}

fn kernel_clock(clock: Clock) -> u64 {
    let clock = match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::MonotonicRaw => libc::CLOCK_MONOTONIC_RAW,
        Clock::Boot => libc::CLOCK_BOOTTIME,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is the caller's own.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
