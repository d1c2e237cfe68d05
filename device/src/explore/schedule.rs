//! Schedules as texts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Number of questions among which priorities change, if a text has none.
const STEPS: u64 = 1000;
/// Most changes of a schedule.
const MOST_CHANGES: usize = 4096;
/// The greatest depth.
const MOST_DEPTH: u32 = 64;

/// An answer that is not the first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Change {
    /// The number of the question, from 0 on.
    pub at: u64,
    /// The answer, 1 or more.
    pub to: u16,
}

/// Rule by which a deterministic device decides who goes on next.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Schedule {
    /// `seed:S`: the waves of each dispatch are interleaved as the seed decides, and the rest of the device and its driver
    /// have threads ([`GpuConfig::deterministic`](crate::GpuConfig::deterministic)).
    Seeded(u64),
    /// `pct:SEED:DEPTH:STEPS`: each actor has a random priority, and the one with the highest goes on. At `DEPTH - 1` random
    /// questions of the first `STEPS` (1000 if not said), that actor gets the lowest priority.
    Pct {
        /// Seed of all random numbers.
        seed: u64,
        /// Number of events that have to come in a certain order for the bug that is searched, 1 to 64.
        depth: u32,
        /// Questions among which priorities fall.
        steps: u64,
    },
    /// `preempt:N,N=K,...`: each actor goes on as long as possible, but at these questions the next one, or
    /// the `K`th, goes on.
    Preempt(Vec<Change>),
}

/// A text that is no schedule.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text:?} is no schedule: {why}; there are seed:SEED, pct:SEED:DEPTH[:STEPS] and preempt:N,N=K,...")]
pub struct ScheduleError {
    text: String,
    why: &'static str,
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seeded(seed) => write!(f, "seed:{seed}"),
            Self::Pct { seed, depth, steps } => write!(f, "pct:{seed}:{depth}:{steps}"),
            Self::Preempt(changes) => {
                f.write_str("preempt:")?;
                for (index, Change { at, to }) in changes.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    match to {
                        1 => write!(f, "{comma}{at}")?,
                        to => write!(f, "{comma}{at}={to}")?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let error = |why| ScheduleError { text: text.chars().take(80).collect(), why };
        let (kind, rest) = text.split_once(':').ok_or_else(|| error("it names no strategy"))?;
        let number = |part: &str| part.parse::<u64>().map_err(|_| error("a number is missing"));
        match kind {
            "seed" => Ok(Self::Seeded(number(rest)?)),
            "pct" => {
                let parts: Vec<&str> = rest.split(':').collect();
                let (seed, depth, steps) = match parts[..] {
                    [seed, depth] => (number(seed)?, number(depth)?, STEPS),
                    [seed, depth, steps] => (number(seed)?, number(depth)?, number(steps)?),
                    _ => return Err(error("it needs a seed and a depth")),
                };
                let depth = u32::try_from(depth).ok().filter(|depth| (1..=MOST_DEPTH).contains(depth));
                let depth = depth.ok_or_else(|| error("the depth is 1 to 64"))?;
                Ok(Self::Pct { seed, depth, steps })
            }
            "preempt" => {
                let mut changes = Vec::new();
                for part in rest.split(',').filter(|part| !part.is_empty()) {
                    let (at, to) = part.split_once('=').unwrap_or((part, "1"));
                    let to = to.parse().ok().filter(|&to| to > 0);
                    let to = to.ok_or_else(|| error("an answer is a number from 1 on"))?;
                    changes.push(Change { at: number(at)?, to });
                    if changes.len() > MOST_CHANGES {
                        return Err(error("it has more than 4096 changes"));
                    }
                }
                if !changes.is_sorted_by(|a, b| a.at < b.at) {
                    return Err(error("its numbers do not ascend"));
                }
                Ok(Self::Preempt(changes))
            }
            _ => Err(error("there is no such strategy")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in ["seed:7", "pct:18446744073709551615:3:250", "preempt:", "preempt:17,203=2,204"] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        assert_eq!("pct:1:2".parse(), Ok(Schedule::Pct { seed: 1, depth: 2, steps: 1000 }));
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        for (text, why) in [
            ("", "no strategy"),
            ("random:1", "no such strategy"),
            ("pct:1", "a seed and a depth"),
            ("pct:1:0", "1 to 64"),
            ("pct:x:2", "a number is missing"),
            ("preempt:3=0", "from 1 on"),
            ("preempt:3,3", "do not ascend"),
            ("preempt:9,x", "a number is missing"),
        ] {
            let error = text.parse::<Schedule>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("preempt:N"), "{text}: {error}");
        }
    }
}
