//! The table of files.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use belfry_abi::partition::ComputePartition;
use belfry_abi::pci::VbiosPartNumber;
use belfry_abi::sensors;

use super::Source::{Activity, Card as Fixed, Memory};
use super::{Card, Cards, Figures, File, Show, Source, Store, metrics};
use crate::config::HIVE_ID;
use crate::errno::{Errno, Result};

/// One line.
fn line(value: impl core::fmt::Display) -> Vec<u8> {
    format!("{value}\n").into_bytes()
}

const fn file(path: &'static str, source: Source, show: Show) -> File {
    File { path, source, show, store: None, of: Cards::All }
}

const fn written(
    path: &'static str,
    source: Source,
    show: Show,
    store: fn(&Card, &str) -> Result<()>,
) -> File {
    File { path, source, show, store: Some(Store::Setting(store)), of: Cards::All }
}

/// A file of chips whose graphics cores can be shared out.
const fn of_partitions(path: &'static str, show: Show, store: Option<Store>) -> File {
    File { path, source: Fixed, show, store, of: Cards::Instinct }
}

/// A file of cards whose memory has ECC.
const fn of_ecc(path: &'static str, source: Source, show: Show) -> File {
    File { path, source, show, store: None, of: Cards::Instinct }
}

/// Most cards of a hive: those of further hives have names that follow.
const MOST_OF_HIVE: u32 = 8;

/// A file of cards that are a hive (`amdgpu_xgmi.c`).
const fn of_hive(path: &'static str, show: Show) -> File {
    File { path, source: Fixed, show, store: None, of: Cards::Hive }
}

/// One number for each card of the hive, in the order of their places: 0 for the card itself, and `far` for all others.
fn in_hive(card: &Card, far: u8) -> Vec<u8> {
    let mut text = String::new();
    for node in 0..card.hive_nodes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:02x} ", if node == card.hive_node { 0 } else { far });
    }
    line(text)
}

/// Errors of the memory (`amdgpu_ras_sysfs_read`): those that were not corrected, those that were, and those that are left to who
/// reads them.
fn memory_errors(_: &Card, figures: &Figures) -> Vec<u8> {
    line(format_args!("ue: {}\nce: {}\nde: 0", figures.uncorrectable, figures.corrected))
}

/// Shows how the graphics cores are shared out (`amdgpu_gfx_get_current_compute_partition`).
fn partition(card: &Card, _: &Figures) -> Vec<u8> {
    let in_each = card.partitioned_xccs / card.partitions.max(1);
    match ComputePartition::of(card.partitioned_xccs, in_each) {
        Some(mode) => line(mode),
        None => line("UNKNOWN"),
    }
}

/// Shows how they can be shared out (`amdgpu_gfx_get_available_compute_partition`).
fn available_partitions(card: &Card, _: &Figures) -> Vec<u8> {
    let names: Vec<&str> =
        ComputePartition::available(card.partitioned_xccs).map(|mode| mode.name()).collect();
    line(names.join(", "))
}

/// Levels of a clock in MHz, with a star at the current one.
fn levels(clocks: &[u32], current: u32) -> Vec<u8> {
    let mut text = String::new();
    for (level, clock) in clocks.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{level}: {clock}Mhz {}", if *clock == current { "*" } else { "" });
    }
    text.into_bytes()
}

/// Levels of a clock that has any value between two: the current one is a level of its own (`smu_v13_0_0_print_clk_levels`).
fn fine_levels(lowest: u32, highest: u32, current: u32) -> Vec<u8> {
    if current == lowest || current == highest {
        levels(&[lowest, highest], current)
    } else {
        levels(&[lowest, current, highest], current)
    }
}

fn memory_levels(card: &Card, figures: &Figures) -> Vec<u8> {
    let sensors = card.sensors(figures);
    levels(&sensors.peaks.memory_clocks(), sensors.memory_clock())
}

