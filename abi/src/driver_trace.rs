//! Records of the driver's own events, in chunks, as the file `belfry_trace` gives them.
//!
//! A chunk is a [`Chunk`] and as many [`Record`]s as it says, in the order of their times. All numbers are
//! little-endian. The layout is Belfry's own: amdkfd has trace points of its kernel instead. Times are the
//! kernel's `CLOCK_MONOTONIC_RAW` on every platform. Each chunk gives the value of the GPU's golden counter
//! at one such time; the device time of an event between two chunks follows from the values of both.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The first eight bytes of a chunk.
pub const MAGIC: u64 = u64::from_le_bytes(*b"BELDRV01");

/// Header in front of the records of one read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Chunk {
    /// [`MAGIC`].
    pub magic: u64,
    /// Number of records that follow.
    pub records: u32,
    /// Bytes of each record.
    pub record_bytes: u32,
    /// Number of events before the first record that were overwritten before they were read.
    pub lost: u64,
    /// The golden counter (`GOLDEN_TSC_COUNT_LOWER` and `_UPPER`) of a moment after the last record.
    pub counter: u64,
    /// Nanoseconds before the counter was read.
    pub before_ns: u64,
    /// Nanoseconds after it was read.
    pub after_ns: u64,
    /// Counts of the golden counter per second.
    pub counter_hz: u32,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Chunk>() == 56);
const _: () = assert!(offset_of!(Chunk, counter) == 24);
const _: () = assert!(offset_of!(Chunk, counter_hz) == 48);

/// Bytes of the name of a program; shorter names end with zeros.
pub const NAME_BYTES: usize = 16;

/// One event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Record {
    /// Nanoseconds of `CLOCK_MONOTONIC_RAW`.
    pub time_ns: u64,
    /// Kind of the event.
    pub kind: Kind,
    /// Process of the event, as the device knows it; 0 for none.
    pub pasid: u16,
    /// The thread that it happened on, as the kernel knows it.
    pub thread: u32,
    /// Numbers, as the kind says.
    pub arguments: [u64; 3],
}

const _: () = assert!(size_of::<Record>() == 40);
const _: () = assert!(offset_of!(Record, kind) == 8);
const _: () = assert!(offset_of!(Record, arguments) == 16);

/// Kind of an event.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(transparent)]
pub struct Kind(pub u16);

impl Kind {
    /// A program called the KFD node: the number of the command.
    pub const IOCTL_ENTER: Self = Self(1);
    /// The call ended: the number of the command; 0, or the error's number.
    pub const IOCTL_LEAVE: Self = Self(2);
    /// An interrupt set an event: the event.
    pub const EVENT_SET: Self = Self(3);
    /// A program that waited for an event goes on: the event.
    pub const EVENT_WAKE: Self = Self(4);
    /// A program made a queue: the program's number for it.
    pub const QUEUE_CREATED: Self = Self(5);
    /// A queue was destroyed: the program's number for it.
    pub const QUEUE_DESTROYED: Self = Self(6);
    /// Memory was mapped for a GPU: its GPU virtual address, bytes.
    pub const MAPPED: Self = Self(7);
    /// Memory was unmapped: its GPU virtual address, bytes.
    pub const UNMAPPED: Self = Self(8);
    /// An entry of the interrupt ring was handled: client, source.
    pub const HANDLED: Self = Self(9);
    /// All queues of a process were taken off the scheduler.
    pub const EVICTED: Self = Self(10);
    /// The queues of a process were handed to the scheduler again.
    pub const RESTORED: Self = Self(11);
    /// A program opened the KFD node, or had opened it when recording began: the thread that opened it, and
    /// its name in the next two arguments ([`NAME_BYTES`]).
    pub const PROCESS_OPENED: Self = Self(12);
    /// A process is gone.
    pub const PROCESS_CLOSED: Self = Self(13);
}
