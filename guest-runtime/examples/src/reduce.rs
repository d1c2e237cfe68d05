//! A sum: strided loads, an LDS tree with barriers, and lane shifts at the end.

use std::io::Write;

use belfry_runtime::Runtime;

use crate::numbers::Random;
use crate::{count, kernels, verify};

/// Workgroups and their size, as the kernel has them built in.
const GROUPS: u32 = 64;
const BLOCK: u32 = 256;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 1 << 20, 1..=1 << 20, 1)?;
    let mut random = Random::new(3);
    // At most 2^20 whole numbers up to 15: the sum stays below 2^24, where floats are exact.
    let values: Vec<f32> = (0..n).map(|_| random.below(16) as f32).collect();

    let gpu = runtime.gpu();
    let input = gpu.vram().buffer_from(&values)?;
    let partial = gpu.gtt().buffer::<f32>(GROUPS as usize)?;
    let queue = gpu.queue()?;
    let kernel = gpu.load(kernels::REDUCE.on(gpu)?)?.kernel("reduce")?;
    kernel.launch(&queue).grid(GROUPS * BLOCK).block(BLOCK).args((&input, &partial, n)).run()?;

    let mut sums = vec![0f32; GROUPS as usize];
    for (index, value) in values.iter().enumerate() {
        sums[index / BLOCK as usize % GROUPS as usize] += value;
    }
    verify::equal("partial sums", &partial.to_vec(), &sums)?;
    let total: f32 = partial.to_vec().iter().sum();
    writeln!(out, "reduce: {n} floats sum to {total}, {GROUPS} partial sums verified")?;
    Ok(())
}
