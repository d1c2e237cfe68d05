//! `belfry bench vmm`: the cost of leaving the guest, the time that a doorbell takes to each of its stations, and
//! that of a boot.
//!
//! docs/performance.md, "The machine", explains how each figure is measured.

use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_image::{Cache, CacheError, Progress};
use belfry_machine::measure::{self, BATCH, MAX_SAMPLES, Recording};
use belfry_machine::{DoorbellMode, KvmError};
use serde::Serialize;

use super::{Machine, load, machine};
use crate::own_machine;
use crate::run::{BootPhases, Mode, RunError, RunOptions, run};

/// Time limit of one mode.
const LIMIT: Duration = Duration::from_secs(300);
/// Least ratio of the times of equal instructions in ring 0 and in ring 3 that shows that ring 0 is emulated.
const EMULATED: f64 = 20.0;

/// Everything that was measured; `--json` prints this. Times are in nanoseconds unless their name says otherwise.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Machine of the measurement.
    pub machine: Host,
    /// Samples of each figure that were asked for.
    pub samples: u64,
    /// Leaving the guest and coming back.
    pub exit: Exits,
    /// Doorbells, by the way they travel.
    pub doorbell: Doorbells,
    /// Booting.
    pub boot: Boot,
}

/// The machine it was measured on.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Its processors.
    #[serde(flatten)]
    pub machine: Machine,
    /// Way in which the guest's kernel code runs: `native`, or `emulated` if KVM has no hardware under it.
    pub ring0: &'static str,
    /// Frequency of the counter all times are taken from, in MHz.
    pub tsc_mhz: f64,
}

/// A set of samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// The shortest.
    pub min: f64,
    /// The middle one.
    pub median: f64,
    /// Smallest sample that 99 of 100 do not exceed.
    pub p99: f64,
    /// Number of samples.
    pub samples: usize,
}

/// Round trips from a program in the guest to the host and back.
#[derive(Debug, Clone, Serialize)]
pub struct Exits {
    /// A write to a port, to this process.
    pub port_write_ns: Summary,
    /// A write to a register, to this process.
    pub mmio_write_ns: Summary,
    /// A read of a register, from this process.
    pub mmio_read_ns: Summary,
    /// A write that only has KVM signal an eventfd: a doorbell in mode `ioeventfd`.
    pub ioeventfd_ns: Summary,
}

/// Doorbells.
#[derive(Debug, Clone, Serialize)]
pub struct Doorbells {
    /// Each write leaves the guest.
    pub trapped: Doorbell,
    /// Each write has KVM signal an eventfd.
    pub ioeventfd: Doorbell,
    /// Writes are stores to memory while the queue has work.
    pub adaptive: Doorbell,
    /// A store to the guest's memory: the samples of all three runs together.
    pub plain_store_ns: Summary,
}

/// One way of doorbells.
#[derive(Debug, Clone, Serialize)]
pub struct Doorbell {
    /// Time of one ring for the program while the queue has work: one of a row of stores.
    pub ring_ns: Summary,
    /// Time of one store to plain memory, of an equal row right after it.
    pub plain_store_ns: Summary,
    /// From the store until the command processor notes it.
    pub to_cp_ns: Summary,
    /// From the store until the program sees the completion signal of a dispatch of one wave.
    pub to_signal_ns: Summary,
    /// From the store to the first instructions of the interrupt handler of such a dispatch.
    pub to_isr_ns: Summary,
    /// Doorbells of `to_signal_ns` that no record shows as seen before their signal.
    pub unseen: usize,
}

/// Booting, in belfry's own machine.
#[derive(Debug, Clone, Serialize)]
pub struct Boot {
    /// The bare-metal guest, with trapped doorbells.
    pub bare_metal: BootPhases,
    /// Debian's kernel with the driver, and vector-add.
    pub debian: Option<BootPhases>,
    /// Reason for having no times of Debian.
    pub why_no_debian: Option<String>,
}

