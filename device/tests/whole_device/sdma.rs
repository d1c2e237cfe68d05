//! SDMA queues, from ADD_QUEUE to the interrupt, off their slots and through snapshots.

use std::sync::atomic::Ordering;

use belfry_abi::ih::{Client, Source};
use belfry_abi::mes::{AddQueueFlags, Opcode as MesOpcode, QueueType};
use belfry_abi::mqd::SdmaMqd;
use belfry_abi::sdma::{Header, Op};
use belfry_device::{GpuConfig, SavedGpu};
use belfry_tools::inspect::Inspect as _;
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromBytes, FromZeros};

use crate::driver::{Driver, Process, UserQueue, eventually};
use crate::save::guest::config;

/// Bytes of a ring.
const RING: u64 = 4096;

/// A queue of the driver in miniature whose packets are SDMA's.
pub struct Sdma {
    pub queue: UserQueue,
    written: u64,
}

pub fn packet(op: Op, body: &[u32]) -> Vec<u32> {
    [&[Header::new(op, 0).bits()], body].concat()
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

pub fn copy(from: u64, to: u64, bytes: u32) -> Vec<u32> {
    packet(Op::COPY, &[&[bytes - 1, 0][..], &halves(from), &halves(to)].concat())
}

pub fn fence(at: u64, value: u32) -> Vec<u32> {
    packet(Op::FENCE, &[&halves(at)[..], &[value]].concat())
}

pub fn trap(context: u32) -> Vec<u32> {
    packet(Op::TRAP, &[context])
}

/// A wait for memory to be a value.
fn wait(at: u64, value: u32) -> Vec<u32> {
    let mut dwords = packet(Op::POLL_REGMEM, &[&halves(at)[..], &[value, u32::MAX, 0x0fff_0004]].concat());
    dwords[0] |= 1 << 31 | 3 << 28;
    dwords
}

pub fn mqd(driver: &Driver, queue: &UserQueue) -> SdmaMqd {
    let mut bytes = [0; 512];
    driver.ram.read_slice(&mut bytes, GuestAddress(queue.mqd_memory)).unwrap();
    SdmaMqd::read_from_bytes(&bytes).unwrap()
}

impl Sdma {
    pub fn new(driver: &mut Driver, process: &mut Process, doorbell: u32, engine: u32) -> Self {
        let queue = UserQueue::new(driver, process, doorbell);
        let compute = {
            let mut bytes = [0; 2048];
            driver.ram.read_slice(&mut bytes, GuestAddress(queue.mqd_memory)).unwrap();
            belfry_abi::mqd::ComputeMqd::read_from_bytes(&bytes).unwrap()
        };
        let mut mqd = SdmaMqd::new_zeroed();
        mqd.sdmax_rlcx_rb_cntl.set_rb_size((RING / 4).ilog2() as u8);
        mqd.sdmax_rlcx_rb_cntl.set_rptr_writeback_enable(true);
        mqd.sdmax_rlcx_rb_cntl.set_f32_wptr_poll_enable(true);
        mqd.set_ring_base(compute.pq_base());
        mqd.set_rptr_report(compute.pq_rptr_report_addr());
        mqd.set_wptr_poll(compute.pq_wptr_poll_addr());
        mqd.sdmax_rlcx_doorbell_offset = doorbell << 2;
        mqd.sdma_engine_id = engine;
        driver.put_ram(queue.mqd_memory, &[0u8; 4096]);
        driver.put_ram(queue.mqd_memory, &mqd);
        driver.put_ram(queue.ring, &[0u8; RING as usize]);
        Self { queue, written: 0 }
    }

    fn try_add(&self, driver: &mut Driver, process: &Process) -> bool {
        let mut frame = self.queue.frame(driver, process);
        frame.flags &= !AddQueueFlags::IS_AQL_QUEUE;
        frame.queue_type = QueueType::SDMA.0;
        driver.mes(&frame, MesOpcode::ADD_QUEUE)
    }

    fn add(&self, driver: &mut Driver, process: &Process) {
        assert!(self.try_add(driver, process));
    }

    pub fn put(&mut self, driver: &Driver, packets: &[Vec<u32>]) {
        for dword in packets.concat() {
            driver.put_ram(self.queue.ring + self.written % RING, &dword);
            self.written += 4;
        }
        driver.set_ram_u64(self.queue.queue + 0x38, self.written);
        driver.ring(u64::from(self.queue.doorbell) * 4, self.written);
    }

    fn read_pointer(&self, driver: &Driver) -> u64 {
        driver.ram_u64(self.queue.queue + 0x80)
    }
}

#[test]
fn sdma_queue_copies_from_doorbell_to_fence_and_interrupt() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let (data, data_va) = process.alloc(&mut driver, 8192);
    let mut interrupts = 0;
    for engine in 0..2u32 {
        let doorbell = 0xa00 + engine * 0x14;
        let mut queue = Sdma::new(&mut driver, &mut process, doorbell, engine);
        queue.add(&mut driver, &process);
        // More rounds than the ring holds at once.
        for round in 1..=120u32 {
            driver.put_ram(data, &[round; 256]);
            interrupts += 1;
            let packets = [copy(data_va, data_va + 4096, 1024), fence(data_va + 2048, round), trap(round)];
            queue.put(&driver, &packets);
            eventually("the fence is written", || driver.ram_u32(data + 2048) == round);
            eventually("the interrupt arrives", || driver.interrupts.0.load(Ordering::SeqCst) >= interrupts);
            let entries = driver.drain_interrupts();
            let seen: Vec<_> = entries
                .iter()
                .map(|entry| (entry.client(), entry.source(), entry.ring(), entry.pasid(), entry.data[0]))
                .collect();
            // The first of the scheduler's queues of an engine is its third.
            let ring = (engine as u8) << 4 | 2;
            assert_eq!(seen, [(Client::GFX, Source::SDMA_TRAP, ring, 0x8001, round)]);
            assert!((0..256).all(|at| driver.ram_u32(data + 4096 + at * 4) == round), "{round}");
        }
        assert!(queue.written > RING);
        eventually("the read pointer moves", || queue.read_pointer(&driver) == queue.written);
        assert!(driver.remove(doorbell, queue.queue.gang));
        let mqd = mqd(&driver, &queue.queue);
        assert_eq!((mqd.read_pointer(), mqd.sdmax_rlcx_ib_size), (queue.written, 0));
    }
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn sdma_queue_goes_on_where_it_was_taken_off() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Sdma::new(&mut driver, &mut process, 0xa00, 0);
    queue.add(&mut driver, &process);
    let (data, data_va) = process.alloc(&mut driver, 4096);
    let inside = [fence(data_va, 1), wait(data_va + 256, 1), fence(data_va + 4, 2)].concat();
    let (buffer, buffer_va) = process.alloc(&mut driver, 4096);
    inside.iter().zip((buffer..).step_by(4)).for_each(|(dword, at)| driver.put_ram(at, dword));
    let [lo, hi] = halves(buffer_va);
    let enter = packet(Op::INDIRECT, &[lo, hi, inside.len() as u32, 0, 0]);
    queue.put(&driver, &[enter, fence(data_va + 8, 3)]);
    for _ in 0..3 {
        eventually("the buffer is entered", || driver.ram_u32(data) == 1);
        assert!(driver.remove(0xa00, queue.queue.gang));
        // After the fence of four dwords.
        let mqd = mqd(&driver, &queue.queue);
        let left = inside.len() as u32 - 4;
        assert_eq!(
            (mqd.buffer_base(), mqd.sdmax_rlcx_ib_size, mqd.read_pointer()),
            (buffer_va + 16, left, 24)
        );
        assert_eq!((driver.ram_u32(data + 4), queue.read_pointer(&driver)), (0, 0));
        queue.add(&mut driver, &process);
    }
    // Rung while the queue is on no slot: nothing happens, and nothing is lost.
    assert!(driver.remove(0xa00, queue.queue.gang));
    driver.put_ram(data + 256, &1u32);
    queue.put(&driver, &[fence(data_va + 12, 4)]);
    queue.add(&mut driver, &process);
    eventually("the last fence is written", || driver.ram_u32(data + 12) == 4);
    assert_eq!([0, 4, 8].map(|at| driver.ram_u32(data + at)), [1, 2, 3]);
    eventually("the read pointer moves", || queue.read_pointer(&driver) == queue.written);
    // The last doorbell belonged to no queue.
    assert_eq!(driver.gpu.stats().errors.values().sum::<u64>(), 1);
}

