//! The one source of time of a device.

use std::sync::Arc;
use std::time::Instant;

/// Reads the 100 MHz golden counter.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A golden counter that starts now, at 1: a counter that reads 0 would look like a stopped clock.
pub(crate) fn golden_counter() -> Clock {
    let start = Instant::now();
    Arc::new(move || (start.elapsed().as_nanos() / 10) as u64 + 1)
}
