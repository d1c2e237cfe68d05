//! The whole path without a VM: open, memory, queue, packet, signal, event; and the state that is left when things go
//! away.
#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

use std::sync::atomic::Ordering;

use crate::common::{self, Client, PAGE, RW, gpu};
use belfry_abi::kfd::aperture::{
    GetProcessAperturesArgs, GetProcessAperturesNewArgs, ProcessDeviceApertures,
};
use belfry_abi::kfd::event::{
    EventData, KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_SIGNAL, KFD_IOC_WAIT_RESULT_COMPLETE,
    KFD_IOC_WAIT_RESULT_TIMEOUT, MemoryExceptionData, WaitEventsArgs,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{AllocFlags, GetAvailableMemoryArgs};
use belfry_abi::kfd::misc::{GetClockCountersArgs, GetVersionArgs};
use belfry_abi::kfd::queue::UpdateQueueArgs;
use belfry_kfd_hosted::{Errno, Error, HostedProcess, Node};
use zerocopy::FromBytes;

#[test]
fn version_apertures_and_clocks_are_those_of_the_real_interface() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let mut version = GetVersionArgs::default();
    client.ioctl(nr::GET_VERSION, &mut version).unwrap();
    assert_eq!((version.major_version, version.minor_version), (1, 17));

    let mut args = GetProcessAperturesNewArgs::default();
    client.ioctl(nr::GET_PROCESS_APERTURES_NEW, &mut args).unwrap();
    assert_eq!(args.num_of_nodes, 1);
    let mut apertures = [ProcessDeviceApertures::default(); 2];
    args.kfd_process_device_apertures_ptr = apertures.as_mut_ptr() as u64;
    args.num_of_nodes = 2;
    client.ioctl(nr::GET_PROCESS_APERTURES_NEW, &mut args).unwrap();
    assert_eq!(args.num_of_nodes, 1);
    assert_eq!(apertures[0].gpu_id, client.gpu_id);
    assert_eq!(apertures[0].lds_base, 1 << 48);
    assert_eq!(apertures[0].gpuvm_limit, (1 << 47) - 1);
    assert_eq!(apertures[1], ProcessDeviceApertures::default());
    let mut all = GetProcessAperturesArgs::default();
    client.ioctl(nr::GET_PROCESS_APERTURES, &mut all).unwrap();
    assert_eq!((all.num_of_nodes, all.process_apertures[0]), (1, apertures[0]));
    assert_eq!(all.process_apertures[1], ProcessDeviceApertures::default());

    let clocks = |gpu_id| {
        let mut args = GetClockCountersArgs { gpu_id, ..Default::default() };
        client.ioctl(nr::GET_CLOCK_COUNTERS, &mut args).unwrap();
        args
    };
    let (first, second) = (clocks(client.gpu_id), clocks(client.gpu_id));
    assert!(first.gpu_clock_counter > 0 && second.gpu_clock_counter >= first.gpu_clock_counter);
    assert!(second.cpu_clock_counter > first.cpu_clock_counter);
    assert_eq!(clocks(12345).gpu_clock_counter, 0);
}

#[test]
fn topology_is_complete_and_consistent() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let process = &client.process;
    assert_eq!(process.sysfs_list("nodes").unwrap(), ["0", "1"]);
    assert_eq!(process.sysfs_read("nodes/0/gpu_id").unwrap(), "0\n");
    assert_eq!(client.property("simd_count"), 4);
    assert_eq!(client.property("gfx_target_version"), 110_000);
    // With four address watches.
    let debugger = 0x2003_8000 | 0x280;
    assert_eq!(client.property("capability"), 0x0800_2000 | debugger, "64-bit doorbells, SVM, debugger");
    for node in 0..2 {
        let text = process.sysfs_read(&format!("nodes/{node}/properties")).unwrap();
        for (list, key) in
            [("mem_banks", "mem_banks_count"), ("caches", "caches_count"), ("io_links", "io_links_count")]
        {
            let entries = process.sysfs_list(&format!("nodes/{node}/{list}")).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            assert_eq!(line.trim().parse::<usize>().unwrap(), entries.len(), "node {node} {list}");
            for entry in entries {
                let item = process.sysfs_read(&format!("nodes/{node}/{list}/{entry}/properties")).unwrap();
                assert!(item.lines().all(|line| line.split(' ').count() == 2), "{item}");
            }
        }
    }
    assert!(process.sysfs_read("nodes/2/properties").is_err());
    assert!(process.sysfs_read("../../../etc/passwd").is_err());
}

