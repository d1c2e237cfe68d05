//! What the device says it is: the IP discovery table at the top of VRAM, and the fuses.
//!
//! Layouts: Linux `drivers/gpu/drm/amd/include/discovery.h` (`binary_header`, `ip_discovery_header`, `die_header`, `ip_v4`,
//! `gc_info_v1_0` to `v1_2`); rules: `amdgpu/amdgpu_discovery.c`.

use alloc::vec::Vec;

use belfry_abi::regs::{Ip, Register, gc};

use crate::asic::{self, Asic};
use crate::errno::{Errno, Result};
use crate::hw::{Hw, log};
use crate::os::{LogLevel, Os};
use crate::registers::RegisterMap;

/// Dword index of `RCC_CONFIG_MEMSIZE`, which tells where the table is: the one register that has to be known before it
/// (`mmRCC_CONFIG_MEMSIZE` of `amdgpu_discovery.c`, the same on every card).
const MEMSIZE_DWORD: u32 = 0xde3;

/// Distance of the table from the end of VRAM (`DISCOVERY_TMR_OFFSET`).
const TABLE_FROM_TOP: u64 = 64 << 10;
/// Bytes of the table that are read (`DISCOVERY_TMR_SIZE`).
const TABLE_SIZE: usize = 10 << 10;
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

/// The device as found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// IP version of the graphics core: major, minor, revision.
    pub gc_version: (u8, u8, u8),
    /// VRAM in bytes.
    pub vram_size: u64,
    /// First address of VRAM in VMID 0.
    pub fb_start: u64,
    /// Shader engines.
    pub shader_engines: u32,
    /// Shader arrays of each shader engine.
    pub arrays_per_engine: u32,
    /// Most compute units of one shader array.
    pub cus_per_array: u32,
    /// Compute units that are not fused off.
    pub cus: u32,
    /// Those of each shader engine and array, one bit each, in order of engines.
    pub cu_bitmap: Vec<u32>,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Waves of a SIMD.
    pub waves_per_simd: u32,
    /// Scratch slots of a compute unit.
    pub scratch_slots_per_cu: u32,
    /// Local data share in KiB.
    pub lds_kib: u32,
    /// Vector data cache of a compute unit in KiB.
    pub l1_kib: u32,
    /// Instruction cache of a work-group processor in KiB.
    pub instruction_cache_kib: u32,
    /// Scalar data cache of a work-group processor in KiB.
    pub scalar_cache_kib: u32,
    /// Cache of a shader array in KiB.
    pub gl1_kib: u32,
    /// Last-level cache in KiB.
    pub l2_kib: u32,
    /// SDMA engines.
    pub sdma_engines: u32,
    /// `GB_ADDR_CONFIG`.
    pub gb_addr_config: u32,
    /// Every block of the table.
    pub blocks: Vec<Block>,
}

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

/// One instance of an IP block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its kind.
    pub ip: Ip,
    /// Which of its kind.
    pub instance: u8,
    /// Major, minor, revision.
    pub version: (u8, u8, u8),
    /// It is fused off.
    pub harvested: bool,
    /// Where its segments of registers begin, in dwords.
    pub bases: Vec<u32>,
}

