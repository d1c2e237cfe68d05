//! IP blocks of Navi 31 and the places of their registers, in dwords: the one table of this chip.
//!
//! The IP discovery table is written from it, and the register file resolves addresses by it. Bases: the discovery table
//! of a card, and the block-base comments of Linux `drivers/gpu/drm/amd/include/asic_reg`.

use belfry_abi::regs::{Ip, Register};

use crate::chip::IpBlock;

const GC_BASES: &[u32] = &[0x1260, 0xa000, 0x1_c000, 0x240_2c00];
const MP_BASES: &[u32] = &[0x1_6000, 0xdc_0000, 0xe0_0000, 0xe4_0000, 0x243_fc00];

/// Every block, in the order of the discovery table.
pub(super) const IPS: &[IpBlock] = &[
    IpBlock::new(Ip::GC, [11, 0, 0], GC_BASES),
    // The SDMA engines lie in the graphics core's segments.
    IpBlock::new(Ip::SDMA0, [6, 0, 0], GC_BASES),
    IpBlock::new(Ip::SDMA1, [6, 0, 0], GC_BASES),
    IpBlock::new(Ip::MMHUB, [3, 0, 0], &[0x1_a000, 0x240_8800]),
    IpBlock::new(Ip::ATHUB, [3, 0, 0], &[0xc00, 0x240_8c00]),
    IpBlock::new(Ip::HDP, [6, 0, 0], &[0xf20, 0x240_a400]),
    IpBlock::new(Ip::OSSSYS, [6, 0, 0], &[0x10a0, 0x240_a000]),
    IpBlock::new(Ip::NBIF, [4, 3, 0], &[0, 0x14, 0xd20, 0x1_0400, 0x241_b000, 0x404_0000]),
    IpBlock::new(Ip::MP0, [13, 0, 0], MP_BASES),
    IpBlock::new(Ip::MP1, [13, 0, 0], MP_BASES),
    IpBlock::new(Ip::SMUIO, [13, 0, 6], &[0x1_6800, 0x1_6a00, 0x44_0000, 0x240_1000]),
    IpBlock::new(Ip::THM, [13, 0, 2], &[0x1_6600, 0x240_0c00]),
    // As on a card whose video blocks are fused off.
    IpBlock { harvested: true, ..IpBlock::new(Ip::VCN, [4, 0, 0], &[0x7800, 0x7e00, 0x240_3000]) },
];

/// Absolute dword index of a register on this chip, for code that drives it without reading its discovery
/// table.
///
/// # Panics
///
/// If the chip does not have the register's block or segment.
#[must_use]
pub const fn dword<R: Register>() -> u32 {
    let mut at = 0;
    while at < IPS.len() {
        if IPS[at].ip.0 == R::IP.0 && IPS[at].instance == 0 {
            return IPS[at].bases[R::AT.segment as usize] + R::AT.dword;
        }
        at += 1;
    }
    panic!("the chip has no such block")
}
