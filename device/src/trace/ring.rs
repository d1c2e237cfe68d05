//! The last events in shared memory, where they stay when the process is killed.
//!
//! | bytes | contents |
//! | --- | --- |
//! | 0..8 | [`MAGIC`] |
//! | 8..16 | number of slots |
//! | 16..24 | bytes of a slot |
//! | 24..32 | identifier of the process that writes |
//! | 32..40 | the host's `CLOCK_MONOTONIC` when the device's time was 0, in nanoseconds; 0 if it is not known |
//! | 40..48 | bytes of the next |
//! | 48..304 | name of the process |
//! | 4096.. | slots of 12 words: a sequence number from 1 on, which is written last, and a record or text of the record before |

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

use super::record::{Slot, TEXT_BYTES, WORDS, slot, text_words, words};
use super::{Record, TraceSink};

/// The first bytes of a ring: `BELTRC01`.
const MAGIC: u64 = u64::from_le_bytes(*b"BELTRC01");
/// Bytes before the slots.
const HEADER: usize = 4096;
/// Offset of the host's time at the device's time 0.
const BEGINS: usize = 32;
/// Offset of the identifier of the process.
const PROCESS: usize = 24;
/// Offset of the length of the name.
const NAME_LENGTH: usize = 40;
/// Offset of the name.
const NAME: usize = 48;
/// The most bytes of a name.
const MAX_NAME: usize = 256;
/// Bytes of a slot.
const SLOT: usize = WORDS * 8;
/// The fewest slots of a ring: some records with text.
const LEAST: usize = 64;

/// Reasons why memory is no ring.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RingError {
    /// A file cannot be mapped.
    #[error("the ring cannot be mapped: {0}")]
    Memory(String),
    /// The memory is too small.
    #[error("{bytes} bytes are too few for a trace: it takes {least} at least")]
    Size {
        /// Bytes that there are.
        bytes: usize,
        /// Bytes that are needed.
        least: usize,
    },
    /// The memory does not begin like a ring.
    #[error("it does not begin as a ring of trace events")]
    Foreign,
    /// The memory ends before the last slot.
    #[error("the ring is truncated: {slots} slots of events take {expected} bytes, and there are {bytes}")]
    Truncated {
        /// Number of slots in the header.
        slots: u64,
        /// Bytes that these slots take.
        expected: u64,
        /// Bytes that there are.
        bytes: usize,
    },
}

/// A sink that keeps as many of the last events as its memory has room for.
///
/// Writers of different threads never wait for each other. A writer that stands still while others fill the whole ring
/// leaves a slot that readers skip.
pub struct Ring {
    memory: MmapRegion,
    slots: u64,
    next: AtomicU64,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("slots", &self.slots).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Ring {
    /// The fewest bytes that a ring can have.
    pub const LEAST: usize = HEADER + LEAST * SLOT;

    /// An empty ring in this memory, which is all zeros.
    ///
    /// # Errors
    ///
    /// When it has less than [`Ring::LEAST`] bytes.
    pub fn new(memory: MmapRegion) -> Result<Self, RingError> {
        let bytes = memory.size();
        if bytes < Self::LEAST {
            return Err(RingError::Size { bytes, least: Self::LEAST });
        }
        let slots = ((bytes - HEADER) / SLOT) as u64;
        let ring = Self { memory, slots, next: AtomicU64::new(0) };
        for (place, word) in [slots, SLOT as u64, std::process::id().into()].into_iter().zip(1..) {
            ring.store(word * 8, place);
        }
        ring.store(0, MAGIC);
        Ok(ring)
    }

    /// An empty ring in a file that has this many bytes, all zeros.
    ///
    /// # Errors
    ///
    /// When they cannot be mapped, or are fewer than [`Ring::LEAST`].
    pub fn in_file(file: File, bytes: usize) -> Result<Self, RingError> {
        let memory = MmapRegion::from_file(FileOffset::new(file, 0), bytes);
        Self::new(memory.map_err(|error| RingError::Memory(error.to_string()))?)
    }

    /// Sets the process of the events, if it is not the calling one.
    #[must_use]
    pub fn of_process(self, process: u32) -> Self {
        self.store(PROCESS, process.into());
        self
    }

    /// Sets the name of the process; a name that is too long is cut.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let mut end = name.len().min(MAX_NAME);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        // The header has room for it.
        let _ = self.memory.as_volatile_slice().write_slice(&name.as_bytes()[..end], NAME);
        self.store(NAME_LENGTH, end as u64);
        self
    }

