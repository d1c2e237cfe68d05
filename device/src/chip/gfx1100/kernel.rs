//! Limits of a kernel descriptor on gfx11.

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::pm4::ComputeRegister;
use belfry_isa::wave::MAX_VGPRS;

use crate::chip::navi::{self, Field, Owner, Register};
use crate::chip::{DescriptorError, KernelRules};

pub(in crate::chip) const RULES: KernelRules = KernelRules {
    max_user_sgprs: 16,
    workgroup_id_sgprs: true,
    allocates_sgprs: false,
    preloads_arguments: false,
    dynamic_vgprs: false,
    has_wave32: true,
    rsrc3: ComputeRegister::PGM_RSRC3,
    check,
    vgprs,
    accum_offset: |_| 0,
    mode,
};

/// Vector registers in a unit of `SHARED_VGPR_COUNT`.
const SHARED_GRANULE: u32 = 8;

/// Fields that a descriptor leaves 0, beside those of all Navi chips.
const ZERO: &[Field] = &[
    (Register::Rsrc2, 1 << 6, "ENABLE_TRAP_HANDLER", Owner::PacketProcessor),
    (Register::Rsrc3, 1 << 10, "TRAP_ON_START", Owner::PacketProcessor),
    (Register::Rsrc3, 1 << 11, "TRAP_ON_END", Owner::PacketProcessor),
    (Register::Rsrc3, 0x7_ffff << 12, "bits 30:12", Owner::Reserved),
];

/// Checks the fields that a descriptor must leave 0.
fn check(descriptor: &KernelDescriptor) -> Result<(), DescriptorError> {
    navi::check(descriptor, ZERO)?;
    let shared = descriptor.compute_pgm_rsrc3.shared_vgpr_count();
    if shared != 0 && descriptor.kernel_code_properties.enable_wavefront_size32() {
        return Err(DescriptorError::SharedInWave32(shared));
    }
    Ok(())
}

/// Vector registers that a lane has to itself, and those that the halves of a wave share.
fn vgprs(descriptor: &KernelDescriptor) -> Result<(u16, u16), u32> {
    let shared = descriptor.compute_pgm_rsrc3.shared_vgpr_count() * SHARED_GRANULE;
    let own = navi::vgprs(descriptor);
    if own + shared > u32::from(MAX_VGPRS) {
        return Err(own + shared);
    }
    // Both are at most 256.
    Ok((own as u16, shared as u16))
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
    use belfry_abi::kernel_descriptor::{ComputePgmRsrc1, ComputePgmRsrc3, KernelCodeProperties};
    use zerocopy::FromZeros;

    use super::*;
    use crate::chip::navi::tests_of_descriptors::{assert_documented, with};

    #[test]
    fn every_bit_is_documented_and_refused_where_the_table_says_so() {
        assert_documented("gfx1100", check);
    }

    #[test]
    fn reserved_bytes_and_undefined_values_are_refused() {
        let mut descriptor = KernelDescriptor::new_zeroed();
        descriptor.reserved1[19] = 1;
        assert_eq!(check(&descriptor), Err(DescriptorError::ReservedBytes));
        assert_eq!(check(&with(Register::Rsrc2, 3 << 11)), Err(DescriptorError::WorkitemIds));
    }

    #[test]
    fn shared_registers_are_of_a_wave64_and_at_most_256_with_the_others() {
        let mut descriptor = with(Register::Rsrc1, 33);
        descriptor.compute_pgm_rsrc3 = ComputePgmRsrc3::from_bits(15);
        assert_eq!(vgprs(&descriptor), Ok((136, 120)));
        assert_eq!(check(&descriptor), Ok(()));
        descriptor.compute_pgm_rsrc1 = ComputePgmRsrc1::from_bits(34);
        assert_eq!(vgprs(&descriptor), Err(260));
        descriptor.kernel_code_properties = KernelCodeProperties::from_bits(1 << 10);
        assert_eq!(check(&descriptor), Err(DescriptorError::SharedInWave32(15)));
        let plain = with(Register::Properties, 1 << 10);
        assert_eq!(vgprs(&plain), Ok((8, 0)));
    }
}
