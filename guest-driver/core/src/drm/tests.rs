//! Files of the render node on the bench: their page tables, and what they may ask for.

extern crate std;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use belfry_abi::gpuvm::{
    PDE_PTE, PTE_EXECUTABLE, PTE_PRT, PTE_READABLE, PTE_SYSTEM, PTE_VALID, PTE_WRITEABLE,
};
use belfry_abi::kfd::drm::{
    AMDGPU_GEM_DOMAIN_GDS, AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_VA_OP_CLEAR,
    AMDGPU_VA_OP_MAP, AMDGPU_VA_OP_REPLACE, AMDGPU_VA_OP_UNMAP, AMDGPU_VM_MTYPE_UC, DRM_COMMANDS,
    GemCreateFlags, GemCreateIn, GemCreateOut, GemMetadataArgs, GemUserptrArgs, GemUserptrFlags, GemVaArgs,
    GemVaFlags,
};
use belfry_abi::kfd::memory::AllocFlags;

use super::*;
use crate::acquire;
use crate::object::Object;
use crate::os::{Awaited, Backing, Change, ProcessKey, SyncExport, SyncPoint, SyncTarget, Work};
use crate::testing::{Bench, FakeOs, OWN_VRAM, lock, walk};

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const VA: u64 = 0x4000_0000;
const RW: u32 = GemVaFlags::READABLE.union(GemVaFlags::WRITEABLE).bits();

/// A file of the render node with its handles.
struct File<'a> {
    bench: &'a Bench,
    client: Arc<Client<FakeOs>>,
    handles: RefCell<BTreeMap<u32, Arc<dyn Backing>>>,
}

impl RenderFile for File<'_> {
    fn handle_create(&self, backing: Arc<dyn Backing>) -> Result<u32> {
        let mut handles = self.handles.borrow_mut();
        let handle = (1..).find(|handle| !handles.contains_key(handle)).unwrap();
        self.client.handle_opened(&backing);
        handles.insert(handle, backing);
        Ok(handle)
    }

    fn lookup(&self, handle: u32) -> Result<Arc<dyn Backing>> {
        self.handles.borrow().get(&handle).cloned().ok_or(Errno::ENOENT)
    }

    fn mmap_offset(&self, handle: u32) -> Result<u64> {
        self.lookup(handle).map(|_| u64::from(handle) << 32)
    }

    fn caller(&self) -> ProcessKey {
        ProcessKey(self.client.id())
    }

    fn fence_new(&self) -> Result<Arc<Fence>> {
        Ok(Arc::new(Fence::new(None)))
    }

    fn sync_await(&self, _: SyncPoint, _: Arc<dyn Work>) -> Result<Awaited> {
        Err(Errno::ENOENT)
    }

    fn sync_target(&self, _: SyncPoint) -> Result<Box<dyn SyncTarget>> {
        Err(Errno::EINVAL)
    }

    fn sync_export(&self, _: Option<&Arc<Fence>>, _: SyncExport) -> Result<u32> {
        Err(Errno::EMFILE)
    }
}

impl<'a> File<'a> {
    fn open(bench: &'a Bench, id: u64) -> Self {
        Self { bench, client: bench.gpu.drm_open(id, 0).unwrap(), handles: RefCell::default() }
    }

    /// Runs a command; returns what it leaves in its arguments.
    fn answer(&self, command: u32, args: &(impl IntoBytes + Immutable)) -> Result<Vec<u8>> {
        let mut data = vec![0; ioc_size(command)];
        args.write_to_prefix(&mut data).unwrap();
        dispatch(&self.client, self, command, &mut data).map(|()| data)
    }

    fn call(&self, command: u32, args: &(impl IntoBytes + Immutable)) -> Result<()> {
        self.answer(command, args).map(drop)
    }

    fn create(&self, size: u64, domains: u64) -> u32 {
        let args = GemCreateIn { bo_size: size, domains, ..Default::default() };
        read::<GemCreateOut>(&self.answer(nr::GEM_CREATE, &args).unwrap()).unwrap().handle
    }

    fn va(&self, args: GemVaArgs) -> Result<()> {
        self.call(nr::GEM_VA, &args)
    }

    fn map(&self, handle: u32, va: u64, offset: u64, size: u64) -> Result<()> {
        self.va(GemVaArgs { offset_in_bo: offset, ..map(handle, va, size) })
    }

    fn close(&self, handle: u32) {
        let backing = self.handles.borrow_mut().remove(&handle).unwrap();
        self.client.handle_closed(&backing);
    }

