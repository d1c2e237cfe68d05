//! The end of the engine and its workers.

use super::ShaderEngine;
use crate::spent;

impl Drop for ShaderEngine {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            state.shutdown = true;
            for active in &state.queues {
                active.queue.begin_stop();
            }
            self.shared.announce(state);
        }
        for worker in self.workers.drain(..) {
            // The last handle may be dropped by an announcement on a worker, which cannot wait for itself.
            if worker.thread().id() != std::thread::current().id() && worker.join().is_err() {
                log::error!(target: "gpu::shader", "a shader worker panicked");
            }
        }
        if spent::is_on() {
            spent::add_code(&self.take_code_times());
        }
    }
}
