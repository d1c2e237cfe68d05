//! IP blocks of Strix Halo and the places of their registers, in dwords: the one table of this chip.
//!
//! Versions: those of the cases beside GC 11.5.1 in linux 6.12 (`amdgpu_discovery.c`); which of them a Strix Halo has is from
//! memory for SDMA, MMHUB, NBIO, MP0 and MP1, and chosen for the others (docs/chips.md). Bases: those of Navi 31, except for the memory
//! hub, whose block-base comments (`mmhub_3_3_0_offset.h`) put its second segment where Navi 31 has the first.

use belfry_abi::regs::Ip;

use crate::chip::IpBlock;

const GC_BASES: &[u32] = &[0x1260, 0xa000, 0x1_c000, 0x240_2c00];
const MP_BASES: &[u32] = &[0x1_6000, 0xdc_0000, 0xe0_0000, 0xe4_0000, 0x243_fc00];

/// Every block, in the order of the discovery table.
pub(super) const IPS: &[IpBlock] = &[
    IpBlock::new(Ip::GC, [11, 5, 1], GC_BASES),
    // The SDMA engine lies in the graphics core's segments; `gc_11_5_0_offset.h` has one.
    IpBlock::new(Ip::SDMA0, [6, 1, 1], GC_BASES),
    IpBlock::new(Ip::MMHUB, [3, 3, 1], &[0x1_3200, 0x1_a000, 0x240_8800]),
    IpBlock::new(Ip::ATHUB, [3, 3, 0], &[0xc00, 0x240_8c00]),
    IpBlock::new(Ip::HDP, [6, 1, 0], &[0xf20, 0x240_a400]),
    IpBlock::new(Ip::OSSSYS, [6, 1, 0], &[0x10a0, 0x240_a000]),
    IpBlock::new(Ip::NBIF, [7, 11, 1], &[0, 0x14, 0xd20, 0x1_0400, 0x241_b000, 0x404_0000]),
    IpBlock::new(Ip::MP0, [14, 0, 1], MP_BASES),
    IpBlock::new(Ip::MP1, [14, 0, 1], MP_BASES),
    IpBlock::new(Ip::SMUIO, [14, 0, 1], &[0x1_6800, 0x1_6a00, 0x44_0000, 0x240_1000]),
    // As on a card whose video blocks are fused off.
    IpBlock { harvested: true, ..IpBlock::new(Ip::VCN, [4, 0, 6], &[0x7800, 0x7e00, 0x240_3000]) },
];
