//! What a wave knows of other waves' pasts: vector clocks, as in FastTrack (Flanagan and Freund, PLDI 2009).

use std::collections::BTreeMap;

/// Waves of which one is known; with more, all of them count as known.
const MAX_WAVES: usize = 4096;

/// How far the past of each wave is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    of: BTreeMap<u32, u32>,
    /// Too many to be kept: nothing is held against anybody any more.
    all: bool,
}

impl Clocks {
    /// Whether what a wave did at a time is known.
    pub(super) fn cover(&self, wave: u32, time: u32) -> bool {
        self.all || self.of.get(&wave).is_some_and(|&known| known >= time)
    }

    /// Learns of a wave's past up to a time. Answers false once there are too many.
    pub(super) fn learn(&mut self, wave: u32, time: u32) -> bool {
        if self.all {
            return true;
        }
        let known = self.of.entry(wave).or_default();
        *known = time.max(*known);
        if self.of.len() > MAX_WAVES {
            self.of.clear();
            self.all = true;
            return false;
        }
        true
    }

    /// Learns what another one knows.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        if other.all && !self.all {
            self.of.clear();
            self.all = true;
            return false;
        }
        other.of.iter().fold(true, |kept, (&wave, &time)| self.learn(wave, time) & kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_know_what_they_were_told() {
        let (mut a, mut b) = (Clocks::default(), Clocks::default());
        assert!(a.learn(3, 5) && b.learn(4, 1));
        assert!(a.cover(3, 5) && a.cover(3, 4) && !a.cover(3, 6) && !a.cover(4, 1));
        assert!(a.join(&b) && a.cover(4, 1));
        assert!(a.learn(3, 2) && a.cover(3, 5), "nothing is forgotten");
    }

    #[test]
    fn too_many_waves_are_all_known() {
        let mut clocks = Clocks::default();
        let kept = (0..5000).all(|wave| clocks.learn(wave, 1));
        assert!(!kept && clocks.cover(9999, 9999));
        let mut other = Clocks::default();
        assert!(!other.join(&clocks) && other.cover(1, 1));
    }
}
