//! Frames of the micro engine scheduler (MES), version 11.
//!
//! A driver writes frames of 64 dwords into the MES ring; the scheduler answers each by writing the frame's
//! [`ApiStatus::api_completion_fence_value`] to [`ApiStatus::api_completion_fence_addr`], and does not answer what it
//! cannot do. Published in Linux `drivers/gpu/drm/amd/include/mes_v11_api_def.h`, which packs everything to four bytes:
//! 64-bit fields are therefore byte-order types without alignment here.

use core::mem::{offset_of, size_of};

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Dwords of every frame (`API_FRAME_SIZE_IN_DWORDS`).
pub const API_FRAME_SIZE_IN_DWORDS: usize = 64;
/// Bytes of every frame.
pub const FRAME_SIZE: usize = API_FRAME_SIZE_IN_DWORDS * 4;
/// Compute pipes [`SetHwResources`] speaks of (`MAX_COMPUTE_PIPES`).
pub const MAX_COMPUTE_PIPES: usize = 8;
/// Priority levels of gangs (`AMD_PRIORITY_NUM_LEVELS`): low, normal, medium, high, real time.
pub const AMD_PRIORITY_NUM_LEVELS: usize = 5;
/// Dwords of data in a [`Misc`] frame (`MISC_DATA_MAX_SIZE_IN_DWORDS`).
pub const MISC_DATA_MAX_SIZE_IN_DWORDS: usize = 20;

/// First dword of a frame (`union MES_API_HEADER`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct Header(pub u32);

impl Header {
    /// `MES_API_TYPE_SCHEDULER`, the only type.
    pub const TYPE_SCHEDULER: u32 = 1;

    /// Header of a 64-dword scheduler frame.
    #[must_use]
    pub const fn new(opcode: Opcode) -> Self {
        Self(Self::TYPE_SCHEDULER | opcode.0 << 4 | (API_FRAME_SIZE_IN_DWORDS as u32) << 12)
    }

    /// Bits 3:0.
    #[must_use]
    pub const fn kind(self) -> u32 {
        self.0 & 0xf
    }

    /// Bits 11:4.
    #[must_use]
    pub const fn opcode(self) -> Opcode {
        Opcode(self.0 >> 4 & 0xff)
    }

    /// Bits 19:12, dwords including the header.
    #[must_use]
    pub const fn dwsize(self) -> u32 {
        self.0 >> 12 & 0xff
    }
}

/// What a frame asks (`enum MES_SCH_API_OPCODE`); open, for a driver may send anything.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Opcode(pub u32);

impl Opcode {
    /// Tells the scheduler which VMIDs and hardware queues are its own.
    pub const SET_HW_RSRC: Self = Self(0);
    /// Quanta per priority level.
    pub const SET_SCHEDULING_CONFIG: Self = Self(1);
    /// Makes a queue known and lets it run.
    pub const ADD_QUEUE: Self = Self(2);
    /// Stops a queue and forgets it.
    pub const REMOVE_QUEUE: Self = Self(3);
    /// Yields to a lower priority.
    pub const PERFORM_YIELD: Self = Self(4);
    /// Changes a gang's priority level.
    pub const SET_GANG_PRIORITY_LEVEL: Self = Self(5);
    /// Takes gangs off the hardware.
    pub const SUSPEND: Self = Self(6);
    /// Lets suspended gangs run again.
    pub const RESUME: Self = Self(7);
    /// Resets hung queues.
    pub const RESET: Self = Self(8);
    /// Sets a log buffer.
    pub const SET_LOG_BUFFER: Self = Self(9);
    /// Changes a gang's priority (spelled so upstream).
    pub const CHANGE_GANG_PRORITY: Self = Self(10);
    /// Does nothing but answer.
    pub const QUERY_SCHEDULER_STATUS: Self = Self(11);
    /// Programs GDS for a process.
    pub const PROGRAM_GDS: Self = Self(12);
    /// Reserves a VMID for debugging.
    pub const SET_DEBUG_VMID: Self = Self(13);
    /// A family of small requests, see [`MiscOpcode`].
    pub const MISC: Self = Self(14);
    /// Replaces a process's page table root.
    pub const UPDATE_ROOT_PAGE_TABLE: Self = Self(15);
    /// Copies the firmware's log.
    pub const AMD_LOG: Self = Self(16);
    /// More of [`Self::SET_HW_RSRC`], from firmware 0x52 on.
    pub const SET_HW_RSRC_1: Self = Self(19);

