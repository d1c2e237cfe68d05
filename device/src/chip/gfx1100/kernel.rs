//! What a kernel descriptor may ask for on gfx11.
//!
//! Source: LLVM AMDGPUUsage, "Kernel Descriptor". `docs/kernel-descriptor.md` has a row for each field.

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_isa::wave::MAX_VGPRS;

use crate::chip::{DescriptorError, KernelRules};

pub(super) const RULES: KernelRules = KernelRules { max_user_sgprs: 16, check, vgprs, mode };

/// Vector registers in a unit of `SHARED_VGPR_COUNT`.
const SHARED_GRANULE: u32 = 8;

/// Where a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Rsrc1,
    Rsrc2,
    Rsrc3,
    Properties,
    KernargPreload,
}

/// The owner of a field that a kernel does not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The packet processor fills it in.
    PacketProcessor,
    /// None: gfx11 has architected flat scratch.
    FlatScratch,
    /// None: gfx11 does not preload kernel arguments.
    NoPreload,
    /// Graphics pipelines.
    Graphics,
    /// None.
    Reserved,
}

/// Fields that a descriptor leaves 0.
const ZERO: &[(Register, u32, &str, Owner)] = &[
    (Register::Rsrc1, 0b11 << 10, "PRIORITY", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 20, "PRIV", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 22, "DEBUG_MODE", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 24, "BULKY", Owner::PacketProcessor),
    (Register::Rsrc1, 1 << 25, "CDBG_USER", Owner::PacketProcessor),
    (Register::Rsrc1, 0b11 << 27, "bits 28:27", Owner::Reserved),
    (Register::Rsrc2, 1 << 6, "ENABLE_TRAP_HANDLER", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 13, "ENABLE_EXCEPTION_ADDRESS_WATCH", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 14, "ENABLE_EXCEPTION_MEMORY", Owner::PacketProcessor),
    (Register::Rsrc2, 0x1ff << 15, "GRANULATED_LDS_SIZE", Owner::PacketProcessor),
    (Register::Rsrc2, 1 << 31, "bit 31", Owner::Reserved),
    (Register::Rsrc3, 1 << 10, "TRAP_ON_START", Owner::PacketProcessor),
    (Register::Rsrc3, 1 << 11, "TRAP_ON_END", Owner::PacketProcessor),
    (Register::Rsrc3, 0x7_ffff << 12, "bits 30:12", Owner::Reserved),
    (Register::Rsrc3, 1 << 31, "IMAGE_OP", Owner::Graphics),
    (Register::Properties, 1, "ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER", Owner::FlatScratch),
    (Register::Properties, 1 << 5, "ENABLE_SGPR_FLAT_SCRATCH_INIT", Owner::FlatScratch),
    (Register::Properties, 0b111 << 7, "bits 9:7", Owner::Reserved),
    (Register::Properties, 0b1111 << 12, "bits 15:12", Owner::Reserved),
    (Register::KernargPreload, 0x7f, "KERNARG_PRELOAD_SPEC_LENGTH", Owner::NoPreload),
    (Register::KernargPreload, 0x1ff << 7, "KERNARG_PRELOAD_SPEC_OFFSET", Owner::NoPreload),
];

impl Register {
    fn of(self, descriptor: &KernelDescriptor) -> u32 {
        match self {
            Register::Rsrc1 => descriptor.compute_pgm_rsrc1.bits(),
            Register::Rsrc2 => descriptor.compute_pgm_rsrc2.bits(),
            Register::Rsrc3 => descriptor.compute_pgm_rsrc3.bits(),
            Register::Properties => descriptor.kernel_code_properties.bits().into(),
            Register::KernargPreload => descriptor.kernarg_preload.into(),
        }
    }

    fn name(self) -> &'static str {
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
            Owner::FlatScratch => "gfx11 has architected flat scratch and leaves it 0",
            Owner::NoPreload => "reserved on gfx11, which does not preload kernel arguments",
            Owner::Graphics => "compute kernels leave it 0",
            Owner::Reserved => "reserved",
        }
    }
}

