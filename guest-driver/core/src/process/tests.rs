//! In which order things go away, and what stays with a device that does not answer.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::gpuvm::{PTE_EXECUTABLE, PTE_READABLE, PTE_SYSTEM, PTE_WRITEABLE};
use belfry_abi::kfd::event::{CreateEventArgs, KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_SIGNAL};
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;
use belfry_abi::kfd::queue::{CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, UpdateQueueArgs};
use belfry_abi::regs::osssys;

use super::Process;
use crate::errno::Errno;
use crate::memory;
use crate::os::{Change, PAGE_SIZE};
use crate::queue_manager;
use crate::testing::{Bench, FakeOs, OWN_DOORBELLS, OWN_REGISTERS, lock, walk};

const USER: u64 = 0x10_0000;

/// A process with user memory, a buffer object of five pages in system memory, and a queue over them.
fn with_queue(bench: &Bench, key: u64) -> Arc<Process<FakeOs>> {
    let process = bench.process(key);
    let area = (bench.device.hw.asic().save_area)(&bench.device.config);
    let save = 0x30_0000;
    bench.memory(&process, save, area.total(area.cwsr_size), AllocFlags::USERPTR);
    let mut args = queue_args(bench, &process, save);
    bench.memory(&process, 0x2000_0000, 5 * PAGE_SIZE, AllocFlags::GTT);
    queue_manager::create_queue(&process, &mut args).unwrap();
    process
}

/// A queue with a save area that the caller provides, and user memory for the rest of it.
pub(crate) fn queue_args(bench: &Bench, process: &Arc<Process<FakeOs>>, save: u64) -> CreateQueueArgs {
    let area = (bench.device.hw.asic().save_area)(&bench.device.config);
    let (control, eop) = (0x20_0000, 0x1000_0000);
    bench.memory(process, USER, PAGE_SIZE, AllocFlags::USERPTR);
    bench.memory(process, control, PAGE_SIZE, AllocFlags::USERPTR);
    bench.memory(process, eop, PAGE_SIZE, AllocFlags::VRAM);
    CreateQueueArgs {
        ring_base_address: USER,
        write_pointer_address: control,
        read_pointer_address: control + 8,
        ring_size: PAGE_SIZE as u32,
        gpu_id: u32::from(bench.device.gpu_id()),
        queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
        queue_percentage: 100,
        eop_buffer_address: eop,
        eop_buffer_size: PAGE_SIZE,
        ctx_save_restore_address: save,
        ctx_save_restore_size: area.cwsr_size,
        ctl_stack_size: area.ctl_stack_size,
        ..Default::default()
    }
}

fn trace(bench: &Bench) -> Vec<&'static str> {
    lock(&bench.os().trace).clone()
}

#[test]
fn doorbells_and_the_page_of_flushes_are_mapped_where_the_device_finds_its_own_and_unmapped() {
    let bench = Bench::new();
    // Another process has the first slice.
    let _other = bench.process(1);
    let process = bench.process(2);
    let (doorbells, flushes) = (0x4000_0000, 0x5000_0000);
    let flags = AllocFlags::COHERENT | AllocFlags::WRITABLE;
    let handles = [
        bench.memory(&process, doorbells, KFD_DOORBELL_PROCESS_SLICE, AllocFlags::DOORBELL | flags),
        bench.memory(&process, flushes, PAGE_SIZE, AllocFlags::MMIO_REMAP | flags),
    ];
    let entry = |va: u64| {
        let root = process.state.lock().devices.space(0).unwrap().root();
        walk(&bench.device.hw, root, va)
    };
    let slice = OWN_DOORBELLS + process.nodes.first().doorbell_offset();
    let expected = [
        (doorbells, slice),
        (doorbells + PAGE_SIZE, slice + PAGE_SIZE),
        (flushes, OWN_REGISTERS + bench.device.hw.asic().hdp_remap),
    ];
    for (va, bus) in expected {
        let (address, bits) = entry(va).unwrap();
        let wanted = PTE_SYSTEM | PTE_READABLE | PTE_WRITEABLE;
        assert_eq!((address, bits & (wanted | PTE_EXECUTABLE)), (bus, wanted), "{va:#x}");
    }
    for handle in handles {
        memory::unmap_memory(&process, process.nodes.first(), handle).unwrap();
        memory::free_memory(&process, handle).unwrap();
    }
    assert!(expected.iter().all(|&(va, _)| entry(va).is_none()));
}

#[test]
fn queues_stop_before_pages_go_however_a_process_ends() {
    for end in ["exit", "last close", "unbind"] {
        let bench = Bench::new();
        let process = with_queue(&bench, 1);
        assert_eq!(trace(&bench), ["add"]);
        match end {
            "exit" => bench.kfd.exit(process.key()),
            "last close" => bench.kfd.close(&process),
            _ => crate::lifetime::leave(&bench.processes, &bench.device),
        }
        let mut gone = trace(&bench);
        assert_eq!(gone[..2], ["add", "remove"], "{end}: {gone:?}");
        gone[2..].sort_unstable();
        assert_eq!(gone[2..], ["free", "unpin", "unpin", "unpin"], "{end}");
    }
}