    /// Upstream's name without its `MES_SCH_API_` prefix, or `None` for what the header does not define.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::SET_HW_RSRC => "SET_HW_RSRC",
            Self::SET_SCHEDULING_CONFIG => "SET_SCHEDULING_CONFIG",
            Self::ADD_QUEUE => "ADD_QUEUE",
            Self::REMOVE_QUEUE => "REMOVE_QUEUE",
            Self::PERFORM_YIELD => "PERFORM_YIELD",
            Self::SET_GANG_PRIORITY_LEVEL => "SET_GANG_PRIORITY_LEVEL",
            Self::SUSPEND => "SUSPEND",
            Self::RESUME => "RESUME",
            Self::RESET => "RESET",
            Self::SET_LOG_BUFFER => "SET_LOG_BUFFER",
            Self::CHANGE_GANG_PRORITY => "CHANGE_GANG_PRORITY",
            Self::QUERY_SCHEDULER_STATUS => "QUERY_SCHEDULER_STATUS",
            Self::PROGRAM_GDS => "PROGRAM_GDS",
            Self::SET_DEBUG_VMID => "SET_DEBUG_VMID",
            Self::MISC => "MISC",
            Self::UPDATE_ROOT_PAGE_TABLE => "UPDATE_ROOT_PAGE_TABLE",
            Self::AMD_LOG => "AMD_LOG",
            Self::SET_HW_RSRC_1 => "SET_HW_RSRC_1",
            _ => return None,
        })
    }
}

/// Where and what a frame's completion writes, 64 bits wide (`struct MES_API_STATUS`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ApiStatus {
    /// GPU address in VMID 0.
    pub api_completion_fence_addr: U64,
    /// Value written there when the frame is done.
    pub api_completion_fence_value: U64,
}

/// `SET_HW_RSRC` (`union MESAPI_SET_HW_RESOURCES`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetHwResources {
    /// Opcode [`Opcode::SET_HW_RSRC`].
    pub header: Header,
    /// VMIDs of the MM hub the scheduler owns, one bit each.
    pub vmid_mask_mmhub: u32,
    /// VMIDs of the GC hub the scheduler owns, one bit each; amdgpu gives 8 to 15 (`0xff00`).
    pub vmid_mask_gfxhub: u32,
    /// Bytes of GDS.
    pub gds_size: u32,
    /// VMID for paging queues.
    pub paging_vmid: u32,
    /// Per compute pipe, the hardware queues the scheduler owns; amdgpu gives `0xc` on four pipes.
    pub compute_hqd_mask: [u32; MAX_COMPUTE_PIPES],
    /// The same for graphics pipes.
    pub gfx_hqd_mask: [u32; 2],
    /// The same for SDMA engines.
    pub sdma_hqd_mask: [u32; 2],
    /// Aggregated doorbell of each priority level.
    pub aggregated_doorbells: [u32; 5],
    /// Scheduler context page.
    pub g_sch_ctx_gpu_mc_ptr: U64,
    /// Query-status fence.
    pub query_status_fence_gpu_mc_ptr: U64,
    /// Dword bases of the GC register segments.
    pub gc_base: [u32; 8],
    /// Dword bases of the MMHUB register segments.
    pub mmhub_base: [u32; 8],
    /// Dword bases of the OSSSYS register segments.
    pub osssys_base: [u32; 8],
    /// Completion.
    pub api_status: ApiStatus,
    /// Option bits (`disable_reset` 0, `use_different_vmid_compute` 1, `disable_mes_log` 2, ...).
    pub flags: u32,
    /// Microseconds between looks for unmapped queues that have work.
    pub oversubscription_timer: u32,
    /// Doorbell information.
    pub doorbell_info: U64,
    /// Event log buffer.
    pub event_intr_history_gpu_mc_ptr: U64,
    /// Driver's timestamp.
    pub timestamp: U64,
    /// Watchdog of the operating system, in seconds.
    pub os_tdr_timeout_in_sec: u32,
    /// Unused rest of the frame.
    pub reserved: u32,
}

/// `SET_HW_RSRC_1` (`union MESAPI_SET_HW_RESOURCES_1`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetHwResources1 {
    /// Opcode [`Opcode::SET_HW_RSRC_1`].
    pub header: Header,
    /// Completion.
    pub api_status: ApiStatus,
    /// Driver's timestamp, for debugging.
    pub timestamp: U64,
    /// Option bits: [`Self::ENABLE_MES_INFO_CTX`], the others reserved.
    pub flags: u32,
    /// Where the firmware keeps information for a hypervisor, if asked to.
    pub mes_info_ctx_mc_addr: U64,
    /// Bytes there.
    pub mes_info_ctx_size: u32,
    /// Whatever later firmware takes: timeouts, the cleaner shader's fence.
    pub later: [u32; 53],
}

