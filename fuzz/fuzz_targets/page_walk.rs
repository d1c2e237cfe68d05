//! Page tables of any content against a second, plain walker: the same place, block and permissions, or the same fault.
//!
//! An input builds tables by whole chains of entries, so that walks get to the bottom, and by single entries, so that they
//! also go astray; then it looks addresses up, and reads and writes through them, tables included.

#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use belfry_device::chip::PteFormat;
use belfry_device::memory::{self, Memory};
use belfry_device::vm::{AddressSpace, Root, RootKind};
use belfry_fuzz::chips::On;
use belfry_fuzz::walker::{Physical, Walker};
use belfry_isa::mem::{Access, Mmu};
use libfuzzer_sys::fuzz_target;
use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

const VRAM: usize = 48 << 10;
/// Guest memory: two ranges that follow each other, and one by itself.
const RAM: [(u64, usize); 3] = [(0x1_0000, 0x4000), (0x1_4000, 0x2000), (0x8_0000, 0x1000)];
/// Bytes of the frame buffer's aperture.
const APERTURE: u64 = 0xa000;
const VALID: u64 = 1;
const SYSTEM: u64 = 2;

#[derive(Arbitrary, Debug)]
struct Input {
    root: Shape,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Shape {
    /// Place of the top table.
    base: Table,
    depth: u8,
    block_size: u8,
    /// First page.
    start: u16,
    /// Pages, or all there are.
    pages: Option<u32>,
    aperture: bool,
}

/// A place for a table: a page in VRAM or in guest memory, or anywhere.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Table {
    Vram(u8),
    Ram(u8),
    Within(u16),
    Anywhere(u64),
}

/// An address: in pages that chains are built for, relative to another, or any.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Address {
    Near { page: u8, offset: u16 },
    Spread { indices: [u8; 4], offset: u16 },
    High(u16),
    Aperture(u32),
    Any(u64),
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// Entries along the walk of an address, down to a level.
    Chain {
        address: Address,
        tables: [Table; 3],
        leaf: Table,
        flags: u16,
        fragment: u8,
        bottom: u8,
    },
    /// Writes one entry.
    Entry {
        table: Table,
        index: u16,
        bits: u64,
    },
    Look {
        address: Address,
        access: u8,
    },
    Read {
        address: Address,
        length: u16,
    },
    Write {
        address: Address,
        length: u8,
        value: u8,
    },
}

impl Table {
    fn bits(self) -> u64 {
        match self {
            Table::Vram(page) => u64::from(page) % (VRAM as u64 / 4096) * 4096,
            Table::Ram(page) => {
                let (base, size) = RAM[usize::from(page) % RAM.len()];
                (base + u64::from(page) / 3 * 4096 % size as u64) | SYSTEM
            }
            Table::Within(at) => (u64::from(at) * 64) | (u64::from(at & 1) << 1),
            Table::Anywhere(bits) => bits,
        }
    }
}

impl Address {
    fn value(self, root: &Root) -> u64 {
        match self {
            Address::Near { page, offset } => {
                root.start.wrapping_add(u64::from(page) << 12 | u64::from(offset) & 0xfff)
            }
            Address::Spread { indices, offset } => {
                let index = |nth: usize| u64::from(indices[nth]) << (12 + 9 * nth);
                let spread = (0..4).map(index).fold(0, |sum, index| sum | index);
                root.start.wrapping_add(spread | u64::from(offset) & 0xfff)
            }
            Address::High(page) => (u64::MAX << 47) | u64::from(page) << 12,
            Address::Aperture(offset) => match root.kind {
                RootKind::Vmid0 { fb_start, .. } => fb_start.wrapping_add(u64::from(offset) % (2 * APERTURE)),
                RootKind::Process => offset.into(),
            },
            Address::Any(value) => value,
        }
    }
}

