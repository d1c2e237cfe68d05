//! Limits of a kernel descriptor on gfx942.

use belfry_abi::kernel_descriptor::{ComputePgmRsrc3Gfx90a, KernelDescriptor};
use belfry_abi::pm4::ComputeRegister;

use crate::chip::navi::{self, Field, Owner, Register};
use crate::chip::{DescriptorError, KernelRules};

pub(in crate::chip) const RULES: KernelRules = KernelRules {
    max_user_sgprs: 16,
    workgroup_id_sgprs: true,
    allocates_sgprs: true,
    preloads_arguments: true,
    dynamic_vgprs: false,
    has_wave32: false,
    // `regCOMPUTE_PGM_RSRC3` of linux `gc_9_4_3_offset.h`.
    rsrc3: ComputeRegister(0x22d),
    check,
    vgprs,
    accum_offset,
    mode,
};

/// Rows of vector registers in a unit of `GRANULATED_WORKITEM_VGPR_COUNT`.
const GRANULE: u32 = 8;
/// Most registers of a lane, including those that matrices accumulate in.
const MOST: u32 = 512;

/// Fields that a descriptor leaves 0.
const ZERO: &[Field] = &[
    (Register::Rsrc1, 0b11 << 10, "PRIORITY", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 20, "PRIV", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 22, "DEBUG_MODE", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 24, "BULKY", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 25, "CDBG_USER", Owner::PacketProcessor),
    (Register::Rsrc1, 0b1_1111 << 27, "bits 31:27", Owner::Reserved),
    (Register::Rsrc2, 1 << 6, "ENABLE_TRAP_HANDLER", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 13, "ENABLE_EXCEPTION_ADDRESS_WATCH", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 14, "ENABLE_EXCEPTION_MEMORY", Owner::PacketProcessor),
    (Register::Rsrc2, 0x1ff << 15, "GRANULATED_LDS_SIZE", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 31, "bit 31", Owner::Reserved),
    (Register::Rsrc3, 0x3ff << 6, "bits 15:6", Owner::Reserved),
    (Register::Rsrc3, 0x7fff << 17, "bits 31:17", Owner::Reserved),
    (Register::Properties, 1, "ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER", Owner::FlatScratch),
    (Register::Properties, 1 << 5, "ENABLE_SGPR_FLAT_SCRATCH_INIT", Owner::FlatScratch),
    (Register::Properties, 0b111 << 7, "bits 9:7", Owner::Reserved),
    (Register::Properties, 1 << 10, "ENABLE_WAVEFRONT_SIZE32", Owner::Wave64),
    (Register::Properties, 0b1111 << 12, "bits 15:12", Owner::Reserved),
];

/// Checks the fields that a descriptor must leave 0.
fn check(descriptor: &KernelDescriptor) -> Result<(), DescriptorError> {
    navi::check_fields(descriptor, &[ZERO])
}

/// Vector registers of a lane; no halves share any.
fn vgprs(descriptor: &KernelDescriptor) -> Result<(u16, u16), u32> {
    let own = (descriptor.compute_pgm_rsrc1.granulated_workitem_vgpr_count() + 1) * GRANULE;
    // At most 512.
    if own > MOST { Err(own) } else { Ok((own as u16, 0)) }
}

/// The first register that matrices accumulate in.
fn accum_offset(descriptor: &KernelDescriptor) -> u16 {
    let rsrc3 = ComputePgmRsrc3Gfx90a::from_bits(descriptor.compute_pgm_rsrc3.bits());
    // At most 256.
    ((rsrc3.accum_offset() + 1) * 4) as u16
}

/// `MODE` register at the start, from `COMPUTE_PGM_RSRC1` and the exceptions of `COMPUTE_PGM_RSRC2`.
fn mode(descriptor: &KernelDescriptor) -> u32 {
    let rsrc1 = descriptor.compute_pgm_rsrc1;
    rsrc1.float_mode()
        | u32::from(rsrc1.enable_dx10_clamp()) << 8
        | u32::from(rsrc1.enable_ieee_mode()) << 9
        | descriptor.compute_pgm_rsrc2.enable_exceptions() << 12
        | u32::from(rsrc1.fp16_ovfl()) << 23
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::navi::tests_of_descriptors::{assert_documented, with};

    #[test]
    fn every_bit_is_documented_and_refused_where_the_table_says_so() {
        assert_documented("gfx942", check);
    }

    #[test]
    fn registers_are_those_of_vectors_and_of_matrices_together() {
        assert_eq!(vgprs(&with(Register::Rsrc1, 33)), Ok((272, 0)));
        assert_eq!(vgprs(&with(Register::Rsrc1, 63)), Ok((512, 0)));
        assert_eq!(accum_offset(&with(Register::Rsrc3, 31)), 128);
        assert_eq!(mode(&with(Register::Rsrc1, 0xf0 << 12 | 1 << 21 | 1 << 26)), 0xf0 | 1 << 8 | 1 << 23);
    }
}
