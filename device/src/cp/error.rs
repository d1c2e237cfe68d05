//! Reasons that a queue stopped.

use belfry_abi::aql::inactive;

use crate::chip::DescriptorError;
use crate::pm4;
use crate::shader::{ContextError, FailureClass, WaveFailure};
use crate::vm::Fault;

/// A queue that cannot go on: the packet and the reason. Other queues are not affected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("packet {packet}: {cause}")]
pub struct QueueError {
    /// Index of the packet, as the read index counts.
    pub packet: u64,
    /// The reason.
    pub cause: Cause,
}

/// Reason for a queue's stop.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Cause {
    /// The ring, `amd_queue_t`, a packet or a signal lies at an address where the queue's address space has no memory.
    #[error("{what} cannot be accessed: {fault}")]
    Memory {
        /// Name of the memory that was accessed.
        what: &'static str,
        /// The fault.
        fault: Fault,
    },
    /// Packet type that does not exist or that a GPU does not accept.
    #[error("packet type {0} is not supported")]
    PacketType(u8),
    /// Vendor packet format that is not supported.
    #[error("vendor packet format {0} is not supported")]
    VendorFormat(u8),
    /// The PM4 packets that a vendor packet leads to are malformed, or ask for an operation that is not modelled.
    #[error("vendor packet: {0}")]
    Pm4(pm4::Error),
    /// A packet of a PM4 queue is malformed, or asks for an operation that is not modelled.
    #[error("{0}")]
    Ring(pm4::Error),
    /// A write pointer more than a ring ahead of the read pointer.
    #[error("the write pointer is {ahead} dwords ahead in a ring of {ring}")]
    WritePointer {
        /// Dwords between the pointers.
        ahead: u64,
        /// Dwords of the ring.
        ring: u64,
    },
    /// A condition of a barrier-value packet that does not exist.
    #[error("vendor packet: barrier-value condition {0} does not exist")]
    BarrierCondition(u32),
    /// A packet structure that is not as long as a packet; no structure is.
    #[error("packet structure of another length than a packet")]
    PacketLength,
    /// Dimensions outside 1 to 3, a zero size, or a size in a dimension that is not used.
    #[error("dispatch of {dimensions} dimensions with grid {grid:?} is not valid")]
    Dimensions {
        /// Dimensions in the packet's setup field.
        dimensions: u16,
        /// Grid size.
        grid: [u32; 3],
    },
    /// A workgroup of no or more than 1024 work-items.
    #[error("workgroup of {0:?} work-items is not valid")]
    WorkgroupSize([u16; 3]),
    /// More group memory than a workgroup can have.
    #[error("{0} bytes of group memory are more than a workgroup can have")]
    GroupSegment(u32),
    /// The kernel object is not a kernel descriptor this device can run.
    #[error("kernel object {address:#x}: {reason}")]
    KernelObject {
        /// Address in the packet.
        address: u64,
        /// Defect of the kernel object.
        reason: KernelError,
    },
    /// More vector registers than a wave can have.
    #[error("kernel wants {0} vector registers")]
    Registers(u32),
    /// Registers, waves or LDS of a workgroup are more than an empty compute unit has.
    #[error("no compute unit holds a workgroup of {waves} waves with {vgprs} vector registers each")]
    Occupancy {
        /// Waves of a workgroup.
        waves: u32,
        /// Vector registers of each.
        vgprs: u32,
    },
    /// The queue may use no compute unit that holds a workgroup.
    #[error("the queue's CU mask leaves no compute unit for a workgroup (COMPUTE_STATIC_THREAD_MGMT)")]
    ComputeUnits,
    /// More scratch memory than the queue has, and no inactive signal to ask for more.
    #[error("{0} bytes of private memory per work-item are more than the queue has scratch memory for")]
    Scratch(u32),
    /// The runtime answers that there is scratch memory, but there is not enough.
    #[error(
        "the runtime was asked {times} times for {bytes} bytes of scratch memory a wave, set the inactive signal back to 0, and \
         the queue still has too little (COMPUTE_TMPRING_SIZE)"
    )]
    ScratchAnswer {
        /// Bytes that a wave needs.
        bytes: u64,
        /// Requests for this packet.
        times: u8,
    },
    /// A wave failed.
    #[error("{0}")]
    Wave(WaveFailure),
    /// A failure from before the device was saved, which the runtime and the driver know.
    #[error("{0}")]
    Earlier(String),
    /// The queue was preempted, and its state was not saved, or not restored.
    #[error("context switch: {0}")]
    Context(#[from] ContextError),
}

/// Defect of a kernel object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// The address is 0 or no multiple of 64.
    #[error("not aligned to 64 bytes")]
    Alignment,
    /// The descriptor cannot be read.
    #[error("unreadable: {0}")]
    Unreadable(Fault),
    /// The descriptor asks for a feature that the chip does not have.
    #[error("{0}")]
    Descriptor(DescriptorError),
    /// The first instruction, at this address, is not aligned as it has to be.
    #[error("entry point {0:#x} is not aligned to 256 bytes")]
    EntryAlignment(u64),
    /// The first instruction cannot be fetched.
    #[error("entry point: {0}")]
    Entry(Fault),
    /// The number of user SGPRs does not fit what the kernel asks for.
    #[error("{declared} user SGPRs declared, {wanted} wanted, {most} possible")]
    UserSgprs {
        /// `COMPUTE_PGM_RSRC2.USER_SGPR`.
        declared: usize,
        /// User SGPRs that the descriptor's other fields enable.
        wanted: usize,
        /// Most user SGPRs of a wave of this chip.
        most: usize,
    },
}