    /// Place that an address leads to, and the bits of its entry.
    fn walk(&self, va: u64) -> Option<(u64, u64)> {
        walk(&self.bench.device.hw, self.client.space().root(), va)
    }

    /// Place of a byte of a buffer object.
    fn place(&self, handle: u32, offset: u64) -> u64 {
        match self.lookup(handle).unwrap().page(offset / PAGE).unwrap() {
            crate::os::BoPage::Vram(at) => at,
            crate::os::BoPage::System { bus, .. } => bus,
            crate::os::BoPage::User(bus) => bus.unwrap(),
        }
    }
}

fn map(handle: u32, va: u64, size: u64) -> GemVaArgs {
    GemVaArgs {
        handle,
        operation: AMDGPU_VA_OP_MAP,
        flags: RW,
        va_address: va,
        map_size: size,
        ..Default::default()
    }
}

#[test]
fn mapped_objects_are_where_they_were_put_with_their_rights() {
    let bench = Bench::new();
    let file = File::open(&bench, 7);
    for domain in [AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT] {
        let handle = file.create(4 * PAGE, domain);
        file.map(handle, VA, PAGE, 2 * PAGE).unwrap();
        let (at, entry) = file.walk(VA + PAGE + 5).unwrap();
        assert_eq!(at, file.place(handle, 2 * PAGE) + 5);
        assert_eq!(entry & (PTE_READABLE | PTE_WRITEABLE | PTE_EXECUTABLE), PTE_READABLE | PTE_WRITEABLE);
        assert_eq!((file.walk(VA - 1), file.walk(VA + 2 * PAGE)), (None, None));
        file.va(GemVaArgs { operation: AMDGPU_VA_OP_UNMAP, ..map(handle, VA, 0) }).unwrap();
        assert_eq!(file.walk(VA), None);
        file.close(handle);
    }
    let handle = file.create(PAGE, AMDGPU_GEM_DOMAIN_VRAM);
    let flags = GemVaFlags::EXECUTABLE.bits() | AMDGPU_VM_MTYPE_UC;
    let upper = 0xffff_8000_0000_0000;
    file.va(GemVaArgs { flags, ..map(handle, upper, PAGE) }).unwrap();
    let (_, entry) = file.walk(1 << 47).unwrap();
    assert_eq!(entry & (PTE_READABLE | PTE_WRITEABLE | PTE_EXECUTABLE), PTE_EXECUTABLE);
    assert_eq!(entry >> 48 & 7, 3, "uncached");
}

#[test]
fn ranges_are_cut_where_they_are_cleared_and_huge_pages_with_them() {
    let bench = Bench::new();
    let file = File::open(&bench, 7);
    let handle = file.create(4 * MIB, AMDGPU_GEM_DOMAIN_VRAM);
    let first = file.place(handle, 0).next_multiple_of(2 * MIB);
    let offset = first - file.place(handle, 0);
    let size = 4 * MIB - offset;
    file.map(handle, VA, offset, size).unwrap();
    assert_ne!(file.walk(VA).unwrap().1 & PDE_PTE, 0, "a huge page");
    // A hole in the middle of the huge page, and its neighbours stay.
    let hole = VA + MIB;
    file.va(GemVaArgs { operation: AMDGPU_VA_OP_CLEAR, ..map(0, hole, 3 * PAGE) }).unwrap();
    for (va, mapped) in [(VA, true), (hole - 1, true), (hole, false), (hole + 3 * PAGE - 1, false)] {
        assert_eq!(file.walk(va).map(|(at, _)| at), mapped.then_some(first + (va - VA)), "{va:#x}");
    }
    assert_eq!(file.walk(hole + 3 * PAGE).unwrap().0, first + MIB + 3 * PAGE);
    // Both parts are mappings of their own.
    file.va(GemVaArgs { operation: AMDGPU_VA_OP_UNMAP, ..map(handle, VA, 0) }).unwrap();
    assert_eq!((file.walk(VA), file.walk(hole - 1)), (None, None));
    let rest = GemVaArgs { operation: AMDGPU_VA_OP_UNMAP, ..map(handle, hole + 3 * PAGE, 0) };
    file.va(rest).unwrap();
    assert_eq!(file.va(rest), Err(Errno::ENOENT));
    assert_eq!(file.walk(VA + size - 1), None);
}

