//! Mailboxes of the security processor. They have no behaviour yet, and read as on a card whose firmware is up.

use belfry_abi::regs::{Ip, Offset, mp};

use crate::regs::{Block, Run, Storage};

/// The platform security processor.
pub(crate) struct Mp0(Storage);

impl Default for Mp0 {
    fn default() -> Self {
        Self(Storage::new(mp::ALL))
    }
}

shows_registers!(Mp0, 0);

impl Block for Mp0 {
    fn ip(&self) -> (Ip, u8) {
        (mp::IP, 0)
    }

    fn claims(&self) -> Vec<Run> {
        self.0.claims()
    }

    fn read(&self, at: Offset) -> u32 {
        self.0.read(at)
    }

    fn write(&self, at: Offset, value: u32) {
        self.0.write(at, value);
    }

    fn reset(&self) {
        self.0.reset();
    }
}
