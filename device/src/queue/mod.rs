//! Queues: hardware queue descriptors and their images in memory, the kernel's rings, and what runs a queue.

mod context;
mod engine;
mod hqd;
mod mqd;
mod ring;
mod save;

pub use context::{ContextArea, ContextOffsets};
pub use engine::{BlockedOn, EngineError, Progress, QueueEngine, QueueIdentity};
pub(crate) use hqd::{HQD_FIRST, HQD_REGISTERS, Hqd, HqdBanks, HqdId};
pub(crate) use mqd::Mqd;
pub(crate) use ring::{Ring, seed_doorbell};
pub(crate) use save::SavedHqds;
