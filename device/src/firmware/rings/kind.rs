//! Kinds of kernel rings, and the ways in which a driver maps one.

use crate::guest_error::GuestError;

/// Kind of a kernel ring, by the engine that takes its packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::firmware) enum RingKind {
    /// The kernel interface queue: PM4 packets about other rings.
    Kiq,
    /// The HIQ of the hardware scheduler: PM4 packets about processes and their queues.
    Hiq,
    /// A ring of the MES: frames.
    Mes,
    /// A compute ring of the kernel: PM4 packets.
    Compute,
    /// A graphics ring: PM4 packets.
    Graphics,
    /// A ring of an SDMA engine.
    Sdma,
}

/// The way in which a driver maps a ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::firmware) enum MappedBy {
    /// Registers of its hardware queue.
    Registers,
    /// MAP_QUEUES on the KIQ.
    Packet,
    /// ADD_QUEUE of the MES.
    Frame,
}

impl RingKind {
    /// Checks that an engine takes the packets of such a ring.
    ///
    /// # Errors
    ///
    /// The ring is of an engine without a model: the name says the engine and the way.
    pub(in crate::firmware) fn served(self, by: MappedBy) -> Result<(), GuestError> {
        Err(match (self, by) {
            (Self::Kiq | Self::Hiq | Self::Mes, _) => return Ok(()),
            (Self::Compute | Self::Graphics, MappedBy::Frame) => return Ok(()),
            (Self::Compute, MappedBy::Registers) => GuestError::ComputeQueueByRegisters,
            (Self::Compute, MappedBy::Packet) => GuestError::MapQueuesCompute,
            (Self::Graphics, MappedBy::Packet) => GuestError::MapQueuesGraphics,
            (Self::Sdma, MappedBy::Packet) => GuestError::MapQueuesSdma,
            // No hardware queue of the banks is one of graphics or of an SDMA engine.
            (Self::Graphics | Self::Sdma, MappedBy::Registers) => GuestError::SchedulerQueue,
            (Self::Sdma, MappedBy::Frame) => GuestError::AddQueueKernel,
        })
    }
}
