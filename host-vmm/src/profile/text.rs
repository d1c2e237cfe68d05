//! The profile for people.

use std::fmt::Write as _;

use belfry_device::profile::{KernelProfile, LINE, Pattern, Patterns, Resources};
use belfry_isa::exec::Class;
use belfry_isa::inst::WaveSize;
use belfry_tools::profile::{self as readings, estimate};
use belfry_traces::Time;

use super::{Gpu, Process, name, offset, place, share};
use crate::symbols::Symbols;

/// Largest number of blocks of a kernel that are shown.
const MAX_BLOCKS: usize = 8;
/// Largest number of instructions of a block that are shown.
const MAX_LINES: usize = 40;

pub(super) fn render(processes: &[Process], gpus: &[Gpu], symbols: &mut Symbols) -> String {
    let mut text = String::new();
    for process in processes {
        if let Some((pid, program)) = &process.of {
            let _ = writeln!(text, "profile of process {pid}, {program}");
        }
        for (number, (report, gpu)) in process.reports.iter().zip(gpus).enumerate() {
            if gpus.len() > 1 {
                let (chip, cus) = (gpu.model.name, gpu.shape.cus);
                let _ = writeln!(text, "\nprofile of GPU {number}, {chip} with {cus} CUs");
            }
            if report.kernels.is_empty() {
                text.push_str("profile: no kernel ran\n");
            }
            for kernel in &report.kernels {
                place(symbols, kernel);
                of_kernel(&mut text, kernel, *gpu, symbols);
            }
            if report.kernels_left_out > 0 {
                let count = report.kernels_left_out;
                let _ = writeln!(text, "profile: {count} launches of further kernels were not profiled");
            }
        }
        let links = process.links();
        if !links.is_empty() {
            let _ = write!(text, "\nprofile of links\n{links}");
            links_by_way(&mut text, process);
        }
    }
    if processes.is_empty() {
        text.push_str("profile: no process used the GPU\n");
    }
    text
}

/// Lists the ways in which the GPUs have moved bytes over links.
fn links_by_way(text: &mut String, process: &Process) {
    for (own, report) in process.reports.iter().enumerate() {
        for link in &report.links {
            let ways = [
                ("loaded", link.loaded),
                ("stored", link.stored),
                ("changed by atomics", link.changed),
                ("copied from there", link.copied_from),
                ("copied to there", link.copied_to),
            ];
            let ways = ways.iter().filter(|(_, bytes)| *bytes > 0);
            let ways: Vec<_> = ways.map(|(way, bytes)| format!("{bytes} {way}")).collect();
            let _ = writeln!(text, "  GPU {own}, memory of GPU {}: {}", link.peer, ways.join(", "));
        }
    }
}

fn of_kernel(text: &mut String, kernel: &KernelProfile, gpu: Gpu, symbols: &Symbols) {
    let total = kernel.total();
    let _ = writeln!(
        text,
        "\nprofile: {}\n  {} launches, {} workgroups, {} waves, {total} instructions",
        name(kernel),
        kernel.launches,
        kernel.workgroups,
        kernel.waves
    );
    let percent = |count: u64| count as f64 * 100.0 / total.max(1) as f64;
    let _ = writeln!(text, "  instructions by class:");
    for (class, count) in &kernel.instructions {
        let _ = writeln!(text, "    {:<15} {count:>12}  {:>5.1} %", class.name(), percent(*count));
    }
    if kernel.instructions.get(&Class::Matrix).is_some_and(|&count| count > 0) {
        let _ = writeln!(text, "  sums of matrices: {}", gpu.matrices);
    }
    lanes(text, kernel);
    for (path, bytes) in
        [("through the scalar cache", kernel.scalar_bytes), ("of private memory", kernel.private_bytes)]
    {
        if bytes > 0 {
            let _ = writeln!(text, "  bytes {path}: {bytes}");
        }
    }
    if let (Some(resources), Some(occupancy)) = (kernel.resources, kernel.occupancy) {
        of_resources(text, &resources);
        let _ = writeln!(
            text,
            "  occupancy: {:.1} of {} waves per SIMD, limited by {}",
            occupancy.per_simd(),
            occupancy.most,
            occupancy.limit.name()
        );
    }
    let estimated = estimate(kernel, gpu.model, gpu.shape);
    let _ = write!(
        text,
        "  estimate on the card ({} with {} CUs; a model, not a measurement): {}, bound by {:?} (",
        gpu.model.name,
        gpu.shape.cus,
        Time(estimated.ns.round() as u64),
        estimated.bound
    );
    let parts: Vec<String> =
        estimated.parts.iter().map(|(bound, ns)| format!("{bound:?} {}", Time(ns.round() as u64))).collect();
    let _ = writeln!(text, "{})", parts.join(", "));
    blocks(text, kernel, symbols);
    memory(text, kernel, symbols);
    if kernel.left_out > 0 {
        let count = kernel.left_out;
        let _ =
            writeln!(text, "  {count} instructions of further places in the code are in the classes alone");
    }
}