#[test]
fn a_replaced_range_is_what_it_was_replaced_with() {
    let bench = Bench::new();
    let file = File::open(&bench, 7);
    let (old, new) =
        (file.create(8 * PAGE, AMDGPU_GEM_DOMAIN_GTT), file.create(PAGE, AMDGPU_GEM_DOMAIN_VRAM));
    file.map(old, VA, 0, 8 * PAGE).unwrap();
    assert_eq!(file.map(new, VA + PAGE, 0, PAGE), Err(Errno::EINVAL), "it is taken");
    file.va(GemVaArgs { operation: AMDGPU_VA_OP_REPLACE, ..map(new, VA + PAGE, PAGE) }).unwrap();
    assert_eq!(file.walk(VA + PAGE).unwrap().0, file.place(new, 0));
    assert_eq!(file.walk(VA).unwrap().0, file.place(old, 0));
    assert_eq!(file.walk(VA + 2 * PAGE).unwrap().0, file.place(old, 2 * PAGE));
    for va in [VA, VA + 2 * PAGE, VA + 7 * PAGE] {
        assert_eq!(file.walk(va).unwrap().1 >> 7 & 0x1f, 0, "no page speaks for one that is gone");
    }
    // The last handle takes its mappings with it, wherever they are.
    file.close(old);
    assert_eq!((file.walk(VA), file.walk(VA + 2 * PAGE)), (None, None));
    assert_eq!(file.walk(VA + PAGE).unwrap().0, file.place(new, 0));
}

#[test]
fn pages_that_are_not_resident_are_replaced_by_memory_and_again() {
    let bench = Bench::new();
    let file = File::open(&bench, 7);
    let handle = file.create(4 * PAGE, AMDGPU_GEM_DOMAIN_VRAM);
    let nothing = GemVaArgs { flags: GemVaFlags::PRT.bits(), ..map(0, VA, 4 * MIB) };
    let before = bench.device.vram.free_bytes();
    file.va(nothing).unwrap();
    let kind = |va: u64| file.walk(va).map(|(_, entry)| entry & (PTE_PRT | PTE_VALID | PDE_PTE));
    assert_eq!((kind(VA), kind(VA + 4 * MIB - 1)), (Some(PTE_PRT | PDE_PTE), Some(PTE_PRT | PDE_PTE)));
    assert_eq!((kind(VA - 1), kind(VA + 4 * MIB)), (None, None));
    assert_eq!(file.map(handle, VA + MIB, 0, 4 * PAGE), Err(Errno::EINVAL), "it is taken");
    // Memory in the middle of a huge page; then two of its pages are not resident again.
    let replace = AMDGPU_VA_OP_REPLACE;
    file.va(GemVaArgs { operation: replace, ..map(handle, VA + MIB, 4 * PAGE) }).unwrap();
    file.va(GemVaArgs { operation: replace, va_address: VA + MIB + PAGE, map_size: 2 * PAGE, ..nothing })
        .unwrap();
    for (page, resident) in [(-1i64, false), (0, true), (1, false), (2, false), (3, true), (4, false)] {
        let va = (VA + MIB).wrapping_add_signed(page * 4096);
        assert_eq!(kind(va), Some(if resident { PTE_VALID } else { PTE_PRT }), "page {page}");
        if resident {
            assert_eq!(file.walk(va).unwrap().0, file.place(handle, page as u64 * PAGE));
        }
    }
    assert_eq!(kind(VA + 2 * MIB), Some(PTE_PRT | PDE_PTE), "the other huge page");
    // UNMAP names no object either, and takes what begins there.
    let unmap = GemVaArgs { operation: AMDGPU_VA_OP_UNMAP, ..nothing };
    assert_eq!(file.va(GemVaArgs { va_address: VA + MIB, ..unmap }), Err(Errno::ENOENT), "memory is there");
    file.va(unmap).unwrap();
    assert_eq!(
        (kind(VA), kind(VA + MIB), kind(VA + 2 * MIB)),
        (None, Some(PTE_VALID), Some(PTE_PRT | PDE_PTE))
    );
    file.close(handle);
    assert_eq!(kind(VA + MIB), None);
    file.va(GemVaArgs { operation: AMDGPU_VA_OP_CLEAR, flags: 0, ..nothing }).unwrap();
    assert_eq!((kind(VA + MIB + PAGE), kind(VA + 2 * MIB)), (None, None));
    assert_eq!(bench.device.vram.free_bytes(), before + 4 * PAGE, "the object is gone as well");
}

