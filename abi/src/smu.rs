//! Messages of the system management unit (SMU).
//!
//! Source: Linux `drivers/gpu/drm/amd/pm/swsmu/inc/pmfw_if/smu_v13_0_0_ppsmc.h` (`PPSMC_MSG_*`, `PPSMC_Result_*`) and
//! `smu13_driver_if_v13_0_0.h` (`TABLE_*`).

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
    /// Limits of overclocking, `TABLE_OVERDRIVE`.
    pub const OVERDRIVE: Self = Self(8);
}
