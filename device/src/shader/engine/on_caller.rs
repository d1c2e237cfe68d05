//! The engine without threads: for fuzz targets, and for tests that stop at a certain turn.

use std::sync::PoisonError;
use std::thread::JoinHandle;

use super::{ShaderEngine, Task};

impl ShaderEngine {
    /// Ends the worker threads. No dispatch may have been submitted.
    pub(crate) fn work_on_caller(&self) {
        {
            let mut state = self.shared.lock();
            state.shutdown = true;
            self.shared.announce(state);
        }
        while !self.workers.iter().all(JoinHandle::is_finished) {
            self.shared.work.notify_all();
            std::thread::yield_now();
        }
    }

    /// Takes a worker's next turn on the calling thread. Returns false if there was none.
    pub(crate) fn turn(&self) -> bool {
        let mut worker = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        let task = self.shared.find(&mut self.shared.lock());
        let Some(Task { dispatch, work }) = task else { return false };
        let aftermath = worker.take(&self.shared, &dispatch, work);
        drop(worker);
        aftermath.announce(&dispatch);
        self.shared.end_task(dispatch.queue());
        true
    }
}
