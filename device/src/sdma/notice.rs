//! The notice that a driver has started or stopped a ring of an SDMA engine through registers.

use std::sync::atomic::{AtomicBool, Ordering};

/// The notice: the graphics core gives it, and the engines' firmware takes it.
#[derive(Debug, Default)]
pub(crate) struct RingNotice(AtomicBool);

impl RingNotice {
    /// Gives notice.
    pub(crate) fn give(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Takes the notice. Returns true if there was one.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}