impl SetHwResources1 {
    /// `enable_mes_info_ctx` of [`Self::flags`].
    pub const ENABLE_MES_INFO_CTX: u32 = 1 << 0;
}

/// `SET_SCHEDULING_CONFIG` (`union MESAPI__SET_SCHEDULING_CONFIG`).
///
/// "In current fw, only relevant quantum is process_quantum_for_level, other fields are not used in scheduling" (AMD,
/// "Micro Engine Scheduler Specification", MES_SCH_API_SET_SCHEDULING_CONFIG).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetSchedulingConfig {
    /// Opcode [`Opcode::SET_SCHEDULING_CONFIG`].
    pub header: Header,
    /// Grace period when another level is preempted for this one.
    pub grace_period_other_levels: [U64; AMD_PRIORITY_NUM_LEVELS],
    /// Default quantum of processes within a level, in units of 100 ns.
    pub process_quantum_for_level: [U64; AMD_PRIORITY_NUM_LEVELS],
    /// Grace period of processes that preempt each other within a level.
    pub process_grace_period_same_level: [U64; AMD_PRIORITY_NUM_LEVELS],
    /// Percentage the normal level keeps when the high level starves it, 0 to 50.
    pub normal_yield_percent: u32,
    /// Completion.
    pub api_status: ApiStatus,
    /// Driver's timestamp, for debugging.
    pub timestamp: U64,
    /// Unused rest of the frame.
    pub reserved: [u32; 26],
}

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
    /// Doorbell as a dword index in the doorbell BAR.
    pub doorbell_offset: u32,
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
    /// What goes into `GCVM_CONTEXTn_CNTL` of the process's VMID.
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
    /// Where the unmapping of the queue is reported.
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
        /// `debug_vmid`, four bits, and whatever the header reserves.
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
    pub doorbell_offset: u32,
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
        /// Whatever the header reserves.
        const _ = !0;
    }
}

/// `SUSPEND` and, up to its fence fields, `RESUME` (`union MESAPI__SUSPEND`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Suspend {
    /// Opcode [`Opcode::SUSPEND`].
    pub header: Header,
    /// Bit 0: every gang.
    pub suspend_all_gangs: u32,
    /// The gang, when not all.
    pub gang_context_addr: U64,
    /// Where the end of the suspension is reported.
    pub suspend_fence_addr: U64,
    /// What is written there.
    pub suspend_fence_value: u32,
    /// Completion.
    pub api_status: ApiStatus,
    /// Unused rest of the frame.
    pub reserved: [u32; 53],
}

/// `RESUME` (`union MESAPI__RESUME`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Resume {
    /// Opcode [`Opcode::RESUME`].
    pub header: Header,
    /// Bit 0: every gang.
    pub resume_all_gangs: u32,
    /// The gang, when not all.
    pub gang_context_addr: U64,
    /// Completion.
    pub api_status: ApiStatus,
    /// Unused rest of the frame.
    pub reserved: [u32; 56],
}

/// `QUERY_SCHEDULER_STATUS` (`union MESAPI__QUERY_MES_STATUS`): answers, and does nothing else.
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryStatus {
    /// Opcode [`Opcode::QUERY_SCHEDULER_STATUS`].
    pub header: Header,
    /// `mes_healthy`, a C `bool` and its padding; the driver never reads it.
    pub mes_healthy: u32,
    /// Completion.
    pub api_status: ApiStatus,
    /// Unused rest of the frame.
    pub reserved: [u32; 58],
}

/// `MISC` (`union MESAPI__MISC`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Misc {
    /// Opcode [`Opcode::MISC`].
    pub header: Header,
    /// See [`MiscOpcode`].
    pub opcode: u32,
    /// Completion.
    pub api_status: ApiStatus,
    /// Meaning by opcode: `WRITE_REG` {offset, value}; `READ_REG` {offset, buffer address lo, hi};
    /// `WAIT_REG_MEM` {op, reference, mask, offset 1, offset 2}; register offsets are absolute dwords.
    pub data: [u32; MISC_DATA_MAX_SIZE_IN_DWORDS],
    /// Unused rest of the frame.
    pub reserved: [u32; 38],
}

/// Opcodes of [`Misc`] (`enum MESAPI_MISC_OPCODE`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MiscOpcode(pub u32);

