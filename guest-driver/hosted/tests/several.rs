//! A machine with two GPUs: one driver and one process for both.
#![expect(unsafe_code, reason = "a client of a driver passes pointers and uses descriptors")]

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{self, Client, PAGE, Queue, RW, Signal, config, reserve};
use belfry_abi::kfd::aperture::{GetProcessAperturesNewArgs, ProcessDeviceApertures};
use belfry_abi::kfd::event::{
    HwExceptionData, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{
    AllocFlags, ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs, MapMemoryToGpuArgs,
};
use belfry_device::GpuConfig;
use belfry_device::chip::MODELS;
use belfry_device::time::TimeSource;
use belfry_kfd_hosted::{Errno, HostedConfig, HostedGpu, HostedMachine, Links, Reach};
use zerocopy::FromBytes as _;

/// Command register of the PCI function.
const COMMAND: usize = 4;
/// Longer than the driver waits for any part of the device.
const TOO_LONG: Duration = Duration::from_secs(11);
/// Looks at a device in a row after which it does not answer.
const LOOKS: u64 = 100;

pub(crate) fn machine(gpus: [GpuConfig; 2], reach: Reach) -> HostedMachine {
    let configs = gpus.into_iter().map(|gpu| HostedConfig { reach, ..HostedConfig::from(gpu) });
    HostedMachine::new(configs.collect()).unwrap()
}

/// A process with an address space on each GPU, which requests go to the first one of, and the names of both.
pub(crate) fn client(machine: &HostedMachine) -> (Client, [u32; 2]) {
    let mut client = Client::open_only(&machine.gpus()[0]);
    let ids = [1, 2].map(|node| {
        client.process.sysfs_read(&format!("nodes/{node}/gpu_id")).unwrap().trim().parse::<u32>().unwrap()
    });
    for id in [ids[1], ids[0]] {
        client.gpu_id = id;
        client.acquire().unwrap();
    }
    (client, ids)
}

/// Maps a buffer object for GPUs; the result, and for how many it is mapped.
pub(crate) fn map(client: &Client, handle: u64, ids: &[u32]) -> (Result<i32, Errno>, u32) {
    let mut args = MapMemoryToGpuArgs {
        handle,
        device_ids_array_ptr: ids.as_ptr() as u64,
        n_devices: ids.len() as u32,
        n_success: 0,
    };
    (client.ioctl(nr::MAP_MEMORY_TO_GPU, &mut args), args.n_success)
}

/// A signal whose memory both GPUs reach.
fn signal(client: &Client, ids: &[u32]) -> Signal {
    let signal = client.create_signal();
    for buffer in [&signal.memory, &signal.page] {
        assert_eq!(map(client, buffer.handle, ids), (Ok(0), ids.len() as u32));
    }
    signal
}

/// Runs a packet of a queue, and sees its signal and its event.
fn run(client: &Client, queue: &mut Queue, signal: &Signal) {
    signal.memory.quad(8).store(1, Ordering::Release);
    queue.barrier(&client.process, signal.memory.va);
    let (result, _) = client.wait(signal.event_id, 10_000).unwrap();
    assert_eq!((result, signal.memory.quad(8).load(Ordering::Acquire)), (KFD_IOC_WAIT_RESULT_COMPLETE, 0));
}

/// A queue on each of the GPUs.
fn queues(client: &mut Client, ids: [u32; 2]) -> [Queue; 2] {
    ids.map(|id| {
        client.gpu_id = id;
        client.create_queue().unwrap()
    })
}

#[test]
fn topology_and_apertures_name_both_gpus() {
    let machine = machine([config(), config()], Reach::Pinned);
    let (mut client, ids) = client(&machine);
    assert_ne!(ids[0], ids[1]);
    // The first one is named as it is when it is alone.
    assert_eq!(Client::open_only(&common::gpu()).gpu_id, ids[0]);
    let nodes = client.process.sysfs_list("nodes").unwrap();
    assert_eq!(nodes, ["0", "1", "2"]);
    let mut found = Vec::new();
    for id in ids {
        client.gpu_id = id;
        let keys = ["drm_render_minor", "location_id", "io_links_count", "p2p_links_count"];
        found.push(keys.map(|key| client.property(key)));
    }
    assert_eq!(found, [[128, 0x100, 1, 1], [129, 0x200, 1, 1]]);
    let mut apertures = [ProcessDeviceApertures::default(); 3];
    let mut args = GetProcessAperturesNewArgs::default();
    client.ioctl(nr::GET_PROCESS_APERTURES_NEW, &mut args).unwrap();
    assert_eq!(args.num_of_nodes, 2);
    args.kfd_process_device_apertures_ptr = apertures.as_mut_ptr() as u64;
    client.ioctl(nr::GET_PROCESS_APERTURES_NEW, &mut args).unwrap();
    assert_eq!(apertures.map(|one| one.gpu_id), [ids[0], ids[1], 0]);
}

#[test]
fn queue_on_each_gpu_signals_memory_that_both_reach() {
    for reach in [Reach::Pinned, Reach::Process] {
        // Of every chip beside the next one.
        for (chip, next) in MODELS.iter().zip(MODELS.iter().cycle().skip(1)) {
            let machine =
                machine([GpuConfig { chip, ..config() }, GpuConfig { chip: next, ..config() }], reach);
            let (mut client, ids) = client(&machine);
            let signal = signal(&client, &ids);
            let mut queues = queues(&mut client, ids);
            for _ in 0..3 {
                queues.iter_mut().for_each(|queue| run(&client, queue, &signal));
            }
            // Doorbells of both are the same slice, each in a BAR of its own.
            assert_ne!(queues[0].doorbell, queues[1].doorbell);
            for queue in &queues {
                assert_eq!(queue.read_index(), 3);
                client.destroy_queue(queue.args.queue_id).unwrap();
            }
            for gpu in machine.gpus() {
                assert_eq!(gpu.device().stats().errors, Default::default());
            }
        }
    }
}

#[test]
fn vram_is_the_gpu_s_own_and_all_memory_is_reached_by_all() {
    let machine = machine([config(), config()], Reach::Pinned);
    let (mut client, ids) = client(&machine);
    let vram = client.alloc(PAGE, AllocFlags::VRAM | AllocFlags::PUBLIC | RW).unwrap();
    let gtt = client.alloc(PAGE, AllocFlags::GTT | RW).unwrap();
    let user = client.user(PAGE).unwrap();
    for buffer in [&vram, &gtt, &user] {
        assert_eq!(map(&client, buffer.handle, &ids), (Ok(0), 2));
    }
    // The second one has VRAM of its own, which is mapped through its own render node.
    client.gpu_id = ids[1];
    let other = client.alloc(PAGE, AllocFlags::VRAM | AllocFlags::PUBLIC | RW).unwrap();
    vram.quad(0).store(1, Ordering::Relaxed);
    other.quad(0).store(2, Ordering::Relaxed);
    assert_eq!((vram.quad(0).load(Ordering::Relaxed), other.handle >> 32), (1, u64::from(ids[1])));
    // A descriptor tells whose memory it is.
    for (buffer, id) in [(&vram, ids[0]), (&other, ids[1])] {
        let mut export = ExportDmabufArgs { handle: buffer.handle, ..Default::default() };
        client.ioctl(nr::EXPORT_DMABUF, &mut export).unwrap();
        // SAFETY: the descriptor was made for this call, and only this function has it.
        let _file = unsafe { OwnedFd::from_raw_fd(export.dmabuf_fd as i32) };
        let mut info = GetDmabufInfoArgs { dmabuf_fd: export.dmabuf_fd, ..Default::default() };
        client.ioctl(nr::GET_DMABUF_INFO, &mut info).unwrap();
        assert_eq!((info.gpu_id, info.size), (id, PAGE));
    }
}

#[test]
fn vram_of_a_descriptor_is_imported_for_another_gpu_of_the_process() {
    for (chip, reach) in MODELS.iter().zip([Reach::Pinned, Reach::Process, Reach::Pinned]) {
        let one = GpuConfig { chip, ..config() };
        let machine = machine([one.clone(), one], reach);
        let (mut client, ids) = client(&machine);
        client.gpu_id = ids[1];
        let far = client.alloc(PAGE, AllocFlags::VRAM | AllocFlags::PUBLIC | RW).unwrap();
        let mut export = ExportDmabufArgs { handle: far.handle, ..Default::default() };
        client.ioctl(nr::EXPORT_DMABUF, &mut export).unwrap();
        // SAFETY: the descriptor was made for this call, and only this function has it.
        let _file = unsafe { OwnedFd::from_raw_fd(export.dmabuf_fd as i32) };
        let (va_addr, dmabuf_fd) = (reserve(PAGE), export.dmabuf_fd);
        let mut import = ImportDmabufArgs { va_addr, gpu_id: ids[0], dmabuf_fd, handle: 0 };
        client.ioctl(nr::IMPORT_DMABUF, &mut import).unwrap();
        assert_eq!(import.handle >> 32, u64::from(ids[0]));
        assert_eq!(map(&client, import.handle, &ids), (Ok(0), 2), "{}", chip.name);
        // Each of them reaches it there: the completion of a packet is an atomic of the GPU.
        for (gpu, id) in machine.gpus().iter().zip(ids) {
            client.gpu_id = id;
            let mut queue = client.create_queue().unwrap();
            far.quad(8).store(1, Ordering::Release);
            queue.barrier(&client.process, va_addr);
            let done = || far.quad(8).load(Ordering::Acquire) == 0;
            assert!(gpu.wait_until(&done, Some(Duration::from_secs(60))), "{}", chip.name);
            client.destroy_queue(queue.args.queue_id).unwrap();
            assert_eq!(gpu.device().stats().errors, Default::default());
        }
    }
}

/// Has a GPU of a machine store to the VRAM of another one, by their places in the list of names.
pub(crate) fn store(
    machine: &HostedMachine,
    (client, ids): (&mut Client, &[u32]),
    (near, far): (usize, usize),
) {
    client.gpu_id = ids[far];
    let there = client.alloc(PAGE, AllocFlags::VRAM | AllocFlags::PUBLIC | RW).unwrap();
    assert_eq!(map(client, there.handle, &[ids[near], ids[far]]), (Ok(0), 2));
    client.gpu_id = ids[near];
    let mut queue = client.create_queue().unwrap();
    // The completion of a packet is an atomic of one GPU on the memory of the other one.
    for _ in 0..3 {
        there.quad(8).store(1, Ordering::Release);
        queue.barrier(&client.process, there.va);
        let done = || there.quad(8).load(Ordering::Acquire) == 0;
        assert!(machine.gpus()[near].wait_until(&done, Some(Duration::from_secs(60))));
    }
    client.destroy_queue(queue.args.queue_id).unwrap();
    for gpu in machine.gpus() {
        assert_eq!(gpu.device().stats().errors, Default::default());
    }
}

#[test]
fn gpu_stores_to_the_vram_of_another_one() {
    for reach in [Reach::Pinned, Reach::Process] {
        // Of every chip to the next one.
        for (chip, next) in MODELS.iter().zip(MODELS.iter().cycle().skip(1)) {
            let machine =
                machine([GpuConfig { chip, ..config() }, GpuConfig { chip: next, ..config() }], reach);
            let (mut client, ids) = client(&machine);
            store(&machine, (&mut client, &ids), (0, 1));
        }
    }
}

/// The engines over XGMI, which come after those over the bus; those if there are no others.
fn xgmi_engines(client: &Client) -> u64 {
    let [near, far] = ["num_sdma_engines", "num_sdma_xgmi_engines"].map(|key| client.property(key));
    if far == 0 { (1 << near) - 1 } else { ((1 << far) - 1) << near }
}

#[test]
fn gpus_are_linked_as_they_were_asked_to_be() {
    let chip = &belfry_device::chip::gfx942::MODEL;
    for (links, chip, lists, reached) in [
        (Links::Pcie, chip, [1, 1], true),
        (Links::None, chip, [1, 0], false),
        (Links::None, MODELS[0], [1, 0], false),
        (Links::Xgmi, MODELS[0], [1, 1], true),
    ] {
        let one = HostedConfig { links, ..HostedConfig::from(GpuConfig { chip, ..config() }) };
        let machine = HostedMachine::new(vec![one.clone(), one]).unwrap();
        let (mut client, ids) = client(&machine);
        let keys = ["hive_id", "io_links_count", "p2p_links_count"].map(|key| client.property(key));
        assert_eq!(keys, [0, lists[0], lists[1]], "{links} of {}", chip.name);
        client.gpu_id = ids[1];
        let vram = client.alloc(PAGE, AllocFlags::VRAM | AllocFlags::PUBLIC | RW).unwrap();
        let mapped = map(&client, vram.handle, &ids[..1]);
        assert_eq!(mapped, if reached { (Ok(0), 1) } else { (Err(Errno::EINVAL), 0) }, "{links}");
        let gtt = client.alloc(PAGE, AllocFlags::GTT | RW).unwrap();
        assert_eq!(map(&client, gtt.handle, &ids), (Ok(0), 2));
        if reached {
            store(&machine, (&mut client, &ids), (0, 1));
        }
    }
}

#[test]
fn hive_of_eight_has_an_engine_for_each_link() {
    let chip = &belfry_device::chip::gfx942::MODEL;
    let one = GpuConfig { chip, xccs: 8, cus: 8, vram_size: 16 << 20, workers: 1, ..config() };
    let machine = HostedMachine::new(vec![HostedConfig::from(one); 8]).unwrap();
    let client = Client::open_only(&machine.gpus()[0]);
    let mut all = 0;
    for near in 1..=8 {
        let mut engines = 0u64;
        let links = client.process.sysfs_list(&format!("nodes/{near}/io_links")).unwrap();
        assert_eq!(links.len(), 8, "the processors and seven GPUs");
        for link in &links[1..] {
            let path = format!("nodes/{near}/io_links/{}/properties", link.trim_end_matches('/'));
            let text = client.process.sysfs_read(&path).unwrap();
            let value = |key: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
                line.unwrap_or_else(|| panic!("{key} in {text}")).parse::<u64>().unwrap()
            };
            assert_eq!((value("type"), value("weight"), value("max_bandwidth")), (11, 15, 50_000));
            let engine = value("recommended_sdma_engine_id_mask");
            assert!(engine.is_power_of_two() && engine & engines == 0, "{text}");
            engines |= engine;
            all += 1;
        }
        // Every other one of those over XGMI.
        assert_eq!(engines, 0x5554);
    }
    assert_eq!(all, 56);
}

