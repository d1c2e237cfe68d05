//! Taking a queue off the GPU while it runs, and the state that the GPU then saves.

use std::sync::PoisonError;

use belfry_abi::kfd::queue::{ContextSaveAreaHeader, KFD_MAX_QUEUE_PERCENTAGE, UpdateQueueArgs};
use zerocopy::{FromZeros, IntoBytes};

use super::save_area::SaveArea;
use super::{Queue, QueueError, QueueInner};

/// The state of a queue that was taken off the GPU, as the GPU wrote it to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedContext {
    /// Control stack: the waves that were running.
    pub control_stack: Vec<u8>,
    /// Registers and LDS of the waves.
    pub waves: Vec<u8>,
}

impl Queue {
    /// Takes the queue off the GPU: the state of running waves is saved to its context save area, until
    /// [`go_on`](Self::go_on).
    ///
    /// # Errors
    ///
    /// [`QueueError::Driver`], and [`QueueError::Destroyed`].
    pub fn preempt(&self) -> Result<(), QueueError> {
        self.inner.set_share(0)
    }

    /// Lets a queue run on after [`preempt`](Self::preempt).
    ///
    /// # Errors
    ///
    /// As [`preempt`](Self::preempt).
    pub fn go_on(&self) -> Result<(), QueueError> {
        self.inner.set_share(KFD_MAX_QUEUE_PERCENTAGE)
    }

    /// Reads the context that was saved when the queue was taken off the GPU.
    ///
    /// # Errors
    ///
    /// [`QueueError::Driver`]: `EINVAL` while the queue may run; [`QueueError::Option`] when the area is not
    /// [readable](super::QueueOptions::readable_context).
    pub fn context(&self) -> Result<SavedContext, QueueError> {
        let inner = &self.inner;
        if !inner.readable_context {
            let allowed = "`readable_context` of its options";
            return Err(QueueError::Option { what: "context of a queue", value: inner.id.into(), allowed });
        }
        let area = &inner.save_area;
        inner.gpu.process.kfd.queue_wave_state(inner.id, area.address())?;
        let mut context = SavedContext { control_stack: Vec::new(), waves: Vec::new() };
        // Each graphics core has a part of the area, with a header.
        let distance = SaveArea::of(&inner.gpu.agent).save_restore as usize;
        for start in (0..inner.gpu.agent.xccs.max(1) as usize).map(|number| number * distance) {
            let mut header = ContextSaveAreaHeader::new_zeroed();
            area.read_bytes(start, header.as_mut_bytes());
            let read = |end: u32, size: u32| {
                let end = (start + end as usize).min(area.len());
                let mut bytes = vec![0u8; (size as usize).min(end)];
                area.read_bytes(end - bytes.len(), &mut bytes);
                bytes
            };
            let stack_end = header.control_stack_offset.saturating_add(header.control_stack_size);
            context.control_stack.extend(read(stack_end, header.control_stack_size));
            context.waves.extend(read(header.wave_state_offset, header.wave_state_size));
        }
        Ok(context)
    }
}

impl QueueInner {
    /// Changes the queue's share of the GPU.
    fn set_share(&self, percentage: u32) -> Result<(), QueueError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            return Err(QueueError::Destroyed);
        }
        let mut args = UpdateQueueArgs::new_zeroed();
        args.ring_base_address = self.ring.address();
        args.queue_id = self.id;
        args.ring_size = self.ring.bytes() as u32;
        args.queue_percentage = percentage;
        args.queue_priority = self.priority;
        Ok(self.gpu.process.kfd.update_queue(&mut args)?)
    }
}
