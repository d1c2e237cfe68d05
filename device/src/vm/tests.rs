use super::*;
use crate::faults::{Faults, Hook, Rule};
use crate::memory::Physical;
use crate::memory::tests::changes_behind;
use crate::threads::Wake;
use crate::time::{Clock, TimeSource};
use crate::tools::Chosen;
use belfry_abi::gpuvm::{
    PDE_PTE, PTE_EXECUTABLE, PTE_PRT, PTE_READABLE, PTE_SYSTEM, PTE_TF, PTE_VALID, PTE_WRITEABLE,
    pte_fragment,
};
use vm_memory::{GuestAddress, GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

const RWX: u64 = PTE_VALID | PTE_READABLE | PTE_WRITEABLE | PTE_EXECUTABLE;
const VRAM: usize = 8 << 20;
/// Tables of the test space, one page each: PDB2, PDB1, PDB0, PTB.
const TABLES: [u64; 4] = [0x1000, 0x2000, 0x3000, 0x4000];
/// Index 1, 2, 3, 4 at the four levels, so that a test notices if two of them are mixed up.
const VA: u64 = 1 << 39 | 2 << 30 | 3 << 21 | 4 << 12;
const ENTRIES: [u64; 4] = [0x1000 + 8, 0x2000 + 16, 0x3000 + 24, 0x4000 + 32];

fn memory() -> Arc<Memory> {
    let map =
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0x10_0000), 0x10_0000)]).expect("anonymous memory");
    Arc::new(Memory::new(MmapRegion::new(VRAM).expect("anonymous memory"), GuestMemoryAtomic::new(map)))
}

fn root() -> Root {
    Root {
        base: TABLES[0],
        depth: 3,
        block_size: 9,
        start: 0,
        end: (1 << 48) - 1,
        kind: RootKind::Process,
        format: PteFormat::Gfx11,
    }
}

fn space(memory: &Arc<Memory>, root: Root) -> AddressSpace {
    AddressSpace::new(Arc::clone(memory), root, Arc::default()).expect("a valid root")
}

/// Four levels that map `VA` to `pte`.
fn tables(memory: &Memory, pte: u64) {
    for (entry, next) in ENTRIES.into_iter().zip(&TABLES[1..]) {
        memory.write(Physical::local(entry), &(next | PTE_VALID)).expect("in VRAM");
    }
    memory.write(Physical::local(ENTRIES[3]), &pte).expect("in VRAM");
}

fn kind(space: &AddressSpace, va: u64, access: Access) -> Result<(), (FaultKind, u32)> {
    let level = |fault: &Fault| u32::from(fault.level.expect("a table refuses it"));
    space.translate(va, access).map(|_| ()).map_err(|fault| (fault.kind, level(&fault)))
}

#[test]
fn bus_fault_names_a_level_only_where_a_table_is_to_blame() {
    let memory = memory();
    let space = space(&memory, root());
    let level = || {
        space.invalidate();
        let fault = space.read::<u32>(VA).expect_err("no memory there");
        assert_eq!(fault.kind, FaultKind::Bus);
        fault.level
    };
    // The page is outside VRAM, as a page of 4 KiB and as a huge one.
    tables(&memory, RWX | 0xffff_ffff_f000);
    assert_eq!(level(), None);
    memory.write(Physical::local(ENTRIES[2]), &(RWX | PDE_PTE | 0xffff_ffe0_0000)).expect("in VRAM");
    assert_eq!(level(), None);
    // The last table is outside VRAM, and then the one above it.
    memory.write(Physical::local(ENTRIES[2]), &(PTE_VALID | 0xffff_ffff_f000)).expect("in VRAM");
    assert_eq!(level(), Some(0));
    memory.write(Physical::local(ENTRIES[1]), &(PTE_VALID | 0xffff_ffff_f000)).expect("in VRAM");
    assert_eq!(level(), Some(1));
    let text = space.read::<u32>(VA).expect_err("no memory there").to_string();
    assert!(text.ends_with("Bus at level 1"), "{text}");
}

#[test]
fn four_levels_reach_vram_and_system_pages() {
    let memory = memory();
    let space = space(&memory, root());
    tables(&memory, RWX | 0x5000);
    space.write(VA + 0x123, &0xdead_beefu32).expect("mapped");
    assert_eq!(memory.read(Physical::local(0x5123)), Ok(0xdead_beefu32));
    tables(&memory, RWX | PTE_SYSTEM | 0x10_2000);
    space.invalidate();
    space.write(VA + 8, &77u64).expect("mapped");
    assert_eq!(memory.read(Physical::system(0x10_2008)), Ok(77u64));
    assert_eq!(space.walks.get(), 2);
}

