//! Events: `kfd_ioctl_create_event_args` and its like.

uapi_struct! {
    /// Arguments of `CREATE_EVENT` (`struct kfd_ioctl_create_event_args`).
    CreateEventArgs: 32 {
        /// In: handle of the buffer object that is the signal page. Out: `mmap` offset of the signal page.
        event_page_offset @ 0: u64,
        /// Out: value that a queue writes to trigger the event.
        event_trigger_data @ 8: u32,
        /// One of `KFD_IOC_EVENT_*`.
        event_type @ 12: u32,
        /// Non-zero: the event resets itself when a wait saw it.
        auto_reset @ 16: u32,
        /// Node, for event types that belong to one.
        node_id @ 20: u32,
        /// Out: id.
        event_id @ 24: u32,
        /// Out: index into the signal page.
        event_slot_index @ 28: u32,
    }
}

/// Signal.
pub const KFD_IOC_EVENT_SIGNAL: u32 = 0;
/// Node change.
pub const KFD_IOC_EVENT_NODECHANGE: u32 = 1;
/// Device state change.
pub const KFD_IOC_EVENT_DEVICESTATECHANGE: u32 = 2;
/// Hardware exception.
pub const KFD_IOC_EVENT_HW_EXCEPTION: u32 = 3;
/// System event.
pub const KFD_IOC_EVENT_SYSTEM_EVENT: u32 = 4;
/// Debug event; behaves as a signal.
pub const KFD_IOC_EVENT_DEBUG_EVENT: u32 = 5;
/// Profile event.
pub const KFD_IOC_EVENT_PROFILE_EVENT: u32 = 6;
/// Queue event.
pub const KFD_IOC_EVENT_QUEUE_EVENT: u32 = 7;
/// Memory exception.
pub const KFD_IOC_EVENT_MEMORY: u32 = 8;

/// All (or any) events came.
pub const KFD_IOC_WAIT_RESULT_COMPLETE: u32 = 0;
/// The time was over first.
pub const KFD_IOC_WAIT_RESULT_TIMEOUT: u32 = 1;
/// The wait failed.
pub const KFD_IOC_WAIT_RESULT_FAIL: u32 = 2;

/// Slots of the signal page, 8 bytes each (`KFD_SIGNAL_EVENT_LIMIT`).
pub const KFD_SIGNAL_EVENT_LIMIT: u32 = 4096;
/// Value of a slot whose event was not signalled (`UNSIGNALED_EVENT_SLOT`, `kfd_events.c`).
pub const UNSIGNALED_EVENT_SLOT: u64 = u64::MAX;
/// First id of events that are not signals (`KFD_FIRST_NONSIGNAL_EVENT_ID`, `kfd_priv.h`).
pub const KFD_FIRST_NONSIGNAL_EVENT_ID: u32 = 0x4000_0000;
/// First id that is not valid for events that are not signals (`KFD_LAST_NONSIGNAL_EVENT_ID` + 1, `kfd_priv.h`).
pub const KFD_NONSIGNAL_EVENT_ID_END: u32 = KFD_FIRST_NONSIGNAL_EVENT_ID + KFD_SIGNAL_EVENT_LIMIT;

uapi_struct! {
    /// Arguments of `DESTROY_EVENT`, `SET_EVENT` and `RESET_EVENT` (`struct kfd_ioctl_destroy_event_args` and so on).
    EventIdArgs: 8 {
        /// Event.
        event_id @ 0: u32,
        /// Padding.
        pad @ 4: u32,
    }
}

uapi_struct! {
    /// Why memory could not be reached (`struct kfd_memory_exception_failure`).
    MemoryExceptionFailure: 16 {
        /// Page not present, or the process may not touch it.
        not_present @ 0: u32,
        /// Write to a read-only page.
        read_only @ 4: u32,
        /// Execution of a page that is not executable.
        no_execute @ 8: u32,
        /// The address is not exact.
        imprecise @ 12: u32,
    }
}

uapi_struct! {
    /// Data of a memory exception (`struct kfd_hsa_memory_exception_data`).
    MemoryExceptionData: 32 {
        /// Why.
        failure @ 0: MemoryExceptionFailure,
        /// Address.
        va @ 16: u64,
        /// GPU.
        gpu_id @ 24: u32,
        /// 0 no RAS error, 1 uncorrectable SRAM error, 2 poison.
        error_type @ 28: u32,
    }
}

uapi_struct! {
    /// Data of a hardware exception (`struct kfd_hsa_hw_exception_data`).
    HwExceptionData: 16 {
        /// 0 whole GPU, 1 other.
        reset_type @ 0: u32,
        /// 0 hang, 1 error correction.
        reset_cause @ 4: u32,
        /// Non-zero: the contents of VRAM are lost.
        memory_lost @ 8: u32,
        /// GPU.
        gpu_id @ 12: u32,
    }
}

/// `kfd_hsa_hw_exception_data::reset_cause`: the GPU hung (`KFD_HW_EXCEPTION_GPU_HANG`).
pub const KFD_HW_EXCEPTION_GPU_HANG: u32 = 0;
/// `kfd_hsa_hw_exception_data::reset_cause`: memory had an error that cannot be corrected (`KFD_HW_EXCEPTION_ECC`).
pub const KFD_HW_EXCEPTION_ECC: u32 = 1;
/// `kfd_hsa_memory_exception_data::ErrorType`: a wave or an engine has read memory with such an error
/// (`KFD_MEM_ERR_POISON_CONSUMED`).
pub const KFD_MEM_ERR_POISON_CONSUMED: u32 = 2;
/// `kfd_hsa_hw_exception_data::reset_type`: the whole GPU was reset (`KFD_HW_EXCEPTION_WHOLE_GPU_RESET`).
pub const KFD_HW_EXCEPTION_WHOLE_GPU_RESET: u32 = 0;

uapi_struct! {
    /// One event of a wait (`struct kfd_event_data`).
    EventData: 48 {
        /// The union: [`MemoryExceptionData`], [`HwExceptionData`], or the age of a signal in the first 8 bytes.
        data @ 0: [u8; 32],
        /// Pointer to an extension, unused.
        kfd_event_data_ext @ 32: u64,
        /// Event.
        event_id @ 40: u32,
        /// Padding.
        pad @ 44: u32,
    }
}

uapi_struct! {
    /// Arguments of `WAIT_EVENTS` (`struct kfd_ioctl_wait_events_args`).
    WaitEventsArgs: 24 {
        /// User address of an array of [`EventData`].
        events_ptr @ 0: u64,
        /// Its length.
        num_events @ 8: u32,
        /// Non-zero: wait for all of them.
        wait_for_all @ 12: u32,
        /// Milliseconds; [`KFD_EVENT_TIMEOUT_IMMEDIATE`], [`KFD_EVENT_TIMEOUT_INFINITE`].
        timeout @ 16: u32,
        /// Out: one of `KFD_IOC_WAIT_RESULT_*`.
        wait_result @ 20: u32,
    }
}

/// Do not wait (`KFD_EVENT_TIMEOUT_IMMEDIATE`, `kfd_events.c`).
pub const KFD_EVENT_TIMEOUT_IMMEDIATE: u32 = 0;
/// Wait for ever (`KFD_EVENT_TIMEOUT_INFINITE`, `kfd_events.c`).
pub const KFD_EVENT_TIMEOUT_INFINITE: u32 = u32::MAX;
