//! A PM4 queue: executes packets in order, starts the dispatches that they ask for, and writes fences when those have
//! ended.
//!
//! Pointers count dwords: the write pointer in memory for ever, and the reported read pointer modulo the ring. The read
//! pointer passes a packet when it has been executed, even if the work that it has started goes on; an indirect buffer
//! counts as executed at its end. RELEASE_MEM takes effect when all dispatches before it have ended, and does not keep
//! later packets from being executed; EVENT_WRITE of `CS_PARTIAL_FLUSH` does.

mod context;
mod dispatch;
mod launch;
mod packets;
mod registers;
mod save;

use std::collections::VecDeque;
use std::sync::Arc;

use belfry_abi::pm4::ReleaseMem;
use belfry_isa::mem::Apertures;
use belfry_isa::trap::TrapHandler;
use zerocopy::IntoBytes;

use super::context::{Context, Leaving};
use super::env::{CpEnv, KernelReach};
use super::error::{Cause, QueueError};
use super::indirect::{Execution, Packet};
use super::preempted::Preempted;
use super::state::QueueState;
use crate::chip::XccShares;
use crate::moments::{self, Met, Stream, Verdict};
use crate::pm4::{self, Error};
use crate::queue::{BlockedOn, ContextArea, EngineError, Progress, QueueEngine, QueueIdentity, Saving};
use crate::shader::{Gws, ScratchPool, ShaderEngine, ShaderQueue};
use crate::spent::{self, Part};
use crate::trace::JobScope;
use crate::vm::AddressSpace;
use dispatch::Pm4Dispatch;
use registers::ComputeRegisters;

pub(crate) use save::SavedPm4;

/// Most dispatches and fences that a queue may have started and not retired: as many as a small control stack has room
/// for.
const MAX_STARTED: usize = 6;
/// Packets executed before other queues have their turn.
const PACKETS_PER_SERVICE: usize = 256;
/// Turns in which a queue may do nothing but execute indirect buffers, which may lead to each other for ever. After
/// that it is served as rarely as a queue that waits.
const TURNS_IN_BUFFERS: u32 = 64;

/// Registers of the HQD that a PM4 queue runs from.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct Pm4Config {
    /// Identity of the queue in interrupts.
    pub identity: QueueIdentity,
    /// Address of the ring, `CP_HQD_PQ_BASE << 8`.
    pub ring_base: u64,
    /// Dwords of the ring, a power of two.
    pub ring_dwords: u64,
    /// `CP_HQD_PQ_RPTR_REPORT_ADDR`: address to which the read pointer is written, 32 bits.
    pub rptr_report: u64,
    /// `CP_HQD_PQ_WPTR_POLL_ADDR`: address of the 64-bit count of dwords that producers have written.
    pub wptr_poll: u64,
    /// First dword to read, counted as the write pointer; 0 for a new queue.
    pub read_index: u64,
    /// `SH_MEM_BASES` of the VMID.
    pub apertures: Apertures,
    /// `SQ_SHADER_TBA` and `SQ_SHADER_TMA` of the process; `None` without a trap handler.
    pub trap: Option<TrapHandler>,
    /// Graphics core that executes it and has its workgroups; `None` on a chip with one core.
    pub shares: Option<XccShares>,
    /// True for a queue of the kernel's (`CP_HQD_PQ_CONTROL.PRIV_STATE`), and for one of the graphics pipes: its packets reach
    /// all registers, and may be about the state of drawing.
    pub kernel: bool,
}

impl Pm4Config {
    /// Returns the parts of the device that packets of such a queue reach beside those of programs.
    fn reach(&self, env: &CpEnv) -> Option<KernelReach> {
        env.kernel.as_ref().filter(|_| self.kernel).cloned()
    }
}

/// A PM4 queue on a hardware slot.
pub struct Pm4Queue {
    config: Pm4Config,
    state: Arc<QueueState>,
    shader: Arc<ShaderEngine>,
    /// Parts that its packets reach if it is the kernel's.
    kernel: Option<KernelReach>,
    registers: ComputeRegisters,
    /// Compute units that its MQD allowed when it was mapped, by shader engine.
    allowed_cus: [u32; 8],
    /// Next dword of the ring.
    read_index: u64,
    /// Read pointer that was last reported.
    reported: Option<u64>,
    /// Indirect buffers being executed.
    buffers: Execution,
    /// Dispatches and fences that packets have started, in their order.
    started: VecDeque<Started>,
    /// Number of dispatches started, by which they are told apart.
    dispatches: u64,
    /// Work-items of the dispatches that were counted (`COMPUTE_PIPELINESTAT_ENABLE`).
    invocations: u64,
    scratch: Option<Arc<ScratchPool>>,
    /// `GPU_HDP_FLUSH_REQ`, as the queue has written it.
    hdp_flush: u32,
    /// Turns since the ring's last packet.
    turns_in_buffers: u32,
    /// Context that it goes on from when its pages are there: nothing of it is restored.
    returning: Option<Context>,
    /// Set while the queue goes to its context save area and waits for pages: it does nothing else.
    leaving: Option<Leaving>,
    stopped: bool,
    /// The last packet that was recorded: its place in the ring, and in the innermost buffer.
    met: Met,
}

