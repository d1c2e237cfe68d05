//! The transcendental unit and the device math library against the processor's.

use std::f64::consts::{PI, TAU};
use std::io::Write;

use belfry_runtime::{Gpu, Queue, Runtime};

use crate::numbers::Random;
use crate::verify::MaxUlp;
use crate::{count, kernels};

/// Each of the eight terms of `trans` is good to about one ulp of its own.
const UNIT_LIMIT: f64 = 12.0;
/// Each of the seven functions of `ocml` is good to 4 ulp (OpenCL's bound for full profile), `pow` to 16.
const LIBRARY_LIMIT: f64 = 16.0;
/// Two functions of at most 4 ulp.
const DOUBLE_LIMIT: f64 = 8.0;

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let n = count(args, 1 << 16, 1..=1 << 22, 1)?;
    let gpu = runtime.gpu();
    let queue = gpu.queue()?;
    let unit = unit(gpu, &queue, n)?;
    unit.within("the transcendental unit", UNIT_LIMIT)?;
    let (single, double) = library(gpu, &queue, n)?;
    single.within("the math library in f32", LIBRARY_LIMIT)?;
    double.within("the math library in f64", DOUBLE_LIMIT)?;
    writeln!(
        out,
        "transcendental: {n} values verified (unit {:.2} ulp, library f32 {:.2} ulp, f64 {:.2} ulp)",
        unit.0, single.0, double.0
    )?;
    Ok(())
}

/// The instructions themselves.
fn unit(gpu: &Gpu, queue: &Queue, n: u32) -> anyhow::Result<MaxUlp> {
    let mut random = Random::new(6);
    let x: Vec<f32> = (0..n).map(|_| (0.25 + 3.5 * random.unit()) as f32).collect();
    let y: Vec<f32> = (0..n).map(|_| random.unit() as f32).collect();
    let (input, output) = (gpu.vram().buffer_from(&x)?, gpu.vram().buffer_from(&y)?);
    let kernel = gpu.load(kernels::TRANS.on(gpu)?)?.kernel("trans")?;
    kernel.launch(queue).grid(n).block(256).args((&output, &input, n)).run()?;

    let mut worst = MaxUlp::default();
    for ((gpu, x), y) in output.to_vec().iter().zip(&x).zip(&y) {
        let (x, y) = (f64::from(*x), f64::from(*y));
        // v_sin_f32 takes its argument in turns.
        let exact =
            x.exp2() + x.log2() + 1.0 / x + 1.0 / x.sqrt() + (x * TAU).sin() + x.sqrt() + x / 3.7f64 + y / x;
        worst.note_f32(*gpu, exact.max(0.0));
    }
    Ok(worst)
}

/// The device library's functions, built of those and many others.
fn library(gpu: &Gpu, queue: &Queue, n: u32) -> anyhow::Result<(MaxUlp, MaxUlp)> {
    let mut random = Random::new(7);
    let x: Vec<f32> = (0..n).map(|_| (0.125 + 3.5 * random.unit()) as f32).collect();
    let d: Vec<f64> = (0..n).map(|_| 4.0 * random.unit() - 2.0).collect();
    let (input, output) = (gpu.vram().buffer_from(&x)?, gpu.vram().buffer::<f32>(x.len())?);
    let double = gpu.vram().buffer_from(&d)?;
    let kernel = gpu.load(kernels::OCML.on(gpu)?)?.kernel("ocml")?;
    kernel.launch(queue).grid(n).block(256).args((&output, &input, &double, n)).run()?;

    let (mut single_worst, mut double_worst) = (MaxUlp::default(), MaxUlp::default());
    for (gpu, x) in output.to_vec().iter().zip(&x) {
        let x = f64::from(*x);
        let exact = x.exp() + x.ln() + x.sin() + x.cos() + x.powf(f64::from(1.7f32)) + x.tanh() + erf(x);
        single_worst.note_f32(*gpu, exact);
    }
    for (gpu, d) in double.to_vec().iter().zip(&d) {
        double_worst.note_f64(*gpu, d.sin() + d.exp());
    }
    Ok((single_worst, double_worst))
}

/// The error function, by a series of positive terms (Abramowitz and Stegun 7.1.6); good to 1e-15 for |x| < 5.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    let mut n = 0.0;
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_published_values() {
        // Abramowitz and Stegun, table 7.1.
        for (x, value) in [(0.0, 0.0), (0.5, 0.520_499_877_8), (1.0, 0.842_700_792_9), (2.0, 0.995_322_265_0)]
        {
            assert!((erf(x) - value).abs() < 1e-10, "erf({x}) = {}", erf(x));
        }
        assert!((erf(-1.0) + erf(1.0)).abs() < 1e-15);
    }
}
