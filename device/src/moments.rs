//! The moments of the device that tools look at, or change: one list for faults, traces, breakpoints and checks.
//!
//! | noun | what it is |
//! | --- | --- |
//! | [`Moment`] | a step of a part of the device, with the values that tools need |
//! | [`At`] | a moment with its owner and its job |
//! | [`Packet`], [`Met`] | the moment in front of a packet of a queue, and a queue's memory of it |
//! | [`Verdict`] | the answer of the tools: what the part does now |
//! | [`Asked`] | the tools that ask for moments |
//!
//! A part tells a moment to [`Tools`](crate::tools::Tools) alone and obeys the verdict. While no tool asks, the moment
//! is not even made: it costs one load.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_isa::mem::Fault;

use crate::faults::Rule;
use crate::guest_error::GuestError;
use crate::sanitize::Removed;
use crate::trace::{Engine, Job, Owner, Way};

/// A step of a part of the device.
#[derive(Clone, Copy)]
pub(crate) enum Moment<'a> {
    /// A doorbell was rung. `count` doorbells were rung in this way until now.
    Rung { offset: DoorbellOffset, value: u64, way: Way, count: u64 },
    /// The device has noticed a doorbell that was rung.
    Noticed { doorbell: DoorbellIndex },
    /// A queue or a ring that does nothing else is about to hear its doorbell: it may miss it, or hear it late.
    Heard { doorbell: DoorbellIndex },

    /// The firmware is about to execute a frame or a packet: it may leave it unanswered, refuse it, or be late.
    Frame { what: &'a str, doorbell: DoorbellIndex },
    /// The MES has answered a frame, or not.
    FrameDone { opcode: u32, done: bool },
    /// The hardware scheduler has executed a packet of the HIQ, or not.
    HiqDone { header: u32, done: bool },
    /// The driver gives the scheduler VMIDs and hardware queues.
    Resources,
    /// The driver has added a queue, by the address of its MQD; it begins at a packet.
    QueueAdded { doorbell: DoorbellIndex, mqd: u64, read_index: Option<u64> },
    /// A queue was put on a hardware slot.
    QueueMapped { doorbell: DoorbellIndex, pipe: u8, queue: u8 },
    /// A queue was taken off its slot.
    QueueUnmapped { doorbell: DoorbellIndex },
    /// The driver has removed a queue with work left.
    QueueRemoved(&'a Removed),

    /// A dispatch is about to be handed to the compute units: its first wave may hang.
    Dispatch { kernel: &'a dyn Fn() -> String },
    /// A dispatch is handed to the compute units.
    Launch { kernel_object: u64, grid: [u32; 3], workgroup: [u32; 3], name: &'a str },
    /// A dispatch has ended.
    DispatchEnd { failed: bool },
    /// A completion signal is about to be written: it may be late.
    Signal { address: u64 },
    /// A completion signal was written; `before` is the value that was decremented.
    SignalWritten { address: u64, event: Option<u32>, before: Option<i64> },
    /// An SDMA packet begins to move bytes; `from` and `to` are numbers of other GPUs whose VRAM they come from and go to.
    TransferBegins { bytes: u64, from: Option<u8>, to: Option<u8> },
    /// An SDMA packet is about to move bytes to an address: its engine may hang, or write wrong bytes.
    Transfer { to: u64 },
    /// An SDMA packet has moved its bytes, from and to the VRAM of these other GPUs; `total` bytes were moved by its queue until now.
    TransferEnds { bytes: u64, total: u64, from: Option<u8>, to: Option<u8> },

    /// Page tables are about to be walked: the walk may find no entry.
    Walk { va: u64 },
    /// Memory in VRAM is about to be read by a wave that fills its TLB, or by an SDMA engine: it may be poisoned.
    VramRead { va: u64 },
    /// The TLBs of a process are about to be invalidated: they may miss it.
    Invalidation,
    /// An access did not translate; it may be tried again until it goes through.
    PageFault { fault: &'a Fault, retried: bool },

    /// The host reads a register, by its offset in the BAR.
    RegisterRead { offset: u64 },
    /// A register was written, by its absolute index in dwords.
    RegisterWritten { dword: u32, value: u32 },

    /// An entry is about to be written to the interrupt ring.
    Entry { client: u8, source: u8 },
    /// An entry was written to the interrupt ring; `time` is before that.
    EntryWritten { client: u8, source: u8, context: u32, time: Duration },
    /// A vector is about to be raised at the host: it may get lost, be late, or come twice.
    Message,
    /// A vector was raised at the host.
    Raised { vector: u16 },

    /// A worker begins workgroups, of which this is the first one, or goes on with one.
    WorkgroupsBegin { worker: u32, id: [u32; 3], resumed: bool, in_use: &'a InUse },
    /// A worker is done with workgroups, or puts one aside.
    WorkgroupsEnd { worker: u32, work: &'a WorkDone },

    /// The function is reset.
    Reset,
    /// The device refuses a request, or has lost something.
    Refused { error: GuestError, details: fmt::Arguments<'a> },
    /// The device has met an error of a guest that hardware handles in its own way.
    Handled { error: GuestError, details: fmt::Arguments<'a> },
    /// A field of a request is not modelled.
    Unmodelled { name: &'a str, details: fmt::Arguments<'a> },
}

/// Resources of the compute units that are in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InUse {
    /// Waves of the dispatch's queue.
    pub(crate) waves: u64,
    /// Bytes of LDS.
    pub(crate) lds: u64,
    /// Vector registers.
    pub(crate) vgprs: u64,
}

/// Work that a worker has done since it began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkDone {
    /// Workgroups that have ended.
    pub(crate) ended: u64,
    /// Waves that have ended.
    pub(crate) waves: u64,
    /// Instructions that were executed.
    pub(crate) instructions: u64,
    /// Fate of the last workgroup: 0 it ended, 1 it was put aside, 2 its queue is stopping, 3 it failed.
    pub(crate) outcome: u8,
    /// Translations that the worker's TLB did not have.
    pub(crate) tlb_misses: u64,
    /// Page walks of the device until now.
    pub(crate) all_walks: u64,
    /// Instructions of all workers until now.
    pub(crate) all_instructions: u64,
    /// Translations that were in no worker's TLB until now.
    pub(crate) all_tlb_misses: u64,
}

/// A moment with its place.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) moment: Moment<'a>,
    pub(crate) owner: Owner,
    /// The job; absent if it is the one that the thread works for.
    pub(crate) job: Option<Job>,
}

impl<'a> Moment<'a> {
    /// The moment of this owner.
    pub(crate) fn of(self, owner: Owner) -> At<'a> {
        At { moment: self, owner, job: None }
    }

    /// The moment of an engine as a whole, and of the queue that the moment names.
    pub(crate) fn on(self, engine: Engine) -> At<'a> {
        let doorbell = match self {
            Self::Rung { offset, .. } => offset.whole().index().map(DoorbellIndex::dwords),
            Self::Noticed { doorbell }
            | Self::Heard { doorbell }
            | Self::Frame { doorbell, .. }
            | Self::QueueAdded { doorbell, .. }
            | Self::QueueMapped { doorbell, .. }
            | Self::QueueUnmapped { doorbell } => Some(doorbell.dwords()),
            _ => None,
        };
        self.of(Owner { doorbell, ..Owner::of(engine) })
    }
}

impl At<'_> {
    /// The moment in this job.
    pub(crate) fn in_job(self, job: Job) -> Self {
        Self { job: Some(job), ..self }
    }
}

/// Streams of packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Stream {
    /// AQL packets.
    Aql,
    /// PM4 packets of a compute queue.
    Pm4,
    /// Packets of an SDMA queue.
    Sdma,
}

/// The moment in front of a packet: its queue may be halted there, or hang.
#[derive(Clone, Copy)]
pub(crate) struct Packet<'a> {
    pub(crate) stream: Stream,
    pub(crate) owner: Owner,
    /// Name of its kind.
    pub(crate) kind: &'static str,
    /// Its place in the ring.
    pub(crate) index: u64,
    /// Its address in the innermost indirect buffer.
    pub(crate) inner: Option<u64>,
    /// Finds the name of its kernel, if it dispatches one. That takes a while.
    pub(crate) kernel: Option<&'a dyn Fn() -> String>,
}

