//! Contents of the tables that the unit writes.

use belfry_abi::sensors::{
    EDGE, FABRIC_CLOCKS, JUNCTION, LINK_LANES, MAX_FAN_SPEED, MEMORY, POWER_LIMIT, Peaks, SYSTEM_CLOCKS,
    Sensors,
};
use belfry_abi::smu::{Clock, PpTable, SmuMetrics, Temperature};
use zerocopy::FromZeros;

use super::clocks::{CLOCKS, MODELLED, Settings};

/// Generation of the link's speed: 16 GT/s.
const PCIE_GENERATION: u8 = 4;
/// Code of a width of 16 lanes.
const LANES_16: u8 = 6;
/// Clock of the link at 16 GT/s, MHz.
const LINK_CLOCK: u16 = 619;
/// Degrees Celsius above the limit of the hottest place at which software switches the machine off.
const SHUTDOWN: u32 = 8;

/// The properties of board and chip: limits, levels of clocks, the link. What a board of silicon has besides is 0.
pub(super) fn properties(peaks: Peaks) -> Vec<u8> {
    let mut table = vec![0; PpTable::BYTES];
    let mut put = |at: usize, bytes: &[u8]| table[at..at + bytes.len()].copy_from_slice(bytes);
    put(PpTable::HEADER, &(PpTable::BYTES as u16).to_le_bytes());
    put(PpTable::HEADER + 2, &[PpTable::FORMAT_REVISION]);
    put(PpTable::TABLE_REVISION, &[2]);
    put(PpTable::TABLE_SIZE, &(PpTable::SMC_PPTABLE as u16).to_le_bytes());
    put(PpTable::VERSION, &PpTable::CURRENT_VERSION.to_le_bytes());
    put(PpTable::FEATURES_TO_RUN, &MODELLED.0.to_le_bytes());
    put(PpTable::PCIE_GEN_SPEED, &[PCIE_GENERATION - 1]);
    put(PpTable::PCIE_LANE_COUNT, &[LANES_16]);
    let mut halves = |at: usize, values: &[u32]| {
        for (index, value) in values.iter().enumerate() {
            put(at + 2 * index, &half(*value).to_le_bytes());
        }
    };
    halves(PpTable::SOFTWARE_SHUTDOWN_TEMP, &[JUNCTION.critical + SHUTDOWN]);
    halves(PpTable::SOCKET_POWER_LIMIT_AC, &[POWER_LIMIT]);
    halves(PpTable::SOCKET_POWER_LIMIT_DC, &[POWER_LIMIT]);
    halves(PpTable::MSG_LIMITS_POWER, &[POWER_LIMIT, POWER_LIMIT]);
    for (place, sensor) in
        [(Temperature::EDGE, EDGE), (Temperature::HOTSPOT, JUNCTION), (Temperature::MEM, MEMORY)]
    {
        halves(PpTable::TEMPERATURE_LIMIT + 2 * place.0, &[sensor.critical]);
    }
    halves(PpTable::FREQ_TABLE_GFX, &[peaks.engine]);
    halves(PpTable::FREQ_TABLE_SOCCLK, &SYSTEM_CLOCKS);
    halves(PpTable::FREQ_TABLE_UCLK, &peaks.memory_clocks());
    halves(PpTable::FREQ_TABLE_FCLK, &FABRIC_CLOCKS);
    halves(PpTable::LCLK_FREQ, &[LINK_CLOCK.into()]);
    halves(PpTable::FAN_MAXIMUM_RPM, &[MAX_FAN_SPEED]);
    table
}

fn half(value: u32) -> u16 {
    value.min(u16::MAX.into()) as u16
}

/// Measurements of the unit. Nothing throttles, the fan stands still, and there is no figure of the memory's activity.
pub(super) fn metrics(settings: &Settings, sensors: Sensors, serial: u32) -> SmuMetrics {
    let mut metrics = SmuMetrics::new_zeroed();
    for clock in CLOCKS {
        metrics.curr_clock[clock.0 as usize] = settings.now(clock, sensors);
    }
    let [engine, memory, fabric] =
        [Clock::GFXCLK, Clock::UCLK, Clock::FCLK].map(|clock| half(settings.now(clock, sensors)));
    metrics.average_gfxclk_frequency_target = engine;
    metrics.average_gfxclk_frequency_pre_ds = engine;
    metrics.average_gfxclk_frequency_post_ds = engine;
    metrics.average_fclk_frequency_pre_ds = fabric;
    metrics.average_fclk_frequency_post_ds = fabric;
    metrics.average_memclk_frequency_pre_ds = memory;
    metrics.average_memclk_frequency_post_ds = memory;
    metrics.dgpu_w_max = half(POWER_LIMIT);
    metrics.avg_voltage[0] = half(sensors.voltage());
    metrics.average_gfx_activity = sensors.busy_percent.into();
    metrics.average_socket_power = half(sensors.power());
    metrics.average_total_board_power = half(sensors.power());
    for (place, sensor) in
        [(Temperature::EDGE, EDGE), (Temperature::HOTSPOT, JUNCTION), (Temperature::MEM, MEMORY)]
    {
        metrics.avg_temperature[place.0] = half(sensors.temperature(&sensor));
    }
    metrics.pcie_rate = PCIE_GENERATION;
    metrics.pcie_width = LINK_LANES as u8;
    metrics.public_serial_number = [serial, 0];
    metrics
}
