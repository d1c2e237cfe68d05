//! Trace points, named after the steps a packet takes through the device.

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_isa::exec::Step;

/// How the device came to know of a doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// The write was an access.
    Trapped,
    /// The host said that there was a write.
    Woken,
    /// The value in the page had changed.
    Polled,
}

/// One step; the numbers are what a reader needs to follow one dispatch through the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TraceEvent {
    /// A doorbell was rung.
    Doorbell {
        /// Its place in BAR2.
        offset: DoorbellOffset,
        /// Value written or found; what was there before, where a write was announced without it.
        value: u64,
        /// How the device came to know.
        way: Way,
    },
    /// The command processor took note of a doorbell that was rung, whichever way it came to know.
    DoorbellSeen {
        /// The doorbell.
        doorbell: DoorbellIndex,
    },
    /// The MES put a queue on a hardware slot.
    QueueMapped {
        /// The queue's doorbell.
        doorbell: DoorbellIndex,
        /// VMID it runs under.
        vmid: u8,
        /// Pipe of the micro engine.
        pipe: u8,
        /// Queue of the pipe.
        queue: u8,
    },
    /// The MES took a queue off its slot.
    QueueUnmapped {
        /// The queue's doorbell.
        doorbell: DoorbellIndex,
    },
    /// The MES answered (or refused) a frame.
    MesFrame {
        /// Opcode of the frame.
        opcode: u32,
        /// Whether its fence was written.
        done: bool,
    },
    /// The command processor moved a queue on.
    QueueServiced {
        /// The queue's doorbell.
        doorbell: DoorbellIndex,
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

/// A wave, by where it belongs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct WaveId {
    /// Dispatches started on the device before its own.
    pub dispatch: u64,
    /// Workgroup within the grid.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
}

/// `DISPATCH:X,Y,Z:WAVE`.
impl std::fmt::Display for WaveId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(f, "{}:{x},{y},{z}:{}", self.dispatch, self.wave)
    }
}

/// Receiver of trace events; called from any thread of the device, so it must be quick and must not call back.
pub trait TraceSink: Send + Sync + std::fmt::Debug {
    /// One step was taken.
    fn event(&self, event: TraceEvent);

    /// Whether the instructions of a wave are wanted, which is asked whenever the wave goes on.
    ///
    /// Such a wave is executed step by step, many times slower than others.
    fn wants_wave(&self, _wave: &WaveId) -> bool {
        false
    }

    /// A wave that is wanted has executed an instruction.
    fn instruction(&self, _wave: &WaveId, _step: &Step<'_>) {}
}
