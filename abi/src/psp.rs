//! Commands of the platform security processor (PSP): those of its boot loader and of its operating system's ring.
//!
//! Layouts: Linux `drivers/gpu/drm/amd/amdgpu/psp_gfx_if.h` (`psp_gfx_rb_frame`, `psp_gfx_cmd_resp`, `psp_gfx_resp`) and
//! `amdgpu_psp.h` (`psp_bootloader_cmd`). All addresses are those of VMID 0.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A command of the boot loader, written to `MP0_SMN_C2PMSG_35` (`psp_bootloader_cmd`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BootCommand(pub u32);

impl BootCommand {
    /// System driver, which the operating system needs.
    pub const SYSDRV: Self = Self(0x1_0000);
    /// Operating system.
    pub const SOSDRV: Self = Self(0x2_0000);
    /// Key database.
    pub const KEY_DATABASE: Self = Self(0x8_0000);
    /// Driver of the chip.
    pub const SOCDRV: Self = Self(0xb_0000);
    /// Driver for debugging.
    pub const DBGDRV: Self = Self(0xc_0000);
    /// Driver of interfaces.
    pub const INTFDRV: Self = Self(0xd_0000);
    /// Driver of error reports.
    pub const RASDRV: Self = Self(0xe_0000);
    /// Driver of the key manager.
    pub const IPKEYMGRDRV: Self = Self(0xf_0000);
    /// Table of the least versions that may be loaded.
    pub const TOS_SPL_TABLE: Self = Self(0x1000_0000);
}

/// Bit of an answer in `MP0_SMN_C2PMSG_35` and `MP0_SMN_C2PMSG_64` (`GFX_FLAG_RESPONSE`).
pub const RESPONSE: u32 = 1 << 31;
/// Bits of the status of an answer (`GFX_CMD_STATUS_MASK`).
pub const STATUS_MASK: u32 = 0xffff;

/// A command about the ring, written to `MP0_SMN_C2PMSG_64` (`psp_gfx_crtl_cmd_id`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RingCommand(pub u32);

impl RingCommand {
    /// Begin the ring of the kernel's driver.
    pub const INIT_GPCOM_RING: Self = Self(0x2_0000);
    /// End all rings.
    pub const DESTROY_RINGS: Self = Self(0x3_0000);
    /// End the ring of the kernel's driver.
    pub const DESTROY_GPCOM_RING: Self = Self(0xc_0000);
}

/// A command of the ring (`psp_gfx_cmd_id`).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Command(pub u32);

impl Command {
    /// Load a trusted application.
    pub const LOAD_TA: Self = Self(1);
    /// Unload a trusted application.
    pub const UNLOAD_TA: Self = Self(2);
    /// Call a trusted application.
    pub const INVOKE_CMD: Self = Self(3);
    /// Load the driver of applications.
    pub const LOAD_ASD: Self = Self(4);
    /// Give the PSP its trusted memory region.
    pub const SETUP_TMR: Self = Self(5);
    /// Load the firmware of a block.
    pub const LOAD_IP_FW: Self = Self(6);
    /// Take the trusted memory region back.
    pub const DESTROY_TMR: Self = Self(7);
    /// Write a register that drivers may not write.
    pub const PROG_REG: Self = Self(0xb);
    /// Ask for the records of loaded firmware.
    pub const GET_FW_ATTESTATION: Self = Self(0xf);
    /// Load the table of contents, and ask for the size of the trusted memory region.
    pub const LOAD_TOC: Self = Self(0x20);
    /// Start the RLC, which loads the firmware of the graphics core.
    pub const AUTOLOAD_RLC: Self = Self(0x21);
    /// Read or write settings of the boot.
    pub const BOOT_CFG: Self = Self(0x22);

