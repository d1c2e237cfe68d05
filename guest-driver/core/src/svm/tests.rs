//! Attributes by ioctl, ranges divided and cut, page tables, and queues that rest while memory changes.

use alloc::format;
use alloc::string::String;
use alloc::vec;

use belfry_abi::gpuvm::{PTE_EXECUTABLE, PTE_WRITEABLE};
use belfry_abi::kfd::memory::{AllocFlags, AllocMemoryOfGpuArgs};
use belfry_abi::kfd::svm::*;

use super::*;
use crate::lifetime;
use crate::memory as objects;
use crate::queue_manager;
use crate::ranges::{Access, Growth, Ranges};
use crate::testing::{Bench, FakeOs, lock, walk};

const PAGE: u64 = PAGE_SIZE;
const VA: u64 = 0x7f00_0000_0000;
const MIB: u64 = 1 << 20;
const UNDEFINED: u32 = KFD_IOCTL_SVM_LOCATION_UNDEFINED;

const fn attribute(kind: u32, value: u32) -> SvmAttribute {
    SvmAttribute { kind, value }
}

fn set(process: &Arc<Process<FakeOs>>, start: u64, size: u64, list: &[SvmAttribute]) -> Result<()> {
    let args = SvmArgs { start_addr: start, size, op: KFD_IOCTL_SVM_OP_SET_ATTR, nattr: list.len() as u32 };
    change(process, &args, &mut list.to_vec())
}

fn get(
    process: &Arc<Process<FakeOs>>,
    start: u64,
    size: u64,
    list: &[SvmAttribute],
) -> Result<Vec<SvmAttribute>> {
    let args = SvmArgs { start_addr: start, size, op: KFD_IOCTL_SVM_OP_GET_ATTR, nattr: list.len() as u32 };
    let mut list = list.to_vec();
    change(process, &args, &mut list)?;
    Ok(list)
}

fn access(bench: &Bench) -> SvmAttribute {
    attribute(KFD_IOCTL_SVM_ATTR_ACCESS, u32::from(bench.device.gpu_id()))
}

/// Physical address and entry of a page of a process.
fn page(bench: &Bench, process: &Process<FakeOs>, va: u64) -> Option<(u64, u64)> {
    let root = process.state.lock().devices.space(0).unwrap().root();
    walk(&bench.device.hw, root, va)
}

fn shown(process: &Process<FakeOs>) -> Vec<(u64, u64, bool)> {
    let state = process.state.lock();
    state.svm.ranges.touching(&(0..1 << 47)).map(|(start, one)| (start, one.end, one.mapped)).collect()
}

fn tell(bench: &Bench, start: u64, end: u64, unmapped: bool) {
    tell_change(bench, &Change { start, end, unmapped, held: false });
}

/// Tells of a change that happens when this returns.
fn tell_before(bench: &Bench, start: u64, end: u64, unmapped: bool) {
    tell_change(bench, &Change { start, end, unmapped, held: true });
}

fn tell_change(bench: &Bench, change: &Change) {
    bench.os().tell(change);
}

