//! SDMA queues: copies and fills of memory beside the compute queues.
//!
//! Pointers count bytes, for ever: the write pointer in memory and the reported read pointer, both of 64 bits. Packets
//! are executed in order and to their end, so that a fence has nothing to wait for. The read pointer passes a packet
//! when it has been executed; an indirect buffer counts as executed at its end. A queue is preempted between two
//! packets, or within a packet that moves many bytes: its [`DmaContext`] holds its position. If faults are tried again
//! (XNACK), a queue whose packet finds no page stays at it, and may be preempted there.
//!
//! The device thread executes packets; the bytes of long ones are moved by the thread of the queue's engine
//! ([`Movers`]).

mod error;
mod kernel;
mod moments;
mod mover;
mod notice;
mod packets;
mod save;
mod transfer;

use std::sync::Arc;

use belfry_abi::sdma::Header;
use zerocopy::IntoBytes;

use crate::chip::SdmaPackets;
use crate::cp::CpEnv;
use crate::queue::{
    BlockedOn, ContextArea, DmaBuffer, DmaContext, EngineError, Progress, QueueEngine, QueueIdentity, Saving,
};
use crate::spent::{self, Part};
use crate::vm::{AddressSpace, FaultKind};
use error::memory;
pub use error::{SdmaError, SdmaStopped};
use moments::Watched;
pub use mover::Movers;
use mover::Moving;
pub(crate) use notice::RingNotice;
use packets::Packet;
pub(crate) use save::SavedSdma;
use transfer::{quad, refuse};

/// Most SDMA engines of a GPU.
pub const MAX_ENGINES: u8 = 16;
/// Packets executed before other queues have their turn.
const PACKETS_PER_SERVICE: usize = 256;
/// Bytes moved before other queues have their turn.
const BYTES_PER_SERVICE: u64 = 2 << 20;
/// Fewest bytes that are left to the engine's thread: moving less takes no longer than waking it.
const LEAST_FOR_ENGINE: u64 = 256 << 10;

/// `SDMA0_STATUS_REG` of an engine that has nothing to do.
const IDLE_STATUS: u32 = 0x46de_e557;
/// Bits of the status that are 0 while the engine moves bytes: IDLE, RB_EMPTY, EX_IDLE, MC_WR_IDLE and MC_RD_IDLE
/// (linux `gc_11_0_0_sh_mask.h`).
const MOVING: u32 = 1 | 1 << 2 | 1 << 10 | 1 << 13 | 1 << 19;

/// Returns `SDMA0_STATUS_REG` of an engine that moves bytes, or does not.
pub(crate) fn status(moves: bool) -> u32 {
    if moves { IDLE_STATUS & !MOVING } else { IDLE_STATUS }
}

/// Registers that an SDMA queue runs from.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub struct SdmaConfig {
    /// Identity of the queue in interrupts: `me` is the number of the engine.
    pub identity: QueueIdentity,
    /// Address of the ring, `SDMA0_QUEUE0_RB_BASE << 8`.
    pub ring_base: u64,
    /// Bytes of the ring, a power of two.
    pub ring_bytes: u64,
    /// `SDMA0_QUEUE0_RB_RPTR_ADDR`: address to which the read pointer is written, 64 bits.
    pub rptr_report: u64,
    /// `SDMA0_QUEUE0_RB_WPTR_POLL_ADDR`: address of the 64-bit count of bytes that producers have written.
    ///
    /// Drivers set `F32_WPTR_POLL_ENABLE`, and producers write here before they ring the doorbell with the same value.
    pub wptr_poll: u64,
    /// First byte to read, counted as the write pointer; 0 for a new queue.
    pub read_index: u64,
    /// True for a ring of the kernel's: its packets reach registers, page tables and the memory of other VMIDs.
    pub kernel: bool,
}

