//! The packet processor and SDMA engines of a gfx942 wait for memory of the program that the GPU was not told
//! of (XNACK).

#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, Client, PAGE};
use crate::copies::{args, packet};
use crate::packets::{halves, packet as pm4};
use belfry_abi::kfd::event::{KFD_IOC_EVENT_MEMORY, KFD_IOC_WAIT_RESULT_COMPLETE, MemoryExceptionData};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::misc::{SetTrapHandlerArgs, SetXnackModeArgs};
use belfry_abi::kfd::queue::{CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_SDMA};
use belfry_abi::partition::ComputePartition;
use belfry_abi::pm4::Opcode;
use belfry_abi::sdma::Op;
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_kfd_hosted::{HostedGpu, Node};
use zerocopy::FromBytes as _;

fn gpu(xccs: u32, partition: ComputePartition) -> Arc<HostedGpu> {
    let config = GpuConfig { chip: &gfx942::MODEL, xccs, cus: xccs, partition, ..common::config() };
    HostedGpu::new(config).unwrap()
}

/// A process that waits for its pages, with the address space of every node.
fn open(gpu: &Arc<HostedGpu>) -> Client {
    let mut client = Client::open_only(gpu);
    client.ioctl(nr::SET_XNACK_MODE, &mut SetXnackModeArgs { xnack_enabled: 1 }).unwrap();
    for id in ids(&client).into_iter().rev() {
        client.gpu_id = id;
        client.acquire().unwrap();
    }
    client
}

fn ids(client: &Client) -> Vec<u32> {
    let count = client.process.sysfs_list("nodes").unwrap().len();
    let id = |node: usize| client.process.sysfs_read(&format!("nodes/{node}/gpu_id")).unwrap();
    (1..count).map(|node| id(node).trim().parse().unwrap()).collect()
}

/// Fresh memory of this process, with these rights.
fn memory(bytes: u64, rights: i32) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a mapping of the test's own.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, rights, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at as u64
}

fn quad(at: u64) -> &'static AtomicU64 {
    // SAFETY: in memory of the test's own, which stays.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }
}

fn word(at: u64) -> &'static AtomicU32 {
    // SAFETY: as above.
    unsafe { AtomicU32::from_ptr(at as *mut u32) }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::yield_now();
    }
}

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

#[test]
fn packet_processor_waits_for_a_signal_in_memory_of_the_program() {
    for (xccs, mode) in [(1, ComputePartition::Spx), (2, ComputePartition::Cpx)] {
        let gpu = gpu(xccs, mode);
        let mut client = open(&gpu);
        for id in ids(&client) {
            client.gpu_id = id;
            let mut queue = client.create_queue().unwrap();
            // More than one, in as many pages.
            let signals = [(); 4].map(|()| memory(PAGE, RW));
            for signal in signals {
                quad(signal + 8).store(1, Ordering::Release);
                queue.barrier(&client.process, signal);
            }
            for signal in signals {
                eventually("the signal is decremented", || quad(signal + 8).load(Ordering::Acquire) == 0);
            }
            eventually("the read index is told", || queue.read_index() == 4);
        }
        let stats = gpu.device().stats();
        assert!(stats.retry_faults >= 4, "{}", stats.retry_faults);
        assert_eq!(stats.errors, Default::default());
    }
}

#[test]
fn signal_in_memory_that_the_program_does_not_have_is_a_fault() {
    let gpu = gpu(1, ComputePartition::Spx);
    let client = open(&gpu);
    let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
    let mut queue = client.create_queue().unwrap();
    let signal = memory(PAGE, libc::PROT_NONE);
    queue.barrier(&client.process, signal);
    let (result, data) = client.wait(event.event_id, 60_000).unwrap();
    assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
    let fault = MemoryExceptionData::read_from_bytes(&data.data).unwrap();
    assert_eq!((fault.gpu_id, fault.va), (client.gpu_id, signal));
    Client::open(&gpu).check_queue_works();
}

/// CREATE_QUEUE; where its doorbell is.
fn create(client: &Client, args: &mut CreateQueueArgs) -> u64 {
    client.ioctl(nr::CREATE_QUEUE, args).unwrap();
    let place = args.doorbell_offset & !0x1fff;
    // SAFETY: no address is asked for.
    let doorbells = unsafe { client.process.mmap(Node::Kfd, None, 8192, RW, place) }.unwrap();
    doorbells as u64 + (args.doorbell_offset & 0x1fff)
}

