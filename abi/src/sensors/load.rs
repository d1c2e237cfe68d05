//! Load of the card: from how long it has executed waves, as its performance counter counts it.

use core::fmt;

/// Nanoseconds within which looks are one: those who read several files at a time see the same, and those who read all the time cost
/// the device no more than a look in so long a time.
const FRESH_NS: u64 = 20_000_000;
/// Nanoseconds after which a look says nothing of what the card does now.
const STALE_NS: u64 = 2_000_000_000;
/// Microseconds from a first look to the second one, if there was none before.
const PAUSE_US: u64 = 400;
/// Looks that one question takes at most: others may ask at the same time.
const LOOKS: u32 = 3;

/// Percent of the time between two looks at the card's counter.
#[derive(Clone, Copy, Default)]
pub struct Load {
    last: Option<Look>,
    percent: Option<u8>,
}

/// Value of the counter, and its time.
#[derive(Clone, Copy, Debug)]
struct Look {
    at_ns: u64,
    busy_ns: u64,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load").field("percent", &self.percent).finish_non_exhaustive()
    }
}

impl Load {
    /// A card whose load was not read yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { last: None, percent: None }
    }

    /// Takes a look: at this time, the card had executed waves for so long. How many of a hundred parts of the time it did lately;
    /// `None` where that takes another look after [a pause](measure).
    pub fn look(&mut self, at_ns: u64, busy_ns: u64) -> Option<u8> {
        let now = Look { at_ns, busy_ns };
        let Some(last) = self.last.filter(|last| at_ns.saturating_sub(last.at_ns) <= STALE_NS) else {
            *self = Self { last: Some(now), percent: None };
            return None;
        };
        let passed = at_ns.saturating_sub(last.at_ns);
        let enough = if self.percent.is_some() { FRESH_NS } else { PAUSE_US * 1000 / 2 };
        if passed >= enough {
            // Several devices may be busy at the same time.
            let busy = busy_ns.saturating_sub(last.busy_ns).min(passed);
            *self = Self { last: Some(now), percent: Some(((busy * 100 + passed / 2) / passed) as u8) };
        }
        self.percent
    }
}

/// Looks until there is a figure: once, or with a pause between two looks.
///
/// `look` takes one look, `wait` waits for the given microseconds.
pub fn measure(mut look: impl FnMut() -> Option<u8>, mut wait: impl FnMut(u64)) -> u8 {
    for _ in 1..LOOKS {
        if let Some(percent) = look() {
            return percent;
        }
        wait(PAUSE_US);
    }
    look().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn figure_is_of_the_time_between_two_looks() {
        let mut load = Load::new();
        assert_eq!(load.look(10 * MS, 3 * MS), None, "one look says nothing");
        assert_eq!(load.look(10 * MS + 400_000, 3 * MS + 100_000), Some(25));
        // Fresh: the same for all who ask, however often.
        for at in 0..19 {
            assert_eq!(load.look(11 * MS + at * MS, 3 * MS + at * MS), Some(25), "{at}");
        }
        assert_eq!(load.look(110 * MS + 400_000, 53 * MS + 100_000), Some(50));
        assert_eq!(load.look(210 * MS + 400_000, 353 * MS), Some(100), "several devices at a time");
        assert_eq!(load.look(310 * MS, 0), Some(0), "a counter that went back");
        // Stale: what it did since then is not what it does now.
        assert_eq!(load.look(3000 * MS, 2000 * MS), None);
        assert_eq!(load.look(3000 * MS + 10_000, 2000 * MS), None, "too soon");
        assert_eq!(load.look(3001 * MS, 2000 * MS), Some(0));
    }

    #[test]
    fn measuring_pauses_once_at_most_where_nobody_else_asks() {
        let mut load = Load::new();
        let mut now = 5 * MS;
        let mut pauses = 0;
        for _ in 0..1000 {
            let at = core::cell::Cell::new(now);
            let percent = measure(
                || load.look(at.get(), at.get() / 4),
                |us| {
                    pauses += 1;
                    at.set(at.get() + us * 1000);
                },
            );
            assert!((24..=26).contains(&percent), "{percent}");
            now = at.get() + MS;
        }
        assert_eq!(pauses, 1);
    }
}
