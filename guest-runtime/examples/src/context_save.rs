//! A grid that is preempted while it runs: its waves are found in memory, go on, and give the result they would have given.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belfry_runtime::queue::{Queue, QueueOptions};
use belfry_runtime::{Runtime, queue::QueueError};

use crate::{count, kernels, verify};

/// Work-items of a workgroup.
const GROUP: u32 = 128;
/// Rounds of mixing before and after the wait.
const ROUNDS: u32 = 40;
/// Words that the workgroups keep in their LDS: this one, and the number of the work-item.
const SENTINEL: u32 = 0x5e17_0000;
/// Longest time until all workgroups come to their wait.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let groups = count(args, 12, 1..=64, 1)?;
    let gpu = runtime.gpu();
    let words = gpu.gtt().buffer_from(&[0u32; 2])?;
    let result = gpu.gtt().buffer::<u32>((groups * GROUP) as usize)?;
    let kernel = gpu.load(kernels::CONTEXT.on(gpu)?)?.kernel("tides")?;
    let queue = gpu.queue_with(&QueueOptions { readable_context: true, ..QueueOptions::default() })?;
    let completion = kernel
        .launch(&queue)
        .grid(groups * GROUP)
        .block(GROUP)
        .args((&words, &result, ROUNDS, SENTINEL))
        .submit()?;

    // While they arrive, workgroups are taken off the GPU in the middle of their work.
    let begin = Instant::now();
    let mut times = 0;
    while words.get(1)? < groups {
        preempt(&queue, |_, _| Ok(()))?;
        times += 1;
        completion.wait_timeout(Duration::from_micros(500)).or_else(|error| match error {
            QueueError::Timeout(_) => Ok(()),
            error => Err(error),
        })?;
        ensure!(begin.elapsed() < PATIENCE, "the workgroups do not get anywhere within {PATIENCE:?}");
    }

    // All of them have begun, and none has ended: their state is in memory, and only there.
    let bytes = preempt(&queue, |waves, stack| {
        ensure!(stack > 0 && !waves.is_empty(), "nothing is in the context save area");
        for item in (0..groups * GROUP).step_by(GROUP as usize) {
            let kept: Vec<u8> = (0..GROUP).flat_map(|l| (SENTINEL + item + l).to_le_bytes()).collect();
            let found = waves.windows(kept.len()).step_by(4).any(|window| window == kept);
            ensure!(found, "the LDS of workgroup {} is not in the context save area", item / GROUP);
        }
        Ok(())
    })?;
    ensure!(!completion.is_done(), "workgroups that wait have ended");
    words.write(0, &[1])?;
    while !completion.is_done() && times < 200 {
        preempt(&queue, |_, _| Ok(()))?;
        times += 1;
    }
    completion.wait()?;
    verify::equal("values of preempted workgroups", &result.to_vec(), &expected(groups))?;
    writeln!(
        out,
        "context-save: {groups} workgroups, {bytes} bytes of waves found in memory, preempted and resumed, results verified"
    )?;
    Ok(())
}

/// Takes a queue off the GPU, shows `look` its waves' state and the bytes of its control stack, and lets it go on.
/// Returns the bytes of the waves' state.
fn preempt(queue: &Queue, look: impl FnOnce(&[u8], usize) -> anyhow::Result<()>) -> anyhow::Result<usize> {
    queue.preempt()?;
    let context = queue.context()?;
    let looked = look(&context.waves, context.control_stack.len());
    queue.go_on().context("the queue does not go on")?;
    looked.map(|()| context.waves.len())
}

/// Expected result of the kernel.
fn expected(groups: u32) -> Vec<u32> {
    (0..groups)
        .flat_map(|group| {
            let mut values: Vec<u32> =
                (0..GROUP).map(|l| (group * GROUP + l).wrapping_mul(2_654_435_761).wrapping_add(1)).collect();
            for round in 0..2 * ROUNDS {
                let tile = values.clone();
                for (l, value) in (0u32..).zip(&mut values) {
                    let other = tile[((l + round * 7 + 1) & (GROUP - 1)) as usize];
                    *value = (*value ^ other).wrapping_mul(1_664_525).wrapping_add(round);
                }
            }
            let kept = move |l: u32| SENTINEL + group * GROUP + GROUP - 1 - l;
            (0u32..).zip(values).map(move |(l, value)| value ^ kept(l)).collect::<Vec<_>>()
        })
        .collect()
}
