//! State that a queue's packet processor shares with its dispatches in flight.

mod save;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use belfry_abi::aql::{KernelDispatchPacket, PacketHeader};
use belfry_lock::{Mutex, rank};

use super::aql::check::Kept;
use super::complete::{self, Completed};
use super::env::{CpEnv, CpInterrupts};
use super::error::{Cause, QueueError};
use super::kernel_name::{KernelAt, NameOf};
use crate::chip::SqInterrupt;
use crate::moments::{Moment, Verdict};
use crate::queue::QueueIdentity;
use crate::sanitize::{Misuse, Rule};
use crate::shader::{
    Announcement, ContextError, FailureClass, Notice, Owner, Runner, ShaderQueue, WaveFailure,
};
use crate::time::Clock;
use crate::tools::Tools;
use crate::trace::{self, Engine, Job};
use crate::vm::{AddressSpace, Waits};

pub(super) use save::{SavedFailure, SavedInFlight};

/// Shared state of one queue.
pub(super) struct QueueState {
    pub(super) shader: Arc<ShaderQueue>,
    identity: QueueIdentity,
    clock: Clock,
    interrupts: Arc<dyn CpInterrupts>,
    wake: Arc<dyn Fn() + Send + Sync>,
    failure: Mutex<Option<QueueError>, rank::QueueFailure>,
    /// True if there may be a failure. Every service of the queue asks, and reading an atomic is cheaper than taking a
    /// lock.
    failed: AtomicBool,
    pub(super) tools: Tools,
}

impl QueueState {
    pub(super) fn new(shader: Arc<ShaderQueue>, identity: QueueIdentity, env: &CpEnv) -> QueueState {
        QueueState {
            shader,
            identity,
            clock: env.clock.clone(),
            interrupts: Arc::clone(&env.interrupts),
            wake: Arc::clone(&env.wake),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            tools: env.tools.clone(),
        }
    }

    pub(super) fn space(&self) -> &AddressSpace {
        self.shader.space()
    }

    pub(super) fn identity(&self) -> &QueueIdentity {
        &self.identity
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.ticks()
    }

    /// Tells the tools a moment of the queue.
    #[inline(always)]
    pub(super) fn at(&self, moment: Moment<'_>) -> Verdict {
        self.tools.at(|| moment.of(self.owner()))
    }

    /// Tells the tools a moment of the queue that they only look at.
    #[inline(always)]
    pub(super) fn tell(&self, moment: Moment<'_>) {
        self.tools.tell(|| moment.of(self.owner()));
    }

    /// Returns the owner of the queue's events in traces.
    pub(super) fn owner(&self) -> trace::Owner {
        self.identity.owner(Engine::Cp)
    }

    /// Takes the failure that a dispatch left behind.
    pub(super) fn take_failure(&self) -> Option<QueueError> {
        // A dispatch that leaves a failure wakes the device thread after that; the thread then finds both.
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        self.failed.store(false, Ordering::Relaxed);
        failure.take()
    }

