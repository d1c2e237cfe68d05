//! The golden time stamp counter, and the ROM through registers.

use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::regs::smuio::{self, GOLDEN_TSC_COUNT_LOWER, GOLDEN_TSC_COUNT_UPPER, ROM_DATA, ROM_INDEX};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::regs::{Block, Run, Storage};
use crate::time::Clock;

/// A dword of a ROM that was never programmed.
const ERASED: u32 = u32::MAX;

/// System management I/O.
pub(crate) struct Smuio {
    storage: Storage,
    clock: Clock,
    /// The VBIOS; no bytes if the chip has none here.
    rom: Vec<u8>,
    /// Byte offset of the next dword of the ROM.
    next: AtomicU32,
}

impl Smuio {
    pub(crate) fn new(clock: Clock, vbios: Option<Vec<u8>>) -> Self {
        let rom = vbios.unwrap_or_default();
        Self { storage: Storage::new(smuio::ALL), clock, rom, next: AtomicU32::default() }
    }

    /// Returns the next dword of the ROM; bytes after its image read as erased ones.
    fn rom_data(&self) -> u32 {
        let at = self.next.fetch_add(4, Ordering::AcqRel) & !3;
        let word = self.rom.get(at as usize..).and_then(|rest| rest.first_chunk());
        word.map_or(ERASED, |&word| u32::from_le_bytes(word))
    }
}

shows_registers!(Smuio, storage);

impl Block for Smuio {
    fn ip(&self) -> (Ip, u8) {
        (smuio::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        self.storage.claims()
    }

    fn read(&self, at: Offset) -> u32 {
        match at {
            GOLDEN_TSC_COUNT_UPPER::AT => (self.clock.ticks() >> 32) as u32,
            GOLDEN_TSC_COUNT_LOWER::AT => self.clock.ticks() as u32,
            ROM_INDEX::AT => self.next.load(Ordering::Acquire),
            ROM_DATA::AT => self.rom_data(),
            _ => self.storage.read(at),
        }
    }

    fn write(&self, at: Offset, value: u32) {
        if at == ROM_INDEX::AT {
            self.next.store(value, Ordering::Release);
        } else {
            self.storage.write(at, value);
        }
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        [self.storage.kept(), vec![&self.next]].concat()
    }

    fn reset(&self) {
        self.storage.reset();
        self.next.store(0, Ordering::Release);
    }
}
