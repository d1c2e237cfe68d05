//! `belfry bench isa`: how fast wave instructions execute, dispatch and page tables included.

mod cases;
mod causes;
mod hosted;
mod lines;
mod machine;
mod matrices;
mod pocl;
pub mod programs;
pub mod sdma;
pub mod sharing;
pub mod table;
mod targets;
pub mod vmm;

use std::time::Duration;

use belfry_device::{GpuConfig, KeptCounts, Tier};
use serde::Serialize;

use crate::hosted::HostedError;
use cases::Case;
pub use causes::{Called, Spent};
use hosted::Bench;
pub use lines::HEADER;
pub use machine::Scaling;
pub use pocl::PoclError;
use pocl::Processors;
pub use targets::{Figure, Verdict};

/// Default number of counted runs of each kernel; one run before them is not counted.
pub const RUNS: usize = 7;
/// Dispatches of one empty workgroup per run of the other kernels.
const DISPATCHES: usize = 285;

/// Choices of a measurement.
#[derive(Debug, Clone)]
pub struct Options {
    /// The GPU, but for its workers.
    pub gpu: GpuConfig,
    /// Numbers of worker threads.
    pub workers: Vec<usize>,
    /// Names of the kernels; none: all.
    pub kernels: Vec<String>,
    /// Runs of each kernel that count.
    pub runs: usize,
    /// True if the same sources also run on as many processors, through PoCL.
    pub vs_cpu: bool,
}

/// Results of the whole suite; `--json` prints this.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// The processor and how the engine uses it.
    pub machine: Machine,
    /// Speedup of more threads without the engine; one entry per number of workers but the first.
    pub scaling: Vec<Scaling>,
    /// One entry per kernel and number of workers.
    pub kernels: Vec<Measurement>,
    /// Every figure that has a target, and by how much it misses it.
    pub targets: Vec<Verdict>,
    /// Counts of kept compiled code, if a folder keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_code: Option<KeptCounts>,
}

impl Results {
    fn new(machine: Machine, scaling: Vec<Scaling>, kernels: Vec<Measurement>) -> Results {
        let targets = kernels.iter().flat_map(|row| targets::judge(row, &scaling)).collect();
        Results { machine, scaling, kernels, targets, kept_code: None }
    }

    /// Figures that miss their targets.
    pub fn missed(&self) -> impl Iterator<Item = &Verdict> {
        self.targets.iter().filter(|verdict| verdict.missed_by_percent > 0.0)
    }
}

/// Machine of the measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Logical processors.
    pub processors: usize,
    /// The widest vector instructions the processor has, of those the engine knows.
    pub vectors: &'static str,
    /// True if the compiler optimised; figures of a debug build say nothing.
    pub optimised: bool,
    /// Load average over the last minute before and after, which counts other programs too. Negative if the system
    /// does not tell.
    pub load: [f64; 2],
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
    /// Median processor time of the worker threads per wave instruction, in nanoseconds. Unlike the other times, it
    /// does not count the time that other programs take from the processors. 0 if the system does not tell.
    pub worker_ns_per_wave_instruction: f64,
    /// Median processor time of the workers per wave instruction with interpreted code only, in runs that alternate
    /// with the others.
    pub interpreted_worker_ns: f64,
    /// Wave instructions per second at the median.
    pub wave_instructions_per_second: f64,
    /// Runs that count.
    pub runs: usize,
    /// Speed as a multiple of that of the first measured number of workers: the median over pairs of runs that follow
    /// each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// Of single dispatches: median time from ringing the doorbell to seeing the signal, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doorbell_to_signal_us: Option<f64>,
    /// [`speedup`](Self::speedup) as it would be with a processor for each worker: from the workers' processor time, and
    /// the time they wait for a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_by_worker_time: Option<f64>,
    /// Division of its time, on one worker; `None` for single dispatches and if no code is compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
    /// The same source on as many processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vs_cpu: Option<VsCpu>,
    /// For kernels of 16-bit matrices, on one worker: time with exact sums divided by time with fast ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_matrices: Option<f64>,
}

/// A kernel on the processor itself, and how the GPU compares.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct VsCpu {
    /// Median time of a run in milliseconds.
    pub median_ms: f64,
    /// Fastest run in milliseconds.
    pub min_ms: f64,
    /// Time of the GPU divided by that of the processor: the median over pairs of runs that follow each other.
    pub ratio: f64,
}

