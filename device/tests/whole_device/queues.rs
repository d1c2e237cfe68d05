//! User queues: mapped by the scheduler, run by the command processor, taken off again.

use std::sync::atomic::Ordering;

use belfry_abi::aql::{BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType};
use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::ih::{Client, Source};
use belfry_abi::mes::{
    AddQueueFlags, Header, Opcode, QueueType, RemoveQueue, RemoveQueueFlags, Resume, Suspend,
};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::regs::{gc, osssys};
use belfry_device::chip::gfx1100::dword;
use belfry_device::{GpuConfig, ResetKind};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::{FromBytes, FromZeros};

use crate::driver::{Driver, Process, UserQueue, eventually};

/// `amd_signal_t`: value at 8, mailbox at 16, event at 24.
struct Signal {
    memory: u64,
    va: u64,
    mailbox: u64,
}

fn signal(driver: &mut Driver, process: &mut Process, value: u64, event: u32) -> Signal {
    let (memory, va) = process.alloc(driver, 4096);
    driver.set_ram_u64(memory, 1);
    driver.set_ram_u64(memory + 8, value);
    if event != 0 {
        driver.set_ram_u64(memory + 16, va + 2048);
        driver.ram.write_obj(event, GuestAddress(memory + 24)).unwrap();
    }
    Signal { memory, va, mailbox: memory + 2048 }
}

fn barrier_and(depends: u64, completion: u64) -> BarrierPacket {
    let mut packet = BarrierPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::BARRIER_AND, true, 2, 2).bits();
    packet.dep_signal[0] = depends;
    packet.completion_signal = completion;
    packet
}

fn read_mqd(driver: &Driver, queue: &UserQueue) -> ComputeMqd {
    let mut bytes = [0; 2048];
    driver.ram.read_slice(&mut bytes, GuestAddress(queue.mqd_memory)).unwrap();
    ComputeMqd::read_from_bytes(&bytes).unwrap()
}

#[test]
fn a_packet_goes_from_doorbell_to_signal_and_interrupt() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = UserQueue::new(&mut driver, &mut process, 0x800);
    assert!(queue.add(&mut driver, &process));
    assert_eq!(
        driver.read(dword::<osssys::IH_VMID_0_LUT>() + 8),
        0x8001,
        "the driver finds the VMID by its PASID"
    );
    let done = signal(&mut driver, &mut process, 1, 42);
    queue.put(&driver, &barrier_and(0, done.va));
    eventually("the signal reaches 0", || driver.ram_u64(done.memory + 8) == 0);
    eventually("the read index moves", || queue.read_index(&driver) == 1);
    eventually("an interrupt is raised", || driver.interrupts.0.load(Ordering::SeqCst) == 1);
    assert_eq!(driver.ram_u64(done.mailbox), 42);
    let entries = driver.drain_interrupts();
    assert_eq!(entries.len(), 1);
    let entry = entries[0];
    assert_eq!((entry.client(), entry.source()), (Client::GRBM_CP, Source::CP_EOP_INTERRUPT));
    assert_eq!((entry.pasid(), entry.vmid(), entry.data[0]), (0x8001, 8, 42));
    assert!(driver.remove(queue.doorbell, queue.gang));
    assert_eq!(read_mqd(&driver, &queue).cp_hqd_pq_rptr, 1);
    assert_eq!(driver.read(dword::<osssys::IH_VMID_0_LUT>() + 8), 0);
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn a_queue_goes_on_where_it_was_taken_off() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = UserQueue::new(&mut driver, &mut process, 0x800);
    for round in 1..=5u64 {
        assert!(queue.add(&mut driver, &process));
        let done = signal(&mut driver, &mut process, 1, 0);
        queue.put(&driver, &barrier_and(0, done.va));
        eventually("the signal reaches 0", || driver.ram_u64(done.memory + 8) == 0);
        eventually("the read index moves", || queue.read_index(&driver) == round);
        assert!(driver.remove(queue.doorbell, queue.gang));
        // Rung while the queue is on no slot: nothing happens, and nothing is lost.
        assert_eq!(read_mqd(&driver, &queue).cp_hqd_pq_rptr, round as u32);
    }
}

