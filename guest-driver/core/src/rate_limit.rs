//! Limits on how often a line is logged, by name (`printk_ratelimited`).

use core::fmt;

use crate::errno::Result;
use crate::hw::Hw;
use crate::os::{LockRank, LogLevel, Os};
use crate::sync::Mutex;

/// Lines one limit lets through in an interval (`DEFAULT_RATELIMIT_BURST`).
const BURST: u32 = 10;
/// The interval (`DEFAULT_RATELIMIT_INTERVAL`).
const INTERVAL_NS: u64 = 5_000_000_000;

/// The lines of the interval that is running.
#[derive(Default)]
struct Window {
    /// When it began; `None` before the first line.
    begin: Option<u64>,
    lines: u32,
    suppressed: u64,
}

impl Window {
    /// Asks to log a line at `now`; returns how many lines were left out before it, or `None` to leave this one out too.
    fn admit(&mut self, now: u64) -> Option<u64> {
        let mut suppressed = 0;
        if self.begin.is_none_or(|begin| now.saturating_sub(begin) >= INTERVAL_NS) {
            suppressed = self.suppressed;
            *self = Self { begin: Some(now), lines: 0, suppressed: 0 };
        }
        if self.lines < BURST {
            self.lines += 1;
            Some(suppressed)
        } else {
            self.suppressed += 1;
            None
        }
    }
}

/// One kind of line, and how much of it was logged lately.
pub(crate) struct RateLimit<O: Os> {
    name: &'static str,
    window: Mutex<O, Window>,
}

impl<O: Os> RateLimit<O> {
    fn new(os: &O, name: &'static str) -> Result<Self> {
        Ok(Self { name, window: Mutex::new(os, LockRank::RateLimit, Window::default())? })
    }

    /// Logs a line, or counts it when there were too many; the count is logged before the next line.
    pub(crate) fn log(&self, hw: &Hw<O>, level: LogLevel, line: fmt::Arguments<'_>) {
        let admitted = self.window.lock().admit(hw.now_ns());
        match admitted {
            None => {}
            Some(0) => hw.os().log(level, line),
            Some(suppressed) => {
                hw.os().log(level, format_args!("{}: {suppressed} lines suppressed", self.name));
                hw.os().log(level, line);
            }
        }
    }
}

/// The kinds of lines that programs can cause at will.
pub(crate) struct RateLimits<O: Os> {
    pub(crate) bad_packet: RateLimit<O>,
    pub(crate) memory_fault: RateLimit<O>,
    pub(crate) overflow: RateLimit<O>,
    pub(crate) poison: RateLimit<O>,
    pub(crate) shader_error: RateLimit<O>,
    pub(crate) user_memory: RateLimit<O>,
}

impl<O: Os> RateLimits<O> {
    pub(crate) fn new(os: &O) -> Result<Self> {
        Ok(Self {
            bad_packet: RateLimit::new(os, "bad packets")?,
            memory_fault: RateLimit::new(os, "GPU memory faults")?,
            overflow: RateLimit::new(os, "interrupt ring overflows")?,
            poison: RateLimit::new(os, "consumed poison")?,
            shader_error: RateLimit::new(os, "shader errors")?,
            user_memory: RateLimit::new(os, "lost user memory")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_admits_a_burst_and_tells_the_next_one_what_it_left_out() {
        let mut window = Window::default();
        let start = 77;
        assert!((0..BURST).all(|_| window.admit(start) == Some(0)));
        assert!((0..1000).all(|_| window.admit(start + INTERVAL_NS - 1).is_none()));
        assert_eq!(window.admit(start + INTERVAL_NS), Some(1000));
        assert_eq!(window.admit(start + INTERVAL_NS), Some(0));
        // A clock that goes back is not a new interval.
        assert!((2..BURST).all(|_| window.admit(0).is_some()));
        assert_eq!(window.admit(0), None);
    }
}
