//! Counts of byte values: atomics in LDS, then in memory.

use std::io::Write;

use belfry_runtime::Runtime;

use crate::numbers::Random;
use crate::{count, kernels, verify};

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 1 << 20, 1..=1 << 28, 1)?;
    let mut random = Random::new(4);
    // The product of two numbers makes a lopsided distribution: some bins are contended.
    let bytes: Vec<u8> = (0..n).map(|_| ((random.below(16) + 1) * random.below(16)) as u8).collect();

    let gpu = runtime.gpu();
    let input = gpu.vram().buffer_from(&bytes)?;
    let bins = gpu.vram().buffer::<u32>(256)?;
    let queue = gpu.queue()?;
    let kernel = gpu.load(kernels::HIST.on(gpu)?)?.kernel("hist")?;
    kernel.launch(&queue).grid(64 * 256).block(256).args((&input, &bins, n)).run()?;

    let mut counts = vec![0u32; 256];
    for byte in &bytes {
        counts[usize::from(*byte)] += 1;
    }
    verify::equal("bins", &bins.to_vec(), &counts)?;
    writeln!(out, "histogram: {n} bytes in 256 bins verified")?;
    Ok(())
}
