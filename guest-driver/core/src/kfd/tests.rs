//! A machine with two devices, which have the same identity on the bus.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::gpuvm::PTE_SYSTEM;
use belfry_abi::kfd::aperture::GetProcessAperturesArgs;
use belfry_abi::kfd::event::{KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY};
use belfry_abi::kfd::memory::{AllocFlags, AllocMemoryOfGpuArgs, GetDmabufInfoArgs};
use belfry_abi::kfd::mmap::{KFD_DOORBELL_PROCESS_SLICE, KFD_MMAP_TYPE_DOORBELL, kfd_mmap_offset};
use belfry_abi::kfd::queue::UpdateQueueArgs;
use belfry_abi::kfd::smi::EventKind;
use belfry_abi::kfd::svm::{
    KFD_IOCTL_SVM_ATTR_ACCESS, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
    KFD_IOCTL_SVM_OP_SET_ATTR, SvmArgs, SvmAttribute,
};

use super::MmapTarget;
use crate::acquire;
use crate::aperture::get_process_apertures;
use crate::errno::Errno;
use crate::memory;
use crate::os::{PAGE_SIZE, ProcessKey, SmiClient};
use crate::process::Process;
use crate::queue::Life;
use crate::queue_manager;
use crate::svm;
use crate::testing::{Bench, FakeOs, OWN_DOORBELLS, OWN_REGISTERS, OWN_VRAM, lock, walk};

const VA: u64 = 0x6000_0000;
const SHARED: u64 = 0x7f00_0000_0000;

/// Two devices, and a process with an address space on each.
fn machine() -> (Bench, Bench, Arc<Process<FakeOs>>) {
    let first = Bench::new();
    let second = first.another();
    let process = first.process(1);
    second.acquire(&process, 2);
    (first, second, process)
}

fn read(bench: &Bench, path: &str) -> String {
    bench.kfd.sysfs_read(path).unwrap()
}

/// The value of a line `key value` in a file.
fn property(bench: &Bench, path: &str, key: &str) -> u64 {
    let text = read(bench, path);
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{key} in {text}")).parse().unwrap()
}

/// The page table entry of a process on a device: address and bits.
fn entry(bench: &Bench, process: &Process<FakeOs>, va: u64) -> Option<(u64, u64)> {
    let space = process.state.lock().devices.space(bench.node(process).index).unwrap().clone();
    walk(&bench.device.hw, space.root(), va)
}

/// Allocates memory on a device without mapping it.
fn allocate(bench: &Bench, process: &Arc<Process<FakeOs>>, (va, size): (u64, u64), flags: AllocFlags) -> u64 {
    let mut args = AllocMemoryOfGpuArgs {
        va_addr: va,
        size,
        mmap_offset: va,
        gpu_id: bench.device.gpu_id().into(),
        flags: (flags | AllocFlags::WRITABLE).bits(),
        ..Default::default()
    };
    memory::alloc_memory(process, &mut args).unwrap();
    args.handle
}

/// A queue of a process on a device, whose memory begins at an address of its own; its number.
fn queue(bench: &Bench, process: &Arc<Process<FakeOs>>, base: u64) -> u32 {
    let area = (bench.device.hw.asic().save_area)(&bench.device.config);
    let (ring, control, eop, save) = (base, base + 0x1_0000, base + 0x2_0000, base + 0x100_0000);
    for va in [ring, control, eop] {
        bench.memory(process, va, PAGE_SIZE, AllocFlags::USERPTR);
    }
    bench.memory(process, save, area.total(area.cwsr_size), AllocFlags::USERPTR);
    let mut args = belfry_abi::kfd::queue::CreateQueueArgs {
        ring_base_address: ring,
        write_pointer_address: control,
        read_pointer_address: control + 8,
        ring_size: PAGE_SIZE as u32,
        gpu_id: bench.device.gpu_id().into(),
        queue_type: belfry_abi::kfd::queue::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
        queue_percentage: 100,
        eop_buffer_address: eop,
        eop_buffer_size: PAGE_SIZE,
        ctx_save_restore_address: save,
        ctx_save_restore_size: area.cwsr_size,
        ctl_stack_size: area.ctl_stack_size,
        ..Default::default()
    };
    queue_manager::create_queue(process, &mut args).unwrap();
    args.queue_id
}

