//! Bitonic sort: many dependent launches on one queue.

use std::io::Write;

use anyhow::ensure;
use belfry_runtime::Runtime;

use crate::numbers::Random;
use crate::{count, kernels, verify};

/// Keys a workgroup holds in LDS.
const TILE: u32 = 512;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 1 << 17, TILE..=1 << 24, TILE)?;
    ensure!(n.is_power_of_two(), "{n} is not a power of two");
    let mut random = Random::new(5);
    let mut keys: Vec<u32> = (0..n).map(|_| random.next() as u32).collect();

    let gpu = runtime.gpu();
    let buffer = gpu.vram().buffer_from(&keys)?;
    let queue = gpu.queue()?;
    let module = gpu.load(kernels::BITONIC.on(gpu)?)?;
    let (local, step) = (module.kernel("bitonic_local")?, module.kernel("bitonic_step")?);
    let threads = n / 2;
    let mut launches = 1;
    // Launches of one queue run one after the other: only the last has to be waited for.
    let mut last = local.launch(&queue).grid(threads).block(256).args((&buffer, 2u32, TILE)).submit()?;
    let mut pass = 2 * TILE;
    while pass <= n && pass != 0 {
        let mut stride = pass / 2;
        while stride >= TILE {
            let _ = step.launch(&queue).grid(threads).block(256).args((&buffer, pass, stride)).submit()?;
            stride /= 2;
            launches += 1;
        }
        last = local.launch(&queue).grid(threads).block(256).args((&buffer, pass, pass)).submit()?;
        launches += 1;
        pass *= 2;
    }
    last.wait()?;

    keys.sort_unstable();
    verify::equal("keys", &buffer.to_vec(), &keys)?;
    writeln!(out, "sort: {n} integers in {launches} launches verified")?;
    Ok(())
}
