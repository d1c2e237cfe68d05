//! Compiled kernels, from ADD_QUEUE to the interrupt.

use std::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::ih::Source;
use belfry_abi::mqd::ComputeMqd;
use belfry_device::GpuConfig;

use crate::driver::context::STACK_SIZE;
use crate::driver::{Driver, Process, UserQueue, eventually};

use crate::driver::kernels::{PROBE, VECADD, dispatch, hidden, load, ready_to_spin, signal, spinning};

#[test]
fn a_compiled_kernel_adds_vectors() {
    const COUNT: u32 = 5000;
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let mut queue = UserQueue::new(&mut driver, &mut process, 0x800);
    assert!(queue.add(&mut driver, &process));
    let kernel = load(&mut driver, &mut process, VECADD, "vecadd.kd");
    let bytes = u64::from(COUNT) * 4;
    let (a, a_va) = process.alloc(&mut driver, bytes);
    let (b, b_va) = process.alloc(&mut driver, bytes);
    let (c, c_va) = process.alloc(&mut driver, bytes);
    for i in 0..COUNT {
        driver.put_ram(a + u64::from(i) * 4, &(i as f32 * 0.5).to_bits());
        driver.put_ram(b + u64::from(i) * 4, &(i as f32 * 2.0).to_bits());
    }
    let (kernarg, kernarg_va) = process.alloc(&mut driver, 4096);
    for (at, value) in [(0, a_va), (8, b_va), (16, c_va), (24, COUNT.into())] {
        driver.set_ram_u64(kernarg + at, value);
    }
    let grid = COUNT.next_multiple_of(256);
    hidden(&driver, kernarg + 32, grid, 256);
    for round in 1..=3 {
        let (done, done_va) = signal(&mut driver, &mut process, 42);
        queue.put(&driver, &dispatch(kernel, kernarg_va, grid, 256, done_va));
        eventually("the kernel completes", || driver.ram_u64(done + 8) == 0);
        eventually("its interrupt arrives", || driver.interrupts.0.load(Ordering::SeqCst) == round);
        assert_eq!(driver.ram_u64(done + 2048), 42, "mailbox");
        let entries = driver.drain_interrupts();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].source(), entries[0].data[0]), (Source::CP_EOP_INTERRUPT, 42));
    }
    for i in 0..COUNT {
        let sum = f32::from_bits(driver.ram_u32(c + u64::from(i) * 4));
        assert!((sum - i as f32 * 2.5).abs() < f32::EPSILON, "element {i} is {sum}");
    }
    let stats = driver.gpu.stats();
    assert_eq!(stats.dispatches, 3);
    assert_eq!(stats.workgroups, u64::from(grid / 256) * 3);
    assert!(stats.wave_instructions > stats.waves && stats.page_walks > 0);
    assert_eq!(stats.errors, Default::default());
    assert!(driver.remove(queue.doorbell, queue.gang));
}

#[test]
fn waves_of_a_removed_queue_go_on_when_it_is_added_again() {
    let mut driver = Driver::up();
    let spin = spinning(&mut driver, 0x8001, 0x800);
    for _ in 0..3 {
        assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
        driver.set_ram_u64(spin.started, 0);
        assert!(spin.queue.add(&mut driver, &spin.process));
    }
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
    driver.set_ram_u64(spin.stop, 1);
    driver.mes_query();
    assert_eq!(driver.ram_u64(spin.done), 1, "a removed queue does not complete anything");
    assert!(spin.queue.add(&mut driver, &spin.process));
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
    assert_eq!(driver.ram_u32(spin.started), 0, "the kernel began once");
    eventually("the read index moves", || spin.queue.read_index(&driver) == 1);
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn queue_whose_area_is_not_mapped_fails_loudly_and_the_device_serves_on() {
    let mut driver = Driver::up();
    let spin = spinning(&mut driver, 0x8001, 0x800);
    let at = std::mem::offset_of!(ComputeMqd, cp_hqd_ctx_save_base_addr_hi) as u64;
    driver.put_ram(spin.queue.mqd_memory + at, &0x7e00u32);
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang), "it is off its slot all the same");
    assert_eq!(driver.errors("context of a preempted queue not saved"), 1);
    let entries = driver.drain_interrupts();
    assert!(entries.iter().any(|entry| entry.source() == Source::UTCL2_FAULT), "{entries:?}");
    // Its waves are gone.
    driver.set_ram_u64(spin.stop, 1);
    assert!(spin.queue.add(&mut driver, &spin.process));
    let other = spinning(&mut driver, 0x8002, 0x1000);
    driver.set_ram_u64(other.stop, 1);
    eventually("another queue's kernel completes", || driver.ram_u64(other.done) == 0);
}

#[test]
fn another_process_does_not_find_the_waves() {
    let mut driver = Driver::up();
    let spin = spinning(&mut driver, 0x8001, 0x800);
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
    // A thief with the same MQD, but page tables of its own.
    let thief = Process::new(&mut driver, 0x8002);
    assert!(spin.queue.add(&mut driver, &thief));
    driver.set_ram_u64(spin.stop, 1);
    driver.mes_query();
    assert_eq!(driver.ram_u64(spin.done), 1);
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
}

#[test]
fn kernels_that_never_end_are_removed_and_others_run() {
    let mut driver = Driver::up();
    let spins: Vec<_> =
        (0..10).map(|n| spinning(&mut driver, 0x8001 + n, 0x800 * (u32::from(n) + 1))).collect();
    for spin in &spins {
        assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
    }
    let last = spinning(&mut driver, 0x9001, 0x800);
    driver.set_ram_u64(last.stop, 1);
    eventually("the last kernel completes", || driver.ram_u64(last.done) == 0);
}

