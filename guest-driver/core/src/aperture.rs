//! Apertures of a process (`kfd_flat_memory.c`, gfx9 and later).

use belfry_abi::kfd::aperture::{
    APERTURE_LIMIT_MASK, GPUVM_BASE, GPUVM_LIMIT, LDS_BASE_V9, ProcessDeviceApertures, SCRATCH_BASE_V9,
};

/// Returns the apertures of the GPU `gpu_id`, the same in every process.
pub(crate) fn apertures(gpu_id: u16) -> ProcessDeviceApertures {
    ProcessDeviceApertures {
        lds_base: LDS_BASE_V9,
        lds_limit: LDS_BASE_V9 | APERTURE_LIMIT_MASK,
        scratch_base: SCRATCH_BASE_V9,
        scratch_limit: SCRATCH_BASE_V9 | APERTURE_LIMIT_MASK,
        gpuvm_base: GPUVM_BASE,
        gpuvm_limit: GPUVM_LIMIT,
        gpu_id: u32::from(gpu_id),
        pad: 0,
    }
}
