//! `belfry bench isa`: how fast wave instructions execute, dispatch and page tables included.

use std::time::{Duration, Instant};

use belfry_device::GpuConfig;
use belfry_examples::kernels;
use belfry_runtime::{Buffer, Kernel, Queue, Runtime};
use serde::Serialize;

use crate::hosted::{HostedError, open};

/// How often each kernel runs after one run that is not counted.
const RUNS: usize = 7;
/// How often a dispatch of one empty workgroup runs.
const DISPATCHES: usize = 2001;
/// A kernel that does nothing.
const EMPTY: &[u8] = include_bytes!("../../guest-runtime/kernels/empty.gfx1100.hsaco");

/// Results of the whole suite; `--json` prints this.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// The processor and how the engine uses it.
    pub machine: Machine,
    /// One entry per kernel and number of workers.
    pub kernels: Vec<Measurement>,
}

/// Where it was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Logical processors.
    pub processors: usize,
    /// The widest vector instructions the processor has, of those the engine knows.
    pub vectors: &'static str,
    /// Whether the compiler optimised; figures of a debug build say nothing.
    pub optimised: bool,
}

/// One kernel on one number of workers.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// The kernel.
    pub name: &'static str,
    /// Worker threads.
    pub workers: usize,
    /// Wave instructions one run executes; waits, hints and nops do not count.
    pub wave_instructions: u64,
    /// Median time of a run in milliseconds, from the packet to its signal.
    pub median_ms: f64,
    /// Fastest run in milliseconds.
    pub min_ms: f64,
    /// Median time per wave instruction in nanoseconds.
    pub ns_per_wave_instruction: f64,
    /// Processor time of the worker threads per wave instruction in nanoseconds, median: unlike the other times it does
    /// not count what other programs take from the processors. 0 where the system does not tell.
    pub worker_ns_per_wave_instruction: f64,
    /// Wave instructions per second at the median.
    pub wave_instructions_per_second: f64,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The hosted GPU could not be started.
    #[error(transparent)]
    Hosted(#[from] HostedError),
    /// A kernel could not be run.
    #[error("{kernel}: {source}")]
    Kernel {
        /// The kernel.
        kernel: &'static str,
        /// Why.
        source: belfry_runtime::Error,
    },
    /// A kernel computed something else than the processor.
    #[error("{kernel}: element {index} is {actual}, should be {expected}")]
    Wrong {
        /// The kernel.
        kernel: &'static str,
        /// Which element.
        index: usize,
        /// What the GPU computed.
        actual: f32,
        /// What is right.
        expected: f32,
    },
}

/// Runs every kernel of the suite with each number of workers.
pub fn isa(workers: &[usize], mut measured: impl FnMut(&Measurement)) -> Result<Results, BenchError> {
    let mut results = Vec::new();
    for &workers in workers {
        let (gpu, runtime) = open(&GpuConfig { workers, ..GpuConfig::default() })?;
        for case in CASES {
            let failed = |source| BenchError::Kernel { kernel: case.name, source };
            let bench = Bench::new(&runtime, case.name).map_err(failed)?;
            let (inputs, expected) = (case.prepare)(&bench).map_err(failed)?;
            let mut times = Vec::new();
            let mut worker_times = Vec::new();
            let mut instructions = 0;
            for run in 0..=case.runs {
                let before = gpu.device().stats().wave_instructions;
                let busy = if case.runs == RUNS { worker_time() } else { Duration::ZERO };
                let started = Instant::now();
                (case.launch)(&bench, &inputs).map_err(failed)?;
                let time = started.elapsed();
                instructions = gpu.device().stats().wave_instructions - before;
                if run > 0 {
                    times.push(time);
                    if case.runs == RUNS {
                        worker_times.push(worker_time().saturating_sub(busy));
                    }
                }
            }
            verify(case.name, &inputs.output, &expected)?;
            let mut measurement = measurement(case.name, workers, instructions, &mut times);
            worker_times.sort_unstable();
            if let Some(median) = worker_times.get(worker_times.len() / 2) {
                measurement.worker_ns_per_wave_instruction =
                    round(median.as_secs_f64() * 1e9 / instructions.max(1) as f64);
            }
            measured(&measurement);
            results.push(measurement);
        }
    }
    Ok(Results { machine: machine(), kernels: results })
}

