//! An endless kernel, stopped by destroying its queue; others run before, beside and after it.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use belfry_runtime::queue::QueueError;
use belfry_runtime::{Gpu, Runtime};

use crate::{count, kernels, verify};

/// Longest time the GPU may take to begin, and to let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for which a stopped kernel is watched for signs of life.
const WATCH: Duration = Duration::from_millis(50);

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let groups = count(args, 8, 1..=1024, 1)?;
    let gpu = runtime.gpu();
    let beats = gpu.gtt().buffer_from(&[0u32])?;
    let endless = gpu.load(kernels::ENDLESS.on(gpu)?)?.kernel("endless")?;
    let queue = gpu.queue()?;
    let completion = endless.launch(&queue).grid(groups * 64).block(64).arg(&beats).submit()?;
    // This one never gets its turn.
    let behind = queue.barrier_and(&[])?;

    let begin = Instant::now();
    while beats.get(0)? == 0 {
        completion.wait_timeout(Duration::from_millis(1)).or_else(|error| match error {
            QueueError::Timeout(_) => Ok(()),
            error => Err(error),
        })?;
        ensure!(begin.elapsed() < PATIENCE, "the kernel did not begin within {PATIENCE:?}");
    }
    add(gpu, "beside an endless kernel")?;
    ensure!(!completion.is_done(), "a kernel without an end has ended");

    let begin = Instant::now();
    queue.destroy()?;
    let took = begin.elapsed();
    ensure!(took < PATIENCE, "destroying the queue took {took:?}");
    for (what, completion) in [("endless kernel", completion), ("packet behind it", behind)] {
        match completion.wait() {
            Err(QueueError::Destroyed) => {}
            outcome => bail!("the {what} of a destroyed queue ended with {outcome:?}"),
        }
    }
    let last = beats.get(0)?;
    thread::sleep(WATCH);
    ensure!(beats.get(0)? == last, "the kernel runs on after its queue was destroyed");

    add(gpu, "after it was stopped")?;
    writeln!(out, "stop-endless: {groups} workgroups stopped in {took:.1?}, work beside and after verified")?;
    Ok(())
}

/// Adds vectors on a queue of their own.
fn add(gpu: &Gpu, when: &str) -> anyhow::Result<()> {
    const COUNT: u32 = 4096;
    let a: Vec<f32> = (0..COUNT).map(|index| index as f32).collect();
    let expected: Vec<f32> = a.iter().map(|value| value + value).collect();
    let input = gpu.vram().buffer_from(&a)?;
    let sum = gpu.vram().buffer::<f32>(COUNT as usize)?;
    let queue = gpu.queue()?;
    let kernel = gpu.load(kernels::VECADD.on(gpu)?)?.kernel("vecadd")?;
    kernel.launch(&queue).grid(COUNT).block(256).args((&input, &input, &sum, COUNT)).run()?;
    verify::equal(&format!("sums {when}"), &sum.to_vec(), &expected)
}
