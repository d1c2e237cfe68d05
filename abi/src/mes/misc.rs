//! The family of small requests: registers, invalidations, notices.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[cfg(doc)]
use super::Opcode;
use super::{ApiStatus, FRAME_SIZE, Header, MISC_DATA_MAX_SIZE_IN_DWORDS};

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

const _: () = {
    assert!(size_of::<Misc>() == FRAME_SIZE);
    assert!(offset_of!(Misc, data) == 0x18);
};