#[test]
fn bad_packet_stops_its_sdma_queue_and_no_other() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let [mut bad, mut lost, mut good] =
        [0xa00, 0xa02, 0xa04].map(|doorbell| Sdma::new(&mut driver, &mut process, doorbell, 1));
    for queue in [&bad, &lost, &good] {
        queue.add(&mut driver, &process);
    }
    let (data, data_va) = process.alloc(&mut driver, 4096);
    bad.put(&driver, &[packet(Op::SRBM_WRITE, &[0, 0]), fence(data_va, 1)]);
    eventually("the queue stops", || {
        driver.errors("queue stopped") == 1 && driver.interrupts.0.load(Ordering::SeqCst) == 1
    });
    let [entry] = driver.drain_interrupts()[..] else { panic!("one interrupt") };
    assert_eq!((entry.client(), entry.source(), entry.ring()), (Client::GFX, Source::SDMA_QUEUE_HANG, 0x12));
    // The doorbell's number in its process's slice of 1024.
    assert_eq!((entry.data[0], driver.errors("SDMA packet refused")), ((0xa00 / 2) & 0x3ff, 1));
    lost.put(&driver, &[copy(0x6666_0000_0000, data_va, 4), fence(data_va, 1)]);
    eventually("the queue stops", || {
        driver.errors("queue stopped") == 2 && driver.interrupts.0.load(Ordering::SeqCst) == 2
    });
    let [entry] = driver.drain_interrupts()[..] else { panic!("one interrupt") };
    assert_eq!((entry.source(), entry.fault_page()), (Source::UTCL2_FAULT, 0x6_6660_0000));
    good.put(&driver, &[fence(data_va + 4, 2)]);
    eventually("the other one works", || driver.ram_u32(data + 4) == 2);
    assert_eq!(driver.ram_u32(data), 0);
    for queue in [&bad, &lost, &good] {
        assert!(driver.remove(queue.queue.doorbell, queue.queue.gang));
    }
}

