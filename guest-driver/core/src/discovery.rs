//! The device's own account of itself: the IP discovery table at the top of VRAM, and the fuses (`amdgpu/amdgpu_discovery.c`).

mod table;

use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::regs::gfx9::gc::{GCMC_VM_XGMI_LFB_CNTL, GCMC_VM_XGMI_LFB_SIZE};
use belfry_abi::regs::{Ip, Register, gc};

use crate::asic::{self, Asic};
use crate::config::{Block, Config, Hive};
use crate::errno::{Errno, Result};
use crate::hw::{Hw, Instance, log};
use crate::os::{Function as _, LogLevel, Os};
use crate::registers::RegisterMap;

/// Dword index of `RCC_CONFIG_MEMSIZE`, which tells where the table is: the one register that has to be known before it
/// (`mmRCC_CONFIG_MEMSIZE` of `amdgpu_discovery.c`, the same on every card).
const MEMSIZE_DWORD: u32 = 0xde3;

/// Distance of the table from the end of VRAM (`DISCOVERY_TMR_OFFSET`).
const TABLE_FROM_TOP: u64 = 64 << 10;
/// Bytes of the table that are read (`DISCOVERY_TMR_SIZE`).
const TABLE_SIZE: usize = 10 << 10;

/// Finds the registers of the blocks that the driver uses: all instances of graphics cores and of memory hubs, the first one of
/// the others.
fn register_map<O: Os>(os: &O, asic: &Asic, blocks: &[Block]) -> Result<RegisterMap> {
    let mut map = RegisterMap::new(asic.registers, asic.register_bytes);
    for (ip, registers) in RegisterMap::BLOCKS {
        if !map.needs(ip, registers) {
            continue;
        }
        // In their order, which the table need not have: a sort takes too much of a kernel's stack.
        let mut instances: Vec<&Block> = Vec::new();
        for number in 0..=u8::MAX {
            let wanted = |block: &&Block| block.ip == ip && block.instance == number && !block.harvested;
            instances.extend(blocks.iter().find(wanted));
        }
        if instances.is_empty() {
            os.log(LogLevel::Error, format_args!("discovery: hardware block {} is missing", ip.0));
            return Err(Errno::ENODEV);
        }
        if ip != Ip::GC && ip != Ip::MMHUB {
            instances.truncate(1);
        }
        for block in instances {
            if map.add(ip, registers, &block.bases).is_err() {
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
    }
    Ok(map)
}

/// Counts compute units, skipping the fused ones (`gfx_v11_0_get_cu_info`, `gfx_v9_4_3_get_cu_info`).
fn count_cus<O: Os>(xcc: &Instance<'_, O>, config: &mut Config) {
    let fuses = &xcc.hw().asic().fuses;
    let dead_arrays = if fuses.arrays { xcc.read::<gc::CC_GC_SA_UNIT_DISABLE>().sa_disable() } else { 0 };
    for engine in 0..config.shader_engines {
        for array in 0..config.arrays_per_engine {
            let mut bitmap = 0u32;
            if dead_arrays >> (engine * config.arrays_per_engine + array) & 1 == 0 {
                let mut select = gc::GRBM_GFX_INDEX(0);
                select.set_se_index(engine);
                select.set_sa_index(array);
                select.set_instance_broadcast_writes(true);
                xcc.write(select);
                let inactive = xcc.read::<gc::CC_GC_SHADER_ARRAY_CONFIG>().inactive_wgps();
                let unit = (1 << fuses.cus) - 1;
                for at in (0..config.cus_per_array / fuses.cus).filter(|at| inactive >> at & 1 == 0) {
                    bitmap |= unit << (at * fuses.cus);
                }
            }
            config.cus += bitmap.count_ones();
            config.cu_bitmap.push(bitmap);
        }
    }
    xcc.write(gc::GRBM_GFX_INDEX(gc::GRBM_GFX_INDEX::RESET));
}

/// Finds out what the device behind a function is and where its registers are.
#[inline(never)]
pub(crate) fn discover<O: Os>((os, function): (Arc<O>, O::Function)) -> Result<(Hw<O>, Config)> {
    let memory_mib = function.reg_read(MEMSIZE_DWORD * 4);
    if memory_mib == 0 || memory_mib == u32::MAX {
        os.log(
            LogLevel::Error,
            format_args!("RCC_CONFIG_MEMSIZE reads {memory_mib:#x}: the device does not answer"),
        );
        return Err(Errno::ENODEV);
    }
    let mut config = Config { vram_size: u64::from(memory_mib) << 20, ..Config::default() };
    if config.vram_size > function.vram_size() || config.vram_size < TABLE_FROM_TOP {
        os.log(
            LogLevel::Error,
            format_args!("{memory_mib} MiB of VRAM behind a BAR of {} bytes", function.vram_size()),
        );
        return Err(Errno::ENODEV);
    }
    let blocks = read_table(&*os, &function, &mut config)?;
    let engines = blocks.iter().filter(|block| matches!(block.ip, Ip::SDMA0 | Ip::SDMA1) && !block.harvested);
    config.sdma_engines = engines.count() as u32;
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
    let registers = register_map(&*os, asic, &blocks)?;
    let mut hw = Hw::new((os, function), registers, asic);
    config.hive = hive(&hw, config.vram_size)?;
    hw.set_hive(config.hive);
    // The frame buffer begins with the VRAM of the first GPU of the hive.
    let fb_base = hw.read::<gc::GCMC_VM_FB_LOCATION_BASE>().fb_base();
    config.fb_start = (u64::from(fb_base) << 24) + hw.vram_base();
    config.gb_addr_config = hw.read::<gc::GB_ADDR_CONFIG>().bits();
    config.blocks = blocks;
    config.xccs = hw.xccs().count() as u32;
    hw.xccs().for_each(|xcc| count_cus(&xcc, &mut config));
    if config.cus == 0 {
        log!(hw, Error, "every compute unit is fused off");
        return Err(Errno::ENODEV);
    }
    Ok((hw, config))
}

/// Reads the place in a hive from its registers; none for a GPU that is alone, and for one without XGMI.
fn hive<O: Os>(hw: &Hw<O>, vram_size: u64) -> Result<Option<Hive>> {
    if !hw.asic().has_xgmi {
        return Ok(None);
    }
    let (cntl, size) = (hw.read::<GCMC_VM_XGMI_LFB_CNTL>(), hw.read::<GCMC_VM_XGMI_LFB_SIZE>());
    let found = place(cntl, size, vram_size).inspect_err(|_| {
        let (cntl, size) = (cntl.bits(), size.bits());
        log!(hw, Error, "MC_VM_XGMI_LFB_CNTL {cntl:#x}, MC_VM_XGMI_LFB_SIZE {size:#x}: no place in a hive");
    })?;
    // No register tells hives apart.
    let id = hw.function().device_info().hive;
    Ok(found.map(|hive| Hive { id, ..hive }))
}

/// Returns the place in a hive that the registers name (`gfxhub_v1_2_get_xgmi_info`).
///
/// # Errors
///
/// `EINVAL` for a place that there is not, as on Linux, and for segments with less room than VRAM needs.
fn place(cntl: GCMC_VM_XGMI_LFB_CNTL, size: GCMC_VM_XGMI_LFB_SIZE, vram_size: u64) -> Result<Option<Hive>> {
    /// Most GPUs of a hive.
    const MOST: u32 = 8;
    let (node, nodes) = (cntl.pf_lfb_region(), cntl.pf_max_region() + 1);
    let segment = u64::from(size.pf_lfb_size()) << 24;
    if nodes == 1 {
        return Ok(None);
    }
    if nodes > MOST || node >= nodes || segment < vram_size {
        return Err(Errno::EINVAL);
    }
    Ok(Some(Hive { id: 0, node, nodes, segment }))
}

/// Reads the table at the top of VRAM: the blocks, and the graphics core's shape into `config`.
fn read_table<O: Os>(os: &O, function: &O::Function, config: &mut Config) -> Result<Vec<Block>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(TABLE_SIZE).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(TABLE_SIZE, 0);
    function.vram_read(config.vram_size - TABLE_FROM_TOP, &mut bytes);
    let blocks =
        table::blocks(&bytes).and_then(|blocks| table::graphics_core(&bytes, config).map(|()| blocks));
    blocks.map_err(|_| {
        os.log(LogLevel::Error, format_args!("the IP discovery table at the top of VRAM is not valid"));
        Errno::ENODEV
    })
}

#[cfg(test)]
mod tests;
