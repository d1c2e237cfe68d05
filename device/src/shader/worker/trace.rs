//! Trace events of the workgroups that a worker runs.

use super::Worker;
use crate::profile::trace_figures;
use crate::shader::dispatch::Dispatch;
use crate::shader::stats::Statistics;
use crate::shader::workgroup::Outcome;
use crate::trace::{Counter, Engine, Owner, TraceEvent};

/// The counts when a workgroup began or went on.
pub(super) struct Span {
    waves: u64,
    instructions: u64,
    tlb_misses: u64,
}

impl Worker {
    /// Records that workgroups begin, this one first, or that one goes on.
    pub(super) fn trace_start(&self, dispatch: &Dispatch, id: [u32; 3], resumed: bool) -> Span {
        let (job, owner) = dispatch.owner().traced();
        let (trace, owner) = (&self.shared.trace, owner.on(Engine::Shader));
        trace.of_job(job, owner, TraceEvent::WorkgroupStart { worker: self.number, id, resumed });
        let value = dispatch.queue().resident().into();
        trace.of_job(job, owner, TraceEvent::Counter { counter: Counter::WavesResident, value });
        let (lds, vgprs) = self.shared.residency.in_use();
        let engine = Owner::of(Engine::Shader);
        for (counter, value) in [(Counter::LdsInUse, lds), (Counter::VgprsInUse, vgprs)] {
            trace.of_job(job, engine, TraceEvent::Counter { counter, value });
        }
        let Statistics { waves, wave_instructions, tlb_misses, .. } = self.stats;
        Span { waves, instructions: wave_instructions, tlb_misses }
    }

    /// Records that they have ended, or that the one is put aside.
    pub(super) fn trace_end(&self, dispatch: &Dispatch, span: &Span, ended: u64, outcome: &Outcome) {
        let (job, owner) = dispatch.owner().traced();
        let (trace, owner) = (&self.shared.trace, owner.on(Engine::Shader));
        let waves = self.stats.waves - span.waves;
        let instructions = self.stats.wave_instructions - span.instructions;
        let outcome = match outcome {
            Outcome::Done => 0,
            Outcome::Paused { .. } => 1,
            Outcome::Stopped => 2,
            Outcome::Failed(_) => 3,
        };
        let worker = self.number;
        let tlb_misses = self.stats.tlb_misses - span.tlb_misses;
        let event = TraceEvent::WorkgroupEnd { worker, ended, waves, instructions, outcome, tlb_misses };
        trace.of_job(job, owner, event);
        let engine = Owner::of(Engine::Shader);
        let value = self.shared.walks.get();
        trace.of_job(job, engine, TraceEvent::Counter { counter: Counter::PageWalks, value });
        let sums = self.shared.counters.get();
        for (counter, value) in [
            (Counter::Instructions, sums.wave_instructions + self.stats.wave_instructions),
            (Counter::TlbMisses, sums.tlb_misses + self.stats.tlb_misses),
        ] {
            trace.of_job(job, engine, TraceEvent::Counter { counter, value });
        }
    }

    /// Records the profiled figures of a dispatch's kernel at its end, if it is profiled.
    pub(super) fn trace_kernel(&self, dispatch: &Dispatch) {
        let trace = &self.shared.trace;
        if let Some(kernel) = dispatch.probes().profile.filter(|_| trace.is_on()) {
            let (job, owner) = dispatch.owner().traced();
            trace_figures(kernel, trace, (job, owner.on(Engine::Shader)));
        }
    }
}