/// Environment that the SDMA queues of a device share; cheap to clone.
#[derive(Clone, Debug)]
pub struct SdmaEnv {
    /// Parts that they share with the queues of the packet processor: clock, interrupts, the wake-up of the device
    /// thread.
    pub cp: CpEnv,
    /// The threads of the engines.
    pub movers: Arc<Movers>,
    /// Form of packets.
    pub packets: SdmaPackets,
}

/// An SDMA queue on a hardware slot.
pub struct SdmaQueue {
    config: SdmaConfig,
    space: Arc<AddressSpace>,
    env: SdmaEnv,
    /// Next byte of the ring.
    read_index: u64,
    /// Read pointer that was last reported.
    reported: Option<u64>,
    context: DmaContext,
    /// VMID of its indirect buffer.
    buffer_vmid: u8,
    /// Address space of its indirect buffer, if it is not its own.
    buffer_space: Option<Arc<AddressSpace>>,
    /// The packet at the read pointer, while its engine moves bytes for it.
    moving: Option<Moving>,
    stopped: bool,
    /// True if it stays at its packet for good.
    hangs: bool,
    watched: Watched,
}

/// Result of an attempt to go on.
enum Step {
    /// A packet has been executed.
    Advanced,
    /// A part of a packet has been executed.
    Part,
    /// A packet waits for memory.
    Waits,
    /// The engine's thread moves the bytes of a packet, and wakes the device thread at their end.
    Moves,
    /// There is no whole packet.
    Empty,
}

impl std::fmt::Debug for SdmaQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SdmaQueue")
            .field("config", &self.config)
            .field("read_index", &self.read_index)
            .field("context", &self.context)
            .field("moving", &self.moving)
            .field("stopped", &self.stopped)
            .finish_non_exhaustive()
    }
}

impl SdmaQueue {
    /// Makes a queue as its registers describe it, running in `space`, that goes on where another one has left off.
    #[must_use]
    pub fn new(config: SdmaConfig, space: Arc<AddressSpace>, env: &SdmaEnv, context: DmaContext) -> Self {
        let read_index = config.read_index & !3;
        Self {
            config,
            space,
            env: env.clone(),
            read_index,
            reported: None,
            context,
            buffer_vmid: config.identity.vmid,
            buffer_space: None,
            moving: None,
            stopped: false,
            hangs: false,
            watched: Watched::default(),
        }
    }

    /// Returns the registers that it runs from.
    pub(crate) fn config(&self) -> &SdmaConfig {
        &self.config
    }

    /// Executes the packets that can be executed.
    ///
    /// Call it when the doorbell has rung, and again soon while it says [`Progress::Advanced`] or
    /// [`BlockedOn::Memory`], or when it has woken the device thread while it says [`BlockedOn::Dispatches`]. The write
    /// pointer in memory tells how far producers have got.
    pub fn service(&mut self) -> Progress<SdmaStopped> {
        let _packets = spent::enter(Part::Sdma);
        if self.stopped || self.hangs {
            return Progress::Idle;
        }
        match self.execute_some().and_then(|progress| self.report().map(|()| progress)) {
            Ok(progress) => progress,
            Err(error) if self.tries_again(&error) => Progress::Blocked(BlockedOn::Memory),
            Err(error) => self.fail(error),
        }
    }

    /// Returns true if the packet is executed again from its position because it waits for a page (XNACK). The driver
    /// is told of the page, but not at every try.
    fn tries_again(&self, error: &SdmaError) -> bool {
        let Some(fault) = error.fault() else { return false };
        let tries = self.space.tries_again(&fault);
        if tries == Some(true) {
            self.env.cp.interrupts.sdma_retry(&self.config.identity, &fault);
        }
        tries.is_some()
    }