fn lives(process: &Process<FakeOs>) -> Vec<Life> {
    process.state.lock().queues.values().map(|queue| queue.life).collect()
}

fn share(process: &Arc<Process<FakeOs>>, list: &[SvmAttribute]) -> Result<(), Errno> {
    let (start_addr, size) = (SHARED, 2 * PAGE_SIZE);
    let args = SvmArgs { start_addr, size, op: KFD_IOCTL_SVM_OP_SET_ATTR, nattr: list.len() as u32 };
    svm::change(process, &args, &mut list.to_vec())
}

fn access(bench: &Bench) -> SvmAttribute {
    SvmAttribute { kind: KFD_IOCTL_SVM_ATTR_ACCESS, value: bench.device.gpu_id().into() }
}

#[test]
fn devices_of_the_same_identity_have_names_of_their_own_and_follow_each_other_in_the_topology() {
    let first = Bench::new();
    let alone = first.kfd.gpu_ids();
    assert_eq!(read(&first, "generation_id"), "2\n");
    let second = first.another();
    let ids = [first.device.gpu_id(), second.device.gpu_id()];
    assert_eq!((alone, first.kfd.gpu_ids()), (ids[..1].to_vec(), ids.to_vec()));
    assert_ne!(ids[0], ids[1]);
    assert_eq!(first.kfd.sysfs_list("nodes").unwrap(), ["0/", "1/", "2/"]);
    assert_eq!(read(&first, "generation_id"), "3\n");
    for (node, id) in (1..).zip(ids) {
        assert_eq!(read(&first, &format!("nodes/{node}/gpu_id")), format!("{id}\n"));
        // To the processors and back, and by way of them to the other GPU.
        assert_eq!(property(&first, &format!("nodes/{node}/properties"), "io_links_count"), 1);
        assert_eq!(first.kfd.sysfs_list(&format!("nodes/{node}/io_links")).unwrap(), ["0/"]);
        let link = format!("nodes/{node}/io_links/0/properties");
        assert_eq!((property(&first, &link, "node_from"), property(&first, &link, "node_to")), (node, 0));
        let back = format!("nodes/0/io_links/{}/properties", node - 1);
        assert_eq!((property(&first, &back, "node_from"), property(&first, &back, "node_to")), (0, node));
        // What processors write to VRAM is not coherent.
        assert_eq!((property(&first, &link, "flags"), property(&first, &back, "flags")), (1, 3));
        assert_eq!(property(&first, &format!("nodes/{node}/properties"), "p2p_links_count"), 1);
        assert_eq!(first.kfd.sysfs_list(&format!("nodes/{node}/p2p_links")).unwrap(), ["0/"]);
        let far = format!("nodes/{node}/p2p_links/0/properties");
        let keys = ["node_from", "node_to", "type", "weight", "min_bandwidth", "max_bandwidth", "flags"];
        let found = keys.map(|key| property(&first, &far, key));
        assert_eq!(found, [node, 3 - node, 2, 40, 312, 32_000, 3]);
    }
    assert_eq!(property(&first, "nodes/0/properties", "p2p_links_count"), 0);
    assert_eq!(property(&first, "nodes/0/properties", "io_links_count"), 2);
    // The first one goes, and the other one is the first node then.
    first.gpu.remove();
    assert_eq!(read(&second, "generation_id"), "4\n");
    assert_eq!(read(&second, "nodes/1/gpu_id"), format!("{}\n", ids[1]));
    assert_eq!(second.kfd.sysfs_list("nodes").unwrap(), ["0/", "1/"]);
    assert_eq!(second.kfd.sysfs_list("nodes/1/p2p_links").unwrap(), [""; 0]);
    second.gpu.remove();
    assert_eq!(second.kfd.sysfs_read("nodes/1/gpu_id"), Err(Errno::ENODEV));
}

