//! The profile as one JSON object. Addresses are texts in hexadecimal, since many readers of JSON round large numbers.

use belfry_device::profile::{BANKS, KernelProfile, LINE, LinkBytes, MAX_KERNELS, MAX_SITES, Patterns, Site};
use belfry_tools::profile::{Block, LATENCY, blocks, estimate};
use serde_json::{Map, Value, json};

use super::{Gpu, Process, name, offset, place, share};
use crate::symbols::Symbols;

pub(super) fn render(processes: &[Process], gpus: &[Gpu], symbols: &mut Symbols) -> Value {
    let mut each = Vec::new();
    for Process { of, reports } in processes {
        let (mut kernels, mut links) = (Vec::new(), Vec::new());
        for (number, (report, gpu)) in reports.iter().zip(gpus).enumerate() {
            for kernel in &report.kernels {
                place(symbols, kernel);
                kernels.push(with(of_kernel(kernel, *gpu, symbols), json!({"gpu": number})));
            }
            links.extend(report.links.iter().map(|link| of_link(number, link)));
        }
        let left_out: u64 = reports.iter().map(|report| report.kernels_left_out).sum();
        each.push(json!({
            "pid": of.as_ref().map(|(pid, _)| pid),
            "program": of.as_ref().map(|(_, program)| program),
            "kernels": kernels,
            "links": links,
            "launches_of_kernels_left_out": left_out,
        }));
    }
    let first = gpus.first();
    let of_gpu =
        |gpu: &Gpu| json!({"chip": gpu.model.name, "cus": gpu.shape.cus, "card": gpu.model.generation.card});
    json!({
        "chip": first.map(|gpu| gpu.model.name),
        "cus": first.map(|gpu| gpu.shape.cus),
        "gpus": gpus.iter().map(of_gpu).collect::<Vec<_>>(),
        "matrices": first.map(|gpu| gpu.matrices.to_string()),
        "model": {
            "line_bytes": LINE, "lds_banks": BANKS, "load_latency_cycles": LATENCY,
            "card": first.map(|gpu| &gpu.model.generation.card),
            "most_kernels": MAX_KERNELS, "most_instructions": MAX_SITES,
        },
        "processes": each,
    })
}

/// Returns the bytes that a GPU has moved between itself and another one's memory.
fn of_link(gpu: usize, link: &LinkBytes) -> Value {
    json!({
        "gpu": gpu, "peer": link.peer, "bytes_to_peer": link.to_peer(), "bytes_from_peer": link.from_peer(),
        "loaded": link.loaded, "stored": link.stored, "changed_by_atomics": link.changed,
        "copied_from_peer": link.copied_from, "copied_to_peer": link.copied_to,
    })
}

fn of_kernel(kernel: &KernelProfile, gpu: Gpu, symbols: &Symbols) -> Value {
    let instructions: Map<String, Value> =
        kernel.instructions.iter().map(|(class, count)| (class.name().to_owned(), json!(count))).collect();
    let lanes: Map<String, Value> = (0..)
        .zip(&kernel.lanes)
        .filter(|(_, count)| **count > 0)
        .map(|(lanes, count): (u32, _)| (lanes.to_string(), json!(count)))
        .collect();
    let occupancy = kernel.occupancy.map(|occupancy| {
        json!({
            "waves_per_simd": occupancy.per_simd(), "most_waves_per_simd": occupancy.most, "limit": occupancy.limit,
            "workgroups_per_processor": occupancy.workgroups, "simds_per_processor": occupancy.simds,
            "vgpr_rows_per_wave": occupancy.vgpr_rows,
        })
    });
    let estimated = estimate(kernel, gpu.model, gpu.shape);
    let parts: Map<String, Value> = estimated
        .parts
        .iter()
        .map(|(bound, ns)| (format!("{bound:?}").to_lowercase() + "_ns", json!(ns)))
        .collect();
    json!({
        "name": kernel.name, "demangled": name(kernel), "entry": format!("{:#x}", kernel.entry),
        "launches": kernel.launches, "workgroups": kernel.workgroups, "waves": kernel.waves,
        "instructions": kernel.total(), "instructions_by_class": instructions,
        "active_lanes": lanes,
        "scalar_bytes": kernel.scalar_bytes, "private_bytes": kernel.private_bytes,
        "instructions_left_out": kernel.left_out,
        "resources": kernel.resources,
        "occupancy": occupancy,
        "estimate_on_card": {"ns": estimated.ns, "bound": estimated.bound, "parts": parts},
        "blocks": blocks(kernel).iter().map(|block| of_block(kernel, block, symbols)).collect::<Vec<_>>(),
        "memory": kernel.sites.iter().filter_map(|site| of_global(kernel, site, symbols)).collect::<Vec<_>>(),
        "lds": kernel.sites.iter().filter_map(|site| of_lds(kernel, site, symbols)).collect::<Vec<_>>(),
    })
}

/// Returns the fields that every mention of an instruction has.
fn of_site(kernel: &KernelProfile, site: &Site, symbols: &Symbols) -> Value {
    let line = symbols.line(site.pc);
    json!({
        "pc": format!("{:#x}", site.pc), "offset": offset(kernel, site.pc), "text": site.text,
        "class": site.class.name(), "executions": site.executions,
        "lanes": site.class.has_lanes().then_some(site.lanes),
        "file": line.as_ref().map(|line| line.file), "line": line.as_ref().map(|line| line.line),
        "function": line.as_ref().and_then(|line| line.function),
    })
}

fn of_block(kernel: &KernelProfile, block: &Block<'_>, symbols: &Symbols) -> Value {
    let code: Vec<Value> = block.sites.iter().map(|site| of_site(kernel, site, symbols)).collect();
    json!({
        "offset": block.sites.first().map(|site| offset(kernel, site.pc)),
        "executions": block.executions, "instructions": block.instructions,
        "share": share(kernel, block), "code": code,
    })
}

fn patterns(patterns: &Patterns) -> Value {
    json!({
        "uniform": patterns.uniform, "coalesced": patterns.coalesced, "strided": patterns.strided,
        "gather": patterns.gather, "stride": patterns.stride, "other_strides": patterns.other_strides,
    })
}

fn with(mut site: Value, more: Value) -> Value {
    if let (Some(site), Value::Object(more)) = (site.as_object_mut(), more) {
        site.extend(more);
    }
    site
}

fn of_global(kernel: &KernelProfile, site: &Site, symbols: &Symbols) -> Option<Value> {
    let access = site.global?;
    let more = json!({
        "accesses": access.accesses, "bytes": access.bytes, "lines": access.lines,
        "bytes_of_lines": access.lines * LINE, "most_lines": access.most_lines,
        "patterns": patterns(&access.patterns),
    });
    Some(with(of_site(kernel, site, symbols), more))
}

fn of_lds(kernel: &KernelProfile, site: &Site, symbols: &Symbols) -> Option<Value> {
    let access = site.lds?;
    let more = json!({
        "accesses": access.accesses, "bytes": access.bytes, "passes": access.passes,
        "conflicts": access.conflicts, "most_passes": access.most_passes,
        "patterns": patterns(&access.patterns),
    });
    Some(with(of_site(kernel, site, symbols), more))
}
