//! The steps of a packet through the device.

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_isa::exec::Class;

use super::record::{ARGUMENTS, Kind};
use super::{Counter, Engine, Owner};

/// Ways in which the device learns of a doorbell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// The write was an access.
    Trapped,
    /// The host announced a write.
    Woken,
    /// The value in the page had changed.
    Polled,
}

impl Way {
    /// The name of the way with this number in records.
    #[must_use]
    pub const fn name(number: u64) -> &'static str {
        match number {
            0 => "trapped",
            1 => "woken",
            2 => "polled",
            _ => "unknown",
        }
    }
}

/// A memory that waves access with instructions of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Path {
    /// Global memory by vector instructions.
    Global,
    /// LDS.
    Lds,
    /// Global memory by scalar instructions.
    Scalar,
    /// Private memory by its own instructions.
    Private,
}

impl Path {
    /// Name of the memory.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Lds => "LDS",
            Self::Scalar => "scalar",
            Self::Private => "private",
        }
    }
}

/// One step; the numbers are what a reader needs to follow one dispatch through the device.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A doorbell was rung.
    Doorbell {
        /// Its place in BAR2.
        offset: DoorbellOffset,
        /// Value written or found; if a write was announced without its value, the value before it.
        value: u64,
        /// Way in which the device learned of it.
        way: Way,
    },
    /// The device noticed a doorbell that was rung, in any way.
    DoorbellSeen {
        /// The doorbell.
        doorbell: DoorbellIndex,
    },
    /// The driver added a queue.
    QueueAdded {
        /// The queue's doorbell.
        doorbell: DoorbellIndex,
    },
    /// The firmware put a queue on a hardware slot.
    QueueMapped {
        /// The queue's doorbell.
        doorbell: DoorbellIndex,
        /// Pipe of the micro engine.
        pipe: u8,
        /// Queue of the pipe.
        queue: u8,
    },
    /// The firmware took a queue off its slot.
    QueueUnmapped {
        /// The queue's doorbell.
        doorbell: DoorbellIndex,
    },
    /// The MES answered (or refused) a frame.
    MesFrame {
        /// Opcode of the frame.
        opcode: u32,
        /// True if its fence was written.
        done: bool,
    },
    /// A packet of the HIQ was executed (or refused).
    HiqPacket {
        /// Its header.
        header: u32,
        /// True if it was executed.
        done: bool,
    },
    /// A packet was read and is executed from now on.
    Packet {
        /// Its name.
        kind: &'a str,
        /// Its place in the queue, in the queue's units.
        index: u64,
    },
    /// A dispatch was handed to the compute units.
    DispatchStart {
        /// Address of the kernel descriptor; if a queue of PM4 packets dispatches, of the first instruction.
        kernel_object: u64,
        /// Work-items of the grid.
        grid: [u32; 3],
        /// Work-items of a workgroup.
        workgroup: [u32; 3],
        /// Name of the kernel in its code object; empty if it is not known.
        name: &'a str,
    },
    /// A dispatch has ended.
    DispatchEnd {
        /// True if an error stopped it.
        failed: bool,
    },
    /// A worker begins workgroups, or goes on with one.
    WorkgroupStart {
        /// The worker.
        worker: u32,
        /// The workgroup, the first one of several.
        id: [u32; 3],
        /// True if the workgroup had begun before.
        resumed: bool,
    },
    /// A worker is done with workgroups, or puts one aside.
    WorkgroupEnd {
        /// The worker.
        worker: u32,
        /// Workgroups that have ended.
        ended: u64,
        /// Waves that have ended.
        waves: u64,
        /// Instructions that were executed.
        instructions: u64,
        /// Fate of the last workgroup: 0 it ended, 1 it was put aside, 2 its queue is stopping, 3 it failed.
        outcome: u8,
        /// Translations that the worker's TLB did not have.
        tlb_misses: u64,
    },
    /// A completion signal was written.
    SignalWritten {
        /// Its address.
        address: u64,
        /// The event that its waiters sleep on.
        event: Option<u32>,
    },
    /// An entry was written to the interrupt ring.
    IhEntry {
        /// Client id.
        client: u8,
        /// Source id.
        source: u8,
        /// The first word of context: of `CP_EOP` the event.
        context: u32,
    },
    /// A vector was raised at the host.
    Interrupt {
        /// The vector.
        vector: u16,
    },
    /// An SDMA packet begins to move bytes.
    SdmaStart {
        /// Number of bytes.
        bytes: u64,
        /// The link to other GPUs that they take; empty if they take none.
        link: &'a str,
    },
    /// An SDMA packet has moved its bytes.
    SdmaEnd {
        /// Number of bytes.
        bytes: u64,
    },
    /// An access did not translate.
    PageFault {
        /// The address.
        address: u64,
        /// True if it was a write.
        write: bool,
        /// True if it is tried again until it goes through.
        retried: bool,
        /// Description of the access.
        text: &'a str,
    },
    /// The device was reset.
    Reset,
    /// Something was refused, or is not modelled.
    Refused {
        /// Its name, and the details.
        text: &'a str,
    },
    /// A planned fault struck.
    Fault {
        /// The number of its moment among those of its hook.
        moment: u64,
        /// The rule, and the place.
        text: &'a str,
    },
    /// Instructions that a profiled kernel has executed until now.
    KernelInstructions {
        /// Address of its first instruction.
        entry: u64,
        /// Class of the instructions.
        class: Class,
        /// Number of instructions.
        count: u64,
    },
    /// Lanes that were on in a profiled kernel.
    KernelLanes {
        /// Address of its first instruction.
        entry: u64,
        /// Instructions that are executed lane by lane.
        instructions: u64,
        /// Lanes that were on in them, added up.
        active: u64,
    },
    /// Accesses of a profiled kernel to a memory.
    KernelMemory {
        /// Address of its first instruction.
        entry: u64,
        /// The memory.
        path: Path,
        /// Executions of instructions, if they are counted.
        accesses: u64,
        /// Bytes that waves, or their lanes, asked for.
        bytes: u64,
        /// Cache lines of global memory, passes over the banks of LDS.
        parts: u64,
        /// Passes that conflicts have added.
        conflicts: u64,
    },
    /// Bytes that the device has moved over a link, since it was made: by SDMA, and by profiled kernels.
    LinkBytes {
        /// Number of the other device.
        peer: u8,
        /// True for bytes to its memory, false for bytes from there.
        is_to: bool,
        /// Number of bytes.
        bytes: u64,
    },
    /// A counter has a value.
    Counter {
        /// The counter.
        counter: Counter,
        /// Its value.
        value: u64,
    },
    /// Something in a driver that records to the same sink.
    Driver {
        /// Kind of the event.
        kind: Kind,
        /// Its arguments, as the kind names them.
        arguments: [u64; 4],
        /// Its name.
        text: &'a str,
    },
}

