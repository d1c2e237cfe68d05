//! The memory controller: the number of errors of VRAM that it has corrected.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::regs::gfx9::umc::{self, UMCCH0_OdEccErrCnt};
use belfry_abi::regs::{Ip, Offset, Register as _};

use crate::regs::{Block, Run};

/// Bits of the counter.
const COUNT: u32 = 0xffff;

/// The controller of all memory, where drivers read the errors of every channel.
pub(crate) struct Umc {
    corrected: Arc<AtomicU32>,
}

impl Umc {
    /// The controller with this counter.
    pub(crate) fn new(corrected: Arc<AtomicU32>) -> Self {
        Self { corrected }
    }
}

impl std::fmt::Debug for Umc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Umc").field("corrected", &self.corrected).finish()
    }
}

impl Block for Umc {
    fn ip(&self) -> (Ip, u8) {
        (umc::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        vec![Run { first: UMCCH0_OdEccErrCnt::AT, count: 1 }]
    }

    fn read(&self, _: Offset) -> u32 {
        self.corrected.load(Ordering::Acquire)
    }

    fn write(&self, _: Offset, value: u32) {
        self.corrected.store(value & COUNT, Ordering::Release);
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        vec![&self.corrected]
    }

    fn reset(&self) {
        self.corrected.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_is_read_set_and_reset() {
        let counter = Arc::new(AtomicU32::new(3));
        let umc = Umc::new(Arc::clone(&counter));
        let at = UMCCH0_OdEccErrCnt::AT;
        assert_eq!(umc.read(at), 3);
        umc.write(at, 0x2_0001);
        assert_eq!((umc.read(at), counter.load(Ordering::Relaxed)), (1, 1));
        umc.reset();
        assert_eq!(umc.read(at), 0);
    }
}
