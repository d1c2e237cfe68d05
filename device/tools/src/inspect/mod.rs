//! The live device as plain data, for users and scripts that examine it.
//!
//! [`Inspector`] answers one question at a time: an answer is of one moment. An unused inspector costs
//! nothing. Queues and waves are read while the firmware's lock is held; waves stand still between two
//! instructions for that long. Addresses and masks are texts in hexadecimal, as numbers of JSON lose their
//! last bits in many readers.
//!
//! | question | file |
//! | --- | --- |
//! | counters, and the parts that are stopped | `overview.rs` |
//! | queues, their registers and packets | `queues.rs`, `packets.rs` |
//! | waves | `waves.rs` |
//! | page tables | `tables.rs` |
//! | registers, doorbells, interrupts | `registers.rs`, `interrupts.rs` |
//! | memory | `memory.rs` |
//! | kernels | `kernels.rs` |
//!
//! Only two files act on the device: `control.rs` halts it, lets it go on, and runs waves of a halted device
//! by hand; `alter.rs` changes registers and memory of a halted device.

mod alter;
mod control;
mod hex;
mod interrupts;
mod kernels;
mod memory;
mod overview;
mod packets;
mod queues;
mod registers;
mod tables;
mod waves;

use std::sync::Arc;

pub use alter::RegisterName;
pub use control::{AccessRange, BreakOn, StatusView};
pub use hex::Hex;
pub use interrupts::{IhEntryView, IhRingView};
pub use kernels::KernelView;
pub use memory::{BytesOf, MAX_BYTES, MemoryAs, MemoryItem, UnknownForm};
pub use overview::Overview;
pub use packets::PacketView;
pub use queues::{QueueDetails, QueueView};
pub use registers::{DoorbellView, FieldView, RegisterView, UnmodelledView};
pub use tables::{Backwards, LevelView, WalkView};
pub use waves::{
    CodeLine, DispatchView, NamedRegister, NoWaveId, WaveDetails, WaveId, WaveParts, WaveView, WavesView,
};

use belfry_device::Gpu;
use belfry_device::look::{Look, LookError, SeenQueue};
use belfry_device::vm::AddressSpace;

/// Reasons why a question has no answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InspectError {
    /// The device has ended.
    #[error("the device is stopped")]
    Stopped,
    /// No such process.
    #[error("no queue of a process with PASID {0:#x}; `queues` lists them, and 0 is the kernel")]
    Process(u16),
    /// No such queue.
    #[error("no queue has doorbell {0:#x}; `queues` lists them")]
    Queue(u32),
    /// No such wave.
    #[error("no wave {0} is on the GPU; `waves` lists them")]
    Wave(WaveId),
    /// No such block.
    #[error("no block is called {0}; there are {1}")]
    Block(String, String),
    /// Memory that is not there.
    #[error("memory at {0} cannot be read: {1}")]
    Memory(Hex, String),
    /// Steps of a device that runs.
    #[error("the device runs; `pause` halts it")]
    NotHalted,
    /// A wave that cannot run.
    #[error("the queue of wave {0} may not run now")]
    Held(WaveId),
    /// No such register.
    #[error("no register with a model is called {0}")]
    Register(String),
    /// A register that a wave does not have, or that cannot have the value.
    #[error("the wave has no register {0} that can be {1}")]
    Value(String, Hex),
    /// Too many breakpoints.
    #[error("there are 64 breakpoints already")]
    TooManyBreaks,
    /// More bytes than an answer may have.
    #[error("{0} bytes are more than {MAX_BYTES}")]
    TooLong(u64),
}

/// Answers questions about a device.
#[derive(Debug)]
pub struct Inspector<'a> {
    device: Look<'a>,
}

/// Looks at a device.
pub trait Inspect {
    /// Returns an inspector of the device.
    #[must_use]
    fn inspect(&self) -> Inspector<'_>;
}

impl Inspect for Gpu {
    fn inspect(&self) -> Inspector<'_> {
        Inspector { device: Look::of(self) }
    }
}

impl InspectError {
    /// Returns the reason why a wave could not be changed.
    fn of_wave(error: LookError, wave: WaveId) -> Self {
        match error {
            LookError::Stopped => Self::Stopped,
            LookError::NotHalted => Self::NotHalted,
            LookError::NoWave => Self::Wave(wave),
            LookError::Held => Self::Held(wave),
        }
    }
}

impl Inspector<'_> {
    fn seen_queues(&self) -> Result<Vec<SeenQueue>, InspectError> {
        self.device.queues().map_err(|_| InspectError::Stopped)
    }

    /// The address space of a process; for PASID 0, the kernel's.
    fn space(&self, pasid: u16) -> Result<Arc<AddressSpace>, InspectError> {
        let none = InspectError::Process(pasid);
        if pasid == 0 {
            return self.device.kernel_space().ok_or(none);
        }
        let mut queues = self.seen_queues()?.into_iter();
        queues.find_map(|queue| queue.space.filter(|_| !queue.kernel && queue.pasid == pasid)).ok_or(none)
    }
}
