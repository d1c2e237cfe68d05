//! Apertures of a process (`kfd_flat_memory.c`, gfx9 and later).

use belfry_abi::kfd::aperture::{APERTURE_LIMIT_MASK, GPUVM_BASE, GPUVM_LIMIT, ProcessDeviceApertures};

use crate::asic::Apertures;

/// Returns the apertures of the GPU `gpu_id`, the same in every process.
pub(crate) fn apertures(gpu_id: u16, bases: &Apertures) -> ProcessDeviceApertures {
    ProcessDeviceApertures {
        lds_base: bases.lds,
        lds_limit: bases.lds | APERTURE_LIMIT_MASK,
        scratch_base: bases.scratch,
        scratch_limit: bases.scratch | APERTURE_LIMIT_MASK,
        gpuvm_base: GPUVM_BASE,
        gpuvm_limit: GPUVM_LIMIT,
        gpu_id: u32::from(gpu_id),
        pad: 0,
    }
}