    /// Upstream's name, without its prefix.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::LOAD_TA => "LOAD_TA",
            Self::UNLOAD_TA => "UNLOAD_TA",
            Self::INVOKE_CMD => "INVOKE_CMD",
            Self::LOAD_ASD => "LOAD_ASD",
            Self::SETUP_TMR => "SETUP_TMR",
            Self::LOAD_IP_FW => "LOAD_IP_FW",
            Self::DESTROY_TMR => "DESTROY_TMR",
            Self::PROG_REG => "PROG_REG",
            Self::GET_FW_ATTESTATION => "GET_FW_ATTESTATION",
            Self::LOAD_TOC => "LOAD_TOC",
            Self::AUTOLOAD_RLC => "AUTOLOAD_RLC",
            Self::BOOT_CFG => "BOOT_CFG",
            _ => return None,
        })
    }
}

/// An entry of the ring, `psp_gfx_rb_frame`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Frame {
    /// Address of the [`CommandBuffer`], low half.
    pub cmd_buf_addr_lo: u32,
    /// Address of the command, high half.
    pub cmd_buf_addr_hi: u32,
    /// Bytes of the command.
    pub cmd_buf_size: u32,
    /// Address of the fence, low half.
    pub fence_addr_lo: u32,
    /// Address of the fence, high half.
    pub fence_addr_hi: u32,
    /// Value that is written to the fence when the command is done.
    pub fence_value: u32,
    /// Session of another system, low half.
    pub sid_lo: u32,
    /// Session of another system, high half.
    pub sid_hi: u32,
    /// VMID of addresses, and the kind of frame.
    pub vmid_and_type: u32,
    /// Reserved.
    pub reserved: [u32; 7],
}

/// Dwords of a [`Frame`].
pub const FRAME_DWORDS: u32 = (size_of::<Frame>() / 4) as u32;

/// The part of a command that the driver writes, the beginning of `psp_gfx_cmd_resp`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct CommandBuffer {
    /// Bytes of the buffer.
    pub buf_size: u32,
    /// Version of the layout.
    pub buf_version: u32,
    /// [`Command`].
    pub cmd_id: u32,
    /// Address of a buffer for the answer, low half; 0: it is in this buffer.
    pub resp_buf_addr_lo: u32,
    /// Address of a buffer for the answer, high half.
    pub resp_buf_addr_hi: u32,
    /// Offset of the answer.
    pub resp_offset: u32,
    /// Bytes of the answer.
    pub resp_buf_size: u32,
    /// First arguments.
    ///
    /// | command | arguments |
    /// | --- | --- |
    /// | LOAD_TA, LOAD_ASD | address of the application (2), its bytes, address of its buffer (2), the buffer's bytes |
    /// | UNLOAD_TA, INVOKE_CMD | session |
    /// | SETUP_TMR | address of the region (2), its bytes, flags, address for the system (2) |
    /// | LOAD_IP_FW | address of the firmware (2), its bytes, its type |
    /// | LOAD_TOC | address of the table (2), its bytes |
    pub arguments: [u32; 6],
}

/// Offset of the [`Response`] in a command's buffer.
pub const RESPONSE_OFFSET: u64 = 864;

/// The answer to a command, `psp_gfx_resp` up to its reserved part.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Response {
    /// [`Status`].
    pub status: u32,
    /// Session of a loaded application.
    pub session_id: u32,
    /// Address of loaded firmware, low half.
    pub fw_addr_lo: u32,
    /// Address of loaded firmware, high half.
    pub fw_addr_hi: u32,
    /// Bytes of the trusted memory region.
    pub tmr_size: u32,
}

/// Status of an answer (`TEE_*` of `psp_gfx_if.h`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status(pub u32);

impl Status {
    /// The command is done.
    pub const SUCCESS: Self = Self(0);
    /// The command was given up.
    pub const CANCEL: Self = Self(0xffff_0002);
    /// There is no such command.
    pub const NOT_SUPPORTED: Self = Self(0xffff_000a);
}

const _: () = {
    assert!(size_of::<Frame>() == 64);
    assert!(offset_of!(Frame, fence_addr_lo) == 12);
    assert!(offset_of!(Frame, fence_value) == 20);
    assert!(offset_of!(CommandBuffer, cmd_id) == 8);
    assert!(offset_of!(CommandBuffer, arguments) == 28);
    assert!(offset_of!(Response, tmr_size) == 16);
};