#[test]
fn files_give_back_all_they_had() {
    let bench = Bench::new();
    let before = (bench.device.vram.free_bytes(), bench.device.gtt_used.load(Ordering::Relaxed));
    let file = File::open(&bench, 7);
    for (at, domain) in [AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT].into_iter().enumerate() {
        let handle = file.create(3 * MIB, domain);
        file.map(handle, VA + at as u64 * 8 * MIB, 0, 3 * MIB).unwrap();
    }
    let File { client, handles, .. } = file;
    drop(handles);
    bench.kfd.drm_close(&client);
    drop(client);
    let after = (bench.device.vram.free_bytes(), bench.device.gtt_used.load(Ordering::Relaxed));
    assert_eq!(before, after);
}

#[test]
fn process_and_file_share_one_address_space() {
    let bench = Bench::new();
    let process = bench.process(9);
    let client = bench.processes.client(9).unwrap();
    let file = File { bench: &bench, client, handles: RefCell::default() };
    let handle = file.create(2 * PAGE, AMDGPU_GEM_DOMAIN_VRAM);
    bench.memory(&process, VA, 4 * PAGE, AllocFlags::VRAM);
    assert_eq!(file.map(handle, VA + PAGE, 0, PAGE), Err(Errno::EINVAL), "memory of KFD is there");
    let clear = GemVaArgs { operation: AMDGPU_VA_OP_CLEAR, ..map(0, VA, PAGE) };
    assert_eq!(file.va(clear), Err(Errno::EINVAL));
    file.map(handle, VA + 4 * PAGE, 0, 2 * PAGE).unwrap();
    let root = process.state.lock().devices.space(0).unwrap().root();
    let place = walk(&bench.device.hw, root, VA + 4 * PAGE).unwrap().0;
    assert_eq!(place, file.place(handle, 0));
    // Another process does not get it, before this one is gone.
    let other = bench.kfd.open(ProcessKey(10)).unwrap();
    assert_eq!(acquire::acquire_vm(&bench.processes, &other, other.nodes.first(), 9), Err(Errno::EINVAL));
    bench.kfd.exit(process.key());
    assert_eq!(file.walk(VA), None, "what the process had is gone");
    assert_eq!(file.walk(VA + 4 * PAGE).unwrap().0, place, "what the file has is not");
    acquire::acquire_vm(&bench.processes, &other, other.nodes.first(), 9).unwrap();
}

#[test]
fn deaf_device_keeps_what_it_may_use() {
    let bench = Bench::new();
    let process = bench.process(9);
    let client = bench.processes.client(9).unwrap();
    let file = File { bench: &bench, client, handles: RefCell::default() };
    let handle = file.create(PAGE, AMDGPU_GEM_DOMAIN_GTT);
    file.map(handle, VA, 0, PAGE).unwrap();
    // The device runs the process in a VMID, and does not answer.
    let lut = crate::testing::registers().dword::<belfry_abi::regs::osssys::IH_VMID_0_LUT>() + 8;
    bench.os().reg_write(lut * 4, process.pasid.into());
    *lock(&bench.os().deaf) = true;
    let backing = file.lookup(handle).unwrap();
    file.close(handle);
    assert_eq!(Arc::strong_count(&backing), 2, "the address space has it");
    *lock(&bench.os().deaf) = false;
}

