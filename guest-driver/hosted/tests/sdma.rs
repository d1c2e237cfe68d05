//! SDMA queues over the real ioctls: copies from the doorbell to the event of their trap.

#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, Buffer, Client, PAGE, RW, gpu, gpus};
use crate::copies::{args, packet};
use belfry_abi::kfd::event::{
    HwExceptionData, KFD_HW_EXCEPTION_ECC, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY,
    KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_TIMEOUT, KFD_MEM_ERR_POISON_CONSUMED,
    MemoryExceptionData,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::queue::{
    CreateQueueArgs, GetQueueWaveStateArgs, KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID,
    KFD_IOC_QUEUE_TYPE_SDMA_XGMI, UpdateQueueArgs,
};
use belfry_abi::sdma::{Op, copy_sub_op, timestamp_sub_op};
use belfry_device::chip::{self, gfx942};
use belfry_device::{GpuConfig, GuestError};
use belfry_kfd_hosted::{Errno, HostedGpu, Node};
use zerocopy::FromBytes as _;

/// Bytes of a ring.
const RING: u64 = PAGE;

struct Queue<'a> {
    client: &'a Client,
    args: CreateQueueArgs,
    doorbell: u64,
    written: u64,
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn copy(from: u64, to: u64, bytes: u32) -> Vec<u32> {
    packet(Op::COPY, &[&[bytes - 1, 0][..], &halves(from), &halves(to)].concat())
}

fn fence(at: u64, value: u32) -> Vec<u32> {
    packet(Op::FENCE, &[&halves(at)[..], &[value]].concat())
}

/// A wait for memory to be a value.
fn wait(at: u64, value: u32) -> Vec<u32> {
    let mut dwords = packet(Op::POLL_REGMEM, &[&halves(at)[..], &[value, u32::MAX, 0x0fff_0004]].concat());
    dwords[0] |= 1 << 31 | 3 << 28;
    dwords
}

impl<'a> Queue<'a> {
    fn new(client: &'a Client) -> Self {
        Self::with(client, args(client, KFD_IOC_QUEUE_TYPE_SDMA))
    }

    fn with(client: &'a Client, mut args: CreateQueueArgs) -> Self {
        client.ioctl(nr::CREATE_QUEUE, &mut args).unwrap();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is asked for.
        let doorbells =
            unsafe { client.process.mmap(Node::Kfd, None, 8192, prot, args.doorbell_offset & !0x1fff) }
                .unwrap();
        Self { client, args, doorbell: doorbells as u64 + (args.doorbell_offset & 0x1fff), written: 0 }
    }

    fn submit(&mut self, packets: &[Vec<u32>]) {
        for dword in packets.concat() {
            let at = self.args.ring_base_address + self.written % RING;
            // SAFETY: the ring is mapped while the process lives.
            unsafe { AtomicU32::from_ptr(at as *mut u32) }.store(dword, Ordering::Relaxed);
            self.written += 4;
        }
        // SAFETY: as above, the write pointer and the doorbell.
        unsafe {
            AtomicU64::from_ptr(self.args.write_pointer_address as *mut u64)
                .store(self.written, Ordering::Release);
            AtomicU64::from_ptr(self.doorbell as *mut u64).store(self.written, Ordering::Release);
        }
        self.client.process.doorbell_written(self.doorbell as *mut u64);
    }

    fn read_pointer(&self) -> u64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(self.args.read_pointer_address as *mut u64) }.load(Ordering::Acquire)
    }

    fn update(&self, percentage: u32) {
        let mut args = UpdateQueueArgs {
            ring_base_address: self.args.ring_base_address,
            queue_id: self.args.queue_id,
            ring_size: self.args.ring_size,
            queue_percentage: percentage,
            queue_priority: 7,
        };
        self.client.ioctl(nr::UPDATE_QUEUE, &mut args).unwrap();
    }

    /// Number of its doorbell in the slice.
    fn doorbell_number(&self) -> u64 {
        (self.args.doorbell_offset & 0x1fff) / 8
    }

    fn destroy(self) {
        self.client.destroy_queue(self.args.queue_id).unwrap();
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::yield_now();
    }
}

fn data(client: &Client) -> Buffer {
    client.alloc(PAGE, AllocFlags::GTT | AllocFlags::COHERENT | RW).unwrap()
}