    /// Leaves a failure behind, or none.
    fn leave_failure(&self, error: Option<QueueError>) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        // It changes only under the lock.
        self.failed.store(error.is_some(), Ordering::Release);
        *failure = error;
    }

    /// Returns the failure that keeps the queue, which is at this packet, from being saved.
    pub(super) fn failure_before_save(&self, packet: u64) -> Option<QueueError> {
        // The thread that stopped the queue reports the failure.
        let stopped = || QueueError { packet, cause: Cause::Context(ContextError::Stopped) };
        self.take_failure().or_else(|| self.shader.is_stopping().then(stopped))
    }

    /// Completes a packet on the thread that serves the queue.
    pub(super) fn complete(&self, signal: u64, timestamps: Option<(u64, u64)>) -> Result<(), Cause> {
        let (completed, before) = complete::signal(self.space(), signal, timestamps)?;
        self.signalled(signal, completed, before);
        self.announce(completed);
        Ok(())
    }

    /// Returns true if memory that a packet may have used can still be flushed in time: its completion waits for that.
    pub(super) fn is_flush_due(&self) -> bool {
        self.tools.sanitizer().is_some() && self.space().memory().is_flush_due()
    }

    /// Returns true if a flush can still come in time; reports bytes that were not flushed in time.
    fn waits_for_flush(&self) -> bool {
        self.tools.sanitizer().is_some_and(|sanitizer| {
            let (pasid, doorbell) = (self.identity.pasid, self.identity.doorbell.dwords());
            sanitizer.waits_for_flush(self.space().memory(), |misuse| misuse.of(pasid, doorbell))
        })
    }

    /// Makes a report of a misuse of this queue.
    pub(super) fn misuse(&self, rule: Rule, found: String) -> Misuse {
        Misuse::new(rule, found).of(self.identity.pasid, self.identity.doorbell.dwords())
    }

    /// Tells that a signal was written, which was `before` it was decremented.
    fn signalled(&self, address: u64, completed: Completed, before: Option<i64>) {
        self.tell(Moment::SignalWritten { address, event: completed.event, before });
    }

    pub(super) fn announce(&self, completed: Completed) {
        if let Some(event) = completed.event {
            self.interrupts.cp_eop(self.identity(), event);
        }
    }

    /// Raises the interrupts that belong to a queue error.
    pub(super) fn announce_error(&self, cause: &Cause) {
        let identity = self.identity();
        if let Some(code) = cause.exception_code() {
            self.interrupts.bad_opcode(identity, code);
        }
        if let Some(fault) = cause.fault() {
            self.interrupts.vm_fault(identity, &fault);
        }
        if let Cause::Context(ContextError::Wave(failure)) = cause
            && failure.class() == FailureClass::Poison
        {
            self.interrupts.sq_interrupt(identity, SqInterrupt::Poison);
        }
        if let Cause::Wave(failure) = cause {
            let interrupt = match failure.class() {
                FailureClass::Aperture => SqInterrupt::MemoryViolation,
                FailureClass::Poison => SqInterrupt::Poison,
                FailureClass::IllegalInstruction => {
                    // No handler of the process has seen the failure. This is the message that it would have sent, so
                    // that a runtime hears of the queue.
                    let message = identity.doorbell_id() & 0x3ff | WAVE_ILLEGAL_INSTRUCTION << 10;
                    self.interrupts.sq_interrupt(identity, SqInterrupt::HandlerMessage(message));
                    SqInterrupt::IllegalInstruction
                }
                FailureClass::Translation(_) | FailureClass::Trap => return,
            };
            self.interrupts.sq_interrupt(identity, interrupt);
        }
    }

    /// Returns true if the failed access is tried again. Reports nothing.
    pub(super) fn waits_for(&self, cause: &Cause) -> bool {
        let may = cause.own_fault().is_some_and(|fault| Waits::may(&fault));
        may && self.space().waits().is_some()
    }

    /// Returns true if the failed access is tried again because it waits for a page (XNACK). The driver is told of the
    /// page, but not at every try.
    pub(super) fn tries_again(&self, cause: &Cause) -> bool {
        let Some(fault) = cause.own_fault() else { return false };
        let tries = self.space().tries_again(&fault);
        if tries == Some(true) {
            self.interrupts.vm_retry(self.identity(), &fault);
        }
        tries.is_some()
    }

    /// Keeps the failure of a dispatch for the queue's next service, and informs the driver.
    pub(super) fn dispatch_failed(&self, error: QueueError) {
        self.announce_error(&error.cause);
        self.leave_failure(Some(error));
        self.wake();
    }

    /// Wakes the device thread, which looks at the queue again.
    pub(super) fn wake(&self) {
        (self.wake)();
    }

    /// Reports the instruction that a wave cannot execute, if the wave failed at one.
    pub(super) fn name_instruction(&self, failure: &WaveFailure, kernel: KernelAt) {
        if failure.class() == FailureClass::IllegalInstruction {
            let name = NameOf { space: self.space(), kernel };
            self.interrupts.illegal_instruction(self.identity(), failure, &name);
        }
    }

    /// Passes on a notice that a wave of a kernel gives while it runs on.
    pub(super) fn notice(&self, notice: Notice, kernel: KernelAt) {
        let identity = self.identity();
        match notice {
            Notice::Message { m0, privileged } => {
                let interrupt =
                    if privileged { SqInterrupt::HandlerMessage(m0) } else { SqInterrupt::Message(m0) };
                self.interrupts.sq_interrupt(identity, interrupt);
            }
            Notice::Waits(fault) => self.interrupts.vm_retry(identity, &fault),
            // The trap handler reports the rest.
            Notice::Trapped(failure) => {
                self.name_instruction(&failure, kernel);
                if let Some(fault) = failure.vm_fault() {
                    self.interrupts.vm_fault(identity, &fault);
                }
            }
        }
    }
}

