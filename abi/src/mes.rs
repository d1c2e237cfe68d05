//! Frames of the micro engine scheduler (MES): the types are those of version 11, and [`v12`] has the other version.
//!
//! A driver writes frames of 64 dwords into the MES ring; the scheduler answers each by writing the frame's
//! [`ApiStatus::api_completion_fence_value`] to [`ApiStatus::api_completion_fence_addr`], and does not answer
//! a frame that it cannot execute. Published in Linux `drivers/gpu/drm/amd/include/mes_v11_api_def.h`, which
//! packs everything to four bytes: 64-bit fields are therefore byte-order types without alignment here.

mod hardware;
mod misc;
mod queue;
pub mod v12;

use core::mem::{offset_of, size_of};

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use hardware::{SetHwResources, SetHwResources1, SetSchedulingConfig};
pub use misc::{
    Misc, MiscOpcode, SetShaderDebugger, WRM_OPERATION_WAIT_REG_MEM, WRM_OPERATION_WR_WAIT_WR_REG,
};
pub use queue::{AddQueue, AddQueueFlags, QueueType, RemoveQueue, RemoveQueueFlags};

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

/// Request of a frame (`enum MES_SCH_API_OPCODE`); open, for a driver may send anything.
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

    /// Upstream's name without its `MES_SCH_API_` prefix; `None` for an opcode that the header does not
    /// define.
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

/// Address and value that a frame's completion writes, 64 bits wide (`struct MES_API_STATUS`).
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ApiStatus {
    /// GPU address in VMID 0.
    pub api_completion_fence_addr: U64,
    /// Value written there when the frame is done.
    pub api_completion_fence_value: U64,
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
    /// GPU address that receives the report of the end of the suspension.
    pub suspend_fence_addr: U64,
    /// Value written there.
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
    assert!(size_of::<Suspend>() == FRAME_SIZE);
    assert!(size_of::<Resume>() == FRAME_SIZE);
    assert!(size_of::<QueryStatus>() == FRAME_SIZE);
    assert!(size_of::<UpdateRootPageTable>() == FRAME_SIZE);
};
