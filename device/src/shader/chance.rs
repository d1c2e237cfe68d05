//! Schedules that follow from a seed: the deterministic mode decides by them.

use crate::split_mix::{SplitMix, mix};

/// Most instructions of a deterministic turn, and of a wave's quantum in it.
const TURN: u64 = 512;
const QUANTUM: u64 = 96;

/// A stream of decisions.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) struct Chance(SplitMix);

impl Chance {
    /// Makes the stream of one dispatch. It depends on nothing else that the engine does.
    pub(super) fn new(seed: u64, dispatch: u64) -> Chance {
        Chance(SplitMix(mix(seed) ^ dispatch.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns a number below `limit`; 0 if `limit` is 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit as u64) as usize
    }

    /// Instructions of the next turn.
    pub(super) fn turn(&mut self) -> u64 {
        1 + self.0.next() % TURN
    }

    /// Instructions a wave may execute before another one of its workgroup.
    pub(super) fn quantum(&mut self) -> u64 {
        1 + self.0.next() % QUANTUM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let stream = |seed, dispatch| {
            let mut chance = Chance::new(seed, dispatch);
            (0..64).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(stream(1, 0), stream(1, 0));
        assert_ne!(stream(1, 0), stream(2, 0));
        assert_ne!(stream(1, 0), stream(1, 1));
        let mut chance = Chance::new(0, 0);
        assert_eq!(chance.below(0), 0);
        assert!((0..1000).all(|_| (1..=QUANTUM).contains(&chance.quantum()) && chance.turn() <= TURN));
    }
}
