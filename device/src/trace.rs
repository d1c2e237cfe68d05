//! Trace points, named after the steps a packet takes through the device.

use crate::doorbell::Way;

/// One step; the numbers are what a reader needs to follow one dispatch through the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TraceEvent {
    /// A doorbell was rung.
    Doorbell {
        /// Byte offset in BAR2.
        offset: u64,
        /// Value written or found; what was there before, where a write was announced without it.
        value: u64,
        /// How the device came to know.
        way: Way,
    },
    /// The MES put a queue on a hardware slot.
    QueueMapped {
        /// Dword index of the queue's doorbell.
        doorbell: u32,
        /// VMID it runs under.
        vmid: u8,
        /// Pipe of the micro engine.
        pipe: u8,
        /// Queue of the pipe.
        queue: u8,
    },
    /// The MES took a queue off its slot.
    QueueUnmapped {
        /// Dword index of the queue's doorbell.
        doorbell: u32,
    },
    /// The scheduler answered (or refused) a MES frame.
    MesFrame {
        /// Opcode of the frame.
        opcode: u32,
        /// Whether its fence was written.
        done: bool,
    },
    /// The command processor moved a queue on.
    QueueServiced {
        /// Dword index of the queue's doorbell.
        doorbell: u32,
    },
    /// An entry was written to the interrupt ring.
    IhEntry {
        /// Client id.
        client: u8,
        /// Source id.
        source: u8,
        /// PASID.
        pasid: u16,
    },
    /// A vector was raised at the host.
    Interrupt {
        /// The vector.
        vector: u16,
    },
    /// The device was reset.
    Reset,
}

/// Receiver of trace events; called from any thread of the device, so it must be quick and must not call back.
pub trait TraceSink: Send + Sync + std::fmt::Debug {
    /// One step was taken.
    fn event(&self, event: TraceEvent);
}