#[test]
fn sdma_queue_copies_between_memories_and_its_trap_wakes_who_waits() {
    const BYTES: u64 = 3 << 20;
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let signal = client.create_signal();
        let slot = signal.memory.quad(16).load(Ordering::Relaxed);
        let mut queue = Queue::new(&client);
        let (host, back) = (client.alloc(BYTES, AllocFlags::GTT | RW).unwrap(), client.user(BYTES).unwrap());
        let card = client.alloc(BYTES, AllocFlags::VRAM | RW).unwrap();
        // More than once around the ring.
        for round in 0..70u32 {
            let value = |at: u64| at as u32 ^ round << 24;
            (0..BYTES).step_by(512).for_each(|at| host.word(at).store(value(at), Ordering::Relaxed));
            queue.submit(&[
                copy(host.va, card.va, BYTES as u32),
                copy(card.va, back.va, BYTES as u32),
                fence(slot, signal.event_id),
                packet(Op::TRAP, &[signal.event_id]),
            ]);
            let (result, _) = client.wait(signal.event_id, 60_000).unwrap();
            assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE, "round {round}");
            let arrived = |at: u64| back.word(at).load(Ordering::Relaxed) == value(at);
            assert!((0..BYTES).step_by(512).all(arrived), "round {round}");
        }
        assert!(queue.written > RING);
        eventually("the read pointer moves", || queue.read_pointer() == queue.written);
        assert_eq!(gpu.device().stats().errors, Default::default());
        queue.destroy();
    }
}

/// Offsets at which packets of [`every_packet_does_on_each_chip_what_it_says`] write, in bytes.
const COPIED: u64 = 0x200;
const BOX: u64 = 0x300;
const WRITTEN: u64 = 0x400;
const COUNTER: u64 = 0x500;
const CLOCKS: u64 = 0x540;
const IN_BUFFER: u64 = 0x580;
const BUFFER: u64 = 0x600;

/// A box of 3 x 2 dwords from column 1 of row 1, of rows of 8, to rows of 4. Generation 7 has other places for pitches.
fn boxed(data: u64, generation: u32) -> Vec<u32> {
    let pitch = |dwords: u32| (dwords - 1) << if generation == 7 { 16 } else { 13 };
    let (from, to) = (halves(data), halves(data + BOX));
    let from = [&from[..], &[1 << 16 | 1, pitch(8), 63]].concat();
    let to = [&to[..], &[0, pitch(4), 31]].concat();
    let mut dwords = packet(Op::COPY, &[&from[..], &to, &[1 << 16 | 2, 0]].concat());
    dwords[0] |= u32::from(copy_sub_op::LINEAR_SUB_WIND) << 8 | 2 << 29;
    dwords
}

