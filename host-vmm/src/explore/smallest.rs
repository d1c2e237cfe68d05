//! The smallest schedule that shows a failure: as few changes as can be.

use belfry_device::explore::{Change, Schedule};

use super::attempt::{Failure, Verdict};

/// Runs for one failure at most.
const MOST: usize = 400;

/// The smallest schedule with that failure that was found among parts of `changes`, and what came of it; none if it does not show
/// again.
pub(super) fn smallest(
    run: &mut dyn FnMut(&Schedule) -> Verdict,
    changes: &[Change],
    failure: &Failure,
) -> Option<(Schedule, Verdict)> {
    let signature = failure.signature();
    let mut runs = 0;
    let mut shows = |changes: &[Change]| {
        runs += 1;
        let verdict = (runs <= MOST).then(|| run(&Schedule::Preempt(changes.to_vec())))?;
        let is_it = verdict.failure.as_ref().is_some_and(|found| found.signature() == signature);
        is_it.then_some(verdict)
    };
    let mut best = changes.to_vec();
    let mut last = shows(&best)?;
    // Whole parts first, then ever smaller ones.
    let mut part = best.len();
    while part > 0 {
        let mut at = 0;
        while at < best.len() {
            let end = (at + part).min(best.len());
            let fewer: Vec<Change> = best[..at].iter().chain(&best[end..]).copied().collect();
            match shows(&fewer) {
                Some(verdict) => (best, last) = (fewer, verdict),
                None => at = end,
            }
        }
        part /= 2;
    }
    Some((Schedule::Preempt(best), last))
}
