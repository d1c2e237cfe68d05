//! The GPU's configuration space: its identity, BARs and capabilities, and the effects of writes.
//!
//! Layouts: PCI Power Management 1.2 section 3.2, PCI Express Base 4.0 section 7.5.3 (capability structure);
//! the parts of every function are in `belfry_pci`.

use belfry_abi::pci;
use belfry_pci::{BARS, BarLayout, COMMAND, InterruptControl};

use crate::chip::Chip;
use crate::config::GpuConfig;

const COMMAND_HIGH: usize = COMMAND + 1;
const CAP_PM: usize = 0x48;
const CAP_PCIE: usize = 0x64;
const CAP_MSI: usize = 0xa0;
const CAP_MSIX: usize = 0xc0;
const EXT_VENDOR: usize = 0x100;

const PCI_EXP_DEVCTL: usize = CAP_PCIE + 0x08;
const DEVCTL2: usize = CAP_PCIE + 0x28;
const ATOMIC_REQUESTER: u16 = 1 << 6;
const DEVCTL_FLR: u16 = 1 << 15;
/// Memory Space Enable (PCI Local Bus 3.0 section 6.2.2).
const COMMAND_MEMORY: u64 = 1 << 1;
/// The type of a BAR, and the type of a 64-bit BAR (section 6.2.5.1).
const BAR_TYPE: u64 = 0b111;
const BAR_64: u64 = 0b100;

/// Effects of a write to the configuration space on the rest of the device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Effect {
    /// A function level reset was asked for.
    pub(crate) reset: bool,
    /// Bus mastering or the state of the interrupts may have changed.
    pub(crate) control: bool,
    /// Addresses of BARs may have changed.
    pub(crate) bars: bool,
}

/// The configuration space.
#[derive(Debug)]
pub(crate) struct ConfigSpace(belfry_pci::ConfigSpace);

impl ConfigSpace {
    pub(crate) fn new(chip: &dyn Chip, config: &GpuConfig) -> Self {
        let mut space = Self(belfry_pci::ConfigSpace::new(pci::CONFIG_SPACE_SIZE, &chip.identity()));
        for (number, size, wide) in [
            (pci::BAR_VRAM, config.vram_size, true),
            (pci::BAR_DOORBELLS, pci::DOORBELL_BAR_SIZE, true),
            (pci::BAR_REGISTERS, config.chip.generation.register_bar.size, false),
        ] {
            space.0.bar(&BarLayout { number, size, wide });
        }
        if let Some(rom) = &config.rom {
            space.0.bar(&rom.layout());
        }
        if config.interrupt_pin {
            space.0.interrupt_pin(0);
        }
        space.power_management();
        space.express();
        space.0.msi_at(CAP_MSI);
        let offsets = [pci::MSIX_TABLE_OFFSET as u32, pci::MSIX_PBA_OFFSET as u32];
        space.0.msix_at(CAP_MSIX, pci::MSIX_VECTORS, pci::BAR_REGISTERS, offsets);
        // One vendor-specific extended capability, which amdgpu looks for (a warning if it is missing).
        space.put32(EXT_VENDOR, 0x000b | 1 << 16);
        space.put32(EXT_VENDOR + 4, 0x0001 | 1 << 16 | 0x10 << 20);
        space
    }

    fn put16(&mut self, offset: usize, value: u16) {
        self.0.put(offset, &value.to_le_bytes());
    }

    fn put32(&mut self, offset: usize, value: u32) {
        self.0.put(offset, &value.to_le_bytes());
    }

    fn allow16(&mut self, offset: usize, mask: u16) {
        self.0.allow(offset, &mask.to_le_bytes());
    }

    fn power_management(&mut self) {
        self.0.capability_at(CAP_PM, 0x01, &[]);
        self.put16(CAP_PM + 2, 0x0003); // version 3, D0 and D3hot
        self.put16(CAP_PM + 4, 1 << 3); // no soft reset on the way back from D3hot
        self.allow16(CAP_PM + 4, 0x0103);
        self.0.allow_clear(CAP_PM + 5, &[0x80]);
    }

