//! C = A * B through LDS tiles.

use std::io::Write;

use belfry_runtime::Runtime;

use crate::numbers::Random;
use crate::{count, kernels, verify};

/// Rows and columns of the tile a workgroup of 64 computes.
const TILE: u32 = 64;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 256, TILE..=2048, TILE)?;
    let size = n as usize;
    let mut random = Random::new(2);
    // Small whole numbers: every sum is exact, so that any order of additions gives the same result.
    let a: Vec<f32> = (0..size * size).map(|_| random.whole(16)).collect();
    let b: Vec<f32> = (0..size * size).map(|_| random.whole(16)).collect();

    let gpu = runtime.gpu();
    let (gpu_a, gpu_b) = (gpu.vram().buffer_from(&a)?, gpu.vram().buffer_from(&b)?);
    let gpu_c = gpu.vram().buffer::<f32>(size * size)?;
    let queue = gpu.queue()?;
    let kernel = gpu.load(kernels::GEMM.on(gpu)?)?.kernel("gemm")?;
    let order = n as i32;
    kernel
        .launch(&queue)
        .grid((n, n / TILE))
        .block(TILE)
        .args((&gpu_a, &gpu_b, &gpu_c, order, order, order))
        .run()?;

    // The kernel takes A by columns: element (row, k) of A is a[k * n + row].
    let mut product = vec![0f32; size * size];
    for k in 0..size {
        for row in 0..size {
            let left = a[k * size + row];
            let (b_row, c_row) = (&b[k * size..][..size], &mut product[row * size..][..size]);
            for (c, b) in c_row.iter_mut().zip(b_row) {
                *c += left * b;
            }
        }
    }
    verify::equal("product", &gpu_c.to_vec(), &product)?;
    writeln!(out, "gemm: {n}x{n} product verified")?;
    Ok(())
}
