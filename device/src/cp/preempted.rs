//! Steps by which a queue of dispatches goes to its context save area and comes back from it, for AQL and PM4 queues.

use std::sync::Arc;

use super::context::{Context, Leaving};
use super::error::{Cause, QueueError};
use super::state::QueueState;
use crate::queue::{ContextArea, ContextOffsets, Progress, QueueEngine, Saving};
use crate::shader::{ContextError, SavedDispatch, ShaderEngine};

/// A queue of dispatches that can leave its slot with its work.
pub(super) trait Preempted: QueueEngine {
    /// Returns the engine of its waves, and its state.
    fn parts(&self) -> (&Arc<ShaderEngine>, &Arc<QueueState>);

    /// Returns the context that it has not gone on from yet.
    fn unread(&self) -> Option<Context>;

    /// Sets the context that it goes on from.
    fn set_unread(&mut self, context: Context);

    /// Progress on the way to the area, while it waits for pages.
    fn leaving(&mut self) -> &mut Option<Leaving>;

    /// Stops at a packet that cannot be processed, and tells the driver.
    fn fail(&mut self, cause: Cause) -> Progress<QueueError>;

    /// Returns the control stack: its own state, and the saved waves by the dispatches that it has started.
    fn control_stack(&self, saved: &[SavedDispatch]) -> Vec<u32>;

    /// Goes on from a context.
    fn read_context(&mut self, area: Option<&ContextArea>, offsets: ContextOffsets) -> Result<(), Cause>;

    /// Forgets what it has read of a context, of which pages are missing.
    fn forget(&mut self);

    /// Saves the queue, as [`QueueEngine::save`] describes.
    fn save_context(&mut self, area: Option<&ContextArea>) -> Result<Saving, QueueError> {
        if let Some(Context { offsets, .. }) = self.unread() {
            // The context is still in the area, unchanged.
            self.stop();
            return Ok(Saving::Done(Some(offsets)));
        }
        let failure = self.parts().1.failure_before_save(self.read_index());
        if failure.is_some() || !self.is_busy() {
            self.stop();
            return failure.map_or(Ok(Saving::Done(None)), Err);
        }
        match self.write_context(area).map_err(Cause::Context) {
            Ok(None) => Ok(Saving::Waits),
            Ok(offsets) => {
                self.stop();
                Ok(Saving::Done(offsets))
            }
            Err(cause) if self.parts().1.tries_again(&cause) => Ok(Saving::Waits),
            Err(cause) => Err(self.stop_for(cause)),
        }
    }

    /// Stops for good, and returns the error.
    fn stop_for(&mut self, cause: Cause) -> QueueError {
        match self.fail(cause) {
            Progress::Error(error) => error,
            _ => QueueError { packet: self.read_index(), cause: Cause::Context(ContextError::Stopped) },
        }
    }

    /// Writes the waves and the control stack. Returns `None` if pages are missing.
    fn write_context(&mut self, area: Option<&ContextArea>) -> Result<Option<ContextOffsets>, ContextError> {
        let mut leaving = self.leaving().map_or_else(|| Leaving::to(area), Ok)?;
        let (shader, state) = self.parts();
        let saved = leaving.save_waves(shader, state);
        *self.leaving() = Some(leaving);
        let Some(saved) = saved? else { return Ok(None) };
        leaving.finish(self.parts().1.space(), &self.control_stack(&saved)).map(Some)
    }

    /// Begins with a context that another engine has written.
    fn begin_from(&mut self, area: Option<&ContextArea>, offsets: ContextOffsets) -> Result<(), QueueError> {
        match self.come_back(Context { area: area.copied(), offsets }) {
            Ok(_) => Ok(()),
            Err(cause) => Err(self.stop_for(cause)),
        }
    }

    /// Goes on from a context. Returns `false` if pages are missing: the queue goes on later.
    fn come_back(&mut self, context: Context) -> Result<bool, Cause> {
        let Context { area, offsets } = context;
        self.set_unread(context);
        if context.waits(self.parts().1) {
            return Ok(false);
        }
        match self.read_context(area.as_ref(), offsets) {
            Ok(()) => Ok(true),
            Err(cause) if self.parts().1.tries_again(&cause) => {
                self.forget();
                self.set_unread(context);
                Ok(false)
            }
            Err(cause) => Err(cause),
        }
    }
}
