//! The driver's own events, kept for a reader on any platform.
//!
//! While recording is off there is no memory for events, and each place that could record one is a branch. While it is on,
//! events go into a ring with room for as many as was asked for; when it is full, the oldest event goes and is counted. A reader takes
//! events out in chunks ([`belfry_abi::driver_trace`]), each of which says what the device's counter was at a time of the
//! kernel's clock. So no event costs an access to the device.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicBool, Ordering};

use belfry_abi::driver_trace::{Chunk, Kind, MAGIC, Record};
use belfry_abi::regs::{Register as _, smuio};
use zerocopy::IntoBytes as _;

use crate::errno::{Errno, Result};
use crate::hw::Hw;
use crate::os::{Clock, DriverEvent, LockRank, Os, Task};
use crate::sync::Mutex;

/// Events that a ring may have room for at most: 40 MiB.
pub const MAX_RECORDS: u32 = 1 << 20;
/// The fewest bytes that a reader must have room for: a chunk with one event.
pub const LEAST_READ: usize = size_of::<Chunk>() + size_of::<Record>();
/// Ticks of the golden counter in a second.
pub(crate) const COUNTER_HZ: u32 = 100_000_000;
/// Readings of the counter for a chunk: the one counts that took the least time.
const READINGS: u32 = 3;

/// The device's counter, and the kernel's time around the moment at which it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    counter: u64,
    before_ns: u64,
    after_ns: u64,
}

/// The last events, as many as there is room for.
struct Ring {
    records: VecDeque<Record>,
    room: usize,
    lost: u64,
}

impl Ring {
    /// A ring with room for at least one event.
    fn new(room: usize) -> Result<Self> {
        let mut records = VecDeque::new();
        records.try_reserve_exact(room).map_err(|_| Errno::ENOMEM)?;
        Ok(Self { records, room, lost: 0 })
    }

    fn push(&mut self, record: Record) {
        if self.records.len() == self.room {
            self.records.pop_front();
            self.lost += 1;
        }
        self.records.push_back(record);
    }

    /// Moves the oldest events to where there is room for them; returns how many, and how many were lost before them.
    fn take(&mut self, to: &mut [u8]) -> (usize, u64) {
        let mut count = 0;
        for bytes in to.chunks_exact_mut(size_of::<Record>()) {
            let Some(record) = self.records.pop_front() else { break };
            bytes.copy_from_slice(record.as_bytes());
            count += 1;
        }
        (count, core::mem::take(&mut self.lost))
    }
}

/// Recorder of a device's driver.
pub(crate) struct DriverTrace<O: Os> {
    on: AtomicBool,
    ring: Mutex<O, Option<Ring>>,
}