#[test]
fn ranges_are_divided_where_attributes_differ_and_nowhere_else() {
    let mut ranges = Ranges::new(2 * MIB);
    let flags = |value| [attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, value)];
    let edges = |ranges: &Ranges| -> Vec<(u64, u64)> {
        ranges.touching(&(0..1 << 47)).map(|(start, one)| (start, one.end)).collect()
    };
    // New ranges are cut at multiples of the piece.
    assert_eq!(ranges.growth(&(MIB..5 * MIB)).bytes, 4 * MIB);
    assert_eq!(ranges.set(&(MIB..5 * MIB), &[]).len(), 3);
    assert_eq!(edges(&ranges), [(MIB, 2 * MIB), (2 * MIB, 4 * MIB), (4 * MIB, 5 * MIB)]);
    // Both edges inside of one range.
    let parts = ranges.set(&(2 * MIB + PAGE..3 * MIB), &flags(8));
    assert_eq!((parts.len(), &parts[0]), (1, &(2 * MIB + PAGE..3 * MIB)));
    assert_eq!(
        edges(&ranges),
        [
            (MIB, 2 * MIB),
            (2 * MIB, 2 * MIB + PAGE),
            (2 * MIB + PAGE, 3 * MIB),
            (3 * MIB, 4 * MIB),
            (4 * MIB, 5 * MIB)
        ]
    );
    // A mapped range that has them already is left alone; one that is not mapped is not.
    ranges.set_mapped(2 * MIB + PAGE, true);
    assert_eq!(ranges.set(&(2 * MIB + 2 * PAGE..3 * MIB), &flags(8)), []);
    assert_eq!(ranges.set(&(3 * MIB..3 * MIB + PAGE), &flags(2))[0], 3 * MIB..3 * MIB + PAGE);
    // A prefetch is never the same, and a gap before, between and behind ranges becomes ranges.
    let prefetch = [attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0)];
    assert_eq!(ranges.remove(&(3 * MIB..4 * MIB)), MIB);
    let growth = ranges.growth(&(0..6 * MIB));
    assert_eq!(growth, Growth { bytes: 3 * MIB, ranges: 8 });
    let before = ranges.len();
    assert_eq!(ranges.set(&(0..6 * MIB), &prefetch).len(), 7);
    assert!((ranges.len() - before) as u64 <= growth.ranges);
    assert!(ranges.all(&(0..6 * MIB), |one| one.attributes.prefetch == 0));
    assert!(!ranges.all(&(0..6 * MIB + PAGE), |_| true));
    assert_eq!(ranges.remove(&(0..1 << 47)), 6 * MIB);
    assert_eq!(ranges.len(), 0);
}

#[test]
fn several_ranges_answer_with_what_they_have_in_common() {
    let mut ranges = Ranges::new(2 * MIB);
    let bench = Bench::new();
    let process = bench.process(1);
    let nodes = &process.nodes;
    let gpu = u32::from(nodes.first().gpu_id);
    let set = |ranges: &mut Ranges, range: &Range<u64>, list: &[SvmAttribute]| {
        let mut list = list.to_vec();
        ranges::check(nodes, &mut list).unwrap();
        ranges.set(range, &list);
    };
    let (first, second) = (0..PAGE, PAGE..2 * PAGE);
    let ask = |ranges: &Ranges, range: Range<u64>| -> Vec<(u32, u32)> {
        let common = ranges.common(&range);
        [
            KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
            KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
            KFD_IOCTL_SVM_ATTR_ACCESS,
            KFD_IOCTL_SVM_ATTR_SET_FLAGS,
            KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
            KFD_IOCTL_SVM_ATTR_GRANULARITY,
        ]
        .into_iter()
        .map(|kind| {
            let mut one = attribute(kind, gpu);
            common.answer(nodes, &mut one).unwrap();
            (one.kind, one.value)
        })
        .collect()
    };
    let none = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
    assert_eq!(
        ask(&ranges, 0..2 * PAGE),
        [(0, UNDEFINED), (1, UNDEFINED), (none, gpu), (5, 3), (6, !3), (7, 9)]
    );
    // While faults are retried, the GPU may access what nothing was said about.
    ranges.set_default_access(Access { anywhere: nodes.first().bit(), in_place: 0 });
    assert_eq!(ask(&ranges, 0..2 * PAGE)[2], (KFD_IOCTL_SVM_ATTR_ACCESS, gpu));
    ranges.set_default_access(Access::NONE);
    assert_eq!(ask(&ranges, 0..2 * PAGE)[2], (none, gpu));
    set(
        &mut ranges,
        &first,
        &[
            attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu),
            attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0),
            attribute(KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, gpu),
            attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0x10),
            attribute(KFD_IOCTL_SVM_ATTR_CLR_FLAGS, 1),
            attribute(KFD_IOCTL_SVM_ATTR_GRANULARITY, 0xff),
        ],
    );
    let in_place = KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
    let alone = [(0, gpu), (1, 0), (in_place, gpu), (5, 0x12), (6, !0x12), (7, 0x3f)];
    assert_eq!(ask(&ranges, first.clone()), alone);
    // Memory of no range does not count where there is one.
    assert_eq!(ask(&ranges, 0..2 * PAGE), alone);
    set(
        &mut ranges,
        &second,
        &[
            attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu),
            attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, gpu),
            attribute(KFD_IOCTL_SVM_ATTR_ACCESS, gpu),
            attribute(KFD_IOCTL_SVM_ATTR_GRANULARITY, 2),
        ],
    );
    assert_eq!(
        ask(&ranges, 0..2 * PAGE),
        [(0, gpu), (1, UNDEFINED), (none, gpu), (5, 2), (6, !0x13), (7, 2)]
    );
}

