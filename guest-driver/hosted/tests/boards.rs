//! Machines whose GPUs differ: hives, memory nodes, links in the topology, and memory that is reached by them or refused.
#![expect(unsafe_code, reason = "a client of a driver passes pointers and uses descriptors")]

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{Client, PAGE, RW, config, reserve};
use crate::several::{map, store};
use belfry_abi::kfd::drm::*;
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{AllocFlags, ExportDmabufArgs, ImportDmabufArgs};
use belfry_device::GpuConfig;
use belfry_device::chip::{gfx942, gfx1100};
use belfry_kfd_hosted::{Errno, Hive, HostedConfig, HostedMachine, HostedProcess, Links, Node, Numa, Place};

fn mi300x() -> GpuConfig {
    GpuConfig { chip: &gfx942::MODEL, ..config() }
}

fn navi31() -> GpuConfig {
    GpuConfig { chip: &gfx1100::MODEL, ..config() }
}

fn machine(gpus: Vec<GpuConfig>, links: Links) -> HostedMachine {
    let configs = gpus.into_iter().map(|gpu| HostedConfig { links, ..gpu.into() });
    HostedMachine::new(configs.collect()).unwrap()
}

/// A process with an address space on each GPU, whose nodes begin with number `first`, and the names of all of them.
fn client(machine: &HostedMachine, first: usize) -> (Client, Vec<u32>) {
    let mut client = Client::open_only(machine.first());
    let ids: Vec<u32> = (first..first + machine.gpus().len())
        .map(|node| {
            client.process.sysfs_read(&format!("nodes/{node}/gpu_id")).unwrap().trim().parse().unwrap()
        })
        .collect();
    // The first one is the last to be named, so that requests go there.
    for &id in ids.iter().rev() {
        client.gpu_id = id;
        client.acquire().unwrap();
    }
    (client, ids)
}

/// Links of a node's list: where to, type, weight and flags.
fn links(client: &Client, node: usize, list: &str) -> Vec<[u32; 4]> {
    let items = client.process.sysfs_list(&format!("nodes/{node}/{list}")).unwrap();
    let of = |item: &String| {
        let path = format!("nodes/{node}/{list}/{}/properties", item.trim_end_matches('/'));
        let text = client.process.sysfs_read(&path).unwrap();
        ["node_to", "type", "weight", "flags"].map(|key| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{key} in {text}")).parse().unwrap()
        })
    };
    items.iter().map(of).collect()
}

fn hives(client: &mut Client, ids: &[u32]) -> Vec<u64> {
    let of = |&id: &u32| {
        client.gpu_id = id;
        client.property("hive_id")
    };
    ids.iter().map(of).collect()
}

/// Exports memory of one GPU, and imports it for another one.
fn import(client: &mut Client, from: u32, to: u32, kind: AllocFlags) -> Result<i32, Errno> {
    client.gpu_id = from;
    let memory = client.alloc(PAGE, kind | RW).unwrap();
    let mut export = ExportDmabufArgs { handle: memory.handle, ..Default::default() };
    client.ioctl(nr::EXPORT_DMABUF, &mut export).unwrap();
    // SAFETY: the descriptor was made for this call, and only this function has it.
    let _file = unsafe { OwnedFd::from_raw_fd(export.dmabuf_fd as i32) };
    let mut args =
        ImportDmabufArgs { va_addr: reserve(PAGE), gpu_id: to, dmabuf_fd: export.dmabuf_fd, handle: 0 };
    client.ioctl(nr::IMPORT_DMABUF, &mut args)
}

#[test]
fn gpus_of_a_chip_with_xgmi_are_a_hive_beside_one_without() {
    let machine = machine(vec![navi31(), mi300x(), mi300x()], Links::Xgmi);
    let (mut client, ids) = client(&machine, 1);
    assert_eq!(hives(&mut client, &ids), [0, 16, 16]);
    for (node, xgmi, over_bus) in [(1, None, &[2, 3][..]), (2, Some(3), &[1]), (3, Some(2), &[1])] {
        let direct: Vec<_> = links(&client, node, "io_links").into_iter().skip(1).collect();
        assert_eq!(direct, xgmi.map(|to| [to, 11, 15, 1]).into_iter().collect::<Vec<_>>(), "{node}");
        let peers: Vec<_> = over_bus.iter().map(|&to| [to, 2, 40, 3]).collect();
        assert_eq!(links(&client, node, "p2p_links"), peers, "{node}");
    }
    // The places of the hive are not the numbers of its GPUs.
    for near in 0..3 {
        for far in (0..3).filter(|&far| far != near) {
            store(&machine, (&mut client, &ids), (near, far));
        }
    }
}

