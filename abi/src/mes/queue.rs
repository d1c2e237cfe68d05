//! Frames that add queues and take them away.

use crate::doorbell::DoorbellIndex;
use core::mem::{offset_of, size_of};

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[cfg(doc)]
use super::Opcode;
use super::{ApiStatus, FRAME_SIZE, Header};

/// `ADD_QUEUE` (`union MESAPI__ADD_QUEUE`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AddQueue {
    /// Opcode [`Opcode::ADD_QUEUE`].
    pub header: Header,
    /// PASID of the process.
    pub process_id: u32,
    /// Root of the process's page tables as `GCVM_CONTEXTn_PAGE_TABLE_BASE_ADDR` takes it (bit 0 valid).
    pub page_table_base_addr: U64,
    /// First virtual page number.
    pub process_va_start: U64,
    /// Last virtual page number.
    pub process_va_end: U64,
    /// Process quantum in units of 100 ns.
    pub process_quantum: U64,
    /// Context page of the process, identity key of the process.
    pub process_context_addr: U64,
    /// Gang quantum in units of 100 ns.
    pub gang_quantum: U64,
    /// Context page of the gang, identity key of the gang.
    pub gang_context_addr: U64,
    /// Priority inside the process.
    pub inprocess_gang_priority: u32,
    /// Priority level across processes (`enum MES_AMD_PRIORITY_LEVEL`).
    pub gang_global_priority_level: u32,
    /// Doorbell.
    pub doorbell_offset: DoorbellIndex,
    /// MQD, in VMID 0.
    pub mqd_addr: U64,
    /// Write pointer in memory, in VMID 0 (a GART mapping of the user's page) from API version 2 on.
    pub wptr_addr: U64,
    /// Opaque to the scheduler.
    pub h_context: U64,
    /// Opaque to the scheduler.
    pub h_queue: U64,
    /// See [`QueueType`].
    pub queue_type: u32,
    /// GDS base.
    pub gds_base: u32,
    /// GDS size; **ring size in dwords for a KFD AQL queue**.
    pub gds_size: u32,
    /// GWS base.
    pub gws_base: u32,
    /// GWS size.
    pub gws_size: u32,
    /// Ordered append mask.
    pub oa_mask: u32,
    /// Trap handler, a user virtual address, or 0.
    pub trap_handler_addr: U64,
    /// Value for `GCVM_CONTEXTn_CNTL` of the process's VMID.
    pub vm_context_cntl: u32,
    /// Option bits, see [`AddQueueFlags`].
    pub flags: AddQueueFlags,
    /// Completion.
    pub api_status: ApiStatus,
    /// Trap memory, a user virtual address.
    pub tma_addr: U64,
    /// Scheduler instance.
    pub sch_id: u32,
    /// Driver's timestamp.
    pub timestamp: U64,
    /// Index of the process context.
    pub process_context_array_index: u32,
    /// Index of the gang context.
    pub gang_context_array_index: u32,
    /// Pipe of a legacy kernel queue.
    pub pipe_id: u32,
    /// Queue of a legacy kernel queue.
    pub queue_id: u32,
    /// `SH_MEM_CONFIG.ALIGNMENT_MODE`.
    pub alignment_mode_setting: u32,
    /// Address that receives the report of the queue's unmapping.
    pub unmap_flag_addr: U64,
    /// Unused rest of the frame.
    pub reserved: [u32; 11],
}

/// Queue types of [`AddQueue::queue_type`] (`enum MES_QUEUE_TYPE`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QueueType(pub u32);

impl QueueType {
    /// Graphics.
    pub const GFX: Self = Self(0);
    /// Compute.
    pub const COMPUTE: Self = Self(1);
    /// System DMA.
    pub const SDMA: Self = Self(2);
    /// The scheduler's own ring (`MES_QUEUE_TYPE_SCHQ`), of firmware that runs on both pipes.
    pub const SCHQ: Self = Self(3);
}

/// The unnamed bit-field word of [`AddQueue`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct AddQueueFlags(pub u32);

