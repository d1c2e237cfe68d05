//! The system management unit: the driver's mailbox, and the tables that go through memory.
//!
//! A device of software has neither clocks nor temperatures. Its figures are those of the model that the driver's files show
//! as well ([`belfry_abi::sensors`]); they follow the time in which waves are executed. Linux drives the unit in
//! `pm/swsmu/smu13/smu_v13_0.c` and `smu_v13_0_0_ppt.c`.

mod clocks;
mod tables;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use belfry_abi::regs::mp1::{
    self, MP1_SMN_C2PMSG_54, MP1_SMN_C2PMSG_66, MP1_SMN_C2PMSG_75, MP1_SMN_C2PMSG_82, MP1_SMN_C2PMSG_90,
};
use belfry_abi::regs::{Ip, Offset, Register};
use belfry_abi::sensors::{Load, POWER_LIMIT, Sensors, measure};
use belfry_abi::smu::{Answer, Clock, Message, PpTable, Table};
use belfry_lock::{Mutex, rank};
use zerocopy::IntoBytes as _;

use self::clocks::{Half, Limit, Settings, check_power_limit, levels};
use crate::activity::Activity;
use crate::chip::SmuFirmware;
use crate::guest_error::GuestError;
use crate::regs::{Block, Run, Storage};
use crate::stats::Counters;
use crate::time::Clock as DeviceClock;
use crate::vm::Contexts;

/// The table in a transfer's parameter.
const TABLE: u32 = 0xff;
/// Bytes of the largest table (`MP0_MP1_DATA_REGION_SIZE_COMBOPPTABLE`).
const COMBO_BYTES: usize = 16 << 10;
/// Bytes of the other tables that are written as 0: the largest of them has fewer.
const OTHER_BYTES: usize = 4 << 10;
/// Bits of a level or of a frequency in a parameter; the clock is above them.
const LEVEL: u32 = 0xffff;
/// Nanoseconds of a tick of the activity.
const TICK_NS: u64 = 10;
/// Number of the chip, which the device's number is added to.
const SERIAL: u32 = 0x7900;

/// Request of a driver that the whole device is reset: the unit takes it, and the device obeys once the access is over.
#[derive(Debug, Default)]
pub(crate) struct ResetRequest(AtomicBool);

impl ResetRequest {
    fn ask(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Takes the request. Returns true if there was one.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// The system management unit.
pub(crate) struct Smu {
    storage: Storage,
    /// Address of the driver's table: low and high half.
    table: [AtomicU32; 2],
    settings: Settings,
    load: Mutex<Load, rank::SmuLoad>,
    firmware: SmuFirmware,
    ports: SmuPorts,
}

/// Parts of the device that the unit uses.
pub(crate) struct SmuPorts {
    pub(crate) contexts: Arc<Contexts>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) reset: Arc<ResetRequest>,
    pub(crate) time: DeviceClock,
    pub(crate) activity: Activity,
    /// False for a device that repeats itself exactly: it is never busy.
    pub(crate) counts_time: bool,
    /// Number of the device.
    pub(crate) number: u8,
}

impl Smu {
    pub(crate) fn new(firmware: SmuFirmware, ports: SmuPorts) -> Self {
        Self {
            storage: Storage::new(mp1::ALL),
            table: Default::default(),
            settings: Settings::new(),
            load: Mutex::new(Load::new()),
            firmware,
            ports,
        }
    }

    /// Takes a look at how busy the device is. A first look in a while is two, with a short pause.
    fn sensors(&self) -> Sensors {
        let look = || {
            let now = self.ports.time.now().as_nanos() as u64;
            let busy = self.ports.activity.busy_ticks().saturating_mul(TICK_NS);
            self.load.lock().unwrap_or_else(PoisonError::into_inner).look(now, busy)
        };
        let busy_percent = if self.ports.counts_time {
            measure(look, |us| thread::sleep(Duration::from_micros(us)))
        } else {
            0
        };
        Sensors { peaks: self.firmware.peaks, busy_percent }
    }

