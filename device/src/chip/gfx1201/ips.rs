//! IP blocks of Navi 48 and the places of their registers, in dwords: the one table of this chip.
//!
//! Versions: those that linux 6.12 and later bind to a Radeon RX 9070 (`amdgpu_discovery.c`). Bases: those of
//! Navi 31, which agree with the block-base comments of `gc_12_0_0_offset.h` and its neighbours.

use belfry_abi::regs::Ip;

use crate::chip::IpBlock;

const GC_BASES: &[u32] = &[0x1260, 0xa000, 0x1_c000, 0x240_2c00];
const MP_BASES: &[u32] = &[0x1_6000, 0xdc_0000, 0xe0_0000, 0xe4_0000, 0x243_fc00];

/// Every block, in the order of the discovery table.
pub(super) const IPS: &[IpBlock] = &[
    IpBlock::new(Ip::GC, [12, 0, 1], GC_BASES),
    // The SDMA engines lie in the graphics core's segments.
    IpBlock::new(Ip::SDMA0, [7, 0, 1], GC_BASES),
    IpBlock::new(Ip::SDMA1, [7, 0, 1], GC_BASES),
    IpBlock::new(Ip::MMHUB, [4, 1, 0], &[0x1_a000, 0x240_8800]),
    IpBlock::new(Ip::ATHUB, [4, 1, 0], &[0xc00, 0x240_8c00]),
    IpBlock::new(Ip::HDP, [7, 0, 0], &[0xf20, 0x240_a400]),
    IpBlock::new(Ip::OSSSYS, [7, 0, 0], &[0x10a0, 0x240_a000]),
    IpBlock::new(Ip::NBIF, [6, 3, 1], &[0, 0x14, 0xd20, 0x1_0400, 0x241_b000, 0x404_0000]),
    IpBlock::new(Ip::MP0, [14, 0, 3], MP_BASES),
    IpBlock::new(Ip::MP1, [14, 0, 3], MP_BASES),
    IpBlock::new(Ip::SMUIO, [14, 0, 2], &[0x1_6800, 0x1_6a00, 0x44_0000, 0x240_1000]),
    // As on a card whose video blocks are fused off.
    IpBlock { harvested: true, ..IpBlock::new(Ip::VCN, [5, 0, 0], &[0x7800, 0x7e00, 0x240_3000]) },
];
