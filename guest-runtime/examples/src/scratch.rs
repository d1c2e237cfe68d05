//! A private array in scratch memory.

use std::io::Write;

use belfry_runtime::Runtime;

use crate::numbers::Random;
use crate::{count, kernels, verify};

/// Words a work-item reverses.
const RUN: usize = 32;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 8192, 1..=1 << 20, 1)?;
    let mut random = Random::new(11);
    let words: Vec<u32> = (0..n as usize * RUN).map(|_| random.next() as u32).collect();

    let gpu = runtime.gpu();
    let buffer = gpu.vram().buffer_from(&words)?;
    let queue = gpu.queue()?;
    let kernel = gpu.load(kernels::SCRATCH.on(gpu)?)?.kernel("reverse")?;
    kernel.launch(&queue).grid(n).block(256).args((&buffer, n)).run()?;

    let mut expected = vec![0u32; words.len()];
    for (item, (input, output)) in words.chunks(RUN).zip(expected.chunks_mut(RUN)).enumerate() {
        let mut stack = [0; RUN];
        for (k, word) in input.iter().enumerate() {
            stack[(k + item) % RUN] = *word;
        }
        for (k, word) in output.iter_mut().enumerate() {
            *word = stack[RUN - 1 - k].wrapping_add(item as u32);
        }
    }
    verify::equal("words", &buffer.to_vec(), &expected)?;
    let bytes = kernel.info().private_size;
    writeln!(out, "scratch: {n} work-items with {bytes} bytes of private memory verified")?;
    Ok(())
}
