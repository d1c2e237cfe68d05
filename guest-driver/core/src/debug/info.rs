//! Devices as debuggers are told of them (`kfd_dbg_trap_device_snapshot`).

use belfry_abi::kfd::debug::DbgDeviceInfoEntry;

use crate::aperture::apertures;
use crate::os::{Function as _, Os};
use crate::process_device::ProcessNode;
use crate::topology;

/// Entry about a node, as a debugger is told of it.
pub(crate) fn debug_info<O: Os>(node: &ProcessNode<O>, exception_status: u64) -> DbgDeviceInfoEntry {
    let device = &node.device;
    let (info, config, asic) = (device.hw.function().device_info(), &node.config, device.hw.asic());
    let apertures = apertures(node.gpu_id, &asic.apertures);
    DbgDeviceInfoEntry {
        exception_status,
        lds_base: apertures.lds_base,
        lds_limit: apertures.lds_limit,
        scratch_base: apertures.scratch_base,
        scratch_limit: apertures.scratch_limit,
        gpuvm_base: apertures.gpuvm_base,
        gpuvm_limit: apertures.gpuvm_limit,
        gpu_id: u32::from(node.gpu_id),
        location_id: node.location_id(),
        vendor_id: u32::from(info.vendor_id),
        device_id: u32::from(info.device_id),
        revision_id: u32::from(info.revision_id),
        subsystem_vendor_id: u32::from(info.subsystem_vendor_id),
        subsystem_device_id: u32::from(info.subsystem_id),
        fw_version: asic.product.fw_version,
        gfx_target_version: asic.gfx_target_version,
        simd_count: config.cus * asic.simds_per_cu,
        max_waves_per_simd: config.waves_per_simd,
        array_count: config.xccs.max(1) * config.shader_engines * config.arrays_per_engine,
        simd_arrays_per_engine: config.arrays_per_engine,
        num_xcc: config.xccs,
        capability: topology::capability(device),
        debug_prop: asic.product.debug_prop,
        capability2: 0,
        pad: 0,
    }
}
