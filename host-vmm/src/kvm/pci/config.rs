//! Configuration space of a function made here: what is constant, and what the guest may write.
//!
//! Layouts: PCI Local Bus 3.0 sections 6.1 (header), 6.2.5 (BARs), 6.7 (capabilities), 6.8.2 (MSI-X).

use super::decode::{BARS, BarLayout};

const SIZE: usize = 256;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const CAPABILITIES: usize = 0x34;
/// The interrupt line, and behind it the pin.
const INTERRUPT_LINE: usize = 0x3c;
/// Where the first capability goes.
const FIRST_CAPABILITY: usize = 0x40;

/// Memory space, bus master, interrupt disable.
const COMMAND_WRITABLE: u16 = 1 << 1 | 1 << 2 | 1 << 10;
const COMMAND_MASTER: u16 = 1 << 2;
const COMMAND_INTX_DISABLE: u16 = 1 << 10;
const STATUS_INTERRUPT: u8 = 1 << 3;
const STATUS_CAPABILITIES: u8 = 1 << 4;
const CAP_MSIX: u8 = 0x11;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK_ALL: u16 = 1 << 14;

/// Who a function is.
#[derive(Clone, Copy, Debug)]
pub(in crate::kvm) struct Identity {
    pub(in crate::kvm) vendor: u16,
    pub(in crate::kvm) device: u16,
    /// Class, subclass, programming interface.
    pub(in crate::kvm) class: u32,
    pub(in crate::kvm) revision: u8,
    pub(in crate::kvm) subsystem_vendor: u16,
    pub(in crate::kvm) subsystem: u16,
}

/// How interrupts leave a function, from its command register and its MSI-X capability.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(in crate::kvm) struct InterruptControl {
    pub(in crate::kvm) msix_enabled: bool,
    pub(in crate::kvm) msix_masked: bool,
    pub(in crate::kvm) intx_disabled: bool,
}

/// The 256 bytes of a conventional function; what follows them in ECAM reads 0.
#[derive(Clone, Debug)]
pub(in crate::kvm) struct ConfigSpace {
    bytes: [u8; SIZE],
    /// Bits the guest may change.
    writable: [u8; SIZE],
    /// Where the offset of the next capability is written, and what that is.
    link: usize,
    free: usize,
    msix: Option<usize>,
}

impl ConfigSpace {
    pub(in crate::kvm) fn new(identity: Identity) -> Self {
        let mut space = Self {
            bytes: [0; SIZE],
            writable: [0; SIZE],
            link: CAPABILITIES,
            free: FIRST_CAPABILITY,
            msix: None,
        };
        space.put(0x00, &identity.vendor.to_le_bytes());
        space.put(0x02, &identity.device.to_le_bytes());
        space.put(0x08, &(identity.class << 8 | u32::from(identity.revision)).to_le_bytes());
        space.put(0x2c, &identity.subsystem_vendor.to_le_bytes());
        space.put(0x2e, &identity.subsystem.to_le_bytes());
        space.allow(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        space.allow(0x0c, &[0xff]); // cache line size
        space
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, offset: usize, mask: &[u8]) {
        self.writable[offset..offset + mask.len()].copy_from_slice(mask);
    }

    /// Adds a memory BAR, prefetchable if it is wide: its size is what cannot be written.
    pub(in crate::kvm) fn bar(&mut self, layout: &BarLayout) {
        let offset = BARS + usize::from(layout.number) * 4;
        let mask = !(layout.size - 1);
        self.allow(offset, &(mask as u32 & !0xf).to_le_bytes());
        if layout.wide {
            self.put(offset, &0xcu32.to_le_bytes());
            self.allow(offset + 4, &((mask >> 32) as u32).to_le_bytes());
        }
    }

    /// Gives the function the interrupt pin INTA, which firmware would have connected to `line`.
    pub(in crate::kvm) fn interrupt_pin(&mut self, line: u8) {
        self.put(INTERRUPT_LINE, &[line, 1]);
        self.allow(INTERRUPT_LINE, &[0xff]);
    }

    /// Adds a capability of up to 30 bytes behind its number and link, and answers where it is.
    pub(in crate::kvm) fn capability(&mut self, id: u8, body: &[u8]) -> usize {
        let at = self.free;
        self.bytes[STATUS] |= STATUS_CAPABILITIES;
        self.bytes[self.link] = at as u8;
        self.bytes[at] = id;
        self.put(at + 2, body);
        self.link = at + 1;
        self.free = (at + 2 + body.len()).next_multiple_of(4);
        at
    }

    /// Lets the guest write `mask`'s bits from `offset` on.
    pub(in crate::kvm) fn writable(&mut self, offset: usize, mask: &[u8]) {
        self.allow(offset, mask);
    }

    /// Adds the MSI-X capability: vectors, and where in which BAR table and pending bits are.
    pub(in crate::kvm) fn msix(&mut self, vectors: u16, bar: u8, table: u32, pending: u32) {
        let mut body = [0; 10];
        body[..2].copy_from_slice(&(vectors - 1).to_le_bytes());
        body[2..6].copy_from_slice(&(table | u32::from(bar)).to_le_bytes());
        body[6..].copy_from_slice(&(pending | u32::from(bar)).to_le_bytes());
        let at = self.capability(CAP_MSIX, &body);
        self.allow(at + 2, &(MSIX_ENABLE | MSIX_MASK_ALL).to_le_bytes());
        self.msix = Some(at);
    }

    /// Reads; what is beyond the end reads 0.
    pub(in crate::kvm) fn read(&self, offset: usize, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            *byte = self.bytes.get(at).copied().unwrap_or(0);
        }
    }

