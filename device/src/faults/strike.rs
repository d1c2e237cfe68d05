//! Faults that have struck.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Hook, Rule};

/// A fault that has struck.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Strike {
    /// What failed.
    pub rule: Rule,
    /// The number of its moment among all of its hook, from 1 on.
    pub moment: u64,
    /// The device's time.
    pub time: Duration,
    /// Where, in words.
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

/// What a plan has come to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FaultReport {
    /// The first strikes, in their order; those behind the first thousand are counted alone.
    pub strikes: Vec<Strike>,
    /// How often each rule has struck.
    pub struck: BTreeMap<Rule, u64>,
    /// How many moments each hook had.
    pub met: BTreeMap<Hook, u64>,
}
