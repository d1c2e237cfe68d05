//! Configuration space: constant bits, bits that a driver may write, and bits that it clears by writing ones.
//!
//! Layouts: PCI Local Bus 3.0 sections 6.1 and 6.2 (header), 6.7 (capabilities), 6.8.1 and 6.8.2 (MSI, MSI-X); constants as
//! in Linux `include/uapi/linux/pci_regs.h`.

use crate::bar::{BarLayout, ROM_ENABLE};
use crate::interrupt::InterruptControl;

/// Bytes of a conventional function's configuration space.
pub const CONVENTIONAL: usize = 256;
/// Bytes of a PCI Express function's configuration space.
pub const EXPRESS: usize = 4096;

/// Offset of the command register.
pub const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const CAPABILITIES: usize = 0x34;
/// The interrupt line, and after it the pin.
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;
/// Offset of the first capability, unless the function names another one.
const FIRST_CAPABILITY: usize = 0x40;

const COMMAND_MASTER: u16 = 1 << 2;
const COMMAND_INTX_DISABLE: u16 = 1 << 10;
/// Memory space, bus master, parity response, SERR#, interrupt disable.
const COMMAND_WRITABLE: u16 = 1 << 1 | COMMAND_MASTER | 1 << 6 | 1 << 8 | COMMAND_INTX_DISABLE;
const STATUS_INTERRUPT: u8 = 1 << 3;
const STATUS_CAPABILITIES: u8 = 1 << 4;
/// Error bits of the status register's upper byte.
const STATUS_ERRORS: u8 = 0xf9;

const CAP_MSI: u8 = 0x05;
const CAP_MSIX: u8 = 0x11;
const MSI_ENABLE: u16 = 1;
const MSI_64BIT: u16 = 1 << 7;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK_ALL: u16 = 1 << 14;

/// Identity of a function.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Vendor.
    pub vendor: u16,
    /// The vendor's number for the device.
    pub device: u16,
    /// Class, subclass, programming interface.
    pub class: u32,
    /// Revision.
    pub revision: u8,
    /// Vendor of the subsystem.
    pub subsystem_vendor: u16,
    /// The subsystem vendor's number for the subsystem.
    pub subsystem: u16,
}

/// The configuration space of a function.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    /// Bits a driver may change.
    writable: Vec<u8>,
    /// Bits a driver clears by writing ones.
    write_1_clear: Vec<u8>,
    /// Offset of the byte that gets the offset of the next capability; `free` is that next offset.
    link: usize,
    free: usize,
    msi: Option<usize>,
    msix: Option<usize>,
}

/// Sets the status bit of an asserted interrupt in bytes that were read at `offset`.
pub fn show_interrupt(offset: usize, data: &mut [u8]) {
    if let Some(status) = STATUS.checked_sub(offset).and_then(|at| data.get_mut(at)) {
        *status |= STATUS_INTERRUPT;
    }
}