#[test]
fn a_page_is_walked_to_once_until_the_space_is_invalidated() {
    let memory = memory();
    let (one, other) = (space(&memory, root()), space(&memory, root()));
    tables(&memory, PTE_VALID | PTE_READABLE | 0x5000);
    memory.write(Physical::local(0x5000), &7u64).expect("in VRAM");
    memory.write(Physical::local(0x6000), &8u64).expect("in VRAM");
    assert_eq!((one.load_u64(VA), one.load_u64(VA + 8), one.load_u64(VA)), (Ok(7), Ok(0), Ok(7)));
    assert_eq!(one.walks.get(), 1);
    // An entry that refuses an access is walked to again, and so is an absent page.
    assert_eq!(one.store_u64(VA, 1).expect_err("read only").kind, FaultKind::ReadOnly);
    assert!(one.load_u64(VA + 0x1000).is_err() && one.load_u64(VA + 0x1000).is_err());
    assert_eq!(one.walks.get(), 4);
    tables(&memory, RWX | 0x6000);
    assert_eq!(one.load_u64(VA), Ok(7), "as a TLB has it");
    assert_eq!(other.load_u64(VA), Ok(8), "another space knows nothing of it");
    one.invalidate();
    assert_eq!((one.load_u64(VA), one.walks.get()), (Ok(8), 5));
    // Another thread has walked to nothing yet.
    std::thread::scope(|scope| scope.spawn(|| one.load_u64(VA)).join().expect("no panic")).expect("mapped");
    assert_eq!(one.walks.get(), 6);
}

#[test]
fn what_is_known_of_a_page_lasts_as_long_as_the_memory_map() {
    let map =
        || GuestMemoryMmap::from_ranges(&[(GuestAddress(0x10_0000), 0x10_0000)]).expect("anonymous memory");
    let source = GuestMemoryAtomic::new(map());
    let memory = Arc::new(Memory::new(MmapRegion::new(VRAM).expect("anonymous memory"), source.clone()));
    let space = space(&memory, root());
    tables(&memory, RWX | PTE_SYSTEM | 0x10_2000);
    let code = || Mmu::translate(&space, VA + 8, Access::Execute).map(|mapping| mapping.host.addr());
    space.store_u64(VA + 8, 7).expect("mapped");
    let before = (code(), code());
    assert!(before.0.is_ok() && before.0 == before.1);
    source.lock().expect("not poisoned").replace(map());
    assert_eq!((space.load_u64(VA + 8), code()), (Ok(7), before.0), "the device has not been told");
    memory.changed();
    assert_eq!(space.load_u64(VA + 8), Ok(0), "other memory is there");
    assert!(code().is_ok() && code() != before.0);
    source.lock().expect("not poisoned").replace(GuestMemoryMmap::new());
    memory.changed();
    assert_eq!(space.load_u64(VA + 8).expect_err("no memory is there").kind, FaultKind::Bus);
    assert_eq!(code().expect_err("no memory is there").kind, FaultKind::Bus);
}

#[test]
fn code_is_where_it_was_until_the_space_is_invalidated() {
    let memory = memory();
    let space = space(&memory, root());
    tables(&memory, RWX | 0x5000);
    // The packet processor checks that there is a kernel, and then a worker fetches it.
    assert_eq!(space.enter().translate(VA + 0x100, Access::Execute), Ok(()));
    let walks = space.walks.get();
    let code = || Mmu::translate(&space, VA + 0x100, Access::Execute).expect("mapped");
    let before = code();
    assert_eq!((before.va, before.len, before.executable, before.writable), (VA, 0x1000, true, true));
    assert_eq!(space.walks.get(), walks, "it was walked to");
    tables(&memory, RWX | 0x6000);
    assert_eq!(code().host, before.host, "as a TLB has it");
    space.invalidate();
    assert_eq!(code().host.addr(), before.host.addr() + 0x1000);
    tables(&memory, PTE_VALID | PTE_READABLE | 0x6000);
    space.invalidate();
    let refused = Mmu::translate(&space, VA + 0x100, Access::Execute).expect_err("no code");
    assert_eq!(refused.kind, FaultKind::NoExecute);
    assert!(space.enter().translate(VA, Access::Execute).is_err());
}

