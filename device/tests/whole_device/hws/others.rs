//! Packets and MQDs of another chip or generation, and masks that leave no XCC: a named error on their queue.

use belfry_abi::mqd::{ComputeMqd, v9};
use belfry_abi::pm4::Opcode;
use belfry_device::chip::Shape;

use super::driver::{Hws, doorbell, list_of, packet};
use super::kernels::submit_buffer;
use super::{SMALL, barrier, completes, is_done};
use crate::driver::{Process, UserQueue, eventually};

const FOUR: Shape = Shape { xccs: 4, cus: 4 };

/// A queue's MQD on gfx11: the fields of the XCCs have other meanings there.
fn of_gfx11(mqd: &mut ComputeMqd) {
    mqd.set_v9(v9::CP_MQD_STRIDE_SIZE, 0);
    mqd.set_v9(v9::COMPUTE_TG_CHUNK_SIZE, u32::MAX);
    mqd.set_v9(v9::COMPUTE_CURRENT_LOGIC_XCC_ID, u32::MAX);
}

/// An MQD of an SDMA queue, which has its control register where that of a compute queue has its header.
fn of_sdma(mqd: &mut ComputeMqd) {
    mqd.header = 9 << 1 | 1 << 12;
}

#[test]
fn mqds_of_other_chips_and_masks_without_an_xcc_are_refused_by_name() {
    type Change = fn(&mut ComputeMqd);
    let cases: [(Change, &str); 6] = [
        (of_gfx11, "MQD of a queue on several XCCs without the place of the others"),
        (of_sdma, "the MQD has the wrong header"),
        (|mqd| mqd.header = 0, "the MQD has the wrong header"),
        (
            |mqd| mqd.set_v9(v9::COMPUTE_CURRENT_LOGIC_XCC_ID, 4),
            "MQDs whose XCCs do not share all workgroups among them",
        ),
        (
            |mqd| {
                // A single XCC executes it, and that XCC does not exist.
                mqd.set_v9(v9::COMPUTE_TG_CHUNK_SIZE, 0);
                mqd.set_v9(v9::PM4_TARGET_XCC_IN_XCP, 4);
            },
            "MQDs whose XCCs do not share all workgroups among them",
        ),
        (|mqd| mqd.set_pq_base(0), "the MQD has no ring"),
    ];
    let mut hws = Hws::up(FOUR);
    let mut process = hws.process(0x8001);
    let mut good = hws.queue(&mut process, doorbell(1, 1));
    for (change, name) in cases {
        let bad = hws.queue(&mut process, doorbell(1, 0));
        let mut mqd = hws.mqd(&bad);
        change(&mut mqd);
        hws.driver.put_ram(bad.mqd_memory, &mqd);
        let before = hws.errors(name);
        let list = list_of(&hws, &process, &[&bad, &good]);
        hws.run(&list);
        assert_eq!(hws.errors(name), before + 1, "{name}: {:?}", hws.driver.gpu.stats().errors);
        completes(&mut hws, &mut process, &mut good);
    }
}

/// Runs a buffer at which a queue stops, and another queue of the process.
fn stops(hws: &mut Hws, process: &mut Process, words: &[u32]) {
    let [mut bad, mut good] = [0, 1].map(|at| hws.queue(process, doorbell(1, at)));
    let list = list_of(hws, process, &[&bad, &good]);
    hws.run(&list);
    let before = hws.errors("queue stopped");
    let done = submit_buffer(hws, process, &mut bad, words);
    eventually("its queue stops", || hws.errors("queue stopped") == before + 1);
    assert!(!is_done(hws, done), "{words:x?}");
    completes(hws, process, &mut good);
}

#[test]
fn packets_of_the_other_generation_stop_their_queue_alone() {
    let mut hws = Hws::up(FOUR);
    let mut process = hws.process(0x8001);
    for words in [
        // gfx10 and later: ACQUIRE_MEM with gcr_cntl.
        packet(Opcode::ACQUIRE_MEM, &[0; 7]),
        // RELEASE_MEM without the dwords that every form has.
        packet(Opcode::RELEASE_MEM, &[0; 4]),
        // Packets of the kernel's rings, and of the MES's pipes.
        packet(Opcode::MAP_PROCESS, &[0; 20]),
        packet(Opcode::MAP_QUEUES, &[0; 6]),
        packet(Opcode::RUN_LIST, &[0; 3]),
        packet(Opcode::SET_RESOURCES, &[0; 7]),
        // A frame of the MES is no packet.
        vec![0x0004_0021; 64],
    ] {
        stops(&mut hws, &mut process, &words);
    }
}