fn lanes(text: &mut String, kernel: &KernelProfile) {
    let all: u64 = kernel.lanes.iter().sum();
    if all == 0 {
        return;
    }
    let _ = writeln!(text, "  active lanes of vector and memory instructions:");
    for (lanes, count) in kernel.lanes.iter().enumerate().filter(|(_, count)| **count > 0) {
        let part = *count as f64 / all as f64;
        let bar = "#".repeat((part * 40.0).ceil() as usize);
        let _ = writeln!(text, "    {lanes:>2} {count:>12}  {:>5.1} %  {bar}", part * 100.0);
    }
}

fn of_resources(text: &mut String, resources: &Resources) {
    let lanes = if resources.wave_size == WaveSize::Wave32 { 32 } else { 64 };
    let sgprs = resources.sgprs.map_or_else(|| "all SGPRs".to_owned(), |sgprs| format!("{sgprs} SGPRs"));
    let _ = write!(text, "  a wave of {lanes} lanes: {} VGPRs", resources.vgprs);
    if resources.shared_vgprs > 0 {
        let _ = write!(text, " and {} that its halves share", resources.shared_vgprs);
    }
    let _ = writeln!(text, ", {sgprs}, {} bytes of scratch memory a lane", resources.scratch);
    let mode = if resources.wgp_mode { ", on a whole work group processor" } else { "" };
    let _ = writeln!(text, "  a workgroup: {} waves, {} bytes of LDS{mode}", resources.waves, resources.lds);
}

fn blocks(text: &mut String, kernel: &KernelProfile, symbols: &Symbols) {
    let all = readings::blocks(kernel);
    for block in all.iter().take(MAX_BLOCKS) {
        let Some(first) = block.sites.first() else { continue };
        let _ = writeln!(
            text,
            "  block {}: {} executions, {:.1} % of the instructions",
            offset(kernel, first.pc),
            block.executions,
            share(kernel, block) * 100.0
        );
        let mut before = None;
        for site in block.sites.iter().take(MAX_LINES) {
            let line = symbols.line(site.pc).map(|line| line.to_string());
            let source = match &line {
                Some(line) if before.as_ref() != Some(line) => format!("  ; {line}"),
                _ => String::new(),
            };
            before = line;
            let _ = writeln!(text, "    {:>8}  {}{source}", offset(kernel, site.pc), site.text);
        }
        if block.sites.len() > MAX_LINES {
            let _ = writeln!(text, "    and {} more instructions", block.sites.len() - MAX_LINES);
        }
    }
    if all.len() > MAX_BLOCKS {
        let _ = writeln!(text, "  and {} more blocks", all.len() - MAX_BLOCKS);
    }
}

fn pattern(patterns: &Patterns) -> String {
    let all = patterns.uniform + patterns.coalesced + patterns.strided + patterns.gather;
    let (count, mut text) = match patterns.usual() {
        None => return "no lane".to_owned(),
        Some(Pattern::Uniform) => (patterns.uniform, "uniform".to_owned()),
        Some(Pattern::Coalesced) => (patterns.coalesced, "coalesced".to_owned()),
        Some(Pattern::Gather) => (patterns.gather, "gather".to_owned()),
        Some(Pattern::Strided(stride)) => {
            let more = if patterns.other_strides > 0 { " and others" } else { "" };
            (patterns.strided, format!("strided by {stride} bytes{more}"))
        }
    };
    if count < all {
        let _ = write!(text, " {:.0} %", count as f64 * 100.0 / all as f64);
    }
    text
}

fn memory(text: &mut String, kernel: &KernelProfile, symbols: &Symbols) {
    for site in &kernel.sites {
        let source = symbols.line(site.pc).map_or_else(String::new, |line| format!("  ; {line}"));
        let head = format!("    {:>8}  {}{source}", offset(kernel, site.pc), site.text);
        if let Some(access) = site.global.filter(|access| access.accesses > 0) {
            let _ = writeln!(
                text,
                "{head}\n{:14}{}; {:.2} lines of {LINE} bytes an execution (at most {}), {} bytes asked for of {} in lines ({:.0} %)",
                "",
                pattern(&access.patterns),
                access.lines as f64 / access.accesses as f64,
                access.most_lines,
                access.bytes,
                access.lines * LINE,
                access.bytes as f64 * 100.0 / (access.lines * LINE).max(1) as f64,
            );
        }
        if let Some(access) = site.lds.filter(|access| access.accesses > 0) {
            let _ = writeln!(
                text,
                "{head}\n{:14}LDS, {}; {:.2} passes an execution (at most {}), {:.2} of them by bank conflicts",
                "",
                pattern(&access.patterns),
                access.passes as f64 / access.accesses as f64,
                access.most_passes,
                access.conflicts as f64 / access.accesses as f64,
            );
        }
    }
}