/// Errors of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The suite's kernels are not compiled for the GPU.
    #[error(transparent)]
    Code(#[from] anyhow::Error),
    /// The hosted GPU could not be started.
    #[error(transparent)]
    Hosted(#[from] HostedError),
    /// The processor could not be measured.
    #[error(transparent)]
    Pocl(#[from] PoclError),
    /// There is no such kernel.
    #[error("there is no kernel {0}; there are: {names}", names = names())]
    Unknown(String),
    /// A kernel could not be run.
    #[error("{kernel}: {source}")]
    Kernel {
        /// The kernel.
        kernel: &'static str,
        /// Why.
        source: belfry_runtime::Error,
    },
    /// A kernel computed a wrong result.
    #[error("{kernel} on {device}: element {index} is {actual}, should be {expected}")]
    Wrong {
        /// The kernel.
        kernel: &'static str,
        /// The GPU or the processor.
        device: &'static str,
        /// Index of the wrong element.
        index: usize,
        /// Computed value.
        actual: f32,
        /// Expected value.
        expected: f32,
    },
}

fn names() -> String {
    cases::all().map(|case| case.name).collect::<Vec<_>>().join(", ")
}

/// One run's times.
#[derive(Debug, Clone, Copy)]
struct Run {
    wall: Duration,
    /// Processor time of the workers, all together.
    busy: Duration,
    /// Time the workers have waited for a processor.
    waited: Duration,
    /// Time from the last doorbell on.
    doorbell: Option<Duration>,
    instructions: u64,
}

/// Runs every kernel of the suite with each number of workers; runs with different numbers alternate.
///
/// # Errors
///
/// A kernel that is not known, a device that cannot be made, or a kernel that fails.
pub fn isa(options: &Options, mut measured: impl FnMut(&Measurement)) -> Result<Results, BenchError> {
    if let Some(unknown) = options.kernels.iter().find(|name| !cases::all().any(|case| case.name == **name)) {
        return Err(BenchError::Unknown(unknown.clone()));
    }
    let before = load();
    let scaling = machine::scaling(&options.workers, options.runs);
    let mut results = Vec::new();
    let mut benches = Vec::new();
    let mut interpreting = Vec::new();
    let mut processors = Vec::new();
    for &workers in &options.workers {
        let gpu = GpuConfig { workers, ..options.gpu.clone() };
        benches.push(Bench::new(&gpu)?);
        interpreting.push(Bench::new(&GpuConfig { tier: Tier::Zero, ..gpu })?);
        if options.vs_cpu {
            processors.push(Processors::new(workers)?);
        }
    }
    let counting =
        Bench::new(&GpuConfig { workers: 1, tier: Tier::One, counts_code: true, ..options.gpu.clone() })?;
    let wanted =
        |case: &&Case| options.kernels.is_empty() || options.kernels.iter().any(|name| name == case.name);
    for case in cases::all().filter(wanted) {
        let data = (case.data)();
        let failed = |source| BenchError::Kernel { kernel: case.name, source };
        let (mut prepared, mut interpreted) = (Vec::new(), Vec::new());
        for (benches, prepared) in [(&benches, &mut prepared), (&interpreting, &mut interpreted)] {
            for bench in benches {
                let code = bench.code(case)?;
                prepared.push(bench.prepare(case, code, &data).map_err(failed)?);
            }
        }
        // A program that launches kernels finds the caches as its last launch left them, not as another program did.
        let in_a_row = if case.is_single() { DISPATCHES } else { 1 };
        let mut runs = vec![Vec::new(); benches.len()];
        let mut interpreted_runs = runs.clone();
        let mut cpu: Vec<_> =
            processors.iter_mut().map(|cpu| cpu.prepare(case, &data)).collect::<Result<_, _>>()?;
        let mut cpu_runs = vec![Vec::new(); cpu.len()];
        for run in 0..=options.runs {
            for (at, prepared) in prepared.iter().enumerate() {
                let times = many(in_a_row, || prepared.run()).map_err(failed)?;
                let interpreted = many(in_a_row, || interpreted[at].run()).map_err(failed)?;
                let cpu_times = cpu.get_mut(at).map(|cpu| many(in_a_row, || cpu.run())).transpose()?;
                if run > 0 {
                    runs[at].extend(times);
                    interpreted_runs[at].extend(interpreted);
                    cpu_runs.get_mut(at).into_iter().for_each(|runs| runs.extend(cpu_times.iter().flatten()));
                }
            }
        }
        let counts = !case.is_single() && options.gpu.tier != Tier::Zero;
        let mut spent = None;
        if counts {
            let prepared = counting.prepare(case, counting.code(case)?, &data).map_err(failed)?;
            spent = causes::measure(&prepared).map_err(failed)?;
        }
        let exact = if case.has_matrices() { Some(matrices::ratio_of(options, case, &data)?) } else { None };
        for (at, (prepared, &workers)) in prepared.iter().zip(&options.workers).enumerate() {
            verify(case, "the GPU", &prepared.output(), &data.expected)?;
            if let Some(cpu) = cpu.get_mut(at) {
                verify(case, "the processor", &cpu.output()?, &data.expected)?;
            }
            let mut measurement = measurement(case.name, workers, &runs[at]);
            measurement.interpreted_worker_ns = worker_ns(&interpreted_runs[at]);
            if at > 0 && !case.is_single() {
                measurement.speedup = Some(ratio(&runs[0], &runs[at], |run| run.wall));
                measurement.speedup_by_worker_time = undisturbed(&runs[0], &runs[at], workers);
            }
            measurement.spent.clone_from(&spent);
            measurement.exact_matrices = exact;
            measurement.vs_cpu = cpu_runs.get(at).map(|cpu| vs_cpu(&runs[at], cpu));
            measured(&measurement);
            results.push(measurement);
        }
    }
    // By number of workers, then in the order of the suite.
    let place = |workers| options.workers.iter().position(|&other| other == workers);
    results.sort_by_key(|measurement| place(measurement.workers));
    let kept_code = options.gpu.kept_code.as_ref().map(|kept| kept.counts());
    Ok(Results { kept_code, ..Results::new(machine([before, load()]), scaling, results) })
}

fn many<T, E>(count: usize, run: impl FnMut() -> Result<T, E>) -> Result<Vec<T>, E> {
    std::iter::repeat_with(run).take(count).collect()
}

fn measurement(name: &'static str, workers: usize, runs: &[Run]) -> Measurement {
    let wall = runs.iter().map(|run| run.wall.as_secs_f64());
    let wave_instructions = runs.last().map_or(0, |run| run.instructions);
    let count = wave_instructions.max(1) as f64;
    let fastest = wall.clone().fold(f64::INFINITY, f64::min);
    let typical = median(wall.collect());
    let doorbells: Vec<f64> =
        runs.iter().filter_map(|run| run.doorbell).map(|time| time.as_secs_f64() * 1e6).collect();
    Measurement {
        name,
        workers,
        wave_instructions,
        median_ms: round(typical * 1e6) / 1e3,
        min_ms: round(fastest * 1e6) / 1e3,
        ns_per_wave_instruction: round(typical * 1e9 / count),
        worker_ns_per_wave_instruction: worker_ns(runs),
        interpreted_worker_ns: 0.0,
        wave_instructions_per_second: (count / typical).round(),
        runs: runs.len(),
        speedup: None,
        speedup_by_worker_time: None,
        spent: None,
        vs_cpu: None,
        exact_matrices: None,
        doorbell_to_signal_us: (!doorbells.is_empty()).then(|| round(median(doorbells))),
    }
}

/// Returns the processor time of the workers per wave instruction, in nanoseconds.
fn worker_ns(runs: &[Run]) -> f64 {
    let instructions = runs.last().map_or(0, |run| run.instructions).max(1) as f64;
    round(median(runs.iter().map(|run| run.busy.as_secs_f64()).collect()) * 1e9 / instructions)
}

/// Returns the median of the ratios of runs that followed each other.
fn ratio(first: &[Run], second: &[Run], time: impl Fn(&Run) -> Duration) -> f64 {
    let ratios = first.iter().zip(second).map(|(a, b)| time(a).as_secs_f64() / time(b).as_secs_f64());
    round(median(ratios.collect()))
}

/// Returns the speed of the second runs as a multiple of the first, as if no worker had to wait for a processor;
/// `None` if the system does not tell. A worker without work lowers it, as does a worker that takes longer for its
/// work.
fn undisturbed(first: &[Run], second: &[Run], workers: usize) -> Option<f64> {
    let seconds = |run: &Run| {
        let capacity = workers as f64 * run.wall.as_secs_f64();
        let used = (run.busy + run.waited).as_secs_f64() / capacity;
        (!run.busy.is_zero()).then(|| workers as f64 * used.min(1.0) / run.busy.as_secs_f64())
    };
    let ratios = first.iter().zip(second).map(|(a, b)| Some(a.busy.as_secs_f64() * seconds(b)?));
    Some(round(median(ratios.collect::<Option<_>>()?)))
}

fn vs_cpu(runs: &[Run], cpu: &[Duration]) -> VsCpu {
    let milliseconds: Vec<f64> = cpu.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    let ratios = runs.iter().zip(cpu).map(|(run, cpu)| run.wall.as_secs_f64() / cpu.as_secs_f64());
    VsCpu {
        ratio: round(median(ratios.collect())),
        min_ms: round(milliseconds.iter().copied().fold(f64::INFINITY, f64::min) * 1e3) / 1e3,
        median_ms: round(median(milliseconds) * 1e3) / 1e3,
    }
}

/// Returns the middle value, or the upper one of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn verify(
    case: &'static Case,
    device: &'static str,
    output: &[f32],
    expected: &[f32],
) -> Result<(), BenchError> {
    for (index, (&actual, &expected)) in output.iter().zip(expected).enumerate() {
        let close = (actual - expected).abs() <= expected.abs() * case.tolerance;
        if actual.to_bits() != expected.to_bits() && !(close && case.tolerance > 0.0) {
            return Err(BenchError::Wrong { kernel: case.name, device, index, actual, expected });
        }
    }
    Ok(())
}

/// Returns the load average over the last minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(-1.0)
}

