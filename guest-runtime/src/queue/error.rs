//! Why a queue could not be made or used.

use std::time::Duration;

use super::stop::StopCode;
use crate::kfd::KfdError;
use crate::memory::MemoryError;
use crate::process::MemoryFault;

/// Why a queue could not be made or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// An option is out of range.
    #[error("a queue cannot have {what} {value}: {allowed}")]
    Option {
        /// The option.
        what: &'static str,
        /// Value that was asked for.
        value: u64,
        /// Values that are allowed.
        allowed: &'static str,
    },
    /// The driver refused.
    #[error(transparent)]
    Driver(#[from] KfdError),
    /// Memory for the queue ran out.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A kernel wants more scratch memory than a work-item can have.
    #[error("{bytes} bytes of private memory per work-item are more than {limit}")]
    PrivateSegment {
        /// Bytes asked for.
        bytes: u32,
        /// Most there can be.
        limit: u32,
    },
    /// The GPU stopped the queue.
    #[error("the GPU stopped the queue: {code}{}", fault.map(|fault| format!("; {fault}")).unwrap_or_default())]
    Stopped {
        /// Why, as the packet processor reports it.
        code: StopCode,
        /// The memory fault that caused it, if there was one.
        fault: Option<MemoryFault>,
    },
    /// The GPU met a memory fault, which ends all work of the process.
    #[error("{0}")]
    MemoryFault(MemoryFault),
    /// The queue was destroyed, and its work with it.
    #[error("the queue was destroyed")]
    Destroyed,
    /// The time given is over; the work goes on.
    #[error("the GPU did not finish within {0:?}")]
    Timeout(Duration),
}
