//! Polling for a moment before going to sleep.

use std::time::{Duration, Instant};

/// Time for which threads poll before they sleep. Waking a sleeping thread takes several microseconds, or
/// tens of them if the host has put the processor to sleep as well; a thread that hands over a stream of work
/// pays that only once.
const PATIENCE: Duration = Duration::from_micros(50);
/// Time for which a thread polls that has slept for a short time only, on a machine with many processors.
const LONGER: Duration = Duration::from_micros(200);
/// Processors from which on a thread that polls takes no time from threads with work.
const MANY: usize = 8;
/// Looks between two offers of the processor to other threads.
const LOOKS: u32 = 8;

/// Polls until `is_news` holds or patience runs out; returns true if it held.
pub fn look_out(is_news: impl Fn() -> bool) -> bool {
    look_out_for(PATIENCE, is_news)
}

fn look_out_for(time: Duration, is_news: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if is_news() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() >= time {
            return false;
        }
        // The other thread may need this processor.
        std::thread::yield_now();
    }
}

/// Patience of one thread, which learns from its sleeps.
///
/// Threads that hand work to each other, and each sleep while the others wake, stay that slow: each waits longer than its
/// patience because of the time that waking takes. A short sleep is a sign of that, and the next look-out is longer.
#[derive(Debug)]
pub(crate) struct Patience {
    time: Duration,
    /// Longest time that the thread polls.
    most: Duration,
}

impl Patience {
    /// Makes the usual patience of a thread on a machine with this many processors.
    pub(crate) fn new(processors: usize) -> Patience {
        Patience { time: PATIENCE, most: if processors >= MANY { LONGER } else { PATIENCE } }
    }

    /// Polls until `is_news` holds or patience runs out; returns true if it held.
    pub(crate) fn look_out(&self, is_news: impl Fn() -> bool) -> bool {
        look_out_for(self.time, is_news)
    }

    /// Runs `sleep`, after which the thread was woken because there are news, and learns from its time.
    pub(crate) fn sleep<R>(&mut self, sleep: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = sleep();
        self.learn(start.elapsed());
        result
    }

    fn learn(&mut self, slept: Duration) {
        self.time = if slept < LONGER { self.most } else { PATIENCE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_sleep_makes_the_next_look_out_longer() {
        let (short, long) = (LONGER / 2, LONGER * 2);
        let mut patience = Patience::new(MANY);
        assert_eq!(patience.time, PATIENCE);
        patience.learn(short);
        assert_eq!(patience.time, LONGER);
        patience.learn(long);
        assert_eq!(patience.time, PATIENCE);
        let mut patience = Patience::new(MANY - 1);
        patience.learn(short);
        assert_eq!(patience.time, PATIENCE, "others may need the processor");
        assert_eq!(patience.sleep(|| 5), 5);
        assert!(patience.look_out(|| true) && !patience.look_out(|| false));
    }
}
