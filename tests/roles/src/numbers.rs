//! Numbers that look random, and the file of what children of a race have done.

use std::thread;
use std::time::Duration;

/// File of the children's counters, which they all map.
pub(crate) const COUNTERS: &str = "/tmp/race-counters";

/// Numbers that look random and are the same for the same seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    pub(crate) fn sleep_ms(&mut self, end: u64) {
        thread::sleep(Duration::from_micros(self.below(end * 1000)));
    }
}
