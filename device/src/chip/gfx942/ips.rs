//! IP blocks of MI300X and the places of their registers, in dwords.
//!
//! Versions: those that linux binds to an MI300X (`amdgpu_discovery.c`, `aqua_vanjaram.c`). Bases of the
//! graphics cores and SDMA engines are those that gem5's model of the chip has from a card's table; the bases
//! of other blocks are in the block-base comments of the `asic_reg` headers. `docs/chips.md` says which bases
//! are our choice.

use belfry_abi::regs::Ip;

use crate::chip::{IpBlock, Shape};

use super::super::instinct::Versions;

/// XCCs of the whole chip.
pub(in crate::chip) const XCCS: u32 = 8;
/// XCCs of an accelerator die.
const XCCS_PER_DIE: u32 = 2;
/// SDMA engines of a die.
const ENGINES_PER_DIE: u32 = 4;
/// Distance of the segments of one XCC from those of the next.
pub(in crate::chip) const XCC_STRIDE: u32 = 0x1_0000;
/// Distance of a die's memory hub and SDMA engines from those of the next.
pub(in crate::chip) const DIE_STRIDE: u32 = 0x2_0000;

/// Segments of the graphics core of each XCC.
static GC_BASES: [[u32; 2]; XCCS as usize] = {
    let mut bases = [[0x2000, 0xa000]; XCCS as usize];
    let mut xcc = 0;
    while xcc < XCCS {
        bases[xcc as usize] = [0x2000 + xcc * XCC_STRIDE, 0xa000 + xcc * XCC_STRIDE];
        xcc += 1;
    }
    bases
};

/// Segment of each SDMA engine.
static SDMA_BASES: [[u32; 1]; 16] = {
    let first = [0x1260, 0x1860, 0x1_9400, 0x1_9800];
    let mut bases = [[0]; 16];
    let mut engine = 0;
    while engine < bases.len() {
        bases[engine] = [(engine as u32 / ENGINES_PER_DIE) * DIE_STRIDE + first[engine % first.len()]];
        engine += 1;
    }
    bases
};

/// Segment of the memory hub of each die. `0x1_a000`, its place on other chips, belongs to XCC 1.
static MMHUB_BASES: [[u32; 1]; 4] =
    [[0x1_8000], [0x1_8000 + DIE_STRIDE], [0x1_8000 + 2 * DIE_STRIDE], [0x1_8000 + 3 * DIE_STRIDE]];

const MP_BASES: &[u32] = &[0x1_6000, 0xdc_0000, 0xe0_0000, 0xe4_0000, 0x243_fc00];
/// Most of the bus interface is in segment 8, after the windows alone.
const NBIO_BASES: &[u32] =
    &[0, 0x14, 0xd20, 0x1_0400, 0x241_b000, 0x50_0000, 0x50_0000, 0x50_0000, 0x404_0000];

const VCN_BASES: &[u32] = &[0x7800, 0x7e00, 0x240_3000];

const VERSIONS: Versions = Versions {
    gc: [9, 4, 3],
    sdma: [4, 4, 2],
    mmhub: [1, 8, 0],
    athub: [1, 8, 0],
    hdp: [4, 4, 2],
    umc: [12, 0, 0],
    osssys: [4, 4, 2],
    nbif: [7, 9, 0],
    mp: [13, 0, 6],
    smuio: [13, 0, 3],
    vcn: [4, 0, 3],
};

/// Number of SDMA engines of a shape: two for each XCC, as the whole chip has.
pub(in crate::chip) const fn engines(shape: Shape) -> u32 {
    shape.xccs * (ENGINES_PER_DIE / XCCS_PER_DIE)
}

/// Dies with an XCC.
pub(super) const fn dies(shape: Shape) -> u32 {
    shape.xccs.div_ceil(XCCS_PER_DIE)
}

/// Every block of an MI300X.
pub(super) fn ips(shape: Shape) -> Vec<IpBlock> {
    blocks(shape, &VERSIONS)
}

/// Every block, in the order of the discovery table. XCCs and engines that the shape lacks are fused off, as they are on cards
/// with fewer; the first ones work.
pub(in crate::chip) fn blocks(shape: Shape, versions: &Versions) -> Vec<IpBlock> {
    let gc = IpBlock::new(Ip::GC, versions.gc, &GC_BASES[0]);
    let sdma = IpBlock::new(Ip::SDMA0, versions.sdma, &SDMA_BASES[0]);
    let mmhub = IpBlock::new(Ip::MMHUB, versions.mmhub, &MMHUB_BASES[0]);
    let vcn = IpBlock::new(Ip::VCN, versions.vcn, VCN_BASES);
    let mut blocks = Vec::new();
    for (xcc, bases) in (0..).zip(&GC_BASES) {
        blocks.push(IpBlock { harvested: u32::from(xcc) >= shape.xccs, ..gc.instance(xcc, bases) });
    }
    for (engine, bases) in (0..).zip(&SDMA_BASES) {
        blocks
            .push(IpBlock { harvested: u32::from(engine) >= engines(shape), ..sdma.instance(engine, bases) });
    }
    for (die, bases) in (0..).zip(&MMHUB_BASES).take(dies(shape) as usize) {
        blocks.push(mmhub.instance(die, bases));
    }
    blocks.extend([
        IpBlock::new(Ip::ATHUB, versions.athub, &[0xc20, 0x1_1800]),
        IpBlock::new(Ip::HDP, versions.hdp, &[0xf20]),
        // A single one for all memory.
        IpBlock::new(Ip::UMC, versions.umc, &[0x1_4000]),
        IpBlock::new(Ip::OSSSYS, versions.osssys, &[0x10a0]),
        IpBlock::new(Ip::NBIF, versions.nbif, NBIO_BASES),
        IpBlock::new(Ip::MP0, versions.mp, MP_BASES),
        IpBlock::new(Ip::MP1, versions.mp, MP_BASES),
        IpBlock::new(Ip::SMUIO, versions.smuio, &[0x1_6800, 0x1_6800, 0x1_6a00]),
        IpBlock::new(Ip::THM, versions.mp, &[0x1_6600]),
    ]);
    // As on a card whose video blocks are fused off.
    for die in 0..4 {
        blocks.push(IpBlock { harvested: true, ..vcn.instance(die, VCN_BASES) });
    }
    blocks
}