/// Name of the vector instructions of this processor that compiled code is made for.
pub(crate) fn vectors() -> &'static str {
    if std::is_x86_feature_detected!("avx512f") {
        "AVX-512"
    } else if std::is_x86_feature_detected!("avx2") {
        "AVX2"
    } else {
        "portable"
    }
}

fn machine(load: [f64; 2]) -> Machine {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, name)| name)
        .to_owned();
    let vectors = vectors();
    Machine {
        processor,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        vectors,
        optimised: !cfg!(debug_assertions),
        load,
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} processors, {}", self.processor, self.processors, self.vectors)?;
        write!(f, ", load {} to {}", self.load[0], self.load[1])?;
        if !self.optimised {
            write!(f, " (debug build: these figures mean nothing)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_run() {
        let runs = [5, 1, 9, 2, 3, 8, 4].map(|milliseconds| Run {
            wall: Duration::from_millis(milliseconds),
            busy: Duration::from_millis(2 * milliseconds),
            waited: Duration::ZERO,
            doorbell: Some(Duration::from_micros(milliseconds)),
            instructions: 1000,
        });
        let measurement = measurement("x", 2, &runs);
        assert_eq!((measurement.median_ms, measurement.min_ms), (4.0, 1.0));
        assert_eq!(measurement.ns_per_wave_instruction, 4000.0);
        assert_eq!(measurement.worker_ns_per_wave_instruction, 8000.0);
        assert_eq!(measurement.wave_instructions_per_second, 250_000.0);
        assert_eq!(measurement.doorbell_to_signal_us, Some(4.0));
    }

    #[test]
    fn speedup_counts_idle_and_slower_workers_but_no_waiting_for_processors() {
        let run = |wall, busy, waited| Run {
            wall: Duration::from_millis(wall),
            busy: Duration::from_millis(busy),
            waited: Duration::from_millis(waited),
            doorbell: None,
            instructions: 1,
        };
        let one = [run(100, 100, 0)];
        for (second, speedup) in [
            (run(50, 100, 0), 2.0),
            // Both waited half of the time.
            (run(100, 100, 100), 2.0),
            // One had nothing to do.
            (run(100, 100, 0), 1.0),
            // Each took twice as long.
            (run(100, 200, 0), 1.0),
        ] {
            assert_eq!(undisturbed(&one, &[second], 2), Some(speedup), "{second:?}");
        }
        assert_eq!(undisturbed(&one, &[run(50, 0, 0)], 2), None);
    }

    #[test]
    fn unknown_kernels_are_named_before_anything_runs() {
        let kernels = vec!["vsub".to_owned()];
        let gpu = GpuConfig::default();
        let options = Options { gpu, workers: vec![1], kernels, runs: 1, vs_cpu: false };
        let error = isa(&options, |_| ()).unwrap_err();
        assert!(error.to_string().starts_with("there is no kernel vsub; there are: vadd, "), "{error}");
    }
}
