//! Memory of the nodes: page tables, buffer objects and VRAM of each.

use std::sync::atomic::Ordering;

use belfry_abi::kfd::event::{KFD_IOC_EVENT_MEMORY, KFD_IOC_WAIT_RESULT_COMPLETE, MemoryExceptionData};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{AllocFlags, GetAvailableMemoryArgs, MapMemoryToGpuArgs};
use belfry_abi::partition::ComputePartition::Cpx;
use belfry_kfd_hosted::{Errno, Node};
use zerocopy::FromBytes as _;

use super::{gpu, open, property};
use crate::common::{self, Client, PAGE, RW};

#[test]
fn memory_of_one_node_is_not_there_for_another() {
    let gpu = gpu(2, Cpx);
    for mapped in [false, true] {
        let (mut client, ids) = open(&gpu);
        let own = client.create_signal();
        client.gpu_id = ids[1];
        let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
        let mut queue = client.create_queue().unwrap();
        if mapped {
            client.map(own.memory.handle).unwrap();
            client.map(own.page.handle).unwrap();
        }
        queue.barrier(&client.process, own.memory.va);
        let told = if mapped { own.event_id } else { event.event_id };
        let (result, data) = client.wait(told, 10_000).unwrap();
        assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
        assert_eq!(own.memory.quad(8).load(Ordering::Acquire), u64::from(!mapped));
        if !mapped {
            let fault = MemoryExceptionData::read_from_bytes(&data.data).unwrap();
            assert_eq!((fault.gpu_id, fault.va), (ids[1], own.memory.va));
        }
    }
}

#[test]
fn each_node_has_something_else_at_an_address() {
    let gpu = gpu(4, Cpx);
    let (mut client, ids) = open(&gpu);
    let va = common::reserve(PAGE);
    let mut seen = Vec::new();
    for (number, &id) in (0u32..).zip(&ids) {
        client.gpu_id = id;
        let args = client.alloc_at(va, PAGE, AllocFlags::GTT | AllocFlags::COHERENT | RW).unwrap();
        client.map(args.handle).unwrap();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let node = Node::Partition(number);
        // SAFETY: no address is asked for.
        let place = unsafe { client.process.mmap(node, None, PAGE as usize, prot, args.mmap_offset) };
        let place = common::Buffer { va: place.unwrap() as u64, size: PAGE, handle: args.handle };
        place.quad(8).store(u64::from(number) + 10, Ordering::Release);
        // The file of another partition does not lead there.
        let other = Node::Partition((number + 1) % 4);
        // SAFETY: no address is asked for.
        let refused = unsafe { client.process.mmap(other, None, PAGE as usize, prot, args.mmap_offset) };
        assert_eq!(refused.err(), Some(Errno::EACCES));
        seen.push(place);
    }
    for &id in &ids {
        client.gpu_id = id;
        client.create_queue().unwrap().barrier(&client.process, va);
    }
    for (number, place) in (0u64..).zip(&seen) {
        let start = std::time::Instant::now();
        while place.quad(8).load(Ordering::Acquire) != number + 9 {
            assert!(start.elapsed() < std::time::Duration::from_secs(60), "node {number}");
            std::thread::yield_now();
        }
    }
    assert_eq!(gpu.device().stats().errors, Default::default());
    // A GPU that loses the memory leaves the others theirs.
    client.gpu_id = ids[2];
    client.unmap(seen[2].handle).unwrap();
    client.free(seen[2].handle).unwrap();
    client.gpu_id = ids[3];
    assert_eq!(client.free(seen[3].handle), Err(Errno::EBUSY));
}

#[test]
fn memory_is_mapped_and_unmapped_node_by_node() {
    let gpu = gpu(2, Cpx);
    let (mut client, ids) = open(&gpu);
    let buffer = client.alloc(PAGE, AllocFlags::VRAM | RW).unwrap();
    assert_eq!(buffer.handle >> 32, u64::from(ids[0]));
    client.gpu_id = ids[1];
    client.map(buffer.handle).unwrap();
    // Its memory is mapped for the first node alone: a queue of the second one may not use it.
    let queue = client.queue_args().unwrap();
    client.gpu_id = ids[0];
    let mut args = belfry_abi::kfd::queue::CreateQueueArgs { gpu_id: ids[0], ..queue };
    assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(Errno::EINVAL));
    client.unmap(buffer.handle).unwrap();
    client.unmap(buffer.handle).unwrap();
    assert_eq!(client.free(buffer.handle), Err(Errno::EBUSY), "the other one has it");
    client.gpu_id = ids[1];
    client.unmap(buffer.handle).unwrap();
    client.free(buffer.handle).unwrap();
    let both = client.alloc_at(common::reserve(PAGE), PAGE, AllocFlags::VRAM | RW).unwrap();
    assert_eq!(both.handle >> 32, u64::from(ids[1]));
    let mut args = MapMemoryToGpuArgs {
        handle: both.handle,
        device_ids_array_ptr: ids.as_ptr() as u64,
        n_devices: 2,
        n_success: 0,
    };
    client.ioctl(nr::MAP_MEMORY_TO_GPU, &mut args).unwrap();
    assert_eq!(args.n_success, 2);
    // The node that the handle names is the one that it was made for.
    let swapped = both.handle & 0xffff_ffff | u64::from(ids[0]) << 32;
    assert_eq!(client.free(swapped), Err(Errno::EINVAL));
}

#[test]
fn each_of_several_nodes_may_have_its_part_of_vram() {
    let gpu = gpu(2, Cpx);
    let (mut client, ids) = open(&gpu);
    let available = |client: &Client| {
        let mut args = GetAvailableMemoryArgs { gpu_id: client.gpu_id, ..Default::default() };
        client.ioctl(nr::AVAILABLE_MEMORY, &mut args).unwrap();
        args.available
    };
    let part = property(&client, "nodes/1/mem_banks/0", "size_in_bytes");
    assert_eq!(available(&client), part);
    let flags = AllocFlags::VRAM | RW;
    let half = part / 2 / PAGE * PAGE;
    let handle = client.alloc_at(common::reserve(PAGE), half, flags).unwrap().handle;
    assert_eq!(available(&client), part - half);
    assert_eq!(client.alloc_at(common::reserve(PAGE), part - half + PAGE, flags).unwrap_err(), Errno::ENOMEM);
    client.gpu_id = ids[1];
    assert_eq!(available(&client), part, "the other one's");
    client.gpu_id = ids[0];
    client.free(handle).unwrap();
    assert_eq!(available(&client), part);
}
