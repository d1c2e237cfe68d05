//! Entries of the interrupt handler ring (IH).
//!
//! Layout: Linux `drivers/gpu/drm/amd/amdgpu/amdgpu_ih.c`, `amdgpu_ih_decode_iv_helper`, and `amdkfd/soc15_int.h`.
//! Client ids: `include/soc15_ih_clientid.h` (`enum soc21_ih_clientid`); source ids:
//! `include/ivsrcid/gfx/irqsrcs_gfx_11_0_0.h`; context words: `amdkfd/kfd_int_process_v11.c`.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of one entry.
pub const ENTRY_SIZE: u32 = 32;

/// One interrupt, eight dwords.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct IhEntry {
    /// Client 7:0, source 15:8, ring 23:16, VMID 27:24, VMID type (hub) 31.
    pub header: u32,
    /// Timestamp bits 31:0.
    pub timestamp_lo: u32,
    /// Timestamp bits 47:32 in 15:0, timestamp source in bit 31.
    pub timestamp_hi: u32,
    /// PASID 15:0, node 23:16.
    pub pasid: u32,
    /// Context words (`src_data`).
    pub data: [u32; 4],
}

const _: () = assert!(size_of::<IhEntry>() == ENTRY_SIZE as usize);

impl IhEntry {
    /// Entry without context words and timestamp; `vmid` is taken modulo 16.
    #[must_use]
    pub const fn new(client: Client, source: Source, ring: u8, vmid: u8, pasid: u16) -> Self {
        Self {
            header: client.0 as u32
                | (source.0 as u32) << 8
                | (ring as u32) << 16
                | ((vmid & 0xf) as u32) << 24,
            timestamp_lo: 0,
            timestamp_hi: 0,
            pasid: pasid as u32,
            data: [0; 4],
        }
    }

    /// Bits 7:0 of the header.
    #[must_use]
    pub const fn client(&self) -> Client {
        Client(self.header as u8)
    }

    /// Bits 15:8 of the header.
    #[must_use]
    pub const fn source(&self) -> Source {
        Source((self.header >> 8) as u8)
    }

    /// Bits 23:16 of the header: for CP, queue 6:4, me 3:2, pipe 1:0.
    #[must_use]
    pub const fn ring(&self) -> u8 {
        (self.header >> 16) as u8
    }

    /// Bits 27:24 of the header.
    #[must_use]
    pub const fn vmid(&self) -> u8 {
        (self.header >> 24 & 0xf) as u8
    }

    /// Bits 15:0 of the fourth dword.
    #[must_use]
    pub const fn pasid(&self) -> u16 {
        self.pasid as u16
    }

    /// 48-bit timestamp in ticks of the 100 MHz counter.
    #[must_use]
    pub const fn timestamp(&self) -> u64 {
        (self.timestamp_hi as u64 & 0xffff) << 32 | self.timestamp_lo as u64
    }

    /// Page number a VM fault names (`data[0]` and the low four bits of `data[1]`).
    #[must_use]
    pub const fn fault_page(&self) -> u64 {
        (self.data[1] as u64 & 0xf) << 32 | self.data[0] as u64
    }
}

/// Block an interrupt comes from (`enum soc21_ih_clientid`); open.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Client(pub u8);

impl Client {
    /// `SOC21_IH_CLIENTID_GFX`.
    pub const GFX: Self = Self(0x0a);
    /// `SOC21_IH_CLIENTID_VMC`: memory faults of the MM hub.
    pub const VMC: Self = Self(0x12);
    /// `SOC21_IH_CLIENTID_GRBM_CP`.
    pub const GRBM_CP: Self = Self(0x14);
    /// `SOC15_IH_CLIENTID_UTCL2`.
    pub const UTCL2: Self = Self(0x1b);
}

/// What happened, within a [`Client`] (`GFX_11_0_0__SRCID__*`); open.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Source(pub u8);

impl Source {
    /// UTCL2 fault (`UTCL2_FAULT`), client GFX on gfx11.
    pub const UTCL2_FAULT: Self = Self(0);
    /// `SDMA_TRAP`.
    pub const SDMA_TRAP: Self = Self(49);
    /// `SDMA_QUEUE_HANG`.
    pub const SDMA_QUEUE_HANG: Self = Self(55);
    /// `CP_EOP_INTERRUPT`.
    pub const CP_EOP_INTERRUPT: Self = Self(181);
    /// `CP_BAD_OPCODE_ERROR`.
    pub const CP_BAD_OPCODE_ERROR: Self = Self(183);
    /// `CP_PRIV_REG_FAULT`.
    pub const CP_PRIV_REG_FAULT: Self = Self(184);
    /// `CP_PRIV_INSTR_FAULT`.
    pub const CP_PRIV_INSTR_FAULT: Self = Self(185);
    /// `SQ_INTERRUPT_ID`.
    pub const SQ_INTERRUPT: Self = Self(239);
}

/// Bit of `IhEntry::ring` in a UTCL2 fault: the page is not present (`kfd_int_process_v11.c`).
pub const FAULT_RING_VALID: u8 = 1 << 3;
/// The access was a read.
pub const FAULT_RING_READ: u8 = 1 << 4;
/// The access was a write.
pub const FAULT_RING_WRITE: u8 = 1 << 5;

/// SQ interrupt encodings in `data[1]` bits 7:6 (`enum SQ_INTERRUPT_WORD_ENCODING`).
pub mod sq_encoding {
    /// Automatic (performance counters, thread trace).
    pub const AUTO: u32 = 0;
    /// An instruction: `s_sendmsg MSG_INTERRUPT`, `s_trap`; `data[0]` bits 23:0 hold the payload.
    pub const INST: u32 = 1;
    /// An error of the shader.
    pub const ERROR: u32 = 2;
}
