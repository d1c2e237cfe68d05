//! The smallest plan that shows a finding: fewer rules, then earlier moments.

use belfry_device::faults::{Often, Plan, Planned, When};

use super::{Found, ask};
use crate::trial::{Child, Finding};

/// Number of findings whose smallest plan is looked for.
pub(super) const AT_MOST: usize = 20;
/// Number of times that a plan may be tried until it shows its finding again.
const TRIES: usize = 6;

/// Returns the smallest plan that shows a finding; `None` if the finding does not show again.
pub(super) fn smallest(child: &mut Child, found: &Found) -> Option<String> {
    let plan: Plan = found.plan.parse().ok()?;
    let signature = found.finding.signature();
    let mut shows = |rules: &[Planned]| {
        let mut plan = Plan::default();
        rules.iter().all(|rule| plan.add(rule.clone()).is_ok()) && shows(child, &plan, &signature)
    };
    // Chaos becomes the rules that have struck.
    let mut rules = plan.rules().to_vec();
    if plan.chaos().is_some() {
        rules = found.strikes.iter().filter_map(|text| text.parse().ok()).collect();
    }
    if !shows(&rules) {
        return None;
    }
    let mut at = 0;
    while at < rules.len() && rules.len() > 1 {
        let mut fewer = rules.clone();
        fewer.remove(at);
        if shows(&fewer) { rules = fewer } else { at += 1 }
    }
    for at in 0..rules.len() {
        let Often::Once(mut number) = rules[at].when.often else { continue };
        for earlier in [1, 2, number / 4, number / 2, number.saturating_sub(1)] {
            if (1..number).contains(&earlier) {
                let mut other = rules.clone();
                other[at].when = When { often: Often::Once(earlier), ..other[at].when.clone() };
                if shows(&other) {
                    rules = other;
                    number = earlier;
                }
            }
        }
    }
    Some(rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(";"))
}

fn shows(child: &mut Child, plan: &Plan, signature: &str) -> bool {
    (0..TRIES)
        .any(|_| ask(child, plan).findings.iter().map(Finding::signature).any(|other| other == signature))
}
