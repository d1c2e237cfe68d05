//! The verdict on a program under a plan.

use std::collections::BTreeMap;
use std::fmt;

use belfry_device::faults::{FaultReport, Hook, Rule};
use serde::{Deserialize, Serialize};

/// End of a program.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ending {
    /// With the right result.
    #[default]
    Well,
    /// With an error that has a name.
    Error(String),
}

/// Event that no fault may cause.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Finding {
    /// The program did not end.
    Hang,
    /// The child died, with the end of what it wrote to its standard error.
    Died(String),
    /// A thread panicked.
    Panic(String),
    /// The guest's kernel panicked, or complained of a mistake in it or in a driver.
    Kernel(String),
    /// The program's result is wrong, and no fault explains that.
    WrongResult(String),
    /// The program ended with an error, although all faults that have struck are harmless to programs.
    Unexplained(String),
    /// Something was not given back.
    Leak(String),
    /// This device and this driver do not work afterwards.
    Broken(String),
}

impl Finding {
    /// Returns its kind.
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

    /// Returns a key that is equal for all findings of one cause: numbers in their texts make no difference.
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

/// Returns a text in which each number is `N`, cut to a bounded length.
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

/// Results of a program under a plan.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// End of the program.
    pub ending: Ending,
    /// Findings.
    pub findings: Vec<Finding>,
    /// Strikes as rules of a plan: `RULE@N`.
    pub strikes: Vec<String>,
    /// Number of strikes.
    pub struck: u64,
    /// Moments of each hook, by its name.
    #[serde(with = "hooks")]
    pub met: BTreeMap<Hook, u64>,
    /// Moments before the program began, while the driver was loaded.
    #[serde(with = "hooks")]
    pub loading: BTreeMap<Hook, u64>,
    /// True if the driver had given the device up, and the device works with the driver loaded again.
    pub reloaded: bool,
    /// True if the program ran in a guest that had gone on from a snapshot.
    pub resumed: bool,
}

impl Verdict {
    /// Takes the strikes and moments of a report.
    pub(super) fn note(&mut self, report: &FaultReport) {
        let strikes = report.strikes.iter();
        self.strikes = strikes.map(|strike| format!("{}@{}", strike.rule.name(), strike.moment)).collect();
        self.struck = report.struck.values().sum();
        self.met.clone_from(&report.met);
    }

    /// Notes that the program has ended with an error, because of a wrong result or not. It is a finding if no fault
    /// that has struck explains it.
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
