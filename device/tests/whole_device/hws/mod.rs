//! Queues of MI300X, from the KIQ's registers to packets that complete.

mod area;
mod debug;
mod driver;
mod kernels;
mod leaves;
mod others;
mod partitions;
mod refused;
mod retry_ring;
mod returns;
mod sdma;
mod xnack;

use belfry_abi::aql::{BarrierPacket, PacketHeader, PacketType};
use belfry_abi::regs::{gc, gfx9};
use belfry_device::chip::Shape;
use belfry_tools::inspect::Inspect as _;
use zerocopy::FromZeros as _;

use crate::driver::kernels::signal;
use crate::driver::{Process, UserQueue, eventually};
use driver::{ALL_NOT_STATIC, Hws, VMIDS, doorbell, list_of, map_process, map_queue};

const SMALL: Shape = Shape { xccs: 1, cus: 4 };

/// Puts a barrier without dependencies on a queue, and returns the place of its signal.
fn barrier(hws: &mut Hws, process: &mut Process, queue: &mut UserQueue) -> u64 {
    let (memory, va) = signal(&mut hws.driver, process, 0);
    let mut packet = BarrierPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::BARRIER_AND, true, 2, 2).bits();
    packet.completion_signal = va;
    queue.put(&hws.driver, &packet);
    memory
}

fn is_done(hws: &Hws, signal: u64) -> bool {
    hws.driver.ram_u64(signal + 8) == 0
}

fn completes(hws: &mut Hws, process: &mut Process, queue: &mut UserQueue) {
    let signal = barrier(hws, process, queue);
    eventually("the barrier completes", || is_done(hws, signal));
}

#[test]
fn queue_of_a_run_list_takes_packets_until_it_is_taken_off() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let list = list_of(&hws, &process, &[&queue]);
    hws.run(&list);
    for _ in 0..3 {
        completes(&mut hws, &mut process, &mut queue);
    }
    eventually("the read index is told", || queue.read_index(&hws.driver) == 3);
    assert_eq!(hws.driver.gpu.stats().queues_mapped, 1);
    hws.unmap(ALL_NOT_STATIC, &[]);
    // A packet written in the meantime is found when the queue comes back.
    let late = barrier(&mut hws, &mut process, &mut queue);
    hws.driver.runner_passes();
    let listed = hws.driver.gpu.inspect().queues().unwrap();
    assert!(listed.iter().all(|queue| queue.kernel && queue.packets == Some("pm4")), "{listed:?}");
    assert_eq!(listed.len(), 2, "the KIQ and the HIQ");
    assert!(!is_done(&hws, late), "it is on no slot");
    assert_eq!(hws.mqd(&queue).cp_hqd_pq_rptr, 3, "its place is in its MQD");
    hws.run(&list);
    eventually("the late barrier completes", || is_done(&hws, late));
    let listed = hws.driver.gpu.inspect().queues().unwrap();
    let mine = listed.iter().find(|listed| !listed.kernel).unwrap();
    assert_eq!((mine.doorbell, mine.pasid, mine.packets), (queue.doorbell, 0x8001, Some("aql")));
    // A ring while its queue is away is no error if the queue comes back. If it does not come back, the ring is counted.
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
    let mut other = hws.queue(&mut process, doorbell(1, 1));
    let list = list_of(&hws, &process, &[&other]);
    hws.run(&list);
    barrier(&mut hws, &mut process, &mut queue);
    completes(&mut hws, &mut process, &mut other);
    assert_eq!(hws.errors("doorbell of a queue that does not exist"), 1);
}

#[test]
fn processes_get_vmids_that_the_driver_can_look_up() {
    let mut hws = Hws::up(SMALL);
    let mut list = Vec::new();
    let mut all = Vec::new();
    for pasid in [0x8001, 0x8002] {
        let mut process = hws.process(pasid);
        let queue = hws.queue(&mut process, doorbell(u32::from(pasid & 0xff), 0));
        list.extend(list_of(&hws, &process, &[&queue]));
        all.push((process, queue));
    }
    hws.run(&list);
    for (process, queue) in &mut all {
        completes(&mut hws, process, queue);
    }
    let mapping = hws.dword::<gfx9::athub::ATC_VMID0_PASID_MAPPING>(0);
    let found: Vec<u32> =
        VMIDS.map(|vmid| hws.driver.read(mapping + vmid)).filter(|bits| *bits != 0).collect();
    assert_eq!(found, [1 << 31 | 0x8001, 1 << 31 | 0x8002]);
    hws.unmap(ALL_NOT_STATIC, &[]);
    assert!(VMIDS.clone().all(|vmid| hws.driver.read(mapping + vmid) == 0), "nobody has any");
}

