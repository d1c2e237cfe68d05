//! An AQL queue: reads packets in order, starts the work they ask for, retires them in order.
//!
//! The read index moves, and the packet's header becomes INVALID, when the packet has *completed* and all earlier ones
//! have: until then a kernel may read its packet through the dispatch pointer, and the producer must not overwrite it.
//! Dispatches without a barrier bit overlap, up to [`MAX_IN_FLIGHT`].

pub(super) mod check;
mod context;
pub(super) mod moments;
mod save;
mod scratch;
mod vendor;

use std::collections::VecDeque;
use std::sync::Arc;

use belfry_abi::aql::{
    AQL_PACKET_SIZE, AmdQueue, BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType,
    QUEUE_PROPERTIES_ENABLE_PROFILING, QUEUE_PROPERTIES_USE_SCRATCH_ONCE,
};
use zerocopy::{FromBytes, FromZeros as _, IntoBytes};

use super::context::{Context, Leaving};
use super::dispatch::{self, Source};
use super::env::CpEnv;
use super::error::{Cause, QueueError};
use super::preempted::Preempted;
use super::state::{InFlight, QueueState};
use super::{AqlConfig, barrier, complete, indirect};
use crate::moments::Verdict;
use crate::queue::{BlockedOn, ContextArea, EngineError, Progress, QueueEngine, Saving};
use crate::shader::{Gws, Launch, ScratchPool, ShaderEngine, ShaderQueue};
use crate::spent::{self, Part};
use crate::vm::{AddressSpace, Fault, Slice};

pub(crate) use save::SavedAql;

/// Most packets that a queue may have started and not retired.
pub const MAX_IN_FLIGHT: usize = 16;
/// Packets consumed before other queues have their turn.
const PACKETS_PER_SERVICE: usize = 32;
/// Offset of `read_dispatch_id_field_base_byte_offset` from `read_dispatch_id` in `amd_queue_t`.
const BASE_OFFSET_FIELD: u64 = 8;

/// An AQL queue on a hardware slot.
pub struct AqlQueue {
    config: AqlConfig,
    state: Arc<QueueState>,
    shader: Arc<ShaderEngine>,
    /// Next packet to start.
    fetch_index: u64,
    /// Next packet to retire.
    read_index: u64,
    /// Read index that was last reported; `None` if an engine before this one may have waited to report it.
    reported: Option<u64>,
    /// Packets `read_index..fetch_index`; `None` for a packet that completed when it was started.
    started: VecDeque<Option<Arc<InFlight>>>,
    scratch: Option<Arc<ScratchPool>>,
    asked: Option<scratch::Asked>,
    waiting: Waiting,
    /// Set while the queue goes to its context save area and waits for pages: it does nothing else.
    leaving: Option<Leaving>,
    watched: moments::Watched,
    /// True if the queue stays at its packet for good.
    hangs: bool,
}

/// Obstacle between the queue and its next packet, beyond the packet itself.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
enum Waiting {
    #[default]
    Nothing,
    /// The runtime has to answer the code in the queue's inactive signal.
    Inactive(u64),
    /// The dispatch that used scratch memory once has to end, so that the memory can be handed back.
    Reclaim,
    /// The rest of an indirect buffer has to be executed.
    Pm4(indirect::Execution),
    /// Pages of the saved context, or of memory it leads to, are missing: nothing of it is restored.
    Context(Context),
    /// Nothing follows: the queue has stopped for good.
    Stopped,
}

/// Result of one packet.
enum Packet {
    /// Started. Without a dispatch to wait for, it has completed.
    Started(Option<Arc<InFlight>>),
    /// Not started yet.
    Blocked(BlockedOn),
}

