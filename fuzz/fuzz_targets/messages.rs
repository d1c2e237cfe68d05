//! Destinations of the GPU's messages: each message goes to the last one that the guest has programmed, after
//! any other writes.

#![no_main]

use belfry_abi::pci::{BAR_REGISTERS, MSIX_TABLE_OFFSET, MSIX_VECTORS};
use belfry_abi::regs::Register;
use belfry_abi::regs::osssys::{IH_RB_CNTL, IH_RB_RPTR, IH_RB_WPTR};
use belfry_device::chip::gfx1100::dword;
use belfry_fuzz::access::{Access, accesses};
use belfry_fuzz::device::COMMAND;
use belfry_fuzz::kvm::messages::{Messages, is_taken};
use libfuzzer_sys::fuzz_target;

const MSI: usize = 0xa0;
const MSIX: usize = 0xc0;
const TABLE: u64 = MSIX_VECTORS as u64 * 16;
const INTX_DISABLED: u8 = 1 << 2;

type Sent = Option<(u64, u32)>;

struct Guest {
    messages: Messages,
    /// Message that the other function should have.
    other: Sent,
}

fuzz_target!(|input: &[u8]| {
    let mut guest = Guest { messages: Messages::new(), other: None };
    for access in accesses(input) {
        match access.kind & 7 {
            0 | 1 => guest.write_table(&access),
            2 => guest.write_control(&access),
            3 => guest.messages.config_write(access.offset as usize & 0xff, access.data()),
            4 => guest.messages.config_write(MSI + (access.offset as usize & 0x3f), access.data()),
            5 | 6 => guest.interrupt(),
            _ => guest.set_other(&access),
        }
        guest.check();
    }
});

impl Guest {
    fn register<R: Register>(&self, value: u32) {
        assert!(self.messages.register_write(u64::from(dword::<R>()) * 4, &value.to_le_bytes()));
    }

    /// A ring that interrupts as soon as it is acknowledged with an entry left.
    fn interrupt(&self) {
        let mut cntl = IH_RB_CNTL::from_bits(0);
        cntl.set_rb_enable(true);
        cntl.set_rb_size(8);
        cntl.set_enable_intr(true);
        cntl.set_rptr_rearm(true);
        self.register::<IH_RB_CNTL>(cntl.bits());
        self.register::<IH_RB_WPTR>(0x40);
        self.register::<IH_RB_RPTR>(0);
    }

    /// In any width, in the table and across both its ends.
    fn write_table(&self, access: &Access) {
        let at = MSIX_TABLE_OFFSET - 16 + access.offset % (TABLE + 32);
        self.messages.register_write(at, access.data());
    }

    /// The bits that matter, in widths drivers use.
    fn write_control(&self, access: &Access) {
        let byte = access.data().first().copied().unwrap_or(0);
        match access.offset % 6 {
            0 => self.messages.config_write(MSIX + 2, &[0, byte]),
            1 => self.messages.config_write(MSIX, &[0, 0, 0, byte]),
            2 => self.messages.config_write(COMMAND, &[byte]),
            3 => self.messages.config_write(COMMAND, &[byte, access.kind >> 3]),
            4 => self.messages.config_write(MSI, &[0, 0, byte, 0]),
            _ => self.messages.config_write(MSI + 2, &[byte]),
        }
    }

    fn set_other(&mut self, access: &Access) {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(access.data()).for_each(|(to, from)| *to = *from);
        let message = (u64::from_le_bytes(bytes), access.offset as u32);
        self.messages.set_other(message.0, message.1);
        self.other = is_taken(message.0).then_some(message);
    }

    fn config(&self) -> [u8; 256] {
        let mut config = [0; 256];
        self.messages.gpu.config_read(0, &mut config);
        config
    }

    /// Message of a vector as the device's own registers give it.
    fn programmed(&self, config: &[u8; 256], vector: u16) -> Sent {
        let word =
            |at: usize| u32::from_le_bytes([config[at], config[at + 1], config[at + 2], config[at + 3]]);
        if word(MSIX) >> 31 == 1 {
            let mut entry = [0; 16];
            let at = MSIX_TABLE_OFFSET + u64::from(vector) * 16;
            self.messages.gpu.bar_read(BAR_REGISTERS, at, &mut entry).expect("the table can be read");
            let address = u64::from_le_bytes(*entry.first_chunk().expect("16 bytes"));
            return Some((address & !3, u32::from_le_bytes([entry[8], entry[9], entry[10], entry[11]])));
        }
        let address = u64::from(word(MSI + 8)) << 32 | u64::from(word(MSI + 4) & !3);
        (vector == 0 && word(MSI) >> 16 & 1 == 1).then_some((address, word(MSI + 12) & 0xffff))
    }

    fn check(&self) {
        let config = self.config();
        let all: Vec<Sent> = (0..MSIX_VECTORS).map(|vector| self.programmed(&config, vector)).collect();
        let taken = all.iter().flatten().all(|&(address, _)| is_taken(address));
        for (vector, &programmed) in (0..).zip(&all) {
            if self.messages.sent(vector) > 0 {
                assert!(programmed.is_some(), "vector {vector} was sent without a message");
                let expected = programmed.filter(|_| taken);
                assert_eq!(self.messages.route(vector), expected, "where vector {vector} was sent");
            }
        }
        let messages = all.iter().any(Option::is_some);
        let disabled = config[COMMAND + 1] & INTX_DISABLED != 0;
        assert!(!(self.messages.pin() && (messages || disabled)), "the pin beside messages, or disabled");
        assert_eq!(self.messages.other(), self.other, "another function's message");
    }
}