bitflags::bitflags! {
    impl AddQueueFlags: u32 {
        /// A paging queue.
        const PAGING = 1 << 0;
        /// `program_gds`.
        const PROGRAM_GDS = 1 << 5;
        /// The gang starts suspended.
        const IS_GANG_SUSPENDED = 1 << 6;
        /// Works on protected memory.
        const IS_TMZ_QUEUE = 1 << 7;
        /// Map the KIQ utility queue.
        const MAP_KIQ_UTILITY_QUEUE = 1 << 8;
        /// The process is one of KFD's.
        const IS_KFD_PROCESS = 1 << 9;
        /// The trap handler is enabled.
        const TRAP_EN = 1 << 10;
        /// The ring holds AQL packets.
        const IS_AQL_QUEUE = 1 << 11;
        /// Keep the process context page as it is.
        const SKIP_PROCESS_CTX_CLEAR = 1 << 12;
        /// Map a kernel queue at `pipe_id`, `queue_id`, in VMID 0.
        const MAP_LEGACY_KQ = 1 << 13;
        /// No other queue runs beside this one: for cooperative launches, which need the whole device.
        const EXCLUSIVELY_SCHEDULED = 1 << 14;
        /// `is_long_running`.
        const IS_LONG_RUNNING = 1 << 15;
        /// `is_dwm_queue`.
        const IS_DWM_QUEUE = 1 << 16;
        /// `is_video_blit_queue`.
        const IS_VIDEO_BLIT_QUEUE = 1 << 17;
        /// `debug_vmid`, four bits, and all bits that the header reserves.
        const _ = !0;
    }
}

/// `REMOVE_QUEUE` (`union MESAPI__REMOVE_QUEUE`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RemoveQueue {
    /// Opcode [`Opcode::REMOVE_QUEUE`].
    pub header: Header,
    /// Doorbell of the queue, a dword index in the doorbell BAR.
    pub doorbell_offset: DoorbellIndex,
    /// Gang the queue is in.
    pub gang_context_addr: U64,
    /// Option bits, see [`RemoveQueueFlags`].
    pub flags: RemoveQueueFlags,
    /// Completion.
    pub api_status: ApiStatus,
    /// Pipe of a legacy kernel queue.
    pub pipe_id: u32,
    /// Queue of a legacy kernel queue.
    pub queue_id: u32,
    /// Trailing fence address.
    pub tf_addr: U64,
    /// Trailing fence value.
    pub tf_data: u32,
    /// Type of a legacy kernel queue.
    pub queue_type: u32,
    /// Unused rest of the frame.
    pub reserved: [u32; 49],
}

/// The unnamed bit-field word of [`RemoveQueue`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct RemoveQueueFlags(pub u32);

bitflags::bitflags! {
    impl RemoveQueueFlags: u32 {
        /// Unmap a legacy graphics queue.
        const UNMAP_LEGACY_GFX_QUEUE = 1 << 0;
        /// Unmap the KIQ utility queue.
        const UNMAP_KIQ_UTILITY_QUEUE = 1 << 1;
        /// Preempt a legacy graphics queue and leave it mapped.
        const PREEMPT_LEGACY_GFX_QUEUE = 1 << 2;
        /// Unmap a legacy queue given by its doorbell.
        const UNMAP_LEGACY_QUEUE = 1 << 3;
        /// All bits that the header reserves.
        const _ = !0;
    }
}

const _: () = {
    assert!(size_of::<AddQueue>() == FRAME_SIZE);
    assert!(offset_of!(AddQueue, page_table_base_addr) == 8);
    assert!(offset_of!(AddQueue, doorbell_offset) == 0x48);
    assert!(offset_of!(AddQueue, mqd_addr) == 0x4c);
    assert!(offset_of!(AddQueue, gds_size) == 0x74);
    assert!(offset_of!(AddQueue, vm_context_cntl) == 0x8c);
    assert!(offset_of!(AddQueue, flags) == 0x90);
    assert!(offset_of!(AddQueue, api_status) == 0x94);
    assert!(offset_of!(AddQueue, sch_id) == 0xac);
    assert!(offset_of!(AddQueue, pipe_id) == 0xc0);
    assert!(size_of::<RemoveQueue>() == FRAME_SIZE);
    assert!(offset_of!(RemoveQueue, api_status) == 0x14);
    assert!(offset_of!(RemoveQueue, pipe_id) == 0x24);
    assert!(offset_of!(RemoveQueue, tf_addr) == 0x2c);
};