    fn execute_some(&mut self) -> Result<Progress<SdmaStopped>, SdmaError> {
        let (mut budget, mut advanced) = (BYTES_PER_SERVICE, false);
        for _ in 0..PACKETS_PER_SERVICE {
            match self.step(&mut budget)? {
                Step::Advanced if budget > 0 => advanced = true,
                Step::Advanced | Step::Part => return Ok(Progress::Advanced),
                Step::Waits | Step::Empty if advanced => return Ok(Progress::Advanced),
                Step::Waits => return Ok(Progress::Blocked(BlockedOn::Memory)),
                Step::Moves => return Ok(Progress::Blocked(BlockedOn::Dispatches)),
                Step::Empty => return Ok(Progress::Idle),
            }
        }
        Ok(Progress::Advanced)
    }

    /// Stops at a packet that cannot be executed, and informs the driver.
    fn fail(&mut self, error: SdmaError) -> Progress<SdmaStopped> {
        let identity = &self.config.identity;
        match error.fault() {
            Some(fault) if fault.kind == FaultKind::Poison => self.env.cp.interrupts.sdma_poison(identity),
            Some(fault) => self.env.cp.interrupts.sdma_fault(identity, &fault),
            None => self.env.cp.interrupts.sdma_stopped(identity),
        }
        let error = SdmaStopped { packet: self.read_index, error };
        log::debug!(target: "gpu::sdma", "SDMA queue stopped doorbell={:#x} {error}", identity.doorbell);
        self.stopped = true;
        Progress::Error(error)
    }

    /// Returns the dwords written and not read yet.
    fn available(&self) -> Result<u64, SdmaError> {
        let written = self.space.load_u64(self.config.wptr_poll).map_err(memory("write pointer"))?;
        // A write pointer behind the read pointer can only be a producer's mistake.
        let ahead = u64::try_from(written.wrapping_sub(self.read_index).cast_signed()).unwrap_or(0);
        let ring = self.config.ring_bytes;
        if ahead > ring { Err(SdmaError::WritePointer { ahead, ring }) } else { Ok(ahead / 4) }
    }

    /// Copies dwords from `ahead` of the next packet on: of the buffer, or of the ring.
    fn read(&self, ahead: u64, out: &mut [u32]) -> Result<(), SdmaError> {
        if let Some(DmaBuffer { at, .. }) = self.context.buffer {
            let from = at.wrapping_add(ahead * 4);
            return self.space_here().read_bytes(from, out.as_mut_bytes()).map_err(memory("indirect buffer"));
        }
        let ring = self.config.ring_bytes.max(4);
        let at = self.read_index.wrapping_add(ahead * 4) % ring;
        let (first, second) = out.split_at_mut(out.len().min(((ring - at) / 4) as usize));
        self.space
            .read_bytes(self.config.ring_base.wrapping_add(at), first.as_mut_bytes())
            .and_then(|()| self.space.read_bytes(self.config.ring_base, second.as_mut_bytes()))
            .map_err(memory("ring"))
    }

