//! Contexts, lists of buffer objects, submissions and waits.

macro_rules! numbers {
    ($($name:ident = $value:expr, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u32 = $value;)*
    };
}

numbers! {
    AMDGPU_CTX_OP_ALLOC_CTX = 1, "Makes a context.";
    AMDGPU_CTX_OP_FREE_CTX = 2, "Gives a context back.";
    AMDGPU_CTX_OP_QUERY_STATE = 3, "Tells of resets since the last such question.";
    AMDGPU_CTX_OP_QUERY_STATE2 = 4, "Tells of resets since the context was made.";
    AMDGPU_CTX_OP_GET_STABLE_PSTATE = 5, "Tells which clocks are held for measurements.";
    AMDGPU_CTX_OP_SET_STABLE_PSTATE = 6, "Holds clocks for measurements.";
    AMDGPU_CTX_NO_RESET = 0, "There was no reset.";
    AMDGPU_CTX_UNKNOWN_RESET = 3, "There was a reset.";
    AMDGPU_CTX_STABLE_PSTATE_PEAK = 4, "The last state that can be held.";

    AMDGPU_BO_LIST_OP_CREATE = 0, "Makes a list.";
    AMDGPU_BO_LIST_OP_DESTROY = 1, "Gives a list back.";
    AMDGPU_BO_LIST_OP_UPDATE = 2, "Replaces what is in a list.";

    AMDGPU_VM_OP_RESERVE_VMID = 1, "Keeps a VMID for the address space.";
    AMDGPU_VM_OP_UNRESERVE_VMID = 2, "Gives that VMID back.";

    AMDGPU_CHUNK_ID_IB = 1, "An indirect buffer.";
    AMDGPU_CHUNK_ID_FENCE = 2, "Where the program wants the fence written.";
    AMDGPU_CHUNK_ID_DEPENDENCIES = 3, "What has to be over first.";
    AMDGPU_CHUNK_ID_SYNCOBJ_IN = 4, "Syncobjs whose work has to be over first.";
    AMDGPU_CHUNK_ID_SYNCOBJ_OUT = 5, "Syncobjs that get this work.";
    AMDGPU_CHUNK_ID_BO_HANDLES = 6, "Buffer objects that are used.";
    AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES = 7, "What has to have begun first.";
    AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT = 8, "Points of syncobjs that have to be over first.";
    AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL = 9, "Points of syncobjs that are this work.";

    AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ = 0, "A new syncobj.";
    AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD = 1, "A descriptor of a new syncobj.";
    AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD = 2, "A descriptor of a sync file.";

    AMDGPU_CTX_QUERY2_FLAGS_RESET = 1 << 0, "There was a reset.";
    AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST = 1 << 1, "VRAM was lost.";
    AMDGPU_CTX_QUERY2_FLAGS_GUILTY = 1 << 2, "Work of this context was to blame.";
}

/// Highest priority that needs no privilege (`AMDGPU_CTX_PRIORITY_NORMAL`).
pub const AMDGPU_CTX_PRIORITY_NORMAL: i32 = 0;
/// Priorities above [`AMDGPU_CTX_PRIORITY_NORMAL`] (`AMDGPU_CTX_PRIORITY_HIGH`, `AMDGPU_CTX_PRIORITY_VERY_HIGH`).
pub const AMDGPU_CTX_PRIORITIES_ABOVE: [i32; 2] = [512, 1023];

uapi_struct! {
    /// Arguments of `CTX` (`struct drm_amdgpu_ctx_in`).
    CtxIn: 16 {
        /// `AMDGPU_CTX_OP_*`.
        op @ 0: u32,
        /// A state of clocks.
        flags @ 4: u32,
        /// The context.
        ctx_id @ 8: u32,
        /// `AMDGPU_CTX_PRIORITY_*`.
        priority @ 12: i32,
    }
}

uapi_struct! {
    /// Answers of `CTX` (`union drm_amdgpu_ctx_out`): the context or the clocks in the lower half of `flags`.
    CtxOut: 16 {
        /// `AMDGPU_CTX_QUERY2_FLAGS_*`.
        flags @ 0: u64,
        /// Resets that work of this context caused.
        hangs @ 8: u32,
        /// `AMDGPU_CTX_*_RESET`.
        reset_status @ 12: u32,
    }
}

uapi_struct! {
    /// Arguments of `BO_LIST` (`struct drm_amdgpu_bo_list_in`), and of the chunk `BO_HANDLES`.
    BoListIn: 24 {
        /// `AMDGPU_BO_LIST_OP_*`.
        operation @ 0: u32,
        /// The list.
        list_handle @ 4: u32,
        /// Entries.
        bo_number @ 8: u32,
        /// Bytes of each.
        bo_info_size @ 12: u32,
        /// User address of the entries.
        bo_info_ptr @ 16: u64,
    }
}

