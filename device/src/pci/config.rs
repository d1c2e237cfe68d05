//! The 4096 bytes of configuration space: what is constant, what a driver may write, and what a write brings about.
//!
//! Layouts: PCI Local Bus 3.0 section 6.1 (header), PCI Power Management 1.2 section 3.2, PCI Express Base 4.0
//! section 7.5.3 (capability structure); constants as in Linux `include/uapi/linux/pci_regs.h`.

use belfry_abi::pci;

use crate::chip::Chip;
use crate::config::GpuConfig;

const SIZE: usize = pci::CONFIG_SPACE_SIZE;

const COMMAND: usize = 0x04;
const COMMAND_HIGH: usize = 0x05;
const STATUS: usize = 0x06;
const BARS: usize = 0x10;
const INTERRUPT_PIN: usize = 0x3d;
const CAP_PM: usize = 0x48;
const CAP_PCIE: usize = 0x64;
const CAP_MSI: usize = 0xa0;
const CAP_MSIX: usize = 0xc0;
const EXT_VENDOR: usize = 0x100;

const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
const COMMAND_INTX_DISABLE: u16 = 1 << 10;
const COMMAND_WRITABLE: u16 = COMMAND_MEMORY | COMMAND_MASTER | 1 << 6 | 1 << 8 | COMMAND_INTX_DISABLE;
const STATUS_INTERRUPT: u8 = 1 << 3;
const STATUS_CAP_LIST: u16 = 1 << 4;

const PCI_EXP_DEVCTL: usize = CAP_PCIE + 0x08;
const DEVCTL_FLR: u16 = 1 << 15;
const MSIX_ENABLE: u16 = 1 << 15;
const MSIX_MASK_ALL: u16 = 1 << 14;

/// What a write to the configuration space means for the rest of the device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Effect {
    /// A function level reset was asked for.
    pub(crate) reset: bool,
    /// Bus mastering or the state of the interrupts may have changed.
    pub(crate) control: bool,
}

/// How interrupts leave the function, from its capabilities.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MsixState {
    pub(crate) enabled: bool,
    pub(crate) masked: bool,
}

/// The configuration space.
#[derive(Debug)]
pub(crate) struct ConfigSpace {
    bytes: Box<[u8; SIZE]>,
    /// Bits a driver may change.
    writable: Box<[u8; SIZE]>,
    /// Bits a driver clears by writing ones.
    write_1_clear: Box<[u8; SIZE]>,
}

fn zeroed() -> Box<[u8; SIZE]> {
    Box::new([0; SIZE])
}

impl ConfigSpace {
    pub(crate) fn new(chip: &dyn Chip, config: &GpuConfig) -> Self {
        let mut space = Self { bytes: zeroed(), writable: zeroed(), write_1_clear: zeroed() };
        space.header(chip, config);
        space.power_management();
        space.express();
        space.msi();
        space.msix();
        // One vendor-specific extended capability, which amdgpu looks for (a warning if it is missing).
        space.put32(EXT_VENDOR, 0x000b | 1 << 16);
        space.put32(EXT_VENDOR + 4, 0x0001 | 1 << 16 | 0x10 << 20);
        space
    }

