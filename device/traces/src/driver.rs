//! Events of the guest's driver, as records on the device's clock.
//!
//! The events come in the format of the driver's file ([`belfry_abi::driver_trace`]), from a guest, and are not
//! trusted. A chunk holds a value of the device's counter, and two times of the guest's kernel between which it was
//! read. The first of these is taken as the counter's time. So an event of the driver may seem later than it was, by
//! the time that the guest takes to read the counter, but never earlier: the effects of a device's interrupt come
//! after it. Between two chunks, time is interpolated on both clocks, so that the precision of the guest's clock does
//! not matter. No event is later than its arrival.

use belfry_abi::driver_trace::{self as layout, Chunk, MAGIC, NAME_BYTES};
use belfry_abi::kfd::ioctl::COMMANDS;
use belfry_device::trace::{ARGUMENTS, Engine, Job, Kind, Owner, Record};
use zerocopy::FromBytes as _;

/// Largest record in bytes: records of later drivers may be longer than those known here.
const MAX_RECORD: usize = 4096;
const NS: u128 = 1_000_000_000;

/// Reason why bytes are no events of a driver.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DriverEventsError {
    /// The bytes end within a chunk.
    #[error("a chunk of {expected} bytes has {bytes} of them")]
    Truncated {
        /// Bytes that came.
        bytes: usize,
        /// Bytes that the chunk should have.
        expected: usize,
    },
    /// The bytes do not begin with a chunk.
    #[error("a chunk begins with {0:#x}")]
    Foreign(u64),
    /// A record of an impossible size.
    #[error("a record of {0} bytes")]
    RecordSize(u32),
    /// The clocks of a chunk make no sense.
    #[error("a counter of {hz} Hz that was read from {before} ns to {after} ns")]
    Clocks {
        /// Frequency of the counter in Hz.
        hz: u32,
        /// Kernel time before the counter was read, in nanoseconds.
        before: u64,
        /// Kernel time after it, in nanoseconds.
        after: u64,
    },
}

/// One moment on two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Moment {
    kernel: u64,
    device: u64,
}

impl Moment {
    fn of(chunk: &Chunk) -> Result<Self, DriverEventsError> {
        let Chunk { counter_hz: hz, before_ns: before, after_ns: after, .. } = *chunk;
        if hz == 0 || before > after {
            return Err(DriverEventsError::Clocks { hz, before, after });
        }
        // The counter begins at 1.
        let device = u128::from(chunk.counter.saturating_sub(1)) * NS / u128::from(hz);
        Ok(Self { kernel: before, device: u64::try_from(device).unwrap_or(u64::MAX) })
    }

    /// Returns the device's time for a time of the kernel: interpolated between two moments, and outside of them at
    /// the distance on the kernel's clock.
    fn device_at(self, earlier: Option<Self>, kernel: u64) -> u64 {
        if let Some(earlier) = earlier
            && (earlier.kernel..self.kernel).contains(&kernel)
            && earlier.device <= self.device
        {
            let part = u128::from(kernel - earlier.kernel) * u128::from(self.device - earlier.device);
            // The part is smaller than the whole.
            return earlier.device + (part / u128::from(self.kernel - earlier.kernel)) as u64;
        }
        match kernel.checked_sub(self.kernel) {
            Some(later) => self.device.saturating_add(later),
            None => self.device.saturating_sub(self.kernel - kernel),
        }
    }
}

/// Counts of a driver's events: those taken, and those lost.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DriverEvents {
    last: Option<Moment>,
    /// Events that were made records.
    pub taken: u64,
    /// Events for which the driver had no room.
    pub lost: u64,
    /// Events of kinds that are not known here.
    pub unknown: u64,
    /// Pieces that were no events; [`Self::error`] is about the first one.
    pub malformed: u64,
    /// Mistake of the first malformed piece.
    pub error: Option<DriverEventsError>,
}

impl DriverEvents {
    /// Takes the bytes of a guest, which arrived at the device's time `now`.
    pub fn take(&mut self, bytes: &[u8], now: u64, sink: &mut dyn FnMut(&Record)) {
        let mut left = bytes;
        while !left.is_empty() {
            match self.chunk(left, now, sink) {
                Ok(rest) => left = rest,
                Err(error) => {
                    self.malformed += 1;
                    self.error.get_or_insert(error);
                    return;
                }
            }
        }
    }

