//! Entries of a record.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::trace::{Counter, Engine, Job, Kind, Owner, Record};

/// Entries of a record, in order. An entry of the second group begins an operation; those of the next two belong to the
/// operation before them. Devices have numbers, in the order in which they have begun.
///
/// | entry | is |
/// | --- | --- |
/// | `Device` | another device of the machine; the first one is in the head |
/// | `Turn`, `Call` | the beginning of an operation, which ends before the next one begins |
/// | `Doorbell`, `Memory`, `Found` | an input: something that a processor has written |
/// | `Answer`, `Event`, `Check` | an output: the device's reaction, which a replay has to repeat |
/// | `State`, `End` | the end of a device's record, and of the whole one |
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Entry {
    /// Another device begins, of this configuration.
    Device(#[serde(with = "serde_bytes")] Vec<u8>),
    /// The device serves everything once, and takes some turns at waves.
    Turn {
        /// Its number.
        device: u8,
        /// Nanoseconds since the operation before.
        ns: u64,
    },
    /// The host calls the device.
    Call {
        /// Its number.
        device: u8,
        /// Nanoseconds since the operation before.
        ns: u64,
        /// Call of the host.
        call: Call,
    },
    /// A doorbell has a value that was stored without an access.
    Doorbell {
        /// Its number.
        at: u64,
        /// The value.
        value: u64,
    },
    /// A processor has written to a page since the device last read it.
    Memory {
        /// The page, as the mirror numbers them.
        page: u64,
        /// Bytes that were written.
        runs: Vec<Run>,
    },
    /// An atomic access has found another value than the device last saw there.
    Found {
        /// The page.
        page: u64,
        /// Byte in the page.
        at: u16,
        /// Value that it found, of 4 or 8 bytes.
        value: u64,
        /// Its number among the atomic accesses of the operation: nothing else tells apart the accesses of a
        /// wave that tries again and again.
        number: u64,
    },
    /// Answer to the host; `None` if the call was refused.
    Answer(#[serde(with = "serde_bytes")] Option<Vec<u8>>),
    /// An event of the device.
    Event(Event),
    /// The digest of all memory that the device has seen.
    Check {
        /// The digest.
        memory: u64,
    },
    /// The digests of a whole device.
    State {
        /// Its number.
        device: u8,
        /// Of all memory that it has seen.
        memory: u64,
        /// Of everything else.
        rest: u64,
    },
    /// Nothing follows.
    End,
}

/// Bytes in a page that a processor has written.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Run {
    /// Offset of the first byte in the page.
    pub(crate) at: u16,
    #[serde(with = "serde_bytes")]
    pub(crate) bytes: Vec<u8>,
}

/// Calls of a host to a device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum Call {
    /// The first call: the ranges of guest memory, as in `Memory`.
    Start(Vec<(u64, u64)>),
    BarRead {
        bar: u8,
        offset: u64,
        len: u32,
    },
    BarWrite {
        bar: u8,
        offset: u64,
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    ConfigRead {
        offset: u64,
        len: u32,
    },
    ConfigWrite {
        offset: u64,
        #[serde(with = "serde_bytes")]
        data: Vec<u8>,
    },
    /// The ranges of guest memory from now on: first address and bytes, lowest first.
    Memory(Vec<(u64, u64)>),
    /// A reset of the function, or of the whole system.
    Reset {
        system: bool,
    },
    DoorbellHint,
    DoorbellWoken {
        offset: u64,
        writes: u64,
    },
    /// The bus addresses of VRAM and doorbells, on a host without a bus.
    Place {
        vram: u64,
        doorbells: u64,
    },
    /// Another device of the machine is there under this number from now on, or none.
    Peer {
        number: u8,
        peer: Option<PeerOf>,
    },
    Pause,
    Resume,
    Stop,
}

/// Another device of a record, as one reaches it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct PeerOf {
    /// Its number in the record.
    pub(crate) device: u8,
    /// True if its BARs are reached, beside VRAM on the fabric.
    pub(crate) bars: bool,
}

/// An event of the device. Its time is that of the operation.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Event {
    pub(crate) kind: u16,
    job: u64,
    pasid: u32,
    vmid: u8,
    doorbell: Option<u32>,
    engine: (u8, u16),
    /// Arguments without the zeros at the end.
    arguments: Vec<u64>,
    text: String,
}

impl From<&Record> for Event {
    fn from(record: &Record) -> Self {
        let Owner { pasid, vmid, doorbell, engine, .. } = record.owner;
        let used = record.arguments.iter().rposition(|&argument| argument != 0).map_or(0, |last| last + 1);
        Self {
            kind: record.kind as u16,
            job: record.job.bits(),
            pasid,
            vmid,
            doorbell,
            engine: engine.numbers(),
            arguments: record.arguments[..used].to_vec(),
            text: record.text.clone(),
        }
    }
}