/// State that the tools keep of a queue. It is not part of a saved queue.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// The last packet that was told: its place in the ring, and in the innermost indirect buffer.
    pub(crate) packet: Option<(u64, Option<u64>)>,
    /// The packet in front of which a client has looked for code, for breakpoints at source lines.
    pub(crate) looked: Option<u64>,
}

/// Answer of the tools at a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub(crate) enum Verdict {
    /// Nothing is changed.
    GoOn,
    /// The part waits in front of the step: the device is halted.
    Halt,
    /// The part stays there for good.
    Hang,
    /// The step gets lost.
    Lose,
    /// The step is held back until this time of the device.
    Delay(Duration),
    /// The step happens twice.
    Twice,
    /// The step is refused, or fails.
    Refuse,
    /// The step writes a wrong value.
    Corrupt,
    /// A fault strikes that only this part knows.
    Strike(Rule),
}

/// A tool, or a state of one, that parts of the device ask for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub(crate) enum Asks {
    /// A fault can strike.
    Faults = 1,
    /// Events are recorded.
    Trace = 1 << 1,
    /// Drivers, runtimes and kernels are checked.
    Checks = 1 << 2,
    /// Breakpoints wait for packets.
    Packets = 1 << 3,
    /// Breakpoints wait for writes of registers.
    Registers = 1 << 4,
    /// Breakpoints wait for lines of sources without code so far.
    Lines = 1 << 5,
    /// Breakpoints wait for waves.
    Waves = 1 << 6,
    /// Kernels' work is counted.
    Counts = 1 << 7,
    /// Everything stands still.
    Halted = 1 << 8,
}

/// Tools that hear of moments; the others are asked at turns of workers and passes alone.
const HEAR: u32 = Asks::Faults as u32
    | Asks::Trace as u32
    | Asks::Checks as u32
    | Asks::Counts as u32
    | Asks::Packets as u32
    | Asks::Registers as u32
    | Asks::Lines as u32;

/// The tools that ask for something.
#[derive(Debug, Default)]
pub(crate) struct Asked(AtomicU32);

impl Asked {
    /// Returns true if a tool asks for moments.
    #[inline(always)]
    pub(crate) fn any_hears(&self) -> bool {
        self.0.load(Ordering::Relaxed) & HEAR != 0
    }

    /// Returns true if a tool asks for this.
    #[inline(always)]
    pub(crate) fn has(&self, asks: Asks) -> bool {
        self.0.load(Ordering::Relaxed) & asks as u32 != 0
    }

    /// Changes a request; returns true if it was there.
    pub(crate) fn set(&self, asks: Asks, on: bool) -> bool {
        let bit = asks as u32;
        let before = if on {
            self.0.fetch_or(bit, Ordering::SeqCst)
        } else {
            self.0.fetch_and(!bit, Ordering::SeqCst)
        };
        before & bit != 0
    }
}
