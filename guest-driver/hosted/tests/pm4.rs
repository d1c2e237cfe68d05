//! PM4 compute queues over the real ioctls: a kernel from SET_SH_REG to the event of its fence.

#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Buffer, Client, PAGE, RW, config, gpu, gpus, reserve};
use crate::packets::{halves, packet, set, write};
use crate::{copies, several};
use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::kfd::event::KFD_IOC_WAIT_RESULT_COMPLETE;
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::queue::{
    CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_SDMA, UpdateQueueArgs,
};
use belfry_abi::pm4::{ComputeRegister, Opcode};
use belfry_abi::sdma::Op;
use belfry_device::chip::MODELS;
use belfry_device::{GpuConfig, GuestError};
use belfry_kfd_hosted::{Errno, HostedGpu, Node, Reach};
use object::{Object, ObjectSegment, ObjectSymbol};
use zerocopy::FromBytes;

/// Kernels for each chip, by `gfx_target_version`.
static KERNELS: [(u64, &[u8]); 5] = [
    (110_000, include_bytes!("../../../device/tests/fixtures/cp.gfx1100.hsaco")),
    (110_501, include_bytes!("../../../device/tests/fixtures/cp.gfx1151.hsaco")),
    (120_001, include_bytes!("../../../device/tests/fixtures/cp.gfx1201.hsaco")),
    (90_500, include_bytes!("../../../device/tests/fixtures/cp.gfx950.hsaco")),
    (90_402, include_bytes!("../../../device/tests/fixtures/cp.gfx942.hsaco")),
];
/// Returns true if a chip of this `gfx_target_version` is of the gfx9 family, whose waves have 64 lanes.
fn is_gfx9(version: u64) -> bool {
    version < 100_000
}

/// `COMPUTE_PGM_RSRC3` of gfx9.
const RSRC3_GFX9: ComputeRegister = ComputeRegister(0x22d);
/// Dwords of a ring.
const RING: u64 = PAGE / 4;

struct Queue<'a> {
    client: &'a Client,
    args: CreateQueueArgs,
    doorbell: u64,
    written: u64,
}

/// Packet that a runtime sends at the end: the event's slot is written, and its interrupt raised.
fn release(slot: u64, event: u32) -> Vec<u32> {
    let body = [&[20 | 5 << 8, 2 << 29 | 2 << 24][..], &halves(slot), &[event, 0, event]].concat();
    packet(Opcode::RELEASE_MEM, &body)
}

impl<'a> Queue<'a> {
    fn new(client: &'a Client) -> Self {
        let args = client.queue_args().unwrap();
        Self::of(client, CreateQueueArgs { queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE, ..args })
    }

    fn of(client: &'a Client, mut args: CreateQueueArgs) -> Self {
        client.ioctl(nr::CREATE_QUEUE, &mut args).unwrap();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is asked for.
        let doorbells =
            unsafe { client.process.mmap(Node::Kfd, None, 8192, prot, args.doorbell_offset & !0x1fff) }
                .unwrap();
        Self { client, args, doorbell: doorbells as u64 + (args.doorbell_offset & 0x1fff), written: 0 }
    }

    fn submit(&mut self, packets: &[Vec<u32>]) {
        self.put(packets);
        // SAFETY: the doorbell is mapped while the process lives.
        unsafe { AtomicU64::from_ptr(self.doorbell as *mut u64) }.store(self.written, Ordering::Release);
        self.client.process.doorbell_written(self.doorbell as *mut u64);
    }

    /// Submits packets to a copy engine, whose pointers count bytes.
    fn submit_bytes(&mut self, packets: &[Vec<u32>]) {
        self.fill(packets);
        let bytes = self.written * 4;
        // SAFETY: as above, the write pointer and the doorbell.
        unsafe {
            AtomicU64::from_ptr(self.args.write_pointer_address as *mut u64).store(bytes, Ordering::Release);
            AtomicU64::from_ptr(self.doorbell as *mut u64).store(bytes, Ordering::Release);
        }
        self.client.process.doorbell_written(self.doorbell as *mut u64);
    }

    /// Puts packets into the ring without ringing the doorbell.
    fn put(&mut self, packets: &[Vec<u32>]) {
        self.fill(packets);
        // SAFETY: as above, the write pointer.
        unsafe { AtomicU64::from_ptr(self.args.write_pointer_address as *mut u64) }
            .store(self.written, Ordering::Release);
    }