impl From<pm4::Error> for Cause {
    fn from(error: pm4::Error) -> Self {
        match error {
            pm4::Error::Memory { what, fault } => Self::Memory { what, fault },
            other => Self::Pm4(other),
        }
    }
}

/// KFD exception codes, `enum kfd_dbg_trap_exception_code` of linux `kfd_ioctl.h`.
mod ec {
    pub(super) const QUEUE_PACKET_DISPATCH_DIM_INVALID: u32 = 16;
    pub(super) const QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID: u32 = 17;
    pub(super) const QUEUE_PACKET_DISPATCH_CODE_INVALID: u32 = 18;
    pub(super) const QUEUE_PACKET_UNSUPPORTED: u32 = 20;
    pub(super) const QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID: u32 = 21;
    pub(super) const QUEUE_PACKET_DISPATCH_REGISTER_INVALID: u32 = 22;
    pub(super) const QUEUE_PACKET_VENDOR_UNSUPPORTED: u32 = 23;
    pub(super) const QUEUE_PREEMPTION_ERROR: u32 = 30;
}

impl Cause {
    /// Returns the code stored into the queue's inactive signal; `None` if hardware leaves the signal alone (memory
    /// faults are the driver's).
    #[must_use]
    pub fn inactive_code(&self) -> Option<u64> {
        Some(match self {
            Cause::Memory { .. } | Cause::Earlier(_) | Cause::Ring(_) | Cause::WritePointer { .. } => {
                return None;
            }
            Cause::PacketType(_) => inactive::PACKET_FORMAT_INVALID,
            Cause::VendorFormat(_) | Cause::Pm4(_) | Cause::BarrierCondition(_) | Cause::PacketLength => {
                inactive::VENDOR_PACKET_UNSUPPORTED
            }
            Cause::Dimensions { .. } => inactive::DIM_INVALID,
            Cause::WorkgroupSize(_) => inactive::WORKGROUP_SIZE_INVALID,
            Cause::GroupSegment(_) => inactive::GROUP_SEGMENT_INVALID,
            Cause::KernelObject { .. } => inactive::CODE_INVALID,
            // Not the code that asks for scratch memory, which the runtime would answer as before.
            Cause::Registers(_)
            | Cause::Occupancy { .. }
            | Cause::ComputeUnits
            | Cause::ScratchAnswer { .. } => inactive::REGISTER_INVALID,
            Cause::Scratch(_) => inactive::SCRATCH_NEEDED,
            Cause::Wave(failure) => return failure.inactive_code(),
            Cause::Context(ContextError::Wave(failure))
                if failure.vm_fault().is_some() || failure.class() == FailureClass::Poison =>
            {
                return None;
            }
            Cause::Context(ContextError::Stack(_)) => return None,
            Cause::Context(_) => inactive::PREEMPTION,
        })
    }

    /// Returns the KFD exception code of the `CP_BAD_OPCODE` interrupt; `None` if the cause is not a bad packet.
    #[must_use]
    pub fn exception_code(&self) -> Option<u32> {
        Some(match self {
            Cause::Memory { .. } | Cause::Wave(_) | Cause::Earlier(_) => return None,
            Cause::Context(_) => ec::QUEUE_PREEMPTION_ERROR,
            Cause::PacketType(_) | Cause::Ring(_) | Cause::WritePointer { .. } => {
                ec::QUEUE_PACKET_UNSUPPORTED
            }
            Cause::VendorFormat(_) | Cause::Pm4(_) | Cause::BarrierCondition(_) | Cause::PacketLength => {
                ec::QUEUE_PACKET_VENDOR_UNSUPPORTED
            }
            Cause::Dimensions { .. } => ec::QUEUE_PACKET_DISPATCH_DIM_INVALID,
            Cause::WorkgroupSize(_) => ec::QUEUE_PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID,
            Cause::GroupSegment(_) => ec::QUEUE_PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID,
            Cause::KernelObject { .. } => ec::QUEUE_PACKET_DISPATCH_CODE_INVALID,
            Cause::Registers(_)
            | Cause::Occupancy { .. }
            | Cause::ComputeUnits
            | Cause::Scratch(_)
            | Cause::ScratchAnswer { .. } => ec::QUEUE_PACKET_DISPATCH_REGISTER_INVALID,
        })
    }

    /// Returns the fault of an access by the packet processor itself, after which the packet can be executed, or the
    /// context restored, once more.
    pub(super) fn own_fault(&self) -> Option<Fault> {
        match self {
            Cause::Context(ContextError::Stack(fault)) => Some(*fault),
            Cause::Context(ContextError::Wave(failure)) => failure.vm_fault(),
            Cause::Memory { fault, .. }
            | Cause::KernelObject {
                reason: KernelError::Unreadable(fault) | KernelError::Entry(fault),
                ..
            } => Some(*fault),
            _ => None,
        }
    }

    /// Returns the translation fault that caused it, if there was one.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Cause::Memory { fault, .. } | Cause::Context(ContextError::Stack(fault)) => Some(*fault),
            Cause::Wave(failure) | Cause::Context(ContextError::Wave(failure)) => failure.vm_fault(),
            _ => None,
        }
    }
}
