//! Faults that have struck.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Hook, Rule};

/// A fault that has struck.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Strike {
    /// Rule that struck.
    pub rule: Rule,
    /// Number of its moment among all moments of its hook, from 1 on.
    pub moment: u64,
    /// The device's time.
    pub time: Duration,
    /// Place of the strike, in words.
    pub place: String,
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, moment, time, place } = self;
        write!(
            f,
            "{} at {} {moment}, {:.3} ms: {place}",
            rule.name(),
            rule.hook().name(),
            time.as_secs_f64() * 1e3
        )
    }
}

/// Strikes and counts of a plan.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FaultReport {
    /// The first thousand strikes, in their order; later ones are only counted.
    pub strikes: Vec<Strike>,
    /// Number of strikes of each rule.
    pub struck: BTreeMap<Rule, u64>,
    /// Number of moments of each hook.
    pub met: BTreeMap<Hook, u64>,
}