    /// Sets the value that the host's `CLOCK_MONOTONIC` had, in nanoseconds, when the device's time was 0.
    pub fn set_begin(&self, monotonic_ns: u64) {
        self.store(BEGINS, monotonic_ns);
    }

    fn store(&self, at: usize, value: u64) {
        // All offsets are inside: slots are counted by the size of the memory.
        let _ = self.memory.as_volatile_slice().store(value, at, Ordering::Release);
    }

    fn put(&self, sequence: u64, words: &[u64; WORDS]) {
        let at = HEADER + (sequence % self.slots) as usize * SLOT;
        self.store(at, 0);
        for (place, &word) in words.iter().enumerate().skip(1) {
            self.store(at + place * 8, word);
        }
        self.store(at, sequence + 1);
    }

    /// A copy of its bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.memory.size()];
        let slice = self.memory.as_volatile_slice();
        // As large as the region.
        let _ = slice.read_slice(&mut bytes, 0);
        bytes
    }
}

impl TraceSink for Ring {
    fn record(&self, record: &Record) {
        let text = record.text.as_bytes();
        let more = text.len().div_ceil(TEXT_BYTES) as u64;
        let first = self.next.fetch_add(1 + more, Ordering::Relaxed);
        self.put(first, &words(record, text.len()));
        for (part, sequence) in text.chunks(TEXT_BYTES).zip(first + 1..) {
            self.put(sequence, &text_words(part));
        }
    }
}

/// Decoded contents of a ring.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Contents {
    /// The process that wrote it.
    pub process: u32,
    /// Name of that process.
    pub name: String,
    /// The host's `CLOCK_MONOTONIC` at the device's time 0, in nanoseconds; 0 if it is not known.
    pub begins: u64,
    /// Events, in their order.
    pub records: Vec<Record>,
    /// Slots of events that were overwritten by later ones, or were not whole.
    pub dropped: u64,
}

