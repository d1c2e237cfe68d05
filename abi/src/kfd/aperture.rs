//! Apertures: `kfd_process_device_apertures` and its like.

uapi_struct! {
    /// Apertures of one GPU in one process (`struct kfd_process_device_apertures`); limits are inclusive.
    ProcessDeviceApertures: 56 {
        /// First address of local data share.
        lds_base @ 0: u64,
        /// Last address of local data share.
        lds_limit @ 8: u64,
        /// First address of scratch.
        scratch_base @ 16: u64,
        /// Last address of scratch.
        scratch_limit @ 24: u64,
        /// First address of the GPU's address space.
        gpuvm_base @ 32: u64,
        /// Last address of the GPU's address space.
        gpuvm_limit @ 40: u64,
        /// GPU.
        gpu_id @ 48: u32,
        /// Padding.
        pad @ 52: u32,
    }
}

/// GPUs `GET_PROCESS_APERTURES` can tell (`NUM_OF_SUPPORTED_GPUS`).
pub const NUM_OF_SUPPORTED_GPUS: usize = 7;

uapi_struct! {
    /// Arguments of `GET_PROCESS_APERTURES` (`struct kfd_ioctl_get_process_apertures_args`).
    GetProcessAperturesArgs: 400 {
        /// Out.
        process_apertures @ 0: [ProcessDeviceApertures; NUM_OF_SUPPORTED_GPUS],
        /// Out: how many of them are filled.
        num_of_nodes @ 392: u32,
        /// Padding.
        pad @ 396: u32,
    }
}

uapi_struct! {
    /// Arguments of `GET_PROCESS_APERTURES_NEW` (`struct kfd_ioctl_get_process_apertures_new_args`).
    GetProcessAperturesNewArgs: 16 {
        /// User address of an array of [`ProcessDeviceApertures`].
        kfd_process_device_apertures_ptr @ 0: u64,
        /// In: its length, 0 asks for the count. Out: GPUs.
        num_of_nodes @ 8: u32,
        /// Padding.
        pad @ 12: u32,
    }
}

/// First address of local data share on gfx9 and later (`MAKE_LDS_APP_BASE_V9`, `kfd_flat_memory.c`).
pub const LDS_BASE_V9: u64 = 1 << 48;
/// First address of scratch on gfx9 and later (`MAKE_SCRATCH_APP_BASE_V9`, `kfd_flat_memory.c`).
pub const SCRATCH_BASE_V9: u64 = 2 << 48;
/// Added to an aperture's base this gives its last address (`MAKE_LDS_APP_LIMIT`).
pub const APERTURE_LIMIT_MASK: u64 = 0xffff_ffff;
/// First address of the GPU's address space on gfx9 and later discrete GPUs (`SVM_USER_BASE`, `kfd_flat_memory.c`).
pub const GPUVM_BASE: u64 = 0x1_0000;
/// Last address of the GPU's address space on gfx9 and later discrete GPUs: the processor's user half.
pub const GPUVM_LIMIT: u64 = (1 << 47) - 1;