#[test]
fn a_change_of_the_memory_map_waits_for_slices_of_address_spaces() {
    let memory = memory();
    let space = space(&memory, root());
    changes_behind(space.enter(), &memory, &space.quiescence);
    drop(space);
    memory.changed();
}

#[test]
fn every_level_faults_on_a_bad_entry() {
    for (level, entry) in ENTRIES.into_iter().enumerate() {
        let memory = memory();
        let space = space(&memory, root());
        tables(&memory, RWX | 0x5000);
        let table_level = 3 - level as u32;
        memory.write(Physical::local(entry), &0u64).expect("in VRAM");
        assert_eq!(
            kind(&space, VA, Access::Read),
            Err((FaultKind::NotPresent, table_level)),
            "invalid at {level}"
        );
        // Pointing outside VRAM: the next level down cannot be fetched, and a page cannot be reached.
        memory.write(Physical::local(entry), &(RWX | 0xffff_ffff_f000)).expect("in VRAM");
        if level < 3 {
            assert_eq!(
                kind(&space, VA, Access::Read),
                Err((FaultKind::Bus, table_level - 1)),
                "outside at {level}"
            );
        }
        let fault = space.read::<u32>(VA).expect_err("no memory there");
        assert_eq!(fault.kind, FaultKind::Bus);
        // A system address that the guest map does not have.
        memory.write(Physical::local(entry), &(RWX | PTE_SYSTEM | 0x5000)).expect("in VRAM");
        assert_eq!(space.read::<u32>(VA).expect_err("no memory there").kind, FaultKind::Bus);
    }
}

#[test]
fn directories_that_point_at_themselves_end() {
    let memory = memory();
    let space = space(&memory, root());
    for table in TABLES {
        for index in 0..512 {
            memory.write(Physical::local(table + index * 8), &(TABLES[0] | PTE_VALID)).expect("in VRAM");
        }
    }
    // The walk ends at the last level, where the entry lacks the permissions of a page.
    assert_eq!(kind(&space, VA, Access::Read), Err((FaultKind::NoRead, 0)));
}

#[test]
fn permissions_are_checked_per_access() {
    let accesses = [Access::Read, Access::Write, Access::Atomic, Access::Execute];
    let rows = [
        (
            PTE_READABLE,
            [None, Some(FaultKind::ReadOnly), Some(FaultKind::ReadOnly), Some(FaultKind::NoExecute)],
        ),
        (
            PTE_WRITEABLE,
            [Some(FaultKind::NoRead), None, Some(FaultKind::ReadOnly), Some(FaultKind::NoExecute)],
        ),
        (PTE_READABLE | PTE_WRITEABLE, [None, None, None, Some(FaultKind::NoExecute)]),
        (
            PTE_EXECUTABLE,
            [Some(FaultKind::NoRead), Some(FaultKind::ReadOnly), Some(FaultKind::ReadOnly), None],
        ),
    ];
    for (bits, expected) in rows {
        let memory = memory();
        let space = space(&memory, root());
        tables(&memory, PTE_VALID | bits | 0x5000);
        for (access, expected) in accesses.into_iter().zip(expected) {
            let got = space.translate(VA, access).err().map(|fault| fault.kind);
            assert_eq!(got, expected, "{access:?} with {bits:#x}");
        }
    }
}

#[test]
fn huge_pages_map_at_pdb0_and_pdb1() {
    let memory = memory();
    let space = space(&memory, root());
    tables(&memory, 0);
    memory.write(Physical::local(ENTRIES[2]), &(RWX | PDE_PTE | 0x40_0000)).expect("in VRAM");
    let translation = space.translate(VA + 0x12345, Access::Read).expect("mapped");
    assert_eq!((translation.va, translation.len), (VA & !0x1f_ffff, 2 << 20));
    assert_eq!(translation.location, Physical::local(0x40_0000));
    assert_eq!(space.locate(VA + 0x45, Access::Read), Ok(Physical::local(0x40_4045)));
    memory.write(Physical::local(ENTRIES[1]), &(RWX | PDE_PTE)).expect("in VRAM");
    assert_eq!(space.translate(VA, Access::Read).expect("mapped").len, 1 << 30);
    assert_eq!(space.locate(VA + 0x45, Access::Read), Ok(Physical::local(0x60_4045)));
}

