//! The runtime's and the debugger's side of the interface: `RUNTIME_ENABLE` and `DBG_TRAP`.

/// `RUNTIME_ENABLE` enables (`KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK`).
pub const KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK: u32 = 1;
/// Trap temporaries are to be set up (`KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK`).
pub const KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK: u32 = 2;

uapi_struct! {
    /// Arguments of `RUNTIME_ENABLE` (`struct kfd_ioctl_runtime_enable_args`).
    RuntimeEnableArgs: 16 {
        /// Address of the runtime's debug structure.
        r_debug @ 0: u64,
        /// `KFD_RUNTIME_ENABLE_MODE_*`.
        mode_mask @ 8: u32,
        /// Out.
        capabilities_mask @ 12: u32,
    }
}

uapi_struct! {
    /// State of the runtime for a debugger (`struct kfd_runtime_info`).
    RuntimeInfo: 16 {
        /// Address of the runtime's debug structure.
        r_debug @ 0: u64,
        /// `DEBUG_RUNTIME_STATE_*`.
        runtime_state @ 8: u32,
        /// Trap temporaries are set up.
        ttmp_setup @ 12: u32,
    }
}

/// States of a process's runtime (`enum kfd_dbg_runtime_state`).
pub const DEBUG_RUNTIME_STATE_DISABLED: u32 = 0;
/// The runtime is enabled.
pub const DEBUG_RUNTIME_STATE_ENABLED: u32 = 1;

uapi_struct! {
    /// Arguments of `DBG_TRAP` (`struct kfd_ioctl_dbg_trap_args`).
    DbgTrapArgs: 32 {
        /// The process to be debugged.
        pid @ 0: u32,
        /// `KFD_IOC_DBG_TRAP_*`.
        op @ 4: u32,
        /// Arguments of the operation.
        args @ 8: [u32; 6],
    }
}

/// Operations of `DBG_TRAP` (`enum kfd_dbg_trap_operations`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DbgTrapOp {
    /// Attaches a debugger.
    Enable = 0,
    /// Detaches the debugger.
    Disable = 1,
    /// Passes exceptions on to the runtime.
    SendRuntimeEvent = 2,
    /// Chooses exceptions.
    SetExceptionsEnabled = 3,
    /// Sets the exceptions that new waves trap for.
    SetWaveLaunchOverride = 4,
    /// Sets the mode that new waves begin in.
    SetWaveLaunchMode = 5,
    /// Stops queues, and saves their waves.
    SuspendQueues = 6,
    /// Lets suspended queues go on.
    ResumeQueues = 7,
    /// Watches addresses.
    SetNodeAddressWatch = 8,
    /// Ends the watch of addresses.
    ClearNodeAddressWatch = 9,
    /// Changes `KFD_DBG_TRAP_FLAG_*`.
    SetFlags = 10,
    /// Asks for exceptions.
    QueryDebugEvent = 11,
    /// Asks for the data of an exception.
    QueryExceptionInfo = 12,
    /// Asks for the queues.
    GetQueueSnapshot = 13,
    /// Asks for the devices.
    GetDeviceSnapshot = 14,
}

impl DbgTrapOp {
    /// All operations, by number.
    pub const ALL: [Self; 15] = [
        Self::Enable,
        Self::Disable,
        Self::SendRuntimeEvent,
        Self::SetExceptionsEnabled,
        Self::SetWaveLaunchOverride,
        Self::SetWaveLaunchMode,
        Self::SuspendQueues,
        Self::ResumeQueues,
        Self::SetNodeAddressWatch,
        Self::ClearNodeAddressWatch,
        Self::SetFlags,
        Self::QueryDebugEvent,
        Self::QueryExceptionInfo,
        Self::GetQueueSnapshot,
        Self::GetDeviceSnapshot,
    ];