#[test]
fn two_hives_have_names_and_reach_each_other_over_the_bus_alone() {
    let vram = mi300x().vram_size;
    let gpus = || -> Vec<GpuConfig> {
        let [even, odd] = [(0, [0, 2]), (1, [1, 3])]
            .map(|(id, numbers)| Hive::places(id, &numbers.map(|number| (number, vram))).unwrap());
        let places = [even[0], odd[0], even[1], odd[1]];
        places.into_iter().map(|hive| GpuConfig { hive: Some(hive), ..mi300x() }).collect()
    };
    for links in [Links::Pcie, Links::None] {
        let machine = machine(gpus(), links);
        let (mut client, ids) = client(&machine, 1);
        assert_eq!(hives(&mut client, &ids), [16, 17, 16, 17]);
        for (near, far) in [(0, 2), (2, 0), (1, 3), (3, 1)] {
            store(&machine, (&mut client, &ids), (near, far));
        }
        client.gpu_id = ids[1];
        let there = client.alloc(PAGE, AllocFlags::VRAM | AllocFlags::PUBLIC | RW).unwrap();
        let reached = map(&client, there.handle, &ids[..1]);
        let imported = import(&mut client, ids[1], ids[0], AllocFlags::VRAM | AllocFlags::PUBLIC);
        if links == Links::Pcie {
            assert_eq!((reached, imported), ((Ok(0), 1), Ok(0)));
            store(&machine, (&mut client, &ids), (0, 1));
        } else {
            assert_eq!((reached, imported), ((Err(Errno::EINVAL), 0), Err(Errno::EINVAL)));
        }
        // Of the same hive, and system memory.
        let vram = AllocFlags::VRAM | AllocFlags::PUBLIC;
        assert_eq!(import(&mut client, ids[2], ids[0], vram), Ok(0));
        assert_eq!(import(&mut client, ids[1], ids[0], AllocFlags::GTT), Ok(0));
    }
}

#[test]
fn vram_of_a_descriptor_is_refused_where_there_are_no_links() {
    for chip in belfry_device::chip::MODELS {
        let one = GpuConfig { chip, ..config() };
        let machine = machine(vec![one.clone(), one], Links::None);
        let (mut client, ids) = client(&machine, 1);
        let vram = AllocFlags::VRAM | AllocFlags::PUBLIC;
        // What an APU gives for VRAM is system memory.
        let far = if chip.name == "gfx1151" { Ok(0) } else { Err(Errno::EINVAL) };
        assert_eq!(import(&mut client, ids[1], ids[0], vram), far, "{chip}");
        assert_eq!(import(&mut client, ids[1], ids[1], vram), Ok(0), "{chip}: its own");
        assert_eq!(import(&mut client, ids[1], ids[0], AllocFlags::GTT), Ok(0), "{chip}: system memory");
    }
}