impl Contents {
    /// Returns true if a file that begins with these bytes is a ring.
    #[must_use]
    pub fn is_ring(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC.to_le_bytes())
    }

    /// Reads the bytes of a ring. Another process may have written them, and may still be writing.
    ///
    /// # Errors
    ///
    /// When the bytes are no ring.
    pub fn read(bytes: &[u8]) -> Result<Self, RingError> {
        if !Self::is_ring(bytes) {
            return Err(RingError::Foreign);
        }
        let word = |at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or(RingError::Size { bytes: at, least: Self::least() })
        };
        let (slots, size) = (word(8)?, word(16)?);
        let expected = slots.saturating_mul(SLOT as u64).saturating_add(HEADER as u64);
        if size != SLOT as u64 || slots == 0 {
            return Err(RingError::Foreign);
        }
        if (bytes.len() as u64) < expected {
            return Err(RingError::Truncated { slots, expected, bytes: bytes.len() });
        }
        let mut found: BTreeMap<u64, [u64; WORDS]> = BTreeMap::new();
        for (index, bytes) in bytes[HEADER..].chunks_exact(SLOT).take(slots as usize).enumerate() {
            let mut words = [0; WORDS];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
            // A slot with another number was not written completely.
            if words[0] != 0 && (words[0] - 1) % slots == index as u64 {
                found.insert(words[0], words);
            }
        }
        let last = found.keys().next_back().copied().unwrap_or(0);
        let length = (word(NAME_LENGTH)? as usize).min(MAX_NAME);
        let name = bytes.get(NAME..NAME + length).unwrap_or_default();
        let mut contents = Self {
            process: word(24)? as u32,
            name: String::from_utf8_lossy(name).into_owned(),
            begins: word(BEGINS)?,
            ..Self::default()
        };
        let whole = |&&sequence: &&u64| sequence + slots > last;
        contents.dropped = last - found.keys().filter(whole).count() as u64;
        // Bytes of text that the last record still lacks, the number of the last slot, and the text so far.
        let (mut lacks, mut behind, mut text) = (0, 0, Vec::new());
        for (&sequence, words) in found.range(last.saturating_sub(slots) + 1..) {
            match slot(words) {
                Slot::Record(record, bytes) => {
                    (lacks, behind) = (bytes, sequence);
                    text.clear();
                    contents.records.push(*record);
                }
                Slot::Text(part) if lacks != 0 && sequence == behind + 1 => {
                    let here = lacks.min(TEXT_BYTES);
                    text.extend_from_slice(&part[..here]);
                    (lacks, behind) = (lacks - here, sequence);
                    if lacks == 0
                        && let Some(record) = contents.records.last_mut()
                    {
                        record.text = String::from_utf8_lossy(&text).into_owned();
                    }
                }
                Slot::Text(_) | Slot::Unknown => lacks = 0,
            }
        }
        Ok(contents)
    }

    const fn least() -> usize {
        Ring::LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ARGUMENTS, Engine, Job, Kind, Owner};
    use super::*;

    fn record(time: u64, text: &str) -> Record {
        let mut arguments = [0; ARGUMENTS];
        arguments[0] = time * 3;
        Record {
            sequence: 0,
            time,
            job: Job::from_bits(time << 32 | 1),
            owner: Owner { gpu: 5, pasid: 7, vmid: 8, doorbell: Some(9), engine: Engine::Sdma(3) },
            kind: Kind::Refused,
            arguments,
            text: text.to_owned(),
        }
    }

    fn ring() -> Ring {
        Ring::new(MmapRegion::new(Ring::LEAST).expect("memory")).expect("a ring")
    }

    #[test]
    fn ring_gives_back_what_was_recorded() {
        let ring = ring();
        let long =
            "a text that is longer than the eighty bytes of one slot, so that it takes two of them in all";
        let written = [record(1, ""), record(2, long), record(3, "short")];
        written.iter().for_each(|record| ring.record(record));
        let contents = Contents::read(&ring.bytes()).expect("a ring");
        let read: Vec<_> =
            contents.records.into_iter().map(|record| Record { sequence: 0, ..record }).collect();
        assert_eq!((read.as_slice(), contents.dropped), (written.as_slice(), 0));
        assert_eq!(contents.process, std::process::id());
        assert_eq!((contents.name.as_str(), contents.begins), ("", 0));
    }

    #[test]
    fn ring_says_whose_it_is_and_when_its_time_begins() {
        let long = "\u{e9}".repeat(200);
        let ring = ring().named(&long);
        ring.set_begin(12_345);
        let contents = Contents::read(&ring.bytes()).expect("a ring");
        assert_eq!((contents.name.as_str(), contents.begins), (&long[..MAX_NAME], 12_345));
    }

    #[test]
    fn full_ring_keeps_the_last_events_and_counts_the_others() {
        let ring = ring();
        for time in 0..200 {
            ring.record(&record(time, ""));
        }
        let contents = Contents::read(&ring.bytes()).expect("a ring");
        let times: Vec<_> = contents.records.iter().map(|record| record.time).collect();
        assert_eq!(times, (200 - LEAST as u64..200).collect::<Vec<_>>());
        assert_eq!(contents.dropped, 200 - LEAST as u64);
    }

    #[test]
    fn text_whose_record_is_gone_is_none_of_another_record() {
        let ring = ring();
        ring.record(&record(0, "text"));
        // The record's own slot is overwritten, and the slot of its text is not.
        for time in 1..LEAST as u64 {
            ring.record(&record(time, ""));
        }
        let contents = Contents::read(&ring.bytes()).expect("a ring");
        assert!(contents.records.iter().all(|record| record.text.is_empty() && record.time != 0));
    }

    #[test]
    fn bytes_that_are_no_ring_are_refused() {
        assert_eq!(Contents::read(b"pftrace"), Err(RingError::Foreign));
        let whole = ring().bytes();
        let cut = Contents::read(&whole[..whole.len() - 1]);
        assert!(matches!(cut, Err(RingError::Truncated { slots: 64, .. })), "{cut:?}");
        assert!(matches!(Contents::read(&whole[..12]), Err(RingError::Size { .. })));
        let small = MmapRegion::new(4096).expect("memory");
        assert!(matches!(Ring::new(small), Err(RingError::Size { bytes: 4096, .. })));
    }

    #[test]
    fn any_bytes_behind_the_header_are_read_without_harm() {
        let mut bytes = ring().bytes();
        for (index, byte) in bytes[HEADER..].iter_mut().enumerate() {
            *byte = (index * 7 % 251) as u8;
        }
        assert!(Contents::read(&bytes).is_ok());
    }
}
