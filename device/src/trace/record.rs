//! Events as records of a fixed size; files and rings consist of them.

use super::{Engine, Job, Owner};

/// Arguments of a record.
pub const ARGUMENTS: usize = 7;
/// 64-bit words of a record.
pub(super) const WORDS: usize = 5 + ARGUMENTS;
/// Bytes of text in each further record after one that has text.
pub(super) const TEXT_BYTES: usize = (WORDS - 2) * 8;
/// The most bytes of text of an event.
pub const MAX_TEXT: usize = 240;
/// Doorbell of events of no queue.
const NO_DOORBELL: u32 = u32::MAX;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, [$($argument:literal),*];)*) => {
        /// Kinds of events, as they are numbered in records.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(u16)]
        pub enum Kind { $($(#[$doc])* $name = $number,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The kind with this number.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// Returns true if a driver records events of this kind, and not the device.
            #[must_use]
            pub const fn is_driver(self) -> bool {
                self as u16 >= Self::IoctlEnter as u16
            }

            /// Name of the kind.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Names of its arguments.
            #[must_use]
            pub const fn arguments(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($argument),*],)* }
            }
        }
    };
}

kinds! {
    /// A doorbell was rung.
    Doorbell = 1, "doorbell", ["offset", "value", "way"];
    /// The device noticed a doorbell.
    DoorbellSeen = 2, "doorbell seen", [];
    /// A driver added a queue.
    QueueAdded = 3, "queue added", [];
    /// A queue was put on a hardware slot.
    QueueMapped = 4, "queue mapped", ["pipe", "queue"];
    /// A queue was taken off its slot.
    QueueUnmapped = 5, "queue unmapped", [];
    /// The MES answered a frame.
    MesFrame = 6, "MES frame", ["opcode", "done"];
    /// A packet of the HIQ was executed.
    HiqPacket = 7, "HIQ packet", ["header", "done"];
    /// A packet was read from a queue.
    PacketRead = 8, "packet", ["index"];
    /// A dispatch was handed to the compute units.
    DispatchStart = 9, "dispatch start", ["kernel_object", "grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z"];
    /// The last workgroup of a dispatch has ended.
    DispatchEnd = 10, "dispatch end", ["failed"];
    /// A worker begins workgroups, or goes on with one.
    WorkgroupStart = 11, "workgroup start", ["worker", "x", "y", "z", "resumed"];
    /// A worker has ended workgroups, or puts one aside.
    WorkgroupEnd = 12, "workgroup end", ["worker", "ended", "waves", "instructions", "outcome", "tlb_misses"];
    /// A completion signal was written.
    SignalWritten = 13, "signal", ["address", "event"];
    /// An entry was written to the interrupt ring.
    IhEntry = 14, "IH entry", ["client", "source", "context"];
    /// A vector was raised at the host.
    Interrupt = 15, "interrupt", ["vector"];
    /// An SDMA packet begins to move bytes.
    SdmaStart = 16, "SDMA start", ["bytes"];
    /// An SDMA packet has moved its bytes.
    SdmaEnd = 17, "SDMA end", ["bytes"];
    /// An access did not translate.
    PageFault = 18, "page fault", ["address", "write", "retried"];
    /// The function was reset.
    Reset = 19, "reset", [];
    /// Something was refused, or is not modelled.
    Refused = 20, "refused", [];
    /// A counter has this value.
    Counter = 21, "counter", ["counter", "value"];
    /// A planned fault struck.
    Fault = 22, "fault", ["moment"];
    /// Instructions of a class that a profiled kernel has executed.
    KernelInstructions = 23, "kernel instructions", ["entry", "count"];
    /// Lanes that were on in a profiled kernel's instructions that are executed lane by lane.
    KernelLanes = 24, "kernel lanes", ["entry", "instructions", "active"];
    /// Accesses of a profiled kernel to a memory.
    KernelMemory = 25, "kernel memory", ["entry", "accesses", "bytes", "parts", "conflicts"];
    /// Bytes that a device has moved to the memory of another one, since it was made.
    LinkTo = 26, "bytes to GPU", ["peer", "value"];
    /// Bytes that it has moved from there.
    LinkFrom = 27, "bytes from GPU", ["peer", "value"];
    /// A program called the driver.
    IoctlEnter = 32, "ioctl enter", ["process", "thread", "number"];
    /// The driver returned to the program.
    IoctlLeave = 33, "ioctl leave", ["process", "thread", "number", "status"];
    /// The driver set an event.
    EventSet = 34, "event set", ["process", "event"];
    /// A program that waited for an event goes on.
    EventWake = 35, "event wake", ["process", "event"];
    /// A program made a queue.
    QueueCreated = 36, "queue created", ["process", "queue"];
    /// A queue was destroyed.
    QueueDestroyed = 37, "queue destroyed", ["process", "queue"];
    /// The queues of a process were evicted.
    Evicted = 38, "eviction", ["process"];
    /// The queues of a process were restored.
    Restored = 39, "restore", ["process"];
    /// Memory of a program was mapped for the GPU.
    MemoryMapped = 40, "memory mapped", ["process", "address", "bytes"];
    /// Memory of a program was unmapped.
    MemoryUnmapped = 41, "memory unmapped", ["process", "address", "bytes"];
    /// The driver looked at an entry of the interrupt ring.
    InterruptHandled = 42, "interrupt handled", ["process", "client", "source"];
    /// A program opened the driver, or had opened it when recording began.
    ProcessOpened = 43, "process opened", ["process", "pid"];
    /// A program closed the driver, or ended.
    ProcessClosed = 44, "process closed", ["process"];
    /// The driver had no room for events before this one.
    DriverLost = 45, "driver events lost", ["events"];
}

