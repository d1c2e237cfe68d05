//! More queues than the hardware holds, several threads, and one small queue that all threads share.

use std::io::Write;

use anyhow::{Context, anyhow};
use belfry_runtime::{Gpu, Kernel, Queue, QueueOptions, Runtime};

use crate::{count, kernels, verify};

/// Threads that submit at the same time.
const THREADS: usize = 4;
/// Launches on each queue.
const LAUNCHES: u32 = 4;
/// Launches of each thread on the shared queue: all together more than its ring holds.
const SHARED_LAUNCHES: u32 = 64;
/// Packets of the shared queue's ring.
const SHARED_RING: u32 = 64;
/// Work-items of a launch.
const ITEMS: u32 = 512;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let queues = count(args, 24, 1..=100, 1)? as usize;
    let gpu = runtime.gpu();
    let module = gpu.load(kernels::SIGNALS.on(gpu)?)?;
    let (produce, count) = (module.kernel("produce")?, module.kernel("count")?);
    let all: Vec<Queue> = (0..queues)
        .map(|number| gpu.queue().with_context(|| format!("queue {number} of {queues}")))
        .collect::<Result<_, _>>()?;
    let shared = gpu.queue_with(&QueueOptions { packets: SHARED_RING, ..QueueOptions::default() })?;
    let counter = gpu.vram().buffer::<u32>(1)?;
    let sum = gpu.vram().buffer::<u64>(1)?;

    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (all, shared, produce, count) = (&all, &shared, &produce, &count);
                let (counter, sum) = (&counter, &sum);
                scope.spawn(move || -> anyhow::Result<()> {
                    let mut last = None;
                    for _ in 0..SHARED_LAUNCHES {
                        let launch = count.launch(shared).grid(ITEMS).block(64).concurrent();
                        last = Some(launch.args((counter, sum)).submit()?);
                    }
                    for (number, queue) in all.iter().enumerate().skip(thread).step_by(THREADS) {
                        own_queue(gpu, queue, produce, number as u32)
                            .with_context(|| format!("queue {number} of {queues}"))?;
                    }
                    if let Some(last) = last {
                        last.wait()?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    shared.finish()?;

    let launches = THREADS as u32 * SHARED_LAUNCHES;
    verify::equal("work-items of the shared queue", &counter.to_vec(), &[launches * ITEMS])?;
    let numbers = u64::from(ITEMS) * u64::from(ITEMS - 1) / 2;
    verify::equal("sum of the shared queue", &sum.to_vec(), &[u64::from(launches) * numbers])?;
    writeln!(
        out,
        "many-queues: {queues} queues and one shared by {THREADS} threads verified ({} launches)",
        launches + queues as u32 * LAUNCHES
    )?;
    Ok(())
}

/// A few launches on one queue, each with its own seed.
fn own_queue(gpu: &Gpu, queue: &Queue, produce: &Kernel, number: u32) -> anyhow::Result<()> {
    let rounds = 20u32;
    for launch in 0..LAUNCHES {
        let output = gpu.vram().buffer::<u32>(ITEMS as usize)?;
        let seed = 1 + number * 1000 + launch * 100_000;
        produce.launch(queue).grid(ITEMS).block(64).args((&output, seed, rounds, ITEMS)).run()?;
        let expected: Vec<u32> = (0..ITEMS).map(|i| churn(seed + i, rounds)).collect();
        verify::equal("its numbers", &output.to_vec(), &expected)?;
    }
    Ok(())
}

/// Does the work of `churn` in `signals.cl`.
fn churn(mut x: u32, rounds: u32) -> u32 {
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
    }
    x
}
