//! Records: every input of a machine's devices that is not determined, so that the devices alone can repeat their run.
//!
//! A recorded device does one thing after the other: it is deterministic, one thread takes its turns, and no
//! call of the host's comes within a turn. The rest are inputs: the calls of the host and their times, the
//! clock, and writes of processors to memory and doorbells since the device last read them. A `Journal` has
//! these as entries, in order, and between them the outputs of the device, which a replay is compared with.
//!
//! Several devices have one record and one order: an operation of one of them ends before the next one of any begins. For each device,
//! stores of the others are inputs, like those of processors.
//!
//! | part | file |
//! | --- | --- |
//! | entries, and their words | `entry.rs` |
//! | the format of the bytes | `file.rs` |
//! | digests of memory and of the device | `digest.rs` |
//! | events that a replay stops at | `until.rs` |
//! | errors of a record, and differences of a replay | `error.rs` |
//! | the order of operations of several devices | `order.rs` |
//!
//! Memory is in `memory/mirror.rs`, doorbells are in `doorbell/mirror.rs`, the operations in `device/session.rs` and
//! `device/replay.rs`.

mod digest;
mod entry;
mod error;
mod file;
mod order;
mod player;
#[cfg(test)]
pub(crate) mod testing;
mod until;

use std::io::{self, Read, Seek, Write};
use std::sync::{Arc, PoisonError};

use belfry_isa::exec::Step;
use belfry_lock::{MAX_DEVICES, Mutex, MutexGuard, rank};

use crate::trace::{Engine, Record, TraceSink, WaveId};
pub use digest::digest;
pub(crate) use entry::{Call, Entry, OF_PEER, PeerOf, Run, SYSTEM};
pub use error::{Divergence, RecordError};
use file::{Reader, Writer};
pub(crate) use order::{Operation, Order};
pub(crate) use player::{Place, Player, Progress, Stopped};
pub use until::{Until, UntilError};

/// Output of a record of the devices of a machine.
///
/// Clones are of one record. It is complete when all devices that have it were [stopped](crate::Gpu::stop), and takes no other one then.
#[derive(Clone)]
pub struct Recording(Arc<Journal>);

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").finish_non_exhaustive()
    }
}

/// Counts of a record.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Recorded {
    /// Turns of the device and calls of the host's.
    pub operations: u64,
    /// Inputs: writes of processors to memory and doorbells.
    pub inputs: u64,
    /// Events.
    pub events: u64,
    /// Bytes of the record.
    pub bytes: u64,
    /// Bytes before packing.
    pub unpacked: u64,
    /// True if all devices were stopped, which completes the record.
    pub complete: bool,
}

impl Recording {
    /// A record that goes to `out`, in writes of some ten thousand bytes, on the threads that drive the
    /// device. No write follows one that fails: the device goes on, and [`Self::recorded`] returns the error.
    #[must_use]
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self::with(Writer::new(Box::new(out)), false)
    }

    /// A record for a device that works as if it were recorded; nothing is written.
    pub(crate) fn nowhere() -> Self {
        Self::with(Writer::new(Box::new(io::sink())), true)
    }

    fn with(writer: Writer, discards: bool) -> Self {
        let (counts, error) = (Recorded::default(), None);
        let recorder = Recorder { writer, discards, devices: 0, ended: 0, counts, error };
        Self(Journal::of(State::Recording(Box::new(recorder)), true))
    }

    /// Counts of the record up to now.
    ///
    /// # Errors
    ///
    /// The error that stopped the writing of the record.
    pub fn recorded(&self) -> io::Result<Recorded> {
        let mut state = self.0.lock();
        let State::Recording(recorder) = &mut *state else { return Ok(Recorded::default()) };
        match recorder.error.take() {
            Some(error) => {
                let same = io::Error::new(error.kind(), error.to_string());
                recorder.error = Some(error);
                Err(same)
            }
            None => Ok(Recorded {
                bytes: recorder.writer.written,
                unpacked: recorder.writer.unpacked,
                ..recorder.counts
            }),
        }
    }

    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.0
    }
}

struct Recorder {
    writer: Writer,
    /// True if nothing is written.
    discards: bool,
    /// Devices that have the record, and those whose part of it has ended.
    devices: usize,
    ended: usize,
    counts: Recorded,
    error: Option<io::Error>,
}

impl Recorder {
    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && self.error.is_none()
        {
            log::error!(target: "gpu::record", "the record cannot be written on, and ends here: {error}");
            self.error = Some(error);
        }
    }

    fn put(&mut self, entry: &Entry) {
        let counts = &mut self.counts;
        match entry {
            Entry::Turn { .. } | Entry::Call { .. } => counts.operations += 1,
            Entry::Doorbell { .. } | Entry::Memory { .. } | Entry::Found { .. } => counts.inputs += 1,
            Entry::Event(_) => counts.events += 1,
            Entry::Device(_) | Entry::Answer(_) | Entry::Check { .. } | Entry::State { .. } | Entry::End => {}
        }
        if self.error.is_none() && !self.counts.complete && !self.discards {
            let put = self.writer.put(entry);
            self.keep(put);
        }
    }
}