impl<O: Os> DriverTrace<O> {
    pub(crate) fn new(os: &O) -> Result<Self> {
        Ok(Self { on: AtomicBool::new(false), ring: Mutex::new(os, LockRank::Trace, None)? })
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    #[inline(never)]
    fn put(&self, os: &O, pasid: u16, event: DriverEvent) {
        let (kind, arguments) = encode(event);
        let thread = os.task().id;
        let mut ring = self.ring.lock();
        if let Some(ring) = ring.as_mut() {
            // Read under the lock, so that records are in the order of their times.
            let time_ns = os.clock_ns(Clock::MonotonicRaw);
            ring.push(Record { time_ns, kind, pasid, thread, arguments });
        }
    }

    /// Replaces the ring; that of before is given back without the lock.
    fn replace(&self, ring: Option<Ring>) {
        self.on.store(ring.is_some(), Ordering::Relaxed);
        let before = core::mem::replace(&mut *self.ring.lock(), ring);
        drop(before);
    }

    /// Records an event of a process in the ring, if that is on, and gives it to the operating system's tracer.
    pub(crate) fn record(&self, os: &O, pasid: u16, event: DriverEvent) {
        os.trace(pasid, event);
        if self.is_on() {
            self.put(os, pasid, event);
        }
    }

    /// Records from now on, into a ring with room for so many events; 0 ends that and gives its memory back.
    ///
    /// # Errors
    ///
    /// `EINVAL` for more than [`MAX_RECORDS`], `ENOMEM`, `ENODEV` when the device is gone.
    pub(crate) fn set_room(&self, hw: &Hw<O>, room: u32) -> Result<()> {
        if room > MAX_RECORDS {
            return Err(Errno::EINVAL);
        }
        if room == 0 {
            self.replace(None);
            return Ok(());
        }
        if !hw.alive() {
            return Err(Errno::ENODEV);
        }
        self.replace(Some(Ring::new(room as usize)?));
        Ok(())
    }

    /// Records that a process has the node open, which began before the recording.
    pub(crate) fn record_open(&self, os: &O, pasid: u16, task: Task) {
        self.put(os, pasid, DriverEvent::ProcessOpened { task });
    }

    /// Takes the oldest events out of the ring, as a chunk; a chunk without any is given only if `always`.
    pub(crate) fn read(&self, hw: &Hw<O>, out: &mut [u8], always: bool) -> Result<usize> {
        let (head, room) = out.split_at_mut_checked(size_of::<Chunk>()).ok_or(Errno::EINVAL)?;
        if room.len() < size_of::<Record>() {
            return Err(Errno::EINVAL);
        }
        let (count, lost) = match self.ring.lock().as_mut() {
            Some(ring) => ring.take(room),
            None => return Ok(0),
        };
        if count == 0 && lost == 0 && !always {
            return Ok(0);
        }
        let Reading { counter, before_ns, after_ns } = read_clocks(hw);
        let chunk = Chunk {
            magic: MAGIC,
            records: count as u32,
            record_bytes: size_of::<Record>() as u32,
            lost,
            counter,
            before_ns,
            after_ns,
            counter_hz: COUNTER_HZ,
            reserved: 0,
        };
        head.copy_from_slice(chunk.as_bytes());
        Ok(size_of::<Chunk>() + count * size_of::<Record>())
    }
}

/// Kind and arguments of an event's record.
fn encode(event: DriverEvent) -> (Kind, [u64; 3]) {
    match event {
        DriverEvent::IoctlEnter { number, .. } => (Kind::IOCTL_ENTER, [number.into(), 0, 0]),
        DriverEvent::IoctlLeave { number, errno } => (Kind::IOCTL_LEAVE, [number.into(), errno.into(), 0]),
        DriverEvent::EventSet { event } => (Kind::EVENT_SET, [event.into(), 0, 0]),
        DriverEvent::EventWake { event } => (Kind::EVENT_WAKE, [event.into(), 0, 0]),
        DriverEvent::QueueCreated { queue } => (Kind::QUEUE_CREATED, [queue.into(), 0, 0]),
        DriverEvent::QueueDestroyed { queue } => (Kind::QUEUE_DESTROYED, [queue.into(), 0, 0]),
        DriverEvent::Mapped { address, size } => (Kind::MAPPED, [address, size, 0]),
        DriverEvent::Unmapped { address, size } => (Kind::UNMAPPED, [address, size, 0]),
        DriverEvent::Handled { client, source } => (Kind::HANDLED, [client.into(), source.into(), 0]),
        DriverEvent::Evicted => (Kind::EVICTED, [0; 3]),
        DriverEvent::Restored => (Kind::RESTORED, [0; 3]),
        DriverEvent::ProcessOpened { task } => {
            let name = u128::from_le_bytes(task.name);
            (Kind::PROCESS_OPENED, [task.id.into(), name as u64, (name >> 64) as u64])
        }
        DriverEvent::ProcessClosed => (Kind::PROCESS_CLOSED, [0; 3]),
    }
}

/// Reads the device's counter and the kernel's clock as close together as it can be had.
fn read_clocks<O: Os>(hw: &Hw<O>) -> Reading {
    let mut best: Option<Reading> = None;
    for _ in 0..READINGS {
        let upper = hw.read::<smuio::GOLDEN_TSC_COUNT_UPPER>().bits();
        let before_ns = hw.now_ns();
        let lower = hw.read::<smuio::GOLDEN_TSC_COUNT_LOWER>().bits();
        let after_ns = hw.now_ns();
        // The lower half went round between the two.
        if hw.read::<smuio::GOLDEN_TSC_COUNT_UPPER>().bits() != upper {
            continue;
        }
        let reading = Reading { counter: u64::from(upper) << 32 | u64::from(lower), before_ns, after_ns };
        let took = |reading: &Reading| reading.after_ns.saturating_sub(reading.before_ns);
        if best.as_ref().is_none_or(|best| took(&reading) < took(best)) {
            best = Some(reading);
        }
    }
    best.unwrap_or_else(|| {
        let before_ns = hw.now_ns();
        Reading { counter: hw.clock_counter(), before_ns, after_ns: hw.now_ns() }
    })
}

#[cfg(test)]
mod tests;