#[test]
fn gpus_with_xgmi_are_a_hive_whose_vram_is_one_range() {
    let chip = &belfry_device::chip::gfx942::MODEL;
    let one = GpuConfig { chip, ..config() };
    let machine = machine([one.clone(), GpuConfig { vram_size: 2 * one.vram_size, ..one }], Reach::Pinned);
    let (mut client, ids) = client(&machine);
    for (node, far) in [(1, 2), (2, 1)] {
        client.gpu_id = ids[node - 1];
        let keys = ["hive_id", "io_links_count", "p2p_links_count"].map(|key| client.property(key));
        assert_eq!(keys, [16, 2, 0]);
        let link = client.process.sysfs_read(&format!("nodes/{node}/io_links/1/properties")).unwrap();
        for line in [
            "type 11".to_owned(),
            format!("node_to {far}"),
            "weight 15".to_owned(),
            "min_bandwidth 50000".to_owned(),
            // All engines over XGMI of a card with one XCC.
            format!("recommended_sdma_engine_id_mask {}", xgmi_engines(&client)),
            "flags 1".to_owned(),
        ] {
            assert!(link.lines().any(|other| other == line), "{line} in {link}");
        }
    }
    let back = client.process.sysfs_read("nodes/0/io_links/1/properties").unwrap();
    let of_bus = ["weight 20", "recommended_sdma_engine_id_mask 3", "flags 3"];
    assert!(of_bus.iter().all(|line| back.lines().any(|other| other == *line)), "{back}");
    store(&machine, (&mut client, &ids), (0, 1));
    store(&machine, (&mut client, &ids), (1, 0));
    // One that is alone is in no hive.
    let alone = Client::open(&HostedGpu::new(GpuConfig { chip, ..config() }).unwrap());
    assert_eq!(alone.property("hive_id"), 0);
}

