//! Errors of the runtime.

use crate::code_object::CodeObjectError;
use crate::kernarg::ArgumentError;
use crate::kfd::KfdError;
use crate::launch_error::LaunchError;
use crate::memory::MemoryError;
use crate::queue::QueueError;
use crate::signal::SignalError;
use crate::topology::TopologyError;
use crate::transport::OpenError;

/// Anything that can go wrong between a program and its GPU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device files could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The topology could not be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The system has no GPU.
    #[error("the system has no GPU")]
    NoGpu,
    /// The driver refused a request.
    #[error(transparent)]
    Driver(#[from] KfdError),
    /// Memory could not be allocated, or a copy would leave its buffer.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A wait on a signal failed.
    #[error(transparent)]
    Signal(#[from] SignalError),
    /// A queue could not be made, or stopped.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A code object was not accepted.
    #[error(transparent)]
    CodeObject(#[from] CodeObjectError),
    /// Arguments do not fit the kernel.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// A launch cannot be.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}