impl Event {
    /// Returns true if this event, of a device that has begun within the record, stands for the recorded one.
    /// The caches of such a device are empty, it has moved nothing yet, and its PM4 packets in flight have no
    /// job: no snapshot has these.
    pub(crate) fn stands_for(&self, recorded: &Self) -> bool {
        let (got, mut recorded) = (self.without_history(), recorded.without_history());
        if got.job == Job::NONE.bits() {
            recorded.job = got.job;
        }
        got == recorded
    }

    /// Returns true if such a device may report this event a second time: it reports packets again that the
    /// recorded device had read before.
    pub(crate) fn may_be_repeated(&self) -> bool {
        matches!(Kind::from_number(self.kind), Some(Kind::PacketRead | Kind::SdmaStart))
    }

    /// The event without the parts that depend on earlier events.
    fn without_history(&self) -> Self {
        /// Index of the misses of TLBs in the arguments of an end of workgroups.
        const MISSES: usize = 5;
        /// Indices of the number and of the value in the arguments of a counter, and of a link.
        const COUNTER: (usize, usize) = (0, 1);
        let mut event = self.clone();
        let number = event.arguments.get(COUNTER.0).copied().unwrap_or_default();
        let depends = match Kind::from_number(event.kind) {
            Some(Kind::WorkgroupEnd) => Some(MISSES),
            Some(Kind::LinkTo | Kind::LinkFrom) => Some(COUNTER.1),
            Some(Kind::Counter) => match Counter::from_number(number) {
                Some(Counter::PageWalks | Counter::TlbMisses | Counter::SdmaBytes) => Some(COUNTER.1),
                _ => None,
            },
            _ => None,
        };
        if let Some(value) = depends.and_then(|at| event.arguments.get_mut(at)) {
            *value = 0;
        }
        let used = event.arguments.iter().rposition(|&argument| argument != 0).map_or(0, |last| last + 1);
        event.arguments.truncate(used);
        event
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = Kind::from_number(self.kind);
        f.write_str(kind.map_or("an unknown event", Kind::name))?;
        let names = kind.map_or(&[][..], Kind::arguments);
        for (at, name) in names.iter().enumerate() {
            write!(f, " {name}={:#x}", self.arguments.get(at).copied().unwrap_or_default())?;
        }
        if !self.text.is_empty() {
            write!(f, " {:?}", self.text)?;
        }
        if let Some(engine) = Engine::from_numbers(self.engine.0, self.engine.1) {
            write!(f, ", {engine}")?;
        }
        if let Some(doorbell) = self.doorbell {
            write!(f, ", doorbell {doorbell:#x}")?;
        }
        if self.pasid != 0 {
            write!(f, ", pasid {:#x}", self.pasid)?;
        }
        if self.vmid != 0 {
            write!(f, ", vmid {}", self.vmid)?;
        }
        if Job::from_bits(self.job).is_none() { Ok(()) } else { write!(f, ", job {:#x}", self.job) }
    }
}

/// Shows the first bytes of a longer list.
struct Bytes<'a>(&'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        for byte in self.0.iter().take(SHOWN) {
            write!(f, "{byte:02x}")?;
        }
        if self.0.len() > SHOWN { write!(f, "... ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

/// Bit of a page's number that tells guest memory from VRAM.
pub(crate) const SYSTEM: u64 = 1 << 63;

/// Unit in a page's number of VRAM of other devices: 1 and their number, as the device reaches them. The device's own has none.
pub(crate) const OF_PEER: u64 = 1 << 56;

/// Shows a place in a page.
struct At(u64, u16);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 & SYSTEM != 0 {
            f.write_str("guest memory")?;
        } else {
            match self.0 / OF_PEER {
                0 => f.write_str("VRAM")?,
                peer => write!(f, "VRAM of GPU {}", peer - 1)?,
            }
        }
        let page = if self.0 & SYSTEM == 0 { self.0 % OF_PEER } else { self.0 & !SYSTEM };
        write!(f, " {:#x}", (page << 12).wrapping_add(self.1.into()))
    }
}