#[test]
fn what_is_not_accepted_changes_nothing() {
    let bench = Bench::new();
    let process = bench.process(1);
    let gpu = u32::from(bench.device.gpu_id());
    lock(&bench.os().users.holes).push(VA + 8 * PAGE..VA + 9 * PAGE);
    bench.memory(&process, VA + 16 * PAGE, PAGE, AllocFlags::VRAM);
    let used = bench.processes.system().used();
    let access = access(&bench);
    let one = |kind, value| vec![attribute(kind, value)];
    for (start, size, list, error) in [
        (VA + 1, PAGE, vec![access], Errno::EINVAL),
        (VA, PAGE - 1, vec![access], Errno::EINVAL),
        (0, PAGE, vec![access], Errno::EINVAL),
        (VA, 0, vec![access], Errno::EINVAL),
        (VA, PAGE, one(8, 0), Errno::EINVAL),
        (VA, PAGE, one(KFD_IOCTL_SVM_ATTR_ACCESS, 0), Errno::EINVAL),
        (VA, PAGE, one(KFD_IOCTL_SVM_ATTR_NO_ACCESS, gpu + 1), Errno::EINVAL),
        (VA, PAGE, one(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu + 1), Errno::EINVAL),
        (VA, PAGE, one(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, UNDEFINED), Errno::EINVAL),
        (VA, PAGE, vec![access, attribute(99, 0)], Errno::EINVAL),
        // An unknown attribute comes before memory that is not there, and that before memory that is taken.
        (VA + 8 * PAGE, PAGE, one(8, 0), Errno::EINVAL),
        (VA, 9 * PAGE, vec![access], Errno::EFAULT),
        (VA + 8 * PAGE, 9 * PAGE, vec![access], Errno::EFAULT),
        (u64::MAX - PAGE + 1, PAGE, vec![access], Errno::EFAULT),
        (VA + 10 * PAGE, 7 * PAGE, vec![access], Errno::EADDRINUSE),
        (crate::trap_handler::TBA, PAGE, vec![access], Errno::EADDRINUSE),
        (VA - (1 << 41), 1 << 40, vec![access], Errno::ENOMEM),
    ] {
        assert_eq!(set(&process, start, size, &list), Err(error), "{start:#x} {size:#x} {list:?}");
    }
    assert_eq!(shown(&process), []);
    assert_eq!(bench.processes.system().used(), used);
    for (kind, value, error) in [
        (KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, gpu, Errno::EINVAL),
        (KFD_IOCTL_SVM_ATTR_NO_ACCESS, gpu, Errno::EINVAL),
        (KFD_IOCTL_SVM_ATTR_ACCESS, gpu + 1, Errno::EINVAL),
        (8, 0, Errno::EINVAL),
    ] {
        assert_eq!(get(&process, VA, PAGE, &one(kind, value)), Err(error), "{kind} {value}");
    }
    let args = SvmArgs { start_addr: VA, size: PAGE, op: 2, nattr: 0 };
    assert_eq!(change(&process, &args, &mut []), Err(Errno::EINVAL));
    // Locations that are none, and no attributes at all, are accepted.
    set(&process, VA, PAGE, &one(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, UNDEFINED)).unwrap();
    set(&process, VA, PAGE, &[]).unwrap();
}

