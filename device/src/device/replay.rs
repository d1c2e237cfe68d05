//! Replay of a record by its devices alone.

mod checkpoints;

use std::fmt;
use std::io::{Read, Seek};
use std::sync::Arc;
use std::time::Duration;

use belfry_abi::pci;
use belfry_lock::MAX_DEVICES;
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

use super::alone::DropsInterrupts;
use super::session::{Head, PROGRAM};
use super::{Gpu, Resources, SavedGpu};
use crate::config::GpuConfig;
use crate::faults::PlanError;
use crate::memory::Peer;
use crate::record::{Call, Entry, Journal, PeerOf, Place, Player, Progress, RecordError, Stopped, Until};
use crate::trace::TraceSink;
use checkpoints::{Checkpoint, Checkpoints};

/// Sinks of the events of a replay's devices, by the numbers of these.
pub type TraceSinks = Box<dyn Fn(u8) -> Option<Arc<dyn TraceSink>> + Send>;

/// The devices of a machine that repeat a record without a host, and compare themselves with the record.
///
/// The record may come from anywhere: a mistake in it is an error, and a replay takes memory in proportion to
/// the accesses of the recorded devices.
pub struct Replay {
    /// At least the first one; the others follow as they have begun in the record.
    gpus: Vec<Arc<Gpu>>,
    journal: Arc<Journal>,
    /// Of the first device.
    config: GpuConfig,
    traces: TraceSinks,
    /// The record's beginning, if the replay can go back to it.
    begin: Option<Place>,
    checkpoints: Option<Checkpoints>,
    /// Operations of all devices that it has had.
    done: u64,
}

/// Progress of a replay.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Replayed {
    /// Turns of the devices and calls of the host's.
    pub operations: u64,
    /// Events of the devices.
    pub events: u64,
    /// Number of the last event, or of the event to stop at once that is reached, from 1 on.
    pub event: u64,
    /// The event with that number, in words.
    pub last: String,
    /// The digest of all memory that the devices have seen.
    pub memory: u64,
    /// True if the record is over.
    pub at_end: bool,
}

/// The configuration of a device in a record.
fn configuration(head: &[u8]) -> Result<GpuConfig, RecordError> {
    let damaged = RecordError::Damaged { at: 16, what: "its configuration" };
    let head: Head = match postcard::take_from_bytes(head) {
        Ok((head, [])) => head,
        _ => return Err(damaged),
    };
    if head.program != PROGRAM {
        return Err(RecordError::Program { found: head.program, expected: PROGRAM });
    }
    let config = head.config.checked().map_err(|error| RecordError::Config(error.to_string()))?;
    let faults = head.faults.parse().map_err(|error: PlanError| RecordError::Config(error.to_string()))?;
    Ok(GpuConfig { faults, ..config })
}

/// Device number `number` of a record, which has done nothing yet.
fn device(config: &GpuConfig, journal: &Arc<Journal>, number: u8) -> Result<Arc<Gpu>, RecordError> {
    let region = |size| MmapRegion::new(size).map_err(|error| RecordError::Device(error.to_string()));
    let resources = Resources {
        vram: region(config.vram_size as usize)?,
        doorbells: region(pci::DOORBELL_BAR_SIZE as usize)?,
        system: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
        interrupts: Arc::new(DropsInterrupts),
    };
    let config = GpuConfig { number, ..config.clone() };
    let gpu = Gpu::in_session(config, resources, (Arc::clone(journal), number), None);
    let gpu = Arc::new(gpu.map_err(|error| RecordError::Device(error.to_string()))?);
    gpu.work_on_caller();
    Ok(gpu)
}

impl Replay {
    /// Makes the first device of a record; `traces` are for the events of each device, which come again after the replay has [gone
    /// back](Self::back_to).
    ///
    /// # Errors
    ///
    /// Bytes that are no record, one of another program, or of a device that cannot be.
    pub fn open(record: impl Read + Seek + Send + 'static, traces: TraceSinks) -> Result<Self, RecordError> {
        let (journal, head) = Journal::open(record)?;
        let config = GpuConfig { trace: traces(0), ..configuration(&head)? };
        let gpus = vec![device(&config, &journal, 0)?];
        let begin = journal.player(|player| player.place()).flatten();
        Ok(Self { gpus, journal, config, traces, begin, checkpoints: None, done: 0 })
    }

