//! Partitions of XCCs: each has a HIQ, run lists, hardware queues, SDMA engines and interrupts of its own.

use belfry_abi::ih::node;
use belfry_abi::partition::ComputePartition;
use belfry_abi::pm4::Opcode;
use belfry_abi::regs::gfx9::gc::CP_HYP_XCP_CTL;
use belfry_abi::regs::gfx9::nbio::{PARTITION_COMPUTE_CAP, PARTITION_COMPUTE_STATUS};
use belfry_device::GpuConfig;
use belfry_device::chip::Shape;

use super::driver::{ALL_NOT_STATIC, Hws, doorbell, list_of, packet};
use super::kernels::{increment, run_buffer};
use super::{barrier, completes, is_done, sdma};
use crate::driver::kernels::{hidden, load, signal};
use crate::driver::{Process, UserQueue, eventually};
use crate::sdma::{copy, fence, trap};

const EIGHT: Shape = Shape { xccs: 8, cus: 16 };

/// A process with a queue on each partition, whose lists run.
fn on_each(hws: &mut Hws) -> Vec<(Process, UserQueue)> {
    (0..hws.xccs / hws.in_each).map(|partition| one(hws, partition, 1 + u16::from(partition))).collect()
}

/// A process with this slice of doorbells, whose queue alone is on the list of a partition.
fn one(hws: &mut Hws, partition: u8, slice: u16) -> (Process, UserQueue) {
    hws.partition = partition;
    let mut process = hws.process(0x8000 + slice);
    let queue = hws.queue(&mut process, doorbell(slice.into(), 0));
    let list = list_of(hws, &process, &[&queue]);
    hws.run(&list);
    (process, queue)
}

#[test]
fn registers_say_how_the_cores_are_shared_out_and_what_else_can_be() {
    for (xccs, mode, places, modes) in [
        (8, ComputePartition::Cpx, vec![(1, 0); 8], 0b11011),
        (8, ComputePartition::Qpx, [(2, 0), (2, 1)].repeat(4), 0b11011),
        (6, ComputePartition::Tpx, [(2, 0), (2, 1)].repeat(3), 0b10101),
        (4, ComputePartition::Dpx, [(2, 0), (2, 1)].repeat(2), 0b10011),
        (1, ComputePartition::Spx, vec![(1, 0)], 0b1),
    ] {
        let config = GpuConfig { partition: mode, ..GpuConfig::default() };
        let hws = Hws::with(Shape { xccs, cus: xccs }, config);
        let found = (0..xccs as u8).map(|xcc| {
            let place = hws.get::<CP_HYP_XCP_CTL>(xcc);
            (place.num_xcc_in_xcp(), place.virtual_xcc_id())
        });
        assert!(found.eq(places), "{xccs} {mode}");
        assert_eq!(hws.far::<PARTITION_COMPUTE_STATUS>().partition_mode(), mode as u32);
        assert_eq!(hws.far::<PARTITION_COMPUTE_CAP>().0, modes, "{xccs}");
    }
    let mut config = GpuConfig { partition: ComputePartition::Dpx, ..GpuConfig::default() };
    let error = config.validate().expect_err("one XCC");
    assert_eq!(error.to_string(), "1 XCCs cannot be partitioned as DPX");
    (config.chip, config.xccs) = (&belfry_device::chip::gfx942::MODEL, 8);
    assert_eq!(config.validate(), Ok(()));
    config.partition = ComputePartition::Tpx;
    assert!(config.validate().is_err());
}