    fn put16(&mut self, offset: usize, value: u16) {
        self.bytes[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, offset: usize, value: u32) {
        self.bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn allow16(&mut self, offset: usize, mask: u16) {
        self.writable[offset..offset + 2].copy_from_slice(&mask.to_le_bytes());
    }

    fn allow32(&mut self, offset: usize, mask: u32) {
        self.writable[offset..offset + 4].copy_from_slice(&mask.to_le_bytes());
    }

    fn get16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    fn header(&mut self, chip: &dyn Chip, config: &GpuConfig) {
        self.put16(0x00, pci::VENDOR_ID);
        self.put16(0x02, chip.device_id());
        self.allow16(COMMAND, COMMAND_WRITABLE);
        self.put16(0x06, STATUS_CAP_LIST);
        self.write_1_clear[0x07] = 0xf9; // error bits of the status register
        self.put32(0x08, pci::CLASS << 8 | u32::from(chip.revision()));
        self.writable[0x0c] = 0xff; // cache line size
        self.put16(0x2c, pci::SUBSYSTEM_VENDOR_ID);
        self.put16(0x2e, pci::SUBSYSTEM_ID);
        self.bytes[0x34] = CAP_PM as u8;
        self.writable[0x3c] = 0xff; // interrupt line
        self.bytes[INTERRUPT_PIN] = config.interrupt_pin.into(); // INTA, if any
        self.bar64(pci::BAR_VRAM, config.vram_size);
        self.bar64(pci::BAR_DOORBELLS, pci::DOORBELL_BAR_SIZE);
        self.allow32(BARS + 4 * usize::from(pci::BAR_REGISTERS), !(pci::REGISTER_BAR_SIZE as u32 - 1));
    }

    /// A 64-bit prefetchable BAR: its size is what cannot be written.
    fn bar64(&mut self, bar: u8, size: u64) {
        let offset = BARS + 4 * usize::from(bar);
        let mask = !(size - 1);
        self.put32(offset, 0xc);
        self.allow32(offset, mask as u32 & !0xf);
        self.allow32(offset + 4, (mask >> 32) as u32);
    }

    fn power_management(&mut self) {
        self.put16(CAP_PM, 0x01 | (CAP_PCIE as u16) << 8);
        self.put16(CAP_PM + 2, 0x0003); // version 3, D0 and D3hot
        self.put16(CAP_PM + 4, 1 << 3); // no soft reset on the way back from D3hot
        self.allow16(CAP_PM + 4, 0x0103);
        self.write_1_clear[CAP_PM + 5] = 0x80;
    }

    fn express(&mut self) {
        self.put16(CAP_PCIE, 0x10 | (CAP_MSI as u16) << 8);
        self.put16(CAP_PCIE + 2, 0x0002); // version 2, endpoint
        self.put32(CAP_PCIE + 4, 1 | 1 << 5 | 1 << 15 | 1 << 28); // 256-byte payloads, extended tags, role based errors, FLR
        self.put16(PCI_EXP_DEVCTL, 0x2810);
        self.allow16(PCI_EXP_DEVCTL, 0x7fff);
        self.write_1_clear[PCI_EXP_DEVCTL + 2] = 0x0f;
        self.put32(CAP_PCIE + 0x0c, 4 | 16 << 4); // 16 GT/s, 16 lanes, no low power states
        self.allow16(CAP_PCIE + 0x10, 0x0fc3);
        self.put16(CAP_PCIE + 0x12, 4 | 16 << 4);
        self.put32(CAP_PCIE + 0x24, 1 << 7 | 1 << 8 | 0xf); // completes 32- and 64-bit AtomicOps; completion timeouts
        self.allow16(CAP_PCIE + 0x28, 0x045f); // AtomicOp requester enable, completion timeout
        self.put32(CAP_PCIE + 0x2c, 0x1e);
        self.put16(CAP_PCIE + 0x30, 4);
        self.allow16(CAP_PCIE + 0x30, 0xffff);
    }

    fn msi(&mut self) {
        self.put16(CAP_MSI, 0x05 | (CAP_MSIX as u16) << 8);
        self.put16(CAP_MSI + 2, 1 << 7); // 64-bit address, one vector
        self.allow16(CAP_MSI + 2, 1);
        self.allow32(CAP_MSI + 4, !3);
        self.allow32(CAP_MSI + 8, !0);
        self.allow16(CAP_MSI + 12, !0);
    }

    fn msix(&mut self) {
        self.put16(CAP_MSIX, 0x11);
        self.put16(CAP_MSIX + 2, pci::MSIX_VECTORS - 1);
        self.allow16(CAP_MSIX + 2, MSIX_ENABLE | MSIX_MASK_ALL);
        self.put32(CAP_MSIX + 4, pci::MSIX_TABLE_OFFSET as u32 | u32::from(pci::BAR_REGISTERS));
        self.put32(CAP_MSIX + 8, pci::MSIX_PBA_OFFSET as u32 | u32::from(pci::BAR_REGISTERS));
    }

    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) {
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = offset.checked_add(i).and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
        }
    }

    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) -> Effect {
        let mut effect = Effect::default();
        for (i, &byte) in data.iter().enumerate() {
            let Some(at) = offset.checked_add(i).filter(|&at| at < SIZE) else { break };
            let (writable, clear) = (self.writable[at], self.write_1_clear[at] & byte);
            self.bytes[at] = (self.bytes[at] & !writable | byte & writable) & !clear;
            effect.reset |= at == PCI_EXP_DEVCTL + 1 && u16::from(byte) & DEVCTL_FLR >> 8 != 0;
            effect.control |= matches!(at, COMMAND | COMMAND_HIGH) || (CAP_MSI..CAP_MSIX + 4).contains(&at);
        }
        effect
    }

    /// Whether the function may read and write memory, and raise interrupts.
    pub(crate) fn bus_master(&self) -> bool {
        self.get16(COMMAND) & COMMAND_MASTER != 0
    }

    pub(crate) fn msix_state(&self) -> MsixState {
        let control = self.get16(CAP_MSIX + 2);
        MsixState { enabled: control & MSIX_ENABLE != 0, masked: control & MSIX_MASK_ALL != 0 }
    }

    /// Whether the interrupt pin is to stay released.
    pub(crate) fn pin_disabled(&self) -> bool {
        self.get16(COMMAND) & COMMAND_INTX_DISABLE != 0
    }

    /// Sets the status register's bit for a pending pin in what was read at `offset`.
    pub(crate) fn show_pending_pin(offset: usize, data: &mut [u8]) {
        if let Some(status) = STATUS.checked_sub(offset).and_then(|at| data.get_mut(at)) {
            *status |= STATUS_INTERRUPT;
        }
    }

    /// Whether MSI is switched on.
    pub(crate) fn msi_enabled(&self) -> bool {
        self.bytes[CAP_MSI + 2] & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::gfx1100::Gfx1100;

    fn space() -> ConfigSpace {
        ConfigSpace::new(&Gfx1100::new(8), &GpuConfig::default())
    }

    fn read32(space: &ConfigSpace, offset: usize) -> u32 {
        let mut data = [0; 4];
        space.read(offset, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn every_width_and_offset_reads_the_same_bytes() {
        let space = space();
        let mut whole = [0; SIZE];
        space.read(0, &mut whole);
        assert_eq!(whole[..4], [0x02, 0x10, 0x4c, 0x74]);
        for width in [1, 2, 3, 4, 8, 16] {
            for offset in 0..SIZE {
                let mut part = vec![0xff; width];
                space.read(offset, &mut part);
                for (i, byte) in part.iter().enumerate() {
                    assert_eq!(*byte, whole.get(offset + i).copied().unwrap_or(0));
                }
            }
        }
        let mut far = [0xff; 8];
        space.read(usize::MAX - 2, &mut far);
        assert_eq!(far, [0; 8]);
    }

    #[test]
    fn bars_answer_sizing_with_their_size() {
        let mut space = space();
        for (offset, size) in [(0x10, 256u64 << 20), (0x18, 2 << 20)] {
            space.write(offset, &[0xff; 8]);
            let value = u64::from(read32(&space, offset)) | u64::from(read32(&space, offset + 4)) << 32;
            assert_eq!(value & 0xf, 0xc);
            assert_eq!(!(value & !0xf) + 1, size);
        }
        space.write(0x24, &[0xff; 4]);
        assert_eq!(!read32(&space, 0x24) + 1, 1 << 20);
        assert_eq!(read32(&space, 0x30), 0, "no expansion ROM");
    }

    #[test]
    fn capabilities_chain_to_the_end() {
        let space = space();
        let mut at = usize::from(space.bytes[0x34]);
        let mut found = Vec::new();
        while at != 0 {
            found.push(space.bytes[at]);
            at = usize::from(space.bytes[at + 1]);
            assert!(found.len() < 16, "capabilities form a loop");
        }
        assert_eq!(found, [0x01, 0x10, 0x05, 0x11]);
        assert_eq!(read32(&space, 0x100) & 0xffff, 0x000b);
        assert_eq!(space.bytes[INTERRUPT_PIN], 0, "no pin");
        let config = GpuConfig { interrupt_pin: true, ..GpuConfig::default() };
        assert_eq!(ConfigSpace::new(&Gfx1100::new(8), &config).bytes[INTERRUPT_PIN], 1, "INTA");
    }

    #[test]
    fn read_only_bits_stay() {
        let mut space = space();
        let before: Vec<u8> = space.bytes.to_vec();
        let writable: Vec<u8> = space.writable.to_vec();
        space.write(0, &[0xff; SIZE]);
        space.write(0, &[0x00; SIZE]);
        for at in 0..SIZE {
            assert_eq!(space.bytes[at] & !writable[at], before[at] & !writable[at], "byte {at:#x}");
        }
    }

    #[test]
    fn power_state_is_kept() {
        let mut space = space();
        space.write(CAP_PM + 4, &[3, 0]);
        assert_eq!(space.bytes[CAP_PM + 4] & 3, 3);
        space.write(CAP_PM + 4, &[0]);
        assert_eq!(space.bytes[CAP_PM + 4] & 3, 0);
    }

    #[test]
    fn function_level_reset_is_seen_in_every_width() {
        for (offset, data) in [
            (PCI_EXP_DEVCTL, &[0x10, 0xa8][..]),
            (PCI_EXP_DEVCTL + 1, &[0x80]),
            (PCI_EXP_DEVCTL, &[0, 0x80, 0, 0]),
        ] {
            let effect = space().write(offset, data);
            assert!(effect.reset, "{data:x?} at {offset:#x}");
        }
        assert!(!space().write(PCI_EXP_DEVCTL, &[0xff, 0x7f]).reset);
        let mut space = space();
        space.write(PCI_EXP_DEVCTL + 1, &[0x80]);
        assert_eq!(space.bytes[PCI_EXP_DEVCTL + 1] & 0x80, 0, "the bit reads 0");
    }

    #[test]
    fn control_bits_are_reported() {
        let mut space = space();
        assert!(!space.bus_master());
        assert!(space.write(COMMAND, &[0x06, 0x00]).control);
        assert!(space.bus_master());
        assert!(!space.pin_disabled());
        assert!(space.write(COMMAND_HIGH, &[0x04]).control);
        assert!(space.pin_disabled());
        assert!(space.write(CAP_MSIX + 3, &[0x80]).control);
        assert_eq!(space.msix_state(), MsixState { enabled: true, masked: false });
    }
}