#[test]
fn every_packet_does_on_each_chip_what_it_says() {
    const CACHES: [u32; 4] = [0; 4];
    for (gpu, generation) in gpus().zip([6, 4, 7]) {
        let client = Client::open(&gpu);
        let data = data(&client);
        let at = |offset: u64| data.va + offset;
        let word = |offset: u64| data.word(offset).load(Ordering::Acquire);
        (0..64).for_each(|number: u32| {
            data.word(u64::from(number) * 4).store(1000 + number, Ordering::Relaxed);
        });
        let with = |mut dwords: Vec<u32>, bits: u32| {
            dwords[0] |= bits;
            dwords
        };
        let mut twice = with(copy(at(0), at(COPIED), 64), 1 << 27);
        twice.extend(halves(at(COPIED + 64)));
        let mut policies = with(copy(at(64), at(COPIED + 128), 64), 1 << 19);
        policies.extend((generation == 7).then_some(0));
        let write = |to: u64| packet(Op::WRITE, &[&halves(at(to))[..], &[2, 5, 6, 7]].concat());
        let fill = with(packet(Op::CONST_FILL, &[&halves(at(WRITTEN + 16))[..], &[9, 15]].concat()), 2 << 30);
        let add = with(packet(Op::ATOMIC, &[&halves(at(COUNTER))[..], &[3, 0, 0, 0, 0]].concat()), 47 << 25);
        let if_is = |value: u32| packet(Op::COND_EXE, &[&halves(at(0))[..], &[value, 4]].concat());
        let clock = |to: u64, kind: u8| with(packet(Op::TIMESTAMP, &halves(at(to))), u32::from(kind) << 8);
        let buffer = [fence(at(IN_BUFFER), 1), fence(at(IN_BUFFER + 4), 2)].concat();
        for (number, dword) in (0..).zip(&buffer) {
            data.word(BUFFER + number * 4).store(*dword, Ordering::Relaxed);
        }
        let enter = [&halves(at(BUFFER))[..], &[buffer.len() as u32, 0, 0]].concat();
        let mut queue = Queue::new(&client);
        queue.submit(&[
            with(packet(Op::NOP, &[u32::MAX; 3]), 3 << 16),
            twice,
            policies,
            boxed(data.va, generation),
            write(WRITTEN),
            fill,
            add.clone(),
            add,
            if_is(1),
            fence(at(0x5a0), 1),
            if_is(1000),
            fence(at(0x5a4), 1),
            clock(CLOCKS, timestamp_sub_op::GET),
            clock(CLOCKS + 8, timestamp_sub_op::GET_GLOBAL),
            packet(Op::INDIRECT, &enter),
            wait(at(0x5a8), 1),
            fence(at(0x5ac), 1),
        ]);
        eventually("what comes before the wait", || word(IN_BUFFER + 4) == 2);
        assert_eq!(word(0x5ac), 0, "generation {generation}");
        data.word(0x5a8).store(1, Ordering::Release);
        eventually("the end", || queue.read_pointer() == queue.written);
        let words = |from: u64, count: u64| (0..count).map(|at| word(from + at * 4)).collect::<Vec<_>>();
        let numbers = |from: u32, count: u32| (1000 + from..1000 + from + count).collect::<Vec<_>>();
        assert_eq!(words(COPIED, 16), numbers(0, 16), "generation {generation}");
        assert_eq!(words(COPIED + 64, 16), numbers(0, 16), "generation {generation}");
        assert_eq!(words(COPIED + 128, 16), numbers(16, 16), "generation {generation}");
        assert_eq!(words(BOX, 8), [1009, 1010, 1011, 0, 1017, 1018, 1019, 0], "generation {generation}");
        assert_eq!(words(WRITTEN, 9), [5, 6, 7, 0, 9, 9, 9, 9, 0], "generation {generation}");
        assert_eq!(words(COUNTER, 2), [6, 0], "generation {generation}");
        assert_eq!(words(IN_BUFFER, 2), [1, 2], "generation {generation}");
        assert_eq!(words(0x5a0, 2), [0, 1], "one fence was skipped, generation {generation}");
        let [engine, global] = [CLOCKS, CLOCKS + 8].map(|at| data.quad(at).load(Ordering::Relaxed));
        assert!(0 < engine && engine <= global, "{engine} {global}");
        assert_eq!(gpu.device().stats().errors, Default::default());
        // Generation 4 has no caches to speak of.
        queue.submit(&[packet(Op::GCR_REQ, &CACHES), fence(at(0x5b0), 1)]);
        if generation == 4 {
            let refused = GuestError::SdmaPacketRefused;
            eventually("the queue stops", || gpu.device().stats().errors.contains_key(&refused));
            assert_eq!(word(0x5b0), 0);
        } else {
            eventually("the end", || queue.read_pointer() == queue.written);
            assert_eq!(word(0x5b0), 1);
        }
    }
}

#[test]
fn sdma_queue_goes_on_in_the_middle_when_it_has_a_share_again() {
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let data = data(&client);
        let mut queue = Queue::new(&client);
        queue.submit(&[fence(data.va, 1), wait(data.va + 64, 1), fence(data.va, 2)]);
        eventually("the first packet is executed", || data.word(0).load(Ordering::Acquire) == 1);
        queue.update(0);
        data.word(64).store(1, Ordering::Release);
        // Another queue's packets are executed meanwhile, on either engine.
        for _ in 0..2 {
            let mut other = Queue::new(&client);
            other.submit(&[fence(data.va + 8, 3)]);
            eventually("the other queue works", || other.read_pointer() == other.written);
        }
        assert_eq!(data.word(0).load(Ordering::Acquire), 1);
        queue.update(100);
        eventually("the queue goes on", || queue.read_pointer() == queue.written);
        assert_eq!(data.word(0).load(Ordering::Acquire), 2);
    }
}

