//! Limits of kernel descriptors on the Navi chips.
//!
//! Source: LLVM AMDGPUUsage, "Kernel Descriptor". `docs/kernel-descriptor.md` has a row for each field.

use belfry_abi::kernel_descriptor::KernelDescriptor;

use crate::chip::DescriptorError;

/// Word of the descriptor that a field is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chip) enum Register {
    Rsrc1,
    Rsrc2,
    Rsrc3,
    Properties,
    KernargPreload,
}

/// The owner of a field that a kernel does not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::chip) enum Owner {
    /// The packet processor fills it in.
    PacketProcessor,
    /// None: flat scratch is architected.
    FlatScratch,
    /// None: kernel arguments are not preloaded.
    NoPreload,
    /// None: every wave has 64 lanes.
    Wave64,
    /// Graphics pipelines.
    Graphics,
    /// None.
    Reserved,
}

/// A field that a descriptor leaves 0: its word, its bits, its name, and its owner.
pub(in crate::chip) type Field = (Register, u32, &'static str, Owner);

/// Fields that a descriptor leaves 0 on gfx11 and gfx12 alike.
const ZERO_OF_NAVI: &[Field] = &[
    (Register::Rsrc1, 0b11 << 10, "PRIORITY", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 20, "PRIV", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 22, "DEBUG_MODE", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 24, "BULKY", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 25, "CDBG_USER", Owner::PacketProcessor),
    (Register::Rsrc1, 0b11 << 27, "bits 28:27", Owner::Reserved),
    (Register::Rsrc2, 1 << 13, "ENABLE_EXCEPTION_ADDRESS_WATCH", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 14, "ENABLE_EXCEPTION_MEMORY", Owner::PacketProcessor),
    (Register::Rsrc2, 0x1ff << 15, "GRANULATED_LDS_SIZE", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 31, "bit 31", Owner::Reserved),
    (Register::Rsrc3, 1 << 31, "IMAGE_OP", Owner::Graphics),
    (Register::Properties, 1, "ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER", Owner::FlatScratch),
    (Register::Properties, 1 << 5, "ENABLE_SGPR_FLAT_SCRATCH_INIT", Owner::FlatScratch),
    (Register::Properties, 0b111 << 7, "bits 9:7", Owner::Reserved),
    (Register::Properties, 0b1111 << 12, "bits 15:12", Owner::Reserved),
    (Register::KernargPreload, 0x7f, "KERNARG_PRELOAD_SPEC_LENGTH", Owner::NoPreload),
    (Register::KernargPreload, 0x1ff << 7, "KERNARG_PRELOAD_SPEC_OFFSET", Owner::NoPreload),
];

impl Register {
    /// In the order of their numbers.
    const ALL: [Self; 5] = [Self::Rsrc1, Self::Rsrc2, Self::Rsrc3, Self::Properties, Self::KernargPreload];

    #[inline]
    fn of(self, descriptor: &KernelDescriptor) -> u32 {
        match self {
            Register::Rsrc1 => descriptor.compute_pgm_rsrc1.bits(),
            Register::Rsrc2 => descriptor.compute_pgm_rsrc2.bits(),
            Register::Rsrc3 => descriptor.compute_pgm_rsrc3.bits(),
            Register::Properties => descriptor.kernel_code_properties.bits().into(),
            Register::KernargPreload => descriptor.kernarg_preload.into(),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Register::Rsrc1 => "COMPUTE_PGM_RSRC1",
            Register::Rsrc2 => "COMPUTE_PGM_RSRC2",
            Register::Rsrc3 => "COMPUTE_PGM_RSRC3",
            Register::Properties => "kernel_code_properties",
            Register::KernargPreload => "kernarg_preload",
        }
    }
}

impl Owner {
    fn reason(self) -> &'static str {
        match self {
            Owner::PacketProcessor => "the packet processor fills it in, a descriptor leaves it 0",
            Owner::FlatScratch => "flat scratch is architected, a descriptor leaves it 0",
            Owner::NoPreload => "reserved, as kernel arguments are not preloaded",
            Owner::Wave64 => "every wave has 64 lanes",
            Owner::Graphics => "compute kernels leave it 0",
            Owner::Reserved => "reserved",
        }
    }
}

/// Checks the fields that a descriptor must leave 0: these fields and those of all Navi chips.
pub(in crate::chip) fn check(descriptor: &KernelDescriptor, fields: &[Field]) -> Result<(), DescriptorError> {
    check_fields(descriptor, &[ZERO_OF_NAVI, fields])
}

/// Checks the fields that a descriptor must leave 0: the fields of these tables, and reserved bytes.
pub(in crate::chip) fn check_fields(
    descriptor: &KernelDescriptor,
    tables: &[&[Field]],
) -> Result<(), DescriptorError> {
    let bytes = [&descriptor.reserved0[..], &descriptor.reserved1, &descriptor.reserved3];
    if bytes.into_iter().flatten().any(|&byte| byte != 0) {
        return Err(DescriptorError::ReservedBytes);
    }
    // Split into words once, as this runs for each dispatch.
    let values = Register::ALL.map(|register| register.of(descriptor));
    for &(register, mask, field, owner) in tables.iter().copied().flatten() {
        let value = values[register as usize];
        if value & mask != 0 {
            let (register, reason) = (register.name(), owner.reason());
            return Err(DescriptorError::Field { register, value, field, reason });
        }
    }
    if descriptor.compute_pgm_rsrc2.enable_vgpr_workitem_id() == 3 {
        return Err(DescriptorError::WorkitemIds);
    }
    Ok(())
}

/// Vector registers that a lane has to itself.
pub(in crate::chip) fn vgprs(descriptor: &KernelDescriptor) -> u32 {
    let granule = if descriptor.kernel_code_properties.enable_wavefront_size32() { 8 } else { 4 };
    (descriptor.compute_pgm_rsrc1.granulated_workitem_vgpr_count() + 1) * granule
}
