//! `belfry trace summary`: the contents of a trace, in tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};

use belfry_device::trace::{Job, Kind, Record};

use crate::flow::Flows;
use crate::links::Matrix;
use crate::name::{kernel, processes};
use crate::profiled::Profiled;
use crate::time::Time;
use crate::trace::{GpuOf, Trace};

/// Steps of a packet, in their order; the table has the time between each two next to each other that are both there.
pub(super) const STEPS: [(&str, Kind); 6] = [
    ("doorbell", Kind::Doorbell),
    ("packet", Kind::PacketRead),
    ("first wave", Kind::WorkgroupStart),
    ("signal", Kind::SignalWritten),
    ("interrupt", Kind::Interrupt),
    ("wake", Kind::EventWake),
];

/// Times of one packet's steps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps([Option<u64>; STEPS.len()]);

/// Counts and times of a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct OfKernel {
    /// From the handover to the end, of each dispatch that ended.
    pub(super) times: Vec<u64>,
    /// Dispatches that had begun.
    pub(super) count: u64,
    /// Dispatches that ended with an error.
    pub(super) failed: u64,
    /// Waves that ended.
    pub(super) waves: u64,
    /// Instructions.
    pub(super) instructions: u64,
    /// Translations that the TLBs of the compute units did not have.
    pub(super) tlb_misses: u64,
}

/// All of a trace that its tables need.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    pub(super) kernels: BTreeMap<String, OfKernel>,
    profiled: Profiled,
    steps: BTreeMap<(u16, Job), Steps>,
    /// Texts of refusals and of faults, with their counts.
    refused: BTreeMap<String, u64>,
    kinds: BTreeMap<Kind, u64>,
    sdma: (u64, u64),
    pub(super) span: Option<(u64, u64)>,
}

/// Returns the name of a dispatch's kernel.
pub(super) fn name_of(record: &Record) -> String {
    if record.text.is_empty() {
        kernel(record.argument("kernel_object").unwrap_or(0))
    } else {
        record.text.clone()
    }
}

impl Analysis {
    pub(super) fn of(trace: &Trace) -> Self {
        let flows = Flows::of(&trace.records);
        let mut all = Self::default();
        let mut running: BTreeMap<(u16, Job), (String, u64)> = BTreeMap::new();
        for (place, record) in trace.records.iter().enumerate() {
            let argument = |name| record.argument(name).unwrap_or(0);
            let gpu = record.owner.gpu;
            let (first, last) = all.span.unwrap_or((record.time, record.time));
            all.span = Some((first.min(record.time), last.max(record.time)));
            *all.kinds.entry(record.kind).or_default() += 1;
            for job in flows.at(place) {
                if let Some(step) = STEPS.iter().position(|&(_, kind)| kind == record.kind) {
                    all.steps.entry((gpu, *job)).or_default().0[step].get_or_insert(record.time);
                }
            }
            match record.kind {
                Kind::DispatchStart => {
                    let name = name_of(record);
                    all.kernels.entry(name.clone()).or_default().count += 1;
                    running.insert((gpu, record.job), (name, record.time));
                }
                Kind::DispatchEnd => {
                    if let Some((name, start)) = running.get(&(gpu, record.job)) {
                        let kernel = all.kernels.entry(name.clone()).or_default();
                        kernel.times.push(record.time.saturating_sub(*start));
                        kernel.failed = kernel.failed.saturating_add(argument("failed"));
                    }
                }
                Kind::WorkgroupEnd => {
                    if let Some((name, _)) = running.get(&(gpu, record.job)) {
                        let kernel = all.kernels.entry(name.clone()).or_default();
                        for (sum, name) in [
                            (&mut kernel.waves, "waves"),
                            (&mut kernel.instructions, "instructions"),
                            (&mut kernel.tlb_misses, "tlb_misses"),
                        ] {
                            *sum = sum.saturating_add(argument(name));
                        }
                    }
                }
                Kind::KernelInstructions | Kind::KernelLanes | Kind::KernelMemory => {
                    if let Some((name, _)) = running.get(&(gpu, record.job)) {
                        all.profiled.take(name, record);
                    }
                }
                Kind::SdmaEnd => {
                    all.sdma.0 += 1;
                    all.sdma.1 = all.sdma.1.saturating_add(argument("bytes"));
                }
                Kind::Refused | Kind::PageFault | Kind::Fault => {
                    *all.refused.entry(format!("{}: {}", record.kind.name(), record.text)).or_default() += 1;
                }
                _ => {}
            }
        }
        // Only dispatched packets have waves, signals and wakes.
        all.steps.retain(|job, _| running.contains_key(job));
        all
    }