#[test]
fn predicated_packets_of_no_xcc_are_left_out() {
    let mut hws = Hws::up(FOUR);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let list = list_of(&hws, &process, &[&queue]);
    hws.run(&list);
    let (memory, va) = process.alloc(&mut hws.driver, 4096);
    let write = packet(Opcode::WRITE_DATA, &[5 << 8 | 1 << 20, va as u32, (va >> 32) as u32, 7]);
    let words = [packet(Opcode::PRED_EXEC, &[write.len() as u32]), write.clone()].concat();
    let done = submit_buffer(&mut hws, &mut process, &mut queue, &words);
    eventually("the buffer is done", || is_done(&hws, done));
    assert_eq!(hws.driver.ram_u32(memory), 0);
    // More dwords than the buffer has.
    let words = [packet(Opcode::PRED_EXEC, &[0x3fff]), write].concat();
    stops_on(&mut hws, &mut process, &mut queue, &words);
}

fn stops_on(hws: &mut Hws, process: &mut Process, queue: &mut UserQueue, words: &[u32]) {
    let done = submit_buffer(hws, process, queue, words);
    eventually("its queue stops", || hws.errors("queue stopped") == 1);
    assert!(!is_done(hws, done));
}

#[test]
fn queue_whose_masks_leave_no_compute_unit_stops_at_its_first_dispatch() {
    let mut hws = Hws::up(FOUR);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    for xcc in 0..4 {
        let at = UserQueue { mqd_memory: queue.mqd_memory + xcc * 4096, ..queue };
        let mut mqd = hws.mqd(&at);
        mqd.set_static_thread_mgmt(&[0; 8]);
        mqd.set_v9(v9::COMPUTE_TG_CHUNK_SIZE, 1);
        mqd.set_v9(v9::COMPUTE_CURRENT_LOGIC_XCC_ID, xcc as u32);
        hws.driver.put_ram(at.mqd_memory, &mqd);
    }
    let list = list_of(&hws, &process, &[&queue]);
    hws.run(&list);
    super::kernels::put_empty(&mut hws, &mut process, &mut queue);
    eventually("its queue stops", || hws.errors("queue stopped") == 1);
}

#[test]
fn frames_on_the_hiq_end_it_and_no_kiq() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let list = list_of(&hws, &process, &[&queue]);
    hws.run(&list);
    hws.hiq(&[0x0004_0021; 64]);
    eventually("it is refused", || hws.errors("PM4 packet of a type this queue does not take") == 1);
    hws.kiq_test(0);
    completes(&mut hws, &mut process, &mut queue);
}

#[test]
fn doorbells_of_others_are_refused_in_every_slice_and_mirror() {
    let mut hws = Hws::up(SMALL);
    let mut process = hws.process(0x8001);
    let mut good = hws.queue(&mut process, doorbell(1, 0));
    let reserved = [0x100, 0x109, 0x1a0, 0x1e8, 0x300, 0x3e8];
    let bad: Vec<UserQueue> = reserved
        .map(|at| doorbell(1, at))
        .into_iter()
        .chain([doorbell(0, 0), doorbell(0, 0x20), doorbell(0, 0x3ff)])
        .map(|bell| hws.queue(&mut process, bell))
        .collect();
    let queues: Vec<&UserQueue> = bad.iter().chain([&good]).collect();
    let list = list_of(&hws, &process, &queues);
    hws.run(&list);
    let name = "MAP_QUEUES with a doorbell that belongs to another engine";
    assert_eq!(hws.errors(name), bad.len() as u64, "{:?}", hws.driver.gpu.stats().errors);
    let signal = barrier(&mut hws, &mut process, &mut good);
    eventually("the barrier completes", || is_done(&hws, signal));
}