/// Takes a limit that is the only value there is.
fn power_limit(_: &Card, _: &Figures) -> Vec<u8> {
    line(u64::from(sensors::POWER_LIMIT) * 1_000_000)
}

/// Millidegrees.
fn milli(degrees: u32) -> Vec<u8> {
    line(degrees * 1000)
}

/// Clock levels may be chosen in the performance level `manual` only, which the card does not have.
fn no_level(_: &Card, _: &str) -> Result<()> {
    Err(Errno::EINVAL)
}

fn performance_level(_: &Card, text: &str) -> Result<()> {
    // The card's clocks follow its load; its firmware takes no other level.
    if text == "auto" { Ok(()) } else { Err(Errno::EINVAL) }
}

fn set_power_limit(_: &Card, text: &str) -> Result<()> {
    let microwatts: u32 = text.parse().map_err(|_| Errno::EINVAL)?;
    // Lowest and highest limit are the same: others are out of range.
    if microwatts / 1_000_000 == sensors::POWER_LIMIT { Ok(()) } else { Err(Errno::EINVAL) }
}

fn set_fan_control(_: &Card, text: &str) -> Result<()> {
    if text == "2" { Ok(()) } else { Err(Errno::EINVAL) }
}

/// Every file of the card, in the directory's order.
pub static FILES: &[File] = &[
    file("mem_info_vram_total", Fixed, |card, _| line(card.vram)),
    file("mem_info_vram_used", Memory, |_, figures| line(figures.vram_used)),
    // All of VRAM is visible: BAR0 is as large.
    file("mem_info_vis_vram_total", Fixed, |card, _| line(card.vram)),
    file("mem_info_vis_vram_used", Memory, |_, figures| line(figures.vram_used)),
    file("mem_info_gtt_total", Fixed, |card, _| line(card.gtt)),
    file("mem_info_gtt_used", Memory, |_, figures| line(figures.gtt_used)),
    // No vendor has made it: what Linux says of one that it does not know.
    file("mem_info_vram_vendor", Fixed, |_, _| line("unknown")),
    file("vbios_version", Fixed, |card, _| line(VbiosPartNumber(card.device_id))),
    file("unique_id", Fixed, |card, _| line(format_args!("{:016x}", card.unique_id))),
    // Nothing on the way to the device loses a packet.
    file("pcie_replay_count", Fixed, |_, _| line(0)),
    file("fw_version/mec_fw_version", Fixed, |card, _| line(format_args!("{:#010x}", card.mec_version))),
    file("fw_version/sdma_fw_version", Fixed, |card, _| line(format_args!("{:#010x}", card.sdma_version))),
    file("gpu_busy_percent", Activity, |_, figures| line(figures.busy_percent)),
    file("gpu_metrics", Activity, metrics::show),
    written("power_dpm_force_performance_level", Fixed, |_, _| line("auto"), performance_level),
    written(
        "pp_dpm_sclk",
        Activity,
        |card, figures| {
            let current = card.sensors(figures).engine_clock();
            fine_levels(sensors::IDLE_ENGINE_CLOCK, card.max_engine_clock, current)
        },
        no_level,
    ),
    written("pp_dpm_mclk", Activity, memory_levels, no_level),
    written(
        "pp_dpm_fclk",
        Activity,
        |card, figures| levels(&sensors::FABRIC_CLOCKS, card.sensors(figures).fabric_clock()),
        no_level,
    ),
    written(
        "pp_dpm_socclk",
        Activity,
        |card, figures| levels(&sensors::SYSTEM_CLOCKS, card.sensors(figures).system_clock()),
        no_level,
    ),
    written("pp_dpm_pcie", Fixed, |_, _| line("0: 16.0GT/s, x16 *"), no_level),
    of_partitions("current_compute_partition", partition, Some(Store::Partition)),
    of_partitions("available_compute_partition", available_partitions, None),
    // NPS1 is the only mode. With one mode Linux makes this file read-only and leaves out `available_memory_partition`.
    of_partitions("current_memory_partition", |_, _| line("NPS1"), None),
    // Blocks whose errors are counted, a bit for each: the memory (`AMDGPU_RAS_BLOCK__UMC`).
    of_ecc("ras/features", Fixed, |_, _| line("feature mask: 0x1")),
    of_ecc("ras/umc_err_count", Memory, memory_errors),
    // The name of a card whose hive no PSP has named (`amdgpu_xgmi_add_device`).
    of_hive("xgmi_device_id", |card, _| line(HIVE_ID + u64::from(card.hive * MOST_OF_HIVE + card.hive_node))),
    of_hive("xgmi_physical_id", |card, _| line(card.hive_node)),
    // Each card is linked with each other one.
    of_hive("xgmi_num_hops", |card, _| in_hive(card, 1)),
    of_hive("xgmi_num_links", |card, _| in_hive(card, 1)),
    file("hwmon/name", Fixed, |_, _| line("amdgpu")),
    file("hwmon/temp1_label", Fixed, |_, _| line("edge")),
    file("hwmon/temp1_input", Activity, |card, figures| {
        milli(card.sensors(figures).temperature(&sensors::EDGE))
    }),
    file("hwmon/temp1_crit", Fixed, |_, _| milli(sensors::EDGE.critical)),
    file("hwmon/temp1_emergency", Fixed, |_, _| milli(sensors::EDGE.emergency)),
    file("hwmon/temp2_label", Fixed, |_, _| line("junction")),
    file("hwmon/temp2_input", Activity, |card, figures| {
        milli(card.sensors(figures).temperature(&sensors::JUNCTION))
    }),
    file("hwmon/temp2_crit", Fixed, |_, _| milli(sensors::JUNCTION.critical)),
    file("hwmon/temp2_emergency", Fixed, |_, _| milli(sensors::JUNCTION.emergency)),
    file("hwmon/temp3_label", Fixed, |_, _| line("mem")),
    file("hwmon/temp3_input", Activity, |card, figures| {
        milli(card.sensors(figures).temperature(&sensors::MEMORY))
    }),
    file("hwmon/temp3_crit", Fixed, |_, _| milli(sensors::MEMORY.critical)),
    file("hwmon/temp3_emergency", Fixed, |_, _| milli(sensors::MEMORY.emergency)),
    file("hwmon/in0_label", Fixed, |_, _| line("vddgfx")),
    file("hwmon/in0_input", Activity, |card, figures| line(card.sensors(figures).voltage())),
    file("hwmon/fan1_input", Fixed, |_, _| line(0)),
    file("hwmon/fan1_min", Fixed, |_, _| line(0)),
    file("hwmon/fan1_max", Fixed, |_, _| line(sensors::MAX_FAN_SPEED)),
    file("hwmon/pwm1", Fixed, |_, _| line(0)),
    written("hwmon/pwm1_enable", Fixed, |_, _| line(2), set_fan_control),
    file("hwmon/pwm1_min", Fixed, |_, _| line(0)),
    file("hwmon/pwm1_max", Fixed, |_, _| line(255)),
    file("hwmon/power1_label", Fixed, |_, _| line("PPT")),
    file("hwmon/power1_average", Activity, |card, figures| {
        line(u64::from(card.sensors(figures).power()) * 1_000_000)
    }),
    written("hwmon/power1_cap", Fixed, power_limit, set_power_limit),
    file("hwmon/power1_cap_default", Fixed, power_limit),
    file("hwmon/power1_cap_max", Fixed, power_limit),
    file("hwmon/power1_cap_min", Fixed, power_limit),
    file("hwmon/freq1_label", Fixed, |_, _| line("sclk")),
    file("hwmon/freq1_input", Activity, |card, figures| {
        line(u64::from(card.sensors(figures).engine_clock()) * 1_000_000)
    }),
    file("hwmon/freq2_label", Fixed, |_, _| line("mclk")),
    file("hwmon/freq2_input", Activity, |card, figures| {
        line(u64::from(card.sensors(figures).memory_clock()) * 1_000_000)
    }),
];