/// Processor time the shader workers of this process have used.
fn worker_time() -> Duration {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let workers = tasks.flatten().map(|task| task.path()).filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("shader-"))
    });
    let nanoseconds = workers.filter_map(|task| {
        let schedstat = std::fs::read_to_string(task.join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn measurement(name: &'static str, workers: usize, instructions: u64, times: &mut [Duration]) -> Measurement {
    times.sort_unstable();
    let median = times[times.len() / 2].as_secs_f64();
    let count = instructions.max(1) as f64;
    Measurement {
        name,
        workers,
        wave_instructions: instructions,
        median_ms: round(median * 1e6) / 1e3,
        min_ms: round(times[0].as_secs_f64() * 1e6) / 1e3,
        ns_per_wave_instruction: round(median * 1e9 / count),
        worker_ns_per_wave_instruction: 0.0,
        wave_instructions_per_second: (count / median).round(),
    }
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Buffers, and what the output must be.
type Prepared = Result<(Inputs, Vec<f32>), belfry_runtime::Error>;

/// One kernel: its buffers with the expected output, and its launch.
struct Case {
    name: &'static str,
    /// Runs that count.
    runs: usize,
    prepare: fn(&Bench) -> Prepared,
    launch: fn(&Bench, &Inputs) -> Result<(), belfry_runtime::Error>,
}

struct Bench {
    runtime_pool: belfry_runtime::Pool,
    queue: Queue,
    kernel: Kernel,
}

struct Inputs {
    output: Buffer<f32>,
    a: Buffer<f32>,
    b: Buffer<f32>,
}

impl Bench {
    fn new(runtime: &Runtime, kernel: &str) -> Result<Self, belfry_runtime::Error> {
        let gpu = runtime.gpu();
        let queue = gpu.queue()?;
        let kernel = match kernel {
            "workgroups" | "dispatch" => gpu.load(EMPTY)?.kernel("empty")?,
            name => gpu.load(kernels::BENCH)?.kernel(name)?,
        };
        Ok(Self { runtime_pool: gpu.vram(), queue, kernel })
    }

    fn inputs(&self, output: usize, a: &[f32], b: &[f32]) -> Result<Inputs, belfry_runtime::Error> {
        let pool = &self.runtime_pool;
        Ok(Inputs { output: pool.buffer(output)?, a: pool.buffer_from(a)?, b: pool.buffer_from(b)? })
    }
}

const VADD: u32 = 1 << 20;
const GEMM: u32 = 256;
const GEMM_TILED: u32 = 512;
const WORKGROUPS: u32 = 1 << 15;
const REDUCE: u32 = 1 << 22;
const REDUCE_GROUPS: u32 = 256;
const ALU_GROUPS: u32 = 256;
const ALU_STEPS: u32 = 2048;

const CASES: &[Case] = &[
    Case {
        name: "vadd",
        runs: RUNS,
        prepare: |bench| {
            let a = small_numbers(VADD as usize, 3);
            let b = small_numbers(VADD as usize, 5);
            let sums = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            Ok((bench.inputs(VADD as usize, &a, &b)?, sums))
        },
        launch: |bench, inputs| {
            let launch = bench.kernel.launch(&bench.queue).grid(VADD).block(256);
            launch.args((&inputs.output, &inputs.a, &inputs.b)).run()
        },
    },
    Case {
        name: "gemm_naive",
        runs: RUNS,
        prepare: |bench| gemm_inputs(bench, GEMM),
        launch: |bench, inputs| {
            let launch = bench.kernel.launch(&bench.queue).grid((GEMM, GEMM)).block((32, 8));
            launch.args((&inputs.output, &inputs.a, &inputs.b, GEMM)).run()
        },
    },
    Case {
        name: "gemm_tiled",
        runs: RUNS,
        prepare: |bench| gemm_inputs(bench, GEMM_TILED),
        launch: |bench, inputs| {
            let launch =
                bench.kernel.launch(&bench.queue).grid((GEMM_TILED / 64 * 256, GEMM_TILED / 64)).block(256);
            launch.args((&inputs.output, &inputs.a, &inputs.b, GEMM_TILED)).run()
        },
    },
    Case {
        name: "reduce",
        runs: RUNS,
        prepare: |bench| {
            let values = small_numbers(REDUCE as usize, 7);
            let mut sums = vec![0.0; REDUCE_GROUPS as usize];
            for (index, value) in values.iter().enumerate() {
                sums[index / 256 % REDUCE_GROUPS as usize] += value;
            }
            Ok((bench.inputs(sums.len(), &values, &[0.0])?, sums))
        },
        launch: |bench, inputs| {
            let launch = bench.kernel.launch(&bench.queue).grid(REDUCE_GROUPS * 256).block(256);
            launch.args((&inputs.output, &inputs.a, REDUCE, REDUCE_GROUPS)).run()
        },
    },
    Case {
        name: "alu",
        runs: RUNS,
        prepare: |bench| {
            let lanes: Vec<f32> = (0..32).map(alu).collect();
            let all = lanes.repeat(ALU_GROUPS as usize);
            Ok((bench.inputs(all.len(), &[0.0], &[0.0])?, all))
        },
        launch: |bench, inputs| {
            let launch = bench.kernel.launch(&bench.queue).grid(ALU_GROUPS * 32).block(32);
            launch.args((&inputs.output, ALU_STEPS)).run()
        },
    },
    // One instruction in one wave each: the time per wave instruction is the time per workgroup.
    Case {
        name: "workgroups",
        runs: RUNS,
        prepare: |bench| Ok((bench.inputs(1, &[0.0], &[0.0])?, Vec::new())),
        launch: |bench, _| bench.kernel.launch(&bench.queue).grid(WORKGROUPS * 32).block(32).run(),
    },
    // The time per wave instruction is that of a whole dispatch, from making its packet to seeing its signal.
    Case {
        name: "dispatch",
        runs: DISPATCHES,
        prepare: |bench| Ok((bench.inputs(1, &[0.0], &[0.0])?, Vec::new())),
        launch: |bench, _| bench.kernel.launch(&bench.queue).grid(32).block(32).run(),
    },
];

/// Whole numbers from -7 to 7: sums and products of them are exact whatever their order.
fn small_numbers(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * step + index / 64) % 15) as f32 - 7.0).collect()
}

fn gemm_inputs(bench: &Bench, n: u32) -> Prepared {
    let n = n as usize;
    let (a, b) = (small_numbers(n * n, 3), small_numbers(n * n, 5));
    let mut product = vec![0.0f32; n * n];
    for row in 0..n {
        for k in 0..n {
            let factor = a[row * n + k];
            for column in 0..n {
                product[row * n + column] += factor * b[k * n + column];
            }
        }
    }
    Ok((bench.inputs(n * n, &a, &b)?, product))
}

/// What one lane of `alu` computes; halving is exact, so fused and separate operations agree.
fn alu(lane: u16) -> f32 {
    let x = f32::from(lane);
    let mut y: [f32; 8] = std::array::from_fn(|index| x + index as f32);
    for _ in 0..ALU_STEPS {
        for index in 0..8 {
            y[index] = y[index] * 0.5 + y[(index + 1) % 8];
        }
    }
    y.iter().copied().reduce(|sum, value| sum + value).unwrap_or_default()
}

fn verify(kernel: &'static str, output: &Buffer<f32>, expected: &[f32]) -> Result<(), BenchError> {
    for (index, (actual, expected)) in output.to_vec().into_iter().zip(expected.iter().copied()).enumerate() {
        if actual.to_bits() != expected.to_bits() {
            return Err(BenchError::Wrong { kernel, index, actual, expected });
        }
    }
    Ok(())
}

fn machine() -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, name)| name)
        .to_owned();
    let vectors = if std::is_x86_feature_detected!("avx512f") {
        "AVX-512"
    } else if std::is_x86_feature_detected!("avx2") {
        "AVX2"
    } else {
        "portable"
    };
    Machine {
        processor,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        vectors,
        optimised: !cfg!(debug_assertions),
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} processors, {}", self.processor, self.processors, self.vectors)?;
        if !self.optimised {
            write!(f, " (debug build: these figures mean nothing)")?;
        }
        Ok(())
    }
}

/// Column titles of [`Measurement`]'s lines.
pub const HEADER: &str =
    "kernel       workers  wave instructions  median ms     min ms  ns/wave instr  worker ns   wave instr/s";

impl std::fmt::Display for Measurement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:<12} {:>7} {:>18} {:>10.3} {:>10.3} {:>14.2} {:>10.2} {:>12.1} M",
            self.name,
            self.workers,
            self.wave_instructions,
            self.median_ms,
            self.min_ms,
            self.ns_per_wave_instruction,
            self.worker_ns_per_wave_instruction,
            self.wave_instructions_per_second / 1e6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_run() {
        let mut times: Vec<Duration> = [5, 1, 9, 2, 3, 8, 4].map(Duration::from_millis).to_vec();
        let measurement = measurement("x", 2, 1000, &mut times);
        assert_eq!((measurement.median_ms, measurement.min_ms), (4.0, 1.0));
        assert_eq!(measurement.ns_per_wave_instruction, 4000.0);
        assert_eq!(measurement.wave_instructions_per_second, 250_000.0);
    }
}