#[test]
fn memory_is_the_same_for_both_sides_of_every_kind() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    for (flags, size) in [
        (AllocFlags::VRAM, 5 << 20),
        (AllocFlags::VRAM | AllocFlags::CONTIGUOUS, 3 * PAGE),
        (AllocFlags::GTT | AllocFlags::COHERENT, 3 << 20),
    ] {
        let buffer = client.alloc(size, flags | RW).unwrap();
        for offset in [0, (size / 2) & !7, size - 8] {
            assert_eq!(buffer.quad(offset).load(Ordering::Relaxed), 0, "memory is zeroed");
            buffer.quad(offset).store(offset ^ 0x5a5a, Ordering::Relaxed);
        }
        assert_eq!(client.free(buffer.handle), Err(Errno::EBUSY), "mapped");
        client.unmap(buffer.handle).unwrap();
        client.free(buffer.handle).unwrap();
        // The map keeps the memory.
        assert_eq!(buffer.quad(size - 8).load(Ordering::Relaxed), (size - 8) ^ 0x5a5a);
    }
}

#[test]
fn a_barrier_packet_decrements_its_signal_and_wakes_its_waiter() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    client.check_queue_works();
    assert!(gpu.device().stats().interrupts > 0);
}

#[test]
fn an_inactive_queue_does_not_run_and_an_active_one_catches_up() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let signal = client.create_signal();
    let mut queue = client.create_queue().unwrap();
    let update = |percentage| {
        let mut args = UpdateQueueArgs {
            ring_base_address: queue.args.ring_base_address,
            queue_id: queue.args.queue_id,
            ring_size: queue.args.ring_size,
            queue_percentage: percentage,
            queue_priority: 3,
        };
        client.ioctl(nr::UPDATE_QUEUE, &mut args)
    };
    update(0).unwrap();
    queue.barrier(&client.process, signal.memory.va);
    assert_eq!(client.wait(signal.event_id, 100).unwrap().0, KFD_IOC_WAIT_RESULT_TIMEOUT);
    assert_eq!(queue.read_index(), 0);
    let mut args = UpdateQueueArgs {
        ring_base_address: queue.args.ring_base_address,
        queue_id: queue.args.queue_id,
        ring_size: queue.args.ring_size,
        queue_percentage: 100,
        queue_priority: 3,
    };
    client.ioctl(nr::UPDATE_QUEUE, &mut args).unwrap();
    assert_eq!(client.wait(signal.event_id, 10_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
    // The read index may follow the signal.
    while queue.read_index() < 1 {
        std::thread::yield_now();
    }
    assert_eq!(queue.read_index(), 1);
}

#[test]
fn a_memory_fault_reaches_the_memory_event_and_not_the_neighbour() {
    let gpu = gpu();
    let faulty = Client::open(&gpu);
    let neighbour = Client::open(&gpu);
    let event = faulty.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
    let other = neighbour.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
    let mut queue = faulty.create_queue().unwrap();
    // Nothing is mapped there on the GPU.
    queue.barrier(&faulty.process, 0x7000_0000_0000);
    let (result, data) = faulty.wait(event.event_id, 10_000).unwrap();
    assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
    let fault = MemoryExceptionData::read_from_bytes(&data.data).unwrap();
    assert_eq!(fault.gpu_id, faulty.gpu_id);
    assert_eq!(fault.va, 0x7000_0000_0000);
    assert_eq!(neighbour.wait(other.event_id, 0).unwrap().0, KFD_IOC_WAIT_RESULT_TIMEOUT);
    neighbour.check_queue_works();
}

#[test]
fn device_and_driver_are_shown_with_what_a_client_has() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let _queue = client.create_queue().unwrap();
    let text = format!("{gpu:?}");
    for part in ["ShaderEngine {", "AqlQueue {", "driver: Some(KfdDevice {", "life: Mapped", "phase: Alive"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    gpu.unload();
    assert!(format!("{gpu:?}").contains("driver: None"));
}

#[test]
fn a_killed_process_with_running_queues_leaves_nothing_behind() {
    let gpu = gpu();
    let before = (gpu.pinned_ranges(), gpu.system_memory_used());
    for _ in 0..5 {
        let client = Client::open(&gpu);
        let signal = client.create_signal();
        let mut queues: Vec<_> = (0..4).map(|_| client.create_queue().unwrap()).collect();
        signal.memory.quad(8).store(1 << 20, Ordering::Release);
        for queue in &mut queues {
            for _ in 0..32 {
                queue.barrier(&client.process, signal.memory.va);
            }
        }
        drop(client);
        assert_eq!((gpu.pinned_ranges(), gpu.system_memory_used()), before);
        Client::open(&gpu).check_queue_works();
    }
}

#[test]
fn the_driver_comes_and_goes_twenty_times_with_queues_alive() {
    let gpu = gpu();
    for round in 0..20 {
        let client = Client::open(&gpu);
        client.check_queue_works();
        let _alive = client.create_queue().unwrap();
        if round % 2 == 0 {
            gpu.unload();
            assert!(matches!(HostedProcess::open(&gpu), Err(Error::NotLoaded)));
            let mut version = GetVersionArgs::default();
            assert_eq!(client.ioctl(nr::GET_VERSION, &mut version), Err(Errno::ENODEV));
            drop(client);
        } else {
            drop(client);
            gpu.unload();
        }
        assert_eq!((gpu.pinned_ranges(), gpu.system_memory_used()), (0, 0), "round {round}");
        gpu.load().unwrap();
    }
}

#[test]
fn queues_end_at_the_limit_and_come_back() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let args = client.queue_args().unwrap();
    let mut ids = Vec::new();
    let error = loop {
        assert!(ids.len() < 200);
        let mut args = args;
        match client.ioctl(nr::CREATE_QUEUE, &mut args) {
            Ok(_) => ids.push(args.queue_id),
            Err(error) => break error,
        }
    };
    assert_eq!(error, Errno::ENOSPC);
    assert_eq!(ids.len(), 127);
    for id in ids {
        client.destroy_queue(id).unwrap();
    }
    client.check_queue_works();
}

