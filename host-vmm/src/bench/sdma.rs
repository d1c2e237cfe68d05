//! `belfry bench sdma`: the speed at which the SDMA engines copy and fill, beside that of the processor with as many
//! bytes.
//!
//! Each run of a copy is followed by one of the processor, so that both meet the same machine; the ratio is that of the
//! medians. How the figures come about: docs/performance.md, "The copy engines".

use std::hint::black_box;
use std::time::Instant;

use belfry_device::GpuConfig;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Buffer, CopyQueue, Pool, Runtime};
use belfry_runtime_hosted::HostedTransport;
use serde::Serialize;

use super::{Machine, load, machine};

/// Everything that was measured; `--json` prints this.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Machine of the measurement.
    pub machine: Machine,
    /// Bytes of each buffer.
    pub bytes: usize,
    /// Runs of each row that count.
    pub runs: usize,
    /// The rows.
    pub rows: Vec<Row>,
}

/// One kind of work.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the work.
    pub name: &'static str,
    /// Bytes per nanosecond of an engine, from the doorbell to the wait's end: of the median run.
    pub engine: f64,
    /// Bytes per nanosecond of `memcpy` or `memset` in one thread, in the median run.
    pub processor: f64,
    /// The first divided by the second.
    pub ratio: f64,
}

impl std::fmt::Display for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:<14} {:>11} {:>15} {:>7}", "", "engine GB/s", "processor GB/s", "ratio")?;
        for Row { name, engine, processor, ratio } in &self.rows {
            writeln!(f, "{name:<14} {engine:>11.2} {processor:>15.2} {ratio:>7.2}")?;
        }
        write!(f, "{} MiB, median of {} runs; {}", self.bytes >> 20, self.runs, self.machine)
    }
}

/// Measures with buffers of `bytes` bytes; VRAM holds two of them.
///
/// # Errors
///
/// A GPU that cannot be made or has no room, and an engine that stops.
pub fn sdma(gpu: GpuConfig, bytes: usize, runs: usize) -> anyhow::Result<Results> {
    let before = load();
    let config = GpuConfig { vram_size: (4 * bytes as u64).next_power_of_two().max(gpu.vram_size), ..gpu };
    let gpu = HostedGpu::new(config)?;
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu)?)?;
    let gpu = runtime.gpu();
    let data = vec![0x5a5a_1234u32; bytes / 4];
    let mut bench = Bench { queue: gpu.copy_queue()?, source: data.clone(), target: data, runs };
    let buffer = |pool: Pool| pool.buffer_from(&bench.source);
    let (vram, gtt) = ([buffer(gpu.vram())?, buffer(gpu.vram())?], [buffer(gpu.gtt())?, buffer(gpu.gtt())?]);
    let rows = vec![
        bench.copy("GTT to VRAM", &gtt[0], &vram[0])?,
        bench.copy("VRAM to GTT", &vram[0], &gtt[0])?,
        bench.copy("VRAM to VRAM", &vram[0], &vram[1])?,
        bench.copy("GTT to GTT", &gtt[0], &gtt[1])?,
        bench.fill("fill VRAM", &vram[0])?,
    ];
    Ok(Results { machine: machine([before, load()]), bytes, runs, rows })
}

struct Bench {
    queue: CopyQueue,
    source: Vec<u32>,
    target: Vec<u32>,
    runs: usize,
}

impl Bench {
    fn copy(&mut self, name: &'static str, from: &Buffer<u32>, to: &Buffer<u32>) -> anyhow::Result<Row> {
        self.row(
            name,
            |bench| Ok(bench.queue.copy(from, to)?),
            |bench| bench.target.copy_from_slice(black_box(&bench.source)),
        )
    }

    fn fill(&mut self, name: &'static str, to: &Buffer<u32>) -> anyhow::Result<Row> {
        self.row(name, |bench| Ok(bench.queue.fill(to, 7)?), |bench| bench.target.fill(black_box(0)))
    }

    fn row(
        &mut self,
        name: &'static str,
        engine: impl Fn(&mut Self) -> anyhow::Result<()>,
        processor: impl Fn(&mut Self),
    ) -> anyhow::Result<Row> {
        let (mut of_engine, mut of_processor) = (Vec::new(), Vec::new());
        // The first of each is not counted.
        for _ in 0..=self.runs {
            let started = Instant::now();
            engine(self)?;
            self.queue.finish(None)?;
            of_engine.push(started.elapsed().as_nanos() as f64);
            let started = Instant::now();
            processor(self);
            black_box(&self.target);
            of_processor.push(started.elapsed().as_nanos() as f64);
        }
        let bytes = size_of_val(&*self.source) as f64;
        let speed = |times: &mut Vec<f64>| {
            let counted = &mut times[1..];
            counted.sort_by(f64::total_cmp);
            bytes / counted[counted.len() / 2]
        };
        let (engine, processor) = (speed(&mut of_engine), speed(&mut of_processor));
        Ok(Row { name, engine, processor, ratio: engine / processor })
    }
}