    fn fill(&mut self, packets: &[Vec<u32>]) {
        for dword in packets.concat() {
            let at = self.args.ring_base_address + self.written % RING * 4;
            // SAFETY: the ring is mapped while the process lives.
            unsafe { AtomicU32::from_ptr(at as *mut u32) }.store(dword, Ordering::Relaxed);
            self.written += 1;
        }
    }

    fn read_pointer(&self) -> u64 {
        // SAFETY: as above.
        let pointer = unsafe { AtomicU32::from_ptr(self.args.read_pointer_address as *mut u32) };
        pointer.load(Ordering::Acquire).into()
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
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::yield_now();
    }
}

/// Loads a kernel of the fixture: the registers for it, workgroups of 256.
fn program(client: &Client, name: &str, args: u64) -> Vec<u32> {
    let chip = client.property("gfx_target_version");
    let (_, kernels) = KERNELS.into_iter().find(|(version, _)| *version == chip).unwrap();
    let file = object::File::parse(kernels).unwrap();
    let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap();
    let code = client.alloc(end.next_multiple_of(PAGE), AllocFlags::VRAM | RW).unwrap();
    for segment in file.segments() {
        let data = segment.data().unwrap();
        // SAFETY: inside of the allocation, which nothing else in this process refers to.
        unsafe {
            std::ptr::copy_nonoverlapping(
                data.as_ptr(),
                (code.va + segment.address()) as *mut u8,
                data.len(),
            );
        }
    }
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
    let bytes = file.segments().find_map(|segment| segment.data_range(symbol.address(), 64).ok()?).unwrap();
    let descriptor = KernelDescriptor::read_from_bytes(bytes).unwrap();
    let entry = (code.va + symbol.address()).wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let (rsrc1, rsrc2) = (descriptor.compute_pgm_rsrc1.bits(), descriptor.compute_pgm_rsrc2.bits());
    [
        set(ComputeRegister::PGM_LO, &halves(entry >> 8)),
        set(ComputeRegister::PGM_RSRC1, &[rsrc1, rsrc2 | 2 << 15]),
        set(
            if is_gfx9(chip) { RSRC3_GFX9 } else { ComputeRegister::PGM_RSRC3 },
            &[descriptor.compute_pgm_rsrc3.bits()],
        ),
        set(ComputeRegister::START_X, &[0, 0, 0, 256, 1, 1]),
        set(ComputeRegister::USER_DATA_0, &halves(args)),
    ]
    .concat()
}

fn data(client: &Client) -> Buffer {
    client.alloc(PAGE, AllocFlags::GTT | AllocFlags::COHERENT | RW).unwrap()
}

#[test]
fn pm4_queue_dispatches_a_kernel_and_its_fence_wakes_who_waits() {
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let signal = client.create_signal();
        let slot = signal.memory.quad(16).load(Ordering::Relaxed);
        let mut queue = Queue::new(&client);
        let (input, output, args) = (data(&client), data(&client), data(&client));
        (0..512).for_each(|at| input.word(at * 4).store(at as u32, Ordering::Relaxed));
        args.quad(0).store(input.va, Ordering::Relaxed);
        args.quad(8).store(output.va, Ordering::Relaxed);
        let packets = program(&client, "reverse.kd", args.va);
        // gfx9 has no word about caches, and no waves of 32 lanes.
        let (acquired, initiator) =
            if is_gfx9(client.property("gfx_target_version")) { (6, 0x21) } else { (7, 0x8021) };
        let acquire = &[0, u32::MAX, 0xff, 0, 0, 0, 0x4381][..acquired];
        // More than once around the ring.
        for round in 0..40 {
            (0..512).for_each(|at| output.word(at * 4).store(0, Ordering::Relaxed));
            queue.submit(&[
                packets.clone(),
                packet(Opcode::ACQUIRE_MEM, acquire),
                packet(Opcode::DISPATCH_DIRECT, &[512, 1, 1, initiator]),
                packet(Opcode::EVENT_WRITE, &[7 | 4 << 8]),
                release(slot, signal.event_id),
            ]);
            let (result, _) = client.wait(signal.event_id, 60_000).unwrap();
            assert_eq!(result, KFD_IOC_WAIT_RESULT_COMPLETE, "round {round}");
            let reversed = |at: u64| at / 256 * 256 + 255 - at % 256;
            let value = |at: u64| u64::from(output.word(at * 4).load(Ordering::Relaxed));
            assert!((0..512).all(|at| value(at) == reversed(at)), "round {round}");
        }
        assert!(queue.written > RING);
        eventually("the read pointer moves", || queue.read_pointer() == queue.written % RING);
        assert_eq!(gpu.device().stats().errors, Default::default());
        client.destroy_queue(queue.args.queue_id).unwrap();
    }
}