#[test]
fn process_has_the_devices_that_there_were_when_it_came() {
    let first = Bench::new();
    let early = first.process(1);
    let second = first.another();
    let late = first.kfd.open(ProcessKey(2)).unwrap();
    let count = |process: &Arc<Process<FakeOs>>| {
        let mut args = GetProcessAperturesArgs::default();
        get_process_apertures(process, &mut args).unwrap();
        let of = &args.process_apertures[..args.num_of_nodes as usize];
        of.iter().map(|one| one.gpu_id).collect::<Vec<_>>()
    };
    let ids = [first.device.gpu_id(), second.device.gpu_id()].map(u32::from);
    assert_eq!((count(&early), count(&late)), (ids[..1].to_vec(), ids.to_vec()));
    // The end of the second device is not the early one's.
    second.gpu.remove();
    let version = |process: &Arc<Process<FakeOs>>| {
        first.kfd.ioctl(process, process.key(), belfry_abi::kfd::ioctl::GET_VERSION, 0)
    };
    assert_eq!((version(&early), version(&late)), (Err(Errno::EFAULT), Err(Errno::ENODEV)));
    assert!(first.processes.of_key(early.key()).is_some() && first.processes.of_key(late.key()).is_none());
}

#[test]
fn doorbells_are_slices_of_each_device_s_own() {
    let first = Bench::new();
    let _early = first.process(1);
    let second = first.another();
    let process = first.kfd.open(ProcessKey(2)).unwrap();
    let map = |bench: &Bench| {
        let offset = kfd_mmap_offset(KFD_MMAP_TYPE_DOORBELL, bench.device.gpu_id());
        first.kfd.mmap(&process, process.key(), offset, KFD_DOORBELL_PROCESS_SLICE).unwrap()
    };
    let slice = |device, slice| MmapTarget::Doorbells {
        device,
        offset: slice * KFD_DOORBELL_PROCESS_SLICE,
        len: KFD_DOORBELL_PROCESS_SLICE,
    };
    // The early process has the first one of the first device.
    assert_eq!((map(&first), map(&second)), (slice(first.gpu.number(), 2), slice(second.gpu.number(), 1)));
    first.kfd.exit(process.key());
    let next = first.kfd.open(ProcessKey(3)).unwrap();
    assert_eq!(next.nodes.iter().map(|node| node.slice).collect::<Vec<_>>(), [2, 1], "they are free again");
}

#[test]
fn file_of_one_device_is_no_address_space_of_another() {
    let (first, second, _) = machine();
    let other = first.kfd.open(ProcessKey(5)).unwrap();
    first.gpu.drm_open(7, 0).unwrap();
    let acquire = |bench: &Bench| acquire::acquire_vm(&first.processes, &other, bench.node(&other), 7);
    assert_eq!((acquire(&second), acquire(&first)), (Err(Errno::EINVAL), Ok(())));
}

#[test]
fn memory_is_mapped_on_all_devices_and_that_of_a_device_by_its_address_on_the_bus() {
    let (first, second, process) = machine();
    for (at, flags) in [(0, AllocFlags::GTT), (1, AllocFlags::USERPTR)] {
        let va = VA + at * PAGE_SIZE;
        let handle = allocate(&first, &process, (va, PAGE_SIZE), flags);
        for bench in [&second, &first] {
            memory::map_memory(&process, bench.node(&process), handle).unwrap();
        }
        let (one, other) = (entry(&first, &process, va), entry(&second, &process, va));
        assert!(one.is_some() && one == other, "{one:x?} {other:x?}");
        // Each has it until it is unmapped there.
        memory::unmap_memory(&process, first.node(&process), handle).unwrap();
        assert_eq!((entry(&first, &process, va), entry(&second, &process, va)), (None, other));
        assert_eq!(memory::free_memory(&process, handle), Err(Errno::EBUSY));
        memory::unmap_memory(&process, second.node(&process), handle).unwrap();
        memory::free_memory(&process, handle).unwrap();
    }
    for (at, size, flags, bar) in [
        (8, PAGE_SIZE, AllocFlags::VRAM, OWN_VRAM),
        (16, KFD_DOORBELL_PROCESS_SLICE, AllocFlags::DOORBELL, OWN_DOORBELLS),
        (24, PAGE_SIZE, AllocFlags::MMIO_REMAP, OWN_REGISTERS),
    ] {
        let va = VA + at * PAGE_SIZE;
        let handle = allocate(&second, &process, (va, size), flags);
        assert_eq!(handle >> 32, u64::from(second.device.gpu_id()));
        memory::map_memory(&process, first.node(&process), handle).unwrap();
        assert!(entry(&first, &process, va).is_some() && entry(&second, &process, va).is_none());
        memory::map_memory(&process, second.node(&process), handle).unwrap();
        let (own, far) = (entry(&second, &process, va).unwrap(), entry(&first, &process, va).unwrap());
        let nearer = if flags.contains(AllocFlags::VRAM) { bar } else { 0 };
        assert_eq!((far.0, far.1 & PTE_SYSTEM), (own.0 + nearer, PTE_SYSTEM), "{flags:?}");
        assert!((bar..bar + (1 << 30)).contains(&far.0), "{flags:?}: {far:x?}");
        assert_eq!(own.1 & PTE_SYSTEM == 0, nearer != 0);
    }
    let held = [&first, &second].map(|bench| process.held_on(bench.node(&process)).vram);
    assert_eq!(held, [0, PAGE_SIZE]);
}

