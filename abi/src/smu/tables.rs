//! Tables of the unit.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Clock;

/// A place where the temperature is measured (`TEMP_e`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Temperature(pub usize);

impl Temperature {
    /// Edge of the chip, `TEMP_EDGE`.
    pub const EDGE: Self = Self(0);
    /// Hottest place, `TEMP_HOTSPOT`.
    pub const HOTSPOT: Self = Self(1);
    /// Memory, `TEMP_MEM`.
    pub const MEM: Self = Self(4);
    /// Number of places (`TEMP_COUNT`).
    pub const COUNT: usize = 13;
}

/// Measurements of the unit (`SmuMetricsExternal_t` of `smu13_driver_if_v13_0_0.h`). Clocks in MHz, activity in percent, power
/// in watts, temperatures in degrees Celsius, voltages in millivolts.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SmuMetrics {
    /// Clocks as they are now, by number.
    pub curr_clock: [u32; Clock::COUNT],
    /// Engine clock that the unit aims at.
    pub average_gfxclk_frequency_target: u16,
    /// Average engine clock without deep sleep.
    pub average_gfxclk_frequency_pre_ds: u16,
    /// Average engine clock with deep sleep: drivers show it while the activity is low.
    pub average_gfxclk_frequency_post_ds: u16,
    /// Average clock of the fabric without deep sleep.
    pub average_fclk_frequency_pre_ds: u16,
    /// Average clock of the fabric with deep sleep.
    pub average_fclk_frequency_post_ds: u16,
    /// Average clock of the memory without deep sleep.
    pub average_memclk_frequency_pre_ds: u16,
    /// Average clock of the memory with deep sleep.
    pub average_memclk_frequency_post_ds: u16,
    /// Average clocks of the video decoders.
    pub average_video_frequency: [u16; 4],
    /// Activity of the link.
    pub pcie_busy: u16,
    /// Most power of the card.
    pub dgpu_w_max: u16,
    /// Unused.
    pub padding: u16,
    /// Number of times that the unit has measured.
    pub metrics_counter: u32,
    /// Voltages: graphics, system hub, memory.
    pub avg_voltage: [u16; 5],
    /// Currents.
    pub avg_current: [u16; 5],
    /// Activity of graphics.
    pub average_gfx_activity: u16,
    /// Activity of the memory.
    pub average_uclk_activity: u16,
    /// Activity of the video decoders.
    pub vcn_activity_percentage: [u16; 2],
    /// Energy.
    pub energy_accumulator: u32,
    /// Power of the chip's socket.
    pub average_socket_power: u16,
    /// Power of the board.
    pub average_total_board_power: u16,
    /// Temperatures, by place.
    pub avg_temperature: [u16; Temperature::COUNT],
    /// Temperature of the air.
    pub avg_temperature_fan_intake: u16,
    /// Generation of the link's speed: 4 is 16 GT/s.
    pub pcie_rate: u8,
    /// Lanes of the link.
    pub pcie_width: u8,
    /// Speed of the fan in percent.
    pub avg_fan_pwm: u8,
    /// Unused.
    pub padding1: u8,
    /// Speed of the fan in RPM.
    pub avg_fan_rpm: u16,
    /// Throttling by each limit, in percent; then counts of the sleep D3hot.
    pub throttling: [u8; 82],
    /// Number of the chip, low and high half.
    pub public_serial_number: [u32; 2],
    /// Unused.
    pub spare: [u32; 37],
}

const _: () = assert!(size_of::<SmuMetrics>() == 392);
const _: () = assert!(core::mem::offset_of!(SmuMetrics, metrics_counter) == 80);
const _: () = assert!(core::mem::offset_of!(SmuMetrics, average_gfx_activity) == 104);
const _: () = assert!(core::mem::offset_of!(SmuMetrics, average_socket_power) == 116);
const _: () = assert!(core::mem::offset_of!(SmuMetrics, avg_temperature) == 120);
const _: () = assert!(core::mem::offset_of!(SmuMetrics, avg_fan_rpm) == 152);
const _: () = assert!(core::mem::offset_of!(SmuMetrics, public_serial_number) == 236);

