//! Matrix instructions (WMMA or MFMA): one by hand, then a product of them.

use std::io::Write;

use belfry_runtime::{Gpu, Queue, Runtime};
use half::f16;

use crate::numbers::Random;
use crate::{count, kernels, verify};

/// Rows, columns and depth of one instruction.
const TILE: usize = 16;
pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 128, 16..=1024, 16)?;
    let gpu = runtime.gpu();
    let queue = gpu.queue()?;
    single(gpu, &queue)?;
    product(gpu, &queue, n)?;
    writeln!(out, "matrix: one {} and a {n}x{n} f16 product verified", Layout::of(gpu).name)?;
    Ok(())
}

/// Placement of the elements of the matrices in the registers of an instruction.
struct Layout {
    name: &'static str,
    /// Lanes of the wave.
    lanes: usize,
    /// Rows of the result one lane holds.
    rows: usize,
    /// Values of k that a lane of A and of B holds.
    depth: usize,
    /// Value of k of a lane's `item`th value of A or B.
    k: fn(lane: usize, item: usize) -> usize,
    /// Row of C of a lane's `item`th element.
    row: fn(lane: usize, item: usize) -> usize,
}

/// RDNA3 ISA guide, 7.9: both halves of the wave hold the same of A and of B.
const GFX11: Layout = Layout {
    name: "WMMA",
    lanes: 32,
    rows: 8,
    depth: TILE,
    k: |_, item| item,
    row: |lane, item| 2 * item + lane / TILE,
};
/// RDNA4 ISA guide, 7.9: the halves of the wave share the values of k, and the rows of C.
const GFX12: Layout = Layout {
    name: "WMMA",
    lanes: 32,
    rows: 8,
    depth: TILE / 2,
    k: |lane, item| 8 * (item / 4) + 4 * (lane / TILE) + item % 4,
    row: |lane, item| 8 * (lane / TILE) + item,
};
/// AMD matrix instruction calculator, `v_mfma_f32_16x16x16_f16`: the quarters of the wave share the values of k, and the rows of C.
const CDNA3: Layout = Layout {
    name: "MFMA",
    lanes: 64,
    rows: 4,
    depth: TILE / 4,
    k: |lane, item| 4 * (lane / TILE) + item,
    row: |lane, item| 4 * (lane / TILE) + item,
};

impl Layout {
    /// By the instruction set.
    fn of(gpu: &Gpu) -> Self {
        match gpu.agent().gfx_version {
            0..100_000 => CDNA3,
            100_000..120_000 => GFX11,
            _ => GFX12,
        }
    }
}

/// D = A * B + C with the registers as the instruction wants them.
fn single(gpu: &Gpu, queue: &Queue) -> anyhow::Result<()> {
    let Layout { lanes, rows, depth, k, row, .. } = Layout::of(gpu);
    let mut random = Random::new(8);
    let mut small = || random.whole(8);
    let a: Vec<f32> = (0..TILE * TILE).map(|_| small()).collect();
    let b: Vec<f32> = (0..TILE * TILE).map(|_| small()).collect();
    let c: Vec<f32> = (0..TILE * TILE).map(|_| small()).collect();
    // Lane l holds row l % 16 of A and column l % 16 of B.
    let mut a_lanes = vec![f16::ZERO; lanes * depth];
    let mut b_lanes = vec![f16::ZERO; lanes * depth];
    let mut c_lanes = vec![0f32; lanes * rows];
    let mut expected = vec![0f32; lanes * rows];
    for lane in 0..lanes {
        for item in 0..depth {
            let k = k(lane, item);
            a_lanes[lane * depth + item] = f16::from_f32(a[lane % TILE * TILE + k]);
            b_lanes[lane * depth + item] = f16::from_f32(b[k * TILE + lane % TILE]);
        }
        for i in 0..rows {
            let (row, column) = (row(lane, i), lane % TILE);
            let sum: f32 = (0..TILE).map(|k| a[row * TILE + k] * b[k * TILE + column]).sum();
            c_lanes[lane * rows + i] = c[row * TILE + column];
            expected[lane * rows + i] = c[row * TILE + column] + sum;
        }
    }
    let (gpu_a, gpu_b) = (gpu.vram().buffer_from(&a_lanes)?, gpu.vram().buffer_from(&b_lanes)?);
    let gpu_c = gpu.vram().buffer_from(&c_lanes)?;
    let kernel = gpu.load(kernels::WM.on(gpu)?)?.kernel("wm")?;
    kernel.launch(queue).grid(lanes as u32).block(lanes as u32).args((&gpu_a, &gpu_b, &gpu_c)).run()?;
    verify::equal("result of one instruction", &gpu_c.to_vec(), &expected)
}

/// C = A * B, a tile of C per wave.
fn product(gpu: &Gpu, queue: &Queue, n: u32) -> anyhow::Result<()> {
    let size = n as usize;
    let mut random = Random::new(9);
    let a: Vec<f16> = (0..size * size).map(|_| f16::from_f32(random.whole(8))).collect();
    let b: Vec<f16> = (0..size * size).map(|_| f16::from_f32(random.whole(8))).collect();
    let (gpu_a, gpu_b) = (gpu.vram().buffer_from(&a)?, gpu.vram().buffer_from(&b)?);
    let gpu_c = gpu.vram().buffer::<f32>(size * size)?;
    let kernel = gpu.load(kernels::MATRIX.on(gpu)?)?.kernel("matmul")?;
    let lanes = Layout::of(gpu).lanes as u32;
    kernel
        .launch(queue)
        .grid((n / 16 * lanes, n / 16))
        .block(lanes)
        .args((&gpu_a, &gpu_b, &gpu_c, n))
        .run()?;

    let mut expected = vec![0f32; size * size];
    for row in 0..size {
        for k in 0..size {
            let left = a[row * size + k].to_f32();
            for column in 0..size {
                expected[row * size + column] += left * b[k * size + column].to_f32();
            }
        }
    }
    verify::equal("product", &gpu_c.to_vec(), &expected)
}
