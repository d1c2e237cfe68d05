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

    /// Bits 23:16 of the fourth dword: die or XCC that the interrupt comes from, on chips of several dies ([`node`]).
    #[must_use]
    pub const fn node(&self) -> u8 {
        (self.pasid >> 16) as u8
    }

    /// The entry of another node.
    #[must_use]
    pub const fn from_node(self, node: u8) -> Self {
        Self { pasid: self.pasid & !(0xff << 16) | (node as u32) << 16, ..self }
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

/// Clients of MI300X (`enum soc15_ih_clientid`) that Navi does not have.
impl Client {
    /// `SOC15_IH_CLIENTID_IH`: the interrupt handler itself, which tells in ring 0 of entries in the ring that the entry names.
    pub const IH: Self = Self(0);
    /// `SOC15_IH_CLIENTID_SE0SH`; SE1 to SE3 follow.
    pub const SE0SH: Self = Self(0x0a);
    /// `SOC15_IH_CLIENTID_VMC1`.
    pub const VMC1: Self = Self(0x06);
    /// `SOC15_IH_CLIENTID_SDMA0` to `SDMA3`: engine e is client e % 4 of the die e / 4 (linux `sdma_v4_4_2.c`,
    /// `sdma_v4_4_2_seq_to_irq_id`).
    pub const SDMA: [Self; 4] = [Self(0x08), Self(0x09), Self(0x01), Self(0x04)];
}

/// Nodes of MI300X, as its interrupt entries number them (linux `amdgpu_amdkfd.h`, `kfd_int_process_v9.c`).
pub mod node {
    /// The node of an accelerator die.
    #[must_use]
    pub const fn of_die(die: u8) -> u8 {
        4 * die
    }

    /// The node of a physical XCC; each die has two XCCs.
    #[must_use]
    pub const fn of_xcc(xcc: u8) -> u8 {
        4 * (xcc / 2) + 1 + xcc % 2
    }

    /// The physical XCC of a node; `None` for a die itself.
    #[must_use]
    pub const fn xcc(node: u8) -> Option<u8> {
        match node % 4 {
            1 => Some(node / 4 * 2),
            2 => Some(node / 4 * 2 + 1),
            _ => None,
        }
    }
}

/// Cause of an interrupt, within a [`Client`] (`GFX_11_0_0__SRCID__*`); open.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Source(pub u8);

impl Source {
    /// UTCL2 fault (`UTCL2_FAULT`), client GFX on gfx11.
    pub const UTCL2_FAULT: Self = Self(0);
    /// `SDMA_TRAP`.
    pub const SDMA_TRAP: Self = Self(49);
    /// `SDMA0_4_0__SRCID__SDMA_TRAP` of gfx9 (linux `ivsrcid/sdma0/irqsrcs_sdma0_4_0.h`).
    pub const SDMA4_TRAP: Self = Self(224);
    /// `SDMA_ECC`: the engine has read memory with an error that cannot be corrected (linux `soc15_int.h`, `SOC21_INTSRC_SDMA_ECC`).
    pub const SDMA_ECC: Self = Self(62);
    /// `SDMA0_4_0__SRCID__SDMA_SRAM_ECC` of gfx9: the engine has read memory with an error that cannot be
    /// corrected (linux `soc15_int.h`, `SOC15_INTSRC_SDMA_ECC`).
    pub const SDMA4_ECC: Self = Self(220);
    /// `SDMA0_4_0__SRCID__SDMA_FROZEN` of gfx9.
    pub const SDMA4_FROZEN: Self = Self(245);
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

/// Types of the shader's errors (`enum SQ_INTERRUPT_ERROR_TYPE`), in `data[0]` bits 24:21 on gfx11; [`sq_gfx9`] has their place on
/// gfx9.
pub mod sq_error {
    /// Place of the type on gfx11 (`SQ_INTERRUPT_WORD_ERROR_CTXID0.TYPE`).
    pub const TYPE_SHIFT: u32 = 21;
    /// Bits of a type.
    pub const TYPE: u32 = 0xf;
    /// An error that cannot be corrected stopped the wave (`EDC_FUE`).
    pub const EDC_FUE: u32 = 0;
    /// An illegal instruction (`ILLEGAL_INST`).
    pub const ILLEGAL_INST: u32 = 1;
    /// An access outside of an aperture (`MEMVIOL`).
    pub const MEMVIOL: u32 = 2;
    /// An error was found in data that the wave had read (`EDC_FED`).
    pub const EDC_FED: u32 = 3;

    /// Returns true if a wave with an error of this type has consumed poison, by amdkfd's rule.
    #[must_use]
    pub const fn is_poison(kind: u32) -> bool {
        !matches!(kind & TYPE, ILLEGAL_INST | MEMVIOL)
    }
}

/// Context words of SQ interrupts on gfx9 (linux `kfd_int_process_v9.c`, `SQ_INTERRUPT_WORD_*`): one word of 44 bits, which
/// `data[0]` and bits 7:0 of `data[1]` have, with [`sq_encoding`] in bits 27:26.
pub mod sq_gfx9 {
    /// `SQ_INTERRUPT_WORD_WAVE_CTXID.PRIV`.
    pub const PRIVILEGED: u32 = 1 << 13;
    /// Place of the encoding in `data[0]`.
    pub const ENCODING_SHIFT: u32 = 26;
    /// Place of an error's type in its 24 bits of payload.
    pub const ERROR_TYPE_SHIFT: u32 = 20;

    /// Words with 24 bits of payload, which are in bits 11:0 and 31:28 of the first and 7:0 of the second.
    #[must_use]
    pub const fn words(encoding: u32, payload: u32) -> [u32; 2] {
        let low = payload & 0xfff | (payload >> 12 & 0xf) << 28;
        [low | (encoding & 3) << ENCODING_SHIFT, payload >> 16 & 0xff]
    }

    /// The encoding, and the payload.
    #[must_use]
    pub const fn parts(words: [u32; 2]) -> (u32, u32) {
        let payload = words[0] & 0xfff | (words[0] >> 28) << 12 | (words[1] & 0xff) << 16;
        (words[0] >> ENCODING_SHIFT & 3, payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_those_of_two_xccs_per_die() {
        assert_eq!([0, 1, 2, 3, 6, 7].map(node::of_xcc), [1, 2, 5, 6, 13, 14]);
        assert_eq!([0, 1, 2, 4, 14].map(node::xcc), [None, Some(0), Some(1), None, Some(7)]);
        let entry =
            IhEntry::new(Client::SE0SH, Source::SQ_INTERRUPT, 0, 3, 0x8001).from_node(node::of_xcc(3));
        assert_eq!((entry.node(), entry.pasid(), entry.pasid), (6, 0x8001, 0x6_8001));
        assert_eq!(entry.from_node(0).pasid, 0x8001);
    }

    #[test]
    fn words_of_gfx9_have_their_payload_around_the_place() {
        let words = sq_gfx9::words(sq_encoding::INST, 0x12_3456);
        assert_eq!(words, [3 << 28 | 1 << 26 | 0x456, 0x12]);
        assert_eq!(sq_gfx9::parts(words), (sq_encoding::INST, 0x12_3456));
        // The driver's own bits do not count.
        assert_eq!(sq_gfx9::parts([words[0] | sq_gfx9::PRIVILEGED, 0x12]), (1, 0x12_3456));
    }
}