impl Shape {
    fn root(&self) -> Root {
        let start = u64::from(self.start) << 12;
        Root {
            base: self.base.bits(),
            // Nearly always a depth that there is, now and then one that there is not.
            depth: u32::from(if self.depth < 0xe0 { self.depth & 3 } else { self.depth & 7 }),
            block_size: 9 + u32::from(if self.block_size < 0xe0 {
                self.block_size & 3
            } else {
                self.block_size & 0x1f
            }),
            start,
            end: self.pages.map_or(u64::MAX, |pages| start + (u64::from(pages) << 12) + 0xfff),
            kind: if self.aperture {
                RootKind::Vmid0 {
                    fb_start: 0x80_0000_0000,
                    fb_end: 0x80_0000_0000 + APERTURE - 1,
                    fb_offset: 0x1000,
                }
            } else {
                RootKind::Process
            },
            format: PteFormat::Gfx11,
        }
    }
}

static MEMORY: LazyLock<Arc<Memory>> = LazyLock::new(|| {
    let ranges = RAM.map(|(base, size)| (GuestAddress(base), size));
    let ram = GuestMemoryMmap::from_ranges(&ranges).expect("memory for the guest");
    let vram = MmapRegion::new(VRAM).expect("memory for the device");
    Arc::new(Memory::new(vram, GuestMemoryAtomic::new(ram)))
});

/// The space, and the walker that it is compared with.
struct Pair {
    space: AddressSpace,
    walker: Walker,
}

fuzz_target!(|on: On<Input>| {
    let On { chip, input } = on;
    let root = Root { format: chip.model.generation.pte, ..input.root.root() };
    let space = AddressSpace::new(MEMORY.clone(), root, Arc::default());
    let possible = root.depth <= 3 && (9..=24).contains(&root.block_size);
    assert_eq!(space.is_ok(), possible, "{root:x?}");
    let Ok(space) = space else { return };
    let mut pair = Pair { space, walker: Walker::new(root, VRAM, &RAM) };
    for step in &input.steps {
        pair.step(step);
        // A step may have written tables, and old translations may be used until they are invalidated.
        pair.space.invalidate();
    }
    pair.compare_and_clear();
});

