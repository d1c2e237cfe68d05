//! Shared virtual memory through the ioctl, with queues that use it, and changes of the program's memory under it.
#![expect(unsafe_code, reason = "a client of a driver passes pointers, and changes its own memory")]

mod common;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belfry_abi::kfd::event::{
    KFD_IOC_EVENT_MEMORY, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::smi::{EventKind, SmiEventsArgs};
use belfry_abi::kfd::svm::*;
use belfry_abi::partition::ComputePartition::Cpx;
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_kfd_hosted::card::Source;
use belfry_kfd_hosted::{Errno, HostedConfig, HostedGpu, Reach};
use common::{Client, PAGE, Queue, RW, config, gpu, reserve};
use zerocopy::IntoBytes as _;

const fn attribute(kind: u32, value: u32) -> SvmAttribute {
    SvmAttribute { kind, value }
}

/// Issues the ioctl with a command of just the size; returns the attributes as they come back.
fn svm(client: &Client, args: SvmArgs, list: &[SvmAttribute]) -> Result<Vec<SvmAttribute>, Errno> {
    let mut bytes = args.as_bytes().to_vec();
    bytes.extend_from_slice(list.as_bytes());
    let command = nr::ioc(3, nr::KFD_IOC_TYPE, nr::ioc_nr(nr::SVM), bytes.len());
    client.process.ioctl(belfry_kfd_hosted::Node::Kfd, command, bytes.as_mut_ptr().cast())?;
    let words = bytes[size_of::<SvmArgs>()..].chunks_exact(8);
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    Ok(words.map(|one| attribute(word(&one[..4]), word(&one[4..]))).collect())
}

fn operate(
    client: &Client,
    op: u32,
    va: u64,
    size: u64,
    list: &[SvmAttribute],
) -> Result<Vec<SvmAttribute>, Errno> {
    svm(client, SvmArgs { start_addr: va, size, op, nattr: list.len() as u32 }, list)
}

fn set(client: &Client, va: u64, size: u64, list: &[SvmAttribute]) -> Result<(), Errno> {
    operate(client, KFD_IOCTL_SVM_OP_SET_ATTR, va, size, list).map(|_| ())
}

fn access(client: &Client) -> SvmAttribute {
    attribute(KFD_IOCTL_SVM_ATTR_ACCESS, client.gpu_id)
}

fn protect(va: u64, size: u64, prot: i32) {
    // SAFETY: this test's own memory.
    assert_eq!(unsafe { libc::mprotect(va as *mut libc::c_void, size as usize, prot) }, 0);
}

/// Memory of this process that the GPU may access.
fn shared(client: &Client, pages: u64) -> u64 {
    let va = reserve(pages * PAGE);
    protect(va, pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
    set(client, va, pages * PAGE, &[access(client)]).unwrap();
    va
}

/// Both ways in which the device reaches the program's memory.
fn gpus() -> [Arc<HostedGpu>; 2] {
    let all = HostedConfig { reach: Reach::Process, ..HostedConfig::from(config()) };
    [gpu(), HostedGpu::new(all).unwrap()]
}

/// Has the GPU decrement a signal in a page, as a signal on which no thread sleeps.
fn decrement(client: &Client, queue: &mut Queue, va: u64) {
    let before = value(va).load(Ordering::Acquire);
    queue.barrier(&client.process, va);
    while value(va).load(Ordering::Acquire) == before {
        std::thread::yield_now();
    }
    assert_eq!(value(va).load(Ordering::Acquire), before - 1);
}

fn value(va: u64) -> &'static AtomicU64 {
    // SAFETY: memory of the test's own, which it does not use after it was unmapped.
    unsafe { AtomicU64::from_ptr((va + 8) as *mut u64) }
}

fn signal(va: u64) {
    // SAFETY: as above.
    unsafe { (va as *mut u64).write_volatile(1) };
    value(va).store(1000, Ordering::Release);
}

/// Keeps the other tests of this file waiting: they share an address space, and one test may map addresses that another
/// has unmapped.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn both_sides_see_what_the_other_writes_to_memory_that_was_mapped_before_or_after_the_queue() {
    let _alone = alone();
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let first = shared(&client, 3);
        let mut queue = client.create_queue().unwrap();
        let second = shared(&client, 1);
        for va in [first, first + 2 * PAGE, second] {
            signal(va);
            decrement(&client, &mut queue, va);
            decrement(&client, &mut queue, va);
        }
    }
}