    fn express(&mut self) {
        self.0.capability_at(CAP_PCIE, 0x10, &[]);
        self.put16(CAP_PCIE + 2, 0x0002); // version 2, endpoint
        self.put32(CAP_PCIE + 4, 1 | 1 << 5 | 1 << 15 | 1 << 28); // 256-byte payloads, extended tags, role based errors, FLR
        self.put16(PCI_EXP_DEVCTL, 0x2810);
        self.allow16(PCI_EXP_DEVCTL, 0x7fff);
        self.0.allow_clear(PCI_EXP_DEVCTL + 2, &[0x0f]);
        self.put32(CAP_PCIE + 0x0c, 4 | 16 << 4); // 16 GT/s, 16 lanes, no low power states
        self.allow16(CAP_PCIE + 0x10, 0x0fc3);
        self.put16(CAP_PCIE + 0x12, 4 | 16 << 4);
        self.put32(CAP_PCIE + 0x24, 1 << 7 | 1 << 8 | 0xf); // completes 32- and 64-bit AtomicOps; completion timeouts
        // AtomicOp requester enable, set: on a root bus, drivers see no root port that completes such operations, and take this
        // bit for the word of who made the machine (Linux `pci_enable_atomic_ops_to_root`). Guest memory does complete them.
        self.put16(DEVCTL2, ATOMIC_REQUESTER);
        self.allow16(DEVCTL2, 0x045f); // AtomicOp requester enable, completion timeout
        self.put32(CAP_PCIE + 0x2c, 0x1e);
        self.put16(CAP_PCIE + 0x30, 4);
        self.allow16(CAP_PCIE + 0x30, 0xffff);
    }

    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) {
        self.0.read(offset, data);
    }

    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) -> Effect {
        self.0.write(offset, data);
        let mut effect = Effect::default();
        for (i, &byte) in data.iter().enumerate() {
            let Some(at) = offset.checked_add(i) else { break };
            effect.reset |= at == PCI_EXP_DEVCTL + 1 && u16::from(byte) & DEVCTL_FLR >> 8 != 0;
            effect.bars |= matches!(at, COMMAND | COMMAND_HIGH) || (BARS..BARS + 24).contains(&at);
            effect.control |= matches!(at, COMMAND | COMMAND_HIGH) || (CAP_MSI..CAP_MSIX + 4).contains(&at);
        }
        effect
    }

    /// Address of a BAR on the bus: `None` while the function answers no accesses to memory, and for 0, which
    /// is no address.
    pub(crate) fn bar_at(&self, number: u8) -> Option<u64> {
        let bytes = self.0.bytes();
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            u64::from(bytes.map_or(0, u32::from_le_bytes))
        };
        let at = BARS + usize::from(number) * 4;
        let low = word(at);
        let high = if low & BAR_TYPE == BAR_64 { word(at + 4) } else { 0 };
        let address = low & !0xf | high << 32;
        (word(COMMAND) & COMMAND_MEMORY != 0 && address != 0).then_some(address)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    pub(super) fn restore(&mut self, bytes: &[u8]) -> Result<(), usize> {
        self.0.restore(bytes)
    }

    /// Returns true if the function may read and write memory, and raise interrupts.
    pub(crate) fn bus_master(&self) -> bool {
        self.0.bus_master()
    }

    /// State of the function's interrupts.
    pub(crate) fn interrupt_control(&self) -> InterruptControl {
        self.0.interrupt_control()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::gfx1100;

    fn space() -> ConfigSpace {
        ConfigSpace::new(&gfx1100::chip(8), &GpuConfig::default())
    }

    fn byte(space: &ConfigSpace, at: usize) -> u8 {
        let mut byte = [0];
        space.read(at, &mut byte);
        byte[0]
    }

    fn read32(space: &ConfigSpace, offset: usize) -> u32 {
        let mut data = [0; 4];
        space.read(offset, &mut data);
        u32::from_le_bytes(data)
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
        assert_eq!(read32(&space, 0), 0x744c_1002);
    }

    #[test]
    fn atomic_operations_are_on_from_the_start_and_can_be_switched_off() {
        let mut space = space();
        assert_eq!(read32(&space, CAP_PCIE) >> 20 & 0xf, 0, "an endpoint");
        assert_eq!(byte(&space, DEVCTL2) & 0x40, 0x40);
        space.write(DEVCTL2, &[0]);
        assert_eq!(byte(&space, DEVCTL2), 0);
    }

    #[test]
    fn expansion_rom_is_there_if_the_card_has_one() {
        let rom = belfry_pci::Rom::new(vec![0x55; 100_000]).expect("small enough");
        let config = GpuConfig { rom: Some(rom), ..GpuConfig::default() };
        let mut space = ConfigSpace::new(&gfx1100::chip(8), &config);
        space.write(0x30, &0xffff_f800u32.to_le_bytes());
        assert_eq!(!read32(&space, 0x30) + 1, 128 << 10);
        space.write(0x30, &[1, 0, 0, 0xfe]);
        assert_eq!(read32(&space, 0x30), 0xfe00_0001);
        assert_eq!(read32(&space, 0x24) & 0xf, 0, "the BARs are as they are without it");
    }

    #[test]
    fn capabilities_chain_to_the_end() {
        let space = space();
        let mut at = usize::from(byte(&space, 0x34));
        let mut found = Vec::new();
        while at != 0 {
            found.push(byte(&space, at));
            at = usize::from(byte(&space, at + 1));
            assert!(found.len() < 16, "capabilities form a loop");
        }
        assert_eq!(found, [0x01, 0x10, 0x05, 0x11]);
        assert_eq!(read32(&space, 0x100) & 0xffff, 0x000b);
        assert_eq!(byte(&space, 0x3d), 0, "no pin");
        let config = GpuConfig { interrupt_pin: true, ..GpuConfig::default() };
        assert_eq!(byte(&ConfigSpace::new(&gfx1100::chip(8), &config), 0x3d), 1, "INTA");
    }

    #[test]
    fn power_state_is_kept() {
        let mut space = space();
        space.write(CAP_PM + 4, &[3, 0]);
        assert_eq!(byte(&space, CAP_PM + 4) & 3, 3);
        space.write(CAP_PM + 4, &[0]);
        assert_eq!(byte(&space, CAP_PM + 4) & 3, 0);
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
        assert_eq!(byte(&space, PCI_EXP_DEVCTL + 1) & 0x80, 0, "the bit reads 0");
    }

    #[test]
    fn control_bits_are_reported() {
        let mut space = space();
        assert!(!space.bus_master());
        assert!(space.write(COMMAND, &[0x06, 0x00]).control);
        assert!(space.bus_master());
        assert!(!space.interrupt_control().intx_disabled);
        assert!(space.write(COMMAND_HIGH, &[0x04]).control);
        assert!(space.interrupt_control().intx_disabled);
        assert!(space.write(CAP_MSIX + 3, &[0x80]).control);
        let control = space.interrupt_control();
        assert_eq!((control.msix_enabled, control.msix_masked), (true, false));
    }
}