    /// Writes what may be written.
    pub(in crate::kvm) fn write(&mut self, offset: usize, data: &[u8]) {
        for (at, &byte) in (offset..).zip(data) {
            let (Some(target), Some(&writable)) = (self.bytes.get_mut(at), self.writable.get(at)) else {
                break;
            };
            *target = *target & !writable | byte & writable;
        }
    }

    /// Puts bytes where the guest may not write, or whatever it wrote.
    pub(in crate::kvm) fn force(&mut self, offset: usize, bytes: &[u8]) {
        self.put(offset, bytes);
    }

    fn get16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    /// Whether the function may read and write memory.
    pub(in crate::kvm) fn bus_master(&self) -> bool {
        self.get16(COMMAND) & COMMAND_MASTER != 0
    }

    /// How interrupts leave the function.
    pub(in crate::kvm) fn interrupt_control(&self) -> InterruptControl {
        let msix = self.msix.map_or(0, |at| self.get16(at + 2));
        InterruptControl {
            msix_enabled: msix & MSIX_ENABLE != 0,
            msix_masked: msix & MSIX_MASK_ALL != 0,
            intx_disabled: self.get16(COMMAND) & COMMAND_INTX_DISABLE != 0,
        }
    }

    /// Shows in the status register whether the function wants its pin asserted.
    pub(in crate::kvm) fn set_interrupt_status(&mut self, pending: bool) {
        self.bytes[STATUS] =
            self.bytes[STATUS] & !STATUS_INTERRUPT | if pending { STATUS_INTERRUPT } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> ConfigSpace {
        let mut space = ConfigSpace::new(Identity {
            vendor: 0x1af4,
            device: 0x1043,
            class: 0x07_8000,
            revision: 1,
            subsystem_vendor: 0x1af4,
            subsystem: 0x1100,
        });
        space.bar(&BarLayout { number: 0, size: 16 << 10, wide: false });
        space.bar(&BarLayout { number: 2, size: 8 << 30, wide: true });
        space.interrupt_pin(18);
        space.capability(9, &[1, 2, 3]);
        space.msix(7, 0, 0x3000, 0x3800);
        space
    }

    fn read32(space: &ConfigSpace, offset: usize) -> u32 {
        let mut data = [0; 4];
        space.read(offset, &mut data);
        u32::from_le_bytes(data)
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
        space.read(4092, &mut far);
        assert_eq!(far, [0; 8]);
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
        assert_eq!(found, [9, CAP_MSIX]);
        assert_eq!(space.bytes[STATUS] & STATUS_CAPABILITIES, STATUS_CAPABILITIES);
        let msix = space.msix.unwrap();
        assert_eq!(space.get16(msix + 2), 6);
        assert_eq!((read32(&space, msix + 4), read32(&space, msix + 8)), (0x3000, 0x3800));
    }

    #[test]
    fn read_only_bits_stay_whatever_is_written_in_any_width() {
        let mut space = space();
        let before = space.bytes;
        for fill in [0xff, 0, 0xa5] {
            for width in [1, 2, 4, 8] {
                for offset in 0..SIZE + 8 {
                    space.write(offset, &vec![fill; width]);
                }
            }
        }
        for (at, before) in before.into_iter().enumerate() {
            let constant = !space.writable[at];
            assert_eq!(space.bytes[at] & constant, before & constant, "byte {at:#x}");
        }
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
}