#[test]
fn access_maps_pages_with_the_rights_of_flags_and_of_the_program() {
    let bench = Bench::new();
    let process = bench.process(1);
    let gpu = u32::from(bench.device.gpu_id());
    lock(&bench.os().users.read_only).push(VA + PAGE..VA + 2 * PAGE);
    set(&process, VA, 3 * PAGE, &[attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu)]).unwrap();
    assert_eq!(page(&bench, &process, VA), None, "nobody has access");
    set(&process, VA, 3 * PAGE, &[access(&bench)]).unwrap();
    for (index, writable) in [(0, true), (1, false), (2, true)] {
        let va = VA + index * PAGE;
        let (pa, entry) = page(&bench, &process, va).unwrap();
        assert_eq!((pa, entry & PTE_WRITEABLE != 0), ((1 << 40) + va, writable), "page {index}");
    }
    let flags = KFD_IOCTL_SVM_FLAG_GPU_RO | KFD_IOCTL_SVM_FLAG_GPU_EXEC;
    set(&process, VA, PAGE, &[attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, flags)]).unwrap();
    let entry = |va| page(&bench, &process, va).unwrap().1 & (PTE_WRITEABLE | PTE_EXECUTABLE);
    assert_eq!((entry(VA), entry(VA + 2 * PAGE)), (PTE_EXECUTABLE, PTE_WRITEABLE));
    set(&process, VA, PAGE, &[attribute(KFD_IOCTL_SVM_ATTR_CLR_FLAGS, flags)]).unwrap();
    assert_eq!(entry(VA), PTE_WRITEABLE);
    // Buffer objects and shared memory keep apart, in either order.
    let mut args = AllocMemoryOfGpuArgs {
        va_addr: VA,
        size: PAGE,
        gpu_id: gpu,
        flags: (AllocFlags::VRAM | AllocFlags::WRITABLE).bits(),
        ..Default::default()
    };
    assert_eq!(objects::alloc_memory(&process, &mut args), Err(Errno::EADDRINUSE));
    args = AllocMemoryOfGpuArgs {
        va_addr: VA + MIB,
        mmap_offset: VA + 2 * PAGE,
        flags: (AllocFlags::USERPTR | AllocFlags::WRITABLE).bits(),
        ..args
    };
    assert_eq!(objects::alloc_memory(&process, &mut args), Err(Errno::EADDRINUSE));
    args = AllocMemoryOfGpuArgs { mmap_offset: 0, flags: AllocFlags::VRAM.bits(), ..args };
    objects::alloc_memory(&process, &mut args).unwrap();
    set(&process, VA + MIB, PAGE, &[access(&bench)]).unwrap();
    assert_eq!(objects::map_memory(&process, process.nodes.first(), args.handle), Err(Errno::EINVAL));
    let trace = lock(&bench.os().trace).clone();
    assert!(trace.iter().all(|what| !what.contains("under a lock")), "{trace:?}");
}

#[test]
fn unmapped_memory_leaves_the_gpu_and_its_neighbours_stay() {
    let bench = Bench::new();
    let process = bench.process(1);
    let used = bench.processes.system().used();
    set(&process, VA, 4 * PAGE, &[access(&bench)]).unwrap();
    assert_eq!(bench.processes.system().used(), used + 4 * PAGE);
    lock(&bench.os().users.holes).push(VA + PAGE..VA + 2 * PAGE);
    tell(&bench, VA + PAGE, VA + 2 * PAGE, true);
    let mapped: Vec<bool> = (0..4).map(|index| page(&bench, &process, VA + index * PAGE).is_some()).collect();
    assert_eq!(mapped, [true, false, true, true]);
    assert_eq!(shown(&process), [(VA, VA + PAGE, true), (VA + 2 * PAGE, VA + 4 * PAGE, true)]);
    assert_eq!(bench.processes.system().used(), used + 3 * PAGE);
    // The pin of all four pages has gone: the rest has pins of its own.
    assert_eq!(*lock(&bench.os().trace), ["unpin"]);
    assert_eq!(get(&process, VA + 2 * PAGE, PAGE, &[access(&bench)]).unwrap(), [access(&bench)]);
    assert_eq!(bench.os().run_work(), 0, "nothing had to rest");
    bench.kfd.exit(process.key());
    assert_eq!(bench.processes.system().used(), used);
    assert_eq!(*lock(&bench.os().trace), ["unpin"; 3]);
}

