//! Work that goes on while the system's clock is set, far ahead and far back.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use belfry_runtime::Runtime;
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};

/// Seconds of a day.
const DAY: i64 = 24 * 3600;
/// Steps of the clock in days: a day and years, in both directions, with none left over at the end.
const STEPS: [i64; 6] = [1, -2, 400, -799, 3650, -3250];
/// Time between two steps.
const PAUSE: Duration = Duration::from_millis(30);

/// Runs `rounds` verified copies by the GPU while another thread sets the clock.
///
/// # Errors
///
/// When a copy fails or is wrong, a wait does not end, or the clock cannot be set.
pub fn run(runtime: &Runtime, rounds: u32, out: &mut dyn Write) -> Result<()> {
    let before = clock_gettime(ClockId::Monotonic);
    let stop = AtomicBool::new(false);
    let set = thread::scope(|scope| {
        let setter = scope.spawn(|| set_until(&stop));
        let mut worked = Ok(());
        for _ in 0..rounds {
            worked = crate::work(runtime, &mut std::io::sink());
            if worked.is_err() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let set = setter.join().map_err(|_| anyhow::anyhow!("the thread that sets the clock panicked"))??;
        worked.map(|()| set)
    })?;
    ensure!(set >= STEPS.len(), "the clock was set {set} times only: more rounds are needed");
    let passed = clock_gettime(ClockId::Monotonic).tv_sec - before.tv_sec;
    ensure!(passed < DAY, "{passed} s have passed: the steps reached a clock that is never set");
    writeln!(out, "clocks: {rounds} copies verified while the clock was set {set} times")?;
    Ok(())
}

/// Sets the clock until `stop`, whole turns of [`STEPS`], and returns the count.
fn set_until(stop: &AtomicBool) -> Result<usize> {
    let mut set = 0;
    while !stop.load(Ordering::Relaxed) {
        for days in STEPS {
            let now = clock_gettime(ClockId::Realtime);
            let moved = Timespec { tv_sec: now.tv_sec + days * DAY, tv_nsec: now.tv_nsec };
            clock_settime(ClockId::Realtime, moved).with_context(|| format!("a step of {days} days"))?;
            set += 1;
            thread::sleep(PAUSE);
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    #[test]
    fn steps_lead_back_to_the_time_of_day() {
        assert_eq!(super::STEPS.iter().sum::<i64>(), 0);
    }
}