    /// Takes one chunk; returns the bytes after it.
    fn chunk<'a>(
        &mut self,
        bytes: &'a [u8],
        now: u64,
        sink: &mut dyn FnMut(&Record),
    ) -> Result<&'a [u8], DriverEventsError> {
        let truncated = |expected| DriverEventsError::Truncated { bytes: bytes.len(), expected };
        let (chunk, behind) = Chunk::read_from_prefix(bytes).map_err(|_| truncated(size_of::<Chunk>()))?;
        if chunk.magic != MAGIC {
            return Err(DriverEventsError::Foreign(chunk.magic));
        }
        let size = chunk.record_bytes as usize;
        if !(size_of::<layout::Record>()..=MAX_RECORD).contains(&size) {
            return Err(DriverEventsError::RecordSize(chunk.record_bytes));
        }
        let length = size.saturating_mul(chunk.records as usize);
        let (records, rest) = behind
            .split_at_checked(length)
            .ok_or_else(|| truncated(size_of::<Chunk>().saturating_add(length)))?;
        let moment = Moment::of(&chunk)?;
        let earlier = self.last.replace(moment);
        let time = |kernel| moment.device_at(earlier, kernel).min(now);
        let mut records = records
            .chunks_exact(size)
            .filter_map(|bytes| layout::Record::read_from_prefix(bytes).ok())
            .map(|(record, _)| record)
            .peekable();
        if chunk.lost != 0 {
            self.lost = self.lost.saturating_add(chunk.lost);
            let at = records.peek().map_or(moment.kernel, |first| first.time_ns);
            sink(&event(time(at), 0, Kind::DriverLost, (&[chunk.lost], String::new())));
        }
        for record in records {
            match said(&record) {
                Some((kind, arguments, text)) => {
                    self.taken += 1;
                    sink(&event(time(record.time_ns), record.pasid, kind, (&arguments, text)));
                }
                None => self.unknown += 1,
            }
        }
        Ok(rest)
    }
}

fn event(time: u64, pasid: u16, kind: Kind, (numbers, text): (&[u64], String)) -> Record {
    let mut arguments = [0; ARGUMENTS];
    arguments.iter_mut().zip(numbers).for_each(|(to, number)| *to = *number);
    let owner = Owner { pasid: pasid.into(), ..Owner::of(Engine::Driver) };
    Record { sequence: 0, time, job: Job::NONE, owner, kind, arguments, text }
}

/// Returns kind, arguments and text of an event, as the hosted driver has them.
fn said(record: &layout::Record) -> Option<(Kind, [u64; 4], String)> {
    let process = u64::from(record.pasid);
    let thread = u64::from(record.thread);
    let [first, second, third] = record.arguments;
    let mut text = String::new();
    let (kind, arguments) = match record.kind {
        layout::Kind::IOCTL_ENTER => {
            text = command(first).to_owned();
            (Kind::IoctlEnter, [process, thread, first, 0])
        }
        layout::Kind::IOCTL_LEAVE => (Kind::IoctlLeave, [process, thread, first, second]),
        layout::Kind::EVENT_SET => (Kind::EventSet, [process, first, 0, 0]),
        layout::Kind::EVENT_WAKE => (Kind::EventWake, [process, first, 0, 0]),
        layout::Kind::QUEUE_CREATED => (Kind::QueueCreated, [process, first, 0, 0]),
        layout::Kind::QUEUE_DESTROYED => (Kind::QueueDestroyed, [process, first, 0, 0]),
        layout::Kind::MAPPED => (Kind::MemoryMapped, [process, first, second, 0]),
        layout::Kind::UNMAPPED => (Kind::MemoryUnmapped, [process, first, second, 0]),
        layout::Kind::HANDLED => (Kind::InterruptHandled, [process, first, second, 0]),
        layout::Kind::EVICTED => (Kind::Evicted, [process, 0, 0, 0]),
        layout::Kind::RESTORED => (Kind::Restored, [process, 0, 0, 0]),
        layout::Kind::PROCESS_OPENED => {
            text = name(second, third);
            (Kind::ProcessOpened, [process, first, 0, 0])
        }
        layout::Kind::PROCESS_CLOSED => (Kind::ProcessClosed, [process, 0, 0, 0]),
        _ => return None,
    };
    Some((kind, arguments, text))
}

/// Returns the name of a command; empty if no command has that number.
fn command(number: u64) -> &'static str {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| COMMANDS.get(place)).map_or("", |command| command.0)
}

/// Returns the name of a program, fit to be printed.
fn name(low: u64, high: u64) -> String {
    let bytes: [u8; NAME_BYTES] = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
    let name = String::from_utf8_lossy(&bytes[..end]);
    name.chars().map(|one| if one.is_control() { '?' } else { one }).collect()
}

#[cfg(test)]
mod tests;
