//! Schedules that follow from a seed: what the deterministic mode decides by.

/// Most instructions of a deterministic turn, and of a wave's quantum in it.
const TURN: u64 = 512;
const QUANTUM: u64 = 96;

/// A stream of decisions (SplitMix64).
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub(super) struct Chance(u64);

impl Chance {
    /// The stream of one dispatch: the same whatever else the engine does.
    pub(super) fn new(seed: u64, dispatch: u64) -> Chance {
        let mut chance = Chance(seed);
        let mixed = chance.next();
        Chance(mixed ^ dispatch.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`; 0 when that is 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % (limit as u64).max(1)) as usize
    }

    /// Instructions of the next turn.
    pub(super) fn turn(&mut self) -> u64 {
        1 + self.next() % TURN
    }

    /// Instructions a wave may execute before another one of its workgroup.
    pub(super) fn quantum(&mut self) -> u64 {
        1 + self.next() % QUANTUM
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