#[test]
fn descriptor_of_memory_names_its_device() {
    let (first, second, process) = machine();
    // A descriptor is one of the whole system: both look at the same table.
    let handle = second.memory(&process, VA, PAGE_SIZE, AllocFlags::VRAM);
    let mut args = belfry_abi::kfd::memory::ExportDmabufArgs { handle, ..Default::default() };
    memory::export_dmabuf(&process, &mut args).unwrap();
    let exported = lock(&second.os().descriptors).clone();
    *lock(&first.os().descriptors) = exported;
    let mut info = GetDmabufInfoArgs { dmabuf_fd: args.dmabuf_fd, ..Default::default() };
    memory::dmabuf::info(&process, &mut info).unwrap();
    assert_eq!(info.gpu_id, u32::from(second.device.gpu_id()));
    let import = |bench: &Bench| {
        let mut args = belfry_abi::kfd::memory::ImportDmabufArgs {
            va_addr: VA + PAGE_SIZE,
            gpu_id: bench.device.gpu_id().into(),
            dmabuf_fd: args.dmabuf_fd,
            ..Default::default()
        };
        memory::import_dmabuf(&process, &mut args).map(|()| args.handle)
    };
    // It is imported for each of them, and mapped on both: on the other one by the address on the bus.
    for bench in [&first, &second] {
        let imported = import(bench).unwrap();
        assert_eq!(imported >> 32, u64::from(bench.device.gpu_id()));
        for bench in [&first, &second] {
            memory::map_memory(&process, bench.node(&process), imported).unwrap();
        }
        let at = |bench, va| entry(bench, &process, va).map(|(at, bits)| (at, bits & PTE_SYSTEM));
        let (own, there) = (at(&second, VA + PAGE_SIZE), at(&first, VA + PAGE_SIZE));
        assert_eq!(own, at(&second, VA));
        assert_eq!(there, own.map(|(at, _)| (OWN_VRAM + at, PTE_SYSTEM)));
        for bench in [&first, &second] {
            memory::unmap_memory(&process, bench.node(&process), imported).unwrap();
        }
        memory::free_memory(&process, imported).unwrap();
    }
}

#[test]
fn memory_of_a_device_that_a_process_does_not_have_is_not_imported() {
    let first = Bench::new();
    let before = first.process(1);
    let second = first.another();
    let after = first.process(2);
    second.acquire(&after, 3);
    let handle = second.memory(&after, VA, PAGE_SIZE, AllocFlags::VRAM);
    let mut args = belfry_abi::kfd::memory::ExportDmabufArgs { handle, ..Default::default() };
    memory::export_dmabuf(&after, &mut args).unwrap();
    let exported = lock(&second.os().descriptors).clone();
    *lock(&first.os().descriptors) = exported;
    let import = |process| {
        let mut args = belfry_abi::kfd::memory::ImportDmabufArgs {
            va_addr: VA + PAGE_SIZE,
            gpu_id: first.device.gpu_id().into(),
            dmabuf_fd: args.dmabuf_fd,
            ..Default::default()
        };
        memory::import_dmabuf(process, &mut args)
    };
    assert_eq!(import(&before), Err(Errno::EINVAL));
    assert_eq!(import(&after), Ok(()));
}