#[test]
fn partitions_run_at_once_and_know_nothing_of_each_other() {
    let mut hws = Hws::up_as(EIGHT, ComputePartition::Cpx);
    let mut all = on_each(&mut hws);
    for (process, queue) in &mut all {
        completes(&mut hws, process, queue);
    }
    // All are on hardware queues with equal numbers, and have a VMID each.
    assert_eq!(hws.driver.gpu.stats().queues_mapped, 8);
    hws.partition = 3;
    hws.unmap(ALL_NOT_STATIC, &[]);
    let waits = {
        let (process, queue) = &mut all[3];
        barrier(&mut hws, process, queue)
    };
    for (_, (process, queue)) in all.iter_mut().enumerate().filter(|(at, _)| *at != 3) {
        completes(&mut hws, process, queue);
    }
    assert!(!is_done(&hws, waits));
    let list = list_of(&hws, &all[3].0, &[&all[3].1]);
    hws.run(&list);
    eventually("the late barrier completes", || is_done(&hws, waits));
    // Neither doorbell nor process of another partition.
    let other = all[5].1.doorbell;
    hws.unmap(1 << 29, &[other]);
    hws.unmap(2 << 4, &[]);
    let (process, queue) = &mut all[5];
    completes(&mut hws, process, queue);
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn buffers_and_workgroups_are_dealt_to_the_cores_of_the_partition_alone() {
    let mut hws = Hws::up_as(EIGHT, ComputePartition::Dpx);
    for (process, queue) in &mut on_each(&mut hws) {
        let (counter, va) = process.alloc(&mut hws.driver, 4096);
        let once = increment(va + 4);
        let select = packet(Opcode::PRED_EXEC, &[0b1000 << 24 | once.len() as u32]);
        run_buffer(&mut hws, process, queue, &[increment(va), select, once].concat());
        // Four cores, of which the last has the number 3.
        assert_eq!((hws.driver.ram_u32(counter), hws.driver.ram_u32(counter + 4)), (4, 1));
        assert_eq!(cores(&mut hws, process, queue), [0, 1, 2, 3].repeat(4));
    }
    let mut hws = Hws::up_as(EIGHT, ComputePartition::Cpx);
    let (mut process, mut queue) = one(&mut hws, 6, 1);
    assert_eq!(cores(&mut hws, &mut process, &mut queue), [0; 16]);
}

/// Values of `XCC_ID` that each of 16 workgroups reads.
fn cores(hws: &mut Hws, process: &mut Process, queue: &mut UserQueue) -> Vec<u32> {
    static WHERE: &[u8] = include_bytes!("../../fixtures/xcc.gfx942.hsaco");
    let kernel = load(&mut hws.driver, process, WHERE, "xcc.kd");
    let (out, va) = process.alloc(&mut hws.driver, 4096);
    let (kernarg, kernarg_va) = process.alloc(&mut hws.driver, 4096);
    hws.driver.set_ram_u64(kernarg, va);
    hidden(&hws.driver, kernarg + 8, 16 * 64, 64);
    let (done, done_va) = signal(&mut hws.driver, process, 0);
    queue.put(&hws.driver, &crate::driver::kernels::dispatch(kernel, kernarg_va, 16 * 64, 64, done_va));
    eventually("the kernel completes", || is_done(hws, done));
    (0..16).map(|at| hws.driver.ram_u32(out + at * 4)).collect()
}

#[test]
fn engines_and_interrupts_are_those_of_the_partition() {
    let mut hws = Hws::up_as(EIGHT, ComputePartition::Cpx);
    hws.partition = 5;
    let mut process = hws.process(0x8001);
    let (data, va) = process.alloc(&mut hws.driver, 8192);
    // The second engine of the partition, and one that only other partitions have.
    let (mut own, map) = sdma::queue(&mut hws, &mut process, 1);
    let (_, others) = sdma::queue(&mut hws, &mut process, 4);
    let mut compute = hws.queue(&mut process, doorbell(1, 0));
    let list = [list_of(&hws, &process, &[&compute]), map, others].concat();
    hws.run(&list);
    let name = "ADD_QUEUE of an SDMA queue on an engine without queues for the scheduler";
    assert_eq!(hws.errors(name), 1, "{:?}", hws.driver.gpu.stats().errors);
    hws.driver.put_ram(data, &[7u32; 16]);
    own.put(&hws.driver, &[copy(va, va + 4096, 64), fence(va + 2048, 9), trap(1)]);
    eventually("the fence is written", || hws.driver.ram_u32(data + 2048) == 9);
    assert_eq!(hws.driver.ram_u32(data + 4096), 7);
    completes(&mut hws, &mut process, &mut compute);
    let mut nodes = Vec::new();
    eventually("both tell of it", || {
        nodes.extend(hws.driver.drain_interrupts().iter().map(|entry| entry.node()));
        nodes.len() >= 2
    });
    nodes.sort_unstable();
    // The third die, and its second core.
    assert_eq!(nodes, [node::of_die(2), node::of_xcc(5)]);
}

#[test]
fn processes_of_a_partition_take_turns_where_the_others_hold_the_vmids() {
    let mut hws = Hws::up_as(EIGHT, ComputePartition::Dpx);
    let mut all: Vec<_> = (0..14).map(|at| hws.process(0x8001 + at)).collect();
    let mut list = Vec::new();
    let mut queues = Vec::new();
    for (at, process) in (1..).zip(&mut all) {
        let queue = hws.queue(process, doorbell(at, 0));
        list.extend(list_of(&hws, process, &[&queue]));
        queues.push(queue);
    }
    hws.run(&list);
    let (mut process, mut queue) = one(&mut hws, 1, 20);
    completes(&mut hws, &mut process, &mut queue);
    for (process, queue) in all.iter_mut().zip(&mut queues) {
        completes(&mut hws, process, queue);
    }
    completes(&mut hws, &mut process, &mut queue);
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn a_driver_shares_the_cores_out_anew_between_two_hiqs() {
    let mut hws = Hws::up(EIGHT);
    let place = |count: u32, number: u32| {
        let mut place = CP_HYP_XCP_CTL(0);
        place.set_num_xcc_in_xcp(count);
        place.set_virtual_xcc_id(number);
        place
    };
    (0..8).for_each(|xcc| hws.set(xcc, place(2, u32::from(xcc) % 2)));
    assert_eq!(hws.far::<PARTITION_COMPUTE_STATUS>().partition_mode(), ComputePartition::Qpx as u32);
    // The old HIQ is still there.
    let map = hws.map_hiq(hws.hiqs[0].mqd);
    hws.kiq(4, &map);
    eventually("it is refused", || hws.errors("HIQ that is mapped more than once") == 1);
    hws.unmap_hiq();
    hws.in_each = 2;
    hws.start_partitions();
    for (process, queue) in &mut on_each(&mut hws) {
        completes(&mut hws, process, queue);
    }
    // Two cores with different modes are no partition.
    let mut hws = Hws::up(Shape { xccs: 4, cus: 4 });
    hws.unmap_hiq();
    hws.set(0, place(2, 0));
    let map = hws.map_hiq(hws.hiqs[0].mqd);
    hws.kiq(0, &map);
    let name = "HIQ on an XCC whose partition is not what its other XCCs say";
    eventually("it is refused", || hws.errors(name) == 1);
}

#[test]
fn snapshot_has_the_partitions() {
    let mut hws = Hws::up_as(EIGHT, ComputePartition::Cpx);
    let mut all = on_each(&mut hws);
    let saved = hws.driver.gpu.save().expect("it runs");
    hws.driver = hws.driver.continued(&saved, saved.config());
    for (at, (process, queue)) in all.iter_mut().enumerate() {
        hws.partition = at as u8;
        completes(&mut hws, process, queue);
        hws.fence();
    }
    assert_eq!(hws.get::<CP_HYP_XCP_CTL>(7).num_xcc_in_xcp(), 1);
}
