//! The end of work: told once, waited for by any number (`struct dma_fence`).

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::errno::{Errno, Result};

/// Not over yet.
const PENDING: i32 = -1;
/// Over, and nothing went wrong.
const GOOD: i32 = 0;

/// The operating system's side of the driver's own work.
pub trait SharedFence: Any + Send + Sync {
    /// Tells that it is over; called once. May be called under locks of the driver, and takes none of them.
    fn signaled(&self, outcome: Result<()>);
}

/// Work of any driver. Dropping it ends the wait for it.
pub trait ForeignFence: Send + Sync {
    /// Returns whether it is over, however it ended.
    fn is_over(&self) -> bool;
}

/// The end of a piece of work: it is still to come, or it says how the work ended.
pub struct Fence {
    state: AtomicI32,
    /// Set once the work was handed to the device.
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

    /// Returns whether the device has the work, or had it.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire) || self.is_over()
    }

    /// The device has the work.
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
    }

    /// Returns how it ended; an error that has not come yet is none.
    ///
    /// # Errors
    ///
    /// The error of the work.
    pub fn outcome(&self) -> Result<()> {
        match self.state.load(Ordering::Acquire) {
            PENDING | GOOD => Ok(()),
            error => Err(Errno::from_raw(error)),
        }
    }

    /// Ends it.
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

/// A thing that work waits for before it begins.
#[derive(Clone)]
pub(crate) enum Dependency {
    /// The end of other work.
    Over(Arc<Fence>),
    /// Its beginning.
    Begun(Arc<Fence>),
    /// The end of work of any driver.
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

/// The fences of a wait that have to be over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    Any,
}
