//! Counts of a kernel, as events of a trace.

use super::{KernelProfile, Launched, LinkCounters};
use crate::trace::{Job, Owner, Path, TraceEvent, Tracer};

/// Records the bytes that went over each link until now.
pub(crate) fn trace_links(links: &LinkCounters, trace: &Tracer, (job, owner): (Job, Owner)) {
    for link in links.report() {
        let (peer, to, from) = (link.peer, link.to_peer(), link.from_peer());
        trace.of_job(job, owner, TraceEvent::LinkBytes { peer, is_to: true, bytes: to });
        trace.of_job(job, owner, TraceEvent::LinkBytes { peer, is_to: false, bytes: from });
    }
}

/// Records the counts of a kernel and of the links until now, as a dispatch of it ends.
pub(crate) fn trace_figures(launched: &Launched, trace: &Tracer, (job, owner): (Job, Owner)) {
    trace_links(&launched.kernel.links, trace, (job, owner));
    let KernelProfile { entry, instructions, lanes, sites, scalar_bytes, private_bytes, .. } =
        launched.kernel.report();
    let tell = |event| trace.of_job(job, owner, event);
    for (class, count) in instructions {
        tell(TraceEvent::KernelInstructions { entry, class, count });
    }
    let all: u64 = lanes.iter().sum();
    if all > 0 {
        let active = lanes.iter().zip(0..).map(|(count, lanes)| count * lanes).sum();
        tell(TraceEvent::KernelLanes { entry, instructions: all, active });
    }
    let memory = |path, accesses, bytes, parts, conflicts| {
        if bytes > 0 {
            tell(TraceEvent::KernelMemory { entry, path, accesses, bytes, parts, conflicts });
        }
    };
    let mut sum = [0; 3];
    for access in sites.iter().filter_map(|site| site.global) {
        sum[0] += access.accesses;
        sum[1] += access.bytes;
        sum[2] += access.lines;
    }
    memory(Path::Global, sum[0], sum[1], sum[2], 0);
    let mut sum = [0; 4];
    for access in sites.iter().filter_map(|site| site.lds) {
        sum[0] += access.accesses;
        sum[1] += access.bytes;
        sum[2] += access.passes;
        sum[3] += access.conflicts;
    }
    memory(Path::Lds, sum[0], sum[1], sum[2], sum[3]);
    memory(Path::Scalar, 0, scalar_bytes, 0, 0);
    memory(Path::Private, 0, private_bytes, 0, 0);
}