#[test]
fn resources_that_no_queue_gets_are_named() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let queue = UserQueue::new(&mut driver, &mut process, 0x800);
    let ignored = |driver: &Driver| -> Vec<(String, u64)> {
        let ranked = driver.gpu.unmodelled().into_iter().filter(|(name, ..)| name.starts_with("ADD_QUEUE"));
        ranked.map(|(name, _, count)| (name, count)).collect()
    };
    let mut frame = queue.frame(&mut driver, &process);
    frame.flags |= AddQueueFlags::EXCLUSIVELY_SCHEDULED;
    frame.gws_size = 64;
    assert!(driver.mes(&frame, Opcode::ADD_QUEUE));
    assert!(driver.remove(queue.doorbell, queue.gang));
    assert!(ignored(&driver).is_empty(), "all of this is done");
    frame.flags &= !AddQueueFlags::EXCLUSIVELY_SCHEDULED;
    (frame.gds_base, frame.oa_mask) = (64, 1);
    assert!(driver.mes(&frame, Opcode::ADD_QUEUE));
    let names = ["gds_base", "gws_size without exclusive scheduling", "oa_mask"];
    assert_eq!(ignored(&driver), names.map(|name| (format!("ADD_QUEUE {name}"), 1)));
}

#[test]
fn queues_that_are_not_modelled_or_malformed_are_refused_by_name() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let queue = UserQueue::new(&mut driver, &mut process, 0x800);
    let good = queue.frame(&mut driver, &process);
    type Change = fn(&mut belfry_abi::mes::AddQueue);
    let cases: [(&str, Change); 7] = [
        ("ADD_QUEUE of a graphics queue, of which the driver gave none", |frame| {
            frame.queue_type = QueueType::GFX.0;
        }),
        ("ADD_QUEUE of an unknown type", |frame| frame.queue_type = 77),
        ("ADD_QUEUE of a kernel queue, which is not modelled", |frame| {
            frame.flags |= AddQueueFlags::MAP_LEGACY_KQ;
            frame.queue_type = QueueType::SDMA.0;
        }),
        ("MQD at an address that is not mapped", |frame| frame.mqd_addr = 0x1234_5000u64.into()),
        ("ADD_QUEUE with a doorbell that does not exist", |frame| {
            frame.doorbell_offset = DoorbellIndex::from_dwords(0x8_0000);
        }),
        ("ADD_QUEUE with a doorbell that is taken", |frame| {
            frame.doorbell_offset = belfry_abi::pci::doorbell::MES_RING0;
        }),
        ("ADD_QUEUE with an impossible address range", |frame| {
            (frame.process_va_start, frame.process_va_end) = (2.into(), 1.into());
        }),
    ];
    for (name, change) in cases {
        let mut frame = good;
        change(&mut frame);
        assert!(!driver.mes(&frame, Opcode::ADD_QUEUE), "{name}: answered");
        assert_eq!(driver.errors(name), 1, "{name}: not counted");
    }
    // The values in the MQD itself.
    let mqd = read_mqd(&driver, &queue);
    type Spoil = fn(&mut ComputeMqd);
    let cases: [(&str, Spoil); 3] = [
        ("the MQD has the wrong header", |mqd| mqd.header = 0),
        ("the MQD has no ring", |mqd| mqd.set_pq_base(0)),
        ("MQD with an impossible ring size", |mqd| mqd.cp_hqd_pq_control = 0x3f | 2 << 18),
    ];
    for (name, spoil) in cases {
        let mut bad = mqd;
        spoil(&mut bad);
        driver.put_ram(queue.mqd_memory, &bad);
        assert!(!driver.mes(&good, Opcode::ADD_QUEUE), "{name}: answered");
        assert_eq!(driver.errors(name), 1, "{name}: not counted");
    }
    // None of these keeps the right one from working.
    driver.put_ram(queue.mqd_memory, &mqd);
    assert!(driver.mes(&good, Opcode::ADD_QUEUE));
    assert!(!driver.mes(&good, Opcode::ADD_QUEUE), "the same doorbell twice");
    assert!(driver.remove(queue.doorbell, queue.gang));
}

#[test]
fn removing_what_does_not_exist_is_refused_by_name() {
    let mut driver = Driver::up();
    assert!(!driver.remove(0x800, 0));
    assert_eq!(driver.errors("REMOVE_QUEUE of a queue that does not exist"), 1);
    let mut frame = RemoveQueue::new_zeroed();
    frame.header = Header::new(Opcode::REMOVE_QUEUE);
    frame.flags = RemoveQueueFlags::UNMAP_LEGACY_QUEUE;
    assert!(!driver.mes(&frame, Opcode::REMOVE_QUEUE));
    assert_eq!(driver.errors("REMOVE_QUEUE of a kernel queue that is not mapped"), 1);
}