#[test]
fn fragment_widens_the_block_only_where_alignment_allows() {
    let memory = memory();
    let space = space(&memory, root());
    // VA is page 4 of its PTB: a fragment of 4 pages is aligned when the physical page is, too.
    tables(&memory, RWX | pte_fragment(2) | 0x8000);
    let translation = space.translate(VA + 0x10, Access::Read).expect("mapped");
    assert_eq!(
        (translation.va, translation.len, translation.location),
        (VA, 0x4000, Physical::local(0x8000))
    );
    tables(&memory, RWX | pte_fragment(2) | 0x9000);
    let translation = space.translate(VA + 0x10, Access::Read).expect("mapped");
    assert_eq!(
        (translation.va, translation.len, translation.location),
        (VA, 0x1000, Physical::local(0x9000))
    );
}

#[test]
fn larger_blocks_shift_the_directories() {
    let memory = memory();
    let space = space(&memory, Root { depth: 1, block_size: 11, ..root() });
    // One PDB0 entry covers 2^11 pages, 8 MiB; page 1025 lies in the second page of the PTB itself.
    memory.write(Physical::local(TABLES[0] + 8), &(TABLES[1] | PTE_VALID)).expect("in VRAM");
    memory.write(Physical::local(TABLES[1] + 1025 * 8), &(RWX | 0x7000)).expect("in VRAM");
    assert_eq!(space.locate((1 << 23) + (1025 << 12) + 5, Access::Read), Ok(Physical::local(0x7005)));
}

#[test]
fn vmid0_decodes_aperture_and_flat_table() {
    let memory = memory();
    let kind = RootKind::Vmid0 { fb_start: 0x80_0000_0000, fb_end: 0x80_007f_ffff, fb_offset: 0x1000 };
    let start = 0x7fff_0000_0000;
    let space =
        space(&memory, Root { base: 0x2000, depth: 0, start, end: start + 0xff_ffff, kind, ..root() });
    memory.write(Physical::local(0x2000 + 600 * 8), &(RWX | PTE_SYSTEM | 0x10_3000)).expect("in VRAM");
    assert_eq!(space.locate(0x80_0000_0040, Access::Write), Ok(Physical::local(0x1040)));
    assert_eq!(space.locate(start + 600 * 4096 + 4, Access::Read), Ok(Physical::system(0x10_3004)));
    assert!(space.translate(start - 1, Access::Read).is_err());
    assert!(space.translate(start + 0x100_0000, Access::Read).is_err());
    // The aperture is longer than VRAM after its offset: the last page translates and then finds no memory.
    assert_eq!(space.read::<u32>(0x80_007f_f800).expect_err("past VRAM").kind, FaultKind::Bus);
}

#[test]
fn addresses_outside_the_space_are_not_present() {
    let memory = memory();
    let limited = space(&memory, Root { start: 0x1000, end: VA, ..root() });
    tables(&memory, RWX | 0x5000);
    for va in [0, 0xfff, VA + 1, 1 << 48, u64::MAX, 0x1234_0000_0000_0000 | VA] {
        assert!(
            matches!(limited.translate(va, Access::Read), Err(Fault { kind: FaultKind::NotPresent, .. })),
            "{va:#x}"
        );
    }
}

#[test]
fn unmodelled_entries_are_refused() {
    for bits in [PTE_PRT, PTE_TF] {
        let memory = memory();
        let space = space(&memory, root());
        tables(&memory, RWX | bits | 0x5000);
        assert_eq!(kind(&space, VA, Access::Read), Err((FaultKind::Bus, 0)));
    }
}

