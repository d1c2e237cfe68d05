//! Targets of the engine, and the misses of a measurement.

use serde::Serialize;

use super::{Measurement, Scaling};

/// Kind of a measured figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Processor time of the workers per wave instruction, or per workgroup of `workgroups`.
    WorkerNs,
    /// From ringing the doorbell to seeing the signal, in microseconds.
    DoorbellToSignalUs,
    /// Times as fast as one worker, by the clock; larger is better.
    Speedup,
    /// Time of the GPU over the time of the same source on the processor, through PoCL.
    VsCpu,
}

/// A measurement against its target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The kernel.
    pub kernel: &'static str,
    /// Worker threads.
    pub workers: usize,
    /// Kind of figure that was measured.
    pub figure: Figure,
    /// Measured value.
    pub measured: f64,
    /// Target: the largest value allowed, or the smallest for a [`Figure::Speedup`].
    pub target: f64,
    /// By how much the target is missed, in percent of it; 0 when it is met.
    pub missed_by_percent: f64,
    /// Measured cause of a miss, if the target is missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// Worker time per wave instruction, in nanoseconds.
const WORKER_NS: &[(&str, f64)] = &[
    ("vadd", 2.5),
    ("gemm_naive", 2.0),
    ("gemm_tiled", 2.0),
    ("reduce", 2.2),
    ("alu", 0.8),
    ("workgroups", 20.0),
];
/// Times the processor's own time.
const VS_CPU: &[(&str, f64)] = &[
    ("vadd", 3.0),
    ("gemm_naive", 0.6),
    ("gemm_tiled", 0.2),
    ("reduce", 0.25),
    ("alu", 0.25),
    ("workgroups", 4.0),
];
/// Doorbell to signal of an empty dispatch, in microseconds.
const DISPATCH_US: f64 = 1.5;
/// Two workers over one.
const SPEEDUP: f64 = 1.8;

impl Figure {
    /// Returns this figure of a measurement and its target.
    fn of(self, row: &Measurement) -> Option<(f64, f64)> {
        match self {
            Figure::WorkerNs => {
                let (_, target) = WORKER_NS.iter().find(|(name, _)| *name == row.name)?;
                // If the system does not tell the workers' time, the whole time counts.
                let worker = row.worker_ns_per_wave_instruction;
                Some((if worker > 0.0 { worker } else { row.ns_per_wave_instruction }, *target))
            }
            Figure::DoorbellToSignalUs => Some((row.doorbell_to_signal_us?, DISPATCH_US)),
            Figure::Speedup => Some((row.speedup.filter(|_| row.workers == 2)?, SPEEDUP)),
            Figure::VsCpu => {
                let (_, target) = VS_CPU.iter().find(|(name, _)| *name == row.name)?;
                Some((row.vs_cpu?.ratio, *target))
            }
        }
    }
}

/// Returns the verdicts on all figures of a measurement that have a target.
pub(super) fn judge(row: &Measurement, scaling: &[Scaling]) -> Vec<Verdict> {
    let figures = [Figure::WorkerNs, Figure::DoorbellToSignalUs, Figure::Speedup, Figure::VsCpu];
    let judged = figures.into_iter().filter_map(|figure| {
        let (measured, target) = figure.of(row)?;
        let over = if figure == Figure::Speedup { target - measured } else { measured - target };
        let missed_by_percent = (over / target * 1000.0).round().max(0.0) / 10.0;
        let cause = match figure {
            Figure::WorkerNs | Figure::VsCpu => row.spent.as_ref().map(ToString::to_string),
            Figure::Speedup => {
                let own = scaling.iter().find(|own| own.threads == row.workers);
                own.map(|own| format!("without the engine {:.2} to {:.2}", own.streaming, own.arithmetic))
            }
            Figure::DoorbellToSignalUs => {
                let launch = row.ns_per_wave_instruction / 1000.0;
                Some(format!("{:.0} % of a launch of {launch:.2} us", measured / launch * 100.0))
            }
        };
        let cause = cause.filter(|_| missed_by_percent > 0.0);
        let (kernel, workers) = (row.name, row.workers);
        Some(Verdict { kernel, workers, figure, measured, target, missed_by_percent, cause })
    });
    judged.collect()
}

