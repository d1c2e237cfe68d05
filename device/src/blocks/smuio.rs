//! The golden time stamp counter.

use std::sync::atomic::AtomicU32;

use belfry_abi::regs::smuio::{self, GOLDEN_TSC_COUNT_LOWER, GOLDEN_TSC_COUNT_UPPER};
use belfry_abi::regs::{Ip, Offset, Register};

use crate::regs::{Block, Run, Storage};
use crate::time::Clock;

/// System management I/O.
pub(crate) struct Smuio {
    storage: Storage,
    clock: Clock,
}

impl Smuio {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { storage: Storage::new(smuio::ALL), clock }
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
            _ => self.storage.read(at),
        }
    }

    fn write(&self, at: Offset, value: u32) {
        self.storage.write(at, value);
    }

    fn kept(&self) -> Vec<&AtomicU32> {
        self.storage.kept()
    }

    fn reset(&self) {
        self.storage.reset();
    }
}
