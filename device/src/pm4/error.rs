//! Reasons that a packet is refused.

use belfry_abi::pm4::Opcode;

use crate::guest_error::GuestError;
use crate::vm::Fault;

/// Reason that a packet is refused. Nothing of the packet was executed, except the part before an address that does not
/// translate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A header of a type that is not one of a packet.
    #[error("PM4 header {0:#010x} is not of type 3")]
    Type(u32),
    /// An operation that does not exist, or that this stream does not take.
    #[error("PM4 operation {} is not modelled", name(*.0))]
    Operation(Opcode),
    /// A packet that depends on a condition of graphics.
    #[error("{} with a predicate: queues of compute have none, COND_EXEC is theirs", name(*.0))]
    Predicate(Opcode),
    /// An event that writes counters.
    #[error("EVENT_WRITE of event {event:#x} to memory is not modelled: no counters are behind it")]
    CounterEvent {
        /// `VGT_EVENT_TYPE`.
        event: u8,
    },
    /// A body that is too short or too long for the operation.
    #[error("{} has {dwords} body dwords", name(*.opcode))]
    Length {
        /// The operation.
        opcode: Opcode,
        /// Dwords of the body.
        dwords: usize,
    },
    /// More dwords than are left in the buffer.
    #[error("{} has {body} dwords with {left} left", name(*.opcode))]
    Overrun {
        /// The operation.
        opcode: Opcode,
        /// Dwords of the body, by the header.
        body: u32,
        /// Dwords left in the buffer.
        left: u32,
    },
    /// A selector whose value is not modelled.
    #[error("{what} {value} is not modelled")]
    Selector {
        /// The packet and its field.
        what: &'static str,
        /// The field's value.
        value: u8,
    },
    /// Registers, in a stream that has none.
    #[error("{0} of a register is not modelled in this buffer")]
    Registers(&'static str),
    /// A register that packets of this queue may not touch, or that is not modelled.
    #[error("{packet} of register {index:#x} is not modelled: {}", reach(*.index))]
    Register {
        /// The packet.
        packet: &'static str,
        /// Absolute dword index.
        index: u32,
    },
    /// A field whose value is not modelled.
    #[error("{what} {value:#x} is not modelled")]
    Field {
        /// The packet and its field.
        what: &'static str,
        /// The field's value.
        value: u32,
    },
    /// More dwords to skip than are left in the buffer.
    #[error("COND_EXEC skips {dwords} dwords with {left} left")]
    Skip {
        /// Dwords to skip.
        dwords: u32,
        /// Dwords left in the buffer.
        left: u32,
    },
    /// A comparison that does not exist.
    #[error("WAIT_REG_MEM function {0} does not exist")]
    Function(u8),
    /// Memory that does not translate.
    #[error("{what} cannot access memory: {fault}")]
    Memory {
        /// The packet that accesses it.
        what: &'static str,
        /// The fault.
        fault: Fault,
    },
    /// A header that should be that of an INDIRECT_BUFFER.
    #[error("{0:#010x} is not an INDIRECT_BUFFER")]
    NotABuffer(u32),
    /// An indirect buffer that is not marked as valid.
    #[error("INDIRECT_BUFFER without VALID")]
    InvalidBuffer,
    /// Indirect buffers nested too deeply.
    #[error("INDIRECT_BUFFER nested more than {0} deep")]
    Nesting(usize),
    /// A packet of the queue manager that asks for an operation it does not have.
    #[error("{0}")]
    Refused(GuestError),
}

/// Returns the name of an operation, or its number.
fn name(opcode: Opcode) -> String {
    opcode.name().map_or_else(|| format!("{:#04x}", opcode.0), str::to_owned)
}

/// Returns the reason that packets do not reach a register, by the space it is in (linux `nvd.h`,
/// `PACKET3_SET_*_REG_START` and `_END`; the counters are the `*_PERFCOUNTER*` of linux `gc_11_0_0_offset.h`).
fn reach(index: u32) -> &'static str {
    match index {
        0x2c00..0x3000 => "it is no register of compute",
        0xa000..0xb000 => "it is one of graphics",
        0xc000..0xd000 => "no user configuration register of that number has an effect here",
        0xd000..0xe000 => "there are no performance counters",
        _ => "it is privileged, and no packet of a user queue reaches it",
    }
}

impl Error {
    /// Returns the kind of error, by which it is counted.
    pub(crate) fn kind(&self) -> GuestError {
        match self {
            Self::Type(_) => GuestError::Pm4Type,
            Self::Operation(_) => GuestError::Pm4Opcode,
            Self::Predicate(_) | Self::CounterEvent { .. } => GuestError::Pm4Unmodelled,
            Self::Length { .. } | Self::Overrun { .. } | Self::Skip { .. } => GuestError::Pm4Length,
            Self::Selector { .. } | Self::Registers(_) | Self::Register { .. } | Self::Field { .. } => {
                GuestError::Pm4Unmodelled
            }
            Self::Function(_) => GuestError::WaitFunction,
            Self::Memory { .. } => GuestError::Pm4Unmapped,
            Self::NotABuffer(_) | Self::InvalidBuffer | Self::Nesting(_) => GuestError::Pm4Buffer,
            Self::Refused(why) => *why,
        }
    }
}