/// A page of the device's own, mapped for the GPU alone.
fn own(client: &Client, size: u64, kind: AllocFlags) -> u64 {
    let flags = kind | AllocFlags::WRITABLE | AllocFlags::COHERENT;
    let args = client.alloc_at(reserve(size), size, flags).unwrap();
    client.map(args.handle).unwrap();
    args.va_addr
}

/// Has the GPU of `ringer` and `engine` ring the doorbell of `rung` in each of its ways: `poke` is a program that stores to the doorbell.
fn ring(
    [rung, ringer, engine]: [&mut Queue<'_>; 3],
    data: &Buffer,
    (bell, flushes): (u64, u64),
    poke: &[u32],
    gpus: &[&Arc<HostedGpu>],
) {
    let initiator = initiator(ringer.client);
    for round in 1..=24 {
        // The device has nothing to do for longer than it looks out.
        if round % 8 == 1 {
            std::thread::sleep(Duration::from_millis(20));
        }
        rung.put(&[write(data.va, round)]);
        let [low, high] = halves(rung.written);
        match round % 3 {
            // The packet processor, which flushes as well.
            0 => {
                let body = [&[5 << 8 | 1 << 20][..], &halves(bell), &[low, high]].concat();
                ringer.submit(&[packet(Opcode::WRITE_DATA, &body), write(flushes, 1)]);
            }
            // A copy engine.
            1 => {
                let write = |at: u64, words: &[u32]| {
                    let count = words.len() as u32 - 1;
                    copies::packet(Op::WRITE, &[&halves(at)[..], &[count], words].concat())
                };
                engine.submit_bytes(&[write(bell, &[low, high]), write(flushes, &[1])]);
            }
            // A wave, by the lower half: queues of processes have their write pointer in memory.
            _ => ringer.submit(&[poke.to_vec(), packet(Opcode::DISPATCH_DIRECT, &[1, 1, 1, initiator])]),
        }
        eventually(&format!("the queue is rung in round {round}"), || {
            for gpu in gpus {
                let stats = gpu.device().stats();
                assert_eq!(stats.errors, Default::default(), "round {round}: {:?}", stats.reasons);
            }
            data.word(0).load(Ordering::Acquire) == round
        });
    }
}

/// The initiator of a dispatch of one wave.
fn initiator(client: &Client) -> u32 {
    if is_gfx9(client.property("gfx_target_version")) { 0x21 } else { 0x8021 }
}

#[test]
fn stores_of_the_gpu_to_a_doorbell_ring_it_every_time_and_those_to_the_page_of_flushes_are_taken() {
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let (data, args) = (data(&client), data(&client));
        let (doorbells, flushes) =
            (own(&client, 8192, AllocFlags::DOORBELL), own(&client, PAGE, AllocFlags::MMIO_REMAP));
        let (mut rung, mut ringer) = (Queue::new(&client), Queue::new(&client));
        let bell = doorbells + (rung.args.doorbell_offset & 0x1fff);
        let mut engine = Queue::of(&client, copies::args(&client, KFD_IOC_QUEUE_TYPE_SDMA));
        let poke = program(&client, "poke.kd", args.va);
        args.quad(0).store(bell, Ordering::Relaxed);
        let all = [&mut rung, &mut ringer, &mut engine];
        ring(all, &data, (bell, flushes), &poke, &[&gpu]);
        args.quad(0).store(flushes, Ordering::Relaxed);
        ringer.submit(&[
            poke,
            packet(Opcode::DISPATCH_DIRECT, &[1, 1, 1, initiator(&client)]),
            packet(Opcode::EVENT_WRITE, &[7 | 4 << 8]),
        ]);
        ringer.submit(&[write(data.va + 8, 1)]);
        eventually("the wave has flushed", || data.word(8).load(Ordering::Acquire) == 1);
        assert_eq!(gpu.device().stats().errors, Default::default());
        for queue in [&rung, &ringer, &engine] {
            client.destroy_queue(queue.args.queue_id).unwrap();
        }
    }
}