/// Errors of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum VmmBenchError {
    /// The number of samples.
    #[error("{0} samples: must be 1 to {MAX_SAMPLES}")]
    Samples(u64),
    /// A machine could not be run.
    #[error("doorbells {mode:?}: {source}")]
    Machine {
        /// Doorbell mode of the machine.
        mode: DoorbellMode,
        /// Why.
        source: KvmError,
    },
    /// The cache directory.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The measuring guest could not be built.
    #[error(transparent)]
    Build(#[from] belfry_image::bare_metal::BareMetalError),
    /// The Debian guest does not boot, or its program fails.
    #[error("the Debian guest: {0}")]
    Debian(String),
    /// The guest took no samples of something.
    #[error("the guest measured no {0}")]
    Missing(&'static str),
}

/// Runs the measuring guest once for each way of doorbells, and boots the Debian guest if that makes sense.
///
/// # Errors
///
/// A number of samples that is out of range, a guest that is missing, a machine that fails, or samples that
/// are missing.
pub fn vmm(samples: u64, progress: &Progress) -> Result<Results, VmmBenchError> {
    if !(1..=MAX_SAMPLES).contains(&samples) {
        return Err(VmmBenchError::Samples(samples));
    }
    let before = load();
    let kernel = belfry_image::bare_metal::obtain(&Cache::open()?, &belfry_embedded::PARTS)?;
    let record = |mode| -> Result<Recording, VmmBenchError> {
        let step = progress.spinner(&format!("measuring, doorbells {mode:?}"));
        let recording = measure::run(&kernel, &GpuConfig::default(), mode, samples, LIMIT)
            .map_err(|source| VmmBenchError::Machine { mode, source })?;
        step.done("done");
        Ok(recording)
    };
    let trapped = record(DoorbellMode::Trapped)?;
    let ioeventfd = record(DoorbellMode::Ioeventfd)?;
    let adaptive = record(DoorbellMode::Adaptive)?;
    let plain =
        [&trapped, &ioeventfd, &adaptive].into_iter().map(|recording| stores(recording, "plain_store"));
    let plain: Vec<_> = plain.collect::<Result<_, _>>()?;
    Ok(Results {
        machine: host(&trapped, [before, load()])?,
        samples,
        exit: exits(&trapped, &ioeventfd)?,
        doorbell: Doorbells {
            trapped: doorbell(&trapped)?,
            ioeventfd: doorbell(&ioeventfd)?,
            adaptive: doorbell(&adaptive)?,
            plain_store_ns: summary("plain_store", plain.concat())?,
        },
        boot: boot(&trapped, progress)?,
    })
}

/// Returns the series of a name.
fn series<'a>(recording: &'a Recording, name: &'static str) -> Result<&'a [Vec<u64>], VmmBenchError> {
    recording.series.get(name).map(Vec::as_slice).ok_or(VmmBenchError::Missing(name))
}

/// Returns the ticks of a series with one word for each sample.
fn times(recording: &Recording, name: &'static str) -> Result<Vec<u64>, VmmBenchError> {
    Ok(series(recording, name)?.iter().filter_map(|sample| sample.first().copied()).collect())
}

fn summary(name: &'static str, mut values: Vec<f64>) -> Result<Summary, VmmBenchError> {
    values.sort_by(f64::total_cmp);
    let (Some(&min), Some(&median)) = (values.first(), values.get(values.len() / 2)) else {
        return Err(VmmBenchError::Missing(name));
    };
    // The smallest value that 99 % do not exceed.
    let p99 = values[(values.len() * 99).div_ceil(100).clamp(1, values.len()) - 1];
    let [min, median, p99] = [min, median, p99].map(|value| (value * 1e3).round() / 1e3);
    Ok(Summary { min, median, p99, samples: values.len() })
}

/// Returns the time of reading the counter, in ticks: it is part of every difference of two readings.
fn overhead(recording: &Recording) -> Result<f64, VmmBenchError> {
    let timer = times(recording, "timer")?;
    Ok(summary("timer", timer.into_iter().map(|ticks| ticks as f64).collect())?.median)
}

/// Summarises the nanoseconds of each sample of one operation.
fn single(recording: &Recording, name: &'static str) -> Result<Summary, VmmBenchError> {
    let overhead = overhead(recording)?;
    let nanoseconds = |ticks: u64| (ticks as f64 - overhead).max(0.0) / recording.ticks;
    summary(name, times(recording, name)?.into_iter().map(nanoseconds).collect())
}

/// Returns the nanoseconds of one store, for each row of them.
fn stores(recording: &Recording, name: &'static str) -> Result<Vec<f64>, VmmBenchError> {
    let overhead = overhead(recording)?;
    let nanoseconds = |ticks: u64| (ticks as f64 - overhead).max(0.0) / f64::from(BATCH) / recording.ticks;
    Ok(times(recording, name)?.into_iter().map(nanoseconds).collect())
}

fn exits(trapped: &Recording, ioeventfd: &Recording) -> Result<Exits, VmmBenchError> {
    Ok(Exits {
        port_write_ns: single(trapped, "port_write")?,
        mmio_write_ns: single(trapped, "mmio_write")?,
        mmio_read_ns: single(trapped, "mmio_read")?,
        ioeventfd_ns: summary("ring", stores(ioeventfd, "ring")?)?,
    })
}

/// Summarises the nanoseconds between the two time stamps of each sample.
fn between(recording: &Recording, name: &'static str) -> Result<Summary, VmmBenchError> {
    let nanoseconds = |sample: &Vec<u64>| match sample[..] {
        [from, to] => Some(to.saturating_sub(from) as f64 / recording.ticks),
        _ => None,
    };
    summary(name, series(recording, name)?.iter().filter_map(nanoseconds).collect())
}

fn doorbell(recording: &Recording) -> Result<Doorbell, VmmBenchError> {
    let (to_cp, unseen) = to_cp(recording)?;
    Ok(Doorbell {
        ring_ns: summary("ring", stores(recording, "ring")?)?,
        plain_store_ns: summary("plain_store", stores(recording, "plain_store")?)?,
        to_cp_ns: to_cp,
        to_signal_ns: between(recording, "signal")?,
        to_isr_ns: between(recording, "interrupt")?,
        unseen,
    })
}

/// Returns the times from each doorbell to the first sight of one after it and before its signal: doorbells come one
/// by one. The count is that of doorbells without such a sight.
fn to_cp(recording: &Recording) -> Result<(Summary, usize), VmmBenchError> {
    let samples = series(recording, "signal")?;
    let seen = |sample: &Vec<u64>| match sample[..] {
        [rung, signalled] => {
            let at = recording.seen.partition_point(|&seen| seen < rung);
            let seen = recording.seen.get(at).filter(|&&seen| seen <= signalled)?;
            Some((seen - rung) as f64 / recording.ticks)
        }
        _ => None,
    };
    let found: Vec<f64> = samples.iter().filter_map(seen).collect();
    let unseen = samples.len() - found.len();
    Ok((summary("doorbells that were seen", found)?, unseen))
}

fn host(recording: &Recording, load: [f64; 2]) -> Result<Host, VmmBenchError> {
    let median = |name| -> Result<f64, VmmBenchError> {
        let ticks = times(recording, name)?.into_iter().map(|ticks| ticks as f64).collect();
        Ok(summary(name, ticks)?.median)
    };
    let emulated = median("ring0_loop")? > EMULATED * median("ring3_loop")?;
    Ok(Host {
        machine: machine(load),
        ring0: if emulated { "emulated" } else { "native" },
        tsc_mhz: (recording.ticks * 1e6).round() / 1e3,
    })
}

fn boot(bare_metal: &Recording, progress: &Progress) -> Result<Boot, VmmBenchError> {
    let bare_metal = bare_metal_phases(bare_metal)?;
    let debian = match own_machine::usable(&Cache::open()?) {
        Ok(_) => debian_phases(progress)?,
        Err(why) => Debian::Absent(why.to_string()),
    };
    Ok(match debian {
        Debian::Booted(phases) => Boot { bare_metal, debian: Some(phases), why_no_debian: None },
        Debian::Absent(why) => Boot { bare_metal, debian: None, why_no_debian: Some(why) },
    })
}

fn bare_metal_phases(recording: &Recording) -> Result<BootPhases, VmmBenchError> {
    let milliseconds = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
    let phase = |name: &'static str| {
        let reached = recording.phases.iter().find(|(phase, _)| phase == name);
        reached.map(|(_, time)| milliseconds(*time)).ok_or(VmmBenchError::Missing(name))
    };
    Ok(BootPhases {
        kernel_ms: Some(milliseconds(recording.setup)),
        init_ms: None,
        driver_ms: Some(phase("driver")?),
        dispatch_ms: Some(phase("dispatch")?),
    })
}