#[test]
fn queues_of_the_engines_are_shared_by_all_processes() {
    let gpu = gpu();
    let (client, other) = (Client::open(&gpu), Client::open(&gpu));
    assert_eq!(client.property("num_sdma_engines"), 2);
    assert_eq!(
        (client.property("num_sdma_xgmi_engines"), client.property("num_sdma_queues_per_engine")),
        (0, 6)
    );
    let on_engine = |sdma_engine_id| CreateQueueArgs {
        sdma_engine_id,
        ..args(&client, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID)
    };
    let mut queues: Vec<_> = (0..6).map(|_| Queue::with(&client, on_engine(0))).collect();
    // Doorbells of queues 2 to 7: in both halves of the slice, from the engine's first on.
    let numbers: Vec<_> = queues.iter().map(Queue::doorbell_number).collect();
    assert_eq!(numbers, [0x101, 0x301, 0x102, 0x302, 0x103, 0x303]);
    let mut more = on_engine(0);
    assert_eq!(
        client.ioctl(nr::CREATE_QUEUE, &mut more),
        Err(Errno::ENOMEM),
        "all of the first engine are taken"
    );
    let mut foreign: Vec<_> = (0..6).map(|_| Queue::new(&other)).collect();
    assert_eq!(foreign[0].doorbell_number(), 0x10b);
    let mut more = args(&client, KFD_IOC_QUEUE_TYPE_SDMA);
    assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut more), Err(Errno::ENOMEM), "all are taken");
    // Every one of them works.
    let (data, theirs) = (data(&client), data(&other));
    for (at, queue) in (0..).zip(&mut queues) {
        queue.submit(&[fence(data.va + at * 4, 7)]);
        eventually("a queue works", || data.word(at * 4).load(Ordering::Acquire) == 7);
    }
    for (at, queue) in (0..).zip(&mut foreign) {
        queue.submit(&[fence(theirs.va + at * 4, 8)]);
        eventually("another process's queue works", || theirs.word(at * 4).load(Ordering::Acquire) == 8);
    }
    // A queue that is destroyed makes room, and so does a process that goes.
    queues.pop().unwrap().destroy();
    let last = Queue::new(&other);
    assert_eq!(last.doorbell_number(), 0x303);
    drop(foreign);
    drop(other);
    let mut one = Queue::with(&client, on_engine(1));
    one.submit(&[fence(data.va + 64, 9)]);
    eventually("a new queue works", || data.word(64).load(Ordering::Acquire) == 9);
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn sdma_queue_with_a_bad_packet_stops_and_the_next_one_works() {
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let data = data(&client);
        let mut bad = Queue::new(&client);
        bad.submit(&[packet(Op::SRBM_WRITE, &[0, 0]), fence(data.va, 1)]);
        eventually("the queue stops", || {
            gpu.device().stats().errors.contains_key(&GuestError::SdmaPacketRefused)
        });
        let mut good = Queue::new(&client);
        good.submit(&[fence(data.va + 4, 2)]);
        eventually("the other queue works", || good.read_pointer() == good.written);
        assert_eq!((data.word(0).load(Ordering::Acquire), data.word(4).load(Ordering::Acquire)), (0, 2));
        client.check_queue_works();
        bad.destroy();
        good.destroy();
    }
}

#[test]
fn fault_of_an_sdma_queue_reaches_the_memory_event_and_not_the_neighbour() {
    for gpu in gpus() {
        let (client, neighbour) = (Client::open(&gpu), Client::open(&gpu));
        let event = client.create_event(KFD_IOC_EVENT_MEMORY, 0).unwrap();
        let (data, theirs) = (data(&client), data(&neighbour));
        let (mut queue, mut other) = (Queue::new(&client), Queue::new(&neighbour));
        queue.submit(&[copy(0x6666_0000_0000, data.va, 64)]);
        let (result, _) = client.wait(event.event_id, 60_000).unwrap();
        assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
        other.submit(&[fence(theirs.va, 5)]);
        eventually("the neighbour works", || theirs.word(0).load(Ordering::Acquire) == 5);
    }
}

