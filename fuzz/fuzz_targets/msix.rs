//! Message-signalled interrupts against a model of the table: a masked message waits, an unmasked one is sent once.
//!
//! PCI Local Bus 3.0, sections 6.8.2 (table, pending bits) and 6.8.3 (masking); MSI has no mask bits here.

#![no_main]

use belfry_abi::pci::{BAR_REGISTERS, MSIX_PBA_OFFSET, MSIX_TABLE_OFFSET, MSIX_VECTORS};
use belfry_abi::regs::Register;
use belfry_abi::regs::osssys::{IH_RB_CNTL, IH_RB_RPTR, IH_RB_WPTR};
use belfry_device::chip::gfx1100::dword;
use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::device::{COMMAND, Device, FLR, FLR_BIT};
use libfuzzer_sys::fuzz_target;

const MSI_CONTROL: usize = 0xa2;
const MSIX_CONTROL: usize = 0xc2;
const TABLE: usize = MSIX_VECTORS as usize * 16;
const MASK: usize = 12;

struct Model {
    device: Device,
    table: [u8; TABLE],
    /// A message waits. The device has one interrupt, of vector 0.
    pending: bool,
}

fuzz_target!(|input: &[u8]| {
    let mut model = Model { device: Device::new(), table: [0; TABLE], pending: false };
    model.reset();
    for access in accesses(input) {
        match access.kind & 7 {
            0 | 1 => model.write_table(&access),
            2 => model.write_control(&access),
            3 => model.write_config(access.offset as usize & 0xff, access.data()),
            4 | 5 => model.interrupt(),
            6 => model.read(&access),
            _ => model.write_pending(&access),
        }
        model.check();
    }
});

impl Model {
    fn register<R: Register>(&self, value: u32) {
        assert!(self.device.bar_write(BAR_REGISTERS, u64::from(dword::<R>()) * 4, &value.to_le_bytes()));
    }

    /// The state after power on, and a ring that interrupts whenever it is acknowledged with an entry left.
    fn reset(&mut self) {
        self.table = [0; TABLE];
        self.table.iter_mut().skip(MASK).step_by(16).for_each(|control| *control = 1);
        self.pending = false;
        let mut cntl = IH_RB_CNTL::from_bits(0);
        cntl.set_rb_enable(true);
        cntl.set_rb_size(8);
        cntl.set_enable_intr(true);
        cntl.set_rptr_rearm(true);
        self.register::<IH_RB_CNTL>(cntl.bits());
        self.register::<IH_RB_WPTR>(0x40);
    }

    fn byte(&self, offset: usize) -> u8 {
        let mut byte = [0];
        self.device.gpu.config_read(offset, &mut byte);
        byte[0]
    }

    fn is_bus_master(&self) -> bool {
        self.byte(COMMAND) & 4 != 0
    }

    /// Returns true if messages go through the table.
    fn uses_table(&self) -> bool {
        self.byte(MSIX_CONTROL + 1) & 0x80 != 0
    }

    fn is_masked(&self) -> bool {
        self.byte(MSIX_CONTROL + 1) & 0x40 != 0 || self.table[MASK] & 1 != 0
    }

    /// Number of messages that leave after a change of state: the one that waits, if nothing holds it back.
    fn released(&mut self) -> u64 {
        let sent = self.pending && self.is_bus_master() && self.uses_table() && !self.is_masked();
        self.pending &= !sent;
        sent.into()
    }

    fn expect(&self, sent: u64, what: &str) {
        assert_eq!(self.device.raised.take(), sent, "messages sent by {what}");
    }

    fn interrupt(&mut self) {
        let (master, msi) = (self.is_bus_master(), self.byte(MSI_CONTROL) & 1 != 0);
        let through_table = master && self.uses_table();
        let held = through_table && self.is_masked();
        let sent = through_table && !held || master && !self.uses_table() && msi;
        self.pending |= held;
        self.register::<IH_RB_RPTR>(0);
        self.expect(sent.into(), "an interrupt");
    }

    fn write_table(&mut self, access: &Access) {
        let at = access.offset as usize % TABLE;
        for (at, &byte) in (at..).zip(access.data()) {
            if let Some(target) = self.table.get_mut(at) {
                // The address is a multiple of 4, and the control word has one bit.
                *target = match at % 16 {
                    0 => byte & !3,
                    MASK => byte & 1,
                    13.. => 0,
                    _ => byte,
                };
            }
        }
        assert!(self.device.bar_write(BAR_REGISTERS, MSIX_TABLE_OFFSET + at as u64, access.data()));
        let sent = self.released();
        self.expect(sent, "a write to the table");
    }

    /// The bits that matter, in widths drivers use.
    fn write_control(&mut self, access: &Access) {
        let byte = access.data().first().copied().unwrap_or(0);
        match access.offset % 4 {
            0 => self.write_config(MSIX_CONTROL, &[0, byte]),
            1 => self.write_config(MSIX_CONTROL - 2, &[0, 0, 0, byte]),
            2 => self.write_config(COMMAND, &[byte]),
            _ => self.write_config(MSI_CONTROL, &[byte]),
        }
    }

    fn write_config(&mut self, offset: usize, data: &[u8]) {
        self.device.gpu.config_write(offset, data);
        let reset =
            FLR.checked_sub(offset).and_then(|at| data.get(at)).is_some_and(|byte| byte & FLR_BIT != 0);
        if reset {
            self.expect(0, "a reset");
            self.reset();
            return;
        }
        let sent = self.released();
        self.expect(sent, "a write to configuration space");
    }

    fn write_pending(&mut self, access: &Access) {
        let at = access.offset % 8;
        assert!(self.device.bar_write(BAR_REGISTERS, MSIX_PBA_OFFSET + at, access.data()));
        self.expect(0, "a write to the pending bits");
    }

    fn read(&self, access: &Access) {
        let at = access.offset as usize % TABLE;
        let data = self.device.bar_read(BAR_REGISTERS, MSIX_TABLE_OFFSET + at as u64, access.len());
        for (at, byte) in (at..).zip(data.unwrap_or_default()) {
            assert_eq!(byte, self.table.get(at).copied().unwrap_or(0), "byte {at} of the table");
        }
    }

    fn check(&self) {
        let table = self.device.bar_read(BAR_REGISTERS, MSIX_TABLE_OFFSET, TABLE);
        assert_eq!(table.as_deref(), Some(&self.table[..]), "the table");
        let pending = self.device.bar_read(BAR_REGISTERS, MSIX_PBA_OFFSET, 8);
        let expected = u64::from(self.pending).to_le_bytes();
        assert_eq!(pending.as_deref(), Some(&expected[..]), "the pending bits");
    }
}