#[test]
fn reset_of_a_device_takes_its_own_queues_alone() {
    let (first, second, process) = machine();
    let reset = first.event(&process, KFD_IOC_EVENT_HW_EXCEPTION);
    queue(&first, &process, 0x1000_0000);
    let other = queue(&second, &process, 0x2000_0000);
    assert_eq!(lives(&process), [Life::Mapped; 2]);
    assert!(first.device.recover(first.node(&process).epoch));
    first.device.users.were_reset(&first.device);
    assert!(first.is_set(&process, reset));
    // The queue of the first device is lost; that of the other one is changed and destroyed as ever.
    let update = |queue_id, ring_base_address| {
        let (ring_size, queue_percentage) = (PAGE_SIZE as u32, 50);
        let args = UpdateQueueArgs {
            ring_base_address,
            queue_id,
            ring_size,
            queue_percentage,
            ..Default::default()
        };
        queue_manager::update_queue(&process, &args)
    };
    assert_eq!((update(0, 0x1000_0000), update(other, 0x2000_0000)), (Err(Errno::EIO), Ok(())));
    assert_eq!(lives(&process), [Life::Lost, Life::Mapped]);
    assert_eq!(lock(&second.os().trace).as_slice(), ["add", "remove", "add"]);
    queue(&second, &process, 0x3000_0000);
    queue_manager::destroy_queue(&process, other).unwrap();
    assert_eq!(second.gpu.usage().queues, 1);
}

#[test]
fn memory_fault_stops_the_queues_of_its_own_device_alone() {
    let (first, second, process) = machine();
    let fault = first.event(&process, KFD_IOC_EVENT_MEMORY);
    queue(&first, &process, 0x1000_0000);
    queue(&second, &process, 0x2000_0000);
    let raise = |bench: &Bench| {
        bench.raise_fault(&process);
        while bench.gpu.interrupt() {}
    };
    raise(&second);
    first.os().run_work();
    assert!(first.is_set(&process, fault));
    assert_eq!(lives(&process), [Life::Mapped, Life::Evicted]);
    let evicted = |bench: &Bench| {
        let state = process.state.lock();
        state.devices.part(bench.node(&process).index).unwrap().evicted_ns(u64::MAX) > 0
    };
    assert_eq!([&first, &second].map(evicted), [false, true]);
    // New queues run on the device that had none, and only there.
    queue(&first, &process, 0x4000_0000);
    queue(&second, &process, 0x5000_0000);
    assert_eq!(lives(&process), [Life::Mapped, Life::Evicted, Life::Mapped, Life::Evicted]);
    assert_eq!(lock(&second.os().trace).as_slice(), ["add", "remove"]);
    raise(&first);
    first.os().run_work();
    assert_eq!(lives(&process), [Life::Evicted; 4]);
}

#[test]
fn faults_of_two_devices_that_come_together_stop_the_queues_of_both() {
    let (first, second, process) = machine();
    queue(&first, &process, 0x1000_0000);
    queue(&second, &process, 0x2000_0000);
    for bench in [&second, &first] {
        bench.raise_fault(&process);
        while bench.gpu.interrupt() {}
    }
    assert_eq!(lives(&process), [Life::Mapped; 2]);
    first.os().run_work();
    assert_eq!(lives(&process), [Life::Evicted; 2]);
}

#[test]
fn shared_memory_and_buffer_objects_of_all_devices_have_one_limit() {
    let (first, second, process) = machine();
    let of_devices = || [&first, &second].map(|bench| bench.gpu.usage().gtt);
    let (system, before) = (first.processes.system(), of_devices());
    let size = system.limit() - system.used() - PAGE_SIZE;
    let mut list =
        [SvmAttribute { kind: KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, value: second.device.gpu_id().into() }];
    let args = SvmArgs { start_addr: SHARED, size, op: KFD_IOCTL_SVM_OP_SET_ATTR, nattr: 1 };
    svm::change(&process, &args, &mut list).unwrap();
    // Ranges are no device's: the pages belong to the program.
    assert_eq!(of_devices(), before);
    for bench in [&first, &second] {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: VA,
            size: 2 * PAGE_SIZE,
            gpu_id: bench.device.gpu_id().into(),
            flags: AllocFlags::GTT.bits(),
            ..Default::default()
        };
        assert_eq!(memory::alloc_memory(&process, &mut args), Err(Errno::ENOMEM));
    }
    allocate(&second, &process, (VA, PAGE_SIZE), AllocFlags::GTT);
    assert_eq!(of_devices(), [before[0], before[1] + PAGE_SIZE]);
    assert_eq!(system.used(), system.limit());
    drop(process);
    first.kfd.exit(ProcessKey(1));
    assert_eq!((system.used(), of_devices()), (0, before));
}

