//! Messages of the system management unit (SMU).
//!
//! Source: Linux `drivers/gpu/drm/amd/pm/swsmu/inc/pmfw_if/smu_v13_0_0_ppsmc.h` (`PPSMC_MSG_*`, `PPSMC_Result_*`) and
//! `smu13_driver_if_v13_0_0.h` (`TABLE_*`, `FEATURE_*`, `PPCLK_*`).

mod tables;

pub use tables::{PpTable, SmuMetrics, Temperature};

/// A message of SMU 13.0.0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Message(pub u32);

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        impl Message {
            $($(#[$doc])* pub const $name: Self = Self($number);)*

            /// Upstream's name; `None` for messages that are not listed here.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

messages! {
    /// Returns its parameter plus 1.
    TEST_MESSAGE = 0x1, "TestMessage";
    /// Returns the version of the firmware.
    GET_SMU_VERSION = 0x2, "GetSmuVersion";
    /// Returns the version of the interface.
    GET_DRIVER_IF_VERSION = 0x3, "GetDriverIfVersion";
    /// Allows features 31:0.
    SET_ALLOWED_FEATURES_MASK_LOW = 0x4, "SetAllowedFeaturesMaskLow";
    /// Allows features 63:32.
    SET_ALLOWED_FEATURES_MASK_HIGH = 0x5, "SetAllowedFeaturesMaskHigh";
    /// Starts all allowed features.
    ENABLE_ALL_SMU_FEATURES = 0x6, "EnableAllSmuFeatures";
    /// Stops all features.
    DISABLE_ALL_SMU_FEATURES = 0x7, "DisableAllSmuFeatures";
    /// Starts features 31:0 of its parameter.
    ENABLE_SMU_FEATURES_LOW = 0x8, "EnableSmuFeaturesLow";
    /// Starts features 63:32 of its parameter.
    ENABLE_SMU_FEATURES_HIGH = 0x9, "EnableSmuFeaturesHigh";
    /// Stops features 31:0 of its parameter.
    DISABLE_SMU_FEATURES_LOW = 0xa, "DisableSmuFeaturesLow";
    /// Stops features 63:32 of its parameter.
    DISABLE_SMU_FEATURES_HIGH = 0xb, "DisableSmuFeaturesHigh";
    /// Returns the running features 31:0.
    GET_RUNNING_SMU_FEATURES_LOW = 0xc, "GetRunningSmuFeaturesLow";
    /// Returns the running features 63:32.
    GET_RUNNING_SMU_FEATURES_HIGH = 0xd, "GetRunningSmuFeaturesHigh";
    /// Address of the driver's table, high half.
    SET_DRIVER_DRAM_ADDR_HIGH = 0xe, "SetDriverDramAddrHigh";
    /// Address of the driver's table, low half.
    SET_DRIVER_DRAM_ADDR_LOW = 0xf, "SetDriverDramAddrLow";
    /// Address of the tools' table, high half.
    SET_TOOLS_DRAM_ADDR_HIGH = 0x10, "SetToolsDramAddrHigh";
    /// Address of the tools' table, low half.
    SET_TOOLS_DRAM_ADDR_LOW = 0x11, "SetToolsDramAddrLow";
    /// Writes a table to the driver's memory.
    TRANSFER_TABLE_SMU2DRAM = 0x12, "TransferTableSmu2Dram";
    /// Reads a table from the driver's memory.
    TRANSFER_TABLE_DRAM2SMU = 0x13, "TransferTableDram2Smu";
    /// Least frequency of a clock.
    SET_SOFT_MIN_BY_FREQ = 0x19, "SetSoftMinByFreq";
    /// Most frequency of a clock.
    SET_SOFT_MAX_BY_FREQ = 0x1a, "SetSoftMaxByFreq";
    /// Returns the lowest frequency of a clock.
    GET_MIN_DPM_FREQ = 0x1d, "GetMinDpmFreq";
    /// Returns the highest frequency of a clock.
    GET_MAX_DPM_FREQ = 0x1e, "GetMaxDpmFreq";
    /// Returns the frequency of a level of a clock, or the number of levels.
    GET_DPM_FREQ_BY_INDEX = 0x1f, "GetDpmFreqByIndex";
    /// Limits of the link.
    OVERRIDE_PCIE_PARAMETERS = 0x20, "OverridePcieParameters";
    /// Kind of work that clocks fit.
    SET_WORKLOAD_MASK = 0x24, "SetWorkloadMask";
    /// Lets the graphics core be switched off.
    ALLOW_GFX_OFF = 0x28, "AllowGfxOff";
    /// Keeps the graphics core on.
    DISALLOW_GFX_OFF = 0x29, "DisallowGfxOff";
    /// Switches a video decoder on.
    POWER_UP_VCN = 0x2a, "PowerUpVcn";
    /// Switches a video decoder off.
    POWER_DOWN_VCN = 0x2b, "PowerDownVcn";
    /// Switches the JPEG decoder on.
    POWER_UP_JPEG = 0x2c, "PowerUpJpeg";
    /// Switches the JPEG decoder off.
    POWER_DOWN_JPEG = 0x2d, "PowerDownJpeg";
    /// The driver is about to be unloaded.
    PREPARE_MP1_FOR_UNLOAD = 0x2e, "PrepareMp1ForUnload";
    /// Resets the chip.
    MODE1_RESET = 0x2f, "Mode1Reset";
    /// Memory that the driver has set aside, high half of its address for the system.
    SET_SYSTEM_VIRTUAL_DRAM_ADDR_HIGH = 0x30, "SetSystemVirtualDramAddrHigh";
    /// Memory that the driver has set aside, low half of its address for the system.
    SET_SYSTEM_VIRTUAL_DRAM_ADDR_LOW = 0x31, "SetSystemVirtualDramAddrLow";
    /// Limit of power.
    SET_PPT_LIMIT = 0x32, "SetPptLimit";
    /// Returns the limit of power.
    GET_PPT_LIMIT = 0x33, "GetPptLimit";
    /// Source of power: mains or battery.
    NOTIFY_POWER_SOURCE = 0x35, "NotifyPowerSource";
    /// Calibrates voltages.
    RUN_DC_BTC = 0x36, "RunDcBtc";
    /// Allows the data fabric to sleep, or forbids it.
    SET_EXTERNAL_CLIENT_DF_CSTATE_ALLOW = 0x3b, "SetExternalClientDfCstateAllow";
    /// Lets the unit interrupt the driver.
    ALLOW_IH_HOST_INTERRUPT = 0x4c, "AllowIHHostInterrupt";
    /// There is no display.
    DAL_NOT_PRESENT = 0x4e, "DALNotPresent";
}

/// The answer to a message, in `MP1_SMN_C2PMSG_90`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer(pub u32);

impl Answer {
    /// The message is done.
    pub const OK: Self = Self(1);
    /// The message has failed.
    pub const FAILED: Self = Self(0xff);
    /// There is no such message.
    pub const UNKNOWN: Self = Self(0xfe);
}

/// A table in bits 7:0 of a transfer's parameter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Table(pub u32);

impl Table {
    /// Properties of the board, `TABLE_PPTABLE`.
    pub const PPTABLE: Self = Self(0);
    /// Properties of the board with those of the chip, `TABLE_COMBO_PPTABLE`.
    pub const COMBO_PPTABLE: Self = Self(1);
    /// Clocks, power and temperatures, `TABLE_SMU_METRICS`.
    pub const SMU_METRICS: Self = Self(5);
    /// Coefficients by which a workload moves the clocks, `TABLE_ACTIVITY_MONITOR_COEFF`.
    pub const ACTIVITY_MONITOR_COEFF: Self = Self(7);
    /// Limits of overclocking, `TABLE_OVERDRIVE`.
    pub const OVERDRIVE: Self = Self(8);
}

/// A clock, in bits 31:16 of a parameter (`PPCLK_e`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clock(pub u32);

impl Clock {
    /// Graphics, `PPCLK_GFXCLK`.
    pub const GFXCLK: Self = Self(0);
    /// System hub, `PPCLK_SOCCLK`.
    pub const SOCCLK: Self = Self(1);
    /// Memory, `PPCLK_UCLK`.
    pub const UCLK: Self = Self(2);
    /// Data fabric, `PPCLK_FCLK`.
    pub const FCLK: Self = Self(3);
    /// Number of clocks (`PPCLK_COUNT`).
    pub const COUNT: usize = 13;
    /// Level, in bits 15:0, that asks for the number of levels.
    pub const LEVELS: u32 = 0xff;
    /// Bit of a number of levels: the clock takes any frequency between the first and the last.
    pub const FINE_GRAINED: u32 = 1 << 31;
}

/// Features, a bit for each (`FEATURE_*_BIT`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Features(pub u64);

impl Features {
    /// The graphics clock follows the load (`FEATURE_DPM_GFXCLK_BIT`).
    pub const DPM_GFXCLK: Self = Self(1 << 1);
    /// The memory's clock follows the load (`FEATURE_DPM_UCLK_BIT`).
    pub const DPM_UCLK: Self = Self(1 << 3);
    /// The fabric's clock follows the load (`FEATURE_DPM_FCLK_BIT`).
    pub const DPM_FCLK: Self = Self(1 << 4);
    /// The system hub's clock follows the load (`FEATURE_DPM_SOCCLK_BIT`).
    pub const DPM_SOCCLK: Self = Self(1 << 5);
    /// The link has levels (`FEATURE_DPM_LINK_BIT`).
    pub const DPM_LINK: Self = Self(1 << 7);
    /// Power and temperatures have limits (`FEATURE_THROTTLERS_BIT`).
    pub const THROTTLERS: Self = Self(1 << 24);
    /// The fan follows the temperatures (`FEATURE_FAN_CONTROL_BIT`).
    pub const FAN_CONTROL: Self = Self(1 << 30);

    /// All features of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Bits 31:0 and 63:32.
    #[must_use]
    pub const fn halves(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> 32) as u32]
    }
}