/// Makes a function; offsets are those of the function's own layout, and must lie within its size.
impl ConfigSpace {
    /// A function without BARs, pin and capabilities, of [`CONVENTIONAL`] or [`EXPRESS`] size.
    #[must_use]
    pub fn new(size: usize, identity: &Identity) -> Self {
        let mut space = Self {
            bytes: vec![0; size],
            writable: vec![0; size],
            write_1_clear: vec![0; size],
            link: CAPABILITIES,
            free: FIRST_CAPABILITY,
            msi: None,
            msix: None,
        };
        space.put(0x00, &identity.vendor.to_le_bytes());
        space.put(0x02, &identity.device.to_le_bytes());
        space.put(0x08, &(identity.class << 8 | u32::from(identity.revision)).to_le_bytes());
        space.put(0x2c, &identity.subsystem_vendor.to_le_bytes());
        space.put(0x2e, &identity.subsystem.to_le_bytes());
        space.allow(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        space.allow_clear(STATUS + 1, &[STATUS_ERRORS]);
        space.allow(0x0c, &[0xff]); // cache line size
        space.allow(INTERRUPT_LINE, &[0xff]);
        space
    }

    /// Puts bytes, whether or not a driver may write them.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Lets a driver write the bits of `mask` from `offset` on, and no others there.
    pub fn allow(&mut self, offset: usize, mask: &[u8]) {
        self.writable[offset..offset + mask.len()].copy_from_slice(mask);
    }

    /// Lets a driver clear the bits of `mask` from `offset` on by writing ones.
    pub fn allow_clear(&mut self, offset: usize, mask: &[u8]) {
        self.write_1_clear[offset..offset + mask.len()].copy_from_slice(mask);
    }

    /// Adds a memory BAR, or the expansion ROM: its size decides the bits that cannot be written.
    pub fn bar(&mut self, layout: &BarLayout) {
        let offset = layout.offset();
        let mask = !(layout.size - 1);
        if layout.is_rom() {
            return self.allow(offset, &(mask as u32 | ROM_ENABLE).to_le_bytes());
        }
        self.allow(offset, &(mask as u32 & !0xf).to_le_bytes());
        if layout.wide {
            self.put(offset, &0xcu32.to_le_bytes());
            self.allow(offset + 4, &((mask >> 32) as u32).to_le_bytes());
        }
    }

    /// Gives the function the interrupt pin INTA, connected to `line` as the firmware would report it.
    pub fn interrupt_pin(&mut self, line: u8) {
        self.put(INTERRUPT_LINE, &[line]);
        self.put(INTERRUPT_PIN, &[1]);
    }

    /// Adds a capability after the last one, with the body that follows its number and link; answers its
    /// offset.
    pub fn capability(&mut self, id: u8, body: &[u8]) -> usize {
        let at = self.free;
        self.capability_at(at, id, body);
        at
    }

    /// Adds a capability at an offset of the function's choice.
    pub fn capability_at(&mut self, at: usize, id: u8, body: &[u8]) {
        self.bytes[STATUS] |= STATUS_CAPABILITIES;
        self.bytes[self.link] = at as u8;
        self.bytes[at] = id;
        self.put(at + 2, body);
        self.link = at + 1;
        self.free = (at + 2 + body.len()).next_multiple_of(4);
    }

    /// Adds the MSI capability: one vector, a 64-bit address, no mask bits.
    pub fn msi_at(&mut self, at: usize) {
        let mut body = [0; 12];
        body[..2].copy_from_slice(&MSI_64BIT.to_le_bytes());
        self.capability_at(at, CAP_MSI, &body);
        self.allow(at + 2, &MSI_ENABLE.to_le_bytes());
        self.allow(at + 4, &(!3u32).to_le_bytes());
        self.allow(at + 8, &[0xff; 6]);
        self.msi = Some(at);
    }

    /// Adds the MSI-X capability after the last one: vectors, and the BAR and offset of the table and of the
    /// pending bits.
    pub fn msix(&mut self, vectors: u16, bar: u8, table: u32, pending: u32) {
        self.msix_at(self.free, vectors, bar, [table, pending]);
    }

    /// Adds the MSI-X capability at an offset of the function's choice.
    pub fn msix_at(&mut self, at: usize, vectors: u16, bar: u8, [table, pending]: [u32; 2]) {
        let mut body = [0; 10];
        body[..2].copy_from_slice(&(vectors - 1).to_le_bytes());
        body[2..6].copy_from_slice(&(table | u32::from(bar)).to_le_bytes());
        body[6..].copy_from_slice(&(pending | u32::from(bar)).to_le_bytes());
        self.capability_at(at, CAP_MSIX, &body);
        self.allow(at + 2, &(MSIX_ENABLE | MSIX_MASK_ALL).to_le_bytes());
        self.msix = Some(at);
    }
}

/// A driver's accesses, of any width at any offset.
impl ConfigSpace {
    /// Reads; bytes beyond the end read 0.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = offset.checked_add(i).and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
        }
    }

    /// Writes the bits that may be written; bytes beyond the end take no writes.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        for (i, &byte) in data.iter().enumerate() {
            let Some(at) = offset.checked_add(i).filter(|&at| at < self.bytes.len()) else { break };
            let (writable, clear) = (self.writable[at], self.write_1_clear[at] & byte);
            self.bytes[at] = (self.bytes[at] & !writable | byte & writable) & !clear;
        }
    }
}

