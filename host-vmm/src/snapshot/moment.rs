//! The moment at which a run is saved.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use belfry_device::record::Until;

/// Moment at which a run is saved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Moment {
    /// This long after its machine has started.
    After(Duration),
    /// As soon as the device has come to an event.
    Event(Until),
}

/// Error for a text that is no moment.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text:?} is neither a time such as 250ms or 2s, nor an event: {event}")]
pub struct MomentError {
    text: String,
    event: String,
}

fn time(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number = number.parse::<u64>().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        if let Some(time) = time(text) {
            return Ok(Self::After(time));
        }
        let event = text.parse().map_err(|event: belfry_device::record::UntilError| MomentError {
            text: text.to_owned(),
            event: event.to_string(),
        })?;
        Ok(Self::Event(event))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(time) => write!(f, "{}ms", time.as_millis()),
            Self::Event(event) => event.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_times_and_events() {
        let after = |milliseconds| Moment::After(Duration::from_millis(milliseconds));
        for (text, moment) in [("250ms", after(250)), ("2s", after(2000)), ("0ms", after(0))] {
            assert_eq!(text.parse(), Ok(moment), "{text}");
        }
        assert!(matches!("dispatch:3".parse(), Ok(Moment::Event(Until { kind: Some(_), number: 3 }))));
        assert!(matches!("17".parse(), Ok(Moment::Event(Until { kind: None, number: 17 }))));
        for text in ["", "s", "2m", "-1s", "dispatch:0", "99999999999999999999s"] {
            let error = text.parse::<Moment>().unwrap_err().to_string();
            assert!(error.contains("250ms") && error.contains("dispatch"), "{error}");
        }
    }
}
