//! Frames that give the scheduler its resources and time limits.

use core::mem::{offset_of, size_of};

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[cfg(doc)]
use super::Opcode;
use super::{AMD_PRIORITY_NUM_LEVELS, ApiStatus, FRAME_SIZE, Header, MAX_COMPUTE_PIPES};

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
    /// Per graphics pipe, the hardware queues the scheduler owns.
    pub gfx_hqd_mask: [u32; 2],
    /// Per SDMA engine, the hardware queues the scheduler owns.
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
    /// Address at which the firmware keeps information for a hypervisor, if asked to.
    pub mes_info_ctx_mc_addr: U64,
    /// Bytes there.
    pub mes_info_ctx_size: u32,
    /// Fields of later firmware: timeouts, the cleaner shader's fence.
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
};
