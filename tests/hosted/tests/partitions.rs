//! Kernels on each partition of a chip, over the runtime, the driver and a device.

use std::sync::Arc;

use belfry_abi::partition::ComputePartition::{self, Cpx, Dpx};
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Gpu, Runtime};
use belfry_runtime_hosted::HostedTransport;

static VECADD: &[u8] = include_bytes!("../../../guest-runtime/kernels/vecadd.gfx942.hsaco");
const COUNT: usize = 20_000;

/// A GPU of gfx942 with `xccs` XCCs, which starts in the mode `partition`.
fn gpu(xccs: u32, partition: ComputePartition) -> Arc<HostedGpu> {
    let shape = GpuConfig { chip: &gfx942::MODEL, xccs, partition, cus: 8, ..GpuConfig::default() };
    HostedGpu::new(GpuConfig { vram_size: 256 << 20, ..shape }).unwrap()
}

/// Adds two vectors on one agent.
fn add(gpu: &Gpu, factor: f32) {
    let kernel = gpu.load(VECADD).unwrap().kernel("vecadd").unwrap();
    let a = gpu.vram().buffer_from(&(0..COUNT).map(|i| i as f32).collect::<Vec<_>>()).unwrap();
    let b = gpu.gtt().buffer_from(&(0..COUNT).map(|i| i as f32 * factor).collect::<Vec<_>>()).unwrap();
    let sum = gpu.gtt().buffer_from(&vec![0f32; COUNT]).unwrap();
    let args = vec![(&a).into(), (&b).into(), (&sum).into(), (COUNT as u32).into()];
    kernel.launch(&gpu.queue().unwrap()).grid(COUNT as u32).block(256).args(args).run().unwrap();
    let sum = sum.to_vec();
    assert!(sum.iter().enumerate().all(|(i, sum)| (sum - i as f32 * (1.0 + factor)).abs() < f32::EPSILON));
}

#[test]
fn every_partition_is_an_agent_whose_kernels_run() {
    for (xccs, mode, count) in [(2, Cpx, 2), (4, Dpx, 2), (8, Cpx, 8)] {
        let gpu = gpu(xccs, mode);
        let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
        assert_eq!(runtime.gpus().len(), count, "{mode} of {xccs}");
        let xccs_of = |one: &Gpu| one.agent().xccs;
        assert_eq!(runtime.gpus().iter().map(xccs_of).sum::<u32>(), xccs);
        for (number, one) in runtime.gpus().iter().enumerate() {
            add(one, number as f32 + 1.0);
        }
        std::thread::scope(|scope| {
            for one in runtime.gpus() {
                scope.spawn(|| add(one, 2.0));
            }
        });
        assert_eq!(gpu.device().stats().errors, Default::default());
    }
}

#[test]
fn kernels_run_after_a_switch_as_before() {
    let gpu = gpu(4, Dpx);
    for (mode, count) in [("CPX", 4), ("SPX", 1), ("DPX", 2)] {
        gpu.card_write("current_compute_partition", mode).unwrap();
        let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
        assert_eq!(runtime.gpus().len(), count, "{mode}");
        runtime.gpus().iter().for_each(|one| add(one, 3.0));
    }
}