#[test]
fn pm4_packets_wait_for_memory_of_the_program() {
    let gpu = gpu(1, ComputePartition::Spx);
    let client = open(&gpu);
    let mut args = CreateQueueArgs { queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE, ..client.queue_args().unwrap() };
    let doorbell = create(&client, &mut args);
    let [buffer, read, target, fence] = [(); 4].map(|()| memory(PAGE, RW));
    word(read).store(77, Ordering::Release);
    // COPY_DATA from memory to memory; ATOMIC_MEM, ADD of 32 bits.
    let copied = pm4(Opcode::COPY_DATA, &[&[2 | 1 << 8][..], &halves(read), &halves(target)].concat());
    let added = pm4(Opcode::ATOMIC_MEM, &[&[15][..], &halves(target + 8), &[5, 0, 0, 0, 0]].concat());
    let inner = [copied, added].concat();
    for (at, dword) in (0u64..).zip(&inner) {
        word(buffer + at * 4).store(*dword, Ordering::Relaxed);
    }
    let jump = [&halves(buffer)[..], &[inner.len() as u32 | 1 << 23]].concat();
    let end = [&[20 | 5 << 8, 1 << 29][..], &halves(fence), &[9, 0, 0]].concat();
    let ring = [pm4(Opcode::INDIRECT_BUFFER, &jump), pm4(Opcode::RELEASE_MEM, &end)].concat();
    for (at, dword) in (0u64..).zip(&ring) {
        word(args.ring_base_address + at * 4).store(*dword, Ordering::Relaxed);
    }
    let written = ring.len() as u64;
    quad(args.write_pointer_address).store(written, Ordering::Release);
    quad(doorbell).store(written, Ordering::Release);
    client.process.doorbell_written(doorbell as *mut u64);
    eventually("the fence is written", || word(fence).load(Ordering::Acquire) == 9);
    let found = [target, target + 8].map(|at| word(at).load(Ordering::Acquire));
    assert_eq!(found, [77, 5], "each packet once");
    eventually("the read pointer is told", || {
        u64::from(word(args.read_pointer_address).load(Ordering::Acquire)) == written
    });
    let stats = gpu.device().stats();
    assert!(stats.retry_faults >= 4, "{}", stats.retry_faults);
    assert_eq!(stats.errors, Default::default());
}

#[test]
fn sdma_engine_waits_for_memory_of_the_program() {
    let gpu = gpu(1, ComputePartition::Spx);
    let client = open(&gpu);
    let mut args = args(&client, KFD_IOC_QUEUE_TYPE_SDMA);
    let doorbell = create(&client, &mut args);
    let mut written = 0;
    // Few bytes, which the device's thread moves; many, which the engine's thread moves; and copies whose target
    // overlaps their source.
    for (bytes, apart) in
        [(3 * PAGE, 4 << 20), (3 << 20, 4 << 20), (64 * PAGE, PAGE + 512), (2 << 20, 3 * PAGE)]
    {
        let (from, done) = (memory(8 << 20, RW), memory(PAGE, RW));
        let to = from + apart;
        let value = |at: u64| (at / 4) as u32 ^ bytes as u32;
        (0..bytes).step_by(4).for_each(|at| word(from + at).store(value(at), Ordering::Relaxed));
        let mut expected: Vec<u32> = (0..bytes).step_by(4).map(value).collect();
        if apart < bytes {
            // From the first byte to the last, in parts of at most a page here: as one after the other would be.
            expected = overlapping(bytes, apart, value);
        }
        let copy = packet(Op::COPY, &[&[bytes as u32 - 1, 0][..], &halves(from), &halves(to)].concat());
        let fence = packet(Op::FENCE, &[&halves(done)[..], &[7]].concat());
        for dword in [copy, fence].concat() {
            word(args.ring_base_address + written % PAGE).store(dword, Ordering::Relaxed);
            written += 4;
        }
        quad(args.write_pointer_address).store(written, Ordering::Release);
        quad(doorbell).store(written, Ordering::Release);
        client.process.doorbell_written(doorbell as *mut u64);
        eventually("the fence is written", || word(done).load(Ordering::Acquire) == 7);
        let wrong =
            (0..bytes / 4).find(|&at| word(to + at * 4).load(Ordering::Relaxed) != expected[at as usize]);
        assert_eq!(wrong, None, "{bytes} bytes, {apart} further");
    }
    let stats = gpu.device().stats();
    assert!(stats.retry_faults > 4, "{}", stats.retry_faults);
    assert_eq!(stats.errors, Default::default());
}