    /// The operation with a number.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns true if the runtime has to be enabled for this operation (`DBG_HW_OP` in the header).
    #[must_use]
    pub fn needs_runtime(self) -> bool {
        matches!(
            self,
            Self::SetWaveLaunchOverride
                | Self::SetWaveLaunchMode
                | Self::SuspendQueues
                | Self::ResumeQueues
                | Self::SetNodeAddressWatch
                | Self::ClearNodeAddressWatch
                | Self::SetFlags
        )
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_ENABLE`.
    DbgTrapEnableArgs: 24 {
        /// Exceptions that the debugger is notified of.
        exception_mask @ 0: u64,
        /// User address that receives a [`RuntimeInfo`].
        rinfo_ptr @ 8: u64,
        /// Its size, in and out.
        rinfo_size @ 16: u32,
        /// Descriptor that gets a byte for each event.
        dbg_fd @ 20: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_SEND_RUNTIME_EVENT`.
    DbgTrapSendRuntimeEventArgs: 16 {
        /// Exceptions to be passed on.
        exception_mask @ 0: u64,
        /// Their GPU.
        gpu_id @ 8: u32,
        /// Their queue.
        queue_id @ 12: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_SET_EXCEPTIONS_ENABLED`.
    DbgTrapSetExceptionsEnabledArgs: 8 {
        /// Exceptions that the debugger is notified of.
        exception_mask @ 0: u64,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_OVERRIDE`.
    DbgTrapSetWaveLaunchOverrideArgs: 16 {
        /// `KFD_DBG_TRAP_OVERRIDE_*`.
        override_mode @ 0: u32,
        /// In: bits to set; out: the bits before.
        enable_mask @ 4: u32,
        /// In: mask of the bits to change; out: the bits that can be changed.
        support_request_mask @ 8: u32,
        /// Padding.
        pad @ 12: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_SET_WAVE_LAUNCH_MODE`.
    DbgTrapSetWaveLaunchModeArgs: 8 {
        /// `KFD_DBG_TRAP_WAVE_LAUNCH_MODE_*`.
        launch_mode @ 0: u32,
        /// Padding.
        pad @ 4: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_SUSPEND_QUEUES`.
    DbgTrapSuspendQueuesArgs: 24 {
        /// Exceptions that are cleared on queues that stop.
        exception_mask @ 0: u64,
        /// Numbers of queues, in and out.
        queue_array_ptr @ 8: u64,
        /// Number of queues.
        num_queues @ 16: u32,
        /// Time that waves may take to stop.
        grace_period @ 20: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_RESUME_QUEUES`.
    DbgTrapResumeQueuesArgs: 16 {
        /// Numbers of queues, in and out; 0 for all.
        queue_array_ptr @ 0: u64,
        /// Number of queues.
        num_queues @ 8: u32,
        /// Padding.
        pad @ 12: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_SET_NODE_ADDRESS_WATCH`.
    DbgTrapSetNodeAddressWatchArgs: 24 {
        /// Address.
        address @ 0: u64,
        /// `KFD_DBG_TRAP_ADDRESS_WATCH_MODE_*`.
        mode @ 8: u32,
        /// Bits of the address that count.
        mask @ 12: u32,
        /// GPU.
        gpu_id @ 16: u32,
        /// Out: number of the GPU's watch.
        id @ 20: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_CLEAR_NODE_ADDRESS_WATCH`.
    DbgTrapClearNodeAddressWatchArgs: 8 {
        /// GPU.
        gpu_id @ 0: u32,
        /// Number of the watch.
        id @ 4: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_SET_FLAGS`.
    DbgTrapSetFlagsArgs: 8 {
        /// In: `KFD_DBG_TRAP_FLAG_*`; out: the flags before.
        flags @ 0: u32,
        /// Padding.
        pad @ 4: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_QUERY_DEBUG_EVENT`.
    DbgTrapQueryDebugEventArgs: 16 {
        /// In: exceptions that are cleared once reported; out: exceptions of the source.
        exception_mask @ 0: u64,
        /// Out: the GPU; 0 if the process is the source.
        gpu_id @ 8: u32,
        /// Out: the queue.
        queue_id @ 12: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_QUERY_EXCEPTION_INFO`.
    DbgTrapQueryExceptionInfoArgs: 24 {
        /// User address that receives the data of the exception.
        info_ptr @ 0: u64,
        /// Its size, in and out.
        info_size @ 8: u32,
        /// Queue or GPU.
        source_id @ 12: u32,
        /// `EC_*`.
        exception_code @ 16: u32,
        /// Nonzero: the exception is cleared.
        clear_exception @ 20: u32,
    }
}

uapi_struct! {
    /// `KFD_IOC_DBG_TRAP_GET_QUEUE_SNAPSHOT`, and with devices for queues `KFD_IOC_DBG_TRAP_GET_DEVICE_SNAPSHOT`.
    DbgTrapSnapshotArgs: 24 {
        /// Exceptions that are cleared.
        exception_mask @ 0: u64,
        /// User address that receives the entries.
        snapshot_buf_ptr @ 8: u64,
        /// Number of entries, in and out.
        num_entries @ 16: u32,
        /// Bytes of each, in and out.
        entry_size @ 20: u32,
    }
}

uapi_struct! {
    /// State of a queue for a debugger (`struct kfd_queue_snapshot_entry`).
    QueueSnapshotEntry: 64 {
        /// Its exceptions.
        exception_status @ 0: u64,
        /// Ring.
        ring_base_address @ 8: u64,
        /// Write pointer.
        write_pointer_address @ 16: u64,
        /// Read pointer.
        read_pointer_address @ 24: u64,
        /// Context save area.
        ctx_save_restore_address @ 32: u64,
        /// Number.
        queue_id @ 40: u32,
        /// GPU.
        gpu_id @ 44: u32,
        /// Bytes of the ring.
        ring_size @ 48: u32,
        /// `KFD_IOC_QUEUE_TYPE_*`.
        queue_type @ 52: u32,
        /// Bytes of the context save area.
        ctx_save_restore_area_size @ 56: u32,
        /// Reserved.
        reserved @ 60: u32,
    }
}

uapi_struct! {
    /// Properties of a GPU for a debugger (`struct kfd_dbg_device_info_entry`).
    DbgDeviceInfoEntry: 128 {
        /// Its exceptions.
        exception_status @ 0: u64,
        /// Shared aperture.
        lds_base @ 8: u64,
        /// Its last byte.
        lds_limit @ 16: u64,
        /// Private aperture.
        scratch_base @ 24: u64,
        /// Its last byte.
        scratch_limit @ 32: u64,
        /// First address of the GPU's address space.
        gpuvm_base @ 40: u64,
        /// Last address of the GPU's address space.
        gpuvm_limit @ 48: u64,
        /// GPU.
        gpu_id @ 56: u32,
        /// Location on the PCI bus, as in the topology.
        location_id @ 60: u32,
        /// PCI vendor.
        vendor_id @ 64: u32,
        /// PCI device.
        device_id @ 68: u32,
        /// PCI revision.
        revision_id @ 72: u32,
        /// PCI subsystem vendor.
        subsystem_vendor_id @ 76: u32,
        /// PCI subsystem.
        subsystem_device_id @ 80: u32,
        /// Version of the compute firmware.
        fw_version @ 84: u32,
        /// Instruction set.
        gfx_target_version @ 88: u32,
        /// SIMDs.
        simd_count @ 92: u32,
        /// Waves of a SIMD.
        max_waves_per_simd @ 96: u32,
        /// Shader arrays.
        array_count @ 100: u32,
        /// Shader arrays of a shader engine.
        simd_arrays_per_engine @ 104: u32,
        /// XCCs.
        num_xcc @ 108: u32,
        /// `HSA_CAP_*`.
        capability @ 112: u32,
        /// `HSA_DBG_*`.
        debug_prop @ 116: u32,
        /// More capabilities, of later interfaces.
        capability2 @ 120: u32,
        /// Padding.
        pad @ 124: u32,
    }
}

/// A queue that SUSPEND_QUEUES or RESUME_QUEUES failed with (`KFD_DBG_QUEUE_ERROR_MASK`).
pub const KFD_DBG_QUEUE_ERROR_MASK: u32 = 1 << 30;
/// A queue that does not exist (`KFD_DBG_QUEUE_INVALID_MASK`).
pub const KFD_DBG_QUEUE_INVALID_MASK: u32 = 1 << 31;

/// The kernel's exceptions count as well (`KFD_DBG_TRAP_OVERRIDE_OR`).
pub const KFD_DBG_TRAP_OVERRIDE_OR: u32 = 0;
/// Only the debugger's exceptions count (`KFD_DBG_TRAP_OVERRIDE_REPLACE`).
pub const KFD_DBG_TRAP_OVERRIDE_REPLACE: u32 = 1;
/// Float and integer exceptions, the address watch, memory violations (`KFD_DBG_TRAP_MASK_*`), as in `MODE.EXCP_EN`.
pub const KFD_DBG_TRAP_MASK_EXCEPTIONS: u32 = 0x1ff;
/// Waves begin as usual (`KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL`).
pub const KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL: u32 = 0;
/// Waves begin halted.
pub const KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT: u32 = 1;
/// Waves trap after each instruction.
pub const KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG: u32 = 3;
/// Each access of memory is over before the next instruction.
pub const KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP: u32 = 1;
/// Each arithmetic operation is over before the next instruction.
pub const KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP: u32 = 2;

/// An exception's code (`enum kfd_dbg_trap_exception_code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceptionCode(pub u32);

impl ExceptionCode {
    /// A wave has stopped at `s_trap 2`.
    pub const QUEUE_WAVE_ABORT: Self = Self(1);
    /// A queue could not be preempted.
    pub const QUEUE_PREEMPTION_ERROR: Self = Self(30);
    /// A queue that the debugger has not seen yet.
    pub const QUEUE_NEW: Self = Self(31);
    /// A queue is gone.
    pub const DEVICE_QUEUE_DELETE: Self = Self(32);
    /// An access did not translate.
    pub const DEVICE_MEMORY_VIOLATION: Self = Self(33);
    /// The runtime is enabled or disabled.
    pub const PROCESS_RUNTIME: Self = Self(48);
    /// Exceptions of queues.
    pub const MASK_QUEUE: u64 = Self::range(1, 6) | Self::range(16, 23) | Self::range(30, 31);
    /// Exceptions of queues that a packet causes.
    pub const MASK_PACKET: u64 = Self::range(16, 23);
    /// Exceptions of GPUs.
    pub const MASK_DEVICE: u64 = Self::range(32, 36);
    /// Exceptions of processes.
    pub const MASK_PROCESS: u64 = Self::range(48, 49);

    const fn range(first: u32, last: u32) -> u64 {
        (1 << last) - (1 << (first - 1))
    }

    /// Its bit (`KFD_EC_MASK`); 0 for an unknown code.
    #[must_use]
    pub const fn mask(self) -> u64 {
        if self.0 > 0 && self.0 < 50 { 1 << (self.0 - 1) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_those_of_the_header() {
        assert_eq!(ExceptionCode::MASK_QUEUE, 0x6000_0000 | 0x7f_8000 | 0x3f);
        assert_eq!(ExceptionCode::MASK_DEVICE, 0xf_8000_0000);
        assert_eq!(ExceptionCode::MASK_PROCESS, 0x1_8000_0000_0000);
        assert_eq!(ExceptionCode(0).mask() | ExceptionCode(50).mask(), 0);
    }

    #[test]
    fn operations_have_their_numbers() {
        for (number, op) in DbgTrapOp::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, number);
        }
        assert_eq!(DbgTrapOp::of(15), None);
    }
}