/// Work that a packet has started.
#[derive(Clone, Debug)]
enum Started {
    Dispatch(Arc<Pm4Dispatch>),
    /// A fence, which is due when all work before it has ended.
    Release(ReleaseMem),
}

/// Result of an attempt to go on.
enum Step {
    Advanced,
    Blocked(BlockedOn),
    /// There is no whole packet.
    Empty,
}

impl std::fmt::Debug for Pm4Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pm4Queue")
            .field("config", &self.config)
            .field("identity", &self.state.identity())
            .field("read_index", &self.read_index)
            .field("buffers", &self.buffers)
            .field("started", &self.started)
            .field("registers", &self.registers)
            .field("hdp_flush", &format_args!("{:#x}", self.hdp_flush))
            .field("turns_in_buffers", &self.turns_in_buffers)
            .field("returning", &self.returning)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl Pm4Queue {
    /// Makes a queue as its HQD describes it, running in `space` with this global wave sync, and the compute registers
    /// of its MQD.
    ///
    /// The queue lives as long as it is on one slot: [`QueueEngine::save`] ends it, and [`Pm4Queue::from_context`]
    /// makes the next one.
    #[must_use]
    pub fn new(
        config: Pm4Config,
        space: Arc<AddressSpace>,
        gws: Arc<Gws>,
        env: &CpEnv,
        registers: &[u32],
    ) -> Pm4Queue {
        let shader = ShaderQueue::new(space, config.apertures, gws);
        let registers = ComputeRegisters::of(registers);
        Pm4Queue {
            config,
            state: Arc::new(QueueState::new(shader, config.identity, env)),
            shader: Arc::clone(&env.shader),
            kernel: config.reach(env),
            allowed_cus: launch::STATIC_THREAD_MGMT.map(|mask| registers.get(mask)),
            registers,
            read_index: config.read_index,
            reported: None,
            buffers: Execution::default(),
            started: VecDeque::new(),
            dispatches: 0,
            invocations: 0,
            scratch: None,
            hdp_flush: 0,
            turns_in_buffers: 0,
            returning: None,
            leaving: None,
            stopped: false,
            met: Met::default(),
        }
    }

    /// Executes the packets that can be executed, and writes the fences that are due.
    ///
    /// Call it when the doorbell has rung, after a wake-up, and again soon while it says [`Progress::Advanced`] or
    /// [`BlockedOn::Memory`]. The write pointer in memory tells how far producers have got.
    pub fn service(&mut self) -> Progress<QueueError> {
        let _packets = spent::enter(Part::Packets);
        if self.stopped {
            return Progress::Idle;
        }
        if let Some(error) = self.state.take_failure() {
            return self.halt(error);
        }
        if let Some(context) = self.returning {
            return match self.come_back(context) {
                Ok(true) => Progress::Advanced,
                Ok(false) => Progress::Blocked(BlockedOn::Memory),
                Err(cause) => self.fail_packet(cause),
            };
        }
        let mut advanced = false;
        let before = self.read_index;
        for _ in 0..PACKETS_PER_SERVICE {
            let step = match self.retire() {
                Ok(retired) => {
                    advanced |= retired;
                    self.step()
                }
                Err(cause) => Err(cause),
            };
            match step {
                Ok(Step::Advanced) => advanced = true,
                // Dispatches that completed since the last look have woken the device thread, which will serve the
                // queue again.
                Ok(_) if advanced => return Progress::Advanced,
                Ok(Step::Blocked(on)) => return Progress::Blocked(on),
                Ok(Step::Empty) if self.started.is_empty() => return Progress::Idle,
                Ok(Step::Empty) => return Progress::Blocked(BlockedOn::Dispatches),
                Err(cause) if self.state.tries_again(&cause) => {
                    return if advanced { Progress::Advanced } else { Progress::Blocked(BlockedOn::Memory) };
                }
                Err(cause) => return self.fail_packet(cause),
            }
        }
        self.turns_in_buffers =
            if self.read_index == before { self.turns_in_buffers.saturating_add(1) } else { 0 };
        if self.turns_in_buffers > TURNS_IN_BUFFERS {
            return Progress::Blocked(BlockedOn::Memory);
        }
        Progress::Advanced
    }

    /// Stops at a packet that cannot be processed, and informs the driver.
    fn fail_packet(&mut self, cause: Cause) -> Progress<QueueError> {
        self.state.shader.stop();
        self.state.announce_error(&cause);
        self.halt(QueueError { packet: self.read_index, cause })
    }

    fn halt(&mut self, error: QueueError) -> Progress<QueueError> {
        log::debug!(target: "gpu::cp", "PM4 queue stopped doorbell={:#x} {error}", self.config.identity.doorbell);
        self.stop();
        Progress::Error(error)
    }

    /// Retires, in order, the work that has ended. Returns false if there was none.
    fn retire(&mut self) -> Result<bool, Cause> {
        let before = self.started.len();
        while let Some(front) = self.started.front() {
            match front {
                Started::Dispatch(dispatch) if dispatch.is_done() => {}
                Started::Dispatch(_) => break,
                Started::Release(packet) => {
                    let packet = *packet;
                    self.release(&packet)?;
                }
            }
            self.started.pop_front();
        }
        Ok(self.started.len() != before)
    }

    /// Executes the next packet, if there is a whole one.
    fn step(&mut self) -> Result<Step, Cause> {
        if self.state.space().waits().is_some() {
            // An earlier packet may have waited for a page to report the read pointer.
            self.report()?;
        }
        let from_ring = self.buffers.buffers().is_empty();
        let packet =
            if from_ring { self.fetch()? } else { self.buffers.fetch(self.state.space()).map_err(ring)? };
        let Some(packet) = packet else { return Ok(Step::Empty) };
        let dwords = packet.dwords();
        let Ok(_scope) = self.meet(&packet) else { return Ok(Step::Blocked(BlockedOn::Memory)) };
        match self.execute(&packet)? {
            packets::Outcome::Blocked(on) => return Ok(Step::Blocked(on)),
            packets::Outcome::Done => self.advance(from_ring, dwords),
            packets::Outcome::Enter(buffer) => {
                if from_ring {
                    self.read_index = self.read_index.wrapping_add(dwords.into());
                }
                self.buffers.go_to(if from_ring { 0 } else { dwords }, &buffer).map_err(ring)?;
            }
            packets::Outcome::Skip(skipped) if from_ring => {
                let dwords = u64::from(dwords + skipped);
                if self.check_length(dwords)? < dwords {
                    return Ok(Step::Empty);
                }
                self.read_index = self.read_index.wrapping_add(dwords);
            }
            packets::Outcome::Skip(skipped) => self.buffers.skip(dwords, skipped).map_err(ring)?,
        }
        self.report()?;
        Ok(Step::Advanced)
    }

    /// Tells the tools of a packet; later moments belong to the packet of the ring.
    ///
    /// # Errors
    ///
    /// The packet has to stay where it is.
    #[inline(always)]
    fn meet(&mut self, packet: &Packet) -> Result<JobScope, Verdict> {
        if self.state.tools.hear() { self.meet_packet(packet) } else { Ok(JobScope::nothing()) }
    }

    #[cold]
    fn meet_packet(&mut self, packet: &Packet) -> Result<JobScope, Verdict> {
        let packet = moments::Packet {
            stream: Stream::Pm4,
            owner: self.state.owner(),
            kind: packet.header.opcode().name().unwrap_or("unknown"),
            index: self.read_index,
            inner: self.buffers.buffers().last().map(|&(at, _)| at),
            kernel: None,
        };
        self.state.tools.packet(&mut self.met, &packet)
    }

    fn advance(&mut self, from_ring: bool, dwords: u32) {
        if from_ring {
            self.read_index = self.read_index.wrapping_add(dwords.into());
        } else {
            self.buffers.advance(dwords);
        }
    }

    /// Returns the dwords written and not read yet.
    fn available(&self) -> Result<u64, Cause> {
        let written = self
            .state
            .space()
            .load_u64(self.config.wptr_poll)
            .map_err(|fault| Cause::Memory { what: "write pointer", fault })?;
        // A write pointer behind the read pointer can only be a producer's mistake.
        let ahead = u64::try_from(written.wrapping_sub(self.read_index).cast_signed()).unwrap_or(0);
        let ring = self.config.ring_dwords;
        if ahead > ring { Err(Cause::WritePointer { ahead, ring }) } else { Ok(ahead) }
    }

    /// Returns the dwords available, after a check that the ring can hold `dwords` at all.
    fn check_length(&self, dwords: u64) -> Result<u64, Cause> {
        if dwords > self.config.ring_dwords {
            let left = u32::try_from(self.config.ring_dwords).unwrap_or(u32::MAX);
            return Err(Cause::Ring(Error::Skip { dwords: u32::try_from(dwords).unwrap_or(u32::MAX), left }));
        }
        self.available()
    }

    /// Reads the next packet of the ring, once all of it has been written.
    fn fetch(&self) -> Result<Option<Packet>, Cause> {
        let available = self.available()?;
        if available == 0 {
            return Ok(None);
        }
        let mut bits = [0];
        self.read(0, &mut bits)?;
        let header = pm4::header(bits[0]).map_err(ring)?;
        let body = header.body_dwords();
        if u64::from(body) >= self.config.ring_dwords {
            let left = u32::try_from(self.config.ring_dwords - 1).unwrap_or(u32::MAX);
            return Err(ring(Error::Overrun { opcode: header.opcode(), body, left }));
        }
        if u64::from(body) >= available {
            return Ok(None);
        }
        let mut body = vec![0; body as usize];
        self.read(1, &mut body)?;
        Ok(Some(Packet { header, body }))
    }

    /// Copies dwords of the ring from `ahead` of the read pointer on.
    fn read(&self, ahead: u64, out: &mut [u32]) -> Result<(), Cause> {
        let ring = self.config.ring_dwords.max(1);
        let at = self.read_index.wrapping_add(ahead) % ring;
        let (first, second) = out.split_at_mut(out.len().min((ring - at) as usize));
        let space = self.state.space();
        space
            .read_bytes(self.config.ring_base.wrapping_add(at * 4), first.as_mut_bytes())
            .and_then(|()| space.read_bytes(self.config.ring_base, second.as_mut_bytes()))
            .map_err(|fault| Cause::Memory { what: "ring", fault })
    }

    /// Reports the read pointer, unless packets of an indirect buffer are left.
    fn report(&mut self) -> Result<(), Cause> {
        if !self.buffers.buffers().is_empty() || self.reported == Some(self.read_index) {
            return Ok(());
        }
        let pointer = self.read_index % self.config.ring_dwords.max(1);
        self.state
            .space()
            .store_u32(self.config.rptr_report, pointer as u32)
            .map_err(|fault| Cause::Memory { what: "read pointer", fault })?;
        self.reported = Some(self.read_index);
        Ok(())
    }

    fn has_running_dispatches(&self) -> bool {
        self.started
            .iter()
            .any(|started| matches!(started, Started::Dispatch(dispatch) if !dispatch.is_done()))
    }
}

