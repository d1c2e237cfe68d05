//! What a kernel descriptor may ask for.

use belfry_abi::kernel_descriptor::KernelDescriptor;

/// How a chip reads kernel descriptors.
#[derive(Clone, Copy, Debug)]
pub struct KernelRules {
    /// User SGPRs a compute wave can have, `COMPUTE_PGM_RSRC2.USER_SGPR`.
    pub max_user_sgprs: usize,
    /// Checks what a descriptor must leave alone; the error names the field.
    pub check: fn(&KernelDescriptor) -> Result<(), String>,
    /// Vector registers a lane has to itself, and those that the halves of a wave share; too many are the error.
    pub vgprs: fn(&KernelDescriptor) -> Result<(u16, u16), u32>,
    /// `MODE` register at the start of a wave.
    pub mode: fn(&KernelDescriptor) -> u32,
}