    /// Returns the times between two steps next to each other, of the packets that have both.
    fn between(&self) -> Vec<(String, Vec<u64>)> {
        let pairs = STEPS.windows(2).enumerate().map(|(at, pair)| {
            let time = |Steps(steps): &Steps| Some(steps[at + 1]?.saturating_sub(steps[at]?));
            let times: Vec<u64> = self.steps.values().filter_map(time).collect();
            (format!("{} to {}", pair[0].0, pair[1].0), times)
        });
        let whole = |Steps(steps): &Steps| {
            let times = || steps.iter().copied().flatten();
            Some(times().max()? - times().min()?)
        };
        let all = ("first to last".to_owned(), self.steps.values().filter_map(whole).collect());
        pairs.chain([all]).filter(|(_, times)| !times.is_empty()).collect()
    }
}

/// Returns the value that `percent` percent of the times do not exceed; `times` are sorted, and not empty.
pub(super) fn percentile(times: &[u64], percent: usize) -> u64 {
    let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(at).copied().unwrap_or(0)
}

/// Writes tables of a trace; a table without rows is left out.
#[must_use]
pub fn summary(trace: &Trace) -> String {
    let mut text = String::new();
    // Text never fails.
    let _ = tables(trace, &mut text);
    text
}

fn tables(trace: &Trace, out: &mut String) -> fmt::Result {
    let all = Analysis::of(trace);
    let span = all.span.map_or(0, |(first, last)| last - first);
    writeln!(out, "{} events in {}", trace.records.len(), Time(span))?;
    for gpu in &trace.gpus {
        writeln!(out, "GPU of {gpu}")?;
    }
    if trace.has_numbered_gpus() {
        let gpus: BTreeSet<u16> = trace.records.iter().map(|record| record.owner.gpu).collect();
        let of = |gpu: &u16| trace.records.iter().filter(|record| record.owner.gpu == *gpu).count();
        for gpu in &gpus {
            writeln!(out, "GPU {gpu}: {} events", of(gpu))?;
        }
    }
    // If the list is not empty, each process has a GPU of its own.
    if trace.gpus.is_empty() {
        for ((_, pasid), name) in processes(&trace.records) {
            writeln!(out, "process {pasid:#x}: {name}")?;
        }
    }
    if trace.dropped > 0 {
        writeln!(out, "incomplete: {} events before the first one were not kept", trace.dropped)?;
    }
    if !all.kernels.is_empty() {
        writeln!(
            out,
            "\n{:<40} {:>8} {:>10} {:>10} {:>10} {:>10} {:>12} {:>10}",
            "kernel", "count", "total", "median", "most", "waves", "instructions", "TLB misses"
        )?;
        for (name, kernel) in &all.kernels {
            let mut times = kernel.times.clone();
            times.sort_unstable();
            write!(out, "{name:<40} {:>8}", kernel.count)?;
            if times.is_empty() {
                write!(out, " {:>10} {:>10} {:>10}", "-", "-", "-")?;
            } else {
                let (median, most) = (percentile(&times, 50), percentile(&times, 100));
                write!(out, " {:>10} {:>10} {:>10}", Time(times.iter().sum()), Time(median), Time(most))?;
            }
            match kernel.instructions {
                0 => writeln!(out, " {:>10} {:>12} {:>10}", "-", "-", "-")?,
                instructions => {
                    writeln!(out, " {:>10} {instructions:>12} {:>10}", kernel.waves, kernel.tlb_misses)?;
                }
            }
            let unfinished = kernel.count - kernel.times.len() as u64;
            if unfinished > 0 {
                writeln!(out, "  {unfinished} of them had not ended")?;
            }
            if kernel.failed > 0 {
                writeln!(out, "  {} of them failed", kernel.failed)?;
            }
        }
    }
    all.profiled.table(out)?;
    let between = all.between();
    if !between.is_empty() {
        writeln!(
            out,
            "\n{:<40} {:>8} {:>10} {:>10} {:>10} {:>10}",
            "from step to step of dispatches", "count", "50 %", "90 %", "99 %", "most"
        )?;
        for (name, mut times) in between {
            times.sort_unstable();
            write!(out, "{name:<40} {:>8}", times.len())?;
            for percent in [50, 90, 99, 100] {
                write!(out, " {:>10}", Time(percentile(&times, percent)))?;
            }
            writeln!(out)?;
        }
    }
    if all.sdma.0 > 0 {
        writeln!(out, "\nSDMA: {} transfers, {} bytes", all.sdma.0, all.sdma.1)?;
    }
    for (of, links) in Matrix::of(trace) {
        writeln!(out)?;
        if let Some(GpuOf { process, name, .. }) = of {
            writeln!(out, "process {process}, {name}")?;
        }
        write!(out, "{links}")?;
    }
    if !all.refused.is_empty() {
        writeln!(out, "\nrefused, and faults")?;
        for (text, count) in &all.refused {
            writeln!(out, "{count:>8}  {text}")?;
        }
    }
    writeln!(out, "\nevents by kind")?;
    for (kind, count) in &all.kinds {
        writeln!(out, "{count:>8}  {}", kind.name())?;
    }
    Ok(())
}
