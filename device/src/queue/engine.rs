//! The engine of a queue: the seam between the firmware that maps queues and the engines that process their packets.

use std::any::Any;
use std::error::Error;
use std::fmt::Debug;

use belfry_abi::doorbell::DoorbellIndex;

use super::{ContextArea, ContextOffsets, DmaContext};
use crate::chip::QueuePlace;
use crate::trace::{Engine, Owner};

/// Identity of a hardware queue, as interrupts report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize, serde::Serialize)]
pub struct QueueIdentity {
    /// First graphics core of the partition that the queue is on.
    pub xcc: u8,
    /// Micro engine: 1 and 2 are compute. Of an SDMA queue, the number of its engine.
    pub me: u8,
    /// Pipe within the micro engine.
    pub pipe: u8,
    /// Queue within the pipe.
    pub queue: u8,
    /// VM context.
    pub vmid: u8,
    /// Process address space.
    pub pasid: u32,
    /// Doorbell, `CP_HQD_PQ_DOORBELL_CONTROL.DOORBELL_OFFSET`.
    #[serde(with = "crate::save::doorbell")]
    pub doorbell: DoorbellIndex,
}

impl QueueIdentity {
    /// Returns the position of the queue's doorbell in its process's slice, as KFD counts.
    #[must_use]
    pub fn doorbell_id(&self) -> u32 {
        (self.doorbell.dwords() / 2) & 0x3ff
    }

    /// Returns the owner, in a trace, of the queue's events.
    #[must_use]
    pub fn owner(&self, engine: Engine) -> Owner {
        Owner {
            pasid: self.pasid,
            vmid: self.vmid,
            doorbell: Some(self.doorbell.dwords()),
            ..Owner::of(engine)
        }
    }

    /// Returns the place of the queue as its waves know it.
    #[must_use]
    pub fn place(&self) -> QueuePlace {
        QueuePlace { me: self.me, pipe: self.pipe, queue: self.queue, vmid: self.vmid }
    }
}

/// Result of serving a queue; `E` is the reason that it stopped.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress<E> {
    /// Nothing to do until the doorbell rings.
    Idle,
    /// Packets were consumed and there may be more.
    Advanced,
    /// The next packet waits.
    Blocked(BlockedOn),
    /// The queue has stopped for good; reported once, then the queue is idle.
    Error(E),
}

impl<E> Progress<E> {
    /// Converts the error to another type.
    pub fn map_error<F>(self, map: impl FnOnce(E) -> F) -> Progress<F> {
        match self {
            Self::Idle => Progress::Idle,
            Self::Advanced => Progress::Advanced,
            Self::Blocked(on) => Progress::Blocked(on),
            Self::Error(error) => Progress::Error(map(error)),
        }
    }
}

/// Event that a queue waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedOn {
    /// Its own work in progress: the engine wakes the device thread when that has changed.
    Dispatches,
    /// A value in memory that any program may change: serve the queue again soon, without waiting for a wake-up.
    Memory,
}

/// Result of saving a queue's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saving {
    /// The work is in the context save area; `None` if there was none.
    Done(Option<ContextOffsets>),
    /// Pages are missing that the queue waits for, and the driver has been told.
    Waits,
}

/// Reason that an engine has stopped its queue.
pub type EngineError = Box<dyn Error + Send + Sync>;

/// The engine of one queue, while the queue is on a slot.
///
/// | state | entered by | work in progress |
/// | --- | --- | --- |
/// | running | creation, [`resume`](Self::resume) | goes on |
/// | suspended | [`suspend`](Self::suspend) | stays where it is |
/// | suspended | [`save`](Self::save) that waits for pages | is in part in the context save area |
/// | stopped | [`save`](Self::save) when suspended | is in the context save area |
/// | stopped | [`stop`](Self::stop), an error | is gone |
///
/// The code that makes engines also saves them, each as what it is.
pub trait QueueEngine: Any + Debug + Send {
    /// Starts the work that can be started and retires the work that has completed; only while the engine is running.
    fn service(&mut self) -> Progress<EngineError>;

    /// Pauses work in progress where it is, and retires the work that has completed.
    fn suspend(&mut self);

    /// Lets suspended work run on.
    fn resume(&mut self);

    /// Writes suspended work to the context save area, and stops; another engine goes on with it. The caller has to
    /// call again an engine that waits for pages; the engine does nothing else until then.
    ///
    /// # Errors
    ///
    /// Returns an error if the work cannot be written: it is gone, and the queue's owner has been informed.
    fn save(&mut self, area: Option<&ContextArea>) -> Result<Saving, EngineError>;

    /// Notes that the doorbell has been rung with this value. Only checks use it: engines read their write pointers.
    fn rung(&mut self, value: u64) {
        let _ = value;
    }

    /// Ends the queue: nothing is written on its behalf after the call.
    fn stop(&mut self);

    /// Returns true if there is more to it than its registers hold: work started and not retired.
    fn is_busy(&self) -> bool;

    /// Returns true if it stays at a packet for good, so that it can be stopped but not suspended.
    fn hangs(&self) -> bool {
        false
    }

    /// Returns the index of the next packet to retire, for `CP_HQD_PQ_RPTR`.
    fn read_index(&self) -> u64;

    /// Returns the compute registers, in the order of the MQD's; `None` if packets do not set them.
    fn compute_registers(&self) -> Option<&[u32]> {
        None
    }

    /// Returns the position of an SDMA queue, beside its read pointer; `None` of any other.
    fn dma_context(&self) -> Option<DmaContext> {
        None
    }
}
