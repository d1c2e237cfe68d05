//! Polling for a moment before going to sleep.

use std::time::{Duration, Instant};

/// Time for which threads poll before they sleep. Waking a sleeping thread takes several microseconds, or
/// tens of them if the host has put the processor to sleep as well; a thread that hands over a stream of work
/// pays that only once.
const PATIENCE: Duration = Duration::from_micros(50);
/// Looks between two offers of the processor to other threads.
const LOOKS: u32 = 8;

/// Polls until `is_news` holds or patience runs out; returns true if it held.
pub fn look_out(is_news: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if is_news() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= PATIENCE {
            return false;
        }
        // The other thread may need this processor.
        std::thread::yield_now();
    }
}