#[test]
fn a_ring_outside_of_the_process_faults_and_others_go_on() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut bad = UserQueue::new(&mut driver, &mut process, 0x800);
    let mut mqd = read_mqd(&driver, &bad);
    mqd.set_pq_base(0x6666_0000_0000);
    driver.put_ram(bad.mqd_memory, &mqd);
    let mut good = UserQueue::new(&mut driver, &mut process, 0x802);
    assert!(bad.add(&mut driver, &process));
    assert!(good.add(&mut driver, &process));
    bad.put(&driver, &barrier_and(0, 0));
    eventually("the fault is counted", || driver.errors("page fault") > 0);
    let done = signal(&mut driver, &mut process, 1, 0);
    good.put(&driver, &barrier_and(0, done.va));
    eventually("the other queue goes on", || driver.ram_u64(done.memory + 8) == 0);
    let entries = driver.drain_interrupts();
    let fault = entries.iter().find(|entry| entry.source() == Source::UTCL2_FAULT).unwrap();
    assert_eq!((fault.client(), fault.pasid(), fault.vmid()), (Client::GFX, 0x8001, 8));
    assert_eq!(fault.fault_page(), 0x6666_0000_0000 >> 12);
    let status = driver.get::<gc::GCVM_L2_PROTECTION_FAULT_STATUS>();
    assert_eq!(status.vmid(), 8);
    let page = u64::from(driver.read(dword::<gc::GCVM_L2_PROTECTION_FAULT_ADDR_HI32>())) << 32
        | u64::from(driver.read(dword::<gc::GCVM_L2_PROTECTION_FAULT_ADDR_LO32>()));
    assert_eq!(page, 0x6666_0000_0000 >> 12);
    driver.write(dword::<gc::GCVM_L2_PROTECTION_FAULT_CNTL>(), 1);
    assert_eq!(driver.read(dword::<gc::GCVM_L2_PROTECTION_FAULT_STATUS>()), 0);
    assert!(driver.remove(bad.doorbell, bad.gang));
    assert!(driver.remove(good.doorbell, good.gang));
}

#[test]
fn a_packet_that_is_none_stops_its_queue_only() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut bad = UserQueue::new(&mut driver, &mut process, 0x800);
    let mut good = UserQueue::new(&mut driver, &mut process, 0x802);
    assert!(bad.add(&mut driver, &process) && good.add(&mut driver, &process));
    let mut packet = KernelDispatchPacket::new_zeroed();
    packet.header = 0x77;
    bad.put(&driver, &packet);
    eventually("the packet is refused", || driver.errors("packet refused") == 1);
    let done = signal(&mut driver, &mut process, 1, 0);
    good.put(&driver, &barrier_and(0, done.va));
    eventually("the other queue goes on", || driver.ram_u64(done.memory + 8) == 0);
    let entries = driver.drain_interrupts();
    let refused = entries.iter().find(|entry| entry.source() == Source::CP_BAD_OPCODE_ERROR).unwrap();
    assert_eq!(refused.data[0] & 0x3ff, 0, "doorbell 0 of the slice");
    assert!(driver.remove(bad.doorbell, bad.gang));
}

#[test]
fn more_queues_than_slots_all_get_their_turn() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queues: Vec<_> =
        (0..20).map(|n| UserQueue::new(&mut driver, &mut process, 0x800 + 2 * n)).collect();
    for queue in &queues {
        assert!(queue.add(&mut driver, &process));
    }
    for round in 1..=3 {
        let signals: Vec<_> = queues.iter().map(|_| signal(&mut driver, &mut process, 1, 0)).collect();
        for (queue, done) in queues.iter_mut().zip(&signals) {
            queue.put(&driver, &barrier_and(0, done.va));
        }
        for (n, done) in signals.iter().enumerate() {
            eventually(&format!("queue {n} in round {round}"), || driver.ram_u64(done.memory + 8) == 0);
        }
    }
    assert!(driver.gpu.stats().queues_preempted > 0);
    for queue in &queues {
        assert!(driver.remove(queue.doorbell, queue.gang));
    }
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn queues_that_wait_do_not_keep_slots_from_others() {
    let mut driver = Driver::up_with(GpuConfig::default());
    let mut process = Process::new(&mut driver, 0x8001);
    let gate = signal(&mut driver, &mut process, 1, 0);
    let mut queues: Vec<_> =
        (0..9).map(|n| UserQueue::new(&mut driver, &mut process, 0x800 + 2 * n)).collect();
    for queue in &queues {
        assert!(queue.add(&mut driver, &process));
    }
    // Eight queues fill the eight slots and wait for a signal that only the ninth can give.
    let (last, waiting) = queues.split_last_mut().unwrap();
    let signals: Vec<_> = waiting.iter().map(|_| signal(&mut driver, &mut process, 1, 0)).collect();
    for (queue, done) in waiting.iter_mut().zip(&signals) {
        queue.put(&driver, &barrier_and(gate.va, done.va));
    }
    last.put(&driver, &barrier_and(0, gate.va));
    for done in &signals {
        eventually("a queue that waited", || driver.ram_u64(done.memory + 8) == 0);
    }
}