/// Places in the properties of board and chip (`struct smu_13_0_0_powerplay_table` of `smu_v13_0_0_pptable.h`, which ends with
/// `PPTable_t` of `smu13_driver_if_v13_0_0.h`), in bytes. All that is left out is 0 here.
#[derive(Clone, Copy, Debug)]
pub struct PpTable;

impl PpTable {
    /// Bytes of the whole table.
    pub const BYTES: usize = 4804;
    /// `header`: bytes, format, content.
    pub const HEADER: usize = 0;
    /// `header.format_revision`.
    pub const FORMAT_REVISION: u8 = 15;
    /// `table_revision`.
    pub const TABLE_REVISION: usize = 4;
    /// `table_size`: the place of `smc_pptable`.
    pub const TABLE_SIZE: usize = 6;
    /// `software_shutdown_temp`, in degrees Celsius.
    pub const SOFTWARE_SHUTDOWN_TEMP: usize = 29;
    /// `smc_pptable`: the part that the unit uses itself.
    pub const SMC_PPTABLE: usize = 832;
    /// `SkuTable.Version`.
    pub const VERSION: usize = Self::SMC_PPTABLE;
    /// `PPTABLE_VERSION`.
    pub const CURRENT_VERSION: u32 = 0x2b;
    /// `SkuTable.FeaturesToRun`.
    pub const FEATURES_TO_RUN: usize = Self::SMC_PPTABLE + 4;
    /// `SkuTable.SocketPowerLimitAc`: watts, of the average first.
    pub const SOCKET_POWER_LIMIT_AC: usize = Self::SMC_PPTABLE + 16;
    /// `SkuTable.SocketPowerLimitDc`.
    pub const SOCKET_POWER_LIMIT_DC: usize = Self::SMC_PPTABLE + 24;
    /// `SkuTable.TemperatureLimit`: degrees Celsius, 16 bits for each place.
    pub const TEMPERATURE_LIMIT: usize = Self::SMC_PPTABLE + 50;
    /// `SkuTable.FreqTableGfx`: MHz, 16 bits for each of up to 16 levels.
    pub const FREQ_TABLE_GFX: usize = Self::SMC_PPTABLE + 684;
    /// `SkuTable.FreqTableSocclk`, up to 8 levels.
    pub const FREQ_TABLE_SOCCLK: usize = Self::SMC_PPTABLE + 748;
    /// `SkuTable.FreqTableUclk`, up to 4 levels.
    pub const FREQ_TABLE_UCLK: usize = Self::SMC_PPTABLE + 764;
    /// `SkuTable.FreqTableFclk`, up to 8 levels.
    pub const FREQ_TABLE_FCLK: usize = Self::SMC_PPTABLE + 852;
    /// `SkuTable.PcieGenSpeed`: 3 is 16 GT/s; a byte for each of three levels.
    pub const PCIE_GEN_SPEED: usize = Self::SMC_PPTABLE + 1232;
    /// `SkuTable.PcieLaneCount`: 6 is 16 lanes.
    pub const PCIE_LANE_COUNT: usize = Self::SMC_PPTABLE + 1235;
    /// `SkuTable.LclkFreq`: MHz.
    pub const LCLK_FREQ: usize = Self::SMC_PPTABLE + 1238;
    /// `SkuTable.FanMaximumRpm`.
    pub const FAN_MAXIMUM_RPM: usize = Self::SMC_PPTABLE + 1330;
    /// `SkuTable.MsgLimits.Power`: the limits that a message may set, in watts: mains and battery, for each of four averages.
    pub const MSG_LIMITS_POWER: usize = Self::SMC_PPTABLE + 2808;
}
