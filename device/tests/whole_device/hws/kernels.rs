//! Kernels on queues of run lists, on one XCC and on eight, and the work of each XCC on a packet.

use belfry_abi::aql::{AmdFormat, PM4_IB_DW_REMAIN, PacketHeader, PacketType, Pm4IbPacket};
use belfry_abi::mqd::v9;
use belfry_abi::pm4::Opcode;
use belfry_device::chip::Shape;
use zerocopy::FromZeros as _;

use super::driver::{Hws, doorbell, list_of, packet};
use crate::driver::kernels::{dispatch, hidden, load, signal};
use crate::driver::{Process, UserQueue, eventually};

static VECADD: &[u8] = include_bytes!("../../../../guest-runtime/kernels/vecadd.gfx942.hsaco");

const EIGHT: Shape = Shape { xccs: 8, cus: 8 };

static EMPTY: &[u8] = include_bytes!("../../../../guest-runtime/kernels/empty.gfx942.hsaco");

/// Puts a dispatch of a kernel that does nothing on a queue.
pub(super) fn put_empty(hws: &mut Hws, process: &mut Process, queue: &mut UserQueue) {
    let kernel = load(&mut hws.driver, process, EMPTY, "empty.kd");
    let (kernarg, kernarg_va) = process.alloc(&mut hws.driver, 4096);
    hidden(&hws.driver, kernarg, 64, 64);
    queue.put(&hws.driver, &dispatch(kernel, kernarg_va, 64, 64, 0));
}

/// Adds vectors on a chip of this shape.
fn add_vectors(shape: Shape) {
    const COUNT: u32 = 40_000;
    let mut hws = Hws::up(shape);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let list = list_of(&hws, &process, &[&queue]);
    hws.run(&list);
    let kernel = load(&mut hws.driver, &mut process, VECADD, "vecadd.kd");
    let bytes = u64::from(COUNT) * 4;
    let [(a, a_va), (b, b_va), (c, c_va)] = [(); 3].map(|()| process.alloc(&mut hws.driver, bytes));
    for i in 0..COUNT {
        hws.driver.put_ram(a + u64::from(i) * 4, &(i as f32 * 0.5).to_bits());
        hws.driver.put_ram(b + u64::from(i) * 4, &(i as f32 * 2.0).to_bits());
    }
    let (kernarg, kernarg_va) = process.alloc(&mut hws.driver, 4096);
    for (at, value) in [(0, a_va), (8, b_va), (16, c_va), (24, COUNT.into())] {
        hws.driver.set_ram_u64(kernarg + at, value);
    }
    let grid = COUNT.next_multiple_of(256);
    hidden(&hws.driver, kernarg + 32, grid, 256);
    for _ in 0..2 {
        let (done, done_va) = signal(&mut hws.driver, &mut process, 42);
        queue.put(&hws.driver, &dispatch(kernel, kernarg_va, grid, 256, done_va));
        eventually("the kernel completes", || hws.driver.ram_u64(done + 8) == 0);
        // The mailbox is written after the signal.
        eventually("the event is in the mailbox", || hws.driver.ram_u64(done + 2048) == 42);
    }
    for i in 0..COUNT {
        let sum = f32::from_bits(hws.driver.ram_u32(c + u64::from(i) * 4));
        assert!((sum - i as f32 * 2.5).abs() < f32::EPSILON, "element {i} is {sum}");
    }
    let stats = hws.driver.gpu.stats();
    assert_eq!((stats.dispatches, stats.errors), (2, Default::default()));
    assert_eq!(stats.workgroups, u64::from(grid / 256) * 2, "each workgroup once");
}

#[test]
fn a_compiled_kernel_adds_vectors_on_one_xcc() {
    add_vectors(super::SMALL);
}

#[test]
fn a_compiled_kernel_adds_vectors_on_eight_xccs() {
    add_vectors(EIGHT);
}