#[test]
fn attributes_come_back_as_they_were_set() {
    let _alone = alone();
    let gpu = gpu();
    let client = Client::open(&gpu);
    let va = shared(&client, 4);
    let gran = attribute(KFD_IOCTL_SVM_ATTR_GRANULARITY, 5);
    let place = attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, client.gpu_id);
    set(&client, va + PAGE, PAGE, &[gran, place]).unwrap();
    let ask = |first: u64, pages: u64| {
        let questions = [
            attribute(KFD_IOCTL_SVM_ATTR_GRANULARITY, 0),
            attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0),
            access(&client),
        ];
        operate(&client, KFD_IOCTL_SVM_OP_GET_ATTR, va + first * PAGE, pages * PAGE, &questions).unwrap()
    };
    assert_eq!(ask(1, 1), [gran, place, access(&client)]);
    let nowhere = attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_LOCATION_UNDEFINED);
    assert_eq!(ask(0, 4), [gran, nowhere, access(&client)]);
    assert_eq!(ask(2, 1), [attribute(KFD_IOCTL_SVM_ATTR_GRANULARITY, 9), nowhere, access(&client)]);
}

/// As amdkfd on a GPU without device memory of its own for migration (`svm_range_best_prefetch_location`, `apu_prefer_gtt`).
#[test]
fn prefetch_is_remembered_and_nothing_says_that_memory_has_moved() {
    let _alone = alone();
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let va = shared(&client, 4);
        signal(va);
        let mut args = SmiEventsArgs { gpuid: client.gpu_id, anon_fd: 0 };
        client.process.ioctl(belfry_kfd_hosted::Node::Kfd, nr::SMI_EVENTS, (&raw mut args).cast()).unwrap();
        // SAFETY: the descriptor was made for this test.
        let mut events = unsafe { File::from_raw_fd(args.anon_fd as i32) };
        events.write_all(&u64::MAX.to_le_bytes()).unwrap();
        let mut queue = client.create_queue().unwrap();
        let before = client.process.figures(0, Source::Memory);
        for place in [client.gpu_id, KFD_IOCTL_SVM_LOCATION_SYSMEM, client.gpu_id] {
            let prefetch = attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, place);
            set(&client, va, 2 * PAGE, &[prefetch]).unwrap();
            let ask = |pages: u64| {
                let question = [attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 7)];
                operate(&client, KFD_IOCTL_SVM_OP_GET_ATTR, va, pages * PAGE, &question).unwrap()
            };
            assert_eq!(ask(2), [prefetch], "it says what was asked for last, not where memory is");
            let differs = attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, KFD_IOCTL_SVM_LOCATION_UNDEFINED);
            assert_eq!(ask(4), [differs], "the other pages were never asked for");
            // Both sides still have the same page, and the queue runs.
            decrement(&client, &mut queue, va);
        }
        let after = client.process.figures(0, Source::Memory);
        assert_eq!((after.vram_used, after.gtt_used), (before.vram_used, before.gtt_used));
        let other = Client::open(&gpu);
        let mut said = [0; 4096];
        let len = events.read(&mut said).unwrap_or(0);
        let said = String::from_utf8_lossy(&said[..len]).into_owned();
        // The first number of a line is the event's, in hexadecimal.
        let told = |kind: EventKind| {
            said.lines().any(|line| line.split(' ').next() == Some(&format!("{:x}", kind as u32)))
        };
        assert!(told(EventKind::ProcessStart), "what happens is heard of: {said}");
        assert!(!told(EventKind::MigrateStart) && !told(EventKind::MigrateEnd), "{said}");
        drop(other);
    }
}