/// Kinds and instances of what is fused off; none without such a table.
fn parse_harvest(table: &Bytes<'_>) -> Result<Vec<(u16, u8)>> {
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

/// Checks the binary as amdgpu does and lists its blocks.
fn parse_blocks(bytes: &[u8]) -> Result<Vec<Block>> {
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
    let die = usize::from(table.u16(header + 16)?);
    let count = table.u16(die + 2)?;
    let harvested = parse_harvest(&table)?;
    let mut blocks = Vec::new();
    let mut at = die + 4;
    for _ in 0..count {
        let bases = usize::from(table.u8(at + 3)?);
        let mut block = Block {
            ip: Ip(table.u16(at)?),
            instance: table.u8(at + 2)?,
            version: (table.u8(at + 4)?, table.u8(at + 5)?, table.u8(at + 6)?),
            harvested: harvested.contains(&(table.u16(at)?, table.u8(at + 2)?)),
            bases: Vec::new(),
        };
        for index in 0..bases {
            block.bases.push(table.u32(at + 8 + index * 4)?);
        }
        blocks.push(block);
        at += 8 + bases * 4;
    }
    Ok(blocks)
}

/// Reads the graphics core's table into `config`.
fn parse_gc(bytes: &[u8], config: &mut Config) -> Result<()> {
    let table = Bytes(bytes);
    let gc = usize::from(table.u16(TABLE_LIST + 8)?);
    if gc == 0 || table.u32(gc)? != GC_TABLE_ID || table.u16(gc + 4)? != 1 {
        return Err(Errno::EINVAL);
    }
    let minor = table.u16(gc + 6)?;
    let field = |index: usize| table.u32(gc + 12 + index * 4);
    config.shader_engines = field(0)?;
    config.cus_per_array = field(1)?.saturating_add(field(2)?).saturating_mul(2);
    config.wave_size = field(11)?;
    config.waves_per_simd = field(12)?;
    config.scratch_slots_per_cu = field(13)?;
    config.lds_kib = field(14)?;
    config.arrays_per_engine = field(16)?;
    if minor >= 2 {
        config.l1_kib = field(23)?;
        config.instruction_cache_kib = field(25)?;
        config.scalar_cache_kib = field(26)?;
        config.gl1_kib = field(28)?;
        config.l2_kib = field(29)?;
    }
    let plausible = (1..=16).contains(&config.shader_engines)
        && (1..=4).contains(&config.arrays_per_engine)
        && (1..=32).contains(&config.cus_per_array);
    if plausible { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Where the first instance of each block the driver uses has its registers.
fn register_map<O: Os>(os: &O, asic: &Asic, blocks: &[Block]) -> Result<RegisterMap> {
    let mut map = RegisterMap::new(asic.registers);
    for (ip, registers) in RegisterMap::BLOCKS {
        let Some(block) = blocks.iter().find(|block| block.ip == ip && block.instance == 0) else {
            os.log(LogLevel::Error, format_args!("discovery: hardware block {} is missing", ip.0));
            return Err(Errno::ENODEV);
        };
        if map.set(ip, registers, &block.bases).is_err() {
            os.log(
                LogLevel::Error,
                format_args!(
                    "discovery: registers of hardware block {} cannot be at {:x?}",
                    ip.0, block.bases
                ),
            );
            return Err(Errno::ENODEV);
        }
    }
    Ok(map)
}

/// Counts compute units, skipping the fused ones (`gfx_v11_0_get_cu_info`).
fn count_cus<O: Os>(hw: &Hw<O>, config: &mut Config) {
    let dead_arrays = hw.read::<gc::CC_GC_SA_UNIT_DISABLE>().sa_disable();
    let wgps = config.cus_per_array / 2;
    for engine in 0..config.shader_engines {
        for array in 0..config.arrays_per_engine {
            let mut bitmap = 0u32;
            if dead_arrays >> (engine * config.arrays_per_engine + array) & 1 == 0 {
                let mut select = gc::GRBM_GFX_INDEX(0);
                select.set_se_index(engine);
                select.set_sa_index(array);
                select.set_instance_broadcast_writes(true);
                hw.write(select);
                let inactive = hw.read::<gc::CC_GC_SHADER_ARRAY_CONFIG>().inactive_wgps();
                for wgp in (0..wgps).filter(|wgp| inactive >> wgp & 1 == 0) {
                    bitmap |= 3 << (wgp * 2);
                }
            }
            config.cus += bitmap.count_ones();
            config.cu_bitmap.push(bitmap);
        }
    }
    hw.write(gc::GRBM_GFX_INDEX(gc::GRBM_GFX_INDEX::RESET));
}

/// Finds out what the device is and where its registers are.
#[inline(never)]
pub(crate) fn discover<O: Os>(os: O) -> Result<(Hw<O>, Config)> {
    let memory_mib = os.reg_read(MEMSIZE_DWORD * 4);
    if memory_mib == 0 || memory_mib == u32::MAX {
        os.log(
            LogLevel::Error,
            format_args!("RCC_CONFIG_MEMSIZE reads {memory_mib:#x}: the device does not answer"),
        );
        return Err(Errno::ENODEV);
    }
    let mut config = Config { vram_size: u64::from(memory_mib) << 20, ..Config::default() };
    if config.vram_size > os.vram_size() || config.vram_size < TABLE_FROM_TOP {
        os.log(
            LogLevel::Error,
            format_args!("{memory_mib} MiB of VRAM behind a BAR of {} bytes", os.vram_size()),
        );
        return Err(Errno::ENODEV);
    }
    let blocks = read_table(&os, &mut config)?;
    config.sdma_engines =
        blocks.iter().filter(|block| block.ip == Ip::SDMA0 || block.ip == Ip::SDMA1).count() as u32;
    if let Some(block) = blocks.iter().find(|block| block.ip == Ip::GC) {
        config.gc_version = block.version;
    }
    let (major, minor, revision) = config.gc_version;
    let Some(asic) = asic::find(config.gc_version) else {
        os.log(
            LogLevel::Error,
            format_args!(
                "graphics core {major}.{minor}.{revision} is not supported: this driver knows {}",
                asic::Known
            ),
        );
        return Err(Errno::ENODEV);
    };
    let registers = register_map(&os, asic, &blocks)?;
    let hw = Hw::new(os, registers, asic);
    config.fb_start = u64::from(hw.read::<gc::GCMC_VM_FB_LOCATION_BASE>().fb_base()) << 24;
    config.gb_addr_config = hw.read::<gc::GB_ADDR_CONFIG>().bits();
    config.blocks = blocks;
    count_cus(&hw, &mut config);
    if config.cus == 0 {
        log!(hw, Error, "every compute unit is fused off");
        return Err(Errno::ENODEV);
    }
    Ok((hw, config))
}

/// Reads the table at the top of VRAM: the blocks, and the graphics core's shape into `config`.
fn read_table<O: Os>(os: &O, config: &mut Config) -> Result<Vec<Block>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(TABLE_SIZE).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(TABLE_SIZE, 0);
    os.vram_read(config.vram_size - TABLE_FROM_TOP, &mut bytes);
    let blocks = parse_blocks(&bytes).and_then(|blocks| parse_gc(&bytes, config).map(|()| blocks));
    blocks.map_err(|_| {
        os.log(LogLevel::Error, format_args!("the IP discovery table at the top of VRAM is not valid"));
        Errno::ENODEV
    })
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;
    use crate::testing::{BASES, FakeOs};

    const VRAM: usize = 8 << 20;

    /// A table of blocks with these bases, of one version, and a graphics core of one shader array with two compute units.
    fn table(blocks: &[(Ip, &[u32])], version: [u8; 3]) -> Vec<u8> {
        let (list, die) = (60, 60 + 80);
        let mut die_table = vec![0, 0, blocks.len() as u8, 0];
        for (ip, bases) in blocks {
            die_table.extend(ip.0.to_le_bytes());
            die_table.extend([0, bases.len() as u8]);
            die_table.extend(version);
            die_table.push(0);
            die_table.extend(bases.iter().flat_map(|base| base.to_le_bytes()));
        }
        let mut bytes = vec![0; die];
        bytes.extend(die_table);
        let gc = bytes.len();
        bytes.extend(GC_TABLE_ID.to_le_bytes());
        bytes.extend([1, 0, 2, 0, 0, 0, 0, 0]);
        let mut fields = [1u32; 32];
        fields[2] = 0;
        bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        bytes[..4].copy_from_slice(&BINARY_SIGNATURE.to_le_bytes());
        bytes[list..list + 4].copy_from_slice(&DISCOVERY_TABLE_SIGNATURE.to_le_bytes());
        bytes[list + 16..list + 18].copy_from_slice(&(die as u16).to_le_bytes());
        bytes[12..14].copy_from_slice(&(list as u16).to_le_bytes());
        bytes[20..22].copy_from_slice(&(gc as u16).to_le_bytes());
        let len = bytes.len() as u16;
        bytes[10..12].copy_from_slice(&len.to_le_bytes());
        let sum = checksum(&bytes[10..]);
        bytes[8..10].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn device(blocks: &[(Ip, &[u32])]) -> FakeOs {
        let os = FakeOs::new(VRAM);
        os.reg_write(MEMSIZE_DWORD * 4, (VRAM >> 20) as u32);
        os.vram_write(VRAM as u64 - TABLE_FROM_TOP, &table(blocks, [11, 0, 0]));
        os
    }

    #[test]
    fn graphics_core_of_another_version_is_refused_by_name() {
        for version in [[9, 4, 3], [12, 0, 0], [11, 0, 1]] {
            let os = device(&BASES);
            os.vram_write(VRAM as u64 - TABLE_FROM_TOP, &table(&BASES, version));
            let log = os.log.clone();
            assert_eq!(discover(os).err(), Some(Errno::ENODEV));
            let [major, minor, revision] = version;
            assert_eq!(
                *crate::testing::lock(&log),
                [format!(
                    "graphics core {major}.{minor}.{revision} is not supported: \
                     this driver knows 11.0.0 (gfx1100), 12.0.1 (gfx1201)"
                )]
            );
        }
    }

    #[test]
    fn registers_are_looked_for_where_the_table_says() {
        let os = device(&BASES);
        let gc = BASES.iter().find(|(ip, _)| *ip == Ip::GC).unwrap().1;
        os.reg_write((gc[0] + gc::GCMC_VM_FB_LOCATION_BASE::AT.dword) * 4, 0x8000);
        let (hw, config) = discover(os).unwrap();
        assert_eq!((config.fb_start, config.cus), (0x80_0000_0000, 2));
        hw.write(gc::SCRATCH_REG0(7));
        assert_eq!(hw.os().reg_read((gc[1] + gc::SCRATCH_REG0::AT.dword) * 4), 7);
    }

    #[test]
    fn table_without_a_place_for_a_register_is_refused() {
        for broken in 0..BASES.len() {
            let mut blocks = BASES.to_vec();
            blocks.remove(broken);
            assert_eq!(
                discover(device(&blocks)).err(),
                Some(Errno::ENODEV),
                "{:?} is missing",
                BASES[broken].0
            );
            let far: Vec<u32> = BASES[broken].1.iter().map(|base| base + 0x4_0000).collect();
            let mut blocks = BASES.to_vec();
            blocks[broken].1 = &far;
            assert_eq!(discover(device(&blocks)).err(), Some(Errno::ENODEV), "{:?} is far", BASES[broken].0);
        }
    }

    #[test]
    fn hostile_tables_are_refused_not_followed() {
        assert!(parse_blocks(&[]).is_err());
        assert!(parse_blocks(&[0; TABLE_SIZE]).is_err());
        let mut bytes = vec![0xffu8; TABLE_SIZE];
        bytes[0..4].copy_from_slice(&BINARY_SIGNATURE.to_le_bytes());
        bytes[10..12].copy_from_slice(&100u16.to_le_bytes());
        let sum = checksum(&bytes[10..100]);
        bytes[8..10].copy_from_slice(&sum.to_le_bytes());
        assert!(parse_blocks(&bytes).is_err());
        assert!(parse_gc(&bytes, &mut Config::default()).is_err());
    }
}