/// Another function's contents.
impl ConfigSpace {
    /// All bytes, as they read.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes over the bytes of a function of this kind.
    ///
    /// # Errors
    ///
    /// The offset of the first byte that differs and that a driver cannot change, or the number of bytes if
    /// it is another. Then nothing is taken over.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<(), usize> {
        if bytes.len() != self.bytes.len() {
            return Err(bytes.len());
        }
        let constant = |at: usize| !(self.writable[at] | self.write_1_clear[at]);
        if let Some(at) = (0..bytes.len()).find(|&at| (bytes[at] ^ self.bytes[at]) & constant(at) != 0) {
            return Err(at);
        }
        self.bytes.copy_from_slice(bytes);
        Ok(())
    }
}

/// Contents of the registers.
impl ConfigSpace {
    fn get16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    /// The function may read and write memory, which includes messages.
    #[must_use]
    pub fn bus_master(&self) -> bool {
        self.get16(COMMAND) & COMMAND_MASTER != 0
    }

    /// State of the function's interrupts.
    #[must_use]
    pub fn interrupt_control(&self) -> InterruptControl {
        let control = |at: Option<usize>| at.map_or(0, |at| self.get16(at + 2));
        let msix = control(self.msix);
        InterruptControl {
            msix_enabled: msix & MSIX_ENABLE != 0,
            msix_masked: msix & MSIX_MASK_ALL != 0,
            msi_enabled: control(self.msi) & MSI_ENABLE != 0,
            intx_disabled: self.get16(COMMAND) & COMMAND_INTX_DISABLE != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = CONVENTIONAL;

    fn space() -> ConfigSpace {
        let mut space = ConfigSpace::new(
            SIZE,
            &Identity {
                vendor: 0x1af4,
                device: 0x1043,
                class: 0x07_8000,
                revision: 1,
                subsystem_vendor: 0x1af4,
                subsystem: 0x1100,
            },
        );
        space.bar(&BarLayout { number: 0, size: 16 << 10, wide: false });
        space.bar(&BarLayout { number: 2, size: 8 << 30, wide: true });
        space.interrupt_pin(18);
        space.capability(9, &[1, 2, 3]);
        space.msi_at(0x50);
        space.msix(7, 0, 0x3000, 0x3800);
        space
    }

    fn read32(space: &ConfigSpace, offset: usize) -> u32 {
        let mut data = [0; 4];
        space.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn expansion_rom_has_its_size_and_answers_where_it_is_enabled() {
        let rom = BarLayout::rom(128 << 10);
        let mut space = space();
        assert_eq!(read32(&space, 0x30), 0);
        space.write(0x30, &[0xff; 4]);
        assert_eq!(read32(&space, 0x30), 0, "a function without one");
        space.bar(&rom);
        space.write(0x30, &0xffff_fffeu32.to_le_bytes());
        assert_eq!(read32(&space, 0x30), 0xfffe_0000, "sizing, with the enable bit off");
        space.write(0x30, &0xfe80_0000u32.to_le_bytes());
        assert_eq!(rom.base(space.bytes()), None);
        space.write(0x30, &0xfe80_0001u32.to_le_bytes());
        assert_eq!((read32(&space, 0x30), rom.base(space.bytes())), (0xfe80_0001, Some(0xfe80_0000)));
    }

    #[test]
    fn every_width_and_offset_reads_the_same_bytes() {
        let space = space();
        assert_eq!(read32(&space, 0), 0x1043_1af4);
        assert_eq!(read32(&space, 8), 0x0780_0001);
        for width in [1, 2, 3, 4, 8] {
            for offset in 0..SIZE + 8 {
                let mut part = vec![0xee; width];
                space.read(offset, &mut part);
                for (at, byte) in (offset..).zip(&part) {
                    assert_eq!(
                        *byte,
                        space.bytes.get(at).copied().unwrap_or(0),
                        "{width} bytes at {offset:#x}"
                    );
                }
            }
        }
        let mut far = [0xee; 8];
        for offset in [4092, usize::MAX - 2] {
            space.read(offset, &mut far);
            assert_eq!(far, [0; 8]);
        }
    }

    #[test]
    fn bars_answer_sizing_with_their_size() {
        let mut space = space();
        space.write(0x10, &[0xff; 4]);
        assert_eq!(read32(&space, 0x10), !(16 * 1024 - 1));
        for byte in 0x18..0x20 {
            space.write(byte, &[0xff]);
        }
        let wide = u64::from(read32(&space, 0x18)) | u64::from(read32(&space, 0x1c)) << 32;
        assert_eq!((wide & 0xf, !(wide & !0xf) + 1), (0xc, 8 << 30));
        space.write(0x14, &[0xff; 4]);
        assert_eq!(read32(&space, 0x14), 0, "a BAR that is not there");
    }

    #[test]
    fn capabilities_chain_to_the_end() {
        let space = space();
        let mut at = usize::from(space.bytes[CAPABILITIES]);
        let mut found = Vec::new();
        while at != 0 && found.len() < 16 {
            assert_eq!(at % 4, 0);
            found.push(space.bytes[at]);
            at = usize::from(space.bytes[at + 1]);
        }
        assert_eq!(found, [9, CAP_MSI, CAP_MSIX]);
        assert_eq!(space.bytes[STATUS] & STATUS_CAPABILITIES, STATUS_CAPABILITIES);
        let msix = space.msix.unwrap();
        assert_eq!(space.get16(msix + 2), 6);
        assert_eq!((read32(&space, msix + 4), read32(&space, msix + 8)), (0x3000, 0x3800));
    }

    #[test]
    fn read_only_bits_stay_whatever_is_written_in_any_width() {
        let mut space = space();
        let before = space.bytes.clone();
        for fill in [0xff, 0, 0xa5] {
            for width in [1, 2, 4, 8] {
                for offset in 0..SIZE + 8 {
                    space.write(offset, &vec![fill; width]);
                }
            }
        }
        space.write(usize::MAX - 2, &[0xff; 8]);
        for (at, before) in before.into_iter().enumerate() {
            let constant = !space.writable[at];
            assert_eq!(space.bytes[at] & constant, before & constant, "byte {at:#x}");
        }
    }

    #[test]
    fn contents_of_another_function_are_taken_over_unless_constants_differ() {
        let mut space = space();
        space.write(COMMAND, &[0x06, 0x04]);
        space.write(0x10, &[0, 0, 0xd0, 0xfe]);
        let mut restored = self::space();
        assert_eq!(restored.restore(space.bytes()), Ok(()));
        assert_eq!((restored.bytes(), restored.bus_master()), (space.bytes(), true));
        let mut other = space.bytes().to_vec();
        other[2] ^= 1;
        assert_eq!(restored.restore(&other), Err(2));
        assert_eq!(restored.restore(&other[1..]), Err(SIZE - 1));
        assert_eq!(restored.bytes(), space.bytes());
    }

    #[test]
    fn interrupts_are_controlled_by_writes_of_any_width_that_reach_the_bits() {
        let msix = space().msix.unwrap();
        let enabled = InterruptControl { msix_enabled: true, ..InterruptControl::default() };
        for (offset, data) in [(msix, &[0x11, 0, 0, 0x80][..]), (msix + 2, &[0, 0x80]), (msix + 3, &[0x80])] {
            let mut space = space();
            space.write(offset, data);
            assert_eq!(space.interrupt_control(), enabled, "{data:x?} at {offset:#x}");
        }
        let mut space = space();
        space.write(COMMAND + 1, &[4]);
        assert!(space.interrupt_control().intx_disabled && !space.bus_master());
        space.write(COMMAND, &[4]);
        assert!(space.bus_master());
    }

    #[test]
    fn msi_is_switched_on_by_its_own_bit() {
        let mut space = space();
        space.write(0x52, &[0xff; 14]);
        let control = space.interrupt_control();
        assert_eq!(control, InterruptControl { msi_enabled: true, ..InterruptControl::default() });
        assert_eq!((space.get16(0x52), space.get16(0x54)), (0x81, 0xfffc), "one vector, a whole address");
    }

    #[test]
    fn errors_in_the_status_register_are_cleared_by_ones() {
        let mut space = space();
        space.put(STATUS + 1, &[0xf9]);
        space.write(STATUS + 1, &[0x81]);
        assert_eq!(space.bytes[STATUS + 1], 0x78);
    }

    #[test]
    fn an_asserted_pin_shows_in_every_width() {
        for (offset, at) in [(STATUS, 0), (COMMAND, 2), (STATUS - 1, 1)] {
            let mut data = [0; 4];
            show_interrupt(offset, &mut data);
            let mut expected = [0; 4];
            expected[at] = STATUS_INTERRUPT;
            assert_eq!(data, expected);
        }
        let mut data = [0; 2];
        show_interrupt(COMMAND, &mut data);
        show_interrupt(STATUS + 1, &mut data);
        assert_eq!(data, [0; 2]);
    }
}
