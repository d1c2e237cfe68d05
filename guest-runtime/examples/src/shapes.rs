//! Ways to launch and load kernels: three dimensions with partial workgroups, LDS sized here, relocated
//! pointers.

use std::io::Write;

use anyhow::ensure;
use belfry_runtime::{KernelArg, Runtime};

use crate::numbers::Random;
use crate::{kernels, verify};

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "unexpected argument `{}`", args[0]);
    let gpu = runtime.gpu();
    let queue = gpu.queue()?;
    let module = gpu.load(kernels::SHAPES.on(gpu)?)?;

    let place = module.kernel("place")?;
    let shapes = [
        ([10, 6, 3], [4, 4, 2]),
        ([1, 1, 33], [1, 1, 32]),
        ([200, 1, 1], [64, 1, 1]),
        ([3, 200, 1], [1, 100, 1]),
        ([7, 5, 9], [7, 5, 7]),
        ([2, 2, 2], [8, 8, 4]),
    ];
    for (grid, block) in shapes {
        let [w, h, d] = grid;
        let places = gpu.vram().buffer::<u32>((w * h * d) as usize)?;
        place.launch(&queue).grid(grid).block(block).args((&places, w, h)).run()?;
        let expected: Vec<u32> =
            (0..w * h * d).map(|i| (i % w) | ((i / w % h) << 8) | ((i / w / h) << 16)).collect();
        verify::equal(
            &format!("places in a grid of {grid:?}, block {block:?}"),
            &places.to_vec(),
            &expected,
        )?;
    }

    let turn = module.kernel("turn")?;
    let mut random = Random::new(13);
    for block in [1u32, 31, 32, 33, 64, 256] {
        let words: Vec<u32> = (0..block * 5).map(|_| random.next() as u32).collect();
        let (input, output) = (gpu.vram().buffer_from(&words)?, gpu.vram().buffer::<u32>(words.len())?);
        let lds = KernelArg::Local(2 * block);
        let launch = turn.launch(&queue).grid(block * 5).block(block);
        launch.args((&output, &input, lds.clone(), lds)).run()?;
        let expected: Vec<u32> =
            words.chunks(block as usize).flat_map(|group| group.iter().rev().copied()).collect();
        verify::equal(&format!("workgroups of {block} turned"), &output.to_vec(), &expected)?;
    }

    let lookup = module.kernel("lookup")?;
    let n = 1000u32;
    let which: Vec<u32> = (0..n).map(|_| random.below(2)).collect();
    let (input, output) = (gpu.vram().buffer_from(&which)?, gpu.vram().buffer::<u32>(which.len())?);
    lookup.launch(&queue).grid(n).args((&output, &input, n)).run()?;
    let expected: Vec<u32> = which.iter().zip(0..n).map(|(which, i)| (i & 3).pow(2 + which)).collect();
    verify::equal("looked-up powers", &output.to_vec(), &expected)?;

    writeln!(out, "shapes: {} grids, sized LDS and relocated tables verified", shapes.len())?;
    Ok(())
}