#[test]
fn vram_runs_out_with_enomem_and_recovers() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let free = || {
        let mut args = GetAvailableMemoryArgs { gpu_id: client.gpu_id, ..Default::default() };
        client.ioctl(nr::AVAILABLE_MEMORY, &mut args).unwrap();
        args.available
    };
    let before = free();
    let mut buffers = Vec::new();
    let error = loop {
        match client.alloc(1 << 20, AllocFlags::VRAM | RW) {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => break error,
        }
    };
    assert_eq!(error, Errno::ENOMEM);
    assert!(buffers.len() > 50, "{}", buffers.len());
    for buffer in buffers {
        client.unmap(buffer.handle).unwrap();
        client.free(buffer.handle).unwrap();
        // SAFETY: nothing uses it any more.
        unsafe { client.process.munmap(buffer.va as *mut u8, buffer.size as usize) }.unwrap();
    }
    assert_eq!(free(), before);
    assert_eq!(
        client.alloc_at(common::reserve(1 << 40), 1 << 40, AllocFlags::GTT | RW).err(),
        Some(Errno::ENOMEM)
    );
    client.check_queue_works();
}

#[test]
fn user_memory_that_goes_away_is_taken_from_the_gpu() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
    let signal = client.user(PAGE).unwrap();
    signal.quad(0).store(1, Ordering::Relaxed);
    signal.quad(8).store(2, Ordering::Relaxed);
    let mut queue = client.create_queue().unwrap();
    queue.barrier(&client.process, signal.va);
    while queue.read_index() < 1 {
        std::thread::yield_now();
    }
    // SAFETY: the test does not touch it again.
    unsafe { client.process.munmap(signal.va as *mut u8, PAGE as usize) }.unwrap();
    queue.barrier(&client.process, signal.va);
    assert_eq!(client.wait(event.event_id, 10_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
    // It stays mapped by name, as in Linux: its memory may come back.
    assert_eq!(client.free(signal.handle), Err(Errno::EBUSY));
    client.unmap(signal.handle).unwrap();
    client.free(signal.handle).unwrap();
}

#[test]
fn events_age_and_wait_for_all_or_any() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let first = client.create_event(KFD_IOC_EVENT_SIGNAL, 0).unwrap().event_id;
    let second = client.create_event(KFD_IOC_EVENT_SIGNAL, 0).unwrap().event_id;
    let wait = |all: u32, ages: [u64; 2], timeout: u32| {
        let mut events = [first, second].map(|event_id| EventData { event_id, ..Default::default() });
        for (event, age) in events.iter_mut().zip(ages) {
            event.data[..8].copy_from_slice(&age.to_le_bytes());
        }
        let mut args = WaitEventsArgs {
            events_ptr: events.as_mut_ptr() as u64,
            num_events: 2,
            wait_for_all: all,
            timeout,
            wait_result: 9,
        };
        client.ioctl(nr::WAIT_EVENTS, &mut args).unwrap();
        (args.wait_result, u64::from_le_bytes(events[0].data[..8].try_into().unwrap()))
    };
    let set = |event_id: u32| {
        let mut args = belfry_abi::kfd::event::EventIdArgs { event_id, pad: 0 };
        client.ioctl(nr::SET_EVENT, &mut args).unwrap();
    };
    assert_eq!(wait(0, [0, 0], 0).0, KFD_IOC_WAIT_RESULT_TIMEOUT);
    set(first);
    assert_eq!(wait(1, [0, 0], 10).0, KFD_IOC_WAIT_RESULT_TIMEOUT, "one of two");
    assert_eq!(
        wait(0, [0, 0], 0).0,
        KFD_IOC_WAIT_RESULT_COMPLETE,
        "an unfinished wait gives auto-reset events back"
    );
    assert_eq!(wait(0, [0, 0], 0).0, KFD_IOC_WAIT_RESULT_TIMEOUT, "a finished one takes them");
    assert_eq!(wait(0, [1, 1], 0), (KFD_IOC_WAIT_RESULT_COMPLETE, 2), "age 1 is over");
    assert_eq!(wait(0, [2, 1], 0).0, KFD_IOC_WAIT_RESULT_TIMEOUT, "age 2 is not");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait(1, [0, 0], 10_000).0);
        set(first);
        set(second);
        assert_eq!(waiter.join().unwrap(), KFD_IOC_WAIT_RESULT_COMPLETE);
    });
}