/// Returns the target of a kernel's time and by how much it is missed, as a table shows it; empty if it has none.
pub(super) fn of_time(row: &Measurement) -> String {
    let figure =
        if row.doorbell_to_signal_us.is_some() { Figure::DoorbellToSignalUs } else { Figure::WorkerNs };
    let unit = if figure == Figure::DoorbellToSignalUs { " us" } else { "" };
    let verdict = judge(row, &[]).into_iter().find(|verdict| verdict.figure == figure);
    verdict.map_or(String::new(), |Verdict { target, missed_by_percent, .. }| match missed_by_percent {
        0.0 => format!("{target}{unit}, met"),
        percent => format!("{target}{unit}, missed by {percent:.0} %"),
    })
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { kernel, workers, measured, target, missed_by_percent, cause, .. } = self;
        let workers = format_args!("{workers} worker{}", if *workers == 1 { "" } else { "s" });
        match self.figure {
            Figure::WorkerNs => write!(f, "{kernel}, {workers}: {measured:.2} ns, target {target} ns")?,
            Figure::DoorbellToSignalUs => {
                write!(f, "{kernel}, {workers}: doorbell to signal {measured:.2} us, target {target} us")?;
            }
            Figure::VsCpu => {
                write!(f, "{kernel}, {workers}: {measured:.2} x the processor's time, target {target} x")?;
            }
            Figure::Speedup => {
                write!(f, "{kernel}, {workers}: {measured:.2} times as fast as one, target {target}")?;
            }
        }
        match *missed_by_percent {
            0.0 => write!(f, ", met"),
            percent => write!(f, ", missed by {percent:.1} %"),
        }?;
        cause.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Run, VsCpu, measurement};
    use super::*;

    fn row(name: &'static str, workers: usize, nanoseconds: u64) -> Measurement {
        let time = Duration::from_nanos(nanoseconds);
        let run = Run { wall: time, busy: time, waited: Duration::ZERO, doorbell: None, instructions: 1 };
        measurement(name, workers, &[run])
    }

    #[test]
    fn targets_are_met_or_missed_by_so_much() {
        assert_eq!(judge(&row("vadd", 1, 2), &[])[0].missed_by_percent, 0.0);
        let missed = judge(&row("vadd", 1, 5), &[]);
        assert_eq!(missed[0].missed_by_percent, 100.0);
        assert_eq!(missed[0].to_string(), "vadd, 1 worker: 5.00 ns, target 2.5 ns, missed by 100.0 %");

        let mut two = row("gemm_naive", 2, 2);
        two.speedup = Some(1.71);
        let judged = judge(&two, &[]);
        assert_eq!(judged.len(), 2);
        assert_eq!((judged[1].measured, judged[1].missed_by_percent), (1.71, 5.0));
        // The target is for two.
        assert_eq!(judge(&Measurement { workers: 4, ..two.clone() }, &[]).len(), 1);

        two.vs_cpu = Some(VsCpu { median_ms: 1.0, min_ms: 1.0, ratio: 0.75 });
        let versus = judge(&two, &[]).pop().unwrap();
        assert_eq!(
            versus.to_string(),
            "gemm_naive, 2 workers: 0.75 x the processor's time, target 0.6 x, missed by 25.0 %"
        );

        let mut dispatch = row("dispatch", 1, 4000);
        dispatch.doorbell_to_signal_us = Some(1.8);
        assert_eq!(judge(&dispatch, &[]).len(), 1);
        assert_eq!(judge(&dispatch, &[])[0].missed_by_percent, 20.0);
        assert_eq!(
            (of_time(&dispatch).as_str(), of_time(&two).as_str()),
            ("1.5 us, missed by 20 %", "2, met")
        );
    }
}
