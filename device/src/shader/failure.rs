//! Reasons that a wave stopped before its end.

use belfry_abi::aql::inactive;
use belfry_isa::exec::{FaultCause, WaveFault};

use crate::vm::{Fault, FaultKind};

/// A wave that cannot go on, and with it its dispatch and queue.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("workgroup {workgroup:?} wave {wave}: {reason}")]
pub struct WaveFailure {
    /// Workgroup within the grid.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
    /// The reason.
    pub reason: Reason,
}

/// Reason for a wave's failure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Reason {
    /// A memory access, an illegal instruction or a register out of range.
    #[error("{0}")]
    Fault(WaveFault),
    /// `s_trap` with an identifier that needs a trap handler; none is run.
    #[error("trap {id} at {pc:#x}")]
    Trap {
        /// Trap identifier.
        id: u8,
        /// Address of the instruction after it.
        pc: u64,
    },
    /// `s_sethalt`: only a debugger could continue the wave.
    #[error("halted at {pc:#x}")]
    Halt {
        /// Address of the instruction after it.
        pc: u64,
    },
    /// A global wave sync operation on a queue that has no resources for it.
    #[error("global wave sync, which the queue was not given, at {pc:#x}")]
    NoGws {
        /// Address of the instruction after it.
        pc: u64,
    },
    /// The interpreter itself failed.
    #[error("the interpreter failed")]
    Internal,
}

/// Class of a failure, by the name that the hardware has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// An address that does not translate: the VM raises its fault.
    Translation(Fault),
    /// An address outside the LDS or scratch that a wave has.
    Aperture,
    /// Memory with an error that cannot be corrected.
    Poison,
    /// An instruction that cannot be executed.
    IllegalInstruction,
    /// A trap or a halt.
    Trap,
}

impl WaveFailure {
    /// Returns the class of the failure.
    #[must_use]
    pub fn class(&self) -> FailureClass {
        let cause = match &self.reason {
            Reason::Fault(fault) => &fault.kind,
            Reason::NoGws { .. } => return FailureClass::IllegalInstruction,
            Reason::Trap { .. } | Reason::Halt { .. } | Reason::Internal => return FailureClass::Trap,
        };
        match cause {
            FaultCause::Memory { fault, .. } if fault.kind == FaultKind::Aperture => FailureClass::Aperture,
            FaultCause::Memory { fault, .. } if fault.kind == FaultKind::Poison => FailureClass::Poison,
            FaultCause::Memory { fault, .. } => FailureClass::Translation(*fault),
            FaultCause::LdsOutOfRange { .. } | FaultCause::LdsMisaligned { .. } => FailureClass::Aperture,
            _ => FailureClass::IllegalInstruction,
        }
    }

    /// Returns the code for the queue's inactive signal; `None` for translation faults and poison, which the driver
    /// reports.
    #[must_use]
    pub fn inactive_code(&self) -> Option<u64> {
        match self.class() {
            FailureClass::Translation(_) | FailureClass::Poison => None,
            FailureClass::Aperture => Some(inactive::APERTURE_VIOLATION),
            FailureClass::IllegalInstruction => Some(inactive::ILLEGAL_INSTRUCTION),
            FailureClass::Trap => Some(inactive::TRAP),
        }
    }

    /// Returns the translation fault, if the failure was one.
    #[must_use]
    pub fn vm_fault(&self) -> Option<Fault> {
        match self.class() {
            FailureClass::Translation(fault) => Some(fault),
            _ => None,
        }
    }
}
