//! A machine that runs in a thread of its own.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Machine, Outcome};
use crate::ending::{End, Ending};
use crate::error::KvmError;

/// Ends a machine from any thread; the machine may have ended already, or not have started yet.
#[derive(Clone, Debug)]
pub struct Handle(pub(super) Arc<Ending>);

impl Handle {
    /// Ends the machine with [`End::Stopped`], unless it has ended by itself.
    pub fn stop(&self) {
        self.0.end(End::Stopped);
    }

    /// Returns the reason of the machine's end; `None` as long as it runs.
    pub fn end(&self) -> Option<End> {
        self.0.reason()
    }
}

/// A machine that runs; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    handle: Handle,
    thread: Option<JoinHandle<Result<Outcome, KvmError>>>,
}

impl Running {
    /// Returns a handle that ends the machine from any thread.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns true if it has ended and was taken apart: [`wait`](Self::wait) returns at once.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the machine has ended and been taken apart.
    ///
    /// # Errors
    ///
    /// The errors of [`Machine::run`].
    pub fn wait(mut self) -> Result<Outcome, KvmError> {
        let Some(thread) = self.thread.take() else { return Err(KvmError::Panicked) };
        thread.join().unwrap_or(Err(KvmError::Panicked))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!(target: "kvm", "the thread of a machine panicked");
        }
    }
}

impl Machine {
    /// Returns a handle that ends this machine from another thread.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.ending))
    }

    /// Starts [`run`](Self::run) in a thread of its own.
    ///
    /// # Errors
    ///
    /// A thread that cannot be started.
    pub fn start(
        self,
        limit: Duration,
        mut output: impl FnMut(&[u8]) + Send + 'static,
    ) -> Result<Running, KvmError> {
        let handle = self.handle();
        let thread = std::thread::Builder::new()
            .name("machine".into())
            .spawn(move || self.run(limit, &mut output))
            .map_err(|source| KvmError::Setup { what: "start a thread", source })?;
        Ok(Running { handle, thread: Some(thread) })
    }
}