impl MiscOpcode {
    /// Writes a register.
    pub const WRITE_REG: Self = Self(0);
    /// Invalidates GART translations.
    pub const INV_GART: Self = Self(1);
    /// Answers.
    pub const QUERY_STATUS: Self = Self(2);
    /// Reads a register into memory, 32 bits.
    pub const READ_REG: Self = Self(3);
    /// Waits for a register, or writes one and waits for another ([`WRM_OPERATION_WR_WAIT_WR_REG`]).
    pub const WAIT_REG_MEM: Self = Self(4);
    /// Debugger settings of a process.
    pub const SET_SHADER_DEBUGGER: Self = Self(5);
    /// An unmapped queue has work.
    pub const NOTIFY_WORK_ON_UNMAPPED_QUEUE: Self = Self(6);
    /// Unmap processes.
    pub const NOTIFY_TO_UNMAP_PROCESSES: Self = Self(7);
    /// Changes a setting of the scheduler.
    pub const CHANGE_CONFIG: Self = Self(8);
    /// Runs the cleaner shader.
    pub const LAUNCH_CLEANER_SHADER: Self = Self(9);
}

/// [`MiscOpcode::WAIT_REG_MEM`], op 0: wait until `(offset 1 & mask) == reference`.
pub const WRM_OPERATION_WAIT_REG_MEM: u32 = 0;
/// [`MiscOpcode::WAIT_REG_MEM`], op 1: write `reference` to offset 1, wait until offset 2 agrees with it under `mask`.
pub const WRM_OPERATION_WR_WAIT_WR_REG: u32 = 1;

/// `UPDATE_ROOT_PAGE_TABLE` (`union MESAPI__UPDATE_ROOT_PAGE_TABLE`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct UpdateRootPageTable {
    /// Opcode [`Opcode::UPDATE_ROOT_PAGE_TABLE`].
    pub header: Header,
    /// New root, as in [`AddQueue::page_table_base_addr`].
    pub page_table_base_addr: U64,
    /// Process.
    pub process_context_addr: U64,
    /// Completion.
    pub api_status: ApiStatus,
    /// Unused rest of the frame.
    pub reserved: [u32; 55],
}

/// Byte offset of the [`ApiStatus`] in a frame with this opcode, or `None` where it is not known.
#[must_use]
pub const fn api_status_offset(opcode: Opcode) -> Option<usize> {
    Some(match opcode {
        Opcode::SET_HW_RSRC => offset_of!(SetHwResources, api_status),
        Opcode::SET_SCHEDULING_CONFIG => offset_of!(SetSchedulingConfig, api_status),
        Opcode::ADD_QUEUE => offset_of!(AddQueue, api_status),
        Opcode::REMOVE_QUEUE => offset_of!(RemoveQueue, api_status),
        Opcode::SUSPEND => offset_of!(Suspend, api_status),
        Opcode::RESUME => offset_of!(Resume, api_status),
        Opcode::PERFORM_YIELD | Opcode::QUERY_SCHEDULER_STATUS => offset_of!(QueryStatus, api_status),
        Opcode::MISC => offset_of!(Misc, api_status),
        Opcode::UPDATE_ROOT_PAGE_TABLE => offset_of!(UpdateRootPageTable, api_status),
        Opcode::SET_HW_RSRC_1 => offset_of!(SetHwResources1, api_status),
        _ => return None,
    })
}

const _: () = {
    assert!(size_of::<SetHwResources>() == FRAME_SIZE);
    assert!(offset_of!(SetHwResources, g_sch_ctx_gpu_mc_ptr) == 0x58);
    assert!(offset_of!(SetHwResources, api_status) == 0xc8);
    assert!(size_of::<SetHwResources1>() == FRAME_SIZE);
    assert!(offset_of!(SetHwResources1, api_status) == 4);
    assert!(offset_of!(SetHwResources1, flags) == 0x1c);
    assert!(offset_of!(SetHwResources1, later) == 0x2c);
    assert!(size_of::<SetSchedulingConfig>() == FRAME_SIZE);
    assert!(offset_of!(SetSchedulingConfig, process_quantum_for_level) == 0x2c);
    assert!(offset_of!(SetSchedulingConfig, api_status) == 0x80);
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
    assert!(size_of::<Suspend>() == FRAME_SIZE);
    assert!(size_of::<Resume>() == FRAME_SIZE);
    assert!(size_of::<QueryStatus>() == FRAME_SIZE);
    assert!(size_of::<Misc>() == FRAME_SIZE);
    assert!(offset_of!(Misc, data) == 0x18);
    assert!(size_of::<UpdateRootPageTable>() == FRAME_SIZE);
};