/// A queue whose save area is shared virtual memory.
fn with_queue(bench: &Bench) -> (Arc<Process<FakeOs>>, u64, u64) {
    let process = bench.process(1);
    let area = (bench.device.hw.asic().save_area)(&bench.device.config);
    let (va, size) = (VA + 64 * MIB, area.total(area.cwsr_size));
    let mut args = crate::process::queue_args(bench, &process, va);
    assert_eq!(queue_manager::create_queue(&process, &mut args), Err(Errno::EINVAL), "nothing is there");
    set(&process, va, size, &[access(bench)]).unwrap();
    assert_eq!(
        queue_manager::create_queue(&process, &mut args),
        Err(Errno::EINVAL),
        "it need not stay mapped"
    );
    let always = attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED);
    set(&process, va, size, &[always]).unwrap();
    queue_manager::create_queue(&process, &mut args).unwrap();
    (process, va, size)
}

fn queue_steps(bench: &Bench) -> Vec<&'static str> {
    lock(&bench.os().trace).iter().copied().filter(|what| ["add", "remove"].contains(what)).collect()
}

#[test]
fn queues_rest_while_memory_changes_and_go_on_when_it_is_mapped_anew() {
    let bench = Bench::new();
    let (process, ..) = with_queue(&bench);
    let client = bench.device.smi.open(process.pasid(), 0).unwrap() as usize - 1;
    let stranger = bench.device.smi.open(process.pasid() + 1, 0).unwrap() as usize - 1;
    let clients = lock(&bench.os().smi).clone();
    for client in [client, stranger] {
        clients[client].write(&u64::MAX.to_le_bytes()).unwrap();
    }
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    assert_eq!(queue_steps(&bench), ["add"]);
    // Read-only from now on, and not there for a moment.
    lock(&bench.os().users.read_only).push(VA..VA + PAGE);
    lock(&bench.os().users.holes).push(VA..VA);
    tell(&bench, VA, VA + PAGE, false);
    tell(&bench, VA, VA + PAGE, false);
    assert_eq!(queue_steps(&bench), ["add", "remove"], "stopped once");
    let writable = |va| page(&bench, &process, va).map(|(_, entry)| entry & PTE_WRITEABLE != 0);
    assert_eq!(bench.os().run_work(), 1);
    assert_eq!((writable(VA), writable(VA + PAGE)), (Some(false), Some(true)));
    assert_eq!(queue_steps(&bench), ["add", "remove", "add"]);
    assert_eq!(bench.os().run_work(), 0);
    let mut text = [0; 256];
    let len = clients[client].read(&mut text).unwrap();
    let text = String::from_utf8(text[..len].to_vec()).unwrap();
    let gpu = bench.device.gpu_id();
    let kinds: Vec<String> = text
        .lines()
        .map(|line| {
            line.split(' ')
                .enumerate()
                .filter(|(at, _)| *at != 1)
                .map(|(_, word)| format!("{word} "))
                .collect()
        })
        .collect();
    assert_eq!(kinds, [format!("9 -499 {gpu:x} 0 "), format!("a -499 {gpu:x} 0 ")]);
    assert_eq!(clients[stranger].read(&mut [0; 8]), Err(Errno::EAGAIN));
}

#[test]
fn queues_rest_until_memory_can_be_mapped_again() {
    let bench = Bench::new();
    let (process, ..) = with_queue(&bench);
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    // Nothing can be pinned there.
    lock(&bench.os().users.closed).push(VA..VA + PAGE);
    tell(&bench, VA, VA + PAGE, false);
    for _ in 0..3 {
        assert_eq!(bench.os().run_work(), 1);
        assert_eq!(queue_steps(&bench), ["add", "remove"]);
    }
    lock(&bench.os().users.closed).clear();
    lock(&bench.os().users.holes).push(VA + PAGE..VA + 2 * PAGE);
    assert_eq!(bench.os().run_work(), 1);
    assert_eq!(bench.os().run_work(), 0);
    assert_eq!(queue_steps(&bench), ["add", "remove", "add"]);
    assert!(page(&bench, &process, VA).is_some());
    assert!(page(&bench, &process, VA + PAGE).is_none(), "it had gone meanwhile");
    bench.kfd.exit(process.key());
    tell(&bench, VA, VA + PAGE, false);
    tell(&bench, VA, VA + PAGE, true);
    assert_eq!(bench.os().run_work(), 0, "the process is gone");
}

