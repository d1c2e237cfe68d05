//! Priorities that are random, and change at random moments.
//!
//! Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS
//! 2010. With n actors and k questions, a bug that needs d of them in a certain order shows with a chance of 1/(n k^(d-1)) at
//! least, in a flat list of actors. Here actors come in levels (host and device, dispatches, workgroups, waves).

use std::collections::BTreeMap;

use super::Actor;
use crate::split_mix::{SplitMix, mix};

/// Priorities of unchanged actors lie above this.
const UNCHANGED: i64 = 1 << 32;

/// The state of the strategy.
#[derive(Debug)]
pub(super) struct Pct {
    seed: u64,
    priorities: BTreeMap<Actor, i64>,
    /// Numbers of the questions at which the actor with the highest priority gets the lowest one, ascending.
    falls: Vec<u64>,
    /// Questions that were asked.
    asked: u64,
    /// The next priority to give to such an actor. It is lower than all that were given before.
    lowest: i64,
    ways: SplitMix,
}

impl Pct {
    /// Priorities of a seed, with `depth - 1` falls within `steps` questions.
    pub(super) fn new(seed: u64, depth: u32, steps: u64) -> Self {
        let mut stream = SplitMix(mix(seed ^ 0x0050_4354));
        let mut falls: Vec<u64> = (1..depth).map(|_| stream.below(steps)).collect();
        falls.sort_unstable();
        Self { seed, priorities: BTreeMap::new(), falls, asked: 0, lowest: UNCHANGED, ways: stream }
    }

    fn priority(&mut self, actor: Actor) -> i64 {
        let seed = self.seed;
        let first = || UNCHANGED + 1 + (mix(mix(seed) ^ actor.0) >> 2) as i64;
        *self.priorities.entry(actor).or_insert_with(first)
    }

    fn highest(&mut self, actors: &[Actor]) -> usize {
        let mut best = (0, i64::MIN);
        for (index, &actor) in actors.iter().enumerate() {
            let priority = self.priority(actor);
            if priority > best.1 {
                best = (index, priority);
            }
        }
        best.0
    }

    /// Chooses an actor: an index of `actors`.
    pub(super) fn choose(&mut self, actors: &[Actor]) -> usize {
        let asked = self.asked;
        self.asked += 1;
        while let Some(at) = self.falls.iter().position(|&fall| fall == asked) {
            self.falls.remove(at);
            let first = self.highest(actors);
            if let Some(&actor) = actors.get(first) {
                self.yields(actor);
            }
        }
        self.highest(actors)
    }

    /// Chooses one of `count` ways; the first has the same chance as all others together.
    pub(super) fn ways(&mut self, count: usize) -> usize {
        self.asked += 1;
        match self.ways.below(2) {
            0 => 0,
            _ => 1 + self.ways.below(count as u64 - 1) as usize,
        }
    }

    /// Puts an actor after all others from now on.
    pub(super) fn yields(&mut self, actor: Actor) {
        self.lowest -= 1;
        self.priorities.insert(actor, self.lowest);
    }
}
