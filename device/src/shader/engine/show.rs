//! The dispatches on the engine and its counters, as text.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Dispatch, ShaderEngine, ShaderQueue};
use crate::shader::stats::Statistics;

/// Queues that are shown, and dispatches of each.
const QUEUES: usize = 16;
const DISPATCHES: usize = 4;

/// A queue with dispatches.
struct Shown {
    queue: Arc<ShaderQueue>,
    /// The first ones of all.
    dispatches: Vec<Arc<Dispatch>>,
    all: usize,
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Active")
            .field("queue", &self.queue)
            .field("in_flight", &format_args!("{}", self.all))
            .field("dispatches", &self.dispatches)
            .finish()
    }
}

/// The dispatches in flight, in the order of their next turns. The engine goes on while they are shown: a workgroup that has
/// its turn at that moment is only counted. Pause the device to see all waves.
impl fmt::Debug for ShaderEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reader of the text may be slow: workers must not wait for it.
        let (queues, all) = {
            let state = self.shared.lock();
            let shown = state.queues.iter().take(QUEUES).map(|active| Shown {
                queue: Arc::clone(&active.queue),
                dispatches: active.dispatches.iter().take(DISPATCHES).cloned().collect(),
                all: active.dispatches.len(),
            });
            (shown.collect::<Vec<_>>(), state.queues.len())
        };
        f.debug_struct("ShaderEngine")
            .field("workers", &format_args!("{}", self.workers.len()))
            .field("submitted", &(self.shared.code_epoch.load(Ordering::Relaxed) + 1 - super::FIRST_EPOCH))
            .field("residency", &self.shared.residency)
            .field("active_queues", &format_args!("{all}"))
            .field("queues", &queues)
            .finish_non_exhaustive()
    }
}

impl ShaderEngine {
    /// Counters since the engine was made.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.counters.get()
    }

    /// Returns the time at which the first dispatch was found complete.
    #[must_use]
    pub fn first_dispatch(&self) -> Option<std::time::Instant> {
        self.shared.counters.first_dispatch.get().copied()
    }
}
