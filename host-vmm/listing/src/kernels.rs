//! Description of each kernel in a listing: the start of its waves, their registers, and its arguments.

use std::fmt::Write as _;

use belfry_abi::kernel_descriptor::{ComputePgmRsrc1, ComputePgmRsrc2, ComputePgmRsrc3, KernelDescriptor};
use belfry_device::chip::KernelRules;
use belfry_runtime::code_object::{ArgumentKind, Hidden, KernelInfo};

/// Exceptions of `COMPUTE_PGM_RSRC2.ENABLE_EXCEPTION_*`, lowest bit first.
const EXCEPTIONS: [&str; 7] = [
    "invalid",
    "input denormal",
    "division by zero",
    "overflow",
    "underflow",
    "inexact",
    "integer division by zero",
];

/// Describes a kernel in lines of a label and its text.
pub(super) fn describe(kernel: &KernelInfo, descriptor: &KernelDescriptor, rules: &KernelRules) -> String {
    let (rsrc1, rsrc2, rsrc3) =
        (descriptor.compute_pgm_rsrc1, descriptor.compute_pgm_rsrc2, descriptor.compute_pgm_rsrc3);
    let entry = kernel.descriptor.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let mut text = format!("kernel {}\n", kernel.name);
    let mut line = |label: &str, what: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {label:<12}{what}");
    };
    line("code", format!("{entry:#x}, descriptor {:#x} ({})", kernel.descriptor, kernel.symbol));
    line("wave", wave(kernel, descriptor, rules));
    line(
        "memory",
        format!(
            "{} bytes of LDS, {} bytes of scratch per work-item{}",
            descriptor.group_segment_fixed_size,
            descriptor.private_segment_fixed_size,
            if descriptor.kernel_code_properties.uses_dynamic_stack() { " and a dynamic stack" } else { "" }
        ),
    );
    let required =
        kernel.required_workgroup.map(|[x, y, z]| format!(", exactly {x} x {y} x {z}")).unwrap_or_default();
    line("workgroup", format!("at most {} work-items{required}", kernel.max_workgroup));
    line("sgprs", sgprs(descriptor, rules).join(", "));
    if !rules.workgroup_id_sgprs {
        line("ttmps", "ttmp9 workgroup x, ttmp7 workgroup y, z << 16".to_owned());
    }
    line("vgprs", work_item_ids(rsrc2).to_owned());
    line("mode", mode((rules.mode)(descriptor), rsrc1, rsrc2).join(", "));
    line("rsrc", resources(rsrc1, rsrc2, rsrc3));
    line("kernarg", format!("{} bytes, aligned to {}", descriptor.kernarg_size, kernel.kernarg_align));
    for argument in &kernel.arguments {
        let kind = match &argument.kind {
            ArgumentKind::Value => "by value",
            ArgumentKind::Buffer => "global buffer",
            ArgumentKind::Local => "LDS",
            ArgumentKind::Hidden(_) => "hidden",
            ArgumentKind::Unsupported(name) => name,
        };
        let (name, of) = match &argument.kind {
            ArgumentKind::Hidden(Hidden::Zero) => ("unused".to_owned(), String::new()),
            ArgumentKind::Hidden(hidden) => (format!("{hidden:?}"), String::new()),
            _ => (
                argument.name.clone().unwrap_or_else(|| "-".to_owned()),
                argument.type_name.as_ref().map(|name| format!(", {name}")).unwrap_or_default(),
            ),
        };
        line("", format!("+{:<5}{:>4}  {name} ({kind}{of})", argument.offset, argument.size));
    }
    text
}

fn wave(kernel: &KernelInfo, descriptor: &KernelDescriptor, rules: &KernelRules) -> String {
    let wave32 = descriptor.kernel_code_properties.enable_wavefront_size32();
    let (lanes, granule) = if wave32 { (32, 8) } else { (64, 4) };
    let allocated = (descriptor.compute_pgm_rsrc1.granulated_workitem_vgpr_count() + 1) * granule;
    let shared = descriptor.compute_pgm_rsrc3.shared_vgpr_count() * 8;
    let shared = if shared == 0 { String::new() } else { format!(", {shared} shared") };
    let allocated = if rules.dynamic_vgprs && descriptor.compute_pgm_rsrc2.enable_dynamic_vgpr() {
        "allocated while they run".to_owned()
    } else {
        format!("{allocated} allocated{shared}")
    };
    format!("{lanes} lanes, {} VGPRs ({allocated}), {} SGPRs", kernel.vgprs, kernel.sgprs)
}