enum State {
    Recording(Box<Recorder>),
    Playing(Box<Player>),
}

/// A record that is written, or read.
pub(crate) struct Journal {
    state: Mutex<State, rank::Journal>,
    recording: bool,
    order: Order,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("recording", &self.recording).finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the record at the start of `from` for a replay; returns it with the configuration of its device.
    pub(crate) fn open(from: impl Read + Seek + Send + 'static) -> Result<(Arc<Self>, Vec<u8>), RecordError> {
        let (reader, config) = Reader::open(Box::new(from))?;
        Ok((Self::playing(Player::new(reader)), config))
    }

    fn of(state: State, recording: bool) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), recording, order: Order::default() })
    }

    fn playing(player: Player) -> Arc<Self> {
        Self::of(State::Playing(Box::new(player)), false)
    }

    /// The order of the devices' operations.
    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    /// Continues this record at another place, for another device: this journal has nothing to compare with
    /// any more. The new one compares and gives out nothing before its player is [opened](Player::open).
    pub(crate) fn again(&self, place: &Place) -> Result<Arc<Self>, RecordError> {
        let player = self.player(|player| player.go_to(place));
        let none = || RecordError::Device("it is recorded".to_owned());
        Ok(Self::playing(player.ok_or_else(none)??))
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Journal> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the record is written, and false if it is read.
    pub(crate) fn is_recording(&self) -> bool {
        self.recording
    }

    /// Begins the record of a device between two operations, and returns its number; `None` if the record is complete, and if it has as
    /// many devices as a machine.
    pub(crate) fn begin(&self, config: &[u8]) -> Option<u8> {
        let State::Recording(recorder) = &mut *self.lock() else { return None };
        if recorder.devices == usize::from(MAX_DEVICES)
            || recorder.devices > 0 && recorder.ended == recorder.devices
        {
            return None;
        }
        if recorder.devices == 0 {
            let begun = recorder.writer.begin(config);
            recorder.keep(begun);
        } else {
            recorder.put(&Entry::Device(config.to_vec()));
        }
        recorder.devices += 1;
        u8::try_from(recorder.devices - 1).ok()
    }

    /// Writes an operation or an input to the record.
    pub(crate) fn note(&self, entry: &Entry) {
        if let State::Recording(recorder) = &mut *self.lock() {
            recorder.put(entry);
        }
    }

    /// Ends the record of one device. After the last one nothing is written any more.
    pub(crate) fn end(&self) {
        if let State::Recording(recorder) = &mut *self.lock()
            && !recorder.counts.complete
        {
            recorder.ended += 1;
            if recorder.ended < recorder.devices {
                return;
            }
            recorder.put(&Entry::End);
            let flushed = recorder.writer.flush();
            recorder.keep(flushed);
            recorder.counts.complete = recorder.error.is_none();
        }
    }

    /// Takes an output of the device: writes it, or compares it with the record.
    pub(crate) fn output(&self, entry: &Entry) {
        match &mut *self.lock() {
            State::Recording(recorder) => recorder.put(entry),
            State::Playing(player) => player.output(entry),
        }
    }

    /// Bytes that a processor had written to a page before the device read it; only from a record that is
    /// read.
    pub(crate) fn memory(&self, page: u64) -> Option<Vec<Run>> {
        let State::Playing(player) = &mut *self.lock() else { return None };
        player.memory(page)
    }

    /// Value that an atomic access had found, if it was new; only from a record that is read.
    pub(crate) fn found(&self, (page, byte): (u64, u16), access: u64) -> Option<u64> {
        let State::Playing(player) = &mut *self.lock() else { return None };
        player.found((page, byte), access)
    }

    /// Asks the player of a record that is read.
    pub(crate) fn player<R>(&self, ask: impl FnOnce(&mut Player) -> R) -> Option<R> {
        match &mut *self.lock() {
            State::Recording(_) => None,
            State::Playing(player) => Some(ask(player)),
        }
    }
}

/// A journal's sink for the events of a device, in front of the sink that a user has set.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) journal: Arc<Journal>,
    pub(crate) next: Option<Arc<dyn TraceSink>>,
}

impl TraceSink for Witness {
    fn record(&self, record: &Record) {
        // A driver in the same process is no part of the device.
        if record.owner.engine != Engine::Driver {
            self.journal.output(&Entry::Event(record.into()));
        }
        if let Some(next) = &self.next {
            next.record(record);
        }
    }

    fn wants_waves(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.wants_waves())
    }

    fn wants_wave(&self, wave: &WaveId) -> bool {
        self.next.as_ref().is_some_and(|next| next.wants_wave(wave))
    }

    fn instruction(&self, wave: &WaveId, step: &Step<'_>) {
        if let Some(next) = &self.next {
            next.instruction(wave, step);
        }
    }
}
