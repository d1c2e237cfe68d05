//! ACPI's fixed registers: a sleep type that means off, and events that never happen.
//!
//! ACPI Specification 6.5, section 4.8.3.

use crate::ending::{End, Ending};

/// PM1a event block: status and enable.
pub(super) const EVENT: u16 = 0x600;
pub(super) const EVENT_SIZE: u16 = 4;
/// PM1a control block.
pub(super) const CONTROL: u16 = 0x604;
pub(super) const CONTROL_SIZE: u16 = 2;
/// Value of `SLP_TYP` in `\_S5`.
pub(super) const SLEEP_TYPE_OFF: u8 = 5;
/// The reset control register of Intel's chipsets: bit 1 chooses a hard reset, bit 2 resets.
pub(super) const RESET_CONTROL: u16 = 0xcf9;
pub(super) const RESET_VALUE: u8 = 0x06;
const RESET_CPU: u8 = 1 << 2;

const SCI_ENABLE: u16 = 1;
const SLEEP_TYPE: u16 = 7 << 10;
const SLEEP_ENABLE: u16 = 1 << 13;

const ENABLE: usize = (EVENT_SIZE / 2) as usize;
const CONTROL_AT: usize = (CONTROL - EVENT) as usize;
const SIZE: usize = (EVENT_SIZE + CONTROL_SIZE) as usize;

/// The registers, byte by byte from [`EVENT`] on.
#[derive(Debug)]
pub(super) struct Power {
    bytes: [u8; SIZE],
}

impl Power {
    pub(super) fn new() -> Self {
        let mut bytes = [0; SIZE];
        // There is no other mode to switch from.
        bytes[CONTROL_AT] = SCI_ENABLE as u8;
        Self { bytes }
    }

    /// Returns the registers, as [`Self::restored`] takes them.
    pub(super) fn save(&self) -> [u8; SIZE] {
        self.bytes
    }

    /// Makes the registers of their saved state.
    pub(super) fn restored(bytes: [u8; SIZE]) -> Self {
        Self { bytes }
    }

    /// Returns the index of a port's byte among the registers.
    pub(super) fn find(port: u16) -> Option<usize> {
        port.checked_sub(EVENT).map(usize::from).filter(|&at| at < SIZE)
    }

    pub(super) fn read(&self, at: usize, data: &mut [u8]) {
        for (at, byte) in (at..).zip(data) {
            *byte = self.bytes.get(at).copied().unwrap_or(0xff);
        }
    }

    pub(super) fn write(&mut self, at: usize, data: &[u8], ending: &Ending) {
        for (at, &byte) in (at..).zip(data) {
            match at {
                // No event has happened, so there is none to clear.
                0..ENABLE => {}
                CONTROL_AT => self.bytes[at] = byte | SCI_ENABLE as u8,
                _ if at < SIZE => self.bytes[at] = byte,
                _ => {}
            }
        }
        let control = u16::from_le_bytes([self.bytes[CONTROL_AT], self.bytes[CONTROL_AT + 1]]);
        if control & SLEEP_ENABLE != 0 {
            // The bit reads 0.
            self.bytes[CONTROL_AT + 1] &= !((SLEEP_ENABLE >> 8) as u8);
            let kind = (control & SLEEP_TYPE) >> 10;
            if kind == u16::from(SLEEP_TYPE_OFF) {
                ending.end(End::PowerOff);
            } else {
                log::debug!(target: "kvm", "there is no sleep type {kind}");
            }
        }
    }

    /// Writes the reset control register.
    pub(super) fn reset_control(value: u8, ending: &Ending) {
        if value & RESET_CPU != 0 {
            ending.end(End::Reset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_type_that_is_off_ends_the_machine() {
        let ending = Ending::new().unwrap();
        let mut power = Power::new();
        for kind in (0..8u16).filter(|kind| *kind != u16::from(SLEEP_TYPE_OFF)) {
            power.write(CONTROL_AT, &(kind << 10 | SLEEP_ENABLE).to_le_bytes(), &ending);
            assert_eq!(ending.reason(), None);
        }
        // The type alone has no effect either; the written bits are read back, except the bit that acts.
        power.write(CONTROL_AT, &(u16::from(SLEEP_TYPE_OFF) << 10).to_le_bytes(), &ending);
        let mut data = [0; 2];
        power.read(CONTROL_AT, &mut data);
        assert_eq!((u16::from_le_bytes(data), ending.reason()), (5 << 10 | 1, None));
        power.write(CONTROL_AT + 1, &[(5 << 10 | SLEEP_ENABLE).to_le_bytes()[1]], &ending);
        assert_eq!(ending.reason(), Some(End::PowerOff));
    }

    #[test]
    fn accesses_of_every_width_anywhere_are_survived() {
        let ending = Ending::new().unwrap();
        let mut power = Power::new();
        for port in EVENT - 4..EVENT + 12 {
            for width in [1, 2, 4] {
                if let Some(at) = Power::find(port) {
                    power.write(at, &vec![0xdf; width], &ending);
                    power.read(at, &mut vec![0; width]);
                }
            }
        }
        let mut status = [0xff; 2];
        power.read(0, &mut status);
        assert_eq!((status, ending.reason()), ([0, 0], None));
    }
}