#[test]
fn a_queue_that_does_not_stop_keeps_its_pages_when_the_device_cannot_be_reset() {
    let bench = Bench::new();
    let process = with_queue(&bench, 1);
    let bystander = with_queue(&bench, 2);
    // The scheduler does not answer, and the function has no reset here.
    *lock(&bench.os().scheduler) = None;
    bench.kfd.exit(process.key());
    assert!(bench.device.wedged());
    bench.kfd.exit(bystander.key());
    assert_eq!(trace(&bench), ["add", "add"], "pages went although their queues may run");
}

#[test]
fn memory_the_device_may_still_translate_to_is_not_freed() {
    let bench = Bench::new();
    let process = bench.process(1);
    let handle = bench.memory(&process, USER, PAGE_SIZE, AllocFlags::USERPTR);
    // The process runs in VMID 8.
    bench.device.hw.write_at(8, osssys::IH_VMID_0_LUT(u32::from(process.pasid)));
    *lock(&bench.os().deaf) = true;
    assert_eq!(memory::unmap_memory(&process, process.nodes.first(), handle), Err(Errno::ETIME));
    assert_eq!(memory::free_memory(&process, handle), Err(Errno::EBUSY));
    // New pages come, and the old ones stay.
    let notice = lock(&bench.os().notices)[0].clone();
    notice.invalidated(&Change { start: 0, end: 1 << 47, unmapped: false, held: false });
    assert_eq!(trace(&bench), [""; 0]);
    *lock(&bench.os().deaf) = false;
    memory::unmap_memory(&process, process.nodes.first(), handle).unwrap();
    memory::free_memory(&process, handle).unwrap();
    assert_eq!(trace(&bench), ["unpin"], "the new pages");
}

#[test]
fn the_end_of_an_address_space_leaves_its_memory_to_its_queues() {
    let bench = Bench::new();
    let process = with_queue(&bench, 1);
    *lock(&bench.os().users.gone) = true;
    let notices = lock(&bench.os().notices).clone();
    for notice in notices {
        notice.invalidated(&Change { start: 0, end: 1 << 47, unmapped: false, held: false });
    }
    assert!(process.state.lock().bos.values().all(|bo| bo.is_mapped()), "the queue would fault");
    assert!(lock(&bench.os().log).iter().all(|line| !line.contains("user memory")));
    bench.kfd.exit(process.key());
    assert_eq!(trace(&bench)[..2], ["add", "remove"]);
}

#[test]
fn memory_whose_access_a_program_takes_and_gives_again_comes_back_to_the_gpu() {
    let bench = Bench::new();
    let process = bench.process(1);
    let handle = bench.memory(&process, USER, 2 * PAGE_SIZE, AllocFlags::USERPTR);
    let change = || {
        let notice = lock(&bench.os().notices)[0].clone();
        notice.invalidated(&Change { start: USER, end: USER + PAGE_SIZE, unmapped: false, held: false });
    };
    let entry = |va: u64| {
        let root = process.state.lock().devices.space(0).unwrap().root();
        walk(&bench.device.hw, root, va).map(|(address, _)| address)
    };
    let first = entry(USER).unwrap();
    lock(&bench.os().users.closed).push(USER..USER + PAGE_SIZE);
    // It is told of each change, and of the loss once.
    for _ in 0..2 {
        change();
        assert_eq!((entry(USER), entry(USER + PAGE_SIZE)), (None, None), "amdgpu maps all pages or none");
    }
    let said = |bench: &Bench| lock(&bench.os().log).iter().filter(|line| line.contains("is gone")).count();
    assert_eq!(said(&bench), 1);
    let node = process.nodes.first();
    memory::map_memory(&process, node, handle).unwrap();
    assert_eq!(entry(USER), None, "it is mapped already, and has no pages");
    lock(&bench.os().users.closed).clear();
    change();
    let back = entry(USER).unwrap();
    assert!(back != first && entry(USER + PAGE_SIZE) == Some(back + PAGE_SIZE), "the pages of now");
    memory::unmap_memory(&process, node, handle).unwrap();
    assert_eq!(entry(USER), None);
    // Memory that is mapped nowhere is lost and comes back as well.
    lock(&bench.os().users.closed).push(USER..USER + PAGE_SIZE);
    change();
    memory::map_memory(&process, node, handle).unwrap();
    assert_eq!(entry(USER), None);
    lock(&bench.os().users.closed).clear();
    change();
    assert!(entry(USER).is_some());
    memory::unmap_memory(&process, node, handle).unwrap();
    memory::free_memory(&process, handle).unwrap();
}