#[test]
fn pages_that_are_not_resident_read_as_zeros_and_lose_stores() {
    let memory = memory();
    let space = space(&memory, root());
    tables(&memory, PTE_PRT | 0x5000);
    memory.write(Physical::local(ENTRIES[3] + 8), &(RWX | 0x7000)).expect("in VRAM");
    memory.write(Physical::local(0x5000), &[7u8; 64]).expect("in VRAM");
    for _ in 0..2 {
        space.write_bytes(VA + 0xff8, &[1; 16]).expect("no fault");
        let mut back = [9; 16];
        space.read_bytes(VA + 0xff8, &mut back).expect("no fault");
        assert_eq!(back, [[0; 8], [1; 8]].concat()[..]);
        assert_eq!((space.load_u64(VA), space.fetch_add_u64(VA, 3)), (Ok(0), Ok(0)));
        assert_eq!(space.load_u32(VA), Ok(0));
        assert_eq!(space.update_u32(VA + 4, |old| old + 1), Ok(0));
        space.store_u32(VA, 5).expect("no fault");
        assert_eq!(space.compare_exchange_u64(VA, 0, 9), Ok(0));
    }
    assert_eq!(kind(&space, VA, Access::Execute), Err((FaultKind::NoExecute, 0)));
    assert_eq!(memory.read(Physical::local(0x5000)), Ok(7u8), "the address of the entry is nothing");
    // As waves see it: what is stored is not what is loaded, and nothing is kept of it.
    let mapping = |access| Mmu::translate(&space, VA + 0x123, access).expect("no fault");
    let [read, write, update] = [Access::Read, Access::Write, Access::Atomic].map(mapping);
    assert_eq!((read.va, read.len), (VA, PAGE));
    assert!(!read.writable && !read.executable && !read.alone);
    assert_eq!((write.va, write.writable, write.alone), (VA, true, true));
    assert!(update.alone && ![read.host, write.host].contains(&update.host) && read.host != write.host);
    // Memory that takes its place.
    tables(&memory, RWX | 0x5000);
    space.invalidate();
    assert_eq!(space.load_u32(VA), Ok(0x0707_0707));
}

#[test]
fn copies_cross_pages_and_stop_at_the_hole() {
    let memory = memory();
    let space = space(&memory, root());
    tables(&memory, RWX | 0x7000);
    memory.write(Physical::local(ENTRIES[3] + 8), &(RWX | 0x5000)).expect("in VRAM");
    let data: Vec<u8> = (0..=255).collect();
    space.write_bytes(VA + 0xf80, &data).expect("both pages mapped");
    let mut back = vec![0; 256];
    space.read_bytes(VA + 0xf80, &mut back).expect("both pages mapped");
    assert_eq!(back, data);
    assert_eq!(memory.read(Physical::local(0x5000)), Ok(0x80u8));
    let fault = space.write_bytes(VA + 0x1f80, &data).expect_err("the third page is a hole");
    assert_eq!((fault.va, fault.kind), (VA + 0x2000, FaultKind::NotPresent));
}

#[test]
fn atomics_require_alignment_and_write_permission() {
    let memory = memory();
    let space = space(&memory, root());
    tables(&memory, RWX | 0x5000);
    space.store_u64(VA, 5).expect("mapped");
    assert_eq!(space.fetch_add_u64(VA, u64::MAX), Ok(5));
    assert_eq!(space.compare_exchange_u64(VA, 4, 9), Ok(4));
    assert_eq!(space.compare_exchange_u64(VA, 4, 1), Ok(9));
    assert_eq!(space.load_u64(VA), Ok(9));
    assert_eq!(space.fetch_add_u64(VA + 4, 1).expect_err("misaligned").kind, FaultKind::Bus);
    tables(&memory, PTE_VALID | PTE_READABLE | 0x5000);
    space.invalidate();
    assert_eq!(space.fetch_add_u64(VA, 1).expect_err("read only").kind, FaultKind::ReadOnly);
}

#[test]
fn mmu_mapping_covers_the_page_within_host_memory() {
    let memory = memory();
    let space = space(&memory, root());
    tables(&memory, PTE_VALID | PTE_READABLE | PTE_SYSTEM | 0x10_0000);
    let mapping = Mmu::translate(&space, VA + 0x234, Access::Read).expect("mapped");
    assert_eq!((mapping.va, mapping.len, mapping.writable, mapping.executable), (VA, 0x1000, false, false));
    assert!(Mmu::translate(&space, VA, Access::Execute).is_err());
    let before = space.generation();
    space.invalidate();
    assert_ne!(space.generation(), before);
    let before = space.generation();
    memory.changed();
    assert_ne!(space.generation(), before);
}

#[test]
fn bad_roots_are_refused() {
    let memory = memory();
    let make = |root| AddressSpace::new(Arc::clone(&memory), root, Arc::default()).map(|_| ());
    assert_eq!(make(Root { depth: 4, ..root() }), Err(Error::Depth(4)));
    assert_eq!(make(Root { block_size: 8, ..root() }), Err(Error::BlockSize(8)));
    assert_eq!(make(Root { block_size: 64, ..root() }), Err(Error::BlockSize(64)));
}

