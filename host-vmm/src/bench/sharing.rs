//! `belfry bench sharing`: how evenly processes and their queues share the GPU.
//!
//! Every queue always has dispatches waiting, all of equal work. The figure is the number of dispatches of each queue
//! that end within the time; each must have written the right result.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use belfry_device::GpuConfig;
use belfry_examples::kernels;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Gpu, Runtime};
use belfry_runtime_hosted::HostedTransport;
use serde::Serialize;

use super::cases::alu;
use super::{Machine, load, machine};

/// Workgroups of a dispatch, of one wave each.
const GROUPS: u32 = 64;
const WAVE: u32 = 32;
/// Rounds of a wave's loop: a dispatch is about a million wave instructions.
const STEPS: u32 = 1000;
/// Dispatches that wait in each queue.
const DEPTH: usize = 4;

/// Everything that was measured; `--json` prints this.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Machine of the measurement.
    pub machine: Machine,
    /// Length of the measurement, in seconds.
    pub seconds: f64,
    /// Dispatches that ended, of each queue of each process.
    pub processes: Vec<Vec<u64>>,
}

impl Results {
    fn of_processes(&self) -> Vec<u64> {
        self.processes.iter().map(|queues| queues.iter().sum()).collect()
    }
}

/// Returns how far the smallest share is below the largest, in percent.
fn unevenness(shares: &[u64]) -> f64 {
    let (Some(&least), Some(&most)) = (shares.iter().min(), shares.iter().max()) else { return 0.0 };
    if most == 0 { 0.0 } else { 100.0 * (most - least) as f64 / most as f64 }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_processes = self.of_processes();
        for (number, (queues, all)) in self.processes.iter().zip(&of_processes).enumerate() {
            let uneven = unevenness(queues);
            writeln!(f, "process {number}: {all} dispatches; its queues {queues:?}: {uneven:.0} % apart")?;
        }
        let queues: Vec<u64> = self.processes.concat();
        let total: u64 = queues.iter().sum();
        writeln!(
            f,
            "processes are {:.0} % apart, queues {:.0} %; {:.0} dispatches per second in all",
            unevenness(&of_processes),
            unevenness(&queues),
            total as f64 / self.seconds
        )?;
        write!(f, "{:.1} s; {}", self.seconds, self.machine)
    }
}

/// Has `processes` with `queues` each share a GPU for a while.
///
/// # Errors
///
/// A GPU that cannot be made or has no room, a queue that stops, and results that are wrong.
pub fn sharing(gpu: GpuConfig, processes: u32, queues: u32, time: Duration) -> anyhow::Result<Results> {
    let before = load();
    let gpu = HostedGpu::new(gpu)?;
    let runtimes = (0..processes)
        .map(|number| {
            let transport = HostedTransport::open(&gpu).with_context(|| format!("process {number}"))?;
            Ok(Runtime::with_transport(transport)?)
        })
        .collect::<anyhow::Result<Vec<Runtime>>>()?;
    // All begin together, once every queue is there, and one more thread takes the time.
    let barrier = Barrier::new((processes * queues + 1) as usize);
    let (counts, elapsed) = thread::scope(|scope| {
        let users: Vec<Vec<_>> = runtimes
            .iter()
            .map(|runtime| {
                (0..queues).map(|_| scope.spawn(|| use_queue(runtime.gpu(), &barrier, time))).collect()
            })
            .collect();
        barrier.wait();
        let started = Instant::now();
        let counts: anyhow::Result<Vec<Vec<u64>>> = users
            .into_iter()
            .map(|users| {
                let join = |user: thread::ScopedJoinHandle<'_, _>| {
                    user.join().map_err(|_| anyhow!("a thread panicked"))?
                };
                users.into_iter().map(join).collect()
            })
            .collect();
        (counts, started.elapsed())
    });
    let seconds = time.min(elapsed).as_secs_f64();
    Ok(Results { machine: machine([before, load()]), seconds, processes: counts? })
}

/// Keeps one queue busy; returns the number of dispatches that ended in time.
fn use_queue(gpu: &Gpu, barrier: &Barrier, time: Duration) -> anyhow::Result<u64> {
    let prepared = (|| {
        let kernel = gpu.load(kernels::BENCH.on(gpu)?)?.kernel("alu")?;
        let output = gpu.vram().buffer::<f32>((GROUPS * WAVE) as usize)?;
        anyhow::Ok((kernel, output, gpu.queue()?))
    })();
    // The other threads wait at the barrier, so this one goes there even if it has failed.
    barrier.wait();
    let (kernel, output, queue) = prepared?;
    let submit = || kernel.launch(&queue).grid(GROUPS * WAVE).block(WAVE).args((&output, STEPS)).submit();
    let end = Instant::now() + time;
    let mut waiting = (0..DEPTH).map(|_| submit()).collect::<Result<VecDeque<_>, _>>()?;
    let mut ended = 0;
    while let Some(first) = waiting.pop_front() {
        first.wait()?;
        if Instant::now() < end {
            ended += 1;
            waiting.push_back(submit()?);
        }
    }
    let expected: Vec<f32> = (0..WAVE as u16).map(|lane| alu(lane, STEPS)).collect();
    let found = output.to_vec();
    ensure!(found.chunks(WAVE as usize).all(|wave| wave == expected), "a dispatch wrote {:?}", &found[..8]);
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_compared_with_the_largest() {
        assert_eq!(unevenness(&[80, 100, 90]), 20.0);
        assert_eq!(unevenness(&[5, 5]), 0.0);
        assert_eq!(unevenness(&[0, 0]), 0.0);
        assert_eq!(unevenness(&[]), 0.0);
    }

    #[test]
    fn every_queue_of_every_process_gets_on_and_is_right() {
        let results = sharing(GpuConfig::default(), 2, 3, Duration::from_millis(300)).unwrap();
        assert_eq!(results.processes.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        assert!(results.processes.concat().iter().all(|&ended| ended > 0), "{results}");
    }
}
