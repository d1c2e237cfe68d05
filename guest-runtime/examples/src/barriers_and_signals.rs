//! Order across queues: barrier-and and barrier-or packets, and signals the host opens.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, ensure};
use belfry_runtime::queue::QueueError;
use belfry_runtime::signal::SignalError;
use belfry_runtime::{Condition, Runtime};

use crate::{kernels, verify};

/// Far longer than the work takes: only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time in which a closed gate must let nothing through.
const PEEK: Duration = Duration::from_millis(5);
const COUNT: u32 = 4096;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "unexpected argument `{}`", args[0]);
    let gpu = runtime.gpu();
    let module = gpu.load(kernels::SIGNALS.on(gpu)?)?;
    let (produce, combine) = (module.kernel("produce")?, module.kernel("combine")?);
    let (first, second) = (gpu.queue()?, gpu.queue()?);
    let buffer = || gpu.vram().buffer::<u32>(COUNT as usize);
    let (a, b, sum) = (buffer()?, buffer()?, buffer()?);
    let (rounds_a, rounds_b) = (10u32, 2000u32);

    // The first queue's work waits for the host, the second queue's for the first's and for its own.
    let gate = gpu.signal(1)?;
    let closed = first.barrier_and(&[&gate])?;
    let made_a = produce.launch(&first).grid(COUNT).block(256).args((&a, 1u32, rounds_a, COUNT)).submit()?;
    let made_b = produce.launch(&second).grid(COUNT).block(256).args((&b, 7u32, rounds_b, COUNT)).submit()?;
    let both = second.barrier_and(&[made_a.signal(), made_b.signal()])?;
    let combined = combine.launch(&second).grid(COUNT).block(256).args((&sum, &a, &b, COUNT)).submit()?;
    made_b.wait_timeout(PATIENCE).context("work that waits for nothing")?;
    match closed.wait_timeout(PEEK) {
        Err(QueueError::Timeout(_)) => {}
        other => anyhow::bail!("a barrier did not wait for its closed gate: {other:?}"),
    }
    ensure!(!made_a.is_done(), "work ran past a closed barrier");
    ensure!(!both.is_done() && !combined.is_done(), "a barrier-and passed with one signal of two");
    gate.store(0);
    combined.wait_timeout(PATIENCE).context("barrier-and across two queues")?;
    ensure!(both.is_done() && made_a.is_done() && closed.is_done(), "work overtook its barrier");
    let expected = |seed_a, seed_b| -> Vec<u32> {
        (0..COUNT)
            .map(|i| churn(seed_a + i, rounds_a).wrapping_add(churn(seed_b + i, rounds_b).wrapping_mul(3)))
            .collect()
    };
    verify::equal("after barrier-and", &sum.to_vec(), &expected(1, 7))?;

    // A barrier-or passes on the signal that comes, although the other never does.
    let never = gpu.signal(1)?;
    let gate = gpu.signal(1)?;
    let held = first.barrier_and(&[&gate])?;
    let made_a =
        produce.launch(&first).grid(COUNT).block(256).args((&a, 100u32, rounds_a, COUNT)).submit()?;
    let either = second.barrier_or(&[&never, made_a.signal()])?;
    let combined = combine.launch(&second).grid(COUNT).block(256).args((&sum, &a, &b, COUNT)).submit()?;
    ensure!(!either.is_done(), "a barrier-or passed with no signal of two");
    gate.subtract(1);
    combined.wait_timeout(PATIENCE).context("barrier-or across two queues")?;
    ensure!(held.is_done(), "work overtook its barrier");
    verify::equal("after barrier-or", &sum.to_vec(), &expected(100, 7))?;

    // Host waits: conditions hold or time out.
    ensure!(never.wait(Condition::Equal(1), Some(PATIENCE))? == 1, "the untouched signal changed");
    match never.wait(Condition::Less(1), Some(PEEK)) {
        Err(SignalError::Timeout(1)) => {}
        other => anyhow::bail!("a wait that cannot succeed returned {other:?}"),
    }
    let counter = gpu.signal(0)?;
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| counter.wait(Condition::AtLeast(3), Some(PATIENCE)));
        for _ in 0..3 {
            counter.add(1);
        }
        waiter
            .join()
            .map_err(|_| anyhow::anyhow!("the waiting thread panicked"))?
            .context("a wait for the host")
    })?;
    writeln!(out, "barriers-and-signals: order across two queues verified ({COUNT} values)")?;
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