#[test]
fn more_sdma_queues_than_an_engine_has_take_turns() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let (data, data_va) = process.alloc(&mut driver, 4096);
    let mut queues: Vec<_> =
        (0..9).map(|at| Sdma::new(&mut driver, &mut process, 0xa00 + at * 2, 0)).collect();
    for queue in &queues {
        queue.add(&mut driver, &process);
    }
    // A queue on the other engine does not hold them up, nor do queues that wait for memory.
    let mut other = Sdma::new(&mut driver, &mut process, 0xa80, 1);
    other.add(&mut driver, &process);
    for (at, queue) in (0..).zip(&mut queues).take(8) {
        queue.put(&driver, &[wait(data_va + 1024, 1), fence(data_va + at * 4, 1)]);
    }
    other.put(&driver, &[fence(data_va + 512, 1)]);
    eventually("the other engine works", || driver.ram_u32(data + 512) == 1);
    queues[8].put(&driver, &[fence(data_va + 32, 1)]);
    eventually("a queue without a slot gets one", || driver.ram_u32(data + 32) == 1);
    assert!((0..8).all(|at| driver.ram_u32(data + at * 4) == 0));
    assert!(driver.gpu.stats().queues_preempted > 0);
    driver.put_ram(data + 1024, &1u32);
    eventually("the others end", || (0..8).all(|at| driver.ram_u32(data + at * 4) == 1));
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn sdma_queues_that_cannot_be_are_refused_by_name() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Sdma::new(&mut driver, &mut process, 0xa00, 0);
    let good = mqd(&driver, &queue.queue);
    type Spoil = fn(&mut SdmaMqd);
    let cases: [(&str, Spoil); 4] = [
        ("ADD_QUEUE of an SDMA queue on an engine without queues for the scheduler", |mqd| {
            mqd.sdma_engine_id = 2;
        }),
        ("the MQD has no ring", |mqd| mqd.set_ring_base(0)),
        ("MQD with an impossible ring size", |mqd| mqd.sdmax_rlcx_rb_cntl.set_rb_size(31)),
        ("MQD with an impossible ring size", |mqd| mqd.sdmax_rlcx_rb_cntl.set_rb_size(3)),
    ];
    for (count, (name, spoil)) in [1, 1, 1, 2].into_iter().zip(cases) {
        let mut bad = good;
        spoil(&mut bad);
        driver.put_ram(queue.queue.mqd_memory, &bad);
        assert!(!queue.try_add(&mut driver, &process), "{name}: answered");
        assert_eq!(driver.errors(name), count, "{name}: not counted");
    }
    driver.put_ram(queue.queue.mqd_memory, &good);
    queue.add(&mut driver, &process);
    let (data, data_va) = process.alloc(&mut driver, 4096);
    queue.put(&driver, &[fence(data_va, 1)]);
    eventually("the right one works", || driver.ram_u32(data) == 1);
}

