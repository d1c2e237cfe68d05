//! Versions, clocks, policies, trap handler and the rest.

uapi_struct! {
    /// Arguments of `GET_VERSION` (`struct kfd_ioctl_get_version_args`).
    GetVersionArgs: 8 {
        /// Out.
        major_version @ 0: u32,
        /// Out.
        minor_version @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `SET_MEMORY_POLICY` (`struct kfd_ioctl_set_memory_policy_args`).
    SetMemoryPolicyArgs: 32 {
        /// First address of the alternate aperture.
        alternate_aperture_base @ 0: u64,
        /// Its size in bytes.
        alternate_aperture_size @ 8: u64,
        /// GPU.
        gpu_id @ 16: u32,
        /// One of `KFD_IOC_CACHE_POLICY_*`.
        default_policy @ 20: u32,
        /// One of `KFD_IOC_CACHE_POLICY_*`.
        alternate_policy @ 24: u32,
        /// Process flags (1.18); padding before.
        misc_process_flag @ 28: u32,
    }
}

/// Coherent.
pub const KFD_IOC_CACHE_POLICY_COHERENT: u32 = 0;
/// Not coherent.
pub const KFD_IOC_CACHE_POLICY_NONCOHERENT: u32 = 1;

uapi_struct! {
    /// Arguments of `GET_CLOCK_COUNTERS` (`struct kfd_ioctl_get_clock_counters_args`).
    GetClockCountersArgs: 40 {
        /// Out: 100 MHz counter of the GPU, 0 for an unknown GPU.
        gpu_clock_counter @ 0: u64,
        /// Out: `CLOCK_MONOTONIC_RAW` in nanoseconds.
        cpu_clock_counter @ 8: u64,
        /// Out: `CLOCK_BOOTTIME` in nanoseconds.
        system_clock_counter @ 16: u64,
        /// Out: frequency of the system clock in Hz.
        system_clock_freq @ 24: u64,
        /// GPU.
        gpu_id @ 32: u32,
        /// Padding.
        pad @ 36: u32,
    }
}

uapi_struct! {
    /// Arguments of `SET_SCRATCH_BACKING_VA` (`struct kfd_ioctl_set_scratch_backing_va_args`).
    SetScratchBackingVaArgs: 16 {
        /// Address.
        va_addr @ 0: u64,
        /// GPU.
        gpu_id @ 8: u32,
        /// Padding.
        pad @ 12: u32,
    }
}

uapi_struct! {
    /// Arguments of `GET_TILE_CONFIG` (`struct kfd_ioctl_get_tile_config_args`).
    GetTileConfigArgs: 40 {
        /// User address of an array of `u32`.
        tile_config_ptr @ 0: u64,
        /// User address of an array of `u32`.
        macro_tile_config_ptr @ 8: u64,
        /// In and out: its length.
        num_tile_configs @ 16: u32,
        /// In and out: its length.
        num_macro_tile_configs @ 20: u32,
        /// GPU.
        gpu_id @ 24: u32,
        /// Out: `GB_ADDR_CONFIG`.
        gb_addr_config @ 28: u32,
        /// Out.
        num_banks @ 32: u32,
        /// Out.
        num_ranks @ 36: u32,
    }
}

uapi_struct! {
    /// Arguments of `SET_TRAP_HANDLER` (`struct kfd_ioctl_set_trap_handler_args`).
    SetTrapHandlerArgs: 24 {
        /// Address of the code.
        tba_addr @ 0: u64,
        /// Address of its data.
        tma_addr @ 8: u64,
        /// GPU.
        gpu_id @ 16: u32,
        /// Padding.
        pad @ 20: u32,
    }
}

uapi_struct! {
    /// Arguments of `SET_XNACK_MODE` (`struct kfd_ioctl_set_xnack_mode_args`).
    SetXnackModeArgs: 4 {
        /// Negative asks, out: the mode.
        xnack_enabled @ 0: i32,
    }
}
