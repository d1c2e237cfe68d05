//! Queues: hardware queue descriptors and their images in memory, the kernel's rings, and the engine of a queue.

mod context;
mod dma;
mod engine;
mod hqd;
mod mqd;
mod mqd_set;
mod partition;
mod ring;
mod save;
pub(crate) mod sdma_mqd;

pub use context::{ContextArea, ContextOffsets};
pub use dma::{DmaBuffer, DmaContext};
pub use engine::{BlockedOn, EngineError, Progress, QueueEngine, QueueIdentity, Saving};
pub(crate) use hqd::{HQD_FIRST, HQD_REGISTERS, Hqd, HqdBanks, HqdId, RingRegisters};
pub(crate) use mqd::Mqd;
pub(crate) use mqd_set::MqdSet;
pub(crate) use partition::{Partition, Partitions};
pub(crate) use ring::{Ring, seed_doorbell};
pub(crate) use save::SavedHqds;
