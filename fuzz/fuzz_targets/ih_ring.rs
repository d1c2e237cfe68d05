//! The interrupt ring under registers of any content, against a model of it, while interrupts are raised.
//!
//! Entries and the write pointer land where the registers say and nowhere else, pointers stay inside the ring, and the
//! vector is raised when the ring's rules want it. Each interrupt is a bad packet on the KIQ, which tells of it.

#![no_main]

use arbitrary::Arbitrary;
use belfry_abi::ih::{Client, IhEntry, Source, node};
use belfry_abi::pci::{self, doorbell};
use belfry_abi::regs::Register;
use belfry_abi::regs::osssys::{
    IH_DOORBELL_RPTR, IH_RB_BASE, IH_RB_BASE_HI, IH_RB_CNTL, IH_RB_RPTR, IH_RB_WPTR, IH_RB_WPTR_ADDR_HI,
    IH_RB_WPTR_ADDR_LO,
};
use belfry_device::chip::gfx1100::dword;
use belfry_fuzz::chips::On;
use belfry_fuzz::device::COMMAND;
use belfry_fuzz::driver::{BASE, Driver, GART, PROCESS, SIZE, kernel};
use belfry_fuzz::rig::RIG;
use libfuzzer_sys::fuzz_target;
use vm_memory::{Bytes as _, GuestAddress};
use zerocopy::IntoBytes as _;

/// The ring's registers, by where they are on Navi 31.
mod at {
    use super::*;

    pub const DOORBELL_RPTR: u32 = dword::<IH_DOORBELL_RPTR>();
    pub const BASE: u32 = dword::<IH_RB_BASE>();
    pub const BASE_HI: u32 = dword::<IH_RB_BASE_HI>();
    pub const CNTL: u32 = dword::<IH_RB_CNTL>();
    pub const RPTR: u32 = dword::<IH_RB_RPTR>();
    pub const WPTR: u32 = dword::<IH_RB_WPTR>();
    pub const WPTR_ADDR_HI: u32 = dword::<IH_RB_WPTR_ADDR_HI>();
    pub const WPTR_ADDR_LO: u32 = dword::<IH_RB_WPTR_ADDR_LO>();
}

/// Place of such a register on the chip at hand, as an absolute dword index.
fn place(register: u32) -> u32 {
    match register {
        at::DOORBELL_RPTR => RIG.dword::<IH_DOORBELL_RPTR>(),
        at::BASE => RIG.dword::<IH_RB_BASE>(),
        at::BASE_HI => RIG.dword::<IH_RB_BASE_HI>(),
        at::CNTL => RIG.dword::<IH_RB_CNTL>(),
        at::RPTR => RIG.dword::<IH_RB_RPTR>(),
        at::WPTR => RIG.dword::<IH_RB_WPTR>(),
        at::WPTR_ADDR_HI => RIG.dword::<IH_RB_WPTR_ADDR_HI>(),
        _ => RIG.dword::<IH_RB_WPTR_ADDR_LO>(),
    }
}

const ENTRY: u32 = 32;
const OVERFLOW: u32 = 1;
/// The memory that rings are put into: the kernel does not need it.
const WINDOW: (u64, u64) = (PROCESS, BASE + SIZE);
const STEPS: usize = 200;