    /// Executes the next packet, if there is a whole one.
    fn step(&mut self, budget: &mut u64) -> Result<Step, SdmaError> {
        match self.moving.as_ref().map(Moving::end) {
            None => {}
            Some(None) => return Ok(Step::Moves),
            Some(Some((done, end))) => {
                self.moving = None;
                self.context.done = done;
                end?;
            }
        }
        // Dwords that are there, and most dwords that could be.
        let (available, most) = match self.context.buffer {
            Some(DmaBuffer { left, .. }) => (u64::from(left), u64::from(left)),
            None => (self.available()?, self.config.ring_bytes / 4),
        };
        let mut head = [0; packets::HEAD];
        let head = &mut head[..available.min(packets::HEAD as u64) as usize];
        self.read(0, head)?;
        let Some(&first) = head.first() else { return Ok(Step::Empty) };
        let header = Header::from_bits(first);
        let overrun = |dwords| SdmaError::Overrun { header, dwords, left: most };
        let Some(dwords) = packets::length((self.env.packets, self.config.kernel), head)? else {
            return if most < packets::HEAD as u64 || self.context.buffer.is_some() {
                Err(overrun(packets::HEAD as u32))
            } else {
                Ok(Step::Empty)
            };
        };
        if u64::from(dwords) > most {
            return Err(overrun(dwords));
        }
        if u64::from(dwords) > available {
            return Ok(Step::Empty);
        }
        let mut packet = vec![0; dwords as usize];
        self.read(0, &mut packet)?;
        let Ok(_scope) = self.meet(header) else { return Ok(Step::Waits) };
        let skip = match self.execute(&packets::parse(self.env.packets, &packet)?, budget)? {
            Effect::Done => 0,
            Effect::Part => return Ok(Step::Part),
            Effect::Waits => return Ok(Step::Waits),
            Effect::Moves => return Ok(Step::Moves),
            Effect::Skip(dwords) => dwords,
            Effect::Enter(buffer) => {
                self.read_index = self.read_index.wrapping_add(u64::from(dwords) * 4);
                self.context.buffer = (buffer.left != 0).then_some(buffer);
                return Ok(Step::Advanced);
            }
        };
        let end = u64::from(dwords) + u64::from(skip);
        if end > most {
            return Err(SdmaError::Skip { dwords: skip, left: most - u64::from(dwords) });
        }
        if end > available {
            return Ok(Step::Empty);
        }
        self.advance(end);
        Ok(Step::Advanced)
    }

    /// Moves on by this many dwords, and out of a buffer that is at its end.
    fn advance(&mut self, dwords: u64) {
        self.end_transfer();
        self.context.done = 0;
        match &mut self.context.buffer {
            None => self.read_index = self.read_index.wrapping_add(dwords * 4),
            Some(buffer) => {
                buffer.at = buffer.at.wrapping_add(dwords * 4);
                buffer.left = buffer.left.saturating_sub(dwords as u32);
                if buffer.left == 0 {
                    self.context.buffer = None;
                }
            }
        }
    }

    /// Reads the engine's own counter.
    fn clock(&self) -> u64 {
        self.env.cp.clock.ticks().wrapping_add(self.context.clock)
    }

    fn execute(&mut self, packet: &Packet, budget: &mut u64) -> Result<Effect, SdmaError> {
        let here = Arc::clone(self.space_here());
        let space = &*here;
        match packet {
            Packet::Nop | Packet::Caches => {}
            Packet::Transfer(transfer) => {
                if self.meet_transfer(transfer) {
                    return Ok(Effect::Waits);
                }
                if transfer.bytes() - self.context.done.min(transfer.bytes()) >= LEAST_FOR_ENGINE {
                    let (engine, done) = (self.config.identity.me, self.context.done);
                    self.moving = self.env.movers.start(engine, (transfer, done), &here, &self.env.cp.wake);
                    if self.moving.is_some() {
                        return Ok(Effect::Moves);
                    }
                }
                transfer.run(space, &mut self.context.done, budget)?;
                if self.context.done < transfer.bytes() {
                    return Ok(Effect::Part);
                }
                if self.take_corruption() {
                    let wrong: u8 = space.read(transfer.to()).map_err(memory("COPY"))?;
                    space.write(transfer.to(), &(wrong ^ 1)).map_err(memory("COPY"))?;
                }
            }
            Packet::Write { to, data } => {
                space.write_bytes(*to, data.as_bytes()).map_err(memory("WRITE"))?;
                *budget = budget.saturating_sub(data.len() as u64 * 4);
            }
            Packet::Fence { .. } | Packet::Atomic(_) if self.waits_for_flush() => return Ok(Effect::Waits),
            Packet::Fence { at, value } => space.store_u32(*at, *value).map_err(memory("FENCE"))?,
            Packet::Trap { context } => self.env.cp.interrupts.sdma_trap(&self.config.identity, *context),
            Packet::Poll(poll) if packets::is_of_register(poll) && self.config.kernel => {
                return Ok(Effect::over(self.poll_register(poll)?));
            }
            Packet::Poll(poll) => return Ok(Effect::over(packets::poll(poll, space)?)),
            Packet::Atomic(atomic) => return Ok(Effect::over(packets::atomic(atomic, space)?)),
            Packet::CondExe(packet) => {
                let at = quad(packet.addr_lo, packet.addr_hi);
                let value = space.load_u32(at).map_err(memory("COND_EXE"))?;
                let skipped = packet.exec_count & 0x3fff;
                return Ok(Effect::Skip(if value == packet.reference { 0 } else { skipped }));
            }
            Packet::Indirect(packet) => {
                if self.context.buffer.is_some() {
                    return Err(SdmaError::Nesting);
                }
                refuse("INDIRECT priv", packet.header.privileged())?;
                self.enter_vmid(packet.header.vmid())?;
                let at = quad(packet.base_lo & !31, packet.base_hi);
                return Ok(Effect::Enter(DmaBuffer { at, left: packet.size & 0xf_ffff }));
            }
            Packet::Kernel(packet) => self.execute_kernel(packet, space, budget)?,
            Packet::SetClock(value) => self.context.clock = value.wrapping_sub(self.env.cp.clock.ticks()),
            Packet::GetClock { at, global } => {
                let now = if *global { self.env.cp.clock.ticks() } else { self.clock() };
                space.store_u64(*at, now).map_err(memory("TIMESTAMP"))?;
            }
        }
        Ok(Effect::Done)
    }