#[test]
fn more_processes_than_vmids_all_get_their_turn() {
    let mut driver = Driver::up();
    let mut processes: Vec<_> = (0..12).map(|n| Process::new(&mut driver, 0x8001 + n)).collect();
    let mut queues: Vec<_> = processes
        .iter_mut()
        .enumerate()
        .map(|(n, process)| UserQueue::new(&mut driver, process, 0x800 * (n as u32 + 1)))
        .collect();
    for (queue, process) in queues.iter().zip(&processes) {
        assert!(queue.add(&mut driver, process));
    }
    for _ in 0..3 {
        for (queue, process) in queues.iter_mut().zip(&mut processes) {
            let done = signal(&mut driver, process, 1, 0);
            queue.put(&driver, &barrier_and(0, done.va));
            eventually("a process's turn", || driver.ram_u64(done.memory + 8) == 0);
        }
    }
    for queue in &queues {
        assert!(driver.remove(queue.doorbell, queue.gang));
    }
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn a_suspended_gang_waits_until_it_is_resumed() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = UserQueue::new(&mut driver, &mut process, 0x800);
    assert!(queue.add(&mut driver, &process));
    let (fence, address) = driver.gart_alloc(8);
    let mut suspend = Suspend::new_zeroed();
    suspend.header = Header::new(Opcode::SUSPEND);
    suspend.gang_context_addr = queue.gang.into();
    suspend.suspend_fence_addr = address.into();
    suspend.suspend_fence_value = 7;
    assert!(driver.mes(&suspend, Opcode::SUSPEND));
    assert_eq!(driver.ram_u32(fence), 7);
    let done = signal(&mut driver, &mut process, 1, 0);
    queue.put(&driver, &barrier_and(0, done.va));
    driver.mes_query();
    assert_eq!(driver.ram_u64(done.memory + 8), 1);
    let mut resume = Resume::new_zeroed();
    resume.header = Header::new(Opcode::RESUME);
    resume.gang_context_addr = queue.gang.into();
    assert!(driver.mes(&resume, Opcode::RESUME));
    eventually("the queue goes on", || driver.ram_u64(done.memory + 8) == 0);
    suspend.gang_context_addr = 0x99.into();
    assert!(!driver.mes(&suspend, Opcode::SUSPEND));
}

#[test]
fn a_reset_with_queues_alive_leaves_a_device_like_new() {
    for kind in [ResetKind::Flr, ResetKind::System] {
        let mut driver = Driver::up();
        for round in 0..3 {
            let mut process = Process::new(&mut driver, 0x8001);
            let gate = signal(&mut driver, &mut process, 1, 0);
            let mut queues: Vec<_> =
                (0..12).map(|n| UserQueue::new(&mut driver, &mut process, 0x800 + 2 * n)).collect();
            for queue in &mut queues {
                assert!(queue.add(&mut driver, &process), "round {round}");
                queue.put(&driver, &barrier_and(gate.va, 0));
            }
            driver.gpu.reset(kind);
            // No packet of before goes on.
            driver.set_ram_u64(gate.memory + 8, 0);
            driver.bring_up();
            assert!(queues.iter().all(|queue| queue.read_index(&driver) == 0));
        }
        assert_eq!(driver.gpu.stats().resets, 3);
    }
}

#[test]
fn doorbells_behind_the_device_s_back_are_found() {
    // With a hint, and by looking.
    for poll_doorbells in [false, true] {
        let mut driver = Driver::up_with(GpuConfig { poll_doorbells, ..GpuConfig::default() });
        let mut process = Process::new(&mut driver, 0x8001);
        let mut queue = UserQueue::new(&mut driver, &mut process, 0x800);
        assert!(queue.add(&mut driver, &process));
        let done = signal(&mut driver, &mut process, 1, 5);
        queue.put_silently(&driver, &barrier_and(0, done.va));
        if !poll_doorbells {
            driver.gpu.doorbell_hint();
        }
        eventually("the signal reaches 0", || driver.ram_u64(done.memory + 8) == 0);
        eventually("an interrupt is raised", || driver.interrupts.0.load(Ordering::SeqCst) > 0);
        assert!(driver.gpu.stats().doorbells_polled > 0);
    }
}
