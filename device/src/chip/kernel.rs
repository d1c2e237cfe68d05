//! Demands of a kernel descriptor, and the limits of a chip.

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::pm4::ComputeRegister;

/// Reasons for refusing a kernel descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// A reserved byte is not 0.
    #[error("reserved bytes of the kernel descriptor are not zero")]
    ReservedBytes,
    /// A field that a kernel of this chip leaves 0 is not 0.
    #[error("{register} {value:#x} sets {field}: {reason}")]
    Field {
        /// The register, or the word of the descriptor.
        register: &'static str,
        /// The register's value.
        value: u32,
        /// The field.
        field: &'static str,
        /// Reason why a kernel leaves it 0.
        reason: &'static str,
    },
    /// `ENABLE_VGPR_WORKITEM_ID` has its undefined value.
    #[error("ENABLE_VGPR_WORKITEM_ID 3 is not defined")]
    WorkitemIds,
    /// Registers shared by halves, which a wave32 does not have.
    #[error("SHARED_VGPR_COUNT {0} in wave32: only the halves of a wave64 share registers")]
    SharedInWave32(u32),
    /// Registers that waves allocate while they run, which waves of 64 lanes do not.
    #[error("ENABLE_DYNAMIC_VGPR in wave64: only waves of 32 lanes allocate registers while they run")]
    DynamicInWave64,
}

/// Rules by which a chip reads kernel descriptors.
#[derive(Clone, Copy, Debug)]
pub struct KernelRules {
    /// User SGPRs a compute wave can have, `COMPUTE_PGM_RSRC2.USER_SGPR`.
    pub max_user_sgprs: usize,
    /// The workgroup's identifier is in scalar registers, if the descriptor asks for it. Otherwise it is in the trap temporaries
    /// of every wave.
    pub workgroup_id_sgprs: bool,
    /// Kernel arguments are preloaded into user SGPRs, if the descriptor asks for them.
    pub preloads_arguments: bool,
    /// Waves have as many scalar registers as the descriptor says; elsewhere every wave has all of them.
    pub allocates_sgprs: bool,
    /// Waves of 32 lanes allocate vector registers while they run, if the descriptor asks for it (`ENABLE_DYNAMIC_VGPR`).
    pub dynamic_vgprs: bool,
    /// A wave can have 32 lanes.
    pub has_wave32: bool,
    /// Register of packets that stands for `COMPUTE_PGM_RSRC3`.
    pub rsrc3: ComputeRegister,
    /// Checks the fields that a descriptor must leave 0.
    pub check: fn(&KernelDescriptor) -> Result<(), DescriptorError>,
    /// Vector registers that a lane has to itself, and those that the halves of a wave share. If there are
    /// too many, their number is the error.
    pub vgprs: fn(&KernelDescriptor) -> Result<(u16, u16), u32>,
    /// The first of the vector registers that matrices accumulate in, on chips that number them apart.
    pub accum_offset: fn(&KernelDescriptor) -> u16,
    /// `MODE` register at the start of a wave.
    pub mode: fn(&KernelDescriptor) -> u32,
}