#[test]
fn sdma_queue_is_saved_in_the_middle_of_its_work_and_goes_on_elsewhere() {
    const BYTES: u32 = 6 << 20;
    let mut driver = Driver::with(config());
    driver.work_on_caller();
    driver.bring_up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Sdma::new(&mut driver, &mut process, 0xa00, 1);
    queue.add(&mut driver, &process);
    let (data, data_va) = process.alloc(&mut driver, 4096);
    let [(from, from_va), (to, to_va)] = [(); 2].map(|()| process.alloc(&mut driver, BYTES.into()));
    for at in (0..u64::from(BYTES)).step_by(4096) {
        driver.put_ram(from + at, &(at as u32 | 1));
    }
    let inside = [copy(from_va, to_va, BYTES), wait(data_va + 256, 1), fence(data_va, 1)].concat();
    let (buffer, buffer_va) = process.alloc(&mut driver, 4096);
    inside.iter().zip((buffer..).step_by(4)).for_each(|(dword, at)| driver.put_ram(at, dword));
    let [lo, hi] = halves(buffer_va);
    let enter = packet(Op::INDIRECT, &[lo, hi, inside.len() as u32, 0, 0]);
    queue.put(&driver, &[enter, fence(data_va + 4, 2)]);
    let last = u64::from(BYTES) - 4096;
    driver.gpu.pass();
    assert_eq!((driver.ram_u32(to), driver.ram_u32(to + last)), (1, 0), "in the middle of the copy");
    let bytes = driver.gpu.save().unwrap().to_bytes().unwrap();
    let saved = SavedGpu::from_bytes(&bytes).unwrap();
    let other = driver.continued(&saved, GpuConfig { time: config().time, ..saved.config() });
    assert!(other.gpu.save().unwrap().to_bytes().unwrap() == bytes, "saved again, it is another one");
    let steps = |driver: &Driver| {
        for _ in 0..50 {
            driver.gpu.pass();
        }
    };
    for driver in [&other, &driver] {
        steps(driver);
        assert_eq!((driver.ram_u32(to + last), driver.ram_u32(data)), (last as u32 | 1, 0));
        driver.put_ram(data + 256, &1u32);
        steps(driver);
        assert_eq!((driver.ram_u32(data), driver.ram_u32(data + 4)), (1, 2));
        assert_eq!(queue.read_pointer(driver), queue.written);
        assert_eq!(driver.gpu.stats().errors, Default::default());
    }
}

#[test]
fn copies_that_engines_are_at_are_saved_and_go_on_elsewhere() {
    const BYTES: u32 = 6 << 20;
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queues = [0, 1].map(|engine| {
        let queue = Sdma::new(&mut driver, &mut process, 0xa00 + engine * 0x10, engine);
        queue.add(&mut driver, &process);
        queue
    });
    let (data, data_va) = process.alloc(&mut driver, 4096);
    let [(from, from_va), (first, first_va), (second, second_va)] =
        [(); 3].map(|()| process.alloc(&mut driver, BYTES.into()));
    for at in (0..u64::from(BYTES)).step_by(4096) {
        driver.put_ram(from + at, &(at as u32 | 1));
    }
    queues[0].put(&driver, &[copy(from_va, first_va, BYTES), copy(first_va, second_va, BYTES)]);
    queues[1].put(&driver, &[wait(data_va, 1), copy(from_va, second_va, BYTES), fence(data_va + 8, 1)]);
    queues[0].put(&driver, &[fence(data_va + 4, 1), fence(data_va, 1)]);
    for _ in 0..10 {
        driver.gpu.pause();
        let saved = driver.gpu.save().unwrap();
        driver = driver.continued(&saved, saved.config());
    }
    eventually("both queues end", || driver.ram_u32(data + 4) + driver.ram_u32(data + 8) == 2);
    for at in (0..u64::from(BYTES)).step_by(4096) {
        let expected = at as u32 | 1;
        assert_eq!((driver.ram_u32(first + at), driver.ram_u32(second + at)), (expected, expected));
    }
    for queue in &queues {
        eventually("the read pointer moves", || queue.read_pointer(&driver) == queue.written);
    }
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn sdma_packets_of_a_kind_are_stopped_at_one_after_the_other() {
    use belfry_tools::inspect::BreakOn;

    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = Sdma::new(&mut driver, &mut process, 0x900, 0);
    queue.add(&mut driver, &process);
    let (data, data_va) = process.alloc(&mut driver, 4096);
    let number = driver.gpu.inspect().add_break(BreakOn::Packet("SDMA:FENCE".into())).unwrap();
    driver.put_ram(data + 64, &7u32);
    queue.put(&driver, &[copy(data_va + 64, data_va + 68, 4), fence(data_va, 1), fence(data_va + 4, 2)]);
    for done in 0..2u32 {
        let status = driver.gpu.inspect().wait(std::time::Duration::from_secs(60)).unwrap();
        assert_eq!((status.halted, status.breakpoint), (true, Some(number)), "{status:?}");
        assert_eq!(driver.ram_u32(data + 68), 7, "the copy is over");
        for at in 0..2u32 {
            let expected = if at < done { at + 1 } else { 0 };
            assert_eq!(driver.ram_u32(data + u64::from(at) * 4), expected, "{at} of {done}");
        }
        driver.gpu.inspect().proceed();
    }
    eventually("the last fence is written", || driver.ram_u32(data + 4) == 2);
}