impl std::fmt::Debug for AqlQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let running = self.started.iter().flatten().filter(|dispatch| !dispatch.is_done()).count();
        f.debug_struct("AqlQueue")
            .field("config", &self.config)
            .field("identity", &self.state.identity())
            .field("fetch_index", &self.fetch_index)
            .field("read_index", &self.read_index)
            .field("started", &format_args!("{} not retired, {running} running", self.started.len()))
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl AqlQueue {
    /// Makes a queue as its HQD describes it, running in `space` with this global wave sync.
    ///
    /// The queue lives as long as it is on one slot: [`QueueEngine::save`] ends it, and [`AqlQueue::from_context`]
    /// makes the next one.
    #[must_use]
    pub fn new(config: AqlConfig, space: Arc<AddressSpace>, gws: Arc<Gws>, env: &CpEnv) -> AqlQueue {
        let reported = space.waits().is_none().then_some(config.read_index);
        let shader = ShaderQueue::new(space, config.apertures, gws);
        let queue = AqlQueue {
            reported,
            config,
            state: Arc::new(QueueState::new(shader, config.identity, env)),
            shader: Arc::clone(&env.shader),
            fetch_index: config.read_index,
            read_index: config.read_index,
            started: VecDeque::new(),
            scratch: None,
            asked: None,
            waiting: Waiting::Nothing,
            leaving: None,
            watched: Default::default(),
            hangs: false,
        };
        queue.show_reclaim();
        queue
    }

    fn has_running_dispatches(&self) -> bool {
        self.started.iter().flatten().any(|dispatch| !dispatch.is_done())
    }

    /// Starts the packets that can be started and retires those that have completed.
    ///
    /// Call it when the doorbell has rung, after a wake-up, and again soon while it says [`Progress::Advanced`] or
    /// [`BlockedOn::Memory`]. The write pointer in memory tells how far producers have got.
    pub fn service(&mut self) -> Progress<QueueError> {
        let _packets = spent::enter(Part::Packets);
        if matches!(self.waiting, Waiting::Stopped) || self.hangs {
            return Progress::Idle;
        }
        if self.state.tools.may_strike() {
            self.complete_late(false);
        }
        if let Some(error) = self.state.take_failure() {
            return self.halt(error);
        }
        if let Waiting::Context(context) = self.waiting {
            return match self.come_back(context) {
                Ok(true) => Progress::Advanced,
                Ok(false) => Progress::Blocked(BlockedOn::Memory),
                Err(cause) => self.fail_packet(cause),
            };
        }
        let before = (self.read_index, self.fetch_index);
        for _ in 0..PACKETS_PER_SERVICE {
            let result = self.retire().and_then(|()| self.next());
            match result {
                Ok(Some(Packet::Started(dispatch))) => {
                    self.started.push_back(dispatch);
                    self.fetch_index = self.fetch_index.wrapping_add(1);
                }
                Ok(Some(Packet::Blocked(on))) => {
                    // Dispatches that completed since `retire` have woken the device thread, which will serve the queue
                    // again.
                    let advanced = before != (self.read_index, self.fetch_index);
                    return if advanced { Progress::Advanced } else { self.blocked(on) };
                }
                Ok(None) => {
                    return match () {
                        // Another look would find no change, and the program may be waiting for this one to end.
                        () if self.started.is_empty() => Progress::Idle,
                        () if before != (self.read_index, self.fetch_index) => Progress::Advanced,
                        () => self.blocked(BlockedOn::Dispatches),
                    };
                }
                Err(cause) if self.state.tries_again(&cause) => {
                    let advanced = before != (self.read_index, self.fetch_index);
                    return if advanced { Progress::Advanced } else { Progress::Blocked(BlockedOn::Memory) };
                }
                Err(cause) => return self.fail_packet(cause),
            }
        }
        Progress::Advanced
    }

    /// Reports that the queue is blocked; on memory, if a flush may still come.
    fn blocked(&self, on: BlockedOn) -> Progress<QueueError> {
        Progress::Blocked(if self.state.is_flush_due() { BlockedOn::Memory } else { on })
    }

    /// Stops at a packet that cannot be processed, and informs the runtime and the driver.
    fn fail_packet(&mut self, cause: Cause) -> Progress<QueueError> {
        self.state.shader.stop();
        if let Some(code) = cause.inactive_code() {
            let signal = self.amd_queue().ok().flatten().map_or(0, |(_, queue)| queue.queue_inactive_signal);
            match complete::store(self.state.space(), signal, code) {
                Ok(completed) => self.state.announce(completed),
                Err(fault) => log::debug!(target: "gpu::cp", "inactive signal not written: {fault}"),
            }
        }
        self.state.announce_error(&cause);
        self.halt(QueueError { packet: self.fetch_index, cause })
    }

    fn halt(&mut self, error: QueueError) -> Progress<QueueError> {
        log::debug!(target: "gpu::cp", "queue stopped doorbell={:#x} {error}", self.config.identity.doorbell);
        self.stop();
        Progress::Error(error)
    }

    /// Retires completed packets in order.
    fn retire(&mut self) -> Result<(), Cause> {
        for dispatch in self.started.iter().flatten() {
            dispatch.complete_waiting()?;
        }
        let is_done = |front: Option<&Option<Arc<InFlight>>>| {
            front.is_some_and(|dispatch| dispatch.as_ref().is_none_or(|dispatch| dispatch.is_done()))
        };
        if !is_done(self.started.front()) && self.reported == Some(self.read_index) {
            return Ok(());
        }
        let slice = self.state.space().enter();
        while is_done(self.started.front()) {
            // The producer may reuse the slot once the read index has passed it: the header becomes INVALID before
            // that.
            let header = PacketHeader::new(PacketType::INVALID, false, 0, 0);
            slice
                .store_u16(self.slot(self.read_index), header.bits())
                .map_err(|fault| Cause::Memory { what: "ring", fault })?;
            self.started.pop_front();
            self.read_index = self.read_index.wrapping_add(1);
        }
        if self.reported != Some(self.read_index) {
            slice
                .store_u64(self.config.rptr_report, self.read_index)
                .map_err(|fault| Cause::Memory { what: "read index", fault })?;
            self.reported = Some(self.read_index);
        }
        Ok(())
    }

    fn slot(&self, index: u64) -> u64 {
        self.config.ring_base.wrapping_add(self.config.place(index) * AQL_PACKET_SIZE)
    }

    /// Starts the next packet, if there is one.
    fn next(&mut self) -> Result<Option<Packet>, Cause> {
        if self.wait_is_over()? {
            self.waiting = Waiting::Nothing;
        } else if !matches!(self.waiting, Waiting::Pm4(_)) {
            let on = if matches!(self.waiting, Waiting::Reclaim) {
                BlockedOn::Dispatches
            } else {
                BlockedOn::Memory
            };
            return Ok(Some(Packet::Blocked(on)));
        }
        let ring = |fault| Cause::Memory { what: "ring", fault };
        let slice = self.state.space().enter();
        let reserved = slice
            .load_u64(self.config.wptr_poll)
            .map_err(|fault| Cause::Memory { what: "write index", fault })?;
        // Both indices count packets for ever. A write index behind the read index can only be a producer's mistake.
        let ahead = reserved.wrapping_sub(self.fetch_index).cast_signed();
        if ahead <= 0 || self.fetch_index.wrapping_sub(self.read_index) >= self.config.ring_packets {
            return Ok(None);
        }
        let address = self.slot(self.fetch_index);
        let header = PacketHeader::from_bits(slice.load_u16(address).map_err(ring)?);
        if header.packet_type() == PacketType::INVALID {
            return Ok(None);
        }
        if (header.barrier() && !self.started.is_empty()) || self.started.len() >= MAX_IN_FLIGHT {
            return Ok(Some(Packet::Blocked(BlockedOn::Dispatches)));
        }
        let packet: [u32; 16] = slice.read(address).map_err(ring)?;
        drop(slice);
        if header.packet_type() != PacketType::VENDOR_SPECIFIC {
            // The producer has replaced a packet that was half executed.
            self.waiting = Waiting::Nothing;
        }
        let _scope = match self.meet(header, &packet) {
            Ok(scope) => scope,
            Err(verdict) => {
                self.hangs = verdict == Verdict::Hang;
                return Ok((!self.hangs).then_some(Packet::Blocked(BlockedOn::Memory)));
            }
        };
        match header.packet_type() {
            PacketType::KERNEL_DISPATCH => self.dispatch(address, &parse(&packet)?),
            PacketType::BARRIER_AND => {
                let packet: BarrierPacket = parse(&packet)?;
                self.check_dependencies(&packet);
                let satisfied = barrier::and_satisfied(self.state.space(), &packet)?;
                self.wait_or_complete(satisfied, packet.completion_signal)
            }
            PacketType::BARRIER_OR => {
                let packet: BarrierPacket = parse(&packet)?;
                self.check_dependencies(&packet);
                let satisfied = barrier::or_satisfied(self.state.space(), &packet)?;
                self.wait_or_complete(satisfied, packet.completion_signal)
            }
            PacketType::VENDOR_SPECIFIC => self.vendor(&packet),
            other => Err(Cause::PacketType(other.0)),
        }
        .map(Some)
    }

    /// Completes a packet that has nothing more to do, or leaves it for later if it is not satisfied.
    fn wait_or_complete(&self, satisfied: bool, signal: u64) -> Result<Packet, Cause> {
        if !satisfied {
            return Ok(Packet::Blocked(BlockedOn::Memory));
        }
        let now = self.state.now();
        let profiling = self.amd_queue()?.is_some_and(|(_, queue)| profiles(&queue));
        self.state.complete(signal, profiling.then_some((now, now)))?;
        Ok(Packet::Started(None))
    }

    fn dispatch(&mut self, address: u64, packet: &KernelDispatchPacket) -> Result<Packet, Cause> {
        self.check_written(packet);
        let slice = self.state.space().enter();
        // Read into its final place: copying a value that was read a moment before would stall.
        let mut queue = AmdQueue::new_zeroed();
        let at = self.read_amd_queue(&slice, &mut queue)?;
        let queue = at.map(|at| (at, &queue));
        let source = Source { packet, address, index: self.fetch_index, queue };
        let mut prepared = dispatch::prepare(&slice, source, self.shader.chip())?;
        drop(slice);
        self.complete_launch(&mut prepared.launch, self.fetch_index);
        if !self.shader.holds(&prepared.launch) {
            return Err(Cause::ComputeUnits);
        }
        let queue = queue.map(|(_, queue)| queue);
        let mut main_scratch = false;
        if prepared.scratch_per_wave != 0 {
            let given = self.assign_scratch(packet, queue, &mut prepared)?;
            if let scratch::Given::Blocked(blocked) = given {
                return Ok(Packet::Blocked(blocked));
            }
            main_scratch = matches!(given, scratch::Given::Main);
            if let (Some(at), Some(queue)) = (at, queue) {
                self.note_use(at, queue, &given)?;
            }
        }
        let profiling = queue.is_some_and(profiles);
        let inactive_signal = queue.map_or(0, |queue| queue.queue_inactive_signal);
        let start = profiling.then(|| self.state.now());
        let kept = self.keep(packet);
        let index = self.fetch_index;
        let in_flight = InFlight::new(&self.state, index, packet, start, inactive_signal);
        let in_flight = Arc::new(in_flight.with(kept));
        let once = QUEUE_PROPERTIES_USE_SCRATCH_ONCE;
        if main_scratch && queue.is_some_and(|queue| queue.queue_properties & once != 0) {
            self.waiting = Waiting::Reclaim;
        }
        if self.state.tools.may_strike() {
            prepared.launch.hangs = self.wave_hangs(packet.kernel_object);
        }
        let grid = prepared.launch.grid;
        self.tell_of_dispatch(packet.kernel_object, &prepared.launch);
        let owner = Arc::clone(&in_flight);
        self.shader
            .submit(&self.state.shader, prepared.launch, owner)
            .map_err(|_| Cause::Dimensions { dimensions: packet.setup & 3, grid })?;
        Ok(Packet::Started(Some(in_flight)))
    }

    /// Fills in the fields of a launch that depend on the queue and on the packet's place in it.
    fn complete_launch(&self, launch: &mut Launch, index: u64) {
        launch.packet = self.config.place(index) as u32;
        launch.trap = self.config.trap;
        launch.doorbell = self.config.identity.doorbell_id();
        launch.cus = self.config.cus;
        launch.shares = self.config.shares;
        launch.queue_ids = (self.shader.chip().shader.queue_ids)(self.config.identity.place());
    }

    /// Returns the `amd_queue_t` and its address; `None` if the read index is not part of one.
    fn amd_queue(&self) -> Result<Option<(u64, AmdQueue)>, Cause> {
        let mut queue = AmdQueue::new_zeroed();
        let at = self.read_amd_queue(&self.state.space().enter(), &mut queue)?;
        Ok(at.map(|at| (at, queue)))
    }

    /// Reads the `amd_queue_t` within a slice of the queue's address space. Returns its address, if there is one.
    fn read_amd_queue(&self, space: &Slice<'_>, queue: &mut AmdQueue) -> Result<Option<u64>, Cause> {
        let failed = |fault: Fault| Cause::Memory { what: "amd_queue_t", fault };
        let field = self.config.rptr_report.wrapping_add(BASE_OFFSET_FIELD);
        let offset = space.load_u32(field).map_err(failed)?;
        if u64::from(offset) != belfry_abi::aql::QUEUE_READ_DISPATCH_ID_OFFSET {
            return Ok(None);
        }
        let base = self.config.rptr_report.wrapping_sub(u64::from(offset));
        space.read_bytes(base, queue.as_mut_bytes()).map_err(failed)?;
        Ok(Some(base))
    }
}