    /// Takes a message of the driver.
    fn take(&self, message: Message) {
        let parameter = self.storage.get::<MP1_SMN_C2PMSG_82>().bits();
        let answer = match self.run(message, parameter) {
            Ok(value) => {
                if let Some(value) = value {
                    self.storage.set(MP1_SMN_C2PMSG_82::from_bits(value));
                }
                Answer::OK
            }
            Err(why) => {
                let name = message.name().unwrap_or("unknown");
                let details = format_args!("message={name} ({:#x}) parameter={parameter:#x}", message.0);
                self.ports.counters.error(why, details);
                if why == GuestError::SmuMessage { Answer::UNKNOWN } else { Answer::FAILED }
            }
        };
        self.storage.set(MP1_SMN_C2PMSG_90::from_bits(answer.0));
    }

    /// Executes a message. Returns the value that it returns, if it returns one.
    fn run(&self, message: Message, parameter: u32) -> Result<Option<u32>, GuestError> {
        let [low, high] = &self.table;
        let (clock, peaks) = (Clock(parameter >> 16), self.firmware.peaks);
        if self.set(message, parameter)? {
            return Ok(None);
        }
        Ok(match message {
            Message::TEST_MESSAGE => Some(parameter.wrapping_add(1)),
            Message::GET_SMU_VERSION => Some(self.firmware.version),
            Message::GET_DRIVER_IF_VERSION => Some(self.firmware.interface),
            Message::GET_RUNNING_SMU_FEATURES_LOW => Some(self.settings.running(Half::Low)),
            Message::GET_RUNNING_SMU_FEATURES_HIGH => Some(self.settings.running(Half::High)),
            Message::GET_DPM_FREQ_BY_INDEX => Some(levels(clock, peaks)?.at(parameter & LEVEL)?),
            Message::GET_MIN_DPM_FREQ => levels(clock, peaks)?.mhz.first().copied(),
            Message::GET_MAX_DPM_FREQ => levels(clock, peaks)?.mhz.last().copied(),
            Message::GET_PPT_LIMIT => Some(POWER_LIMIT),
            Message::SET_DRIVER_DRAM_ADDR_HIGH => {
                high.store(parameter, Ordering::Release);
                None
            }
            Message::SET_DRIVER_DRAM_ADDR_LOW => {
                low.store(parameter, Ordering::Release);
                None
            }
            // After the reset, the answer reads as it does at power on: OK.
            Message::MODE1_RESET => {
                self.ports.reset.ask();
                None
            }
            Message::TRANSFER_TABLE_SMU2DRAM => {
                self.write_table(Table(parameter & TABLE))?;
                None
            }
            // Accepted as by a unit that does nothing with them.
            Message::TRANSFER_TABLE_DRAM2SMU
            | Message::SET_TOOLS_DRAM_ADDR_HIGH
            | Message::SET_TOOLS_DRAM_ADDR_LOW
            | Message::SET_SYSTEM_VIRTUAL_DRAM_ADDR_HIGH
            | Message::SET_SYSTEM_VIRTUAL_DRAM_ADDR_LOW
            | Message::OVERRIDE_PCIE_PARAMETERS
            | Message::SET_WORKLOAD_MASK
            | Message::ALLOW_GFX_OFF
            | Message::DISALLOW_GFX_OFF
            // The decoders are harvested; a driver switches them on and off all the same.
            | Message::POWER_UP_VCN
            | Message::POWER_DOWN_VCN
            | Message::POWER_UP_JPEG
            | Message::POWER_DOWN_JPEG
            | Message::PREPARE_MP1_FOR_UNLOAD
            | Message::NOTIFY_POWER_SOURCE
            | Message::RUN_DC_BTC
            | Message::SET_EXTERNAL_CLIENT_DF_CSTATE_ALLOW
            | Message::ALLOW_IH_HOST_INTERRUPT
            | Message::DAL_NOT_PRESENT => None,
            _ => return Err(GuestError::SmuMessage),
        })
    }

