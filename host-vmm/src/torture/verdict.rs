//! What came of a program under a plan.

use std::collections::BTreeMap;
use std::fmt;

use belfry_device::faults::{FaultReport, Hook, Rule};
use serde::{Deserialize, Serialize};

/// How a program ended.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ending {
    /// With the right result.
    #[default]
    Well,
    /// With an error that has a name.
    Error(String),
}

/// What must not be, whatever fails.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Finding {
    /// It did not end.
    Hang,
    /// The child died, with the end of what it wrote to its standard error.
    Died(String),
    /// A thread panicked.
    Panic(String),
    /// The guest's kernel panicked, or complained of a mistake in it or in a driver.
    Kernel(String),
    /// The program's result is wrong, and no fault explains that.
    WrongResult(String),
    /// The program ended with an error, and all that has struck does programs no harm.
    Unexplained(String),
    /// Something was not given back.
    Leak(String),
    /// The same device and driver do not work afterwards.
    Broken(String),
}

impl Finding {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Hang => "hang",
            Self::Died(_) => "died",
            Self::Panic(_) => "panic",
            Self::Kernel(_) => "kernel",
            Self::WrongResult(_) => "wrong result",
            Self::Unexplained(_) => "error without a reason",
            Self::Leak(_) => "leak",
            Self::Broken(_) => "does not work afterwards",
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Hang => "",
            Self::Died(text)
            | Self::Panic(text)
            | Self::Kernel(text)
            | Self::WrongResult(text)
            | Self::Unexplained(text)
            | Self::Leak(text)
            | Self::Broken(text) => text,
        }
    }

    /// The same for all findings that are about one thing: numbers make no difference.
    #[must_use]
    pub fn signature(&self) -> String {
        format!("{}: {}", self.kind(), without_numbers(self.text()))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            "" => f.write_str(self.kind()),
            text => write!(f, "{}: {text}", self.kind()),
        }
    }
}

/// A text in which each number is `N`, and that is not too long.
pub(crate) fn without_numbers(text: &str) -> String {
    const MOST: usize = 160;
    let mut short = String::new();
    let mut inside = false;
    for c in text.lines().next().unwrap_or("").chars() {
        let number = c.is_ascii_digit() || (inside && (c.is_ascii_hexdigit() || c == 'x' || c == '.'));
        if number && !inside {
            short.push('N');
        }
        if !number {
            short.push(c);
        }
        inside = number;
        if short.len() >= MOST {
            break;
        }
    }
    short
}

/// What came of a program under a plan.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// How it ended.
    pub ending: Ending,
    /// What must not be.
    pub findings: Vec<Finding>,
    /// Strikes as rules of a plan: `RULE@N`.
    pub strikes: Vec<String>,
    /// How many there were.
    pub struck: u64,
    /// Moments of each hook, by its name.
    #[serde(with = "hooks")]
    pub met: BTreeMap<Hook, u64>,
    /// Those of them before the program began, when the driver had been loaded.
    #[serde(with = "hooks")]
    pub loading: BTreeMap<Hook, u64>,
    /// The driver had given the device up, and it works with the driver loaded again.
    pub reloaded: bool,
    /// It ran in a guest that had gone on from a snapshot.
    pub resumed: bool,
}

impl Verdict {
    /// Notes what has come of the plan.
    pub(super) fn note(&mut self, report: &FaultReport) {
        let strikes = report.strikes.iter();
        self.strikes = strikes.map(|strike| format!("{}@{}", strike.rule.name(), strike.moment)).collect();
        self.struck = report.struck.values().sum();
        self.met.clone_from(&report.met);
    }

    /// The program has ended with an error, because of a wrong result or not; that is a finding where no fault makes results wrong.
    pub(super) fn failed(&mut self, text: String, is_wrong: bool, report: &FaultReport) {
        let spoils = [Rule::SdmaCorrupt, Rule::TlbStale];
        if is_wrong && !spoils.iter().any(|rule| report.struck.contains_key(rule)) {
            self.findings.push(Finding::WrongResult(text.clone()));
        }
        let harmless = [Rule::VramEccCorrectable, Rule::Suspend];
        if !report.struck.is_empty() && report.struck.keys().all(|rule| harmless.contains(rule)) {
            self.findings.push(Finding::Unexplained(text.clone()));
        }
        self.ending = Ending::Error(text);
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.ending {
            Ending::Well => f.write_str("it ended well")?,
            Ending::Error(text) => write!(f, "it ended with: {text}")?,
        }
        self.findings.iter().try_for_each(|finding| write!(f, "; {finding}"))?;
        if self.resumed { f.write_str(", in a guest from a snapshot") } else { Ok(()) }
    }
}

/// Hooks by their names.
mod hooks {
    use super::{BTreeMap, Deserialize, Hook, Serialize};

    pub(super) fn serialize<S: serde::Serializer>(
        met: &BTreeMap<Hook, u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        met.iter().map(|(hook, count)| (hook.name(), *count)).collect::<BTreeMap<_, _>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Hook, u64>, D::Error> {
        let met = BTreeMap::<String, u64>::deserialize(from)?;
        let known = |name: &str| Hook::ALL.iter().copied().find(|hook| hook.name() == name);
        Ok(met.into_iter().filter_map(|(name, count)| Some((known(&name)?, count))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_leave_numbers_out() {
        let finding = |text: &str| Finding::Leak(text.to_owned()).signature();
        assert_eq!(finding("4096 bytes at 0x7f00a: x"), finding("8192 bytes at 0x8: x"));
        assert_ne!(finding("4096 bytes"), finding("4096 threads"));
        assert_ne!(Finding::Hang.signature(), finding(""));
    }

    #[test]
    fn error_is_a_finding_where_nothing_that_has_struck_does_harm() {
        let findings = |struck: &[Rule]| {
            let struck = struck.iter().map(|&rule| (rule, 1)).collect();
            let mut verdict = Verdict::default();
            verdict.failed("no".into(), false, &FaultReport { struck, ..FaultReport::default() });
            verdict.findings
        };
        assert_eq!(findings(&[Rule::VramEccCorrectable]), [Finding::Unexplained("no".into())]);
        assert_eq!(findings(&[Rule::VramEccCorrectable, Rule::FrameRefused]), []);
        assert_eq!(findings(&[]), []);
    }

    #[test]
    fn verdicts_come_back_from_their_text() {
        let verdict = Verdict {
            ending: Ending::Error("time-out".into()),
            findings: vec![Finding::Hang, Finding::Leak("2 threads".into())],
            strikes: vec!["frame-late@2".into()],
            struck: 1,
            met: BTreeMap::from([(Hook::IhEntry, 5)]),
            loading: BTreeMap::new(),
            reloaded: true,
            resumed: true,
        };
        let text = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
    }
}
