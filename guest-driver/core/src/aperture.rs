//! Apertures of a process (`kfd_flat_memory.c`, gfx9 and later).

use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::kfd::aperture::{
    APERTURE_LIMIT_MASK, GPUVM_BASE, GPUVM_LIMIT, GetProcessAperturesArgs, GetProcessAperturesNewArgs,
    ProcessDeviceApertures,
};
use zerocopy::IntoBytes;

use crate::asic::Apertures;
use crate::errno::{Errno, Result};
use crate::os::Os;
use crate::process::Process;

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

/// GET_PROCESS_APERTURES: of as many nodes as its structure has room for.
pub(crate) fn get_process_apertures<O: Os>(
    process: &Arc<Process<O>>,
    args: &mut GetProcessAperturesArgs,
) -> Result<u32> {
    let mut count = 0;
    for (place, node) in args.process_apertures.iter_mut().zip(process.nodes.iter()) {
        *place = apertures(node.gpu_id, &node.device.hw.asic().apertures);
        count += 1;
    }
    args.num_of_nodes = count;
    Ok(0)
}

/// GET_PROCESS_APERTURES_NEW: how many nodes there are, or the apertures of as many as the caller has room for.
///
/// # Errors
///
/// `EINVAL` for more room than the topology has nodes, `EFAULT`.
pub(crate) fn get_process_apertures_new<O: Os>(
    process: &Arc<Process<O>>,
    args: &mut GetProcessAperturesNewArgs,
) -> Result<u32> {
    if args.num_of_nodes == 0 {
        args.num_of_nodes = process.nodes.count();
        return Ok(0);
    }
    // As many as the topology has, processors included.
    if args.num_of_nodes > process.nodes.count() + 1 {
        return Err(Errno::EINVAL);
    }
    let most = args.num_of_nodes as usize;
    let nodes = process.nodes.iter().take(most);
    let all: Vec<_> = nodes.map(|node| apertures(node.gpu_id, &node.device.hw.asic().apertures)).collect();
    process.os().copy_to_user(args.kfd_process_device_apertures_ptr, all.as_slice().as_bytes())?;
    args.num_of_nodes = all.len() as u32;
    Ok(0)
}
