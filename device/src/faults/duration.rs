//! Durations in plans: a whole number and its unit.

use std::fmt;
use std::time::Duration;

/// Units from the largest to the smallest, in nanoseconds.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];

/// Reads a duration such as `250ms`.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, nanoseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*nanoseconds).map(Duration::from_nanos)
}

/// Shows a duration as [`parse`] reads it.
pub(super) struct Shown(pub(super) Duration);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        let whole = UNITS.iter().find(|(_, unit)| all.is_multiple_of(*unit) && (all != 0 || *unit != 1));
        let (name, unit) = whole.unwrap_or(&UNITS[3]);
        write!(f, "{}{name}", all / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_come_back_as_they_are_shown() {
        for (text, nanoseconds) in
            [("7ns", 7), ("15us", 15_000), ("250ms", 250_000_000), ("3s", 3_000_000_000), ("0s", 0)]
        {
            let duration = Duration::from_nanos(nanoseconds);
            assert_eq!((parse(text), Shown(duration).to_string().as_str()), (Some(duration), text));
        }
        for text in
            ["", "3", "s", "-1s", "1.5s", "1m", "1 s", "99999999999999999999s", "18446744073709551615s"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