#[test]
fn requests_are_refused_as_amdgpu_refuses_them() {
    let bench = Bench::new();
    let file = File::open(&bench, 7);
    let handle = file.create(2 * PAGE, AMDGPU_GEM_DOMAIN_VRAM);
    let ok = map(handle, VA, PAGE);
    let inval = Errno::EINVAL;
    for (what, args, errno) in [
        ("the lowest addresses", GemVaArgs { va_address: 0xf000, ..ok }, inval),
        ("the trap handler", GemVaArgs { va_address: 0xe000, ..ok }, inval),
        ("the hole", GemVaArgs { va_address: 1 << 47, ..ok }, inval),
        ("the driver's own addresses", GemVaArgs { va_address: u64::MAX << 31, ..ok }, inval),
        (
            "up to them and beyond",
            GemVaArgs { va_address: (u64::MAX << 31) - PAGE, map_size: 2 * PAGE, ..ok },
            inval,
        ),
        ("a length that wraps", GemVaArgs { map_size: u64::MAX - PAGE + 1, ..ok }, inval),
        ("an odd address", GemVaArgs { va_address: VA + 1, ..ok }, inval),
        ("an odd length", GemVaArgs { map_size: 5, ..ok }, inval),
        ("no length", GemVaArgs { map_size: 0, ..ok }, inval),
        ("an odd offset", GemVaArgs { offset_in_bo: 5, ..ok }, inval),
        ("past the end", GemVaArgs { offset_in_bo: 2 * PAGE, ..ok }, inval),
        ("an offset that wraps", GemVaArgs { offset_in_bo: u64::MAX - PAGE + 1, ..ok }, inval),
        ("an unknown flag", GemVaArgs { flags: 1 << 20, ..ok }, inval),
        ("pages of nothing", GemVaArgs { flags: RW | GemVaFlags::PRT.bits(), ..ok }, inval),
        ("an unknown operation", GemVaArgs { operation: 5, ..ok }, inval),
        ("no operation", GemVaArgs { operation: 0, ..ok }, inval),
        ("a bad handle", GemVaArgs { handle: 99, ..ok }, Errno::ENOENT),
        (
            "a bad handle to unmap",
            GemVaArgs { handle: 99, operation: AMDGPU_VA_OP_UNMAP, ..ok },
            Errno::ENOENT,
        ),
        ("what is not mapped", GemVaArgs { operation: AMDGPU_VA_OP_UNMAP, ..ok }, Errno::ENOENT),
        ("to clear nothing", GemVaArgs { operation: AMDGPU_VA_OP_CLEAR, map_size: 0, ..ok }, inval),
    ] {
        assert_eq!(file.va(args), Err(errno), "{what}");
    }
    assert_eq!(file.va(ok), Ok(()), "the cases differ from this by one thing");

    let ok = GemCreateIn { bo_size: PAGE, domains: AMDGPU_GEM_DOMAIN_GTT, ..Default::default() };
    for (what, args, errno) in [
        ("no size", GemCreateIn { bo_size: 0, ..ok }, inval),
        ("a size that wraps", GemCreateIn { bo_size: u64::MAX, ..ok }, inval),
        ("more than there is", GemCreateIn { bo_size: 1 << 40, ..ok }, Errno::ENOMEM),
        ("a domain that is not built", GemCreateIn { domains: AMDGPU_GEM_DOMAIN_GDS, ..ok }, inval),
        ("an unknown domain", GemCreateIn { domains: 1 << 30, ..ok }, inval),
        ("encryption", GemCreateIn { domain_flags: GemCreateFlags::ENCRYPTED.bits(), ..ok }, inval),
        ("an unknown flag", GemCreateIn { domain_flags: 1 << 40, ..ok }, inval),
    ] {
        assert_eq!(file.call(nr::GEM_CREATE, &args), Err(errno), "{what}");
    }
    assert_eq!(file.call(nr::GEM_CREATE, &ok), Ok(()));
    let metadata = GemMetadataArgs { handle, op: 1, ..Default::default() };
    for (what, args, errno) in [
        ("a bad handle", GemMetadataArgs { handle: 99, ..metadata }, Errno::ENOENT),
        ("too many bytes", GemMetadataArgs { data_size_bytes: 257, ..metadata }, inval),
        ("an unknown operation", GemMetadataArgs { op: 3, ..metadata }, inval),
    ] {
        assert_eq!(file.call(nr::GEM_METADATA, &args), Err(errno), "{what}");
    }
    assert_eq!(file.call(nr::GEM_METADATA, &metadata), Ok(()));
    // Structures that are too short are refused before anything is looked at.
    for &(name, command) in DRM_COMMANDS {
        let mut data = vec![0; ioc_size(command) - 1];
        assert_eq!(dispatch(&file.client, &file, command, &mut data), Err(inval), "{name}");
    }
    assert_eq!(dispatch(&file.client, &file, 0xc010_6470, &mut [0; 64]), Err(inval), "past the table");
}

#[test]
fn file_of_a_partition_that_there_is_not_cannot_be_opened() {
    let bench = Bench::new();
    assert_eq!(bench.gpu.drm_open(7, 1).err(), Some(Errno::ENOENT));
    bench.gpu.drm_open(7, 0).unwrap();
    assert_eq!(bench.gpu.drm_open(7, 0).err(), Some(Errno::EEXIST));
}