/// `EC_QUEUE_WAVE_ILLEGAL_INSTRUCTION` as the bit that runtimes' handlers send above the doorbell (ROCr,
/// `trap_handler.s`).
const WAVE_ILLEGAL_INSTRUCTION: u32 = 1 << 3;

/// A dispatch between its launch and its retirement.
pub(super) struct InFlight {
    state: Arc<QueueState>,
    index: u64,
    packet: KernelDispatchPacket,
    /// Start, if timestamps are wanted.
    start: Option<u64>,
    /// Signal that is given the reason of a failure.
    inactive_signal: u64,
    done: AtomicBool,
    job: Job,
    /// Memory that must not change while it runs.
    kept: Option<Box<Kept>>,
    /// True if it has ended and its signal waits for a page: the queue tries again to write it.
    waits: AtomicBool,
    /// Time of the device until which its signal is held back; set once it has ended.
    late: Mutex<Option<Duration>, rank::LateSignal>,
}

/// The packet's place in its queue, and its fields.
impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = &self.packet;
        let grid = [packet.grid_size_x, packet.grid_size_y, packet.grid_size_z];
        let workgroup = [packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z];
        f.debug_struct("KernelDispatch")
            .field("queue", &self.state.identity())
            .field("index", &format_args!("{}", self.index))
            .field("barrier", &PacketHeader::from_bits(packet.header).barrier())
            .field("kernel_object", &format_args!("{:#x}", packet.kernel_object))
            .field("kernarg_address", &format_args!("{:#x}", packet.kernarg_address))
            .field("completion_signal", &format_args!("{:#x}", packet.completion_signal))
            .field("grid", &format_args!("{grid:?}"))
            .field("workgroup", &format_args!("{workgroup:?}"))
            .field("private_segment_size", &format_args!("{}", packet.private_segment_size))
            .field("group_segment_size", &format_args!("{}", packet.group_segment_size))
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

impl InFlight {
    #[inline(always)]
    pub(super) fn new(
        state: &Arc<QueueState>,
        index: u64,
        packet: &KernelDispatchPacket,
        start: Option<u64>,
        inactive_signal: u64,
    ) -> InFlight {
        InFlight {
            state: Arc::clone(state),
            index,
            packet: *packet,
            start,
            inactive_signal,
            done: AtomicBool::new(false),
            kept: None,
            waits: AtomicBool::new(false),
            late: Mutex::default(),
            job: state.tools.job(state.identity.doorbell, index),
        }
    }