/// Lists the first contents of each SGPR, in order.
fn sgprs(descriptor: &KernelDescriptor, rules: &KernelRules) -> Vec<String> {
    let (properties, rsrc2) = (descriptor.kernel_code_properties, descriptor.compute_pgm_rsrc2);
    let user = [
        (properties.enable_sgpr_private_segment_buffer(), 4, "scratch buffer"),
        (properties.enable_sgpr_dispatch_ptr(), 2, "dispatch packet"),
        (properties.enable_sgpr_queue_ptr(), 2, "queue"),
        (properties.enable_sgpr_kernarg_segment_ptr(), 2, "arguments"),
        (properties.enable_sgpr_dispatch_id(), 2, "dispatch number"),
        (properties.enable_sgpr_flat_scratch_init(), 2, "flat scratch"),
        (properties.enable_sgpr_private_segment_size(), 1, "scratch size"),
    ];
    let system = [
        (rsrc2.enable_sgpr_workgroup_id_x(), 1, "workgroup x"),
        (rsrc2.enable_sgpr_workgroup_id_y(), 1, "workgroup y"),
        (rsrc2.enable_sgpr_workgroup_id_z(), 1, "workgroup z"),
        (rsrc2.enable_sgpr_workgroup_info(), 1, "workgroup info"),
    ];
    let mut next = 0;
    let mut texts = Vec::new();
    let mut take = |count: u32, what: &str| {
        texts.push(match count {
            1 => format!("s{next} {what}"),
            _ => format!("s[{next}:{}] {what}", next + count - 1),
        });
        next += count;
    };
    let mut used = 0;
    for (_, count, what) in user.into_iter().filter(|(enabled, ..)| *enabled) {
        take(count, what);
        used += count;
    }
    match rsrc2.user_sgpr_count().saturating_sub(used) {
        0 => {}
        unused => take(unused, "unused"),
    }
    let system = system.into_iter().filter(|(enabled, ..)| *enabled && rules.workgroup_id_sgprs);
    for (_, count, what) in system {
        take(count, what);
    }
    texts
}

fn work_item_ids(rsrc2: ComputePgmRsrc2) -> &'static str {
    match rsrc2.enable_vgpr_workitem_id() {
        0 => "v0 work-item x",
        1 => "v0 work-item x, y << 10",
        _ => "v0 work-item x, y << 10, z << 20",
    }
}

/// Describes `MODE` at the start, and the other register fields that decide how code runs.
fn mode(mode: u32, rsrc1: ComputePgmRsrc1, rsrc2: ComputePgmRsrc2) -> Vec<String> {
    const ROUND: [&str; 4] = ["to nearest", "up", "down", "to zero"];
    const DENORMALS: [&str; 4] = ["flushed", "kept on input", "kept on output", "kept"];
    let float = rsrc1.float_mode() as usize;
    let mut texts = vec![
        format!("f32 rounded {}, denormals {}", ROUND[float & 3], DENORMALS[float >> 4 & 3]),
        format!("f16 and f64 rounded {}, denormals {}", ROUND[float >> 2 & 3], DENORMALS[float >> 6 & 3]),
    ];
    let flags = [
        (mode >> 8 & 1 != 0, "DX10_CLAMP"),
        (mode >> 9 & 1 != 0, "IEEE"),
        (rsrc1.fp16_ovfl(), "FP16_OVFL"),
        (rsrc1.mem_ordered(), "MEM_ORDERED"),
        (rsrc1.fwd_progress(), "FWD_PROGRESS"),
    ];
    texts.extend(flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name.to_owned()));
    texts.push(if rsrc1.wgp_mode() { "WGP mode" } else { "CU mode" }.to_owned());
    let enabled = rsrc2.enable_exceptions();
    let enabled: Vec<&str> = EXCEPTIONS
        .iter()
        .enumerate()
        .filter(|(bit, _)| enabled >> bit & 1 != 0)
        .map(|(_, name)| *name)
        .collect();
    if !enabled.is_empty() {
        texts.push(format!("exceptions on {}", enabled.join(" and ")));
    }
    texts
}

fn resources(rsrc1: ComputePgmRsrc1, rsrc2: ComputePgmRsrc2, rsrc3: ComputePgmRsrc3) -> String {
    format!("{:#010x} {:#010x} {:#010x}", rsrc1.bits(), rsrc2.bits(), rsrc3.bits())
}