/// Turns the error of a packet into the reason that a queue stops.
fn ring(error: Error) -> Cause {
    match error {
        Error::Memory { what, fault } => Cause::Memory { what, fault },
        other => Cause::Ring(other),
    }
}

impl QueueEngine for Pm4Queue {
    fn service(&mut self) -> Progress<EngineError> {
        Self::service(self).map_error(Into::into)
    }

    /// Returns within a few thousand instructions.
    fn suspend(&mut self) {
        self.state.shader.suspend();
        // If memory has become inaccessible, the next service says so.
        if let Err(cause) = self.retire() {
            log::debug!(target: "gpu::cp", "not retired at suspension: {cause}");
        }
    }

    fn resume(&mut self) {
        self.shader.resume(&self.state.shader);
    }

    /// Drops waves within a few thousand instructions.
    fn stop(&mut self) {
        self.stopped = true;
        self.shader.remove(&self.state.shader);
    }

    /// Returns true if work was started and not retired, or an indirect buffer is half executed.
    fn is_busy(&self) -> bool {
        let has_work = !self.started.is_empty() || !self.buffers.buffers().is_empty();
        (has_work || self.returning.is_some()) && !self.stopped
    }

    fn read_index(&self) -> u64 {
        self.read_index
    }

    fn compute_registers(&self) -> Option<&[u32]> {
        Some(self.registers.values())
    }

    fn save(&mut self, area: Option<&ContextArea>) -> Result<Saving, EngineError> {
        self.save_context(area).map_err(Into::into)
    }
}

impl Drop for Pm4Queue {
    fn drop(&mut self) {
        self.stop();
    }
}