#[test]
fn sdma_queue_that_reads_an_uncorrectable_error_stops_its_process_alone() {
    for (chip, counts) in [(chip::DEFAULT, None), (&gfx942::MODEL, Some("ue: 1\nce: 0\nde: 0\n"))] {
        // No wave runs, so that the first read of VRAM is the engine's.
        let faults = "vram-ecc@2".parse().unwrap();
        let gpu = HostedGpu::new(GpuConfig { chip, faults, ..common::config() }).unwrap();
        let (client, neighbour) = (Client::open(&gpu), Client::open(&gpu));
        let events = [KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_HW_EXCEPTION];
        let [memory, hardware] = events.map(|kind| client.create_event(kind, 0).unwrap().event_id);
        let theirs = events.map(|kind| neighbour.create_event(kind, 0).unwrap().event_id);
        let host = data(&client);
        let card = client.alloc(PAGE, AllocFlags::VRAM | RW).unwrap();
        let mut queue = Queue::new(&client);
        host.word(0).store(7, Ordering::Relaxed);
        queue.submit(&[copy(host.va, card.va, 64), copy(card.va, host.va + 128, 64)]);
        eventually("what is correct is read", || host.word(128).load(Ordering::Acquire) == 7);
        queue.submit(&[copy(card.va, host.va + 256, 64)]);

        let (result, told) = client.wait(hardware, 60_000).unwrap();
        assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
        let told = HwExceptionData::read_from_bytes(&told.data[..16]).unwrap();
        let gpu_id = client.gpu_id;
        let lost =
            HwExceptionData { reset_type: 0, reset_cause: KFD_HW_EXCEPTION_ECC, memory_lost: 1, gpu_id };
        assert_eq!(told, lost);
        let (result, told) = client.wait(memory, 60_000).unwrap();
        assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE);
        let told = MemoryExceptionData::read_from_bytes(&told.data).unwrap();
        assert_eq!((told.error_type, told.failure.imprecise), (KFD_MEM_ERR_POISON_CONSUMED, 1));
        assert_eq!((told.va, told.gpu_id), (0, gpu_id));
        assert_eq!(host.word(256).load(Ordering::Acquire), 0, "nothing is written");
        assert_eq!(gpu.device().stats().errors.get(&GuestError::Poison), Some(&1));
        let file = gpu.card_read("ras/umc_err_count").ok();
        assert_eq!(file.as_deref(), counts.map(str::as_bytes), "{chip}");

        // A new queue is made, as Linux does, and is off the scheduler as the others are.
        let mut off = Queue::new(&client);
        off.submit(&[fence(host.va + 512, 1)]);
        for event in theirs {
            assert_eq!(neighbour.wait(event, 0).unwrap().0, KFD_IOC_WAIT_RESULT_TIMEOUT);
        }
        neighbour.check_queue_works();
        Client::open(&gpu).check_queue_works();
        assert_eq!(host.word(512).load(Ordering::Acquire), 0);
    }
}

#[test]
fn sdma_queues_are_refused_by_the_rules() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let good = args(&client, KFD_IOC_QUEUE_TYPE_SDMA);
    type Change = fn(&mut CreateQueueArgs);
    let cases: &[(&str, Change, Errno)] = &[
        ("share", |a| a.queue_percentage = 101, Errno::EINVAL),
        ("priority", |a| a.queue_priority = 16, Errno::EINVAL),
        ("odd ring size", |a| a.ring_size = 5000, Errno::EINVAL),
        ("wrong ring size", |a| a.ring_size = 8192, Errno::EINVAL),
        ("unmapped ring", |a| a.ring_base_address = 0x10_0000, Errno::EINVAL),
        ("kernel write pointer", |a| a.write_pointer_address = u64::MAX, Errno::EFAULT),
        ("unmapped read pointer", |a| a.read_pointer_address = 0x10_0000, Errno::EINVAL),
        ("odd write pointer", |a| a.write_pointer_address += 1, Errno::EINVAL),
        ("GPU", |a| a.gpu_id ^= 1, Errno::EINVAL),
        ("XGMI", |a| a.queue_type = KFD_IOC_QUEUE_TYPE_SDMA_XGMI, Errno::ENOMEM),
        (
            "engine",
            |a| (a.queue_type, a.sdma_engine_id) = (KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, 2),
            Errno::EINVAL,
        ),
        (
            "no such engine",
            |a| (a.queue_type, a.sdma_engine_id) = (KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, u32::MAX),
            Errno::EINVAL,
        ),
    ];
    // More often than there are queues: a refused request takes no queue.
    for _ in 0..4 {
        for (name, change, expected) in cases {
            let mut args = good;
            change(&mut args);
            assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(*expected), "{name}");
        }
    }
    // The number of an engine counts for the one type alone.
    let queue = Queue::with(&client, CreateQueueArgs { sdma_engine_id: 77, ..good });
    queue.update(0);
    let mut state = GetQueueWaveStateArgs { queue_id: queue.args.queue_id, ..Default::default() };
    assert_eq!(client.ioctl(nr::GET_QUEUE_WAVE_STATE, &mut state), Err(Errno::EINVAL), "it has no waves");
    queue.destroy();
}
