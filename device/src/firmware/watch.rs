//! Address watches as a scheduler gets them: their controls are in its request, their addresses in registers.
//!
//! Source: Linux `gc_11_0_0_sh_mask.h` and `gc_9_4_3_sh_mask.h`.

use belfry_abi::regs::Register as _;
use belfry_abi::regs::gc;
use belfry_isa::mem::{Watch, WatchMode};

use crate::regs::RegisterFile;
use crate::vm::WATCHES;

/// First bit of an address that is compared.
const FIRST_BIT: u32 = 7;

/// `TCP_WATCHn_ADDR` and `TCP_WATCHn_CNTL`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct WatchRegisters {
    /// Bits 47:7 of the address.
    pub(super) address: u64,
    /// `MASK` from bit 0 on, the bits from 7 on that have to be equal; `VMID` 27:24; `ATC` 28 (gfx9); `MODE` 30:29; `VALID` 31.
    pub(super) control: u32,
}

impl WatchRegisters {
    /// Makes the registers with these controls, and with the addresses from the registers of a graphics core.
    pub(super) fn of(registers: &RegisterFile, xcc: u8, controls: [u32; WATCHES]) -> [Self; WATCHES] {
        let places = [
            (gc::TCP_WATCH0_ADDR_H::AT, gc::TCP_WATCH0_ADDR_L::AT),
            (gc::TCP_WATCH1_ADDR_H::AT, gc::TCP_WATCH1_ADDR_L::AT),
            (gc::TCP_WATCH2_ADDR_H::AT, gc::TCP_WATCH2_ADDR_L::AT),
            (gc::TCP_WATCH3_ADDR_H::AT, gc::TCP_WATCH3_ADDR_L::AT),
        ];
        let register = |at| u64::from(registers.get_of(gc::IP, xcc, at));
        std::array::from_fn(|index| {
            let (control, (high, low)) = (controls[index], places[index]);
            let address = (register(high) & 0xffff) << 32 | register(low) & !((1 << FIRST_BIT) - 1);
            Self { address, control }
        })
    }

    /// Returns true if the watch is valid.
    pub(super) fn is_valid(self) -> bool {
        self.control >> 31 == 1
    }

    /// Returns true if the control has a VMID, which only the firmware may fill in, or an address that is translated
    /// elsewhere.
    pub(super) fn has_other_space(self) -> bool {
        self.control >> 24 & 0x1f != 0
    }

    /// Returns the watch, if it is valid; `MASK` has `mask_bits` bits.
    pub(super) fn watch(self, mask_bits: u32) -> Option<Watch> {
        let mode = match self.control >> 29 & 3 {
            0 => WatchMode::Read,
            1 => WatchMode::NonRead,
            2 => WatchMode::Atomic,
            _ => WatchMode::All,
        };
        let bits = (1u64 << mask_bits) - 1;
        // Bits above those of the mask are always compared.
        let above = !((bits + 1) << FIRST_BIT).wrapping_sub(1);
        let mask = above | (u64::from(self.control) & bits) << FIRST_BIT;
        self.is_valid().then_some(Watch { address: self.address & mask, mask, mode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_compare_the_bits_of_their_mask_and_all_above() {
        let registers = WatchRegisters { address: 0x1234_5678_9a80, control: 1 << 31 | 1 << 29 | 0x7f_ffff };
        let watch = registers.watch(23).expect("valid");
        assert_eq!(watch.mode, WatchMode::NonRead);
        assert!(watch.covers(0x1234_5678_9aff) && !watch.covers(0x1234_5678_9b00));
        let wide = WatchRegisters { control: registers.control & !1, ..registers }.watch(23).expect("valid");
        assert!(wide.covers(0x1234_5678_9a00) && wide.covers(0x1234_5678_9aff));
        assert!(!wide.covers(0x1234_9678_9a00));
        assert_eq!(WatchRegisters { control: 0x7f_ffff, ..registers }.watch(23), None);
    }

    #[test]
    fn bit_30_of_an_address_may_be_left_out_where_the_mask_has_24_bits() {
        let registers = WatchRegisters { address: 0x1234_5678_9a80, control: 1 << 31 | 0x7f_ffff };
        let other = 0x1234_1678_9a80;
        assert!(registers.watch(24).expect("valid").covers(other));
        assert!(!registers.watch(23).expect("valid").covers(other));
    }

    #[test]
    fn controls_with_a_vmid_or_translated_elsewhere_are_told_apart() {
        let is_other = |control| WatchRegisters { address: 0, control }.has_other_space();
        assert!(!is_other(0xe0ff_ffff));
        assert!(is_other(1 << 31 | 1 << 24) && is_other(1 << 31 | 1 << 28));
    }
}