/// Number of records that hold text.
const TEXT: u16 = u16::MAX;

/// One event, as it was recorded.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Record {
    /// Its number among all events.
    pub sequence: u64,
    /// Nanoseconds of the device's time; its golden counter then read a tenth of that, and one.
    pub time: u64,
    /// The packet it belongs to.
    pub job: Job,
    /// Owner of the event.
    pub owner: Owner,
    /// Kind of the event.
    pub kind: Kind,
    /// Numbers, named by [`Kind::arguments`].
    pub arguments: [u64; ARGUMENTS],
    /// Text, of kinds that have any.
    pub text: String,
}

impl Record {
    /// The argument of this name.
    #[must_use]
    pub fn argument(&self, name: &str) -> Option<u64> {
        let at = self.kind.arguments().iter().position(|&other| other == name)?;
        self.arguments.get(at).copied()
    }
}

/// Words of the record's first slot without its sequence number; `text` is the number of bytes that follow in
/// slots of their own.
pub(super) fn words(record: &Record, text: usize) -> [u64; WORDS] {
    let Owner { gpu, pasid, vmid, doorbell, engine } = record.owner;
    let (engine, instance) = engine.numbers();
    let mut words = [0; WORDS];
    words[1] = record.time;
    words[2] = record.job.bits();
    words[3] = u64::from(record.kind as u16) | (text as u64) << 16 | u64::from(pasid) << 32;
    words[4] = u64::from(doorbell.unwrap_or(NO_DOORBELL))
        | u64::from(vmid) << 32
        | u64::from(engine) << 40
        | u64::from(instance & 0xff) << 48
        | u64::from(gpu & 0xff) << 56;
    words[5..].copy_from_slice(&record.arguments);
    words
}

/// Words of a slot of text, without its sequence number.
pub(super) fn text_words(text: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[3] = TEXT.into();
    let places = [1, 2].into_iter().chain(4..WORDS);
    for (place, bytes) in places.zip(text.chunks(8)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        words[place] = u64::from_le_bytes(word);
    }
    words
}

/// Decoded contents of a slot.
pub(super) enum Slot {
    /// A record, and the number of bytes of text that follow.
    Record(Box<Record>, usize),
    /// Text of the record before it.
    Text([u8; TEXT_BYTES]),
    /// Contents that this version does not know.
    Unknown,
}

/// Reads a slot.
pub(super) fn slot(words: &[u64; WORDS]) -> Slot {
    let number = words[3] as u16;
    if number == TEXT {
        let mut text = [0; TEXT_BYTES];
        let places = [1, 2].into_iter().chain(4..WORDS);
        for (bytes, place) in text.chunks_mut(8).zip(places) {
            bytes.copy_from_slice(&words[place].to_le_bytes());
        }
        return Slot::Text(text);
    }
    let Some(kind) = Kind::from_number(number) else { return Slot::Unknown };
    let Some(engine) = Engine::from_numbers((words[4] >> 40) as u8, u16::from((words[4] >> 48) as u8)) else {
        return Slot::Unknown;
    };
    let doorbell = words[4] as u32;
    let owner = Owner {
        gpu: (words[4] >> 56) as u16,
        pasid: (words[3] >> 32) as u32,
        vmid: (words[4] >> 32) as u8,
        doorbell: (doorbell != NO_DOORBELL).then_some(doorbell),
        engine,
    };
    let mut arguments = [0; ARGUMENTS];
    arguments.copy_from_slice(&words[5..]);
    let record = Record {
        sequence: words[0],
        time: words[1],
        job: Job::from_bits(words[2]),
        owner,
        kind,
        arguments,
        text: String::new(),
    };
    Slot::Record(Box::new(record), usize::from((words[3] >> 16) as u16))
}