/// A space as [`space`] makes it, with the faults of a plan.
fn faulty(memory: &Arc<Memory>, plan: &str) -> (AddressSpace, Faults) {
    let clock = Clock::new(&TimeSource::manual());
    let chosen = Chosen { faults: plan.parse().expect("a plan"), ..Chosen::default() };
    let tools = Tools::new(chosen, &clock, &Arc::<Wake>::default());
    (space(memory, root()).watched_by(&tools), tools.faults().clone())
}

#[test]
fn translation_that_outlives_an_invalidation_serves_loads_of_vram_until_the_next() {
    let memory = memory();
    let (space, faults) = faulty(&memory, "tlb-stale@2");
    for (at, value) in [(0x10_0000, 1u32), (0x20_0000, 2)] {
        memory.write(Physical::local(at), &value).expect("in VRAM");
    }
    let read = || space.read::<u32>(VA).ok();
    tables(&memory, 0x10_0000 | RWX);
    assert_eq!(read(), Some(1));
    tables(&memory, 0x20_0000 | RWX);
    space.invalidate();
    assert_eq!(read(), Some(2), "the first one is heard");
    tables(&memory, 0);
    space.invalidate();
    assert_eq!(read(), Some(2), "the second one is not");
    assert!(Mmu::translate(&space, VA + 8, Access::Execute).is_ok());
    let mapping = Mmu::translate(&space, VA, Access::Read).expect("it is kept");
    assert!(!mapping.writable);
    for access in [Access::Write, Access::Atomic] {
        assert!(space.translate(VA, access).is_err(), "{access:?} could reach page tables");
    }
    assert!(space.read::<u32>(VA + 0x1000).is_err(), "it is of one page");
    space.invalidate();
    assert_eq!(read(), None);
    assert_eq!(faults.report().struck[&Rule::TlbStale], 1);
}

#[test]
fn translation_to_system_memory_does_not_outlive_an_invalidation() {
    let memory = memory();
    let (space, faults) = faulty(&memory, "tlb-stale@1");
    tables(&memory, 0x10_0000 | RWX | PTE_SYSTEM);
    assert!(space.read::<u32>(VA).is_ok());
    tables(&memory, 0);
    space.invalidate();
    assert!(space.read::<u32>(VA).is_err());
    assert_eq!(faults.report().struck[&Rule::TlbStale], 1);
}

#[test]
fn plan_of_poison_has_a_moment_for_each_page() {
    let memory = memory();
    // Four pages, as one fragment.
    tables(&memory, 0x10_0000 | RWX | pte_fragment(2));
    let length = |plan: &str, va| {
        let mapping = Mmu::translate(&faulty(&memory, plan).0, va, Access::Read).expect("mapped");
        (mapping.va, mapping.len)
    };
    assert_eq!(length("tlb-stale@9", VA + 8), (VA, 0x4000));
    assert_eq!(length("chaos:1:0.000001", VA + 8), (VA, 0x4000));
    assert_eq!(length("vram-ecc@9", VA + 8), (VA, 0x1000));
    assert_eq!(length("vram-ecc-correctable@9", VA + 8), (VA, 0x1000));
}

#[test]
fn poison_stays_in_a_page_of_vram_until_tables_change() {
    let memory = memory();
    let (space, faults) = faulty(&memory, "vram-ecc@2");
    let access = |access| Mmu::translate(&space, VA, access).map(|_| ()).map_err(|fault| fault.kind);
    let poison = Err(FaultKind::Poison);
    tables(&memory, 0x10_0000 | RWX);
    assert_eq!((access(Access::Read), access(Access::Write)), (Ok(()), Ok(())));
    assert_eq!((access(Access::Execute), access(Access::Atomic)), (poison, poison));
    assert_eq!((access(Access::Write), space.strike_read(VA).is_err()), (Ok(()), true));
    space.invalidate();
    assert_eq!((access(Access::Read), space.strike_read(VA)), (Ok(()), Ok(())));
    tables(&memory, 0x10_0000 | RWX | PTE_SYSTEM);
    assert_eq!((access(Access::Read), space.strike_read(VA)), (Ok(()), Ok(())));
    assert_eq!(faults.report().met[&Hook::VramRead], 4);
    let (space, _) = faulty(&memory, "vram-ecc@1");
    tables(&memory, 0x10_0000 | RWX);
    assert_eq!(space.strike_read(VA).map_err(|fault| (fault.va, fault.kind)), Err((VA, FaultKind::Poison)));
}
