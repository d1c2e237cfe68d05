//! The suite on a hosted GPU.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_device::{CodeTimes, GpuConfig};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Buffer, Kernel, KernelArg, Queue, Runtime};
use belfry_runtime_hosted::{Doorbells, HostedTransport};

use super::Run;
use super::cases::{Arg, Case, Data};
use crate::hosted::HostedError;

/// A GPU to measure on.
pub(super) struct Bench {
    gpu: Arc<HostedGpu>,
    runtime: Runtime,
    doorbells: Doorbells,
}

/// A kernel, its buffers, and the queue to launch it on.
pub(super) struct Prepared<'a> {
    bench: &'a Bench,
    case: &'static Case,
    queue: Queue,
    kernel: Kernel,
    output: Buffer<f32>,
    args: Vec<KernelArg>,
}

impl Bench {
    pub(super) fn new(config: &GpuConfig) -> Result<Self, HostedError> {
        let gpu = HostedGpu::new(config.clone())?;
        let transport = HostedTransport::open(&gpu)?;
        let doorbells = transport.doorbells();
        let runtime = Runtime::with_transport(transport)?;
        Ok(Self { gpu, runtime, doorbells })
    }

    /// Returns the code object that has a case's kernel.
    pub(super) fn code(&self, case: &Case) -> anyhow::Result<&'static [u8]> {
        case.kernels.objects().on(self.runtime.gpu())
    }

    pub(super) fn prepare(
        &self,
        case: &'static Case,
        code: &[u8],
        data: &Data,
    ) -> Result<Prepared<'_>, belfry_runtime::Error> {
        let gpu = self.runtime.gpu();
        let kernel = gpu.load(code)?.kernel(case.kernel)?;
        let pool = gpu.vram();
        let input =
            |values: &[f32]| if values.is_empty() { pool.buffer(1) } else { pool.buffer_from(values) };
        let (a, b) = (input(&data.a)?, input(&data.b)?);
        let output = pool.buffer(data.expected.len().max(1))?;
        let args = case.args.iter().map(|arg| match arg {
            Arg::Output => (&output).into(),
            Arg::A => (&a).into(),
            Arg::B => (&b).into(),
            Arg::Number(number) => (*number).into(),
        });
        Ok(Prepared { bench: self, case, queue: gpu.queue()?, kernel, args: args.collect(), output })
    }
}

impl Prepared<'_> {
    /// Does one run: the launches one after the other, then a wait for the last.
    pub(super) fn run(&self) -> Result<Run, belfry_runtime::Error> {
        let single = self.case.is_single();
        let executed = || self.bench.gpu.device().stats().wave_instructions;
        let before = executed();
        let times = || if single { Default::default() } else { worker_times() };
        let (busy, waited) = times();
        let started = Instant::now();
        for _ in 1..self.case.repeats {
            let _goes_on = self.launch().submit()?;
        }
        self.launch().run()?;
        let seen = Instant::now();
        let after = times();
        let rung = self.bench.doorbells.last().filter(|_| single);
        Ok(Run {
            wall: seen - started,
            busy: after.0.saturating_sub(busy),
            waited: after.1.saturating_sub(waited),
            doorbell: rung.map(|rung| seen.saturating_duration_since(rung)),
            instructions: executed() - before,
        })
    }

    /// Takes the counts of compiled code since the last call, on a GPU whose code counts.
    pub(super) fn take_code_times(&self) -> CodeTimes {
        self.bench.gpu.device().take_code_times()
    }

    fn launch(&self) -> belfry_runtime::Launch<'_> {
        let ([x, y], [width, height]) = (self.case.grid, self.case.block);
        let launch = self.kernel.launch(&self.queue).grid((x, y)).block((width, height));
        launch.args(self.args.clone())
    }

    /// Returns the output of the last run.
    pub(super) fn output(&self) -> Vec<f32> {
        self.output.to_vec()
    }
}

/// Returns the processor time that the shader workers of this process have used, and the time they waited for a
/// processor.
fn worker_times() -> (Duration, Duration) {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Default::default() };
    let workers = tasks.flatten().map(|task| task.path()).filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("shader-"))
    });
    let mut times = (Duration::ZERO, Duration::ZERO);
    for task in workers {
        let schedstat = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
        let mut fields =
            schedstat.split(' ').map(|field| field.parse().map_or(Duration::ZERO, Duration::from_nanos));
        times.0 += fields.next().unwrap_or_default();
        times.1 += fields.next().unwrap_or_default();
    }
    times
}
