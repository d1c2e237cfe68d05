//! Waves that rely on the others of their workgroup being about as far as they are.
//!
//! Between two barriers a kernel may read LDS, and then write to places that other waves read in the same stretch.
//! That is right only because waves execute side by side on hardware, and the others have read long before. Libraries
//! have such kernels (rocSOLVER's GETRI of small matrices, and its searches for a maximum). Here a wave executes
//! thousands of instructions before the next wave has its turn. So it stops once between two barriers, before its
//! first store to LDS after a load of it, until the others have come as far.

use super::Wave;

/// The wave is one of several that take turns.
const TAKES_TURNS: u8 = 1;
/// The wave has loaded from LDS since the last barrier.
const HAS_LOADED: u8 = 2;
/// The wave has stopped since then.
const HAS_STOPPED: u8 = 4;

impl Wave {
    /// Makes the wave stop once between two barriers ([`Stop::Turn`](crate::exec::Stop::Turn)), before its first
    /// store to LDS after a load of it, or not.
    pub fn take_turns(&mut self, whether: bool) {
        self.lds_order = self.lds_order & !TAKES_TURNS | u8::from(whether);
    }

    /// Notes that the wave has loaded from LDS.
    #[inline(always)]
    pub(crate) fn has_loaded_lds(&mut self) {
        self.lds_order |= HAS_LOADED;
    }

    /// Notes that the wave is at a barrier.
    #[inline(always)]
    pub(crate) fn is_at_barrier(&mut self) {
        self.lds_order &= TAKES_TURNS;
    }

    /// Returns true if the store to LDS that the wave is about to execute has to wait for its next turn.
    #[inline(always)]
    pub(crate) fn lets_others_load(&mut self) -> bool {
        if self.lds_order != TAKES_TURNS | HAS_LOADED {
            return false;
        }
        self.lds_order |= HAS_STOPPED;
        true
    }
}
