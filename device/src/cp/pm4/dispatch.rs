//! A dispatch of a PM4 queue between its launch and its retirement.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belfry_abi::pm4::ComputeRegister;

use super::registers::ComputeRegisters;
use crate::cp::error::{Cause, QueueError};
use crate::cp::kernel_name::KernelAt;
use crate::cp::state::QueueState;
use crate::moments::Moment;
use crate::shader::{Announcement, Notice, Owner, Runner, WaveFailure};
use crate::trace::{self, Job};

/// A dispatch in progress.
pub(super) struct Pm4Dispatch {
    state: Arc<QueueState>,
    /// Number of the queue's dispatches before it.
    number: u64,
    /// Registers that it was launched from.
    registers: ComputeRegisters,
    done: AtomicBool,
    job: Job,
}

impl fmt::Debug for Pm4Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pm4Dispatch")
            .field("queue", &self.state.identity())
            .field("number", &self.number)
            .field("registers", &self.registers)
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

impl Pm4Dispatch {
    pub(super) fn new(state: &Arc<QueueState>, number: u64, registers: ComputeRegisters, done: bool) -> Self {
        let job = state.tools.current_job();
        Self { state: Arc::clone(state), number, registers, done: AtomicBool::new(done), job }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn registers(&self) -> &ComputeRegisters {
        &self.registers
    }

    fn kernel(&self) -> KernelAt {
        KernelAt::Entry(self.registers.pair(ComputeRegister::PGM_LO, ComputeRegister::PGM_HI) << 8)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
}

impl Owner for Pm4Dispatch {
    fn settle(&self, outcome: Result<(), WaveFailure>, runner: Runner) -> Announcement {
        {
            let _scope = self.state.tools.scope(self.job);
            self.state.tell(Moment::DispatchEnd { failed: outcome.is_err() });
        }
        match outcome {
            Ok(()) => {
                self.done.store(true, Ordering::Release);
                Announcement::Ended { event: None, runner }
            }
            Err(failure) => {
                let (state, number) = (Arc::clone(&self.state), self.number);
                state.shader.begin_stop();
                let kernel = self.kernel();
                Announcement::Call(Box::new(move || {
                    state.name_instruction(&failure, kernel);
                    state.dispatch_failed(QueueError { packet: number, cause: Cause::Wave(failure) });
                }))
            }
        }
    }

    fn ended(&self, _event: Option<u32>, runner: Runner) {
        // The thread that submits a packet looks at its queue again anyway.
        if runner == Runner::Worker {
            self.state.wake();
        }
    }

    fn notice(&self, notice: Notice) {
        self.state.notice(notice, self.kernel());
    }

    fn packet(&self) -> u64 {
        self.number
    }

    fn traced(&self) -> (Job, trace::Owner) {
        (self.job, self.state.owner())
    }
}