#[test]
fn stores_of_a_gpu_to_a_doorbell_of_one_that_sleeps_ring_it_every_time() {
    for chip in MODELS {
        let one = GpuConfig { chip, ..config() };
        let machine = several::machine([one.clone(), one], Reach::Pinned);
        let (mut client, ids) = several::client(&machine);
        client.gpu_id = ids[1];
        let (data, far) = (data(&client), client.queue_args().unwrap());
        let pages = [(8192, AllocFlags::DOORBELL), (PAGE, AllocFlags::MMIO_REMAP)].map(|(size, kind)| {
            let flags = kind | AllocFlags::WRITABLE | AllocFlags::COHERENT;
            let page = client.alloc_at(reserve(size), size, flags).unwrap();
            assert_eq!(several::map(&client, page.handle, &ids[..1]), (Ok(0), 1));
            page.va_addr
        });
        client.gpu_id = ids[0];
        let args = self::data(&client);
        let poke = program(&client, "poke.kd", args.va);
        let far = CreateQueueArgs { queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE, ..far };
        let (mut rung, mut ringer) = (Queue::of(&client, far), Queue::new(&client));
        let mut engine = Queue::of(&client, copies::args(&client, KFD_IOC_QUEUE_TYPE_SDMA));
        let bell = pages[0] + (rung.args.doorbell_offset & 0x1fff);
        args.quad(0).store(bell, Ordering::Relaxed);
        let all = [&mut rung, &mut ringer, &mut engine];
        ring(all, &data, (bell, pages[1]), &poke, &machine.gpus().iter().collect::<Vec<_>>());
        for queue in [&rung, &ringer, &engine] {
            client.destroy_queue(queue.args.queue_id).unwrap();
        }
    }
}

#[test]
fn pm4_queue_without_a_share_executes_nothing_until_it_has_one() {
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let mut queue = Queue::new(&client);
        let data = data(&client);
        queue.submit(&[write(data.va, 1)]);
        eventually("the packet is executed", || queue.read_pointer() == queue.written);
        queue.update(0);
        let before = queue.written;
        queue.submit(&[write(data.va, 2)]);
        // Another queue's packets are executed meanwhile.
        let mut other = Queue::new(&client);
        other.submit(&[write(data.va + 8, 3)]);
        eventually("the other queue works", || other.read_pointer() == other.written);
        assert_eq!((data.word(0).load(Ordering::Acquire), queue.read_pointer()), (1, before));
        queue.update(100);
        eventually("the packet is executed", || queue.read_pointer() == queue.written);
        assert_eq!(data.word(0).load(Ordering::Acquire), 2);
        client.destroy_queue(queue.args.queue_id).unwrap();
        client.destroy_queue(other.args.queue_id).unwrap();
    }
}

#[test]
fn pm4_queue_with_a_bad_packet_stops_and_the_next_one_works() {
    for gpu in gpus() {
        let client = Client::open(&gpu);
        let data = data(&client);
        let mut bad = Queue::new(&client);
        bad.submit(&[packet(Opcode::MEM_SEMAPHORE, &[0, 0]), write(data.va, 1)]);
        eventually("the queue stops", || gpu.device().stats().errors.contains_key(&GuestError::QueueStopped));
        let mut good = Queue::new(&client);
        good.submit(&[write(data.va + 4, 2)]);
        eventually("the other queue works", || good.read_pointer() == good.written);
        assert_eq!((data.word(0).load(Ordering::Acquire), data.word(4).load(Ordering::Acquire)), (0, 2));
        client.check_queue_works();
        client.destroy_queue(bad.args.queue_id).unwrap();
        client.destroy_queue(good.args.queue_id).unwrap();
    }
}

#[test]
fn pm4_queues_are_refused_by_the_rules() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let good = CreateQueueArgs { queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE, ..client.queue_args().unwrap() };
    type Change = fn(&mut CreateQueueArgs);
    let cases: &[(&str, Change, Errno)] = &[
        ("share", |a| a.queue_percentage = 101, Errno::EINVAL),
        ("odd ring size", |a| a.ring_size = 5000, Errno::EINVAL),
        ("wrong ring size", |a| a.ring_size = 8192, Errno::EINVAL),
        ("unmapped ring", |a| a.ring_base_address = 0x10_0000, Errno::EINVAL),
        ("kernel write pointer", |a| a.write_pointer_address = u64::MAX, Errno::EFAULT),
        ("unmapped read pointer", |a| a.read_pointer_address = 0x10_0000, Errno::EINVAL),
        ("end-of-pipe buffer", |a| a.eop_buffer_address = 0x10_0000, Errno::EINVAL),
        ("control stack", |a| a.ctl_stack_size += 4096, Errno::EINVAL),
        ("no save area", |a| a.ctx_save_restore_address = 0, Errno::EINVAL),
    ];
    for (name, change, expected) in cases {
        let mut args = good;
        change(&mut args);
        assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(*expected), "{name}");
    }
}
