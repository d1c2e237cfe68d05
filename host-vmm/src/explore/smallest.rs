//! The smallest schedule that shows a failure: one with as few changes as possible.

use belfry_device::explore::{Change, Explored, Schedule};

use super::attempt::{Failure, Verdict};
use super::search::{Search, Strategy};

/// Largest number of runs for one failure.
const MOST: u64 = 400;
/// Largest number of changes of schedules that are searched anew.
const FEW: usize = 2;

/// The search for the smallest schedule.
pub(super) struct Shrinking<'a> {
    pub(super) run: &'a mut dyn FnMut(&Schedule) -> Verdict,
    /// Record of the run without changes.
    pub(super) base: &'a Explored,
    /// Runs that may still be made.
    pub(super) left: u64,
}

impl Shrinking<'_> {
    /// Makes the search for a failure that was found after `runs` runs.
    pub(super) fn new<'a>(
        run: &'a mut dyn FnMut(&Schedule) -> Verdict,
        base: &'a Explored,
        runs: u64,
    ) -> Shrinking<'a> {
        Shrinking { run, base, left: runs.clamp(50, MOST) }
    }

    /// Runs a schedule; returns its verdict if it shows the failure, and its record.
    fn shows(&mut self, schedule: &Schedule, signature: &str) -> (Option<Verdict>, Explored) {
        if self.left == 0 {
            return (None, Explored::default());
        }
        self.left -= 1;
        let verdict = (self.run)(schedule);
        let explored = verdict.explored.clone();
        let is_it = verdict.failure.as_ref().is_some_and(|found| found.signature() == signature);
        (is_it.then_some(verdict), explored)
    }

    /// Returns the smallest schedule found with that failure, and its verdict; `None` if the failure does not show
    /// again.
    pub(super) fn smallest(&mut self, changes: &[Change], failure: &Failure) -> Option<(Schedule, Verdict)> {
        let signature = failure.signature();
        let last = self.shows(&Schedule::Preempt(changes.to_vec()), &signature).0?;
        let (mut best, mut last) = self.fewer(changes.to_vec(), last, &signature);
        // The parts of a random schedule need not hold the smallest one: bounded schedules with fewer changes are
        // tried as well.
        let bound = best.len().saturating_sub(1).min(FEW);
        let mut search = Search::new(self.base, Strategy::Preempt, (0, 1, bound));
        while bound > 0
            && self.left > 0
            && let Some(schedule) = search.next()
        {
            let (shown, explored) = self.shows(&schedule, &signature);
            if let (Some(verdict), Schedule::Preempt(changes)) = (shown, &schedule) {
                (best, last) = self.fewer(changes.clone(), verdict, &signature);
                break;
            }
            search.ran(&schedule, &explored);
        }
        Some((Schedule::Preempt(best), last))
    }

    /// Leaves changes out: whole parts first, then ever smaller ones.
    fn fewer(&mut self, mut best: Vec<Change>, mut last: Verdict, signature: &str) -> (Vec<Change>, Verdict) {
        let mut part = best.len();
        while part > 0 {
            let mut at = 0;
            while at < best.len() {
                let end = (at + part).min(best.len());
                let fewer: Vec<Change> = best[..at].iter().chain(&best[end..]).copied().collect();
                match self.shows(&Schedule::Preempt(fewer.clone()), signature).0 {
                    Some(verdict) => (best, last) = (fewer, verdict),
                    None => at = end,
                }
            }
            part /= 2;
        }
        (best, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a program that fails if other parts answer questions 3 and 5, or question 6 alone.
    fn run(alone: bool) -> impl FnMut(&Schedule) -> Verdict {
        move |schedule| {
            let Schedule::Preempt(changes) = schedule else { return Verdict::default() };
            let has = |at| changes.iter().any(|change| change.at == at);
            let fails = has(3) && has(5) || alone && has(6);
            Verdict {
                failure: fails.then(|| Failure::new("error", format!("{} changes", changes.len()))),
                explored: Explored { choices: vec![3; 8], changes: changes.clone(), ..Explored::default() },
                ends: false,
            }
        }
    }

    fn smallest(alone: bool, text: &str) -> Option<String> {
        let Ok(Schedule::Preempt(changes)) = text.parse() else { panic!("{text}") };
        let mut run = run(alone);
        let base = run(&Schedule::Preempt(Vec::new())).explored;
        let failure = Failure::new("error", "8 changes");
        let found = Shrinking::new(&mut run, &base, 1000).smallest(&changes, &failure)?;
        Some(found.0.to_string())
    }

    #[test]
    fn changes_are_left_out_and_smaller_schedules_are_looked_for() {
        assert_eq!(smallest(false, "preempt:0,1=2,2,3,4,5=2,7").as_deref(), Some("preempt:3,5=2"));
        assert_eq!(smallest(true, "preempt:0,1=2,2,3,4,5=2,7").as_deref(), Some("preempt:6"));
        assert_eq!(smallest(false, "preempt:0,1=2,2,3"), None, "it does not show again");
    }
}