/// Checks what a descriptor must leave alone.
fn check(descriptor: &KernelDescriptor) -> Result<(), DescriptorError> {
    let bytes = [&descriptor.reserved0[..], &descriptor.reserved1, &descriptor.reserved3];
    if bytes.concat().iter().any(|&byte| byte != 0) {
        return Err(DescriptorError::ReservedBytes);
    }
    for &(register, mask, field, owner) in ZERO {
        let value = register.of(descriptor);
        if value & mask != 0 {
            let (register, reason) = (register.name(), owner.reason());
            return Err(DescriptorError::Field { register, value, field, reason });
        }
    }
    if descriptor.compute_pgm_rsrc2.enable_vgpr_workitem_id() == 3 {
        return Err(DescriptorError::WorkitemIds);
    }
    let properties = descriptor.kernel_code_properties;
    let shared = descriptor.compute_pgm_rsrc3.shared_vgpr_count();
    if shared != 0 && properties.enable_wavefront_size32() {
        return Err(DescriptorError::SharedInWave32(shared));
    }
    Ok(())
}

/// Vector registers a lane has to itself, and those that the halves of a wave share.
fn vgprs(descriptor: &KernelDescriptor) -> Result<(u16, u16), u32> {
    let granule = if descriptor.kernel_code_properties.enable_wavefront_size32() { 8 } else { 4 };
    let own = (descriptor.compute_pgm_rsrc1.granulated_workitem_vgpr_count() + 1) * granule;
    let shared = descriptor.compute_pgm_rsrc3.shared_vgpr_count() * SHARED_GRANULE;
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
    use belfry_abi::kernel_descriptor::{
        ComputePgmRsrc1, ComputePgmRsrc2, ComputePgmRsrc3, KernelCodeProperties,
    };
    use zerocopy::FromZeros;

    use super::*;

    const TABLE: &str = include_str!("../../../../docs/kernel-descriptor.md");

    /// Rows of the documented table: register, first and last bit, field, what is done.
    fn rows() -> Vec<(String, u32, u32, String, String)> {
        let rows = TABLE.lines().filter(|line| line.starts_with("| `"));
        rows.map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let bits: Vec<u32> = cells[1].split(':').map(|bit| bit.parse().expect("a bit")).collect();
            let (last, first) = (bits[0], *bits.last().expect("one"));
            let name = |cell: &str| cell.trim_matches('`').to_owned();
            (name(cells[0]), first, last, name(cells[2]), cells[3].to_owned())
        })
        .collect()
    }

    fn with(register: Register, value: u32) -> KernelDescriptor {
        let mut descriptor = KernelDescriptor::new_zeroed();
        match register {
            Register::Rsrc1 => descriptor.compute_pgm_rsrc1 = ComputePgmRsrc1::from_bits(value),
            Register::Rsrc2 => descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(value),
            Register::Rsrc3 => descriptor.compute_pgm_rsrc3 = ComputePgmRsrc3::from_bits(value),
            Register::Properties => {
                descriptor.kernel_code_properties = KernelCodeProperties::from_bits(value as u16);
            }
            Register::KernargPreload => descriptor.kernarg_preload = value as u16,
        }
        descriptor
    }

    #[test]
    fn every_bit_is_documented_and_refused_where_the_table_says_so() {
        let rows = rows();
        for (register, width) in [
            (Register::Rsrc1, 32),
            (Register::Rsrc2, 32),
            (Register::Rsrc3, 32),
            (Register::Properties, 16),
            (Register::KernargPreload, 16),
        ] {
            let rows: Vec<_> = rows.iter().filter(|row| row.0 == register.name()).collect();
            for bit in 0..width {
                let row: Vec<_> = rows.iter().filter(|row| (row.1..=row.2).contains(&bit)).collect();
                assert_eq!(row.len(), 1, "{} bit {bit}", register.name());
                let (_, _, _, field, what) = row[0];
                let result = check(&with(register, 1 << bit));
                assert_eq!(result.is_err(), what.starts_with("Refused"), "{field} bit {bit}: {result:?}");
                match result {
                    Err(DescriptorError::Field { field: named, .. }) => assert_eq!(named, field),
                    Err(error) => assert!(error.to_string().contains(field.as_str()), "{field}: {error}"),
                    Ok(()) => {}
                }
            }
        }
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