/// Values that a copy writes to an address `apart` bytes further: parts as large as the distance are read
/// before they are written.
fn overlapping(bytes: u64, apart: u64, value: impl Fn(u64) -> u32) -> Vec<u32> {
    (0..bytes).step_by(4).map(|at| value(at % apart)).collect()
}

/// `s_trap 1` and the end.
const TRAPS: [u32; 2] = [0xbf92_0001, 0xbf81_0000];

/// Reads a page in each 2 MiB from the trap memory on, 400 of them, and goes past the `s_trap`.
#[rustfmt::skip]
const READER: [u32; 16] = [
    0xb06f_0190, // s_movk_i32 ttmp3, 400
    0xc003_1bbd, 0, // s_load_dword ttmp2, ttmp[14:15], 0x0 glc
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0x807a_ff7a, 0x0020_0000, // s_add_u32 ttmp14, ttmp14, 0x200000
    0x827b_807b, // s_addc_u32 ttmp15, ttmp15, 0
    0x80ef_816f, // s_sub_u32 ttmp3, ttmp3, 1
    0xbf07_806f, // s_cmp_lg_u32 ttmp3, 0
    0xbf85_fff7, // s_cbranch_scc1
    0x806c_846c, // s_add_u32 ttmp0, ttmp0, 4
    0x826d_806d, // s_addc_u32 ttmp1, ttmp1, 0
    0x866d_ff6d, 0xffff, // s_and_b32 ttmp1, ttmp1, 0xffff
    0xb978_f802, // s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    0xbe80_1f6c, // s_rfe_b64 ttmp[0:1]
];

/// A program ends while its wave wants pages in its trap handler, which hold its queue up: it gets no more of them, and the device need
/// not be reset.
#[test]
fn process_ends_while_a_wave_in_its_trap_handler_wants_pages() {
    let gpu = gpu(1, ComputePartition::Spx);
    let client = open(&gpu);
    let flags = AllocFlags::GTT | AllocFlags::WRITABLE | AllocFlags::EXECUTABLE;
    let code = client.alloc(PAGE, flags).unwrap();
    // A descriptor, whose code is at 256, and the handler at 512.
    for (at, dword) in [(16, 256), (48, 0)] {
        code.word(at).store(dword, Ordering::Relaxed);
    }
    for (start, dwords) in [(256, &TRAPS[..]), (512, &READER[..])] {
        for (at, dword) in (start..).step_by(4).zip(dwords) {
            code.word(at).store(*dword, Ordering::Relaxed);
        }
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a mapping of the test's own.
    let pages = unsafe { libc::mmap(std::ptr::null_mut(), 401 << 21, RW, flags, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    let mut handler = SetTrapHandlerArgs {
        tba_addr: code.va + 512,
        tma_addr: pages as u64,
        gpu_id: client.gpu_id,
        ..Default::default()
    };
    client.ioctl(nr::SET_TRAP_HANDLER, &mut handler).unwrap();
    let queue = client.create_queue().unwrap();
    let packet = queue.args.ring_base_address;
    for (at, dword) in [(4, 64 | 1 << 16), (8, 1), (12, 64), (16, 1), (20, 1), (24, 0), (28, 0)] {
        word(packet + at).store(dword, Ordering::Relaxed);
    }
    quad(packet + 32).store(code.va, Ordering::Relaxed);
    quad(packet + 40).store(code.va, Ordering::Relaxed);
    quad(packet + 56).store(0, Ordering::Relaxed);
    // KERNEL_DISPATCH of one dimension, with fences.
    word(packet).store(0x1502 | 1 << 16, Ordering::Release);
    quad(queue.args.write_pointer_address).store(1, Ordering::Release);
    quad(queue.doorbell).store(0, Ordering::Release);
    client.process.doorbell_written(queue.doorbell as *mut u64);
    eventually("pages are wanted", || gpu.device().stats().retry_faults >= 5);
    drop(client);
    assert!(gpu.device().stats().retry_faults < 350, "it was on the way");
    assert_eq!(gpu.device().stats().resets, 0);
    Client::open(&gpu).check_queue_works();
}
