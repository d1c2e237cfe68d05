//! Processes that share a GPU, with more queues than it has: each gets its part.

use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Buffer, Kernel, Queue, Runtime, Signal};
use belfry_runtime_hosted::HostedTransport;

static SIGNALS: &[u8] = include_bytes!("../../../guest-runtime/kernels/signals.gfx1100.hsaco");
/// Queues of all processes together.
const QUEUES: usize = 40;
/// Kernels of each queue that work; a kernel that counts follows each of them.
const LAUNCHES: u32 = 100;
/// Work-items of either.
const ITEMS: u32 = 1024;
/// Rounds of mixing in each kernel that works.
const ROUNDS: u32 = 400;

/// Queue with its work.
struct Lane {
    queue: Queue,
    output: Buffer<u32>,
    counter: Buffer<u32>,
    _sum: Buffer<u64>,
}

impl Lane {
    /// A queue with all of its work, which begins when the signal is 0.
    fn new(runtime: &Runtime, [produce, count]: [&Kernel; 2], gate: &Signal) -> Self {
        let gpu = runtime.gpu();
        let queue = gpu.queue().unwrap();
        let (output, counter, sum) = (
            gpu.gtt().buffer::<u32>(ITEMS as usize).unwrap(),
            gpu.gtt().buffer_from(&[0u32]).unwrap(),
            gpu.gtt().buffer_from(&[0u64]).unwrap(),
        );
        let _ = queue.barrier_and(&[gate]).unwrap();
        for launch in 0..LAUNCHES {
            let work = produce.launch(&queue).grid(ITEMS).block(64);
            let _ = work.args((&output, launch + 1, ROUNDS, ITEMS)).submit().unwrap();
            let _ = count.launch(&queue).grid(ITEMS).block(64).args((&counter, &sum)).submit().unwrap();
        }
        Self { queue, output, counter, _sum: sum }
    }

    /// Kernels that have counted.
    fn done(&self) -> u32 {
        self.counter.get(0).unwrap() / ITEMS
    }
}

fn churn(mut x: u32) -> u32 {
    for _ in 0..ROUNDS {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    x
}

/// Returns true if `part` is within one `within`-th of an equal share of `all` among `parts`.
fn is_fair(part: u32, parts: u32, all: u32, within: i64) -> bool {
    (i64::from(part) * i64::from(parts) - i64::from(all)).abs() * within <= i64::from(all)
}

#[test]
fn forty_queues_of_two_and_of_four_processes_advance_alike() {
    for processes in [2, 4] {
        let config = GpuConfig { vram_size: 64 << 20, workers: 2, ..GpuConfig::default() };
        let gpu = HostedGpu::new(config).unwrap();
        let open = |_| Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
        let runtimes: Vec<Runtime> = (0..processes).map(open).collect();
        let mut gates = Vec::new();
        let mut lanes: Vec<Vec<Lane>> = Vec::new();
        for runtime in &runtimes {
            let module = runtime.gpu().load(SIGNALS).unwrap();
            let kernels = ["produce", "count"].map(|name| module.kernel(name).unwrap());
            let gate = runtime.gpu().signal(1).unwrap();
            let lane = |_| Lane::new(runtime, kernels.each_ref(), &gate);
            lanes.push((0..QUEUES / processes).map(lane).collect());
            gates.push(gate);
        }
        gates.iter().for_each(|gate| gate.store(0));
        let half = QUEUES as u32 * LAUNCHES / 2;
        let done = loop {
            let done: Vec<Vec<u32>> = lanes.iter().map(|own| own.iter().map(Lane::done).collect()).collect();
            if done.iter().flatten().sum::<u32>() >= half {
                break done;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let all = done.iter().flatten().sum();
        let of_processes: Vec<u32> = done.iter().map(|own| own.iter().sum()).collect();
        // A process or a queue may have had a turn more when the others are looked at, and a busy machine makes turns
        // longer.
        assert!(of_processes.iter().all(|&part| is_fair(part, processes as u32, all, 3)), "{of_processes:?}");
        assert!(done.iter().flatten().all(|&part| is_fair(part, QUEUES as u32, all, 2)), "{done:?}");
        for lane in lanes.iter().flatten() {
            lane.queue.finish().unwrap();
            assert_eq!(lane.done(), LAUNCHES);
            let expected: Vec<u32> = (0..ITEMS).map(|i| churn(LAUNCHES + i)).collect();
            assert_eq!(lane.output.to_vec(), expected);
        }
        assert_eq!(gpu.device().stats().errors, Default::default());
    }
}
