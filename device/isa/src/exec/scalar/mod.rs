//! The scalar ALU: scalar registers, EXEC, program control, hardware registers.

pub(crate) mod control;
pub(crate) mod exec_mask;
pub(crate) mod hwreg;
pub(crate) mod sop;