#[test]
fn the_render_node_answers_what_libdrm_asks() {
    use belfry_abi::kfd::drm::{
        AMDGPU_INFO_ACCEL_WORKING, AMDGPU_INFO_DEV_INFO, AMDGPU_INFO_HW_IP_COUNT, AMDGPU_INFO_READ_MMR_REG,
        DrmAmdgpuInfo, DrmAmdgpuInfoDevice, INFO,
    };
    let gpu = gpu();
    let client = Client::open(&gpu);
    let info = |query: u32, args: [u32; 4], out: *mut u8, size: u32| {
        let mut request = DrmAmdgpuInfo { return_pointer: out as u64, return_size: size, query, args };
        client.process.ioctl(Node::Render, INFO, (&raw mut request).cast())
    };
    let mut working = 0u32;
    info(AMDGPU_INFO_ACCEL_WORKING, [0; 4], (&raw mut working).cast(), 4).unwrap();
    assert_eq!(working, 1);
    // A library that knows less asks for less.
    let mut bytes = [0xeeu8; 448];
    info(AMDGPU_INFO_DEV_INFO, [0; 4], bytes.as_mut_ptr(), 440).unwrap();
    assert_eq!(bytes[440..], [0xee; 8]);
    let device = DrmAmdgpuInfoDevice::read_from_bytes(&bytes).unwrap();
    assert_eq!((device.device_id, device.family, device.cu_active_number), (0x744c, 145, 2));
    let mut register = 0u32;
    info(AMDGPU_INFO_READ_MMR_REG, [0x263e, 1, 0, 0], (&raw mut register).cast(), 4).unwrap();
    assert_eq!(register, 0x545);
    let mut out = 0u64;
    assert_eq!(
        info(AMDGPU_INFO_READ_MMR_REG, [0x263f, 1, 0, 0], (&raw mut out).cast(), 4),
        Err(Errno::EFAULT)
    );
    // As libdrm 2.4.134 asks: graphics, of which there is the block.
    info(AMDGPU_INFO_HW_IP_COUNT, [0; 4], (&raw mut out).cast(), 4).unwrap();
    assert_eq!(out, 1);
    assert_eq!(info(AMDGPU_INFO_ACCEL_WORKING, [0; 4], 8 as *mut u8, 4), Err(Errno::EFAULT));
}
