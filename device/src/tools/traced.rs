//! Moments that are events of a trace.

use belfry_abi::doorbell::DoorbellIndex;

use crate::moments::{At, InUse, Moment, Packet, WorkDone};
use crate::trace::{Counter, Engine, Job, JobScope, Owner, TraceEvent, Tracer, Way};

/// Names the link between two GPUs that bytes take; `None` is this GPU, and system memory.
fn link(from: Option<u8>, to: Option<u8>) -> String {
    match (from, to) {
        (None, None) => String::new(),
        (Some(from), None) => format!("from GPU {from}"),
        (None, Some(to)) => format!("to GPU {to}"),
        (Some(from), Some(to)) => format!("from GPU {from} to GPU {to}"),
    }
}

/// Records a moment.
pub(super) fn at(tracer: &Tracer, at: &At<'_>) {
    let job = at.job.unwrap_or_else(|| tracer.current());
    let tell = |event| tracer.of_job(job, at.owner, event);
    match at.moment {
        Moment::Rung { offset, value, way, count } => {
            tell(TraceEvent::Doorbell { offset, value, way });
            let counter = match way {
                Way::Trapped => Counter::DoorbellsTrapped,
                Way::Woken => Counter::DoorbellsWoken,
                Way::Polled => Counter::DoorbellsPolled,
            };
            let event = TraceEvent::Counter { counter, value: count };
            tracer.of_job(job, Owner::of(Engine::Doorbells), event);
        }
        Moment::Noticed { doorbell } => tell(TraceEvent::DoorbellSeen { doorbell }),
        Moment::FrameDone { opcode, done } => tell(TraceEvent::MesFrame { opcode, done }),
        Moment::HiqDone { header, done } => tell(TraceEvent::HiqPacket { header, done }),
        Moment::QueueAdded { doorbell, .. } => tracer.queue_added(doorbell),
        Moment::QueueMapped { doorbell, pipe, queue } => {
            tell(TraceEvent::QueueMapped { doorbell, pipe, queue });
        }
        Moment::QueueUnmapped { doorbell } => tell(TraceEvent::QueueUnmapped { doorbell }),
        Moment::Launch { kernel_object, grid, workgroup, name } => {
            tell(TraceEvent::DispatchStart { kernel_object, grid, workgroup, name });
        }
        Moment::DispatchEnd { failed } => tell(TraceEvent::DispatchEnd { failed }),
        Moment::SignalWritten { address, event, .. } if address != 0 => {
            tell(TraceEvent::SignalWritten { address, event });
        }
        Moment::TransferBegins { bytes, from, to } => {
            tell(TraceEvent::SdmaStart { bytes, link: &link(from, to) });
        }
        Moment::TransferEnds { bytes, total, .. } => {
            tell(TraceEvent::SdmaEnd { bytes });
            tell(TraceEvent::Counter { counter: Counter::SdmaBytes, value: total });
        }
        Moment::PageFault { fault, retried } => {
            let (text, write) = (fault.to_string(), fault.access.is_write());
            tell(TraceEvent::PageFault { address: fault.va, write, retried, text: &text });
        }
        Moment::EntryWritten { client, source, context, time } => {
            tracer.event_at(time, at.owner, TraceEvent::IhEntry { client, source, context });
        }
        Moment::Raised { vector } => tell(TraceEvent::Interrupt { vector }),
        Moment::WorkgroupsBegin { worker, id, resumed, in_use } => {
            tell(TraceEvent::WorkgroupStart { worker, id, resumed });
            let InUse { waves, lds, vgprs } = *in_use;
            tell(TraceEvent::Counter { counter: Counter::WavesResident, value: waves });
            counters(tracer, job, [(Counter::LdsInUse, lds), (Counter::VgprsInUse, vgprs)]);
        }
        Moment::WorkgroupsEnd { worker, work } => {
            let WorkDone { ended, waves, instructions, outcome, tlb_misses, .. } = *work;
            tell(TraceEvent::WorkgroupEnd { worker, ended, waves, instructions, outcome, tlb_misses });
            let all = [
                (Counter::PageWalks, work.all_walks),
                (Counter::Instructions, work.all_instructions),
                (Counter::TlbMisses, work.all_tlb_misses),
            ];
            counters(tracer, job, all);
        }
        Moment::Reset => tell(TraceEvent::Reset),
        Moment::Refused { error, details } => tracer.refused(&error, details),
        Moment::Unmodelled { name, details } => tracer.refused(&name, details),
        _ => {}
    }
}

/// Records values of counters of the compute units as a whole.
fn counters<const N: usize>(tracer: &Tracer, job: Job, values: [(Counter, u64); N]) {
    for (counter, value) in values {
        tracer.of_job(job, Owner::of(Engine::Shader), TraceEvent::Counter { counter, value });
    }
}

/// Makes this thread's events belong to a packet of a ring until the scope is dropped.
pub(super) fn scope(tracer: &Tracer, packet: &Packet<'_>) -> JobScope {
    let doorbell = DoorbellIndex::from_dwords(packet.owner.doorbell.unwrap_or(0));
    tracer.scope(tracer.job(doorbell, packet.index))
}

/// Records that a packet is looked at for the first time.
pub(super) fn packet(tracer: &Tracer, packet: &Packet<'_>) {
    tracer.event(packet.owner, TraceEvent::Packet { kind: packet.kind, index: packet.index });
}