    /// Adds the memory that must not change while it runs.
    #[inline(always)]
    pub(super) fn with(self, kept: Option<Box<Kept>>) -> InFlight {
        InFlight { kept, ..self }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Returns the time of its start, if timestamps are wanted.
    pub(super) fn start(&self) -> Option<u64> {
        self.start
    }

    /// Decides if the signal of the dispatch, which has ended, is held back by an injected fault.
    fn is_held_back(&self) -> bool {
        let verdict = self.state.at(Moment::Signal { address: self.packet.completion_signal });
        let Verdict::Delay(until) = verdict else { return false };
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.state.tools.faults().look_again();
        true
    }

    /// Returns true if it has ended and its signal waits for a page.
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Acquire)
    }

    /// Notes that it has ended and its signal has still to be written.
    pub(super) fn set_waits(&self) {
        self.waits.store(true, Ordering::Release);
    }

    /// Tries again to write the signal of the dispatch, if it waits for a page.
    ///
    /// # Errors
    ///
    /// Returns an error if the signal cannot be written: for a page that it still waits for, or any other reason.
    pub(super) fn complete_waiting(&self) -> Result<(), Cause> {
        if !self.waits() || self.state.waits_for_flush() {
            return Ok(());
        }
        let timestamps = self.start.map(|start| (start, self.state.now()));
        self.state.complete(self.packet.completion_signal, timestamps)?;
        self.waits.store(false, Ordering::Release);
        self.done.store(true, Ordering::Release);
        Ok(())
    }

    /// Completes the dispatch if its signal is held back no longer.
    pub(super) fn complete_late(&self, at_once: bool) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if late.take_if(|until| at_once || self.state.tools.is_over(*until)).is_none() {
            return;
        }
        drop(late);
        self.complete(Runner::Submitter).announce(self);
    }

    /// Writes the signal of the dispatch, which has ended well. Returns the announcement of it.
    fn complete(&self, runner: Runner) -> Announcement {
        let timestamps = self.start.map(|start| (start, self.state.now()));
        if self.state.waits_for_flush() {
            return self.wait();
        }
        match complete::signal(self.state.space(), self.packet.completion_signal, timestamps) {
            Ok((completed, before)) => {
                self.state.signalled(self.packet.completion_signal, completed, before);
                self.done.store(true, Ordering::Release);
                Announcement::Ended { event: completed.event, runner }
            }
            // The queue reports the page when it tries again.
            Err(cause) if self.state.waits_for(&cause) => self.wait(),
            Err(cause) => {
                self.state.shader.begin_stop();
                self.fail(cause)
            }
        }
    }

    /// Has the queue try again to write the signal.
    fn wait(&self) -> Announcement {
        self.waits.store(true, Ordering::Release);
        let state = Arc::clone(&self.state);
        Announcement::Call(Box::new(move || state.wake()))
    }

    fn kernel(&self) -> KernelAt {
        KernelAt::Descriptor(self.packet.kernel_object)
    }

    fn fail(&self, cause: Cause) -> Announcement {
        let state = Arc::clone(&self.state);
        let inactive = cause.inactive_code().and_then(|code| {
            complete::store(state.space(), self.inactive_signal, code)
                .inspect_err(|fault| log::debug!(target: "gpu::cp", "inactive signal not written: {fault}"))
                .ok()
        });
        let error = QueueError { packet: self.index, cause };
        let kernel = self.kernel();
        Announcement::Call(Box::new(move || {
            if let Cause::Wave(failure) = &error.cause {
                state.name_instruction(failure, kernel);
            }
            if let Some(completed) = inactive {
                state.announce(completed);
            }
            state.dispatch_failed(error);
        }))
    }
}

impl Owner for InFlight {
    fn settle(&self, outcome: Result<(), WaveFailure>, runner: Runner) -> Announcement {
        let _scope = self.state.tools.scope(self.job);
        self.state.tell(Moment::DispatchEnd { failed: outcome.is_err() });
        if let Some(kept) = &self.kept {
            kept.ended();
        }
        if let Err(failure) = outcome {
            self.state.shader.begin_stop();
            return self.fail(Cause::Wave(failure));
        }
        if let Some(kept) = &self.kept {
            kept.check(&self.state, self.index);
        }
        if self.is_held_back() {
            return Announcement::Nothing;
        }
        self.complete(runner)
    }

    fn ended(&self, event: Option<u32>, runner: Runner) {
        let _scope = self.state.tools.scope(self.job);
        self.state.announce(Completed { event });
        // The thread that submits a packet looks at its queue again anyway.
        if runner == Runner::Worker {
            self.state.wake();
        }
    }

    fn notice(&self, notice: Notice) {
        self.state.notice(notice, self.kernel());
    }

    fn packet(&self) -> u64 {
        self.index
    }

    fn traced(&self) -> (Job, trace::Owner) {
        (self.job, self.state.owner())
    }
}
