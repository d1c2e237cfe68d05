//! Features that the other examples do not reach: 64-bit integers and division, doubles, halves, divergent
//! loops, shifts.

use std::io::Write;

use anyhow::ensure;
use belfry_runtime::{Gpu, Queue, Runtime};
use half::f16;

use crate::numbers::{Random, to_f16};
use crate::{kernels, verify};

/// Work-items of `misc`: its lanes read their neighbours' inputs, which is only defined within one wave.
const LANES: usize = 32;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    ensure!(args.is_empty(), "unexpected argument `{}`", args[0]);
    let gpu = runtime.gpu();
    let queue = gpu.queue()?;
    let rounds = 16;
    for seed in 0..rounds {
        misc(gpu, &queue, seed)?;
    }
    let n = 1 << 14;
    intmix(gpu, &queue, n, 20)?;
    writeln!(out, "mixed: {rounds} waves of mixed types and {n} integer hashes verified")?;
    Ok(())
}

fn misc(gpu: &Gpu, queue: &Queue, seed: u64) -> anyhow::Result<()> {
    let mut random = Random::new(10 + seed);
    // Divisors of all magnitudes: division takes different paths for short and long ones.
    let a: Vec<u64> = (0..LANES).map(|_| random.next() >> random.below(64)).collect();
    let d: Vec<f64> = (0..LANES).map(|_| 1000.0 * random.unit() - 500.0).collect();
    let h: Vec<f16> = (0..LANES).map(|_| to_f16(16.0 * random.unit() - 8.0)).collect();
    let q: Vec<i32> = (0..LANES).map(|_| random.next() as i32 >> 8).collect();

    let (gpu_a, gpu_d) = (gpu.vram().buffer_from(&a)?, gpu.vram().buffer_from(&d)?);
    let (gpu_h, gpu_q) = (gpu.vram().buffer_from(&h)?, gpu.vram().buffer_from(&q)?);
    let kernel = gpu.load(kernels::SORT.on(gpu)?)?.kernel("misc")?;
    let n = LANES as u32;
    kernel.launch(queue).grid(n).block(n).args((&gpu_a, &gpu_d, &gpu_h, &gpu_q, n)).run()?;

    let expected: Vec<u64> = (0..LANES)
        .map(|i| {
            let (x, y) = (a[i], a[i ^ 1]);
            if x > y { x.wrapping_mul(y).wrapping_add(3) } else { x / (y | 1) }
        })
        .collect();
    verify::equal("64-bit integers", &gpu_a.to_vec(), &expected)?;
    // The compiler contracts both expressions to fused multiply-adds.
    let expected: Vec<f64> = (0..LANES).map(|i| d[i].mul_add(1.5, f64::from(q[i]))).collect();
    verify::equal("doubles", &gpu_d.to_vec(), &expected)?;
    let expected: Vec<f16> = h
        .iter()
        .map(|h| {
            // Exact in f64: one rounding, as in a fused operation.
            let h = h.to_f64();
            to_f16(h * h + 2.0)
        })
        .collect();
    verify::equal("halves", &gpu_h.to_vec(), &expected)?;
    let expected: Vec<i32> = (0..LANES)
        .map(|i| {
            (0..q[i] & 31).fold(0i32, |sum, k| {
                if (k ^ i as i32) & 1 != 0 { sum.wrapping_add(q[(i + k as usize) % LANES]) } else { sum - k }
            })
        })
        .collect();
    verify::equal("divergent loops", &gpu_q.to_vec(), &expected)
}

fn intmix(gpu: &Gpu, queue: &Queue, n: u32, rounds: u32) -> anyhow::Result<()> {
    let output = gpu.vram().buffer::<u32>(n as usize)?;
    let kernel = gpu.load(kernels::INTMIX.on(gpu)?)?.kernel("intmix")?;
    kernel.launch(queue).grid(n).block(256).args((&output, n, rounds)).run()?;
    let expected: Vec<u32> = (0..n).map(|i| hash(i, rounds)).collect();
    verify::equal("hashes", &output.to_vec(), &expected)
}

/// Computes the result of the kernel in `intmix.cl`.
fn hash(i: u32, rounds: u32) -> u32 {
    let (mut x, mut y) = (i.wrapping_mul(0x9e37_79b9).wrapping_add(1), i ^ 0x85eb_ca6b);
    let (mut z, mut sum) = (i.wrapping_add(77), 0u32);
    for k in 0..rounds {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        y = y.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(5).wrapping_add(0xe654_6b64);
        z = z.wrapping_add((x & 0xffff) * 3).wrapping_add(k);
        sum = sum.wrapping_add(if x > y { z ^ y } else { z.wrapping_add(x) }).rotate_left(7);
        sum ^= (y >> 3) & 0x1ff;
    }
    sum
}
