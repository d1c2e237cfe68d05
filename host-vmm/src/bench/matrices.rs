//! Cost of exact sums of matrices.

use belfry_device::{GpuConfig, Matrices};

use super::cases::{Case, Data};
use super::hosted::Bench;
use super::{BenchError, Options, ratio, verify};

/// Largest allowed difference of cut-off sums from those of whole numbers; the elements of such kernels are whole
/// numbers.
const CUT_OFF: f32 = 1.0 / 64.0;

/// Returns the worker's time of a kernel with exact matrices divided by that with fast ones, on one worker.
pub(super) fn ratio_of(options: &Options, case: &'static Case, data: &Data) -> Result<f64, BenchError> {
    let failed = |source| BenchError::Kernel { kernel: case.name, source };
    let gpu = |matrices| GpuConfig { workers: 1, matrices, ..options.gpu.clone() };
    let benches = [Bench::new(&gpu(Matrices::Exact))?, Bench::new(&gpu(Matrices::Fast))?];
    let mut prepared = Vec::new();
    for bench in &benches {
        prepared.push(bench.prepare(case, bench.code(case)?, data).map_err(failed)?);
    }
    let mut runs = [const { Vec::new() }; 2];
    for run in 0..=options.runs {
        for (prepared, runs) in prepared.iter().zip(&mut runs) {
            let time = prepared.run().map_err(failed)?;
            runs.extend((run > 0).then_some(time));
        }
    }
    let [exact, fast] = [0, 1].map(|at| prepared[at].output());
    verify(case, "the GPU", &fast, &data.expected)?;
    for (index, (&actual, &expected)) in exact.iter().zip(&data.expected).enumerate() {
        // A sum that is NaN is not close either.
        if (actual - expected).abs().partial_cmp(&CUT_OFF).is_none_or(|order| order.is_gt()) {
            let device = "the GPU with exact matrices";
            return Err(BenchError::Wrong { kernel: case.name, device, index, actual, expected });
        }
    }
    Ok(ratio(&runs[0], &runs[1], |run| run.wall))
}