    /// Returns true if packets that announce copies wait, because the copied memory may still be flushed in time; for
    /// the sanitizer.
    fn waits_for_flush(&self) -> bool {
        let identity = &self.config.identity;
        self.env.cp.tools.sanitizer().is_some_and(|sanitizer| {
            let (pasid, doorbell) = (identity.pasid, identity.doorbell.dwords());
            sanitizer.waits_for_flush(self.space.memory(), |misuse| misuse.of(pasid, doorbell))
        })
    }

    /// Reports the read pointer, unless packets of an indirect buffer are left.
    fn report(&mut self) -> Result<(), SdmaError> {
        if self.context.buffer.is_some() || self.reported == Some(self.read_index) {
            return Ok(());
        }
        self.space.store_u64(self.config.rptr_report, self.read_index).map_err(memory("read pointer"))?;
        self.reported = Some(self.read_index);
        Ok(())
    }
}

/// Work that is left to do after a packet.
enum Effect {
    /// No work.
    Done,
    /// More of the packet.
    Part,
    /// Its condition does not hold: execute it again later.
    Waits,
    /// The bytes that the engine's thread moves.
    Moves,
    /// Go on after this many dwords that follow.
    Skip(u32),
    /// Go on in this buffer.
    Enter(DmaBuffer),
}

impl Effect {
    fn over(over: bool) -> Self {
        if over { Self::Done } else { Self::Waits }
    }
}

impl QueueEngine for SdmaQueue {
    fn service(&mut self) -> Progress<EngineError> {
        Self::service(self).map_error(Into::into)
    }

    fn suspend(&mut self) {
        if let Some(moving) = self.moving.take() {
            self.context.done = moving.stop();
        }
    }

    /// Does nothing: the next service reads the packet again, and goes on with it.
    fn resume(&mut self) {}

    fn hangs(&self) -> bool {
        self.hangs
    }

    /// Ends the engine. The caller has read [`dma_context`](QueueEngine::dma_context) for the next one.
    fn save(&mut self, _area: Option<&ContextArea>) -> Result<Saving, EngineError> {
        self.stop();
        Ok(Saving::Done(None))
    }

    fn stop(&mut self) {
        self.suspend();
        self.stopped = true;
    }

    fn is_busy(&self) -> bool {
        (self.context.is_busy() || self.moving.is_some()) && !self.stopped
    }

    fn read_index(&self) -> u64 {
        self.read_index
    }

    fn dma_context(&self) -> Option<DmaContext> {
        Some(self.context)
    }
}
