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

/// The data of [`MiscOpcode::SET_SHADER_DEBUGGER`] (`struct SET_SHADER_DEBUGGER`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SetShaderDebugger {
    /// Process, by the address of its context.
    pub process_context_addr: u64,
    /// See the constants of this type.
    pub flags: u32,
    /// `SPI_GDBG_PER_VMID_CNTL` of its VMID.
    pub spi_gdbg_per_vmid_cntl: u32,
    /// `TCP_WATCHn_CNTL`, while the process is on the GPU.
    pub tcp_watch_cntl: [u32; 4],
    /// Traps are enabled.
    pub trap_en: u32,
}

impl SetShaderDebugger {
    /// `SQ_DEBUG.SINGLE_MEMOP`.
    pub const SINGLE_MEMOP: u32 = 1;
    /// `SQ_DEBUG.SINGLE_ALU_OP`.
    pub const SINGLE_ALU_OP: u32 = 1 << 1;
    /// Forget the process; the other fields do not count.
    pub const PROCESS_CTX_FLUSH: u32 = 1 << 31;
    /// The flags above.
    pub const KNOWN_FLAGS: u32 = Self::SINGLE_MEMOP | Self::SINGLE_ALU_OP | Self::PROCESS_CTX_FLUSH;

    /// Reads the fields from a frame's data.
    #[must_use]
    pub fn of(frame: &Misc) -> Self {
        let [low, high, flags, spi, watch0, watch1, watch2, watch3, trap_en, ..] = frame.data;
        Self {
            process_context_addr: u64::from(high) << 32 | u64::from(low),
            flags,
            spi_gdbg_per_vmid_cntl: spi,
            tcp_watch_cntl: [watch0, watch1, watch2, watch3],
            trap_en,
        }
    }

    /// As the first words of a frame's data.
    #[must_use]
    pub fn data(&self) -> [u32; 9] {
        let [watch0, watch1, watch2, watch3] = self.tcp_watch_cntl;
        let process = self.process_context_addr;
        let (low, high) = (process as u32, (process >> 32) as u32);
        [low, high, self.flags, self.spi_gdbg_per_vmid_cntl, watch0, watch1, watch2, watch3, self.trap_en]
    }
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