#[test]
fn ranges_and_structures_are_refused_by_the_rules() {
    let _alone = alone();
    let gpu = gpu();
    let client = Client::open(&gpu);
    let va = shared(&client, 2);
    let vram = client.alloc(PAGE, AllocFlags::VRAM | RW).unwrap();
    let free = client.alloc(PAGE, AllocFlags::GTT | RW).unwrap();
    client.unmap(free.handle).unwrap();
    let queue = client.create_queue().unwrap();
    // Last, so that nothing of this process's driver gets into it.
    let hole = reserve(4 * PAGE);
    // SAFETY: this test's own memory, which is not used.
    unsafe { libc::munmap((hole + PAGE) as *mut libc::c_void, PAGE as usize) };
    let good = [access(&client)];
    for (what, args, list, error) in [
        ("more attributes than there is room for", (va, PAGE, 0, 2), &good[..], Errno::EINVAL),
        ("as many as there can be", (va, PAGE, 0, u32::MAX), &good, Errno::EINVAL),
        ("an unknown operation", (va, PAGE, 2, 1), &good, Errno::EINVAL),
        ("not a page", (va + 8, PAGE, 0, 1), &good, Errno::EINVAL),
        ("not pages", (va, PAGE + 8, 0, 1), &good, Errno::EINVAL),
        ("no page", (va, 0, 0, 1), &good, Errno::EINVAL),
        ("another GPU", (va, PAGE, 0, 1), &[attribute(2, 1)], Errno::EINVAL),
        ("a hole", (hole, 3 * PAGE, 0, 1), &good, Errno::EFAULT),
        ("a hole, asked about", (hole, 3 * PAGE, 1, 1), &good, Errno::EFAULT),
        ("the kernel's memory", (1 << 63, PAGE, 0, 1), &good, Errno::EFAULT),
        ("all addresses", (PAGE, 0u64.wrapping_sub(PAGE), 0, 1), &good, Errno::EFAULT),
        ("memory of the device", (vram.va, PAGE, 0, 1), &good, Errno::EFAULT),
        ("memory of the driver", (free.va, PAGE, 0, 1), &good, Errno::EFAULT),
        ("doorbells", (queue.doorbell & !(PAGE - 1), PAGE, 0, 1), &good, Errno::EFAULT),
        ("a registered range", (queue.args.ring_base_address, PAGE, 0, 1), &good, Errno::EADDRINUSE),
        // The ranges are there, and the GPU cannot have what the program has not.
        ("memory that may not be touched", (hole + 2 * PAGE, PAGE, 0, 1), &good, Errno::EFAULT),
    ] {
        let (start_addr, size, op, nattr) = args;
        let args = SvmArgs { start_addr, size, op, nattr };
        assert_eq!(svm(&client, args, list), Err(error), "{what}");
    }
    for va_addr in [va, va + PAGE] {
        assert_eq!(client.alloc_at(va_addr, PAGE, AllocFlags::VRAM | RW).err(), Some(Errno::EADDRINUSE));
    }
    let without_vm = Client::open_only(&gpu);
    assert_eq!(set(&without_vm, va, PAGE, &good), Err(Errno::EINVAL));
    client.check_queue_works();
}

#[test]
fn unmapped_pages_leave_the_gpu_and_the_others_stay() {
    let _alone = alone();
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
        let va = shared(&client, 3);
        signal(va);
        signal(va + 2 * PAGE);
        let mut queue = client.create_queue().unwrap();
        // SAFETY: nothing uses it any more but the GPU, which is to fail.
        unsafe { client.process.munmap((va + PAGE) as *mut u8, PAGE as usize) }.unwrap();
        decrement(&client, &mut queue, va);
        decrement(&client, &mut queue, va + 2 * PAGE);
        // What comes to the same place is not registered.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where there is none.
        let new = unsafe { libc::mmap((va + PAGE) as *mut libc::c_void, PAGE as usize, prot, flags, -1, 0) };
        assert_eq!(new as u64, va + PAGE);
        signal(va + PAGE);
        assert_eq!(client.wait(event.event_id, 0).unwrap().0, KFD_IOC_WAIT_RESULT_TIMEOUT);
        queue.barrier(&client.process, va + PAGE);
        assert_eq!(client.wait(event.event_id, 10_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
        assert_eq!(value(va + PAGE).load(Ordering::Acquire), 1000);
        // And once more, in another process of the driver.
        let again = Client::open(&gpu);
        set(&again, va, 3 * PAGE, &[access(&again)]).unwrap();
        let mut queue = again.create_queue().unwrap();
        decrement(&again, &mut queue, va + PAGE);
    }
}

#[test]
fn ranges_without_access_go_with_their_memory_too() {
    let _alone = alone();
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let va = reserve(4 * PAGE);
        let place = attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, client.gpu_id);
        set(&client, va, 4 * PAGE, &[place]).unwrap();
        assert!(client.process.uses(va as usize, PAGE as usize));
        // SAFETY: nothing uses it.
        unsafe { client.process.munmap((va + PAGE) as *mut u8, PAGE as usize) }.unwrap();
        let (prot, flags) =
            (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE);
        // SAFETY: a new mapping where there is none.
        let new = unsafe { libc::mmap((va + PAGE) as *mut libc::c_void, PAGE as usize, prot, flags, -1, 0) };
        assert_eq!(new as u64, va + PAGE);
        for (page, value) in [(0, client.gpu_id), (1, KFD_IOCTL_SVM_LOCATION_UNDEFINED), (2, client.gpu_id)] {
            let answer = operate(
                &client,
                KFD_IOCTL_SVM_OP_GET_ATTR,
                va + page * PAGE,
                PAGE,
                &[attribute(place.kind, 0)],
            );
            assert_eq!(answer, Ok(vec![attribute(place.kind, value)]), "page {page}");
        }
    }
}

