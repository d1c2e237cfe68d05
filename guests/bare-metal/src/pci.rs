//! PCI: configuration mechanism 1, BARs, and MSI-X.

use core::fmt;

use crate::cpu::{in32, out32};
use crate::gpu::Gpu;
use crate::memory::{read32, write32};

const COMMAND: u8 = 0x04;
/// Memory space and bus master.
const COMMAND_ON: u32 = 6;
const BARS: u8 = 0x10;
const BAR_64: u32 = 4;
const CAPABILITIES: u8 = 0x34;
const CAP_MSIX: u32 = 0x11;
/// Offsets in an entry of the message table: address, data, vector control (bit 0 masks).
const ENTRY_ADDRESS: u64 = 0;
const ENTRY_DATA: u64 = 8;
const ENTRY_CONTROL: u64 = 12;
const MSIX_ENABLE: u32 = 1 << 31;
/// Address of messages to the first processor.
const MESSAGE_ADDRESS: u32 = 0xfee0_0000;

/// A function on bus 0, by its device number.
#[derive(Clone, Copy, Debug)]
pub struct Function(u8);

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.read(0);
        write!(f, "{:04x}:{:04x} at 00:{:02x}.0", id & 0xffff, id >> 16, self.0)
    }
}

/// Looks at every device number.
pub fn find(vendor: u16, device: u16) -> Option<Function> {
    (0..32).map(Function).find(|function| function.read(0) == u32::from(device) << 16 | u32::from(vendor))
}

impl Function {
    fn select(self, offset: u8) {
        out32(0xcf8, 1 << 31 | u32::from(self.0) << 11 | u32::from(offset & 0xfc));
    }

    fn read(self, offset: u8) -> u32 {
        self.select(offset);
        in32(0xcfc)
    }

    fn write(self, offset: u8, value: u32) {
        self.select(offset);
        out32(0xcfc, value);
    }

    /// Switches memory space and bus mastering on.
    pub fn enable(self) {
        self.write(COMMAND, COMMAND_ON);
    }

    /// Switches them off, as BARs must not decode while they are half written.
    pub fn disable(self) {
        self.write(COMMAND, 0);
    }

    /// Address and size of a BAR.
    pub fn bar(self, number: u8) -> (u64, u64) {
        let at = BARS + number * 4;
        let wide = self.read(at) & BAR_64 != 0;
        let both =
            || u64::from(self.read(at) & !0xf) | if wide { u64::from(self.read(at + 4)) << 32 } else { 0 };
        let base = both();
        self.write(at, !0);
        if wide {
            self.write(at + 4, !0);
        }
        let mask = both() | if wide { 0 } else { 0xffff_ffff << 32 };
        self.move_bar(number, base);
        (base, !mask + 1)
    }

    /// Puts a BAR somewhere.
    pub fn move_bar(self, number: u8, base: u64) {
        let at = BARS + number * 4;
        self.write(at, base as u32);
        if self.read(at) & BAR_64 != 0 {
            self.write(at + 4, (base >> 32) as u32);
        }
    }

    /// Offset of the MSI-X capability.
    fn msix(self) -> u8 {
        let mut at = self.read(CAPABILITIES) as u8;
        while at != 0 {
            let header = self.read(at);
            if header & 0xff == CAP_MSIX {
                return at;
            }
            at = (header >> 8) as u8;
        }
        panic!("the function has no MSI-X");
    }

    /// The message table, which is in the register BAR.
    fn msix_table(self, gpu: &Gpu) -> u64 {
        gpu.registers + u64::from(self.read(self.msix() + 4) & !7)
    }

    /// The pending bits, which are there too.
    fn msix_pending_bits(self, gpu: &Gpu) -> u64 {
        gpu.registers + u64::from(self.read(self.msix() + 8) & !7)
    }

    /// Sends vector 0 to the processor.
    pub fn route_interrupts(self, gpu: &Gpu, vector: u8) {
        let table = self.msix_table(gpu);
        write32(table + ENTRY_ADDRESS, MESSAGE_ADDRESS);
        write32(table + ENTRY_ADDRESS + 4, 0);
        write32(table + ENTRY_DATA, vector.into());
        self.mask_interrupts(gpu, false);
        let at = self.msix();
        self.write(at, self.read(at) | MSIX_ENABLE);
    }

    /// Masks vector 0, or lets it through.
    pub fn mask_interrupts(self, gpu: &Gpu, masked: bool) {
        write32(self.msix_table(gpu) + ENTRY_CONTROL, masked.into());
    }

    /// Returns true if vector 0 waits to be let through.
    pub fn interrupt_is_pending(self, gpu: &Gpu) -> bool {
        read32(self.msix_pending_bits(gpu)) & 1 == 1
    }
}
