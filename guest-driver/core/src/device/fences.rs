//! Waits for the end of work of the render node (`amdgpu_cs.c`, `amdgpu_cs_wait_fences_ioctl`).

use alloc::sync::Arc;

use super::Device;
use crate::errno::{Errno, Result};
use crate::fence::{Fence, Wanted};
use crate::os::{Os, WaitOutcome, WaitQueue as _};

/// Time that a sleeper may rest before it looks itself, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

impl<O: Os> Device<O> {
    /// Waits for fences; returns whether it is over, in time.
    ///
    /// `timeout_ns` of `None` waits for ever. `look` runs now and then, for what no interrupt tells.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` for a signal, `ENODEV` when the device is gone.
    pub(crate) fn wait_fences(
        &self,
        fences: &[Arc<Fence>],
        wanted: Wanted,
        timeout_ns: Option<u64>,
        look: impl Fn(),
    ) -> Result<bool> {
        let start = self.hw.now_ns();
        let over = || match wanted {
            Wanted::All => fences.iter().all(|fence| fence.is_over()),
            Wanted::Any => fences.iter().any(|fence| fence.is_over()),
        };
        loop {
            let ticket = self.fences.ticket();
            if over() {
                return Ok(true);
            }
            let left =
                timeout_ns.map(|timeout| timeout.saturating_sub(self.hw.now_ns().saturating_sub(start)));
            if left == Some(0) {
                look();
                return Ok(over());
            }
            match self.fences.wait(ticket, Some(left.unwrap_or(LOOK_NS).min(LOOK_NS))) {
                WaitOutcome::Interrupted => return Err(Errno::ERESTARTSYS),
                WaitOutcome::TimedOut => look(),
                WaitOutcome::Woken => {}
            }
            if !self.hw.alive() {
                return Err(Errno::ENODEV);
            }
        }
    }
}
