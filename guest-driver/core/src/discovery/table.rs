//! The IP discovery table: untrusted bytes.
//!
//! Layouts: Linux `drivers/gpu/drm/amd/include/discovery.h` (`binary_header`, `ip_discovery_header`, `die_header`, `ip_v4`,
//! `gc_info_v1_0` to `v1_2`, `gc_info_v2_0` and `v2_1`, `harvest_table`).

use alloc::vec::Vec;

use belfry_abi::regs::Ip;

use crate::config::{Block, Config};
use crate::errno::{Errno, Result};

/// `BINARY_SIGNATURE`.
const BINARY_SIGNATURE: u32 = 0x2821_1407;
/// `DISCOVERY_TABLE_SIGNATURE`, "IPDS".
const DISCOVERY_TABLE_SIGNATURE: u32 = 0x5344_5049;
/// `GC_TABLE_ID`, "GC".
const GC_TABLE_ID: u32 = 0x4347;
/// `HARVEST_TABLE_SIGNATURE`, "HARV".
const HARVEST_TABLE_SIGNATURE: u32 = 0x5652_4148;
/// Place of the harvest table in the table list (`HARVEST_INFO`), and its entries.
const HARVEST_TABLE: usize = 2;
const HARVEST_ENTRIES: usize = 32;
/// Offset of the table list in the binary header.
const TABLE_LIST: usize = 12;
/// Most dies, and where in the header they are counted, listed, and said how long base addresses are.
const DIES: usize = 16;
const NUM_DIES: usize = 12;
const DIE_INFO: usize = 14;
const FLAGS: usize = DIE_INFO + DIES * 4;
/// First version of the header that has these flags, and the flag for 64 bits (`base_addr_64_bit`).
const VERSION_WITH_FLAGS: u16 = 4;
const BASE_ADDR_64_BIT: u8 = 1;

/// Little-endian fields of untrusted bytes.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn u16(&self, offset: usize) -> Result<u16> {
        let bytes = self.0.get(offset..offset + 2).ok_or(Errno::EINVAL)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&self, offset: usize) -> Result<u32> {
        Ok(u32::from(self.u16(offset)?) | u32::from(self.u16(offset + 2)?) << 16)
    }

    fn u8(&self, offset: usize) -> Result<u8> {
        self.0.get(offset).copied().ok_or(Errno::EINVAL)
    }
}

fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0u16, |sum, &byte| sum.wrapping_add(u16::from(byte)))
}

/// Kinds and instances of what is fused off; none without such a table.
fn harvest(table: &Bytes<'_>) -> Result<Vec<(u16, u8)>> {
    let at = usize::from(table.u16(TABLE_LIST + HARVEST_TABLE * 8)?);
    let mut list = Vec::new();
    if at == 0 || table.u32(at)? != HARVEST_TABLE_SIGNATURE {
        return Ok(list);
    }
    for entry in 0..HARVEST_ENTRIES {
        let at = at + 8 + entry * 4;
        match table.u16(at)? {
            0 => break,
            kind => list.push((kind, table.u8(at + 2)?)),
        }
    }
    Ok(list)
}

/// The blocks of the die whose table begins at `at`; their bases have `base_len` bytes each.
fn die(table: &Bytes<'_>, mut at: usize, base_len: usize, add: &mut impl FnMut(Block)) -> Result<()> {
    let number = table.u16(at)? as u8;
    let count = table.u16(at + 2)?;
    at += 4;
    for _ in 0..count {
        let bases = usize::from(table.u8(at + 3)?);
        let mut block = Block {
            die: number,
            ip: Ip(table.u16(at)?),
            instance: table.u8(at + 2)?,
            version: (table.u8(at + 4)?, table.u8(at + 5)?, table.u8(at + 6)?),
            harvested: false,
            bases: Vec::new(),
        };
        for index in 0..bases {
            // Of 64 bits the lower half counts, as for amdgpu.
            block.bases.push(table.u32(at + 8 + index * base_len)?);
        }
        add(block);
        at += 8 + bases * base_len;
    }
    Ok(())
}

/// Checks the binary as amdgpu does and lists its blocks.
///
/// # Errors
///
/// `EINVAL`.
pub(super) fn blocks(bytes: &[u8]) -> Result<Vec<Block>> {
    let table = Bytes(bytes);
    let size = usize::from(table.u16(10)?);
    if table.u32(0)? != BINARY_SIGNATURE || !(TABLE_LIST..=bytes.len()).contains(&size) {
        return Err(Errno::EINVAL);
    }
    if checksum(&bytes[10..size]) != table.u16(8)? {
        return Err(Errno::EINVAL);
    }
    let header = usize::from(table.u16(TABLE_LIST)?);
    if table.u32(header)? != DISCOVERY_TABLE_SIGNATURE {
        return Err(Errno::EINVAL);
    }
    let flags = if table.u16(header + 4)? >= VERSION_WITH_FLAGS { table.u8(header + FLAGS)? } else { 0 };
    let base_len = if flags & BASE_ADDR_64_BIT != 0 { 8 } else { 4 };
    let dies = usize::from(table.u16(header + NUM_DIES)?).clamp(1, DIES);
    let harvested = harvest(&table)?;
    let mut blocks: Vec<Block> = Vec::new();
    for info in 0..dies {
        let place = usize::from(table.u16(header + DIE_INFO + info * 4 + 2)?);
        die(&table, place, base_len, &mut |mut block| {
            block.harvested = harvested.contains(&(block.ip.0, block.instance));
            blocks.push(block);
        })?;
    }
    Ok(blocks)
}

/// Reads the graphics core's table into `config`.
///
/// # Errors
///
/// `EINVAL`.
pub(super) fn graphics_core(bytes: &[u8], config: &mut Config) -> Result<()> {
    let table = Bytes(bytes);
    let gc = usize::from(table.u16(TABLE_LIST + 8)?);
    if gc == 0 || table.u32(gc)? != GC_TABLE_ID {
        return Err(Errno::EINVAL);
    }
    let minor = table.u16(gc + 6)?;
    let field = |index: usize| table.u32(gc + 12 + index * 4);
    config.shader_engines = field(0)?;
    config.l2_channels = field(4)?;
    config.wave_size = field(11)?;
    config.waves_per_simd = field(12)?;
    config.scratch_slots_per_cu = field(13)?;
    config.lds_kib = field(14)?;
    config.cus_per_sqc = 2;
    match table.u16(gc + 4)? {
        1 => {
            config.cus_per_array = field(1)?.saturating_add(field(2)?).saturating_mul(2);
            config.arrays_per_engine = field(16)?;
            if minor >= 2 {
                config.l1_kib = field(23)?;
                config.instruction_cache_kib = field(25)?;
                config.scalar_cache_kib = field(26)?;
                config.gl1_kib = field(28)?;
                config.l2_kib = field(29)?;
            }
        }
        2 => {
            config.cus_per_array = field(1)?;
            config.arrays_per_engine = field(2)?;
            if minor >= 1 {
                config.l1_kib = field(18)?;
                config.cus_per_sqc = field(20)?;
                config.instruction_cache_kib = field(21)?;
                config.scalar_cache_kib = field(22)?;
                config.l2_kib = field(23)?;
            }
        }
        _ => return Err(Errno::EINVAL),
    }
    let plausible = (1..=16).contains(&config.shader_engines)
        && (1..=4).contains(&config.arrays_per_engine)
        && (1..=32).contains(&config.cus_per_array)
        && (1..=16).contains(&config.cus_per_sqc);
    if plausible { Ok(()) } else { Err(Errno::EINVAL) }
}
