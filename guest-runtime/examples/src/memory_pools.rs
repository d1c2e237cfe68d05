//! The same kernel over every mixture of VRAM, driver memory and user memory.

use std::io::Write;

use anyhow::{Context, ensure};
use belfry_runtime::{MemoryKind, QueueOptions, Runtime};

use crate::numbers::Random;
use crate::{kernels, verify};

/// Not a multiple of a page or a workgroup: the ends matter.
const COUNT: u32 = 3001;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "unexpected argument `{}`", args[0]);
    let gpu = runtime.gpu();
    let mut random = Random::new(12);
    let kernel = gpu.load(kernels::VECADD.on(gpu)?)?.kernel("vecadd")?;
    let mut combinations = 0;
    for ring in [MemoryKind::Gtt, MemoryKind::UserPtr, MemoryKind::Vram] {
        let queue = gpu
            .queue_with(&QueueOptions { ring, ..QueueOptions::default() })
            .with_context(|| format!("a queue with its ring in {ring}"))?;
        for (a_pool, b_pool, c_pool) in combinations_of(&gpu.pools()) {
            let what = format!("{} + {} to {}, ring in {ring}", a_pool.kind(), b_pool.kind(), c_pool.kind());
            let a: Vec<f32> = (0..COUNT).map(|_| random.unit() as f32).collect();
            let b: Vec<f32> = (0..COUNT).map(|_| random.unit() as f32).collect();
            let (gpu_a, gpu_b) = (a_pool.buffer_from(&a)?, b_pool.buffer_from(&b)?);
            let gpu_c = c_pool.buffer::<f32>(COUNT as usize)?;
            kernel
                .launch(&queue)
                .grid(COUNT)
                .block(256)
                .args((&gpu_a, &gpu_b, &gpu_c, COUNT))
                .run()
                .with_context(|| what.clone())?;
            let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            verify::equal(&what, &gpu_c.to_vec(), &sums)?;
            combinations += 1;
        }
    }
    writeln!(out, "memory-pools: {combinations} combinations of VRAM, GTT and user memory verified")?;
    Ok(())
}

fn combinations_of<T: Clone>(items: &[T]) -> impl Iterator<Item = (T, T, T)> {
    items.iter().flat_map(move |a| {
        items.iter().flat_map(move |b| items.iter().map(move |c| (a.clone(), b.clone(), c.clone())))
    })
}