/// Shows which device it is, unless it is the first one.
struct Of(u8);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { Ok(()) } else { write!(f, " of GPU {}", self.0) }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(_) => f.write_str("another GPU"),
            Self::Turn { device, .. } => write!(f, "a turn{}", Of(*device)),
            Self::Call { device: 0, call, .. } => write!(f, "{call}"),
            Self::Call { device, call, .. } => write!(f, "on GPU {device}, {call}"),
            Self::Doorbell { at, value } => write!(f, "a doorbell at {:#x} that is {value:#x}", at * 8),
            Self::Memory { page, runs } => {
                let first = runs.first();
                let (at, bytes) = first.map_or((0, &[][..]), |run| (run.at, &run.bytes[..]));
                write!(f, "a read of {} that finds {}", At(*page, at), Bytes(bytes))
            }
            Self::Found { page, at, value, .. } => {
                write!(f, "an atomic access of {} that finds {value:#x}", At(*page, *at))
            }
            Self::Answer(Some(data)) => write!(f, "the answer {}", Bytes(data)),
            Self::Answer(None) => f.write_str("a refusal"),
            Self::Event(event) => write!(f, "the event {event}"),
            Self::Check { memory } => write!(f, "memory with the digest {memory:016x}"),
            Self::State { device, memory, rest } => {
                let of = Of(*device);
                write!(f, "memory{of} with the digest {memory:016x} and a device with the digest {rest:016x}")
            }
            Self::End => f.write_str("the end"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BarRead { bar, offset, len } => {
                write!(f, "a read of {len} bytes at {offset:#x} of BAR{bar}")
            }
            Self::BarWrite { bar, offset, data } => {
                write!(f, "a write of {} at {offset:#x} of BAR{bar}", Bytes(data))
            }
            Self::ConfigRead { offset, len } => {
                write!(f, "a read of {len} bytes at {offset:#x} of the configuration space")
            }
            Self::ConfigWrite { offset, data } => {
                write!(f, "a write of {} at {offset:#x} of the configuration space", Bytes(data))
            }
            Self::Start(_) => f.write_str("the device's beginning"),
            Self::Memory(ranges) => write!(f, "guest memory of {} ranges", ranges.len()),
            Self::Reset { system: true } => f.write_str("a reset of the system"),
            Self::Reset { system: false } => f.write_str("a reset of the function"),
            Self::DoorbellHint => f.write_str("a hint at doorbells"),
            Self::DoorbellWoken { offset, writes } => {
                write!(f, "{writes} writes to the doorbell at {offset:#x}")
            }
            Self::Place { vram, doorbells } => {
                write!(f, "VRAM at {vram:#x} of the bus, and doorbells at {doorbells:#x}")
            }
            Self::Peer { number, peer: Some(peer) } => {
                write!(f, "GPU {} that is reached as number {number}", peer.device)
            }
            Self::Peer { number, peer: None } => write!(f, "no GPU that is reached as number {number}"),
            Self::Pause => f.write_str("a pause"),
            Self::Resume => f.write_str("the end of a pause"),
            Self::Stop => f.write_str("the device's end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceEvent;

    fn event(job: Job, event: &TraceEvent<'_>) -> Event {
        let (kind, arguments, text) = event.encode();
        let (owner, text) = (Owner::of(Engine::Shader), text.to_owned());
        (&Record { sequence: 0, time: 0, job, owner, kind, arguments, text }).into()
    }

    #[test]
    fn events_within_a_record_stand_for_those_that_differ_by_what_was_before() {
        let jobs = [Job::NONE, Job::from_bits(7), Job::from_bits(8)];
        let ends = |instructions, tlb_misses| {
            let (worker, ended, waves, outcome) = (1, 2, 3, 0);
            let ends = TraceEvent::WorkgroupEnd { worker, ended, waves, instructions, outcome, tlb_misses };
            event(jobs[1], &ends)
        };
        let counts = |counter, value| event(jobs[1], &TraceEvent::Counter { counter, value });
        let of = |job| event(job, &TraceEvent::DispatchEnd { failed: false });
        for (got, recorded, same) in [
            (ends(4, 5), ends(4, 0), true),
            (ends(4, 5), ends(5, 5), false),
            (counts(Counter::PageWalks, 7), counts(Counter::PageWalks, 8), true),
            (counts(Counter::TlbMisses, 7), counts(Counter::TlbMisses, 0), true),
            (counts(Counter::SdmaBytes, 7), counts(Counter::SdmaBytes, 70), true),
            (counts(Counter::TlbMisses, 7), counts(Counter::PageWalks, 7), false),
            (counts(Counter::Instructions, 7), counts(Counter::Instructions, 8), false),
            (of(jobs[0]), of(jobs[1]), true),
            (of(jobs[1]), of(jobs[0]), false),
            (of(jobs[1]), of(jobs[2]), false),
        ] {
            assert_ne!(got, recorded);
            assert_eq!(got.stands_for(&recorded), same, "{got} for {recorded}");
            assert!(got.stands_for(&got));
        }
        let packet = event(jobs[1], &TraceEvent::Packet { kind: "BARRIER_AND", index: 3 });
        assert!(packet.may_be_repeated() && !of(jobs[1]).may_be_repeated());
    }
}
