//! Moments of the workgroups that a worker runs.

use super::Worker;
use crate::moments::{InUse, Moment, WorkDone};
use crate::profile::trace_figures;
use crate::shader::dispatch::Dispatch;
use crate::shader::stats::Statistics;
use crate::shader::workgroup::Outcome;
use crate::trace::Engine;

/// The counts when a workgroup began or went on.
pub(super) struct Span {
    waves: u64,
    instructions: u64,
    tlb_misses: u64,
}

impl Worker {
    /// Tells the tools that workgroups begin, this one first, or that one goes on.
    #[cold]
    pub(super) fn tell_begin(&self, dispatch: &Dispatch, id: [u32; 3], resumed: bool) -> Span {
        let (job, owner) = dispatch.owner().traced();
        let (lds, vgprs) = self.shared.residency.in_use();
        let in_use = InUse { waves: dispatch.queue().resident().into(), lds, vgprs };
        let moment = Moment::WorkgroupsBegin { worker: self.number, id, resumed, in_use: &in_use };
        self.shared.tools.tell(|| moment.of(owner.on(Engine::Shader)).in_job(job));
        let Statistics { waves, wave_instructions, tlb_misses, .. } = self.stats;
        Span { waves, instructions: wave_instructions, tlb_misses }
    }

    /// Tells the tools that they have ended, or that the one is put aside.
    #[cold]
    pub(super) fn tell_end(&self, dispatch: &Dispatch, span: &Span, ended: u64, outcome: &Outcome) {
        let (job, owner) = dispatch.owner().traced();
        let sums = self.shared.counters.get();
        let work = WorkDone {
            ended,
            waves: self.stats.waves - span.waves,
            instructions: self.stats.wave_instructions - span.instructions,
            outcome: match outcome {
                Outcome::Done => 0,
                Outcome::Paused { .. } => 1,
                Outcome::Stopped => 2,
                Outcome::Failed(_) => 3,
            },
            tlb_misses: self.stats.tlb_misses - span.tlb_misses,
            all_walks: self.shared.walks.get(),
            all_instructions: sums.wave_instructions + self.stats.wave_instructions,
            all_tlb_misses: sums.tlb_misses + self.stats.tlb_misses,
        };
        let moment = Moment::WorkgroupsEnd { worker: self.number, work: &work };
        self.shared.tools.tell(|| moment.of(owner.on(Engine::Shader)).in_job(job));
    }

    /// Records the profiled figures of a dispatch's kernel at its end, if it is profiled.
    pub(super) fn tell_kernel(&self, dispatch: &Dispatch) {
        let tools = &self.shared.tools;
        if let Some(kernel) = dispatch.probes().profile.filter(|_| tools.is_traced()) {
            let (job, owner) = dispatch.owner().traced();
            trace_figures(kernel, tools.tracer(), (job, owner.on(Engine::Shader)));
        }
    }
}
