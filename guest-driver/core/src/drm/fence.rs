//! The end of work: told once, waited for by any number (`struct dma_fence`).

use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, Ordering};

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::{Os, WaitOutcome, WaitQueue};

/// Not over yet.
const PENDING: i32 = -1;
/// Over, and nothing went wrong.
const GOOD: i32 = 0;
/// How long a sleeper may rest before it looks itself, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// Whether a piece of work is over, and how it ended.
#[derive(Debug)]
pub(crate) struct Fence(AtomicI32);

impl Fence {
    pub(crate) fn new() -> Self {
        Self(AtomicI32::new(PENDING))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) != PENDING
    }

    /// How it ended; an error that has not come yet is none.
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub(crate) fn outcome(&self) -> Result<()> {
        match self.0.load(Ordering::Acquire) {
            PENDING | GOOD => Ok(()),
            error => Err(Errno::from_raw(error)),
        }
    }

    /// It is over.
    pub(crate) fn signal(&self, outcome: Result<()>) {
        self.0.store(outcome.map_or_else(Errno::raw, |()| GOOD), Ordering::Release);
    }
}

/// What a wait waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    Any,
}

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
