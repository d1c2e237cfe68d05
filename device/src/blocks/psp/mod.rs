//! The platform security processor: its boot loader, and the ring of its operating system.
//!
//! The contents of firmware are never looked at: a command that loads some is answered as by a PSP that accepts it. Commands
//! are done when the register that submits them has been written.
//!
//! Linux drives it in `amdgpu/psp_v13_0.c` and `amdgpu_psp.c`.

mod commands;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::psp::{BootCommand, FRAME_DWORDS, RESPONSE, RingCommand, STATUS_MASK};
use belfry_abi::regs::mp::{
    self, MP0_SMN_C2PMSG_35, MP0_SMN_C2PMSG_64, MP0_SMN_C2PMSG_67, MP0_SMN_C2PMSG_69, MP0_SMN_C2PMSG_70,
    MP0_SMN_C2PMSG_71, MP0_SMN_C2PMSG_81,
};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::guest_error::GuestError;
use crate::regs::{Block, Run, Storage};
use crate::stats::Counters;
use crate::vm::Contexts;
use commands::Commands;

/// Status of a refused command of the boot loader or about the ring: drivers only tell it from 0.
const REFUSED: u32 = 1;
/// Sign of life of the operating system.
const ALIVE: u32 = 1;
/// Most bytes of a ring; Linux takes 4 KiB.
const MOST_OF_RING: u32 = 64 << 10;

/// The platform security processor.
pub(crate) struct Psp {
    storage: Storage,
    /// True (1) once the boot loader has taken the system driver.
    has_system_driver: AtomicU32,
    /// True (1) while the operating system starts: until its sign of life is looked at.
    ///
    /// A driver waits for the sign to change (`psp_wait_for`, `check_changed`), so it must not be there at the first look.
    starts: AtomicU32,
    /// Dwords of the ring; 0 while there is none.
    ring: AtomicU32,
    /// Next dword of the ring to read.
    read: AtomicU32,
    commands: Commands,
    counters: Arc<Counters>,
}

impl Psp {
    pub(crate) fn new(contexts: Arc<Contexts>, counters: Arc<Counters>) -> Self {
        Self {
            storage: Storage::new(mp::ALL),
            has_system_driver: AtomicU32::default(),
            starts: AtomicU32::default(),
            ring: AtomicU32::default(),
            read: AtomicU32::default(),
            commands: Commands::new(contexts, Arc::clone(&counters)),
            counters,
        }
    }

    fn is_alive(&self) -> bool {
        self.starts.load(Ordering::Acquire) != 0 || self.storage.get::<MP0_SMN_C2PMSG_81>().bits() != 0
    }

    /// Reads the operating system's sign of life.
    fn sign_of_life(&self) -> u32 {
        if self.starts.swap(0, Ordering::AcqRel) != 0 {
            self.storage.set(MP0_SMN_C2PMSG_81::from_bits(ALIVE));
            return 0;
        }
        self.storage.read(MP0_SMN_C2PMSG_81::AT)
    }

    /// Takes a command of the boot loader, which loads one part after the other.
    fn boot(&self, command: BootCommand) {
        let answer = match self.load(command) {
            Ok(()) => RESPONSE,
            Err(why) => {
                self.counters.error(why, format_args!("command={:#x}", command.0));
                RESPONSE | REFUSED
            }
        };
        self.storage.set(MP0_SMN_C2PMSG_35::from_bits(answer));
    }

    fn load(&self, command: BootCommand) -> Result<(), GuestError> {
        // The operating system has taken the boot loader's place.
        if self.is_alive() {
            return Err(GuestError::PspBootOver);
        }
        match command {
            BootCommand::KEY_DATABASE
            | BootCommand::TOS_SPL_TABLE
            | BootCommand::SOCDRV
            | BootCommand::DBGDRV
            | BootCommand::INTFDRV
            | BootCommand::RASDRV
            | BootCommand::IPKEYMGRDRV => {}
            BootCommand::SYSDRV => self.has_system_driver.store(1, Ordering::Release),
            BootCommand::SOSDRV if self.has_system_driver.load(Ordering::Acquire) == 0 => {
                return Err(GuestError::PspBootOrder);
            }
            BootCommand::SOSDRV => {
                self.starts.store(1, Ordering::Release);
                self.storage.set(MP0_SMN_C2PMSG_64::from_bits(RESPONSE));
            }
            _ => return Err(GuestError::PspBootCommand),
        }
        Ok(())
    }

