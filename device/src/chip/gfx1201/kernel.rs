//! Limits of a kernel descriptor on gfx12.

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::pm4::ComputeRegister;
use belfry_isa::wave::{MAX_VGPRS, VGPR_BLOCK};

use crate::chip::navi::{self, Field, Owner, Register};
use crate::chip::{DescriptorError, KernelRules};

pub(super) const RULES: KernelRules = KernelRules {
    max_user_sgprs: 16,
    workgroup_id_sgprs: false,
    allocates_sgprs: false,
    preloads_arguments: false,
    dynamic_vgprs: true,
    has_wave32: true,
    rsrc3: ComputeRegister::PGM_RSRC3,
    check,
    vgprs,
    accum_offset: |_| 0,
    mode,
};

/// Fields that a descriptor leaves 0, beside those of all Navi chips.
const ZERO: &[Field] = &[
    (Register::Rsrc3, 0xf, "bits 3:0", Owner::Reserved),
    (Register::Rsrc3, 1 << 12, "bit 12", Owner::Reserved),
    (Register::Rsrc3, 0x1_ffff << 14, "bits 30:14", Owner::Reserved),
];

/// Checks the fields that a descriptor must leave 0.
fn check(descriptor: &KernelDescriptor) -> Result<(), DescriptorError> {
    navi::check(descriptor, ZERO)?;
    let wave64 = !descriptor.kernel_code_properties.enable_wavefront_size32();
    if descriptor.compute_pgm_rsrc2.enable_dynamic_vgpr() && wave64 {
        return Err(DescriptorError::DynamicInWave64);
    }
    Ok(())
}

/// Vector registers of a lane; the halves of a wave share none. A wave that allocates them while it runs
/// begins with one block, and the descriptor's number does not count.
fn vgprs(descriptor: &KernelDescriptor) -> Result<(u16, u16), u32> {
    if descriptor.compute_pgm_rsrc2.enable_dynamic_vgpr() {
        return Ok((VGPR_BLOCK, 0));
    }
    let own = navi::vgprs(descriptor);
    // At most 256.
    if own > u32::from(MAX_VGPRS) { Err(own) } else { Ok((own as u16, 0)) }
}

/// `MODE` register at the start, from `COMPUTE_PGM_RSRC1`. The exceptions of `COMPUTE_PGM_RSRC2` are in
/// `TRAP_CTRL`; the engine keeps them in the bits that other generations have in `MODE`.
fn mode(descriptor: &KernelDescriptor) -> u32 {
    let rsrc1 = descriptor.compute_pgm_rsrc1;
    rsrc1.float_mode()
        | descriptor.compute_pgm_rsrc2.enable_exceptions() << 12
        | u32::from(rsrc1.fp16_ovfl()) << 23
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::navi::tests_of_descriptors::{assert_documented, with};

    #[test]
    fn every_bit_is_documented_and_refused_where_the_table_says_so() {
        assert_documented("gfx1201", check);
    }

    #[test]
    fn only_waves_of_32_lanes_allocate_registers() {
        let mut descriptor = with(Register::Rsrc2, 1 << 6);
        assert_eq!(check(&descriptor), Err(DescriptorError::DynamicInWave64));
        descriptor.kernel_code_properties.set_enable_wavefront_size32(true);
        assert_eq!(check(&descriptor), Ok(()));
    }

    #[test]
    fn registers_are_counted_in_granules_of_the_wave() {
        assert_eq!(vgprs(&with(Register::Rsrc1, 33)), Ok((136, 0)));
        assert_eq!(vgprs(&with(Register::Properties, 1 << 10)), Ok((8, 0)));
        assert_eq!(vgprs(&with(Register::Rsrc2, 1 << 6)), Ok((16, 0)), "a block");
        assert_eq!(mode(&with(Register::Rsrc1, 0xf0 << 12 | 1 << 21 | 1 << 26)), 0xf0 | 1 << 23);
    }
}
