//! The system management unit: the driver's mailbox, and the tables that go through memory.
//!
//! No clock, voltage or fan is modelled: no feature runs, and a driver then takes the clocks of the VBIOS. Tables of the unit
//! are all 0. Linux drives it in `pm/swsmu/smu13/smu_v13_0.c` and `smu_v13_0_0_ppt.c`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use belfry_abi::regs::mp1::{
    self, MP1_SMN_C2PMSG_54, MP1_SMN_C2PMSG_66, MP1_SMN_C2PMSG_75, MP1_SMN_C2PMSG_82, MP1_SMN_C2PMSG_90,
};
use belfry_abi::regs::{Ip, Offset, Register};
use belfry_abi::smu::{Answer, Message, Table};

use crate::chip::SmuFirmware;
use crate::guest_error::GuestError;
use crate::regs::{Block, Run, Storage};
use crate::stats::Counters;
use crate::vm::Contexts;

/// The table in a transfer's parameter.
const TABLE: u32 = 0xff;
/// Bytes of the largest table (`MP0_MP1_DATA_REGION_SIZE_COMBOPPTABLE`).
const COMBO_BYTES: usize = 16 << 10;
/// Bytes of the other tables that are written: the largest of them has fewer.
const OTHER_BYTES: usize = 4 << 10;

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
    firmware: SmuFirmware,
    contexts: Arc<Contexts>,
    counters: Arc<Counters>,
    reset: Arc<ResetRequest>,
}

impl Smu {
    pub(crate) fn new(
        firmware: SmuFirmware,
        contexts: Arc<Contexts>,
        counters: Arc<Counters>,
        reset: Arc<ResetRequest>,
    ) -> Self {
        let storage = Storage::new(mp1::ALL);
        Self { storage, table: Default::default(), firmware, contexts, counters, reset }
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
                self.counters.error(why, details);
                if why == GuestError::SmuMessage { Answer::UNKNOWN } else { Answer::FAILED }
            }
        };
        self.storage.set(MP1_SMN_C2PMSG_90::from_bits(answer.0));
    }

    /// Executes a message. Returns the value that it returns, if it returns one.
    fn run(&self, message: Message, parameter: u32) -> Result<Option<u32>, GuestError> {
        let [low, high] = &self.table;
        Ok(match message {
            Message::TEST_MESSAGE => Some(parameter.wrapping_add(1)),
            Message::GET_SMU_VERSION => Some(self.firmware.version),
            Message::GET_DRIVER_IF_VERSION => Some(self.firmware.interface),
            // No feature runs.
            Message::GET_RUNNING_SMU_FEATURES_LOW | Message::GET_RUNNING_SMU_FEATURES_HIGH => Some(0),
            Message::GET_PPT_LIMIT => Some(self.firmware.watts),
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
                self.reset.ask();
                None
            }
            Message::TRANSFER_TABLE_SMU2DRAM => {
                self.write_table(Table(parameter & TABLE))?;
                None
            }
            // Accepted as by a unit that does nothing with them.
            Message::TRANSFER_TABLE_DRAM2SMU
            | Message::SET_ALLOWED_FEATURES_MASK_LOW
            | Message::SET_ALLOWED_FEATURES_MASK_HIGH
            | Message::ENABLE_ALL_SMU_FEATURES
            | Message::DISABLE_ALL_SMU_FEATURES
            | Message::SET_TOOLS_DRAM_ADDR_HIGH
            | Message::SET_TOOLS_DRAM_ADDR_LOW
            | Message::SET_SYSTEM_VIRTUAL_DRAM_ADDR_HIGH
            | Message::SET_SYSTEM_VIRTUAL_DRAM_ADDR_LOW
            | Message::SET_SOFT_MIN_BY_FREQ
            | Message::SET_SOFT_MAX_BY_FREQ
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
            | Message::SET_PPT_LIMIT
            | Message::NOTIFY_POWER_SOURCE
            | Message::RUN_DC_BTC
            | Message::SET_EXTERNAL_CLIENT_DF_CSTATE_ALLOW
            | Message::ALLOW_IH_HOST_INTERRUPT
            | Message::DAL_NOT_PRESENT => None,
            _ => return Err(GuestError::SmuMessage),
        })
    }

    /// Writes a table to the driver's memory.
    fn write_table(&self, table: Table) -> Result<(), GuestError> {
        let bytes = match table {
            Table::COMBO_PPTABLE => COMBO_BYTES,
            Table::PPTABLE | Table::SMU_METRICS | Table::OVERDRIVE => OTHER_BYTES,
            _ => return Err(GuestError::SmuTable),
        };
        self.counters.unmodelled("contents of tables of the SMU", format_args!("table={}", table.0));
        let [low, high] = [0, 1].map(|half| u64::from(self.table[half].load(Ordering::Acquire)));
        let space = self.contexts.space(0).ok_or(GuestError::SmuTableUnmapped)?;
        space.write_bytes(low | high << 32, &vec![0; bytes]).map_err(|_| GuestError::SmuTableUnmapped)
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
                self.counters.error(GuestError::SmuDebugMessage, format_args!("message={value:#x}"));
                self.storage.set(MP1_SMN_C2PMSG_54::from_bits(Answer::UNKNOWN.0));
            }
            _ => {}
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        [self.storage.kept(), self.table.iter().collect()].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.table.iter().for_each(|half| half.store(0, Ordering::Release));
    }
}
