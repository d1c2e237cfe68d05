//! Barriers and semaphores across a grid, by global wave sync.

use std::io::Write;

use anyhow::ensure;
use belfry_runtime::Runtime;

use crate::{kernels, verify};

const GROUPS: u32 = 24;
const BLOCK: u32 = 128;
const COUNT: u32 = GROUPS * BLOCK;
const ROUNDS: u32 = 10;
/// Workgroups the semaphore admits at a time.
const ADMITTED: u32 = 3;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "unexpected argument `{}`", args[0]);
    let gpu = runtime.gpu();
    let module = gpu.load(kernels::GRIDSYNC.on(gpu)?)?;
    let queue = gpu.queue()?;
    queue.take_global_wave_sync()?;

    let mut cells: Vec<u32> = (0..COUNT).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let from = gpu.vram().buffer_from(&cells)?;
    let to = gpu.vram().buffer::<u32>(COUNT as usize)?;
    module.kernel("gws_init")?.launch(&queue).grid(1).block(1).args((GROUPS - 1,)).run()?;
    let sums = module.kernel("ring_sums")?;
    sums.launch(&queue).grid(COUNT).block(BLOCK).args((&from, &to, COUNT, GROUPS, ROUNDS)).run()?;
    for _ in 0..ROUNDS {
        let at = |i: usize| cells[i % cells.len()];
        cells = (0..cells.len()).map(|i| at(i + cells.len() - 1).wrapping_add(at(i + 1))).collect();
    }
    let last = if ROUNDS.is_multiple_of(2) { &from } else { &to };
    verify::equal("sums round the ring", &last.to_vec(), &cells)?;

    let counters = [0; 3].map(|_: u32| gpu.vram().buffer_from(&[0u32]));
    let [inside, most, total] = counters;
    let (inside, most, total) = (inside?, most?, total?);
    module.kernel("gws_admit")?.launch(&queue).grid(1).block(1).args((ADMITTED,)).run()?;
    let admitted = module.kernel("admitted")?;
    admitted.launch(&queue).grid(COUNT).block(BLOCK).args((&inside, &most, &total)).run()?;
    ensure!(total.to_vec() == [GROUPS], "{:?} of {GROUPS} workgroups got in", total.to_vec());
    let most = most.to_vec()[0];
    ensure!(
        (1..=ADMITTED).contains(&most),
        "{most} workgroups inside at once, where {ADMITTED} are admitted"
    );
    writeln!(
        out,
        "grid-sync: {ROUNDS} barriers across {GROUPS} workgroups verified, at most {most} of {ADMITTED} admitted"
    )?;
    Ok(())
}