    /// Takes a command about the ring.
    fn control(&self, command: RingCommand) {
        let status = match self.control_ring(command) {
            Ok(()) => 0,
            Err(why) => {
                self.counters.error(why, format_args!("command={:#x}", command.0));
                REFUSED
            }
        };
        self.storage.set(MP0_SMN_C2PMSG_64::from_bits(RESPONSE | status & STATUS_MASK));
    }

    fn control_ring(&self, command: RingCommand) -> Result<(), GuestError> {
        if !self.is_alive() {
            return Err(GuestError::PspNotUp);
        }
        match command {
            RingCommand::INIT_GPCOM_RING => {
                let bytes = self.storage.get::<MP0_SMN_C2PMSG_71>().bits();
                let frame = FRAME_DWORDS * 4;
                if bytes == 0 || bytes > MOST_OF_RING || !bytes.is_multiple_of(frame) {
                    return Err(GuestError::PspRingSize);
                }
                // The driver goes on from the pointer that it reads here.
                self.storage.set(MP0_SMN_C2PMSG_67::from_bits(0));
                self.read.store(0, Ordering::Release);
                self.ring.store(bytes / 4, Ordering::Release);
            }
            RingCommand::DESTROY_RINGS | RingCommand::DESTROY_GPCOM_RING => {
                self.ring.store(0, Ordering::Release);
            }
            _ => return Err(GuestError::PspRingCommand),
        }
        Ok(())
    }

    /// Executes the frames up to a write pointer.
    fn submit(&self, wptr: u32) {
        let dwords = self.ring.load(Ordering::Acquire);
        if dwords == 0 {
            return self.counters.error(GuestError::PspNoRing, format_args!("wptr={wptr:#x}"));
        }
        if wptr >= dwords || !wptr.is_multiple_of(FRAME_DWORDS) {
            return self.counters.error(GuestError::PspWritePointer, format_args!("wptr={wptr:#x}"));
        }
        let low = self.storage.get::<MP0_SMN_C2PMSG_69>().bits();
        let high = self.storage.get::<MP0_SMN_C2PMSG_70>().bits();
        let base = u64::from(low) | u64::from(high) << 32;
        let mut at = self.read.swap(wptr, Ordering::AcqRel);
        // A snapshot may hold any values: the ring is gone through once at most.
        for _ in 0..dwords.min(MOST_OF_RING / 4) / FRAME_DWORDS {
            if at == wptr {
                break;
            }
            self.commands.execute(base.wrapping_add(u64::from(at) * 4));
            at = at.wrapping_add(FRAME_DWORDS) % dwords;
        }
    }
}

shows_registers!(Psp, storage);

impl Block for Psp {
    fn ip(&self) -> (Ip, u8) {
        (mp::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        self.storage.claims()
    }

    fn read(&self, at: Offset) -> u32 {
        if at == MP0_SMN_C2PMSG_81::AT { self.sign_of_life() } else { self.storage.read(at) }
    }

    fn write(&self, at: Offset, value: u32) {
        match at {
            MP0_SMN_C2PMSG_35::AT => self.boot(BootCommand(value)),
            MP0_SMN_C2PMSG_64::AT => self.control(RingCommand(value)),
            MP0_SMN_C2PMSG_67::AT => {
                self.storage.write(at, value);
                self.submit(value);
            }
            _ => self.storage.write(at, value),
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        let own = vec![&self.has_system_driver, &self.starts, &self.ring, &self.read];
        [self.storage.kept(), own, self.commands.kept()].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        for value in [&self.has_system_driver, &self.starts, &self.ring, &self.read] {
            value.store(0, Ordering::Release);
        }
        self.commands.reset();
    }
}