#[test]
fn work_does_not_begin_while_memory_of_its_program_is_being_pinned_anew() {
    let bench = &Bench::new();
    let file = File::open(bench, 7);
    let flags = GemUserptrFlags::REGISTER | GemUserptrFlags::VALIDATE;
    let args = GemUserptrArgs { addr: 0x10_0000, size: 2 * PAGE, flags: flags.bits(), handle: 0 };
    let made = read::<GemUserptrArgs>(&file.answer(nr::GEM_USERPTR, &args).unwrap()).unwrap();
    file.map(made.handle, VA, 0, 2 * PAGE).unwrap();
    let before = file.walk(VA).unwrap();
    let backing = file.lookup(made.handle).unwrap();
    let range = Object::<FakeOs>::of(&*backing).unwrap().user().unwrap();
    let notice = lock(&bench.os().notices)[0].clone();
    let pages = &bench.os().users.pages_arrive;
    let is_ready = &AtomicBool::new(false);
    pages.close();
    thread::scope(|scope| {
        scope.spawn(|| notice.invalidated(&Change { start: 0, end: 1 << 47, unmapped: false, held: false }));
        pages.wait_for_waiter();
        // As a submission does that names the object. The pin that is there says that it is current. The thread has looked when it
        // sleeps; time goes by quickly here, so that it may give up waiting.
        let sleeps = &bench.os().sleeps;
        let before = sleeps.load(Ordering::Acquire);
        let looking = scope.spawn(|| is_ready.store(range.populate().is_ok(), Ordering::Release));
        while sleeps.load(Ordering::Acquire) == before && !looking.is_finished() {
            thread::yield_now();
        }
        let early = is_ready.load(Ordering::Acquire);
        pages.open();
        assert!(!early, "page tables lead to pages that are not the program's any more");
    });
    assert_eq!(range.populate(), Ok(()));
    assert_ne!(file.walk(VA).unwrap(), before, "page tables have the new pages");
}

#[test]
fn memory_of_another_device_is_mapped_where_that_has_it_and_goes_with_the_device() {
    let bench = Bench::new();
    let other = bench.another();
    let (file, theirs) = (File::open(&bench, 7), File::open(&other, 8));
    let (own, handle) =
        (file.create(PAGE, AMDGPU_GEM_DOMAIN_VRAM), theirs.create(4 * PAGE, AMDGPU_GEM_DOMAIN_VRAM));
    let backing = theirs.lookup(handle).unwrap();
    assert!(bench.gpu.imports(&*backing) && other.gpu.imports(&*backing));
    let imported = file.handle_create(backing.clone()).unwrap();
    file.map(own, VA + MIB, 0, PAGE).unwrap();
    file.map(imported, VA, PAGE, 2 * PAGE).unwrap();
    let (at, entry) = file.walk(VA + PAGE).unwrap();
    assert_eq!(at, OWN_VRAM + theirs.place(handle, 2 * PAGE));
    assert_ne!(entry & PTE_SYSTEM, 0);
    let (at, entry) = file.walk(VA + MIB).unwrap();
    assert_eq!((at, entry & PTE_SYSTEM), (file.place(own, 0), 0));
    // The file that has it mapped ends with its device, and one without it goes on.
    let second = File::open(&bench, 9);
    other.gpu.remove();
    assert_eq!((file.walk(VA), file.walk(VA + MIB).map(|(at, _)| at)), (None, Some(file.place(own, 0))));
    assert_eq!((file.client.lock().is_closed(), second.client.lock().is_closed()), (true, false));
    assert_eq!(file.map(imported, VA, 0, PAGE), Err(Errno::ENODEV));
    assert!(!bench.gpu.imports(&*backing), "no device of the machine has it");
}

#[test]
fn memory_that_is_not_reached_or_is_a_program_s_is_not_imported() {
    let bench = Bench::new();
    let other = bench.another();
    let theirs = File::open(&other, 8);
    let [vram, system] = [AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT]
        .map(|domain| theirs.lookup(theirs.create(PAGE, domain)).unwrap());
    assert!(bench.gpu.imports(&*vram) && bench.gpu.imports(&*system));
    bench.os().alone.store(true, Ordering::Relaxed);
    assert_eq!((bench.gpu.imports(&*vram), bench.gpu.imports(&*system)), (false, true));
    let args = GemUserptrArgs {
        addr: 0x7000_0000,
        size: PAGE,
        flags: GemUserptrFlags::REGISTER.bits() | GemUserptrFlags::ANONONLY.bits(),
        ..Default::default()
    };
    let out: GemUserptrArgs = read(&theirs.answer(nr::GEM_USERPTR, &args).unwrap()).unwrap();
    assert!(!bench.gpu.imports(&*theirs.lookup(out.handle).unwrap()));
}