#[test]
fn reset_of_one_gpu_leaves_the_other_one_s_queues_alone() {
    let time = TimeSource::manual();
    let machine = machine([config(), GpuConfig { time: time.clone(), ..config() }], Reach::Pinned);
    let (mut client, ids) = client(&machine);
    let signal = signal(&client, &ids);
    let [mut alive, lost] = queues(&mut client, ids);
    run(&client, &mut alive, &signal);
    let reset = client.create_event(KFD_IOC_EVENT_HW_EXCEPTION, 0).unwrap();
    assert_eq!(client.wait(reset.event_id, 0).unwrap().0, KFD_IOC_WAIT_RESULT_TIMEOUT);
    // Without bus mastering the second one neither reads its rings nor answers.
    machine.gpus()[1].device().config_write(COMMAND, &2u16.to_le_bytes());
    let destroyed = std::thread::scope(|scope| {
        let destroys = scope.spawn(|| client.destroy_queue(lost.args.queue_id));
        time.wait_for_pauses(LOOKS);
        // The first one works meanwhile.
        signal.memory.quad(8).store(1, Ordering::Release);
        alive.barrier(&client.process, signal.memory.va);
        // SAFETY: memory that is mapped for as long as the test runs.
        let value = unsafe { AtomicU64::from_ptr((signal.memory.va + 8) as *mut u64) };
        machine.gpus()[0].wait_until(&|| value.load(Ordering::Acquire) == 0, None);
        time.advance(TOO_LONG);
        destroys.join().unwrap()
    });
    assert_eq!(destroyed, Err(Errno::ETIME));
    let (result, event) = client.wait(reset.event_id, 10_000).unwrap();
    assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
    assert_eq!(HwExceptionData::read_from_bytes(&event.data[..16]).unwrap().gpu_id, ids[1]);
    // What was made before the reset goes on, and so does what comes after it; on the second one only for a new process.
    run(&client, &mut alive, &signal);
    for (id, result) in [(ids[0], Ok(0)), (ids[1], Err(Errno::EIO))] {
        client.gpu_id = id;
        let mut args = client.queue_args().unwrap();
        assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), result, "{id}");
    }
    drop(client);
    let mut next = Client::open_only(&machine.gpus()[0]);
    next.gpu_id = ids[1];
    next.acquire().unwrap();
    next.check_queue_works();
}

#[test]
fn process_ends_with_the_first_of_its_gpus_and_the_machine_goes_on() {
    let machine = machine([config(), config()], Reach::Pinned);
    let (client, ids) = client(&machine);
    machine.gpus()[1].unload();
    assert_eq!(client.create_event(KFD_IOC_EVENT_HW_EXCEPTION, 0).err(), Some(Errno::ENODEV));
    let alone = Client::open(&machine.gpus()[0]);
    assert_eq!((alone.gpu_id, alone.process.sysfs_list("nodes").unwrap().len()), (ids[0], 2));
    alone.check_queue_works();
    // It comes back behind the first one, with its name.
    machine.gpus()[1].load().unwrap();
    let (mut both, again) = self::client(&machine);
    assert_eq!(again, ids);
    let signal = signal(&both, &ids);
    queues(&mut both, ids).iter_mut().for_each(|queue| run(&both, queue, &signal));
    drop((client, alone, both));
    assert_eq!(machine.gpus()[0].pinned_ranges(), 0);
}
