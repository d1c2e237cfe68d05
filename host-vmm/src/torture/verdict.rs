//! The verdict on a program under a plan.

use std::collections::BTreeMap;
use std::fmt;

use belfry_device::faults::{FaultReport, Hook, Rule};
use serde::{Deserialize, Serialize};

use crate::trial::Finding;

/// End of a program.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ending {
    /// With the right result.
    #[default]
    Well,
    /// With an error that has a name.
    Error(String),
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