#[test]
fn waves_of_a_removed_queue_leave_the_gpu_to_others() {
    const GROUPS: u32 = 16;
    let mut driver = Driver::up_with(GpuConfig { cus: 8, ..GpuConfig::default() });
    let mut spin = ready_to_spin(&mut driver, 0x8001, 0x800);
    // With a context save area for all waves that eight compute units hold.
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));
    spin.queue = UserQueue::with_area(&mut driver, &mut spin.process, 0x802, STACK_SIZE + 8 * 0x7_5000);
    assert!(spin.queue.add(&mut driver, &spin.process));
    // More waves than eight compute units hold, of a kernel that does not end.
    spin.packet.grid_size_x = 1024 * 64;
    spin.queue.put(&driver, &spin.packet);
    eventually("the GPU is full", || driver.gpu.stats().wave_instructions > 100_000);
    assert!(driver.remove(spin.queue.doorbell, spin.queue.gang));

    // Workgroups that wait for each other: all of them have to be on the GPU.
    let mut process = Process::new(&mut driver, 0x8002);
    let mut queue = UserQueue::new(&mut driver, &mut process, 0x1000);
    assert!(queue.add(&mut driver, &process));
    let kernel = load(&mut driver, &mut process, PROBE, "rendezvous.kd");
    let (_, arrived_va) = process.alloc(&mut driver, 4096);
    let (out, out_va) = process.alloc(&mut driver, 64 * 4 * u64::from(GROUPS));
    let (kernarg, kernarg_va) = process.alloc(&mut driver, 4096);
    driver.set_ram_u64(kernarg, arrived_va);
    driver.set_ram_u64(kernarg + 8, out_va);
    driver.put_ram(kernarg + 16, &[GROUPS, 3]);
    hidden(&driver, kernarg + 24, 64 * GROUPS, 64);
    let (done, done_va) = signal(&mut driver, &mut process, 1);
    queue.put(&driver, &dispatch(kernel, kernarg_va, 64 * GROUPS, 64, done_va));
    eventually("workgroups meet", || driver.ram_u64(done + 8) == 0);
    assert_eq!(driver.ram_u32(out), 3 * GROUPS);

    // The others go on at the same instruction when their queue comes back, and the rest of them begins.
    driver.set_ram_u64(spin.stop, 1);
    assert!(spin.queue.add(&mut driver, &spin.process));
    eventually("the first kernel completes", || driver.ram_u64(spin.done) == 0);
    let stats = driver.gpu.stats();
    assert_eq!(stats.workgroups, 1024 + u64::from(GROUPS));
    assert_eq!(stats.errors, Default::default());
}

#[test]
fn a_reset_ends_kernels_that_never_end() {
    let mut driver = Driver::up();
    let spin = spinning(&mut driver, 0x8001, 0x800);
    driver.gpu.reset(belfry_device::ResetKind::Flr);
    driver.set_ram_u64(spin.stop, 1);
    driver.bring_up();
    assert_eq!(driver.ram_u64(spin.done), 1);
    let again = spinning(&mut driver, 0x8001, 0x800);
    driver.set_ram_u64(again.stop, 1);
    eventually("a kernel after the reset completes", || driver.ram_u64(again.done) == 0);
}

#[test]
fn a_thread_that_rings_runs_a_small_kernel_itself() {
    let mut driver = Driver::up();
    let mut spin = ready_to_spin(&mut driver, 0x8001, 0x800);
    // Told to stop before it begins.
    driver.set_ram_u64(spin.stop, 1);
    let mut at_once = 0;
    for round in 1..=100 {
        driver.set_ram_u64(spin.done, 1);
        spin.queue.put_silently(&driver, &spin.packet);
        driver.gpu.doorbell_written(DoorbellIndex::from_dwords(spin.queue.doorbell).offset());
        at_once += u32::from(driver.ram_u64(spin.done) == 0 && spin.queue.read_index(&driver) == round);
        // The device's own threads may have been first.
        eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
        eventually("the read index moves", || spin.queue.read_index(&driver) == round);
    }
    assert!(at_once > 0, "never on the calling thread");
    let stats = driver.gpu.stats();
    assert_eq!((stats.dispatches, stats.workgroups, stats.doorbells_polled), (100, 100, 100));
    assert_eq!((stats.ih_entries, stats.ih_lost), (100, 0));
    assert_eq!(stats.errors, Default::default());
}

#[test]
fn a_thread_that_rings_for_an_endless_kernel_comes_back_and_others_run() {
    let mut driver = Driver::up_with(GpuConfig { workers: 1, ..GpuConfig::default() });
    let mut spin = ready_to_spin(&mut driver, 0x8001, 0x800);
    spin.queue.put_silently(&driver, &spin.packet);
    driver.gpu.doorbell_written(DoorbellIndex::from_dwords(spin.queue.doorbell).offset());
    eventually("it begins", || driver.ram_u32(spin.started) != 0);
    let other = spinning(&mut driver, 0x8002, 0x1000);
    driver.set_ram_u64(other.stop, 1);
    eventually("the other kernel completes", || driver.ram_u64(other.done) == 0);
    assert_eq!(driver.ram_u64(spin.done), 1, "the first one goes on");
    driver.set_ram_u64(spin.stop, 1);
    eventually("the first one completes", || driver.ram_u64(spin.done) == 0);
    assert_eq!(driver.gpu.stats().workgroups, 2, "each workgroup ran once");
}
