//! Partitions of a gfx942: a node for each, queues and interrupts of its own, and the switch by sysfs.

#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

mod memory;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::common::{self, Client, PAGE, RW, Signal};
use belfry_abi::kfd::aperture::{
    GetProcessAperturesArgs, GetProcessAperturesNewArgs, ProcessDeviceApertures,
};
use belfry_abi::kfd::event::{
    KFD_IOC_EVENT_MEMORY, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT, MemoryExceptionData,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{AcquireVmArgs, AllocFlags, MapMemoryToGpuArgs};
use belfry_abi::partition::ComputePartition::{self, Cpx, Dpx, Qpx, Spx};
use belfry_device::chip::gfx942;
use belfry_device::{GpuConfig, ResetKind};
use belfry_kfd_hosted::{Errno, HostedGpu, Node};
use zerocopy::FromBytes as _;

/// A gfx942 of `xccs` graphics cores with one compute unit each, which starts in the mode `partition`.
fn gpu(xccs: u32, partition: ComputePartition) -> Arc<HostedGpu> {
    let config = GpuConfig { chip: &gfx942::MODEL, xccs, cus: xccs, partition, ..common::config() };
    HostedGpu::new(config).unwrap()
}

fn ids(client: &Client) -> Vec<u32> {
    let nodes = client.process.sysfs_list("nodes").unwrap();
    let id = |node: &String| {
        let node = node.trim_end_matches('/');
        client.process.sysfs_read(&format!("nodes/{node}/gpu_id")).unwrap()
    };
    nodes.iter().skip(1).map(|node| id(node).trim().parse().unwrap()).collect()
}

/// A process that has the address space of every node.
fn open(gpu: &Arc<HostedGpu>) -> (Client, Vec<u32>) {
    let mut client = Client::open_only(gpu);
    let ids = ids(&client);
    for &id in &ids {
        client.gpu_id = id;
        client.acquire().unwrap();
    }
    client.gpu_id = ids[0];
    (client, ids)
}

/// A signal, and the page of its event, that every node has.
fn signal_of_all(client: &mut Client, ids: &[u32]) -> Signal {
    client.gpu_id = ids[0];
    let signal = client.create_signal();
    for &id in ids {
        client.gpu_id = id;
        client.map(signal.memory.handle).unwrap();
        client.map(signal.page.handle).unwrap();
    }
    client.gpu_id = ids[0];
    signal
}

/// Sum of the nodes' values of a key.
fn sum(client: &mut Client, ids: &[u32], key: &str) -> u64 {
    let of = |&id: &u32| {
        client.gpu_id = id;
        client.property(key)
    };
    ids.iter().map(of).sum()
}

#[test]
fn each_partition_is_a_node_of_the_topology() {
    for (xccs, mode, count) in [(2, Spx, 1), (2, Cpx, 2), (4, Dpx, 2), (4, Cpx, 4), (8, Qpx, 4)] {
        let gpu = gpu(xccs, mode);
        let (mut client, ids) = open(&gpu);
        assert_eq!(ids.len(), count, "{mode} of {xccs}");
        let xccs = u64::from(xccs);
        assert_eq!(sum(&mut client, &ids, "num_xcc"), xccs);
        assert_eq!(sum(&mut client, &ids, "simd_count"), 4 * xccs);
        let engines = ["num_sdma_engines", "num_sdma_xgmi_engines"];
        assert_eq!(engines.map(|key| sum(&mut client, &ids, key)).iter().sum::<u64>(), 2 * xccs);
        let place = |client: &mut Client, id| {
            client.gpu_id = id;
            (client.property("location_id"), client.property("domain"), client.property("drm_render_minor"))
        };
        let first = place(&mut client, ids[0]);
        for (number, &id) in (0u64..).zip(&ids) {
            assert_eq!(place(&mut client, id), (first.0 | number, first.1, first.2 + number));
            let links = format!("nodes/{}/io_links", number + 1);
            let to = |link| property(&client, &format!("{links}/{link}"), "node_to");
            let to: Vec<_> = (0..count).map(to).collect();
            let mut expected: Vec<_> = (0..=count as u64).filter(|&to| to != number + 1).collect();
            expected.sort_unstable();
            assert_eq!(to, expected);
            // To the processors over PCIe, to the other partitions within the chip.
            let kinds = (0..count).map(|link| property(&client, &format!("{links}/{link}"), "type"));
            assert!(kinds.eq(std::iter::once(2).chain(std::iter::repeat_n(11, count - 1))));
        }
        let memory =
            |number: usize| property(&client, &format!("nodes/{number}/mem_banks/0"), "size_in_bytes");
        assert!((1..=count).all(|number| memory(number) == memory(1)));
        let bad = format!("nodes/{}/gpu_id", count + 1);
        assert_eq!(client.process.sysfs_read(&bad).unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(client.process.sysfs_read("generation_id").unwrap(), format!("{}\n", count + 1));
    }
}

fn property(client: &Client, folder: &str, key: &str) -> u64 {
    let text = client.process.sysfs_read(&format!("{folder}/properties")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {key} in {folder}")).parse().unwrap()
}

#[test]
fn apertures_of_all_nodes_are_told() {
    let gpu = gpu(4, Cpx);
    let (client, ids) = open(&gpu);
    let mut old = GetProcessAperturesArgs::default();
    client.ioctl(nr::GET_PROCESS_APERTURES, &mut old).unwrap();
    let found: Vec<u32> = old.process_apertures.iter().map(|one| one.gpu_id).take(4).collect();
    assert_eq!((old.num_of_nodes, found), (4, ids.clone()));
    let mut new = GetProcessAperturesNewArgs::default();
    client.ioctl(nr::GET_PROCESS_APERTURES_NEW, &mut new).unwrap();
    assert_eq!(new.num_of_nodes, 4);
    for (room, told) in [(5, 4), (4, 4), (2, 2)] {
        let mut all = [ProcessDeviceApertures::default(); 5];
        new = GetProcessAperturesNewArgs { num_of_nodes: room, ..new };
        new.kfd_process_device_apertures_ptr = all.as_mut_ptr() as u64;
        client.ioctl(nr::GET_PROCESS_APERTURES_NEW, &mut new).unwrap();
        assert_eq!(new.num_of_nodes as usize, told);
        assert!(all[..told].iter().map(|one| one.gpu_id).eq(ids[..told].iter().copied()));
        assert!(all[told..].iter().all(|one| one.gpu_id == 0));
    }
    new.num_of_nodes = 6;
    assert_eq!(client.ioctl(nr::GET_PROCESS_APERTURES_NEW, &mut new), Err(Errno::EINVAL));
}

#[test]
fn queues_of_every_node_complete_side_by_side() {
    for (xccs, mode) in [(2, Cpx), (4, Dpx), (8, Cpx)] {
        let gpu = gpu(xccs, mode);
        let (mut client, ids) = open(&gpu);
        let signal = signal_of_all(&mut client, &ids);
        let mut queues = Vec::new();
        for &id in &ids {
            client.gpu_id = id;
            queues.push(client.create_queue().unwrap());
        }
        let mut slices: Vec<u64> = queues.iter().map(|queue| queue.args.doorbell_offset >> 46).collect();
        slices.dedup();
        assert_eq!(slices.len(), ids.len(), "the doorbells of each are its own");
        for _ in 0..3 {
            for queue in &mut queues {
                signal.memory.quad(8).store(1, Ordering::Release);
                queue.barrier(&client.process, signal.memory.va);
                let (result, _) = client.wait(signal.event_id, 10_000).unwrap();
                assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE, "{mode} of {xccs}");
            }
        }
        // A queue that goes leaves the others.
        client.destroy_queue(queues.remove(0).args.queue_id).unwrap();
        let queue = queues.last_mut().unwrap();
        signal.memory.quad(8).store(1, Ordering::Release);
        queue.barrier(&client.process, signal.memory.va);
        assert_eq!(client.wait(signal.event_id, 10_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
        assert_eq!(gpu.device().stats().errors, Default::default());
    }
}

#[test]
fn faults_are_told_as_those_of_the_node_that_has_them() {
    for number in 0..4 {
        let gpu = gpu(4, Cpx);
        let (mut client, ids) = open(&gpu);
        client.gpu_id = ids[number];
        let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
        let mut queue = client.create_queue().unwrap();
        // Nothing is mapped there on the GPU.
        queue.barrier(&client.process, 0x7000_0000_0000);
        let (result, data) = client.wait(event.event_id, 10_000).unwrap();
        assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
        let fault = MemoryExceptionData::read_from_bytes(&data.data).unwrap();
        assert_eq!((fault.gpu_id, fault.va), (ids[number], 0x7000_0000_0000), "{ids:?}");
    }
}

#[test]
fn a_file_of_a_render_node_is_one_node_s_and_those_of_no_partition_are_not_there() {
    let gpu = gpu(4, Dpx);
    let client = Client::open(&gpu);
    let ids = ids(&client);
    let acquire = |gpu_id, drm_fd: i32| {
        client.ioctl(nr::ACQUIRE_VM, &mut AcquireVmArgs { drm_fd: drm_fd as u32, gpu_id })
    };
    let files = [0, 1, 2].map(|number| client.process.render_fd_of(number));
    assert_eq!(acquire(ids[1], files[0]), Err(Errno::EINVAL), "the first node has it");
    assert_eq!(acquire(ids[1], files[2]), Err(Errno::EINVAL), "two partitions");
    assert_eq!(acquire(ids[0], files[1]), Err(Errno::EBUSY), "it has one");
    assert_eq!(acquire(ids[0], files[0]), Ok(0));
    // Which partition's it is does not matter to KFD.
    assert_eq!(acquire(ids[1], files[1]), Ok(0));
    let mut version = [0u64; 8];
    let ask = |node, version: &mut [u64; 8]| {
        client.process.ioctl(node, belfry_abi::kfd::drm::DRM_IOCTL_VERSION, version.as_mut_ptr().cast())
    };
    assert_eq!(ask(Node::Partition(1), &mut version), Ok(0));
    assert_eq!(ask(Node::Partition(2), &mut version), Err(Errno::ENOENT));
}

#[test]
fn processes_share_the_partitions_and_know_nothing_of_each_other() {
    let gpu = gpu(4, Cpx);
    let all: Vec<_> = (0..3).map(|_| open(&gpu)).collect();
    let queues: Vec<_> =
        all.iter().map(|(client, _)| (client.create_signal(), client.create_queue())).collect();
    for ((client, _), (signal, queue)) in all.iter().zip(queues) {
        queue.unwrap().barrier(&client.process, signal.memory.va);
        assert_eq!(client.wait(signal.event_id, 10_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
    }
    let (client, ids) = &all[0];
    let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
    assert_eq!(client.wait(event.event_id, 0).unwrap().0, KFD_IOC_WAIT_RESULT_TIMEOUT);
    assert_eq!(ids, &all[1].1);
}

#[test]
fn unknown_nodes_and_those_that_were_not_acquired_are_refused() {
    let gpu = gpu(2, Cpx);
    let mut client = Client::open(&gpu);
    let ids = ids(&client);
    let queue = client.queue_args().unwrap();
    let create = |gpu_id| {
        client.ioctl(nr::CREATE_QUEUE, &mut belfry_abi::kfd::queue::CreateQueueArgs { gpu_id, ..queue })
    };
    let unknown = (1..=u16::MAX.into()).find(|id| !ids.contains(id)).unwrap();
    assert_eq!(create(unknown), Err(Errno::EINVAL));
    assert_eq!(create(ids[1]), Err(Errno::ESRCH));
    for gpu_id in [unknown, 0, ids[1] | 1 << 16] {
        let mut args = AcquireVmArgs { drm_fd: client.process.render_fd() as u32, gpu_id };
        assert_eq!(client.ioctl(nr::ACQUIRE_VM, &mut args), Err(Errno::EINVAL), "{gpu_id:#x}");
    }
    client.gpu_id = ids[1];
    let flags = AllocFlags::VRAM | RW;
    assert_eq!(client.alloc(PAGE, flags).unwrap_err(), Errno::ENODEV);
    client.gpu_id = unknown;
    assert_eq!(client.alloc(PAGE, flags).unwrap_err(), Errno::EINVAL);
    client.gpu_id = ids[0];
    let buffer = client.alloc(PAGE, flags).unwrap();
    let both = [ids[0], ids[1]];
    let mut args = MapMemoryToGpuArgs {
        handle: buffer.handle,
        device_ids_array_ptr: both.as_ptr() as u64,
        n_devices: 2,
        n_success: 0,
    };
    assert_eq!(client.ioctl(nr::MAP_MEMORY_TO_GPU, &mut args), Err(Errno::ENODEV));
    assert_eq!(args.n_success, 1);
}

/// A file of the folder about the properties of each mode.
fn configured(gpu: &HostedGpu, file: &str) -> String {
    gpu.sysfs_read(&format!("compute_partition_config/{file}")).unwrap()
}

#[test]
fn folders_say_what_a_partition_has_in_the_mode_that_is_chosen() {
    const CHOICE: &str = "compute_partition_config/xcp_config";
    let gpu = gpu(8, Dpx);
    assert_eq!(configured(&gpu, "supported_xcp_configs"), "SPX, DPX, QPX, CPX\n");
    assert_eq!(configured(&gpu, "supported_nps_configs"), "NPS1\n");
    assert_eq!(configured(&gpu, "xcp_config"), "DPX\n", "that of now");
    let resources = ["xcc", "dma", "dec", "jpeg"];
    let found = || {
        let of = |name: &str, file: &str| configured(&gpu, &format!("{name}/{file}")).trim().to_owned();
        resources.map(|name| [of(name, "num_inst"), of(name, "num_shared")].join(" "))
    };
    assert_eq!(found(), ["4 1", "8 1", "0 0", "0 0"]);
    for (mode, expected) in [("CPX", ["1 1", "2 1"]), ("qpx\n", ["2 1", "4 1"]), ("SPX", ["8 1", "16 1"])] {
        gpu.card_write(CHOICE, mode).unwrap();
        assert_eq!(configured(&gpu, "xcp_config"), format!("{}\n", mode.trim().to_uppercase()));
        assert_eq!(found()[..2], expected);
    }
    // The partitions are as they were.
    assert_eq!(card(&gpu, CURRENT), "DPX\n");
    for bad in ["TPX", "", "NPS1"] {
        assert_eq!(gpu.card_write(CHOICE, bad), Err(Errno::EINVAL), "{bad:?}");
    }
    let (client, _) = open(&gpu);
    let listed = client.process.sysfs_list("compute_partition_config").unwrap();
    assert!(resources.iter().all(|name| listed.iter().any(|entry| entry == name)), "{listed:?}");
    let missing = gpu.sysfs_read("compute_partition_config/xcc/num");
    assert_eq!(missing, Err(Errno::ENOENT));
    // Chips that are not shared out have none of it.
    let gpu = common::gpu();
    assert_eq!(gpu.sysfs_read("compute_partition_config/xcp_config"), Err(Errno::ENOENT));
    assert_eq!(gpu.card_write(CHOICE, "SPX"), Err(Errno::ENOENT));
}

#[test]
fn nodes_have_unique_ids_of_which_the_first_is_the_card_s() {
    let gpu = gpu(8, Qpx);
    let (client, ids) = open(&gpu);
    let of = |number: usize| property(&client, &format!("nodes/{number}"), "unique_id");
    let found: Vec<u64> = (1..=ids.len()).map(of).collect();
    let card = u64::from_str_radix(card(&gpu, "unique_id").trim(), 16).unwrap();
    assert_eq!(found, [0, 2, 4, 6].map(|xcc| card | xcc << 32), "by the first XCC");
}

fn card(gpu: &HostedGpu, file: &str) -> String {
    String::from_utf8(gpu.card_read(file).unwrap()).unwrap()
}

const CURRENT: &str = "current_compute_partition";

#[test]
fn files_say_how_the_cores_are_shared_out_and_can_be() {
    for (xccs, mode, available) in [
        (8, Dpx, "SPX, DPX, QPX, CPX\n"),
        (6, Spx, "SPX, TPX, CPX\n"),
        (2, Cpx, "SPX, CPX\n"),
        (1, Spx, "SPX\n"),
    ] {
        let gpu = gpu(xccs, mode);
        assert_eq!(card(&gpu, CURRENT), format!("{mode}\n"));
        assert_eq!(card(&gpu, "available_compute_partition"), available);
        assert_eq!(card(&gpu, "current_memory_partition"), "NPS1\n");
        assert_eq!(gpu.card_write("available_compute_partition", "SPX"), Err(Errno::EACCES));
        assert_eq!(gpu.card_write("current_memory_partition", "NPS1"), Err(Errno::EACCES));
    }
    // Chips that are not shared out have none of them.
    let gpu = common::gpu();
    for file in [CURRENT, "available_compute_partition", "current_memory_partition"] {
        assert_eq!(gpu.card_read(file), Err(Errno::ENOENT), "{file}");
        assert_eq!(gpu.card_write(file, "SPX"), Err(Errno::ENOENT), "{file}");
    }
}

#[test]
fn switch_makes_other_nodes_whose_queues_run() {
    let gpu = gpu(4, Spx);
    let generation = || gpu.sysfs_read("generation_id").unwrap().trim().parse::<u32>().unwrap();
    let (mut before, mut known) = (generation(), Vec::new());
    for (mode, count) in [(Cpx, 4), (Dpx, 2), (Spx, 1), (Cpx, 4)] {
        gpu.card_write(CURRENT, &format!("{mode}\n")).unwrap();
        assert_eq!(card(&gpu, CURRENT), format!("{mode}\n"));
        assert!(generation() > before);
        before = generation();
        let (mut client, ids) = open(&gpu);
        assert_eq!(ids.len(), count, "{mode}");
        assert!(known.iter().all(|(other, known)| (known == &ids) == (*other == mode)), "{known:x?}");
        known.push((mode, ids.clone()));
        let signal = signal_of_all(&mut client, &ids);
        for id in ids {
            client.gpu_id = id;
            let mut queue = client.create_queue().unwrap();
            signal.memory.quad(8).store(1, Ordering::Release);
            queue.barrier(&client.process, signal.memory.va);
            assert_eq!(client.wait(signal.event_id, 10_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
        }
    }
    assert_eq!(gpu.device().stats().errors, Default::default());
    // The driver finds the cores as the last one left them.
    gpu.unload();
    gpu.load().unwrap();
    assert_eq!(card(&gpu, CURRENT), "CPX\n");
}

#[test]
fn switch_is_refused_while_a_process_has_the_device_open() {
    let gpu = gpu(4, Dpx);
    let (client, ids) = open(&gpu);
    let generation = gpu.sysfs_read("generation_id");
    assert_eq!(gpu.card_write(CURRENT, "CPX"), Err(Errno::EBUSY));
    // What is so already is no switch.
    assert_eq!(gpu.card_write(CURRENT, "dpx"), Ok(()));
    assert_eq!((card(&gpu, CURRENT), gpu.sysfs_read("generation_id")), ("DPX\n".to_owned(), generation));
    client.check_queue_works();
    assert_eq!(self::ids(&client), ids);
    drop(client);
    gpu.card_write(CURRENT, "CPX").unwrap();
    open(&gpu).0.check_queue_works();
}

#[test]
fn modes_that_the_cores_do_not_have_are_refused() {
    for (xccs, bad) in
        [(4, &["QPX", "TPX", "", "C", "NPS1", "\u{e9}X", "xSPX"][..]), (2, &["DPX"]), (3, &["CPX"])]
    {
        let gpu = gpu(xccs, Spx);
        for text in bad {
            assert_eq!(gpu.card_write(CURRENT, text), Err(Errno::EINVAL), "{text:?} of {xccs}");
        }
        assert_eq!(card(&gpu, CURRENT), "SPX\n");
        Client::open(&gpu).check_queue_works();
    }
}

#[test]
fn driver_goes_by_what_the_cores_say_when_it_is_loaded() {
    let gpu = gpu(4, Spx);
    gpu.card_write(CURRENT, "CPX").unwrap();
    gpu.unload();
    gpu.device().reset(ResetKind::Flr);
    gpu.load().unwrap();
    // After a reset the device is as it was made.
    assert_eq!(card(&gpu, CURRENT), "SPX\n");
    open(&gpu).0.check_queue_works();
}