#[derive(Arbitrary, Debug)]
enum Step {
    /// A ring with a number of entries, on or off, with flags.
    Control {
        size: u8,
        flags: u8,
    },
    AnyControl(u32),
    Base(Place),
    WptrAddress(Place),
    Rptr(Pointer),
    Wptr(Pointer),
    /// Acknowledges all entries, or a number of them.
    Acknowledge {
        by_doorbell: bool,
        entries: Option<u8>,
    },
    Doorbell {
        offset: u16,
        enable: bool,
    },
    Raise(u8),
    BusMaster(bool),
    Compare,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Place {
    /// In units of 256 bytes into the window.
    Window(u16),
    /// Close to the end of mapped memory.
    End(u8),
    Any(u64),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Pointer {
    Entry(u8),
    Any(u32),
}

impl Place {
    fn address(self) -> u64 {
        match self {
            Place::Window(at) => kernel(WINDOW.0) + u64::from(at) * 256 % (WINDOW.1 - WINDOW.0),
            Place::End(back) => GART + SIZE - u64::from(back) * 16,
            Place::Any(address) => address,
        }
    }
}

impl Pointer {
    fn value(self) -> u32 {
        match self {
            Pointer::Entry(nth) => u32::from(nth) * ENTRY,
            Pointer::Any(value) => value,
        }
    }
}

/// The ring as the registers' descriptions have it.
#[derive(Default)]
struct Model {
    cntl: IH_RB_CNTL,
    base: u64,
    wptr_address: u64,
    rptr: u32,
    wptr: u32,
    overflow: bool,
    /// The next entry interrupts: everything before was acknowledged.
    armed: bool,
    raised: u64,
    master: bool,
    doorbell: IH_DOORBELL_RPTR,
    /// Contents of the window.
    memory: Vec<u8>,
}

fuzz_target!(|on: On<Vec<Step>>| {
    let On { chip, input: steps } = on;
    RIG.choose(chip);
    let mut driver = Driver::new(&RIG);
    let mut model = Model { armed: true, master: true, ..Model::default() };
    model.memory = window();
    // From a ring that works, on.
    model.write(at::CNTL, 0);
    for (index, value) in [
        (at::BASE, (kernel(WINDOW.0) >> 8) as u32),
        (at::BASE_HI, (kernel(WINDOW.0) >> 40) as u32),
        (at::WPTR_ADDR_LO, (kernel(WINDOW.0) + 0x8000) as u32),
        (at::WPTR_ADDR_HI, (kernel(WINDOW.0) >> 32) as u32),
        (at::RPTR, 0),
        (at::WPTR, 0),
        (at::DOORBELL_RPTR, doorbell::IH.dwords() | (1 << 28)),
        (at::CNTL, control(4, 0xff)),
    ] {
        model.write(index, value);
    }
    RIG.raised.take();
    model.raised = 0;
    for step in steps.iter().take(STEPS) {
        model.step(&mut driver, step);
        model.check();
    }
    model.compare();
    RIG.check();
});

fn window() -> Vec<u8> {
    let mut bytes = vec![0; (WINDOW.1 - WINDOW.0) as usize];
    RIG.ram.read_slice(&mut bytes, GuestAddress(WINDOW.0)).expect("guest memory");
    bytes
}

/// A control register: log2 of dwords, and flags that are usual where bits are set.
fn control(size: u8, flags: u8) -> u32 {
    let mut cntl = IH_RB_CNTL::from_bits(0);
    cntl.set_rb_size(u32::from(size));
    cntl.set_rb_enable(flags & 1 != 0);
    cntl.set_wptr_writeback_enable(flags & 2 != 0);
    cntl.set_wptr_overflow_enable(flags & 4 != 0);
    cntl.set_enable_intr(flags & 8 != 0);
    cntl.set_rptr_rearm(flags & 16 != 0);
    cntl.bits()
}

impl Model {
    fn step(&mut self, driver: &mut Driver<'_>, step: &Step) {
        match *step {
            Step::Control { size, flags } => self.write(at::CNTL, control(4 + size % 6, flags)),
            Step::AnyControl(bits) => self.write(at::CNTL, bits),
            Step::Base(place) => {
                self.write(at::BASE, (place.address() >> 8) as u32);
                self.write(at::BASE_HI, (place.address() >> 40) as u32);
            }
            Step::WptrAddress(place) => {
                self.write(at::WPTR_ADDR_LO, place.address() as u32);
                self.write(at::WPTR_ADDR_HI, (place.address() >> 32) as u32);
            }
            Step::Rptr(pointer) => self.write(at::RPTR, pointer.value()),
            Step::Wptr(pointer) => self.write(at::WPTR, pointer.value()),
            Step::Acknowledge { by_doorbell, entries } => {
                let rptr =
                    entries.map_or(self.wptr, |entries| self.rptr.wrapping_add(u32::from(entries) * ENTRY));
                if by_doorbell && self.doorbell.enable() {
                    let offset = u64::from(self.doorbell.offset()) * 4;
                    let written = RIG.gpu.bar_write(pci::BAR_DOORBELLS, offset, &rptr.to_le_bytes()).is_ok();
                    if written && offset < pci::DOORBELL_BAR_SIZE {
                        self.acknowledge(rptr);
                    }
                } else {
                    self.write(at::RPTR, rptr);
                }
            }
            Step::Doorbell { offset, enable } => {
                // The kernel's own rings keep theirs.
                let first = if RIG.choice.has_run_lists() { 0x200 } else { 0x100 };
                let offset = u32::from(offset) % 0x400 + first;
                self.write(at::DOORBELL_RPTR, offset | u32::from(enable) << 28);
            }
            Step::Raise(times) => (0..=times % 40).for_each(|_| self.raise(driver)),
            Step::BusMaster(on) => {
                RIG.gpu.config_write(COMMAND, &[2 | u8::from(on) << 2, 0]);
                self.master = on;
            }
            Step::Compare => self.compare(),
        }
    }

    /// Bytes of the ring, if its size is one a ring can have: 2 to 8192 entries.
    fn size(&self) -> Option<u32> {
        matches!(self.cntl.rb_size(), 4..=16).then(|| 1 << (self.cntl.rb_size() + 2))
    }

    fn inside(&self, pointer: u32) -> u32 {
        pointer % self.size().unwrap_or(1 << 18) / ENTRY * ENTRY
    }

    fn write(&mut self, index: u32, value: u32) {
        RIG.write(place(index), value);
        let high = |value: u32, mask: u64| (u64::from(value) & mask) << 32;
        match index {
            at::CNTL => {
                let cntl = IH_RB_CNTL::from_bits(value);
                self.armed |= cntl.rb_enable() && !self.cntl.rb_enable();
                self.overflow &= !cntl.wptr_overflow_clear();
                self.cntl = cntl;
            }
            at::BASE => self.base = self.base & !0xff_ffff_ff00 | u64::from(value) << 8,
            at::BASE_HI => self.base = self.base & 0xff_ffff_ff00 | high(value, 0xff) << 8,
            at::WPTR_ADDR_LO => self.wptr_address = self.wptr_address >> 32 << 32 | u64::from(value & !3),
            at::WPTR_ADDR_HI => {
                self.wptr_address = self.wptr_address & 0xffff_ffff | high(value, 0xffff);
            }
            at::RPTR => self.acknowledge(value),
            at::WPTR => {
                self.wptr = self.inside(value);
                self.overflow = value & OVERFLOW != 0;
            }
            _ => self.doorbell = IH_DOORBELL_RPTR::from_bits(value),
        }
    }

    fn acknowledge(&mut self, rptr: u32) {
        self.rptr = self.inside(rptr);
        self.armed = true;
        if self.rptr != self.wptr
            && self.cntl.rb_enable()
            && self.cntl.enable_intr()
            && self.cntl.rptr_rearm()
        {
            self.interrupt();
        }
    }

    fn interrupt(&mut self) {
        if self.armed {
            self.armed = false;
            self.raised += u64::from(self.master);
        }
    }

    fn store(&mut self, address: u64, bytes: &[u8]) -> bool {
        let Some(at) = address.checked_sub(kernel(WINDOW.0)) else { return false };
        let Some(target) =
            self.memory.get_mut(at as usize..).and_then(|memory| memory.get_mut(..bytes.len()))
        else {
            return false;
        };
        target.copy_from_slice(bytes);
        true
    }

    /// One bad packet, and its effects.
    fn raise(&mut self, driver: &mut Driver<'_>) {
        if !self.master {
            return;
        }
        // The driver's own memory is not to be written, which would be its own doing.
        let kernels = GART..kernel(WINDOW.0);
        let near =
            |address: u64, bytes: u64| address < kernels.end && address.saturating_add(bytes) > kernels.start;
        if near(self.base, 1 << 18) || near(self.wptr_address, 4) {
            return;
        }
        if !RIG.choice.has_kiq() {
            // Firmware that takes frames raises no interrupt for a frame that it refuses.
            driver.kiq(&[0; 64]);
            return;
        }
        driver.kiq(&[3 << 30 | 0xfe << 8, 0]);
        let Some(size) = self.size().filter(|_| self.cntl.rb_enable()) else { return };
        let before = self.wptr;
        let next = (self.wptr + ENTRY) % size;
        if next == self.rptr {
            if !self.cntl.wptr_overflow_enable() {
                return;
            }
            self.overflow = true;
            self.rptr = (self.rptr + ENTRY) % size;
        }
        let address = self.base + u64::from(before);
        // The timestamp is the device's; all other fields are known.
        let node = if RIG.choice.has_run_lists() { node::of_xcc(0) } else { 0 };
        let mut entry = IhEntry::new(Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR, 0, 0, 0).from_node(node);
        entry.data[0] = driver.kiq.doorbell.dwords() & 0x3ff;
        let mut time = [0; 8];
        if address.checked_sub(kernel(WINDOW.0)).is_some_and(|at| at + 12 <= self.memory.len() as u64) {
            RIG.ram.read_slice(&mut time, GuestAddress(address - GART + BASE + 4)).expect("guest memory");
        }
        entry.timestamp_lo = u32::from_le_bytes(*time.first_chunk().expect("4 bytes"));
        entry.timestamp_hi = u32::from_le_bytes(*time.last_chunk().expect("4 bytes"));
        if !self.store(address, entry.as_bytes()) {
            return;
        }
        self.wptr = next;
        if self.cntl.wptr_writeback_enable() {
            let value = self.wptr | if self.overflow { OVERFLOW } else { 0 };
            if !self.store(self.wptr_address, &value.to_le_bytes()) {
                return;
            }
        }
        if self.cntl.enable_intr() {
            self.interrupt();
        }
    }

    fn check(&mut self) {
        let bits = self.wptr | if self.overflow { OVERFLOW } else { 0 };
        assert_eq!(RIG.read(place(at::WPTR)), bits, "the write pointer");
        assert_eq!(RIG.read(place(at::RPTR)), self.rptr, "the read pointer");
        assert_eq!(RIG.raised.take(), std::mem::take(&mut self.raised), "interrupts");
    }

    /// All memory is as the ring's registers have made it.
    fn compare(&self) {
        let found = window();
        if found != self.memory {
            let first = found.iter().zip(&self.memory).position(|(a, b)| a != b);
            panic!("memory at offset {first:x?} of the window was written, or was not");
        }
    }
}