#[test]
fn who_unmaps_what_a_queue_saves_itself_to_has_no_queues_any_more() {
    let bench = Bench::new();
    let (process, va, size) = with_queue(&bench);
    tell(&bench, va, va + size, true);
    assert_eq!(queue_steps(&bench), ["add", "remove"]);
    assert!(page(&bench, &process, va).is_none());
    set(&process, VA, PAGE, &[access(&bench)]).unwrap();
    tell(&bench, VA, VA + PAGE, false);
    bench.os().run_work();
    assert_eq!(queue_steps(&bench), ["add", "remove"], "it does not come back");
}

#[test]
fn access_that_was_taken_ends_with_the_next_change() {
    let bench = Bench::new();
    let process = bench.process(1);
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    let none = attribute(KFD_IOCTL_SVM_ATTR_NO_ACCESS, u32::from(bench.device.gpu_id()));
    // As amdkfd, which leaves a note about this.
    set(&process, VA, PAGE, &[none]).unwrap();
    assert!(page(&bench, &process, VA).is_some());
    tell(&bench, VA, VA + 2 * PAGE, false);
    assert_eq!(bench.os().run_work(), 1);
    assert!(page(&bench, &process, VA).is_none());
    assert!(page(&bench, &process, VA + PAGE).is_some());
    assert_eq!(get(&process, VA, PAGE, &[access(&bench)]).unwrap()[0].kind, none.kind);
}

#[test]
fn tables_that_find_no_memory_fail_new_ranges_and_no_old_ones() {
    let bench = Bench::new();
    let process = bench.process(1);
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    let hold = bench.device.vram.allocate(bench.device.vram.free_bytes(), false).unwrap();
    assert_eq!(set(&process, VA - (1 << 40), PAGE, &[access(&bench)]), Err(Errno::ENOMEM));
    assert!(page(&bench, &process, VA - (1 << 40)).is_none());
    tell(&bench, VA, VA + 2 * PAGE, false);
    assert_eq!(bench.os().run_work(), 1);
    assert_eq!(bench.os().run_work(), 0);
    assert!(page(&bench, &process, VA).is_some() && page(&bench, &process, VA + PAGE).is_some());
    drop(hold);
    set(&process, VA - (1 << 40), PAGE, &[access(&bench)]).unwrap();
    assert!(page(&bench, &process, VA - (1 << 40)).is_some());
}

#[test]
fn buffer_objects_and_shared_memory_of_an_address_space_keep_out_of_each_others_way() {
    let bench = Bench::new();
    let process = bench.process(1);
    let space = process.state.lock().devices.space(0).cloned().unwrap();
    let claim = |va: u64, len: u64| Space::claim(&mut space.lock(), va, len);
    set(&process, VA, 4 * PAGE, &[access(&bench)]).unwrap();
    set(&process, VA + 2 * PAGE, 4 * PAGE, &[access(&bench)]).unwrap();
    for (page, pages) in [(0, 1), (3, 1), (5, 1), (5, 9)] {
        assert_eq!(claim(VA + page * PAGE, pages * PAGE), Err(Errno::EINVAL), "{page} {pages}");
    }
    claim(VA + 6 * PAGE, PAGE).unwrap();
    assert_eq!(set(&process, VA + 4 * PAGE, 4 * PAGE, &[access(&bench)]), Err(Errno::EADDRINUSE));
    assert_eq!(shown(&process).last().map(|last| last.1), Some(VA + 6 * PAGE));
    // What is unmapped is free for others, and what is around it is not.
    lock(&bench.os().users.holes).push(VA + PAGE..VA + 2 * PAGE);
    tell(&bench, VA + PAGE, VA + 2 * PAGE, true);
    claim(VA + PAGE, PAGE).unwrap();
    assert_eq!([claim(VA, PAGE), claim(VA + 2 * PAGE, PAGE)], [Err(Errno::EINVAL); 2]);
    // The file of the render node goes on with the address space of a process that has ended.
    lifetime::tear_down(&bench.processes, &process);
    claim(VA, PAGE).unwrap();
    claim(VA + 2 * PAGE, 4 * PAGE).unwrap();
    let root = space.root();
    assert!((0..6).all(|index| walk(&bench.device.hw, root, VA + index * PAGE).is_none()));
}

mod held;
mod migrate;