    /// Takes features and limits. Returns false for a message about anything else.
    fn set(&self, message: Message, parameter: u32) -> Result<bool, GuestError> {
        let (clock, mhz) = (Clock(parameter >> 16), parameter & LEVEL);
        match message {
            Message::SET_ALLOWED_FEATURES_MASK_LOW => self.settings.allow(Half::Low, parameter),
            Message::SET_ALLOWED_FEATURES_MASK_HIGH => self.settings.allow(Half::High, parameter),
            Message::ENABLE_ALL_SMU_FEATURES => {
                self.settings.start(Half::Low, u32::MAX);
                self.settings.start(Half::High, u32::MAX);
            }
            Message::DISABLE_ALL_SMU_FEATURES => {
                self.settings.stop(Half::Low, u32::MAX);
                self.settings.stop(Half::High, u32::MAX);
            }
            Message::ENABLE_SMU_FEATURES_LOW => self.settings.start(Half::Low, parameter),
            Message::ENABLE_SMU_FEATURES_HIGH => self.settings.start(Half::High, parameter),
            Message::DISABLE_SMU_FEATURES_LOW => self.settings.stop(Half::Low, parameter),
            Message::DISABLE_SMU_FEATURES_HIGH => self.settings.stop(Half::High, parameter),
            Message::SET_SOFT_MIN_BY_FREQ => self.settings.limit(clock, Limit::Lowest, mhz)?,
            Message::SET_SOFT_MAX_BY_FREQ => self.settings.limit(clock, Limit::Highest, mhz)?,
            Message::SET_PPT_LIMIT => check_power_limit(parameter)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes a table to the driver's memory.
    fn write_table(&self, table: Table) -> Result<(), GuestError> {
        let content = match table {
            Table::COMBO_PPTABLE => {
                let mut content = tables::properties(self.firmware.peaks);
                content.resize(COMBO_BYTES, 0);
                content
            }
            Table::PPTABLE => tables::properties(self.firmware.peaks).split_off(PpTable::SMC_PPTABLE),
            Table::SMU_METRICS => {
                let serial = SERIAL + u32::from(self.ports.number);
                tables::metrics(&self.settings, self.sensors(), serial).as_bytes().to_vec()
            }
            // The clocks follow the load alone, and nothing can be overclocked.
            Table::OVERDRIVE | Table::ACTIVITY_MONITOR_COEFF => {
                let details = format_args!("table={}", table.0);
                self.ports.counters.unmodelled("contents of tables of the SMU", details);
                vec![0; OTHER_BYTES]
            }
            _ => return Err(GuestError::SmuTable),
        };
        let [low, high] = [0, 1].map(|half| u64::from(self.table[half].load(Ordering::Acquire)));
        let space = self.ports.contexts.space(0).ok_or(GuestError::SmuTableUnmapped)?;
        space.write_bytes(low | high << 32, &content).map_err(|_| GuestError::SmuTableUnmapped)
    }
}

shows_registers!(Smu, storage);

impl Block for Smu {
    fn ip(&self) -> (Ip, u8) {
        (mp1::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        self.storage.claims()
    }

    fn read(&self, at: Offset) -> u32 {
        self.storage.read(at)
    }

    fn write(&self, at: Offset, value: u32) {
        self.storage.write(at, value);
        match at {
            MP1_SMN_C2PMSG_66::AT => self.take(Message(value)),
            MP1_SMN_C2PMSG_75::AT => {
                self.ports.counters.error(GuestError::SmuDebugMessage, format_args!("message={value:#x}"));
                self.storage.set(MP1_SMN_C2PMSG_54::from_bits(Answer::UNKNOWN.0));
            }
            _ => {}
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        [self.storage.kept(), self.table.iter().collect(), self.settings.kept().collect()].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.table.iter().for_each(|half| half.store(0, Ordering::Release));
        self.settings.reset();
    }
}
