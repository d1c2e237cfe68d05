//! Copies by the SDMA engines between all kinds of memory, while a kernel runs.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, ensure};
use belfry_runtime::Runtime;

use crate::numbers::Random;
use crate::{kernels, verify};

/// Not a multiple of a page: the ends matter.
const COUNT: usize = (1 << 18) + 77;
/// Rounds on each engine, so that rings are gone around.
const ROUNDS: u32 = 40;
/// Far more than anything here takes, on a loaded machine and in a translated guest as well.
const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "unexpected argument `{}`", args[0]);
    let gpu = runtime.gpu();
    let engines = gpu.agent().sdma_engines;
    ensure!(engines > 0, "this GPU offers no SDMA engine");
    let mut random = Random::new(23);
    let kernel = gpu.load(kernels::VECADD.on(gpu)?)?.kernel("vecadd")?;
    let compute = gpu.queue()?;
    let mut bytes = 0;
    for engine in 0..engines {
        let mut queue =
            gpu.copy_queue_on(engine).with_context(|| format!("a queue of SDMA engine {engine}"))?;
        for (from, to) in gpu.pools().iter().flat_map(|a| gpu.pools().map(|b| (a.clone(), b))) {
            let what = format!("copy from {} to {} by SDMA engine {engine}", from.kind(), to.kind());
            let data: Vec<u32> = (0..COUNT).map(|_| random.next() as u32).collect();
            let (source, target) = (from.buffer_from(&data)?, to.buffer::<u32>(COUNT)?);
            queue.fill(&target, 0xdead_beef)?;
            queue.copy(&source, &target)?;
            queue.finish(LIMIT).with_context(|| what.clone())?;
            verify::equal(&what, &target.to_vec(), &data)?;
            bytes += COUNT * 4;
        }
        bytes += ping_pong(runtime, &mut queue)?;
    }
    // A kernel's result goes out by an engine that the driver chooses, while the next one is computed.
    let (a, b) =
        (gpu.vram().buffer_from(&vec![1.5f32; COUNT])?, gpu.vram().buffer_from(&vec![2.5f32; COUNT])?);
    let (sum, back) = (gpu.vram().buffer::<f32>(COUNT)?, gpu.gtt().buffer::<f32>(COUNT)?);
    let launch =
        |c| kernel.launch(&compute).grid(COUNT as u32).block(256).args((&a, &b, c, COUNT as u32)).run();
    launch(&sum)?;
    let mut queue = gpu.copy_queue().context("a queue of any SDMA engine")?;
    queue.copy(&sum, &back)?;
    launch(&gpu.vram().buffer::<f32>(COUNT)?)?;
    queue.finish(LIMIT)?;
    verify::equal("a kernel's result", &back.to_vec(), &vec![4.0; COUNT])?;
    writeln!(
        out,
        "copy-engines: {} MiB copied by {engines} engines between all memories verified",
        bytes >> 20
    )?;
    Ok(())
}

/// Small copies there and back, more than a ring holds.
fn ping_pong(runtime: &Runtime, queue: &mut belfry_runtime::CopyQueue) -> anyhow::Result<usize> {
    const SMALL: usize = 1024;
    let gpu = runtime.gpu();
    let (here, there) = (gpu.gtt().buffer_from(&[7u32; SMALL])?, gpu.vram().buffer::<u32>(SMALL)?);
    for round in 0..ROUNDS {
        for _ in 0..64 {
            queue.copy(&here, &there)?;
            queue.copy(&there, &here)?;
        }
        queue.finish(LIMIT)?;
        here.write(0, &[round; SMALL])?;
    }
    queue.copy(&here, &there)?;
    queue.finish(LIMIT)?;
    verify::equal("copies there and back", &there.to_vec(), &[ROUNDS - 1; SMALL])?;
    Ok(ROUNDS as usize * 128 * SMALL * 4)
}