    /// Keeps checkpoints from now on, which [`Self::back_to`] goes back to, in `bytes` bytes of memory and
    /// one checkpoint more.
    ///
    /// Later checkpoints are closer together than earlier ones. A device with faults has none, as its plan
    /// does not go back, nor have several devices. The results are the same without them.
    pub fn keep_checkpoints(&mut self, bytes: u64) {
        let without = self.config.faults.rules().is_empty() && self.config.faults.chaos().is_none();
        let alone = self.gpus.len() == 1;
        self.checkpoints = (bytes > 0 && without && alone).then(|| Checkpoints::new(bytes));
    }

    /// Number of checkpoints.
    #[must_use]
    pub fn checkpoints(&self) -> usize {
        self.checkpoints.as_ref().map_or(0, Checkpoints::len)
    }

    /// Number of operations that were done, with repetitions.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The devices at this point of the replay, in the order in which they have begun, at least one: others after it has [gone
    /// back](Self::back_to).
    #[must_use]
    pub fn gpus(&self) -> &[Arc<Gpu>] {
        &self.gpus
    }

    /// Goes on to the end of the record, or to the end of the operation that this event is in.
    ///
    /// # Errors
    ///
    /// A record that is damaged or ends early, an event that it does not have or that is over, and the first difference from it.
    pub fn run(&mut self, until: Option<Until>) -> Result<Replayed, RecordError> {
        if let Some(until) = until
            && self.player(|player| player.is_behind(until)).unwrap_or_default()
        {
            return Err(RecordError::Behind(until.to_string()));
        }
        self.player(|player| player.stop_at(until));
        let stopped = loop {
            self.keep_checkpoint();
            match self.step() {
                Ok(()) => {}
                Err(stopped) => break stopped,
            }
        };
        if let Some(failure) = self.player(Player::take_failure).flatten() {
            return Err(failure);
        }
        if let Some(until) = until
            && stopped == Stopped::AtEnd
        {
            return Err(RecordError::NoEvent(until.to_string()));
        }
        let progress = self.player(|player| player.progress()).unwrap_or_default();
        let Progress { operations, events, event, last } = progress;
        // The digest of the first one, where it is alone.
        let digests = self.gpus.iter().map(|gpu| gpu.memory_digest());
        let memory = digests.fold(0, |all: u64, one| all.rotate_left(1) ^ one);
        Ok(Replayed { operations, events, event, last, memory, at_end: stopped == Stopped::AtEnd })
    }

    /// Goes back to the operation that an event is in, or forward: from the nearest checkpoint, or from the beginning of the record.
    ///
    /// The device is another one afterwards.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], and a record that cannot be read again.
    pub fn back_to(&mut self, event: u64) -> Result<Replayed, RecordError> {
        let until = Some(Until { kind: None, number: event });
        if self.go_back(event).is_some_and(|went| went.is_ok()) {
            match self.run(until) {
                Err(RecordError::Diverged(divergence)) => {
                    log::warn!(target: "gpu::record", "a checkpoint was not enough to go on from: {divergence}");
                }
                result => return result,
            }
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.clear();
        }
        let unread = || RecordError::Device("it has begun already".to_owned());
        let begin = self.begin.clone().ok_or_else(unread)?;
        self.journal = self.journal.again(&begin)?;
        self.gpus = vec![device(&self.config, &self.journal, 0)?];
        self.player(Player::open);
        self.run(until)
    }

    /// Goes to the last checkpoint before an event, if there is one.
    fn go_back(&mut self, event: u64) -> Option<Result<(), RecordError>> {
        let place = self.checkpoints.as_mut()?.go_back(event)?.clone();
        Some(self.go_to(&place))
    }

    /// Makes the device of the last checkpoint, which is at this place.
    fn go_to(&mut self, place: &Place) -> Result<(), RecordError> {
        let failed = |error: &dyn fmt::Display| RecordError::Device(error.to_string());
        let Some(checkpoints) = &self.checkpoints else { return Ok(()) };
        let Some(last) = checkpoints.last() else { return Ok(()) };
        self.journal = self.journal.again(place)?;
        let gpu = device(&self.config, &self.journal, 0)?;
        if let (Some(mirror), Some(session)) = (gpu.memory.mirror(), &gpu.session) {
            checkpoints.put_memory(mirror);
            let saved = SavedGpu::from_bytes(&last.device).map_err(|error| failed(&error))?;
            // The session's time begins at 0, as the saved device's did.
            session.time().advance(saved.age());
            gpu.tools.tracer().set_epochs(&last.epochs);
            gpu.runner.pause();
            gpu.take_over(&saved).map_err(|error| failed(&error))?;
            gpu.resume_now();
        }
        self.gpus = vec![gpu];
        self.player(Player::open);
        Ok(())
    }