#[test]
fn a_pin_only_a_queue_holds_is_dropped_without_the_lock() {
    let bench = Bench::new();
    let process = with_queue(&bench, 1);
    let notices = lock(&bench.os().notices).clone();
    for notice in notices {
        notice.invalidated(&Change { start: 0, end: 1 << 47, unmapped: false, held: false });
    }
    // Of the three old pins one is the write pointer's, and the queue holds it.
    assert_eq!(trace(&bench), ["add", "unpin", "unpin"]);
    queue_manager::destroy_queue(&process, 0).unwrap();
    assert_eq!(trace(&bench), ["add", "unpin", "unpin", "remove", "unpin"]);
}

/// UPDATE_QUEUE with the ring that `with_queue` gives, and a share.
fn update(process: &Process<FakeOs>, percentage: u32) -> Result<(), Errno> {
    queue_manager::update_queue(
        process,
        &UpdateQueueArgs {
            ring_base_address: USER,
            ring_size: PAGE_SIZE as u32,
            queue_percentage: percentage,
            ..Default::default()
        },
    )
}

#[test]
fn queue_is_on_the_scheduler_while_it_has_a_share() {
    let bench = Bench::new();
    let process = with_queue(&bench, 1);
    update(&process, 0).unwrap();
    assert_eq!(trace(&bench), ["add", "remove"]);
    update(&process, 0).unwrap();
    assert_eq!(trace(&bench), ["add", "remove"], "it is off already");
    update(&process, 50).unwrap();
    assert_eq!(trace(&bench), ["add", "remove", "add"]);
}

#[test]
fn queue_of_a_process_that_faulted_is_not_mapped_again() {
    let bench = Bench::new();
    let process = with_queue(&bench, 1);
    queue_manager::evict(&process, process.nodes.first().bit());
    assert_eq!(trace(&bench), ["add", "remove"]);
    update(&process, 50).unwrap();
    queue_manager::evict(&process, process.nodes.first().bit());
    queue_manager::destroy_queue(&process, 0).unwrap();
    assert_eq!(trace(&bench), ["add", "remove"]);
}

#[test]
fn queue_of_a_device_that_was_reset_is_not_mapped_again() {
    let bench = Bench::new();
    let process = with_queue(&bench, 1);
    assert!(bench.device.recover(process.nodes.first().epoch));
    let before = trace(&bench);
    assert_eq!(update(&process, 50), Err(Errno::EIO));
    assert_eq!(update(&process, 50), Err(Errno::EIO));
    queue_manager::destroy_queue(&process, 0).unwrap();
    assert_eq!(trace(&bench), before);
}

#[test]
fn a_process_that_is_gone_takes_no_event_that_somebody_could_wait_for() {
    let bench = Bench::new();
    let process = bench.process(1);
    let page = bench.memory(&process, 0x5000_0000, 8 * PAGE_SIZE, AllocFlags::GTT);
    bench.kfd.exit(process.key());
    let mut args = CreateEventArgs::default();
    assert_eq!(process.events.create(&mut args), Err(Errno::ENODEV));
    assert!(process.set_signal_page(page).is_err());
}

#[test]
fn process_is_shown_with_its_queues_memory_and_events_but_no_more_than_a_few() {
    let bench = Bench::new();
    let process = with_queue(&bench, 0x1234_5678);
    bench.memory(&process, 0x4000_0000, 2 << 20, AllocFlags::VRAM);
    for page in 0..40 {
        bench.memory(&process, 0x5000_0000 + page * PAGE_SIZE, PAGE_SIZE, AllocFlags::GTT);
    }
    let kinds = [KFD_IOC_EVENT_SIGNAL, KFD_IOC_EVENT_MEMORY];
    for kind in (0..30).map(|event| kinds[event % 2]) {
        process.events.create(&mut CreateEventArgs { event_type: kind, ..Default::default() }).unwrap();
    }
    let text = format!("{process:?}");
    for part in [
        "Process { pasid: 0x1,",
        "phase: Alive",
        "life: Mapped, ring: 0x100000, 4096 bytes, percentage: 100",
        "huge_pages: 1",
        "mapped: 46 of 46 buffer objects",
        "kind: user memory, 1 pages pinned, va: 0x100000, size: 0x1000, flags: AllocFlags(USERPTR | WRITABLE)",
        "and: 30 more",
        "count: 30, signals: 15,",
        "Event { type: signal, set: false",
        "and: 14 more",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("305419896") && !text.contains("12345678"), "the key is an address of the kernel");
    bench.kfd.exit(process.key());
    let text = format!("{process:?}");
    assert!(text.contains("phase: Dead, spaces: {}, queues: {}"), "{text}");
}