uapi_struct! {
    /// An entry of a list (`struct drm_amdgpu_bo_list_entry`).
    BoListEntry: 8 {
        /// The buffer object.
        bo_handle @ 0: u32,
        /// Priority of the buffer object for a place in VRAM.
        bo_priority @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `CS` (`struct drm_amdgpu_cs_in`).
    CsIn: 24 {
        /// The context.
        ctx_id @ 0: u32,
        /// A list of buffer objects, or 0.
        bo_list_handle @ 4: u32,
        /// Chunks.
        num_chunks @ 8: u32,
        /// None yet.
        flags @ 12: u32,
        /// User address of addresses of [`CsChunk`].
        chunks @ 16: u64,
    }
}

uapi_struct! {
    /// A part of a submission (`struct drm_amdgpu_cs_chunk`).
    CsChunk: 16 {
        /// `AMDGPU_CHUNK_ID_*`.
        chunk_id @ 0: u32,
        /// Dwords.
        length_dw @ 4: u32,
        /// User address of them.
        chunk_data @ 8: u64,
    }
}

uapi_struct! {
    /// An indirect buffer (`struct drm_amdgpu_cs_chunk_ib`).
    CsChunkIb: 32 {
        /// Padding.
        pad @ 0: u32,
        /// `AMDGPU_IB_FLAG_*`.
        flags @ 4: u32,
        /// Address for the GPU.
        va_start @ 8: u64,
        /// Bytes.
        ib_bytes @ 16: u32,
        /// `AMDGPU_HW_IP_*`.
        ip_type @ 20: u32,
        /// Instance of it.
        ip_instance @ 24: u32,
        /// Ring of that.
        ring @ 28: u32,
    }
}

uapi_struct! {
    /// Place that the program wants the fence written to (`struct drm_amdgpu_cs_chunk_fence`).
    CsChunkFence: 8 {
        /// The buffer object.
        handle @ 0: u32,
        /// Offset in the buffer object.
        offset @ 4: u32,
    }
}

uapi_struct! {
    /// Fence that has to be reached first (`struct drm_amdgpu_cs_chunk_dep`).
    CsChunkDep: 24 {
        /// `AMDGPU_HW_IP_*`.
        ip_type @ 0: u32,
        /// Instance of it.
        ip_instance @ 4: u32,
        /// Ring of that.
        ring @ 8: u32,
        /// The context.
        ctx_id @ 12: u32,
        /// Number of the submission.
        handle @ 16: u64,
    }
}

uapi_struct! {
    /// A syncobj of a submission (`struct drm_amdgpu_cs_chunk_sem`).
    CsChunkSem: 4 {
        /// The syncobj.
        handle @ 0: u32,
    }
}

uapi_struct! {
    /// A point of a syncobj of a submission (`struct drm_amdgpu_cs_chunk_syncobj`).
    CsChunkSyncobj: 16 {
        /// The syncobj.
        handle @ 0: u32,
        /// `DRM_SYNCOBJ_WAIT_FLAGS_*`.
        flags @ 4: u32,
        /// The point, 0 for a syncobj without points.
        point @ 8: u64,
    }
}

uapi_struct! {
    /// Arguments of `FENCE_TO_HANDLE` (the `in` part of `union drm_amdgpu_fence_to_handle`).
    FenceToHandleIn: 32 {
        /// The work.
        fence @ 0: DrmAmdgpuFence,
        /// `AMDGPU_FENCE_TO_HANDLE_GET_*`.
        what @ 24: u32,
        /// Padding.
        pad @ 28: u32,
    }
}

uapi_struct! {
    /// Arguments of `WAIT_CS` (`struct drm_amdgpu_wait_cs_in`).
    WaitCsIn: 32 {
        /// Number of the submission.
        handle @ 0: u64,
        /// Time of `CLOCK_MONOTONIC` in nanoseconds at which the wait ends; negative ones wait for ever.
        timeout @ 8: u64,
        /// `AMDGPU_HW_IP_*`.
        ip_type @ 16: u32,
        /// Instance of it.
        ip_instance @ 20: u32,
        /// Ring of that.
        ring @ 24: u32,
        /// The context.
        ctx_id @ 28: u32,
    }
}

uapi_struct! {
    /// Work to wait for (`struct drm_amdgpu_fence`).
    DrmAmdgpuFence: 24 {
        /// The context.
        ctx_id @ 0: u32,
        /// `AMDGPU_HW_IP_*`.
        ip_type @ 4: u32,
        /// Instance of it.
        ip_instance @ 8: u32,
        /// Ring of that.
        ring @ 12: u32,
        /// Number of the submission.
        seq_no @ 16: u64,
    }
}

uapi_struct! {
    /// Arguments of `WAIT_FENCES` (`struct drm_amdgpu_wait_fences_in`).
    WaitFencesIn: 24 {
        /// User address of [`DrmAmdgpuFence`].
        fences @ 0: u64,
        /// Number of fences.
        fence_count @ 8: u32,
        /// All, or any.
        wait_all @ 12: u32,
        /// As for `WAIT_CS`.
        timeout_ns @ 16: u64,
    }
}

uapi_struct! {
    /// Answer of `WAIT_FENCES` (`struct drm_amdgpu_wait_fences_out`).
    WaitFencesOut: 8 {
        /// 1: it is over.
        status @ 0: u32,
        /// Index of the first fence that was reached, of a wait for any.
        first_signaled @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `VM` (`struct drm_amdgpu_vm_in`).
    VmIn: 8 {
        /// `AMDGPU_VM_OP_*`.
        op @ 0: u32,
        /// None yet.
        flags @ 4: u32,
    }
}