    /// Keeps a checkpoint, if it is time for one and the device can be saved.
    fn keep_checkpoint(&mut self) {
        let Some(checkpoints) = &mut self.checkpoints else { return };
        let due = |player: &mut Player| {
            let is_due = checkpoints.is_due(player.operations());
            is_due.then(|| player.place()).flatten()
        };
        let Some(gpu) = self.gpus.first() else { return };
        let (Some(place), Some(mirror)) = (self.journal.player(due).flatten(), gpu.memory.mirror()) else {
            return;
        };
        // A snapshot does not contain the work that a pause holds back, and a stopped device has no snapshot.
        if gpu.runner.is_paused() {
            return;
        }
        let saved = gpu.save_with(|| None, |saved| saved.to_bytes());
        if let Ok(Ok(device)) = saved {
            let epochs = gpu.tools.tracer().epochs();
            let (pages, ranges) = (mirror.take_changes(), mirror.ranges());
            checkpoints.add(Checkpoint { place, device, epochs, pages, ranges });
        }
    }

    fn player<R>(&self, ask: impl FnOnce(&mut Player) -> R) -> Option<R> {
        self.journal.player(ask)
    }

    /// Ends the replay with an error.
    fn fail(&self, error: RecordError) -> Stopped {
        self.player(|player| player.fail(error));
        Stopped::AtEnd
    }

    /// Makes another device of the record.
    fn add(&mut self, head: &[u8]) -> Result<(), RecordError> {
        let number = u8::try_from(self.gpus.len()).ok().filter(|&number| number < MAX_DEVICES);
        let number = number.ok_or_else(|| RecordError::Config("one more than a machine has".to_owned()))?;
        let config = GpuConfig { trace: (self.traces)(number), ..configuration(head)? };
        self.gpus.push(device(&config, &self.journal, number)?);
        self.checkpoints = None;
        Ok(())
    }

    /// Does the next operation again.
    fn step(&mut self) -> Result<(), Stopped> {
        let entry = self.player(Player::operation).unwrap_or(Err(Stopped::AtEnd))?;
        self.done += 1;
        let device = match &entry {
            Entry::Turn { device, .. } | Entry::Call { device, .. } | Entry::State { device, .. } => *device,
            Entry::Device(head) => return self.add(head).map_err(|error| self.fail(error)),
            _ => return Err(Stopped::AtEnd),
        };
        let Some(gpu) = self.gpus.get(usize::from(device)) else {
            return Err(self.fail(RecordError::Config(format!("GPU {device}, which has not begun"))));
        };
        let _on = gpu.on_device();
        let Some(session) = &gpu.session else { return Err(Stopped::AtEnd) };
        let ns = match &entry {
            Entry::Turn { ns, .. } | Entry::Call { ns, .. } => *ns,
            _ => {
                self.journal.output(&gpu.digests());
                return Ok(());
            }
        };
        session.time().advance(Duration::from_nanos(ns));
        gpu.begin_operation();
        while let Some((at, value)) = self.player(Player::doorbell).flatten() {
            gpu.doorbells.found(at, value);
        }
        match &entry {
            Entry::Call { call: Call::Peer { number, peer }, .. } => {
                // A refusal is compared, too.
                let _ = gpu.meet(*number, peer.and_then(|peer| self.peer(peer)));
            }
            Entry::Call { call, .. } => {
                // As above.
                let _ = gpu.perform(call);
            }
            _ => {
                gpu.take_turns();
            }
        }
        if self.player(Player::wants_check).unwrap_or_default() {
            self.journal.output(&Entry::Check { memory: gpu.memory_digest() });
        }
        Ok(())
    }

    /// A device as others of the replay reach it.
    fn peer(&self, PeerOf { device, bars }: PeerOf) -> Option<Peer> {
        let gpu = self.gpus.get(usize::from(device))?;
        Some(if bars { gpu.as_peer() } else { gpu.as_peer_of_fabric() })
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay").field("gpus", &self.gpus).field("done", &self.done).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
