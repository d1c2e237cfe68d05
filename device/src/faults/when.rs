//! The moments of a hook at which a rule strikes.

use std::fmt;
use std::time::Duration;

use super::duration::{self, Shown};
use super::{Place, PlanError, Rule};

/// The most bytes of a kernel's name.
const MAX_NAME: usize = 256;

/// Number or interval of the strikes, among the moments that meet all conditions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Often {
    /// Strikes at the moment with this number, from 1 on.
    Once(u64),
    /// Strikes at each moment whose number is a multiple of this.
    Every(u64),
}

/// The moments at which a rule strikes: only moments that meet all its conditions are counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct When {
    /// Number or interval of the strikes among them.
    pub often: Often,
    /// Time of the device before which no moment counts.
    pub after: Option<Duration>,
    /// Counts only moments of the queue with this doorbell, in dwords of BAR2.
    pub queue: Option<u32>,
    /// Counts only moments of the process with this PASID.
    pub process: Option<u32>,
    /// Counts only dispatches of the kernel with this name.
    pub kernel: Option<String>,
    /// Counts only addresses from the first to before the second: of memory, or bytes of the register BAR.
    pub address: Option<(u64, u64)>,
    /// Time for which a late thing is held back, or by which a clock jumps; the rule's usual time if absent.
    pub length: Option<Duration>,
}

impl Default for When {
    fn default() -> Self {
        Self::nth(1)
    }
}

impl When {
    /// Strikes at the moment with this number.
    #[must_use]
    pub fn nth(number: u64) -> Self {
        Self {
            often: Often::Once(number),
            after: None,
            queue: None,
            process: None,
            kernel: None,
            address: None,
            length: None,
        }
    }

    /// Reads conditions with commas between them.
    pub(super) fn parse(text: &str, rule: Rule) -> Result<Self, PlanError> {
        let mut when = Self::nth(1);
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split(',') {
            let bad = || PlanError::When { rule: rule.name(), part: shorten(part) };
            let (key, value) = part.split_once(':').unwrap_or(("", part));
            // `N` and `every:N` are conditions of one kind.
            let about = if key == "every" { "" } else { key };
            if seen.contains(&about) {
                return Err(PlanError::Twice { rule: rule.name(), part: shorten(part) });
            }
            seen.push(about);
            match key {
                "" => when.often = Often::Once(count(value).ok_or_else(bad)?),
                "every" => when.often = Often::Every(count(value).ok_or_else(bad)?),
                "after" => when.after = Some(duration::parse(value).ok_or_else(bad)?),
                "for" if rule.is_late() => when.length = Some(duration::parse(value).ok_or_else(bad)?),
                "queue" => {
                    when.queue = Some(number(value).and_then(|at| at.try_into().ok()).ok_or_else(bad)?);
                }
                "process" => {
                    when.process = Some(number(value).and_then(|at| at.try_into().ok()).ok_or_else(bad)?);
                }
                "kernel" if is_name(value) => when.kernel = Some(value.to_owned()),
                "address" => {
                    let (from, to) = value.split_once("..").ok_or_else(bad)?;
                    let range = number(from).zip(number(to)).filter(|(from, to)| from < to);
                    when.address = Some(range.ok_or_else(bad)?);
                }
                _ => return Err(bad()),
            }
        }
        Ok(when)
    }

    /// Returns true if a moment at this place counts.
    pub(super) fn counts(&self, now: impl FnOnce() -> Duration, place: &Place<'_>) -> bool {
        let Self { after, queue, process, kernel, address, often: _, length: _ } = self;
        queue.is_none_or(|queue| place.doorbell == Some(queue))
            && process.is_none_or(|process| place.pasid == Some(process))
            && address.is_none_or(|(from, to)| place.address.is_some_and(|at| (from..to).contains(&at)))
            && after.is_none_or(|after| now() >= after)
            && kernel.as_ref().is_none_or(|name| place.kernel.is_some_and(|kernel| kernel() == *name))
    }

    /// Returns true if the rule strikes at the counted moment with this number.
    pub(super) fn strikes(&self, number: u64) -> bool {
        match self.often {
            Often::Once(wanted) => number == wanted,
            Often::Every(step) => number.is_multiple_of(step),
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.often {
            Often::Once(number) => write!(f, "{number}")?,
            Often::Every(step) => write!(f, "every:{step}")?,
        }
        if let Some(after) = self.after {
            write!(f, ",after:{}", Shown(after))?;
        }
        if let Some(length) = self.length {
            write!(f, ",for:{}", Shown(length))?;
        }
        if let Some(queue) = self.queue {
            write!(f, ",queue:{queue:#x}")?;
        }
        if let Some(process) = self.process {
            write!(f, ",process:{process:#x}")?;
        }
        if let Some(kernel) = &self.kernel {
            write!(f, ",kernel:{kernel}")?;
        }
        if let Some((from, to)) = self.address {
            write!(f, ",address:{from:#x}..{to:#x}")?;
        }
        Ok(())
    }
}

/// Shortens a text of a user for an error message.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        text.to_owned()
    } else {
        text.chars().take(SHOWN).chain("...".chars()).collect()
    }
}

/// Reads a number of digits, in base 16 after `0x`, and otherwise in base 10.
fn number(text: &str) -> Option<u64> {
    let (digits, base) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    digits.chars().all(|c| c.is_digit(base)).then(|| u64::from_str_radix(digits, base).ok())?
}

fn count(text: &str) -> Option<u64> {
    number(text).filter(|count| *count != 0)
}

/// Returns true if a plan can have this kernel name.
fn is_name(name: &str) -> bool {
    let parts = |c: char| c.is_control() || c.is_whitespace() || matches!(c, ',' | ';' | '@');
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(parts)
}
