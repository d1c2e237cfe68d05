//! `gpu_metrics`: one structure with all figures (`struct gpu_metrics_v1_3`, `kgd_pp_interface.h`).

use alloc::vec::Vec;

use belfry_abi::sensors;

use super::{Card, Figures};

/// Bytes of the structure.
pub(super) const SIZE: usize = 120;
/// Its version, format and content.
const VERSION: [u8; 2] = [1, 3];

/// Units of `energy_accumulator` in a joule (15.259 uJ: ROCm's `rsmi_dev_energy_count_get`, `amdsmi_get_energy_count`).
const ENERGY_UNITS: u64 = 1 << 16;

/// Microjoules in units of `energy_accumulator`.
fn energy_units(microjoules: u64) -> u64 {
    const MICRO: u64 = 1_000_000;
    // By whole joules and the rest: the product of both needs more than 64 bits, of which a kernel has no division.
    microjoules / MICRO * ENERGY_UNITS + microjoules % MICRO * ENERGY_UNITS / MICRO
}

/// The structure; what the card has no figure for is all ones, as Linux leaves it.
pub(super) fn show(card: &Card, figures: &Figures) -> Vec<u8> {
    let mut bytes = [0xffu8; SIZE];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    let half = |value: u32| (value.min(0xffff) as u16).to_le_bytes();
    put(0, &(SIZE as u16).to_le_bytes());
    put(2, &VERSION);
    let now = card.sensors(figures);
    let (engine, system, memory) = (now.engine_clock(), now.system_clock(), now.memory_clock());
    for (at, value) in [
        (4, now.temperature(&sensors::EDGE)),
        (6, now.temperature(&sensors::JUNCTION)),
        (8, now.temperature(&sensors::MEMORY)),
        // average_gfx_activity.
        (16, figures.busy_percent.into()),
        // average_socket_power.
        (22, now.power()),
        // Average clocks: graphics, system, memory; then the current ones.
        (40, engine),
        (42, system),
        (44, memory),
        (54, engine),
        (56, system),
        (58, memory),
        // current_fan_speed, pcie_link_width, pcie_link_speed.
        (72, 0),
        (74, sensors::LINK_LANES),
        (76, sensors::LINK_SPEED),
        // voltage_gfx.
        (106, now.voltage()),
    ] {
        put(at, &half(value));
    }
    // energy_accumulator, in units of 2^-16 J.
    put(24, &energy_units(sensors::energy(figures.boot_ns, figures.busy_ns)).to_le_bytes());
    // system_clock_counter, and firmware_timestamp in units of 10 ns.
    put(32, &figures.boot_ns.to_le_bytes());
    put(96, &(figures.boot_ns / 10).to_le_bytes());
    // Nothing ever throttles: throttle_status, indep_throttle_status.
    put(68, &[0; 4]);
    put(112, &[0; 8]);
    bytes.to_vec()
}
