//! Barriers across a grid whose queue takes turns with others: waves that wait at one are saved and restored.

use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_device::chip::{gfx942, gfx1100};
use belfry_examples::kernels;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

const GROUPS: u32 = 24;
const BLOCK: u32 = 128;
const COUNT: u32 = GROUPS * BLOCK;
/// So many that the queue's quantum is over many times before they are.
const ROUNDS: u32 = 20_000;

fn small() -> GpuConfig {
    GpuConfig { cus: 8, vram_size: 64 << 20, ..GpuConfig::default() }
}

fn sums_beside_a_kernel_that_does_not_end(shape: GpuConfig) {
    let hosted = HostedGpu::new(shape).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&hosted).unwrap()).unwrap();
    let gpu = runtime.gpu();
    let other = gpu.queue().unwrap();
    let endless = gpu.load(kernels::ENDLESS.on(gpu).unwrap()).unwrap();
    let started = gpu.gtt().buffer_from(&[0u32]).unwrap();
    let _goes_on =
        endless.kernel("endless").unwrap().launch(&other).grid(64).block(64).args((&started,)).submit();

    let module = gpu.load(kernels::GRIDSYNC.on(gpu).unwrap()).unwrap();
    let queue = gpu.queue().unwrap();
    queue.take_global_wave_sync().unwrap();
    let mut cells: Vec<u32> = (0..COUNT).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let from = gpu.vram().buffer_from(&cells).unwrap();
    let to = gpu.vram().buffer::<u32>(COUNT as usize).unwrap();
    let init = module.kernel("gws_init").unwrap();
    init.launch(&queue).grid(1).block(1).args((GROUPS - 1,)).run().unwrap();
    let sums = module.kernel("ring_sums").unwrap();
    sums.launch(&queue).grid(COUNT).block(BLOCK).args((&from, &to, COUNT, GROUPS, ROUNDS)).run().unwrap();
    for _ in 0..ROUNDS {
        let at = |i: usize| cells[i % cells.len()];
        cells = (0..cells.len()).map(|i| at(i + cells.len() - 1).wrapping_add(at(i + 1))).collect();
    }
    assert!(from.to_vec() == cells, "sums round the ring");
    assert!(hosted.device().stats().queues_preempted > 2, "the queues take turns");
}

#[test]
fn barriers_hold_on_gfx1100_while_queues_take_turns() {
    sums_beside_a_kernel_that_does_not_end(GpuConfig { chip: &gfx1100::MODEL, ..small() });
}

#[test]
fn barriers_hold_on_gfx942_while_queues_take_turns() {
    sums_beside_a_kernel_that_does_not_end(GpuConfig { chip: &gfx942::MODEL, ..small() });
}

/// A queue without work gives its slot up to one that runs alone, and comes back when its doorbell rings.
fn queues_take_turns_packet_by_packet(shape: GpuConfig) {
    let hosted = HostedGpu::new(shape).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&hosted).unwrap()).unwrap();
    let gpu = runtime.gpu();
    let others = [gpu.queue().unwrap(), gpu.queue().unwrap()];
    let alone = gpu.queue().unwrap();
    alone.take_global_wave_sync().unwrap();
    for round in 0..100 {
        for queue in others.iter().chain([&alone]) {
            let done = queue.barrier_and(&[]).unwrap();
            let waited = done.wait_timeout(Duration::from_secs(30));
            assert!(waited.is_ok(), "round {round}: {waited:?}, {:?}", hosted.device().stats());
        }
    }
}

#[test]
fn queues_of_gfx1100_come_back_after_one_that_ran_alone() {
    queues_take_turns_packet_by_packet(GpuConfig { chip: &gfx1100::MODEL, ..small() });
}

#[test]
fn queues_of_gfx942_come_back_after_one_that_ran_alone() {
    queues_take_turns_packet_by_packet(GpuConfig { chip: &gfx942::MODEL, ..small() });
}
