//! Requests that are refused with a named error, and harm no other queue.

use belfry_abi::pm4::Opcode;
use belfry_abi::regs::gc;
use belfry_device::chip::Shape;

use super::driver::{Hws, doorbell, list_of, map, map_process, map_queue, packet};
use super::{SMALL, barrier, completes};
use crate::driver::eventually;

#[test]
fn malformed_lists_are_refused_and_the_ring_goes_on() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let list = list_of(&hws, &process, &[&queue]);
    let wptr = hws.mqd(&queue).pq_wptr_poll_addr();
    for (bad, name) in [
        (map_queue(&queue, wptr), "run list with a queue before its process"),
        (list[..list.len() - 1].to_vec(), "PM4 packet of the wrong length"),
        (packet(Opcode::DISPATCH_DIRECT, &[0; 4]), "run list with a packet that does not belong there"),
        (vec![0x1234_5678], "PM4 packet of a type this queue does not take"),
    ] {
        hws.run(&bad);
        assert_eq!(hws.errors(name), 1, "{name}");
    }
    // Memory that VMID 0 does not have, and a packet that is not valid.
    hws.hiq(&packet(Opcode::RUN_LIST, &[0x1000, 0x7000, 28 | 1 << 23]));
    hws.hiq(&packet(Opcode::RUN_LIST, &[0x1000, 0x7fff, 28]));
    hws.fence();
    assert_eq!(hws.errors("RUN_LIST at an address that is not mapped"), 1);
    assert_eq!(hws.errors("RUN_LIST without VALID, or without a list"), 1);
    hws.run(&list);
    completes(&mut hws, &mut process, &mut queue);
}

#[test]
fn bad_queues_of_a_list_are_refused_one_by_one() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut good = hws.queue(&mut process, doorbell(1, 0));
    let mut list = map_process(&process);
    let normal = 1 << 4 | 1 << 29;
    // Doorbells of SDMA engines and of the kernel, a queue of graphics, one without an MQD, one of the debug interface.
    list.extend(map(normal, doorbell(1, 0x100), good.mqd, 0));
    list.extend(map(normal, doorbell(0, 0x10), good.mqd, 0));
    list.extend(map(normal | 4 << 26, doorbell(1, 2), good.mqd, 0));
    list.extend(map(normal, doorbell(1, 4), 0x1000, 0));
    list.extend(map(normal | 1 << 21, doorbell(1, 6), good.mqd, 0));
    // An SDMA engine that is fused off.
    list.extend(map(normal | 1 << 2 | 5 << 26, doorbell(1, 0x100 + 50), good.mqd, 0));
    let wptr = hws.mqd(&good).pq_wptr_poll_addr();
    list.extend(map_queue(&good, wptr));
    hws.run(&list);
    completes(&mut hws, &mut process, &mut good);
    for (name, count) in [
        ("MAP_QUEUES with a doorbell that belongs to another engine", 2),
        ("MAP_QUEUES of an engine that does not exist", 1),
        ("MQD at an address that is not mapped", 1),
        ("MAP_QUEUES of a queue type that is not modelled", 1),
        ("ADD_QUEUE of an SDMA queue on an engine without queues for the scheduler", 1),
    ] {
        assert_eq!(hws.errors(name), count, "{name}: {:?}", hws.driver.gpu.stats().errors);
    }
}

#[test]
fn packets_of_others_are_refused() {
    let mut hws = Hws::up(SMALL);
    let process = hws.process(0x8001);
    // Packets that only run lists have, resources of the KIQ, the MES's ring.
    hws.hiq(&map_process(&process));
    hws.hiq(&packet(Opcode::SET_RESOURCES, &[0xff00, 1, 0, 0, 0, 0, 0]));
    hws.hiq(&packet(Opcode::SET_RESOURCES, &[1 << 29 | 1, 1, 0, 0, 0, 0, 0]));
    hws.hiq(&packet(Opcode::SET_RESOURCES, &[1 << 29 | 0xfff8, 0, 0, 0, 0, 0, 0]));
    hws.fence();
    hws.kiq(0, &packet(Opcode::MAP_QUEUES, &[2 << 18 | 5 << 26 | 1 << 29, 0x16 << 2, 0x1000, 0, 0, 0]));
    hws.kiq_test(0);
    for name in [
        "packet that the HIQ does not take",
        "SET_RESOURCES for a queue other than the KIQ",
        "SET_HW_RSRC without VMIDs",
        "SET_HW_RSRC without compute queues",
        "MAP_QUEUES for an engine other than the scheduler",
    ] {
        assert_eq!(hws.errors(name), 1, "{name}");
    }
    // Mapped a second time, and mapped at another place.
    let map = hws.map_hiq(hws.hiqs[0].mqd);
    hws.kiq(0, &map);
    hws.kiq_test(0);
    assert_eq!(hws.errors("HIQ that is mapped more than once"), 1);
}

#[test]
fn queues_that_registers_start_are_the_kiq_alone() {
    let hws = Hws::up(Shape { xccs: 2, cus: 2 });
    for at in [[1, 0, 0], [3, 0, 0]] {
        hws.select(1, at);
        hws.driver.write(hws.dword::<gc::CP_HQD_ACTIVE>(1), 1);
        eventually("it is stopped", || {
            hws.select(1, at);
            hws.driver.read(hws.dword::<gc::CP_HQD_ACTIVE>(1)) == 0
        });
    }
    assert_eq!(hws.errors("compute queue started through registers, which is not modelled"), 1);
    assert_eq!(hws.errors("queue of the scheduler's engine that is not modelled"), 1);
}

#[test]
fn queue_of_a_process_without_tables_fails_alone() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let mut list = list_of(&hws, &process, &[&queue]);
    // Another root: no page of the ring is mapped.
    list[2] = 0x3f_0001;
    hws.run(&list);
    let waits = barrier(&mut hws, &mut process, &mut queue);
    eventually("the queue stops", || hws.errors("queue stopped") == 1);
    assert!(!super::is_done(&hws, waits));
    let mut other = hws.process(0x8002);
    let mut second = hws.queue(&mut other, doorbell(2, 0));
    let list = list_of(&hws, &other, &[&second]);
    hws.run(&list);
    completes(&mut hws, &mut other, &mut second);
}
