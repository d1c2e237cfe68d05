//! Split barriers of a workgroup (gfx12), as its waves see them.

use super::Wave;

/// Barriers of a workgroup.
pub(crate) const BARRIERS: usize = 2;

/// A barrier of a workgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Barrier {
    signals: u32,
    completions: u32,
}

/// The split barriers of a workgroup, of which every wave is a member until it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Barriers {
    members: u32,
    barriers: [Barrier; BARRIERS],
}

impl Barriers {
    /// The barriers of a workgroup of `members` waves, none of which has signalled.
    #[must_use]
    pub fn new(members: u32) -> Barriers {
        Barriers { members, barriers: [Barrier::default(); BARRIERS] }
    }

    /// Number of waves that take part.
    pub(crate) fn members(&self) -> u32 {
        self.members
    }

    /// A wave has ended.
    pub fn leave(&mut self) {
        self.members = self.members.saturating_sub(1);
        for number in 0..BARRIERS {
            self.complete(number);
        }
    }

    /// Returns true if the barrier that the wave waits for is complete, or if it waits for none.
    #[must_use]
    pub fn lets_pass(&self, wave: &Wave) -> bool {
        wave.waits_at.is_none_or(|number| {
            let completions = self.barriers[usize::from(number) % BARRIERS].completions;
            completions == wave.barriers_taken[usize::from(number) % BARRIERS]
        })
    }

    /// A signal has come at a barrier; returns true if it was the first one.
    pub(crate) fn signal(&mut self, number: usize) -> bool {
        let barrier = &mut self.barriers[number];
        let is_first = barrier.signals == 0;
        barrier.signals += 1;
        self.complete(number);
        is_first
    }

    fn complete(&mut self, number: usize) {
        let barrier = &mut self.barriers[number];
        if barrier.signals > 0 && barrier.signals >= self.members {
            barrier.signals = 0;
            barrier.completions = barrier.completions.wrapping_add(1);
        }
    }

    /// Returns true if a wave's bit says that a barrier is complete.
    pub(crate) fn is_complete(&self, wave: &Wave, number: usize) -> bool {
        self.barriers[number].completions != wave.barriers_taken[number]
    }

    /// Sets or clears that bit.
    pub(crate) fn set_complete(&self, wave: &mut Wave, number: usize, complete: bool) {
        let completions = self.barriers[number].completions;
        wave.barriers_taken[number] = if complete { completions.wrapping_sub(1) } else { completions };
    }

    /// `s_get_barrier_state`: signals in bits 22:16, members in bits 10:4, whether there is one in bit 0.
    pub(crate) fn state(&self, number: usize) -> u32 {
        self.barriers[number].signals << 16 | self.members << 4 | 1
    }
}

impl Wave {
    /// Goes back to the split barrier that it waits at, if it does: it waits there again.
    pub(crate) fn takes_back_wait(&mut self) {
        if let Some(number) = self.waits_at.take() {
            let taken = &mut self.barriers_taken[usize::from(number) % BARRIERS];
            *taken = taken.wrapping_sub(1);
        }
    }
}
