//! Events that a replay stops at.

use std::fmt;
use std::str::FromStr;

use crate::trace::Kind;

/// An event of a record: a number among all events or among the events of a kind, from 1 on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Until {
    /// Kind of the events that are counted; all kinds if there is none.
    pub kind: Option<Kind>,
    /// The number.
    pub number: u64,
}

/// Short names of kinds.
const SHORT: [(&str, Kind); 5] = [
    ("dispatch", Kind::DispatchStart),
    ("workgroup", Kind::WorkgroupStart),
    ("sdma", Kind::SdmaStart),
    ("ih", Kind::IhEntry),
    ("fault", Kind::PageFault),
];

/// Error for a text that names no event.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text:?} is not NUMBER or KIND:NUMBER, from 1 on; kinds are {kinds}", kinds = kinds())]
pub struct UntilError {
    text: String,
}

fn name(kind: Kind) -> String {
    kind.name().replace(' ', "-").to_lowercase()
}

fn kinds() -> String {
    let short = SHORT.iter().map(|(name, _)| (*name).to_owned());
    short
        .chain(Kind::ALL.iter().copied().filter(|kind| !kind.is_driver()).map(name))
        .collect::<Vec<_>>()
        .join(", ")
}

impl FromStr for Until {
    type Err = UntilError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || UntilError { text: text.to_owned() };
        let (kind, number) = match text.split_once(':') {
            None => (None, text),
            Some((wanted, number)) => {
                let short = SHORT.iter().find(|(name, _)| *name == wanted).map(|&(_, kind)| kind);
                let named =
                    || Kind::ALL.iter().copied().find(|&kind| !kind.is_driver() && name(kind) == wanted);
                (Some(short.or_else(named).ok_or_else(wrong)?), number)
            }
        };
        let number = number.parse().ok().filter(|&number| number > 0).ok_or_else(wrong)?;
        Ok(Self { kind, number })
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.map_or_else(|| "event".to_owned(), name);
        write!(f, "{kind}:{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbers_and_kinds() {
        for (text, kind, number) in [
            ("17", None, 17),
            ("dispatch:3", Some(Kind::DispatchStart), 3),
            ("dispatch-end:1", Some(Kind::DispatchEnd), 1),
            ("interrupt:5", Some(Kind::Interrupt), 5),
            ("ih-entry:2", Some(Kind::IhEntry), 2),
        ] {
            assert_eq!(text.parse(), Ok(Until { kind, number }), "{text}");
        }
        for text in ["", "0", "dispatch", "dispatch:0", "dispatch:x", "ioctl-enter:1", ":1", "-1"] {
            let error = text.parse::<Until>().expect_err(text).to_string();
            assert!(error.contains("interrupt") && !error.contains("ioctl-enter, "), "{error}");
        }
    }
}
