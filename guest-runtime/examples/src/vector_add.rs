//! The first thing to run: c = a + b.

use std::io::Write;

use belfry_runtime::Runtime;

use crate::numbers::Random;
use crate::{count, kernels, verify};

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 1 << 20, 1..=1 << 26, 1)?;
    let mut random = Random::new(1);
    let a: Vec<f32> = (0..n).map(|_| random.unit() as f32).collect();
    let b: Vec<f32> = (0..n).map(|_| random.unit() as f32).collect();

    let gpu = runtime.gpu();
    let (gpu_a, gpu_b) = (gpu.vram().buffer_from(&a)?, gpu.vram().buffer_from(&b)?);
    let gpu_c = gpu.vram().buffer::<f32>(n as usize)?;
    let queue = gpu.queue()?;
    let kernel = gpu.load(kernels::VECADD.on(gpu)?)?.kernel("vecadd")?;
    kernel.launch(&queue).grid(n).block(256).args((&gpu_a, &gpu_b, &gpu_c, n)).run()?;

    let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    verify::equal("sums", &gpu_c.to_vec(), &sums)?;
    writeln!(out, "vector-add: {n} floats verified")?;
    Ok(())
}
