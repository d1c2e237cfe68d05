//! Memory instructions that faulted in the middle, and the lanes they have done (`exec/waves/resume.rs`).

use super::Wave;
use crate::registers::slot;

/// An instruction that faulted, and the lanes it has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PartlyDone {
    pub(crate) pc: u64,
    pub(crate) lanes: u64,
}

impl Wave {
    /// Notes that the instruction at hand, which is about to fault, has done the active lanes below `lane`.
    pub(crate) fn did_lanes_below(&mut self, lane: u32) {
        let below = 1_u64.checked_shl(lane).map_or(u64::MAX, |bit| bit - 1);
        let exists = if self.halves == 1 { u64::from(u32::MAX) } else { u64::MAX };
        self.done = self.exec() & exists & below;
    }

    /// Returns true if an instruction of the program or of the trap handler is partly done.
    #[inline(always)]
    pub(crate) fn has_partly_done(&self) -> bool {
        let [own, handlers] = &self.partly_done;
        own.lanes | handlers.lanes != 0
    }

    /// Returns true if an instruction is partly done: one of the trap handler if the wave is in it, else one of the
    /// program.
    #[inline(always)]
    pub(crate) fn is_partly_done(&self) -> bool {
        self.partly_done[usize::from(self.is_privileged())].lanes != 0
    }

    /// Returns true if the wave could enter its trap handler but for an instruction of the program that is partly
    /// done, and the rest of that instruction can be saved in its context.
    pub(crate) fn has_rest(&self) -> bool {
        self.file.xnack_mask.is_some() && !self.is_privileged() && self.partly_done[0].lanes != 0
    }

    /// Puts the lanes that the instruction at hand has not done into `XNACK_MASK`: 0 if all or none are left.
    pub(crate) fn rest_to_mask(&mut self) {
        if self.file.xnack_mask.is_none() {
            return;
        }
        let PartlyDone { pc, lanes } = core::mem::take(&mut self.partly_done[0]);
        let rest = if lanes != 0 && pc == self.pc { self.exec() & !lanes } else { 0 };
        self.set_pair(slot::XNACK_MASK, rest);
    }

    /// The opposite of [`Wave::rest_to_mask`].
    pub(crate) fn rest_from_mask(&mut self) {
        if self.file.xnack_mask.is_none() {
            return;
        }
        let rest = self.pair(slot::XNACK_MASK);
        if rest != 0 {
            self.set_pair(slot::XNACK_MASK, 0);
            self.partly_done[0] = PartlyDone { pc: self.pc, lanes: self.exec() & !rest };
        }
    }

    /// Remembers the lanes that the instruction at `pc`, which has faulted, has done.
    pub(crate) fn remember_done(&mut self) {
        let lanes = core::mem::take(&mut self.done);
        self.partly_done[usize::from(self.is_privileged())] = PartlyDone { pc: self.pc, lanes };
    }
}
