//! What is wrong with a packet.

use belfry_abi::pm4::Opcode;

use crate::guest_error::GuestError;
use crate::vm::Fault;

/// Why a packet is refused; nothing of it was executed, but for what precedes an address that does not translate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A header of a type that is no packet.
    #[error("PM4 header {0:#010x} is not of type 3")]
    Type(u32),
    /// An operation that does not exist, or that this stream does not take.
    #[error("PM4 operation {} is not modelled", name(*.0))]
    Operation(Opcode),
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
    #[error("{packet} of register {index:#x} is not modelled: this queue does not reach it")]
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
    /// Indirect buffers in each other.
    #[error("INDIRECT_BUFFER nested more than {0} deep")]
    Nesting(usize),
    /// A packet of the queue manager that asks for what it does not do.
    #[error("{0}")]
    Refused(GuestError),
}

/// Name of an operation, or its number.
fn name(opcode: Opcode) -> String {
    opcode.name().map_or_else(|| format!("{:#04x}", opcode.0), str::to_owned)
}

impl Error {
    /// Which kind of error it is, to count it by.
    pub(crate) fn kind(&self) -> GuestError {
        match self {
            Self::Type(_) => GuestError::Pm4Type,
            Self::Operation(_) => GuestError::Pm4Opcode,
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