impl TraceEvent<'_> {
    /// The event in the form of a record: the kind, the arguments, the text.
    #[must_use]
    pub(crate) fn encode(&self) -> (Kind, [u64; ARGUMENTS], &str) {
        let mut arguments = [0; ARGUMENTS];
        let mut put = |values: &[u64]| arguments[..values.len()].copy_from_slice(values);
        let (kind, text) = match *self {
            Self::Doorbell { offset, value, way } => {
                put(&[offset.bytes(), value, way as u64]);
                (Kind::Doorbell, "")
            }
            Self::DoorbellSeen { .. } => (Kind::DoorbellSeen, ""),
            Self::QueueAdded { .. } => (Kind::QueueAdded, ""),
            Self::QueueMapped { pipe, queue, .. } => {
                put(&[pipe.into(), queue.into()]);
                (Kind::QueueMapped, "")
            }
            Self::QueueUnmapped { .. } => (Kind::QueueUnmapped, ""),
            Self::MesFrame { opcode, done } => {
                put(&[opcode.into(), done.into()]);
                (Kind::MesFrame, "")
            }
            Self::HiqPacket { header, done } => {
                put(&[header.into(), done.into()]);
                (Kind::HiqPacket, "")
            }
            Self::Packet { kind, index } => {
                put(&[index]);
                (Kind::PacketRead, kind)
            }
            Self::DispatchStart { kernel_object, grid, workgroup, name } => {
                put(&[kernel_object]);
                let sizes = grid.into_iter().chain(workgroup);
                arguments[1..].iter_mut().zip(sizes).for_each(|(to, size)| *to = size.into());
                (Kind::DispatchStart, name)
            }
            Self::DispatchEnd { failed } => {
                put(&[failed.into()]);
                (Kind::DispatchEnd, "")
            }
            Self::WorkgroupStart { worker, id: [x, y, z], resumed } => {
                put(&[worker.into(), x.into(), y.into(), z.into(), resumed.into()]);
                (Kind::WorkgroupStart, "")
            }
            Self::WorkgroupEnd { worker, ended, waves, instructions, outcome, tlb_misses } => {
                put(&[worker.into(), ended, waves, instructions, outcome.into(), tlb_misses]);
                (Kind::WorkgroupEnd, "")
            }
            Self::SignalWritten { address, event } => {
                put(&[address, event.map_or(0, u64::from)]);
                (Kind::SignalWritten, "")
            }
            Self::IhEntry { client, source, context } => {
                put(&[client.into(), source.into(), context.into()]);
                (Kind::IhEntry, "")
            }
            Self::Interrupt { vector } => {
                put(&[vector.into()]);
                (Kind::Interrupt, "")
            }
            Self::SdmaStart { bytes, link } => {
                put(&[bytes]);
                (Kind::SdmaStart, link)
            }
            Self::SdmaEnd { bytes } => {
                put(&[bytes]);
                (Kind::SdmaEnd, "")
            }
            Self::PageFault { address, write, retried, text } => {
                put(&[address, write.into(), retried.into()]);
                (Kind::PageFault, text)
            }
            Self::Reset => (Kind::Reset, ""),
            Self::Refused { text } => (Kind::Refused, text),
            Self::Fault { moment, text } => {
                put(&[moment]);
                (Kind::Fault, text)
            }
            Self::KernelInstructions { entry, class, count } => {
                put(&[entry, count]);
                (Kind::KernelInstructions, class.name())
            }
            Self::KernelLanes { entry, instructions, active } => {
                put(&[entry, instructions, active]);
                (Kind::KernelLanes, "")
            }
            Self::KernelMemory { entry, path, accesses, bytes, parts, conflicts } => {
                put(&[entry, accesses, bytes, parts, conflicts]);
                (Kind::KernelMemory, path.name())
            }
            Self::LinkBytes { peer, is_to, bytes } => {
                put(&[peer.into(), bytes]);
                (if is_to { Kind::LinkTo } else { Kind::LinkFrom }, "")
            }
            Self::Counter { counter, value } => {
                put(&[counter as u64, value]);
                (Kind::Counter, "")
            }
            Self::Driver { kind, arguments, text } => {
                put(&arguments);
                (kind, text)
            }
        };
        (kind, arguments, text)
    }

    /// The owner of an event that names a doorbell, or that an engine as a whole reports.
    #[must_use]
    pub fn owner(&self, engine: Engine) -> Owner {
        match *self {
            Self::Doorbell { offset, .. } => {
                Owner { doorbell: offset.whole().index().map(DoorbellIndex::dwords), ..Owner::of(engine) }
            }
            Self::DoorbellSeen { doorbell }
            | Self::QueueAdded { doorbell }
            | Self::QueueMapped { doorbell, .. }
            | Self::QueueUnmapped { doorbell } => Owner::queue(engine, doorbell.dwords()),
            _ => Owner::of(engine),
        }
    }
}
