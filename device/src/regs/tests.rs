//! A register file over a chip and blocks of the tests.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::layout::{self, Layout};
use belfry_abi::regs::{Access, Description, Register as _, gc, nbio};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::*;
use crate::chip::gfx1100::{self, dword};
use crate::chip::{Identity, IpBlock, RegisterBar, Topology};

/// Two graphics cores of two segments each, as on a chip with several of them.
const IPS: &[IpBlock] = &[core(0, &[0x2000, 0xa000]), core(1, &[0x1_2000, 0x1_a000])];

const fn core(instance: u8, bases: &'static [u32]) -> IpBlock {
    IpBlock { ip: Ip::GC, instance, version: [9, 4, 3], bases, harvested: false }
}

#[derive(Debug)]
struct TwoCores;

impl Chip for TwoCores {
    fn identity(&self) -> Identity {
        gfx1100::chip(2).identity()
    }

    fn topology(&self) -> Topology {
        gfx1100::chip(2).topology()
    }

    fn ips(&self) -> &[IpBlock] {
        IPS
    }

    fn registers(&self) -> Layout {
        layout::GFX11
    }

    fn register_name(&self, dword: u32) -> Option<&'static str> {
        (dword == 0x77).then_some("LUCKY")
    }

    fn discovery(&self) -> Vec<u8> {
        Vec::new()
    }

    fn discovery_offset(&self) -> u64 {
        0
    }

    fn fb_base(&self) -> u64 {
        0
    }
}

const fn register(segment: u8, dword: u32, access: Access) -> Description {
    Description { name: "TEST", at: Offset { segment, dword }, access, reset: 5, fields: &[] }
}

static REGISTERS: &[Description] =
    &[register(0, 0x10, Access::Rw), register(0, 0x11, Access::Ro), register(1, 0x10, Access::Rw)];

/// A block that stores, and has an array of four registers that notes its calls.
#[derive(Debug)]
struct Core {
    instance: u8,
    storage: Storage,
    asked: Arc<Mutex<Vec<(u8, Offset)>>>,
}

const ARRAY: Offset = Offset { segment: 1, dword: 0x40 };

impl Block for Core {
    fn kept(&self) -> Vec<&AtomicU32> {
        self.storage.kept()
    }

    fn ip(&self) -> (Ip, u8) {
        (Ip::GC, self.instance)
    }

    fn claims(&self) -> Vec<Run> {
        let mut claims = self.storage.claims();
        claims.push(Run { first: ARRAY, count: 4 });
        // A segment that the chip does not have.
        claims.push(Run { first: Offset { segment: 9, dword: 0 }, count: 1 });
        claims
    }

    fn read(&self, at: Offset) -> u32 {
        if let Some(element) = at.element(ARRAY, 4) {
            self.asked.lock().expect("no panic").push((self.instance, at));
            return 0x100 + element;
        }
        self.storage.read(at)
    }

    fn write(&self, at: Offset, value: u32) {
        self.storage.write(at, value);
    }

    fn reset(&self) {
        self.storage.reset();
    }
}

type Asked = Arc<Mutex<Vec<(u8, Offset)>>>;

fn file(chip: Arc<dyn Chip>) -> (RegisterFile, Asked) {
    let vram = MmapRegion::new(1 << 20).expect("anonymous memory");
    let memory = Arc::new(Memory::new(vram, GuestMemoryAtomic::new(GuestMemoryMmap::new())));
    let asked = Asked::default();
    let block = |instance| -> Box<dyn Block> {
        Box::new(Core { instance, storage: Storage::new(REGISTERS), asked: Arc::clone(&asked) })
    };
    let windows = Arc::new(Windows::new(&*chip, RegisterBar::NAVI));
    let blocks = vec![block(0), block(1)];
    (RegisterFile::new(chip, blocks, windows, memory, Default::default()), asked)
}

#[test]
fn access_reaches_the_instance_and_offset_its_address_means() {
    let (file, asked) = file(Arc::new(TwoCores));
    file.write(0x2010, 1);
    file.write(0x1_2010, 2);
    file.write(0xa010, 3);
    assert_eq!([0x2010, 0x1_2010, 0xa010, 0x1_a010].map(|dword| file.read(dword)), [1, 2, 3, 5]);
    assert_eq!([0xa040, 0xa043, 0x1_a042].map(|dword| file.read(dword)), [0x100, 0x103, 0x102]);
    let expected = [(0, ARRAY), (0, ARRAY.plus(3)), (1, ARRAY.plus(2))];
    assert_eq!(*asked.lock().expect("no panic"), expected);
    file.write(0x2011, 9);
    assert_eq!(file.read(0x2011), 5, "read-only");
    assert!(file.unmodelled().is_empty(), "{:?}", file.unmodelled());
    file.reset();
    assert_eq!([0x2010, 0x1_2010].map(|dword| file.read(dword)), [5, 5]);
}

#[test]
fn register_that_nobody_claims_stores_and_is_counted_by_name() {
    let (file, _) = file(Arc::new(TwoCores));
    assert_eq!(file.read(0x77), 0);
    file.write(0x77, 6);
    // Just after the array.
    file.write(0xa044, 7);
    assert_eq!((file.read(0x77), file.read(0xa044)), (6, 7));
    let mut uses = file.unmodelled();
    uses.sort();
    assert_eq!(uses, [("LUCKY".into(), 2, 1), ("register at dword 0xa044".into(), 1, 1)]);
    file.write(REGISTERS_END, 1);
    assert_eq!((file.read(REGISTERS_END), file.read(u32::MAX)), (0, 0), "outside of the BAR");
    file.reset();
    assert_eq!(file.read(0x77), 0);
}

const REGISTERS_END: u32 = RegisterBar::NAVI.registers();

#[test]
fn width_that_registers_do_not_take_is_refused() {
    let (file, _) = file(Arc::new(TwoCores));
    let at = 0x2010 * 4;
    assert_eq!(file.write_bytes(at, &[1, 2, 3, 4, 5, 0, 0, 0]), Ok(()));
    let mut data = [0; 8];
    assert_eq!(file.read_bytes(at, &mut data), Ok(()));
    assert_eq!(data, [1, 2, 3, 4, 5, 0, 0, 0]);
    let mut half = [0; 2];
    assert_eq!((file.read_bytes(at + 2, &mut half), half), (Ok(()), [3, 4]));
    for (offset, len) in [(at, 2), (at + 2, 4), (at, 3), (at, 12), (at, 0)] {
        assert!(file.write_bytes(offset, &vec![0xff; len]).is_err(), "{len} bytes at {offset:#x}");
    }
    for (offset, len) in [(at + 2, 4), (at + 4, 12), (at + 3, 2)] {
        assert!(file.read_bytes(offset, &mut vec![0; len]).is_err(), "{len} bytes at {offset:#x}");
    }
    assert_eq!(file.read(0x2010), 0x0403_0201, "nothing was written");
}

#[test]
fn navi_31_has_its_registers_where_its_table_says() {
    // As in the generated headers: segment base plus offset.
    assert_eq!(dword::<gc::GRBM_GFX_CNTL>(), 0xa900);
    assert_eq!(dword::<gc::CP_MQD_BASE_ADDR>(), 0x3209);
    assert_eq!(dword::<nbio::RCC_CONFIG_MEMSIZE>(), 0xde3);
    assert_eq!(gfx1100::chip(96).dword(Ip::GC, 0, gc::SCRATCH_REG0::AT), Some(0xc040));
    assert_eq!(gfx1100::chip(96).dword(Ip::GC, 1, gc::SCRATCH_REG0::AT), None, "one graphics core");
}
