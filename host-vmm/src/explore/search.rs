//! The choice of schedules, and their order.

use belfry_device::explore::{Change, Explored, Schedule};

/// Methods of choosing schedules.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum Strategy {
    /// Random priorities, of which the highest drops at random points.
    Pct,
    /// Every schedule with one change, then every one with two changes, and so on.
    Preempt,
    /// Both in turn.
    #[default]
    Both,
}

/// All changes of a run that come after those it has, in an order that is spread over the run.
#[derive(Debug)]
struct Extensions {
    changes: Vec<Change>,
    choices: Vec<u16>,
    /// First point after the last change.
    first: usize,
    next: u64,
    bits: u32,
    /// The answers still to try at the current point.
    pending: Vec<Change>,
}

impl Extensions {
    fn new(changes: Vec<Change>, choices: Vec<u16>) -> Self {
        let first = changes.last().map_or(0, |change| change.at as usize + 1);
        let count = choices.len().saturating_sub(first);
        let bits = usize::BITS - count.saturating_sub(1).leading_zeros();
        Self { changes, choices, first, next: 0, bits, pending: Vec::new() }
    }

    /// Returns the next list of changes. Points come in the order of their numbers with the bits reversed.
    fn next(&mut self) -> Option<Vec<Change>> {
        while self.pending.is_empty() {
            if self.next >> self.bits != 0 {
                return None;
            }
            let reversed = if self.bits == 0 { 0 } else { self.next.reverse_bits() >> (64 - self.bits) };
            self.next += 1;
            let at = self.first + reversed as usize;
            if let Some(&count) = self.choices.get(at) {
                self.pending = (1..count).rev().map(|to| Change { at: at as u64, to }).collect();
            }
        }
        let change = self.pending.pop()?;
        Some(self.changes.iter().copied().chain([change]).collect())
    }
}

/// Bounded preemptions: breadth first, by the number of changes.
#[derive(Debug)]
struct Bounded {
    /// Runs whose extensions are tried now, in turn.
    now: Vec<Extensions>,
    turn: usize,
    /// Runs whose extensions are tried after that.
    later: Vec<Extensions>,
    bound: usize,
}

impl Bounded {
    fn next(&mut self) -> Option<Vec<Change>> {
        loop {
            if self.now.is_empty() {
                self.now = std::mem::take(&mut self.later);
                self.turn = 0;
                if self.now.is_empty() {
                    return None;
                }
            }
            let turn = self.turn % self.now.len();
            match self.now[turn].next() {
                Some(changes) => {
                    self.turn = turn + 1;
                    return Some(changes);
                }
                None => {
                    self.now.remove(turn);
                    self.turn = turn;
                }
            }
        }
    }

    fn ran(&mut self, changes: &[Change], explored: &Explored) {
        if changes.len() < self.bound {
            self.later.push(Extensions::new(changes.to_vec(), explored.choices.clone()));
        }
    }
}

/// The schedules of a search.
#[derive(Debug)]
pub(super) struct Search {
    strategy: Strategy,
    bounded: Bounded,
    seed: u64,
    depth: u32,
    /// Points of the run without changes.
    points: u64,
    count: u64,
}

impl Search {
    /// Makes the search that follows a run without changes.
    pub(super) fn new(base: &Explored, strategy: Strategy, (seed, depth, bound): (u64, u32, usize)) -> Self {
        let now =
            if bound > 0 { vec![Extensions::new(Vec::new(), base.choices.clone())] } else { Vec::new() };
        let bounded = Bounded { now, turn: 0, later: Vec::new(), bound };
        Self { strategy, bounded, seed, depth, points: base.choices.len() as u64, count: 0 }
    }

    /// Returns the next schedule; `None` if all bounded ones were tried, and random ones are not wanted.
    pub(super) fn next(&mut self) -> Option<Schedule> {
        let number = self.count;
        self.count += 1;
        let bounded = match self.strategy {
            Strategy::Pct => false,
            Strategy::Preempt => true,
            Strategy::Both => number.is_multiple_of(2),
        };
        if bounded {
            match self.bounded.next() {
                Some(changes) => return Some(Schedule::Preempt(changes)),
                None if self.strategy == Strategy::Preempt => return None,
                None => {}
            }
        }
        let seed = self.seed.wrapping_add(number);
        Some(Schedule::Pct { seed, depth: self.depth, steps: self.points.max(1) })
    }

    /// Takes the result of a schedule.
    pub(super) fn ran(&mut self, schedule: &Schedule, explored: &Explored) {
        if let Schedule::Preempt(changes) = schedule {
            self.bounded.ran(changes, explored);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bounded_search_has_each_schedule_once_by_the_number_of_changes() {
        let base = Explored { choices: vec![2, 3, 2], ..Explored::default() };
        let mut search = Search::new(&base, Strategy::Preempt, (1, 2, 2));
        let mut all = Vec::new();
        while let Some(schedule) = search.next() {
            search.ran(&schedule, &base);
            all.push(schedule.to_string());
        }
        let mut first = all[..4].to_vec();
        first.sort();
        assert_eq!(first, ["preempt:0", "preempt:1", "preempt:1=2", "preempt:2"]);
        let mut second = all[4..].to_vec();
        second.sort();
        assert_eq!(second, ["preempt:0,1", "preempt:0,1=2", "preempt:0,2", "preempt:1,2", "preempt:1=2,2"]);
    }

    #[test]
    fn both_strategies_take_turns_and_seeds_differ() {
        let base = Explored { choices: vec![2; 100], ..Explored::default() };
        let mut search = Search::new(&base, Strategy::Both, (5, 3, 1));
        let texts: Vec<String> = (0..6).filter_map(|_| search.next()).map(|one| one.to_string()).collect();
        assert_eq!(texts[0], "preempt:0");
        assert_eq!(texts[1], "pct:6:3:100");
        assert_eq!(texts[3], "pct:8:3:100");
        assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), 6);
        // The second half of the run comes second in the order.
        assert_eq!(texts[2], "preempt:64");
    }
}