/// Runs a buffer by a vendor packet, and waits until it has been executed.
pub(super) fn run_buffer(hws: &mut Hws, process: &mut Process, queue: &mut UserQueue, words: &[u32]) {
    let done = submit_buffer(hws, process, queue, words);
    eventually("the buffer has been executed", || hws.driver.ram_u64(done + 8) == 0);
}

/// Puts a vendor packet with a buffer on a queue; returns the place of its signal.
pub(super) fn submit_buffer(
    hws: &mut Hws,
    process: &mut Process,
    queue: &mut UserQueue,
    words: &[u32],
) -> u64 {
    let (memory, va) = process.alloc(&mut hws.driver, 4096);
    for (at, word) in (0..).zip(words) {
        hws.driver.put_ram(memory + at * 4, word);
    }
    let (done, done_va) = signal(&mut hws.driver, process, 0);
    let mut jump = Pm4IbPacket::new_zeroed();
    jump.header = PacketHeader::new(PacketType::VENDOR_SPECIFIC, true, 2, 2).bits();
    jump.amd_format = AmdFormat::PM4_IB.0.into();
    let body = [va as u32, (va >> 32) as u32, words.len() as u32 | 1 << 23];
    jump.ib_jump.copy_from_slice(&packet(Opcode::INDIRECT_BUFFER, &body));
    jump.dw_remain = PM4_IB_DW_REMAIN;
    jump.completion_signal = done_va;
    queue.put(&hws.driver, &jump);
    done
}

/// An addition of 1 to 32 bits of memory.
pub(super) fn increment(at: u64) -> Vec<u32> {
    const ADD_32: u32 = 15;
    packet(Opcode::ATOMIC_MEM, &[ADD_32, at as u32, (at >> 32) as u32, 1, 0, 0, 0, 0])
}

#[test]
fn buffers_are_executed_by_every_xcc_and_predicated_packets_by_those_of_the_mask() {
    let mut hws = Hws::up(EIGHT);
    let mut process = hws.process(0x8001);
    let mut queue = hws.queue(&mut process, doorbell(1, 0));
    let list = list_of(&hws, &process, &[&queue]);
    hws.run(&list);
    let (counter, va) = process.alloc(&mut hws.driver, 4096);
    let once = increment(va + 4);
    let select = |mask: u32| packet(Opcode::PRED_EXEC, &[mask << 24 | once.len() as u32]);
    // gfx9's ACQUIRE_MEM has one dword less than that of later generations.
    let acquire = packet(Opcode::ACQUIRE_MEM, &[0; 6]);
    let words =
        [acquire, increment(va), select(0b1), once.clone(), select(0b1100_0000), once.clone()].concat();
    run_buffer(&mut hws, &mut process, &mut queue, &words);
    assert_eq!((hws.driver.ram_u32(counter), hws.driver.ram_u32(counter + 4)), (8, 3));
}

#[test]
fn mqds_that_leave_workgroups_without_an_xcc_are_refused() {
    let mut hws = Hws::up(Shape { xccs: 2, cus: 2 });
    let mut process = hws.process(0x8001);
    let queues = [0, 1].map(|at| hws.queue(&mut process, doorbell(1, at)));
    let mut good = hws.queue(&mut process, doorbell(1, 2));
    // Two XCCs with the same share, and MQDs of which only the first can be found.
    let mut mqd = hws.mqd(&queues[0]);
    mqd.set_v9(v9::COMPUTE_CURRENT_LOGIC_XCC_ID, 1);
    hws.driver.put_ram(queues[0].mqd_memory, &mqd);
    let mut mqd = hws.mqd(&queues[1]);
    mqd.set_v9(v9::CP_MQD_STRIDE_SIZE, 0);
    hws.driver.put_ram(queues[1].mqd_memory, &mqd);
    let list = list_of(&hws, &process, &[&queues[0], &queues[1], &good]);
    hws.run(&list);
    assert_eq!(hws.errors("MQDs whose XCCs do not share all workgroups among them"), 1);
    assert_eq!(hws.errors("MQD of a queue on several XCCs without the place of the others"), 1);
    super::completes(&mut hws, &mut process, &mut good);
}