#[test]
fn queues_go_on_after_memory_was_protected_and_fail_only_where_it_is() {
    let _alone = alone();
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
        let va = shared(&client, 2);
        signal(va);
        signal(va + PAGE);
        let mut queue = client.create_queue().unwrap();
        client
            .process
            .protecting((va + PAGE) as usize, PAGE as usize, || protect(va + PAGE, PAGE, libc::PROT_READ))
            .unwrap();
        for _ in 0..3 {
            decrement(&client, &mut queue, va);
        }
        // Memory that becomes writable again is so for the GPU, too.
        protect(va + PAGE, PAGE, libc::PROT_READ | libc::PROT_WRITE);
        client.process.permitted((va + PAGE) as usize, PAGE as usize);
        decrement(&client, &mut queue, va + PAGE);
        let forbid = || protect(va, PAGE, libc::PROT_READ);
        client.process.protecting(va as usize, PAGE as usize, forbid).unwrap();
        queue.barrier(&client.process, va);
        assert_eq!(client.wait(event.event_id, 10_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
    }
}

#[test]
fn queue_saves_itself_to_shared_memory_that_stays_mapped() {
    let _alone = alone();
    let gpu = gpu();
    let client = Client::open(&gpu);
    let mut args = client.queue_args().unwrap();
    let debug = (client.property("simd_count") / 2 * 32 * 32).next_multiple_of(64);
    let pages = (client.property("cwsr_size") + debug).div_ceil(PAGE);
    let area = shared(&client, pages);
    args.ctx_save_restore_address = area;
    assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(Errno::EINVAL), "it need not stay mapped");
    let always = attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED);
    set(&client, area, (pages - 1) * PAGE, &[always]).unwrap();
    assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(Errno::EINVAL), "not all of it");
    set(&client, area, pages * PAGE, &[always]).unwrap();
    client.ioctl(nr::CREATE_QUEUE, &mut args).unwrap();
    client.destroy_queue(args.queue_id).unwrap();
    client.check_queue_works();
}

/// Each node of a gfx942 whose graphics cores are shared out has page tables of its own.
#[test]
fn ranges_are_mapped_for_the_nodes_that_may_access_them() {
    let _alone = alone();
    let shape = GpuConfig { chip: &gfx942::MODEL, xccs: 2, cus: 2, partition: Cpx, ..config() };
    let gpu = HostedGpu::new(shape).unwrap();
    let mut client = Client::open(&gpu);
    let id = |number: u32| {
        client.process.sysfs_read(&format!("nodes/{number}/gpu_id")).unwrap().trim().parse::<u32>().unwrap()
    };
    let ids = [id(1), id(2)];
    let (both, first) = (shared(&client, 1), shared(&client, 1));
    signal(both);
    signal(first);
    // Before the second node has an address space.
    set(&client, both, PAGE, &[attribute(KFD_IOCTL_SVM_ATTR_ACCESS, ids[1])]).unwrap();
    let mut queue = client.create_queue().unwrap();
    decrement(&client, &mut queue, both);
    decrement(&client, &mut queue, first);
    client.gpu_id = ids[1];
    client.acquire().unwrap();
    let mut other = client.create_queue().unwrap();
    decrement(&client, &mut other, both);
    // A buffer object may be where no range is, and not where one is, on any node.
    assert_eq!(client.alloc_at(first, PAGE, AllocFlags::VRAM | RW).err(), Some(Errno::EADDRINUSE));
    // What changes is mapped anew for both.
    protect(both, PAGE, libc::PROT_READ | libc::PROT_WRITE);
    client.process.changed(both as usize, PAGE as usize).unwrap();
    decrement(&client, &mut other, both);
    client.gpu_id = ids[0];
    decrement(&client, &mut queue, both);
    // Access that is taken away is gone, for that node alone.
    set(&client, both, PAGE, &[attribute(KFD_IOCTL_SVM_ATTR_NO_ACCESS, ids[0])]).unwrap();
    decrement(&client, &mut other, both);
    let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
    other.barrier(&client.process, first);
    assert_eq!(client.wait(event.event_id, 60_000).unwrap().0, KFD_IOC_WAIT_RESULT_COMPLETE);
    assert_eq!(value(first).load(Ordering::Acquire), 999, "the first node's");
}
