//! Vector clocks: the parts of other waves' pasts that a wave knows, as in FastTrack (Flanagan and Freund,
//! PLDI 2009).

use std::collections::BTreeMap;

/// Most waves whose past is known; with more, all waves count as known.
const MAX_WAVES: usize = 4096;

/// Number of pasts that may still be added, in all of a dispatch.
#[derive(Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    /// About half a gigabyte.
    fn default() -> Self {
        Self(32 << 20)
    }
}

/// Time up to which the past of each wave is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    of: BTreeMap<u32, u32>,
    /// True if there were too many to keep: then every access counts as ordered.
    all: bool,
}

impl Clocks {
    /// Returns true if the past of a wave is known up to a time.
    pub(super) fn cover(&self, wave: u32, time: u32) -> bool {
        self.all || self.of.get(&wave).is_some_and(|&known| known >= time)
    }

    /// Learns the past of a wave up to a time. Returns false once there are too many.
    pub(super) fn learn(&mut self, wave: u32, time: u32, room: &mut Room) -> bool {
        if self.all {
            return true;
        }
        if let Some(known) = self.of.get_mut(&wave) {
            *known = time.max(*known);
            return true;
        }
        if self.of.len() == MAX_WAVES || room.0 == 0 {
            self.know_all(room);
            return false;
        }
        room.0 -= 1;
        self.of.insert(wave, time);
        true
    }

    /// Learns all that another clock knows. Returns false once there is too much.
    pub(super) fn join(&mut self, other: &Self, room: &mut Room) -> bool {
        if other.all && !self.all {
            self.know_all(room);
            return false;
        }
        other.of.iter().fold(true, |kept, (&wave, &time)| self.learn(wave, time, room) & kept)
    }

    fn know_all(&mut self, room: &mut Room) {
        room.0 += self.of.len();
        self.of.clear();
        self.all = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_know_what_they_were_told() {
        let (mut a, mut b, mut room) = (Clocks::default(), Clocks::default(), Room::default());
        assert!(a.learn(3, 5, &mut room) && b.learn(4, 1, &mut room));
        assert!(a.cover(3, 5) && a.cover(3, 4) && !a.cover(3, 6) && !a.cover(4, 1));
        assert!(a.join(&b, &mut room) && a.cover(4, 1));
        assert!(a.learn(3, 2, &mut room) && a.cover(3, 5), "nothing is forgotten");
    }

    #[test]
    fn too_many_waves_are_all_known() {
        let (mut clocks, mut room) = (Clocks::default(), Room::default());
        let kept = (0..5000).all(|wave| clocks.learn(wave, 1, &mut room));
        assert!(!kept && clocks.cover(9999, 9999));
        let mut other = Clocks::default();
        assert!(!other.join(&clocks, &mut room) && other.cover(1, 1));
    }

    #[test]
    fn room_is_shared_and_comes_back() {
        let (mut a, mut b, mut room) = (Clocks::default(), Clocks::default(), Room(3));
        assert!(a.learn(1, 1, &mut room) && a.learn(2, 1, &mut room) && b.learn(1, 1, &mut room));
        assert!(a.learn(2, 7, &mut room), "what is known takes no room");
        assert!(!b.learn(2, 1, &mut room) && b.cover(9, 9));
        assert!(a.learn(3, 1, &mut room), "what knows all needs none");
    }
}