impl Pair {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Chain { address, tables, leaf, flags, fragment, bottom } => {
                let flags =
                    u64::from(flags & 0x7f) | u64::from(flags >> 14) << 51 | u64::from(flags >> 13 & 1) << 56;
                let flags = flags ^ (VALID | 0x70) | u64::from(*fragment) << 7;
                self.chain(
                    address.value(self.space.root()),
                    tables,
                    leaf.bits() & !0xfff | flags,
                    bottom & 3,
                );
            }
            Step::Entry { table, index, bits } => {
                let at = (table.bits() & 0xffff_ffff_ffc0).wrapping_add(u64::from(*index % 1024) * 8);
                self.put(
                    if table.bits() & SYSTEM == 0 { Physical::Vram(at) } else { Physical::System(at) },
                    *bits,
                );
            }
            Step::Look { address, access } => {
                let access =
                    [Access::Read, Access::Write, Access::Atomic, Access::Execute][usize::from(access & 3)];
                self.look(address.value(self.space.root()), access);
            }
            Step::Read { address, length } => {
                let va = address.value(self.space.root());
                let (mut given, mut expected) = (vec![0; usize::from(*length) % 9000], Vec::new());
                let result = self
                    .space
                    .read_bytes(va, &mut given)
                    .map_err(|fault| (fault.va, fault.kind, fault.level.map(u32::from)));
                let reference = self.walker.each(va, given.len(), Access::Read, |byte| expected.push(*byte));
                assert_eq!(result, reference, "reading {} bytes of {va:#x}", given.len());
                assert_eq!(given[..expected.len()], expected, "what is at {va:#x}");
            }
            Step::Write { address, length, value } => {
                let va = address.value(self.space.root());
                let data = vec![*value; usize::from(*length)];
                let result = self
                    .space
                    .write_bytes(va, &data)
                    .map_err(|fault| (fault.va, fault.kind, fault.level.map(u32::from)));
                let reference = self.walker.each(va, data.len(), Access::Write, |byte| *byte = *value);
                assert_eq!(result, reference, "writing {length} bytes of {va:#x}");
            }
        }
    }

    fn put(&mut self, at: Physical, bits: u64) {
        if self.walker.write(at, bits) {
            MEMORY.write(location(at), &bits).expect("the reference has memory there");
        }
    }

    /// Writes the entries a walk of `va` meets, from the top table on.
    fn chain(&mut self, va: u64, tables: &[Table; 3], leaf: u64, bottom: u8) {
        let depth = self.space.root().depth;
        let mut table = self.space.root().base;
        for level in (0..=depth).rev() {
            let Some(at) = self.walker.entry(table, level, va) else { return };
            if level == 0 || level == u32::from(bottom) {
                let huge = if level == 0 { 0 } else { self.walker.huge(level) };
                self.put(at, leaf | huge);
                return;
            }
            table = self.walker.directory(tables[level as usize - 1].bits() | VALID, level);
            self.put(at, table);
        }
    }

    fn look(&self, va: u64, access: Access) {
        let result = self.space.translate(va, access);
        let reference = self.walker.walk(va, access);
        match (result, reference) {
            (Ok(given), Ok(expected)) => {
                assert_eq!((given.va, given.len), (expected.va, expected.len), "block of {va:#x}");
                assert_eq!(given.location, location(expected.at), "where {va:#x} is");
                let permissions = [given.readable, given.writable, given.executable];
                assert_eq!(permissions, expected.permissions, "what {va:#x} allows");
                assert!(given.va <= va && va - given.va < given.len, "{va:#x} is in {given:x?}");
                self.mapping(va, access);
            }
            (Err(fault), Err((kind, level))) => {
                assert_eq!(
                    (fault.kind, fault.level.map(u32::from)),
                    (kind, Some(level)),
                    "{access:?} of {va:#x}"
                );
                assert_eq!((fault.va, fault.access), (va, access));
            }
            (given, expected) => panic!("{access:?} of {va:#x} is {given:x?}, and should be {expected:x?}"),
        }
    }

    /// Checks the mapping that the shader engine gets: host memory that the block has, and no more.
    fn mapping(&self, va: u64, access: Access) {
        let Ok(block) = self.walker.walk(va, access) else { return };
        let at = block.at.plus(va - block.va);
        let mapped = Mmu::translate(&self.space, va, access);
        if matches!(block.at, Physical::Nowhere) {
            let mapping = mapped.expect("a page that is not resident");
            assert_eq!((mapping.va, mapping.len), (block.va, block.len));
            assert_eq!((mapping.writable, mapping.alone), (access.is_write(), access.is_write()));
            assert!(!mapping.executable);
            return;
        }
        let slice = MEMORY.enter();
        let Some((host, left)) = MEMORY.host_pointer(&slice, location(at)) else {
            assert!(mapped.is_err(), "nothing is at {at:x?}");
            return;
        };
        let mapping = mapped.expect("there is memory");
        assert!(mapping.va >= block.va && mapping.len <= block.len, "{mapping:x?} of {block:x?}");
        assert!(mapping.va <= va && va - mapping.va < mapping.len, "{va:#x} is in {mapping:x?}");
        assert_eq!(mapping.host.wrapping_add((va - mapping.va) as usize), host, "host memory of {va:#x}");
        assert!(mapping.len - (va - mapping.va) <= left, "{mapping:x?} has {left:#x} bytes");
        assert_eq!(
            (mapping.writable, mapping.executable),
            (block.permissions[0] && block.permissions[1], block.permissions[2])
        );
    }

    /// All memory is as the reference has it, and is cleared afterwards.
    fn compare_and_clear(&self) {
        for (at, bytes) in self.walker.memory() {
            let mut given = vec![0; bytes.len()];
            MEMORY.read_bytes(location(at), &mut given).expect("the reference has memory there");
            assert!(given == bytes, "memory from {at:x?} on");
            given.fill(0);
            MEMORY.write_bytes(location(at), &given).expect("the reference has memory there");
        }
    }
}

fn location(at: Physical) -> memory::Physical {
    match at {
        Physical::Vram(offset) => memory::Physical::local(offset),
        Physical::System(address) => memory::Physical::system(address),
        Physical::Nowhere => memory::Physical::nowhere(),
    }
}