impl QueueEngine for AqlQueue {
    fn service(&mut self) -> Progress<EngineError> {
        Self::service(self).map_error(Into::into)
    }

    /// Returns within a few thousand instructions.
    fn suspend(&mut self) {
        self.state.shader.suspend();
        // A suspended queue does not complete signals that injected faults hold back: they are written now.
        self.complete_late(true);
        // Completed packets are retired now: the saved read index must not lead to them again. If the ring has become
        // inaccessible, the next service says so.
        if let Err(cause) = self.retire() {
            log::debug!(target: "gpu::cp", "not retired at suspension: {cause}");
        }
    }

    fn resume(&mut self) {
        self.shader.resume(&self.state.shader);
    }

    fn hangs(&self) -> bool {
        self.hangs
    }

    fn rung(&mut self, value: u64) {
        self.check_doorbell(value);
    }

    /// Drops waves within a few thousand instructions.
    fn stop(&mut self) {
        self.waiting = Waiting::Stopped;
        self.shader.remove(&self.state.shader);
    }

    /// Returns true if packets were started and not retired, or one is half processed.
    fn is_busy(&self) -> bool {
        match self.waiting {
            Waiting::Stopped => false,
            Waiting::Nothing => !self.started.is_empty(),
            Waiting::Inactive(_) | Waiting::Reclaim | Waiting::Pm4(_) | Waiting::Context(_) => true,
        }
    }

    fn read_index(&self) -> u64 {
        self.read_index
    }

    fn save(&mut self, area: Option<&ContextArea>) -> Result<Saving, EngineError> {
        self.save_context(area).map_err(Into::into)
    }
}

impl Drop for AqlQueue {
    fn drop(&mut self) {
        self.stop();
    }
}

fn profiles(queue: &AmdQueue) -> bool {
    queue.queue_properties & QUEUE_PROPERTIES_ENABLE_PROFILING != 0
}

fn parse<T: FromBytes>(packet: &[u32; 16]) -> Result<T, Cause> {
    // Every packet structure has 64 bytes, but the type system cannot know that.
    T::read_from_bytes(packet.as_bytes()).map_err(|_| Cause::PacketLength)
}