#[test]
fn processes_take_turns_where_there_are_fewer_vmids() {
    let mut hws = Hws::up(SMALL);
    hws.resources(1 << 5, 0b11);
    let mut list = Vec::new();
    let mut all = Vec::new();
    for index in 0..4u16 {
        let mut process = hws.process(0x8001 + index);
        let queues = [0, 1].map(|queue| hws.queue(&mut process, doorbell(1 + u32::from(index), queue)));
        list.extend(list_of(&hws, &process, &[&queues[0], &queues[1]]));
        all.push((process, queues));
    }
    // The end of the list asks for time slices of its own.
    list.extend(driver::packet(belfry_abi::pm4::Opcode::RUN_LIST, &[0x1000, 0, 1 << 23 | 1 << 20]));
    hws.run(&list);
    for _ in 0..3 {
        for (process, queues) in &mut all {
            for queue in queues {
                completes(&mut hws, process, queue);
            }
        }
    }
    assert!(hws.driver.gpu.stats().queues_mapped > 8, "they came back");
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn queues_are_taken_off_by_doorbell_and_by_process() {
    let mut hws = Hws::up(SMALL);
    let (mut one, mut other) = (hws.process(0x8001), hws.process(0x8002));
    let mut queues = [0, 1].map(|queue| hws.queue(&mut one, doorbell(1, queue)));
    let mut third = hws.queue(&mut other, doorbell(2, 0));
    let list = [list_of(&hws, &one, &[&queues[0], &queues[1]]), list_of(&hws, &other, &[&third])].concat();
    hws.run(&list);
    hws.unmap(1 << 29, &[queues[0].doorbell]);
    let waits = barrier(&mut hws, &mut one, &mut queues[0]);
    completes(&mut hws, &mut one, &mut queues[1]);
    assert!(!is_done(&hws, waits));
    // By the process: the field of the first doorbell.
    hws.hiq(&driver::packet(belfry_abi::pm4::Opcode::UNMAP_QUEUES, &[1 << 4, 0x8001, 0, 0, 0]));
    hws.fence();
    let waits_too = barrier(&mut hws, &mut one, &mut queues[1]);
    completes(&mut hws, &mut other, &mut third);
    assert!(!is_done(&hws, waits) && !is_done(&hws, waits_too));
    hws.run(&list);
    eventually("all complete", || is_done(&hws, waits) && is_done(&hws, waits_too));
}

#[test]
fn static_queue_stays_when_others_are_taken_off() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let wptr = hws.mqd(&queue).pq_wptr_poll_addr();
    let fixed = driver::map(1 << 4 | 2 << 21 | 1 << 29, queue.doorbell, queue.mqd, wptr);
    let list = [map_process(&process), fixed].concat();
    hws.run(&list);
    hws.unmap(ALL_NOT_STATIC, &[]);
    completes(&mut hws, &mut process, &mut queue);
    // The next list has it again.
    hws.run(&list);
    completes(&mut hws, &mut process, &mut queue);
    assert_eq!(hws.driver.gpu.stats().queues_mapped, 1);
    hws.unmap(2 << 4, &[]);
    let waits = barrier(&mut hws, &mut process, &mut queue);
    hws.driver.runner_passes();
    assert!(!is_done(&hws, waits), "all are all");
}

#[test]
fn registers_of_packets_are_those_of_every_core() {
    let mut hws = Hws::up(Shape { xccs: 2, cus: 2 });
    let index = hws.dword::<gfx9::gc::CP_IQ_WAIT_TIME2>(0);
    hws.hiq(&driver::packet(belfry_abi::pm4::Opcode::WRITE_DATA, &[0, index, 0, 0x1234]));
    hws.fence();
    for xcc in 0..2 {
        assert_eq!(hws.get::<gfx9::gc::CP_IQ_WAIT_TIME2>(xcc).0, 0x1234, "XCC {xcc}");
        let partition = hws.get::<gfx9::gc::CP_HYP_XCP_CTL>(xcc);
        assert_eq!((partition.num_xcc_in_xcp(), partition.virtual_xcc_id()), (2, xcc.into()));
    }
    assert_eq!(hws.get::<gc::GB_ADDR_CONFIG>(1).0, 0x2a11_4042);
}

#[test]
fn snapshot_has_the_rings_and_the_queues() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let wptr = hws.mqd(&queue).pq_wptr_poll_addr();
    let list = [map_process(&process), map_queue(&queue, wptr)].concat();
    hws.run(&list);
    completes(&mut hws, &mut process, &mut queue);
    let saved = hws.driver.gpu.save().unwrap();
    hws.driver = hws.driver.continued(&saved, saved.config());
    completes(&mut hws, &mut process, &mut queue);
    hws.fence();
    hws.kiq_test(0);
    hws.unmap(ALL_NOT_STATIC, &[]);
    assert_eq!(hws.mqd(&queue).cp_hqd_pq_rptr, 2);
}