#[test]
fn suspended_device_leaves_the_queues_of_others_where_they_are() {
    let (first, second, process) = machine();
    queue(&first, &process, 0x1000_0000);
    queue(&second, &process, 0x2000_0000);
    let [other, own] = [&first, &second].map(|bench| {
        let fd = bench.device.smi.open(process.pasid(), 0).unwrap() as usize - 1;
        let client = lock(&bench.os().smi)[fd].clone();
        client.write(&EventKind::QueueEviction.mask().to_le_bytes()).unwrap();
        client
    });
    let said = |client: &Arc<dyn SmiClient>| {
        let mut bytes = [0; 256];
        let len = client.read(&mut bytes).unwrap_or(0);
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    second.gpu.suspend().unwrap();
    let evicted = |bench: &Bench| {
        let state = process.state.lock();
        state.devices.part(bench.node(&process).index).unwrap().evicted_ns(u64::MAX)
    };
    assert!(evicted(&second) > 0 && evicted(&first) == 0);
    assert_eq!(said(&other), "");
    assert!(said(&own).contains(&format!(" {:x} 3\n", second.device.gpu_id())), "the device that sleeps");
    assert_eq!(lock(&first.os().trace).as_slice(), ["add"]);
    assert_eq!(lock(&second.os().trace).as_slice(), ["add", "remove"]);
    // The first device goes on working for the process.
    queue_manager::destroy_queue(&process, 0).unwrap();
}

#[test]
fn process_ends_with_one_of_its_devices_and_leaves_nothing_on_the_others() {
    let (first, second, process) = machine();
    let before = second.gpu.usage();
    queue(&first, &process, 0x1000_0000);
    queue(&second, &process, 0x2000_0000);
    second.memory(&process, VA, PAGE_SIZE, AllocFlags::VRAM);
    first.gpu.remove();
    assert!(second.processes.of_key(process.key()).is_none());
    let after = second.gpu.usage();
    assert_eq!((after.processes, after.queues), (0, 0));
    assert_eq!((after.vram, after.gtt), (before.vram, before.gtt));
    // The machine goes on with what is left.
    let next = second.kfd.open(ProcessKey(9)).unwrap();
    assert_eq!(next.nodes.iter().map(|node| node.gpu_id).collect::<Vec<_>>(), [second.device.gpu_id()]);
}

#[test]
fn shared_virtual_memory_is_mapped_where_access_was_given() {
    let (first, second, process) = machine();
    share(&process, &[access(&second)]).unwrap();
    assert!(entry(&first, &process, SHARED).is_none());
    let on_second = entry(&second, &process, SHARED).unwrap();
    share(&process, &[access(&first)]).unwrap();
    assert_eq!(entry(&first, &process, SHARED), Some(on_second));
    // VRAM of a device that not all who have access reach is no place for it.
    let prefetch = |bench: &Bench| SvmAttribute {
        kind: KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
        value: bench.device.gpu_id().into(),
    };
    share(&process, &[prefetch(&second)]).unwrap();
    assert!(lock(&second.os().users.in_vram).is_empty());
    // Of the one that alone has access, it is.
    let none = SvmAttribute { kind: belfry_abi::kfd::svm::KFD_IOCTL_SVM_ATTR_NO_ACCESS, ..access(&first) };
    share(&process, &[none, prefetch(&second)]).unwrap();
    assert_eq!(lock(&second.os().users.in_vram).len(), 2);
    assert!(lock(&first.os().users.in_vram).is_empty());
    second.os().run_work();
    first.os().run_work();
    let (_, bits) = entry(&second, &process, SHARED).unwrap();
    assert_eq!((bits & PTE_SYSTEM, entry(&first, &process, SHARED)), (0, None));
}
