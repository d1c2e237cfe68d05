//! User-mode queues: `kfd_ioctl_create_queue_args` and its like.

uapi_struct! {
    /// Arguments of `CREATE_QUEUE` (`struct kfd_ioctl_create_queue_args`).
    CreateQueueArgs: 96 {
        /// User address of the ring.
        ring_base_address @ 0: u64,
        /// User address of the 64-bit write pointer.
        write_pointer_address @ 8: u64,
        /// User address of the 64-bit read pointer.
        read_pointer_address @ 16: u64,
        /// Out: `mmap` offset of the doorbell, with the byte inside the process slice in the low bits.
        doorbell_offset @ 24: u64,
        /// Size of the ring in bytes: a power of two, or 0 for an inactive queue.
        ring_size @ 32: u32,
        /// GPU.
        gpu_id @ 36: u32,
        /// One of `KFD_IOC_QUEUE_TYPE_*`.
        queue_type @ 40: u32,
        /// Share in per cent, 0 to 100; bits 15:8 are the XCC that runs PM4.
        queue_percentage @ 44: u32,
        /// Priority, 0 to 15.
        queue_priority @ 48: u32,
        /// Out: id of the queue in its process.
        queue_id @ 52: u32,
        /// User address of the end-of-pipe buffer.
        eop_buffer_address @ 56: u64,
        /// Its size in bytes.
        eop_buffer_size @ 64: u64,
        /// User address of the context save area.
        ctx_save_restore_address @ 72: u64,
        /// Its size in bytes without the debugger's part.
        ctx_save_restore_size @ 80: u32,
        /// Size of its control stack in bytes.
        ctl_stack_size @ 84: u32,
        /// SDMA engine for `KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID`.
        sdma_engine_id @ 88: u32,
        /// Size of the metadata ring after the ring in bytes (1.18); padding before.
        metadata_ring_size @ 92: u32,
    }
}

/// PM4 compute queue.
pub const KFD_IOC_QUEUE_TYPE_COMPUTE: u32 = 0;
/// SDMA queue.
pub const KFD_IOC_QUEUE_TYPE_SDMA: u32 = 1;
/// AQL compute queue.
pub const KFD_IOC_QUEUE_TYPE_COMPUTE_AQL: u32 = 2;
/// SDMA queue on an XGMI engine.
pub const KFD_IOC_QUEUE_TYPE_SDMA_XGMI: u32 = 3;
/// SDMA queue on a named engine.
pub const KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID: u32 = 4;

/// Highest share in per cent.
pub const KFD_MAX_QUEUE_PERCENTAGE: u32 = 100;
/// Highest priority.
pub const KFD_MAX_QUEUE_PRIORITY: u32 = 15;
/// Smallest ring in bytes (`KFD_MIN_QUEUE_RING_SIZE`); smaller ones count as this.
pub const KFD_MIN_QUEUE_RING_SIZE: u32 = 1024;
/// Queues of one process (`KFD_MAX_NUM_OF_QUEUES_PER_PROCESS`, `kfd_priv.h`; the last one stays free).
pub const KFD_MAX_NUM_OF_QUEUES_PER_PROCESS: u32 = 127;

uapi_struct! {
    /// Arguments of `DESTROY_QUEUE` (`struct kfd_ioctl_destroy_queue_args`).
    DestroyQueueArgs: 8 {
        /// Queue.
        queue_id @ 0: u32,
        /// Padding.
        pad @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `UPDATE_QUEUE` (`struct kfd_ioctl_update_queue_args`).
    UpdateQueueArgs: 24 {
        /// User address of the ring; 0 makes the queue inactive.
        ring_base_address @ 0: u64,
        /// Queue.
        queue_id @ 8: u32,
        /// Size of the ring in bytes.
        ring_size @ 12: u32,
        /// Share in per cent; 0 makes the queue inactive.
        queue_percentage @ 16: u32,
        /// Priority.
        queue_priority @ 20: u32,
    }
}

uapi_struct! {
    /// Arguments of `ALLOC_QUEUE_GWS` (`struct kfd_ioctl_alloc_queue_gws_args`).
    AllocQueueGwsArgs: 16 {
        /// Queue.
        queue_id @ 0: u32,
        /// Not 0 gives the queue the global wave sync, 0 takes it away.
        num_gws @ 4: u32,
        /// First resource.
        first_gws @ 8: u32,
        /// Padding.
        pad @ 12: u32,
    }
}

uapi_struct! {
    /// Arguments of `GET_QUEUE_WAVE_STATE` (`struct kfd_ioctl_get_queue_wave_state_args`).
    GetQueueWaveStateArgs: 24 {
        /// User address that the state of the save area is copied to: the first 16 bytes of its header.
        ctl_stack_address @ 0: u64,
        /// Out: bytes of the control stack in use.
        ctl_stack_used_size @ 8: u32,
        /// Out: bytes of waves.
        save_area_used_size @ 12: u32,
        /// Queue.
        queue_id @ 16: u32,
        /// Padding.
        pad @ 20: u32,
    }
}

uapi_struct! {
    /// The beginning of a context save area (`struct kfd_context_save_area_header`).
    ContextSaveAreaHeader: 40 {
        /// Offset of the control stack in use, in bytes.
        control_stack_offset @ 0: u32,
        /// Its bytes in use.
        control_stack_size @ 4: u32,
        /// Offset of the end of the waves, in bytes.
        wave_state_offset @ 8: u32,
        /// Bytes of waves before that.
        wave_state_size @ 12: u32,
        /// Offset of the memory of debuggers, in bytes.
        debug_offset @ 16: u32,
        /// Its size in bytes.
        debug_size @ 20: u32,
        /// User address of a word that exceptions are reported in.
        err_payload_addr @ 24: u64,
        /// Event that is set for exceptions.
        err_event_id @ 32: u32,
        /// Reserved.
        reserved1 @ 36: u32,
    }
}

uapi_struct! {
    /// Arguments of `SET_CU_MASK` (`struct kfd_ioctl_set_cu_mask_args`).
    SetCuMaskArgs: 16 {
        /// Queue.
        queue_id @ 0: u32,
        /// Number of bits in the mask, a multiple of 32.
        num_cu_mask @ 4: u32,
        /// User address of the mask, an array of `u32`.
        cu_mask_ptr @ 8: u64,
    }
}
