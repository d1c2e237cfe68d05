//! Faults of waves.

use crate::inst::Op;
use crate::mem::Fault;

/// A fault, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("wave fault at {pc:#x}: {kind}")]
pub struct WaveFault {
    /// Address of the instruction.
    pub pc: u64,
    /// Cause of the fault.
    pub kind: FaultCause,
}

/// Cause of a fault of a wave.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultCause {
    /// A memory access, or the fetch of the instruction itself.
    #[error("{fault} (lanes {lanes:#x})")]
    Memory {
        /// The access of the first lane that failed.
        fault: Fault,
        /// Lanes that failed; 0 for scalar accesses and instruction fetch.
        lanes: u64,
    },
    /// The bytes are not an instruction.
    #[error("illegal instruction {bytes:02x?}: {text}")]
    IllegalInstruction {
        /// The first bytes.
        bytes: Vec<u8>,
        /// The decoder's reason.
        text: String,
    },
    /// A valid instruction this engine has no semantics for.
    #[error("no semantics for `{text}` {bytes:02x?}")]
    Unimplemented {
        /// The operation.
        op: Op,
        /// Its bytes.
        bytes: Vec<u8>,
        /// Its disassembly.
        text: String,
    },
    /// An LDS atomic at an address that is no multiple of its size.
    #[error("LDS atomic of {bytes} bytes misaligned: address {address:#x} (lanes {lanes:#x})")]
    LdsMisaligned {
        /// Byte address of the first failing lane.
        address: u32,
        /// Bytes of the access.
        bytes: u32,
        /// Lanes that failed.
        lanes: u64,
    },
    /// A flat access to LDS outside the workgroup's allocation; DS instructions do not fault there.
    #[error(
        "LDS access out of range: address {address:#x} with {size:#x} bytes allocated (lanes {lanes:#x})"
    )]
    LdsOutOfRange {
        /// Byte address of the first failing lane.
        address: u32,
        /// Bytes of LDS the workgroup has.
        size: u32,
        /// Lanes that failed.
        lanes: u64,
    },
    /// An image whose descriptor has a value that is not modelled.
    #[error("image whose {what} {value} is not modelled")]
    Image {
        /// The part of the descriptor that has the value.
        what: &'static str,
        /// The value.
        value: u32,
    },
    /// A register beyond the wave's allocation.
    #[error("vector register v{register} with {allocated} allocated: `{text}`")]
    RegisterOutOfRange {
        /// Highest register named.
        register: u16,
        /// Registers the wave has.
        allocated: u16,
        /// Disassembly.
        text: String,
    },
}
