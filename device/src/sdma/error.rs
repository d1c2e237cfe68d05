//! Reasons that a queue of a copy engine stopped.

use belfry_abi::sdma::{Header, Op, copy_sub_op};

use crate::vm::Fault;

/// A queue that cannot go on: the packet and the reason. Other queues are not affected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("packet at byte {packet} of the ring: {error}")]
pub struct SdmaStopped {
    /// Read pointer: at the packet, or after the packet that led into the buffer that holds it.
    pub packet: u64,
    /// The reason.
    pub error: SdmaError,
}

/// A packet that is malformed, or asks for an operation that is not modelled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SdmaError {
    /// An operation that does not exist, or is not modelled.
    #[error("{} is not modelled{}", name(*.0), why(*.0))]
    Operation(Header),
    /// A packet that is longer than the ring or the buffer it is in.
    #[error("{} of {dwords} dwords in a ring or buffer with {left}", name(*.header))]
    Overrun {
        /// First dword of the packet.
        header: Header,
        /// Its length.
        dwords: u32,
        /// Dwords of the ring, or left in the buffer.
        left: u64,
    },
    /// A field whose value is not modelled.
    #[error("{what} {value:#x} is not modelled")]
    Field {
        /// The packet and its field.
        what: &'static str,
        /// The field's value.
        value: u32,
    },
    /// A register; queues of programs reach none.
    #[error("{0} of a register is not modelled")]
    Register(&'static str),
    /// More dwords to skip than there are.
    #[error("COND_EXE skips {dwords} dwords with {left} left")]
    Skip {
        /// Dwords to skip.
        dwords: u32,
        /// Dwords of the ring, or left in the buffer.
        left: u64,
    },
    /// A comparison that does not exist.
    #[error("POLL_REGMEM function {0} does not exist")]
    Function(u8),
    /// An indirect buffer in another one.
    #[error("INDIRECT in an indirect buffer")]
    Nesting,
    /// A write pointer more than a ring ahead of the read pointer.
    #[error("the write pointer is {ahead} bytes ahead in a ring of {ring}")]
    WritePointer {
        /// Bytes between the pointers.
        ahead: u64,
        /// Bytes of the ring.
        ring: u64,
    },
    /// Memory that does not translate.
    #[error("{what} cannot access memory: {fault}")]
    Memory {
        /// Name of the memory that was accessed, or of the packet that accessed it.
        what: &'static str,
        /// The fault.
        fault: Fault,
    },
}

/// Returns the name of a packet, or its number; with its kind if that is not 0.
fn name(header: Header) -> String {
    let op = Op(header.op());
    let name = op.name().map_or_else(|| format!("operation {:#04x}", op.0), str::to_owned);
    match (op, header.sub_op()) {
        (_, 0) => name,
        (Op::COPY, kind) if let Some(kind) = copy_sub_op::name(kind) => format!("{name} of kind {kind}"),
        (_, kind) => format!("{name} of kind {kind}"),
    }
}

/// Returns the reason that a packet is not modelled, if there is one to give.
fn why(header: Header) -> &'static str {
    match (Op(header.op()), header.sub_op()) {
        (Op::COPY, copy_sub_op::TILED | copy_sub_op::TILED_SUB_WIND | copy_sub_op::T2T_SUB_WIND) => {
            ": images are linear here, tiles have no layout"
        }
        (Op::COPY, copy_sub_op::LINEAR_PHY | copy_sub_op::DIRTY_PAGE) => ": only the kernel may name pages",
        (Op::PTEPDE | Op::GPUVM_INV | Op::SRBM_WRITE | Op::PRE_EXE | Op::DUMMY_TRAP, _) => {
            ": it is for the kernel's rings"
        }
        _ => "",
    }
}

impl SdmaError {
    /// Returns the translation fault that caused it, if there was one.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Memory { fault, .. } => Some(*fault),
            _ => None,
        }
    }
}

/// Turns a fault into the error of this packet.
pub(super) fn memory(what: &'static str) -> impl FnOnce(Fault) -> SdmaError {
    move |fault| SdmaError::Memory { what, fault }
}