/// A Debian guest that was booted, or the reason for having no such guest.
enum Debian {
    Booted(BootPhases),
    Absent(String),
}

/// Runs vector-add in the Debian guest.
fn debian_phases(progress: &Progress) -> Result<Debian, VmmBenchError> {
    let options = RunOptions { mode: Mode::Kvm, ..RunOptions::default() };
    let mut text = Vec::new();
    let report = match run(&options, progress, &mut |_, data| text.extend_from_slice(data)) {
        Ok(report) => report,
        Err(error @ RunError::Image(_)) => return Ok(Debian::Absent(error.to_string())),
        Err(error) => return Err(VmmBenchError::Debian(error.to_string())),
    };
    match report.phases {
        Some(phases) if report.exit_status == 0 => Ok(Debian::Booted(phases)),
        _ => Err(VmmBenchError::Debian(format!(
            "{} ended with status {}: {}",
            report.program,
            report.exit_status,
            String::from_utf8_lossy(&text).trim()
        ))),
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>12.1} {:>12.1} {:>12.1}", self.min, self.median, self.p99)
    }
}

impl std::fmt::Display for Results {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:<34} {:>12} {:>12} {:>12}", "nanoseconds", "min", "median", "p99")?;
        let mut line = |what: &str, summary: &Summary| writeln!(f, "{what:<34} {summary}");
        line("exit, port write", &self.exit.port_write_ns)?;
        line("exit, register write", &self.exit.mmio_write_ns)?;
        line("exit, register read", &self.exit.mmio_read_ns)?;
        line("ioeventfd", &self.exit.ioeventfd_ns)?;
        line("store to memory", &self.doorbell.plain_store_ns)?;
        let modes = [
            ("trapped", &self.doorbell.trapped),
            ("ioeventfd", &self.doorbell.ioeventfd),
            ("adaptive", &self.doorbell.adaptive),
        ];
        for (mode, doorbell) in modes {
            for (what, summary) in [
                ("ring while busy", &doorbell.ring_ns),
                ("to command processor", &doorbell.to_cp_ns),
                ("to signal seen", &doorbell.to_signal_ns),
                ("to interrupt handler", &doorbell.to_isr_ns),
            ] {
                line(&format!("{mode}, {what}"), summary)?;
            }
        }
        let [store, trapped, adaptive] = [
            &self.doorbell.adaptive.plain_store_ns,
            &self.doorbell.trapped.ring_ns,
            &self.doorbell.adaptive.ring_ns,
        ]
        .map(|summary| summary.median);
        // A row of stores can be as short as a reading of the time; the difference is 0 then.
        let times = |a: f64, b: f64| if b > 0.0 { format!("{:.1}", a / b) } else { "no end of".to_owned() };
        writeln!(
            f,
            "\nringing while busy, medians: adaptive takes {} times as long as a store to memory in the same run, \
             trapped {} times as long as adaptive",
            times(adaptive, store),
            times(trapped, adaptive)
        )?;
        let debian = self.boot.debian.as_ref().map(|phases| ("Debian", phases));
        for (guest, phases) in [("bare-metal", &self.boot.bare_metal)].into_iter().chain(debian) {
            write!(f, "boot of the {guest} guest, ms to:")?;
            for (what, reached) in [
                ("kernel", phases.kernel_ms),
                ("init", phases.init_ms),
                ("driver", phases.driver_ms),
                ("first dispatch", phases.dispatch_ms),
            ] {
                reached.map_or(Ok(()), |reached| write!(f, " {what} {reached:.1}"))?;
            }
            writeln!(f)?;
        }
        if let Some(why) = &self.boot.why_no_debian {
            writeln!(f, "no boot of the Debian guest: {why}")?;
        }
        let Host { machine, ring0, tsc_mhz } = &self.machine;
        write!(f, "{machine}; kernel code of guests is {ring0}; time stamp counter {tsc_mhz:.0} MHz")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn recording() -> Recording {
        let one = |values: &[u64]| values.iter().map(|&value| vec![value]).collect::<Vec<_>>();
        let series = [
            ("timer", one(&[40, 40, 44])),
            ("ring", one(&[20, 2, 4].map(|ticks| 40 + u64::from(BATCH) * ticks))),
            ("signal", vec![vec![1000, 3000], vec![5000, 6000], vec![8000, 9000]]),
        ];
        let series: BTreeMap<_, _> =
            series.into_iter().map(|(name, samples)| (name.to_owned(), samples)).collect();
        // The sight at 500 is before any doorbell. The second doorbell has none before its signal.
        let seen = vec![500, 1400, 2900, 6500, 8200];
        Recording { series, seen, phases: Vec::new(), setup: Duration::ZERO, ticks: 2.0 }
    }

    #[test]
    fn summary_has_the_ends_and_the_middle() {
        let all = summary("x", (1..=1000).rev().map(f64::from).collect()).unwrap();
        assert_eq!(all, Summary { min: 1.0, median: 501.0, p99: 990.0, samples: 1000 });
        let one = summary("x", vec![7.0]).unwrap();
        assert_eq!(one, Summary { min: 7.0, median: 7.0, p99: 7.0, samples: 1 });
        assert!(matches!(summary("x", Vec::new()), Err(VmmBenchError::Missing("x"))));
    }

    #[test]
    fn stores_are_single_ones_without_the_reading_of_time() {
        let ring = summary("ring", stores(&recording(), "ring").unwrap()).unwrap();
        assert_eq!(ring, Summary { min: 1.0, median: 2.0, p99: 10.0, samples: 3 });
    }

    #[test]
    fn doorbell_is_seen_between_its_store_and_its_signal() {
        let (seen, unseen) = to_cp(&recording()).unwrap();
        assert_eq!((seen.min, seen.p99, seen.samples, unseen), (100.0, 200.0, 2, 1));
        assert_eq!(between(&recording(), "signal").unwrap().median, 500.0);
    }

    #[test]
    fn what_was_not_measured_is_named() {
        assert!(matches!(exits(&recording(), &recording()), Err(VmmBenchError::Missing("port_write"))));
        assert!(matches!(vmm(0, &Progress::new()), Err(VmmBenchError::Samples(0))));
    }
}
