//! Registers of Navi 31: this driver is for one card, and takes the bases of its blocks as given.
//!
//! Bases: Linux `drivers/gpu/drm/amd/include`, the block-base comments of `asic_reg`. A driver for more than one card reads
//! them in the card's IP discovery table.

use belfry_abi::regs::{Ip, Register};

/// Blocks the driver uses, and the dword bases of their segments.
const BASES: [(Ip, &[u32]); 5] = [
    (Ip::GC, &[0x1260, 0xa000]),
    (Ip::MMHUB, &[0x1_a000]),
    (Ip::OSSSYS, &[0x10a0]),
    (Ip::NBIF, &[0, 0x14, 0xd20, 0x1_0400]),
    (Ip::SMUIO, &[0x1_6800, 0x1_6a00]),
];

/// Dword index of a register in BAR5, known when the driver is built.
pub const fn dword<R: Register>() -> u32 {
    let mut at = 0;
    while at < BASES.len() {
        let (ip, bases) = BASES[at];
        if ip.0 == R::IP.0 {
            return bases[R::AT.segment as usize] + R::AT.dword;
        }
        at += 1;
    }
    panic!("register of a block that this driver does not know")
}

/// Offset of a register in BAR5, in bytes.
pub const fn offset<R: Register>() -> u64 {
    dword::<R>() as u64 * 4
}