#[test]
fn links_follow_the_memory_nodes_that_gpus_are_at() {
    let numa = Numa { nodes: 2, distance: 32 };
    let configs = [0, 1, 1].map(|numa_node| {
        let config = HostedConfig { links: Links::Pcie, numa, ..navi31().into() };
        HostedConfig { place: Place { numa_node, ..config.place }, ..config }
    });
    let machine = HostedMachine::new(configs.to_vec()).unwrap();
    let (mut client, ids) = client(&machine, 2);
    assert_eq!(client.process.sysfs_list("nodes").unwrap().len(), 5);
    // Processors: those of the other node, and the GPUs of the own one; the other GPUs are behind those.
    for (node, io, p2p) in [
        (0, vec![[1, 1, 32, 1], [2, 2, 20, 3]], vec![[3, 2, 52, 3], [4, 2, 52, 3]]),
        (1, vec![[0, 1, 32, 1], [3, 2, 20, 3], [4, 2, 20, 3]], vec![[2, 2, 52, 3]]),
        (2, vec![[0, 2, 20, 1]], vec![[1, 2, 52, 1], [3, 2, 72, 3], [4, 2, 72, 3]]),
        (3, vec![[1, 2, 20, 1]], vec![[0, 2, 52, 1], [2, 2, 72, 3], [4, 2, 40, 3]]),
        (4, vec![[1, 2, 20, 1]], vec![[0, 2, 52, 1], [2, 2, 72, 3], [3, 2, 40, 3]]),
    ] {
        assert_eq!(links(&client, node, "io_links"), io, "{node}");
        assert_eq!(links(&client, node, "p2p_links"), p2p, "{node}");
        let text = client.process.sysfs_read(&format!("nodes/{node}/properties")).unwrap();
        for line in [format!("io_links_count {}", io.len()), format!("p2p_links_count {}", p2p.len())] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }
    let sum = |file: &str, key: &str| -> u64 {
        let of = |node| {
            let text = client.process.sysfs_read(&format!("nodes/{node}/{file}")).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')).unwrap();
            line.parse::<u64>().unwrap()
        };
        (0..2).map(of).sum()
    };
    assert_eq!(sum("properties", "cpu_cores_count"), belfry_device::processors() as u64);
    assert_eq!(
        sum("mem_banks/0/properties", "size_in_bytes"),
        HostedConfig::from(navi31()).system_memory as u64
    );
    store(&machine, (&mut client, &ids), (0, 2));
}

#[test]
fn huge_page_of_a_hive_is_split_into_pages_of_the_gpu_s_own_segment() {
    const HUGE: u64 = 2 << 20;
    let machine = machine(vec![mi300x(), mi300x()], Links::Xgmi);
    let (mut client, ids) = client(&machine, 1);
    client.gpu_id = ids[1];
    let node = Node::Partition(client.process.partition_of(ids[1]).unwrap());
    let mut create =
        GemCreateIn { bo_size: HUGE, alignment: HUGE, domains: AMDGPU_GEM_DOMAIN_VRAM, ..Default::default() };
    call(&client.process, node, GEM_CREATE, &mut create);
    let handle = create.bo_size as u32;
    let va_address = reserve(2 * HUGE).next_multiple_of(HUGE);
    let mut va = GemVaArgs {
        handle,
        operation: AMDGPU_VA_OP_MAP,
        flags: (GemVaFlags::READABLE | GemVaFlags::WRITEABLE).bits(),
        va_address,
        map_size: HUGE,
        ..Default::default()
    };
    call(&client.process, node, GEM_VA, &mut va);
    // A page in the middle goes.
    let middle = va_address + HUGE / 2;
    let mut clear =
        GemVaArgs { handle: 0, operation: AMDGPU_VA_OP_CLEAR, va_address: middle, map_size: PAGE, ..va };
    call(&client.process, node, GEM_VA, &mut clear);
    let mut offset = GemMmapArgs { value: handle.into() };
    call(&client.process, node, GEM_MMAP, &mut offset);
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: no address is asked for; the map stays while the process is there.
    let memory = unsafe {
        let at = client.process.mmap(node, None, HUGE as usize, prot, offset.value).unwrap();
        std::slice::from_raw_parts(at.cast::<AtomicU64>(), HUGE as usize / 8)
    };
    let mut queue = client.create_queue().unwrap();
    for at in [0, HUGE / 2 - PAGE, HUGE / 2 + PAGE, HUGE - PAGE] {
        let value = &memory[at as usize / 8 + 1];
        value.store(1, Ordering::Release);
        queue.barrier(&client.process, va_address + at);
        let done = || value.load(Ordering::Acquire) == 0;
        assert!(machine.gpus()[1].wait_until(&done, Some(Duration::from_secs(60))), "{at:#x}");
    }
    client.destroy_queue(queue.args.queue_id).unwrap();
    assert_eq!(machine.gpus()[1].device().stats().errors, Default::default());
}

/// A command of a render node.
fn call<T>(process: &HostedProcess, node: Node, command: u32, args: &mut T) {
    assert_eq!(nr::ioc_size(command), size_of::<T>());
    process.ioctl(node, command, std::ptr::from_mut(args).cast()).unwrap();
}
