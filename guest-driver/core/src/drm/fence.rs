//! The end of work: told once, waited for by any number (`struct dma_fence`).

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::{ForeignFence, Os, SharedFence, WaitOutcome, WaitQueue};

/// Not over yet.
const PENDING: i32 = -1;
/// Over, and nothing went wrong.
const GOOD: i32 = 0;
/// How long a sleeper may rest before it looks itself, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// Whether a piece of work is over, and how it ended.
pub struct Fence {
    state: AtomicI32,
    /// It was handed to the device.
    begun: AtomicBool,
    /// The operating system's side.
    shared: Option<Arc<dyn SharedFence>>,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fence").field(&self.state.load(Ordering::Relaxed)).finish()
    }
}

impl Fence {
    /// The end of work that is to come.
    #[must_use]
    pub fn new(shared: Option<Arc<dyn SharedFence>>) -> Self {
        Self { state: AtomicI32::new(PENDING), begun: AtomicBool::new(false), shared }
    }

    /// The end of what is over already.
    #[must_use]
    pub fn over() -> Self {
        let fence = Self::new(None);
        fence.signal(Ok(()));
        fence
    }

    /// Returns whether the work is over, however it ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) != PENDING
    }

    /// Returns the operating system's side.
    #[must_use]
    pub fn shared(&self) -> Option<&Arc<dyn SharedFence>> {
        self.shared.as_ref()
    }

    /// Whether the device has the work, or had it.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire) || self.is_over()
    }

    /// The device has the work.
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// How it ended; an error that has not come yet is none.
    ///
    /// # Errors
    ///
    /// What went wrong.
    pub fn outcome(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            PENDING | GOOD => Ok(()),
            error => Err(Errno::from_raw(error)),
        }
    }

    /// It is over.
    pub(crate) fn signal(&self, outcome: Result<()>) {
        let before = self.state.swap(outcome.map_or_else(Errno::raw, |()| GOOD), Ordering::AcqRel);
        if let Some(shared) = self.shared.as_ref().filter(|_| before == PENDING) {
            shared.signaled(outcome);
        }
    }
}

impl Drop for Fence {
    /// Work that was never submitted is over as well.
    fn drop(&mut self) {
        if !self.is_over() {
            self.signal(Err(Errno::ECANCELED));
        }
    }
}

/// What work waits for before it begins.
#[derive(Clone)]
pub(crate) enum Dependency {
    /// The end of other work.
    Over(Arc<Fence>),
    /// Its beginning.
    Begun(Arc<Fence>),
    /// The end of work that may be anybody's.
    Foreign(Arc<dyn ForeignFence>),
}

impl Dependency {
    pub(crate) fn is_met(&self) -> bool {
        match self {
            Self::Over(fence) => fence.is_over(),
            Self::Begun(fence) => fence.has_begun(),
            Self::Foreign(fence) => fence.is_over(),
        }
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
